/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses which of a driver's offloads are used. RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE never is, because TCP keeps
 * references to what it has sent. Neither is LRO, and no frame is received in several mbufs.
 */
#include "port/internal.h"

#include <string.h>

enum {
	SEGMENTS_MIN = 3,  /* headers, a payload, and one more */
	SEGMENTS_MAX = 64, /* a frame of TSO_BYTES at an MTU of 1500 has 46: rings hold several such frames */
	TSO_BYTES = 65535, /* many NICs have 16 bits for the length of a frame */
};

static const struct {
	uint64_t capability;
	enum offload offload;
} transmit[] = {
	{ RTE_ETH_TX_OFFLOAD_IPV4_CKSUM, OFFLOAD_TX_IP4_CHECKSUM },
	{ RTE_ETH_TX_OFFLOAD_TCP_CKSUM, OFFLOAD_TX_TCP_CHECKSUM },
	{ RTE_ETH_TX_OFFLOAD_UDP_CKSUM, OFFLOAD_TX_UDP_CHECKSUM },
	{ RTE_ETH_TX_OFFLOAD_MULTI_SEGS, OFFLOAD_TX_SEGMENTS },
	{ RTE_ETH_TX_OFFLOAD_TCP_TSO, OFFLOAD_TX_TSO },
	{ RTE_ETH_TX_OFFLOAD_VLAN_INSERT, OFFLOAD_TX_VLAN },
};

/*
 * Sources, in DPDK's repository:
 *
 * - vmxnet3: commit 8fb18591f8 (23.07) limits a TSO frame to 24 descriptors (VMXNET3_MAX_TSO_TXD_PER_PKT in
 *   base/vmxnet3_defs.h), which devices with UPT require; 22.11 announces 255 (VMXNET3_TX_MAX_SEG), and has no limit of
 *   its own.
 * - ENA: 22.11's ena_ethdev.c announces the device's max_tx_sgl_size, at most ENA_PKT_MAX_BUFS, which is 17, but
 *   eth_ena_prep_pkts refuses a frame of as many: one less can be sent.
 * - vmxnet3: 22.11's vmxnet3_rxtx.c (vmxnet3_dev_rxtx_init) fills two rings, each of as many descriptors as were
 *   requested for a queue.
 * - virtio: 22.11's virtio_rxtx.c (virtio_xmit_pkts_prepare) calls rte_vlan_insert, which refuses an mbuf with a second
 *   reference.
 */
static const struct port_quirks quirks[] = {
	{ .driver = "net_vmxnet3", .tso_segments = 24, .receive_rings = 2 },
	{ .driver = "net_ena", .last_segment_refused = true },
	{ .driver = "net_virtio", .vlan_by_software = true },
};

uint16_t port_receive_descriptors(const struct rte_eth_dev_info *info)
{
	const uint16_t rings = port_quirks(info)->receive_rings;

	return CONFIG_DESCRIPTORS / RTE_MAX(rings, 1);
}

const struct port_quirks *port_quirks(const struct rte_eth_dev_info *info)
{
	static const struct port_quirks none;

	for (unsigned i = 0; info->driver_name && i < RTE_DIM(quirks); i++)
		if (strcmp(info->driver_name, quirks[i].driver) == 0)
			return &quirks[i];
	return &none;
}

static uint64_t receive_offloads(struct port *port, const struct config_port *config, uint64_t capable)
{
	const uint64_t checksums = capable & RTE_ETH_RX_OFFLOAD_CHECKSUM;
	/* The filter is enabled too, because a device with a filter may drop all tagged frames until it is configured
	 * (virtio). */
	const uint64_t vlan =
		config->vlan ? capable & (RTE_ETH_RX_OFFLOAD_VLAN_STRIP | RTE_ETH_RX_OFFLOAD_VLAN_FILTER) : 0;

	port->offloads |=
		(checksums ? OFFLOAD_RX_CHECKSUM : 0) | (vlan & RTE_ETH_RX_OFFLOAD_VLAN_STRIP ? OFFLOAD_RX_VLAN : 0);
	return checksums | vlan;
}

static bool is_wanted(const struct port *port, const struct config_port *config, const struct rte_eth_dev_info *info,
		      enum offload offload)
{
	const uint32_t tso_needs = OFFLOAD_TX_TCP_CHECKSUM | OFFLOAD_TX_SEGMENTS;

	switch (offload) {
	case OFFLOAD_TX_SEGMENTS:
		return info->tx_desc_lim.nb_mtu_seg_max == 0 || info->tx_desc_lim.nb_mtu_seg_max >= SEGMENTS_MIN;
	case OFFLOAD_TX_TSO:
		return (port->offloads & tso_needs) == tso_needs && port->tso_segments >= SEGMENTS_MIN;
	case OFFLOAD_TX_VLAN:
		/* Virtual drivers do the same. */
		return config->vlan && port_is_pci(config) && !port_quirks(info)->vlan_by_software;
	default:
		return true;
	}
}

void port_choose_offloads(struct port *port, const struct config_port *config, const struct rte_eth_dev_info *info,
			  struct rte_eth_conf *conf)
{
	const struct port_quirks *quirk = port_quirks(info);
	const uint16_t announced = info->tx_desc_lim.nb_seg_max, known = quirk->tso_segments;
	const uint16_t segments = announced && quirk->last_segment_refused ? announced - 1 : announced;

	port->tso_bytes = TSO_BYTES;
	port->tso_segments = announced == 0 ? SEGMENTS_MAX : RTE_MIN(segments, (uint16_t)SEGMENTS_MAX);
	if (known && known < port->tso_segments)
		port->tso_segments = known;
	port->offloads = strcmp(config->device, "net_memif") == 0 ? OFFLOAD_MEMORY : 0;
	conf->rxmode.offloads = receive_offloads(port, config, info->rx_offload_capa);
	for (unsigned i = 0; i < RTE_DIM(transmit); i++)
		if (info->tx_offload_capa & transmit[i].capability &&
		    is_wanted(port, config, info, transmit[i].offload)) {
			conf->txmode.offloads |= transmit[i].capability;
			port->offloads |= transmit[i].offload;
		}
}

const char *port_offload_text(unsigned i)
{
	static const char *const texts[] = {
#define X(bit, NAME, name, text) [bit] = name,
		OFFLOADS(X)
#undef X
	};

	return i < RTE_DIM(texts) ? texts[i] : NULL;
}
