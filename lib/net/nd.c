/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbour discovery (RFC 4861): solicitations and advertisements of neighbours. neighbour.c decides what to believe
 * of them.
 *
 * Router advertisements and redirects are ignored: gateways are configured, and nobody on the link can become one.
 * Addresses are configured too, and duplicate address detection is not done before their first use (RFC 4862, 5.4).
 * Waiting for it would not make an appliance safer: its node has claimed the addresses on its own machine, and a claim
 * by a second machine shows in the counter address_conflicts. A host that probes for one of our addresses is told that
 * it is taken.
 */
#include "net/internal.h"

enum {
	OPTION_SOURCE_LINK = 1,
	OPTION_TARGET_LINK = 2,
	OPTION_UNIT = 8,
	FLAG_SOLICITED = 0x40,
	FLAG_OVERRIDE = 0x20,
};

struct message {
	uint8_t type, code;
	rte_be16_t checksum;
	uint8_t flags, reserved[3];
	uint8_t target[16];
} __rte_packed;

struct link_option {
	uint8_t type, units;
	struct rte_ether_addr mac;
};

static const struct rte_ether_addr *multicast_mac(const struct net_address *group, struct rte_ether_addr *mac)
{
	*mac = (struct rte_ether_addr){ { 0x33, 0x33, group->bytes[12], group->bytes[13], group->bytes[14],
					  group->bytes[15] } };
	return mac;
}

/* mac: the MAC address of path->remote; NULL: the one in the neighbour table. */
static void send_message(struct net *net, const struct net_path *path, uint8_t type, uint8_t flags,
			 const struct net_address *target, const struct rte_ether_addr *mac)
{
	struct rte_mbuf *m = net_alloc(net);
	struct link_option *option;
	struct message *message;

	if (!m)
		return;
	message = (struct message *)rte_pktmbuf_append(m, sizeof(*message) + sizeof(*option));
	option = (struct link_option *)(message + 1);
	*message = (struct message){ .type = type, .flags = flags };
	memcpy(message->target, target->bytes, sizeof(message->target));
	option->type = type == ND_SOLICITATION ? OPTION_SOURCE_LINK : OPTION_TARGET_LINK;
	option->units = sizeof(*option) / OPTION_UNIT;
	option->mac = path->interface->options.mac;
	message->checksum = (uint16_t)~checksum_transport(&path->local, &path->remote, IPPROTO_ICMPV6, message,
							  rte_pktmbuf_data_len(m));
	net_send_link(net, path, m, IPPROTO_ICMPV6, NET_LINK_HOP_LIMIT, mac);
}

void nd_ask(struct net *net, struct net_interface *interface, const struct net_address *address,
	    const struct rte_ether_addr *mac)
{
	const struct net_interface_address *own = net_on_link(interface, address);
	struct net_path path = { .interface = interface, .remote = *address };
	struct rte_ether_addr group;

	path.local = own ? own->address : interface->link_local;
	if (!mac) {
		path.remote = net_address_solicited_node(address);
		mac = multicast_mac(&path.remote, &group);
	}
	send_message(net, &path, ND_SOLICITATION, 0, address, mac);
}

void nd_announce(struct net *net, struct net_interface *interface, const struct net_address *own)
{
	const struct net_path path = { .interface = interface, .local = *own, .remote = net_address_all_nodes() };
	struct rte_ether_addr group;

	send_message(net, &path, ND_ADVERTISEMENT, FLAG_OVERRIDE, own, multicast_mac(&path.remote, &group));
}

/* The MAC address in a message's options; false: the options are malformed. */
static bool find_link(const uint8_t *option, unsigned bytes, uint8_t type, const struct rte_ether_addr **mac)
{
	*mac = NULL;
	while (bytes) {
		const unsigned length = bytes < 2 ? 0 : option[1] * OPTION_UNIT;

		if (length == 0 || length > bytes)
			return false;
		if (option[0] == type && length == sizeof(struct link_option)) {
			*mac = &((const struct link_option *)option)->mac;
			if (!rte_is_valid_assigned_ether_addr(*mac))
				return false;
		}
		option += length;
		bytes -= length;
	}
	return true;
}

/* Answers the host that asked, or all nodes if it has no address yet. */
static void answer_solicitation(struct net *net, const struct net_packet *p, const struct net_address *target,
				const struct rte_ether_addr *mac)
{
	struct net_path path = { .interface = p->interface, .local = *target, .remote = p->from };
	struct rte_ether_addr group;
	uint8_t flags = FLAG_OVERRIDE | FLAG_SOLICITED;

	if (net_address_is_none(&p->from)) {
		path.remote = net_address_all_nodes();
		mac = multicast_mac(&path.remote, &group);
		flags = FLAG_OVERRIDE;
	}
	if (mac)
		send_message(net, &path, ND_ADVERTISEMENT, flags, target, mac);
}

static bool solicited(struct net *net, const struct net_packet *p, const struct message *message, unsigned bytes)
{
	const struct net_address target = net_address_v6(message->target);
	const bool probe = net_address_is_none(&p->from);
	const struct rte_ether_addr *mac;

	if (!find_link((const uint8_t *)(message + 1), bytes - (unsigned)sizeof(*message), OPTION_SOURCE_LINK, &mac) ||
	    (probe && (mac || !net_address_is_multicast6(&p->to))))
		return false;
	if (!net_is_own(p->interface, &target))
		return true;
	if (mac && net_on_link(p->interface, &p->from))
		net_neighbour_heard(net, p->interface, &p->from, mac, NEIGHBOUR_ASKS);
	/* Without a MAC address it is a neighbour that knows us and checks whether we are still here. */
	if (!mac && !probe)
		mac = net_neighbour_known(net, p->interface, &p->from);
	if (!net->options.neighbours_silent)
		answer_solicitation(net, p, &target, mac);
	return true;
}

static bool advertised(struct net *net, const struct net_packet *p, const struct message *message, unsigned bytes)
{
	const struct net_address target = net_address_v6(message->target);
	const bool for_us = message->flags & FLAG_SOLICITED && !net_address_is_multicast6(&p->to);
	const struct rte_ether_addr *mac, *known;

	if (!find_link((const uint8_t *)(message + 1), bytes - (unsigned)sizeof(*message), OPTION_TARGET_LINK, &mac) ||
	    (message->flags & FLAG_SOLICITED && net_address_is_multicast6(&p->to)))
		return false;
	if (net_is_own(p->interface, &target)) {
		net->counters.address_conflicts++;
		return true;
	}
	known = net_neighbour_known(net, p->interface, &target);
	if (!mac)
		mac = known; /* it confirms the known address */
	/* An advertisement without the override flag may come from a proxy, and does not change a known address. */
	if (!mac || (known && !(message->flags & FLAG_OVERRIDE) && !rte_is_same_ether_addr(known, mac)))
		return true;
	net_neighbour_heard(net, p->interface, &target, mac, for_us ? NEIGHBOUR_ANSWERS : NEIGHBOUR_ANNOUNCES);
	return true;
}

void nd_input(struct net *net, struct rte_mbuf *m, const struct net_packet *p)
{
	const struct message *message = rte_pktmbuf_mtod(m, const struct message *);
	const struct rte_ipv6_hdr *ip = p->header;
	const unsigned bytes = rte_pktmbuf_data_len(m);
	bool good = false;

	/* A hop limit below 255 means that a router has forwarded the packet, so it is not from this link (RFC 4861,
	 * 11.2). */
	if (bytes >= sizeof(*message) && ip->hop_limits == NET_LINK_HOP_LIMIT && message->code == 0 &&
	    message->target[0] != 0xff)
		good = message->type == ND_SOLICITATION ? solicited(net, p, message, bytes)
							: advertised(net, p, message, bytes);
	if (good)
		rte_pktmbuf_free(m);
	else
		NET_DROP(net, m, nd_bad);
}
