/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The multicast groups of a port with IPv6 addresses, to which neighbour solicitations are sent (RFC 4861; RFC 2464,
 * 7): a NIC only delivers groups that it was told about. DPDK's drivers tell their NICs. The NIC of a kernel interface
 * is told by the kernel, if a socket has joined the group: a packet socket that receives nothing joins, for as long as
 * the port is open.
 */
#include "port/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

enum { GROUPS_MAX = CONFIG_ADDRESSES_MAX + 2 }; /* plus the all-nodes group and that of the link-local address */

struct groups {
	struct rte_ether_addr macs[GROUPS_MAX];
	unsigned count;
};

static void add_group_of(struct groups *g, uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	g->macs[g->count++] = (struct rte_ether_addr){ { 0x33, 0x33, a, b, c, d } };
}

static void find_groups(const struct port *port, const struct config_port *config, struct groups *g)
{
	const uint8_t *mac = port->mac.addr_bytes;
	struct in6_addr address;

	g->count = 0;
	for (uint32_t i = 0; i < config->addresses_count; i++)
		if (inet_pton(AF_INET6, config->addresses[i].host, &address) == 1)
			add_group_of(g, 0xff, address.s6_addr[13], address.s6_addr[14], address.s6_addr[15]);
	if (g->count == 0)
		return;
	add_group_of(g, 0xff, mac[3], mac[4], mac[5]);
	add_group_of(g, 0, 0, 0, 1);
}

static int join_kernel(const struct groups *g, const char *interface, int *fd)
{
	struct packet_mreq request = { .mr_ifindex = (int)if_nametoindex(interface),
				       .mr_type = PACKET_MR_MULTICAST,
				       .mr_alen = RTE_ETHER_ADDR_LEN };

	*fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return -errno;
	for (unsigned i = 0; i < g->count; i++) {
		memcpy(request.mr_address, &g->macs[i], RTE_ETHER_ADDR_LEN);
		if (setsockopt(*fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof(request)) != 0)
			return -errno;
	}
	return 0;
}

void port_join_groups(struct port *port, const struct config_port *config)
{
	struct groups g;
	int ret;

	port->groups_fd = -1;
	find_groups(port, config, &g);
	if (g.count == 0)
		return;
	if (port_is_af_packet(config) || port_is_af_xdp(config)) {
		ret = join_kernel(&g, config->interface, &port->groups_fd);
	} else {
		ret = rte_eth_dev_set_mc_addr_list(port->id, g.macs, g.count);
		if (ret != 0)
			ret = rte_eth_allmulticast_enable(port->id);
		if (ret != 0 && !port_is_pci(config))
			ret = 0; /* a device without a filter */
	}
	if (ret != 0)
		log_warn("port %s cannot be told which multicast frames it needs (%s): if it filters them, nobody "
			 "finds its IPv6 addresses",
			 port->name, strerror(-ret));
}

void port_leave_groups(struct port *port)
{
	if (port->groups_fd >= 0)
		close(port->groups_fd);
}
