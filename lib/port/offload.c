/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of a driver's offloads are used. RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE never is: TCP keeps references to what it has sent.
 * Nor is LRO, and no frame is received in pieces.
 */
#include "port/internal.h"

#include <string.h>

enum {
	SEGMENTS_MIN = 3,  /* headers and a payload, and one more */
	SEGMENTS_MAX = 64, /* a frame of TSO_BYTES at an MTU of 1500 has 46: rings hold several such */
	TSO_BYTES = 65535, /* lengths of frames have 16 bits in many a NIC */
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

static uint64_t receive_offloads(struct port *port, const struct config_port *config, uint64_t capable)
{
	const uint64_t checksums = capable & RTE_ETH_RX_OFFLOAD_CHECKSUM;
	const uint64_t vlan = config->vlan ? capable & RTE_ETH_RX_OFFLOAD_VLAN_STRIP : 0;

	port->offloads |= (checksums ? OFFLOAD_RX_CHECKSUM : 0) | (vlan ? OFFLOAD_RX_VLAN : 0);
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
		/* The virtual drivers put the tag in by software, and refuse mbufs that TCP keeps for retransmission. */
		return config->vlan && port_is_pci(config);
	default:
		return true;
	}
}

void port_choose_offloads(struct port *port, const struct config_port *config, const struct rte_eth_dev_info *info,
			  struct rte_eth_conf *conf)
{
	const uint16_t segments = info->tx_desc_lim.nb_seg_max;

	port->tso_bytes = TSO_BYTES;
	port->tso_segments = segments == 0 ? SEGMENTS_MAX : RTE_MIN(segments, (uint16_t)SEGMENTS_MAX);
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
