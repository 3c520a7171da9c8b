/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Announces our addresses without being asked, when an interface is added and when its link comes up. If a node was
 * replaced, the new one has another MAC address, and routers would send to the old one until their entries expire. Done
 * by ARP announcements (RFC 5227, 3) and unsolicited advertisements (RFC 4861, 7.2.6).
 */
#include "net/internal.h"

enum { TIMES = 3 };

#define BETWEEN_NS (1000 * NET_MS)

static void announce_interface(struct net *net, struct net_interface *interface)
{
	for (unsigned i = 0; i < interface->addresses_count; i++) {
		const struct net_address *own = &interface->addresses[i].address;

		if (net_address_is_v4(own))
			arp_announce(net, interface, own);
		else
			nd_announce(net, interface, own);
	}
}

void net_announce_timer_fire(struct wheel_timer *timer, uint64_t now_ns)
{
	struct net *net = (struct net *)((char *)timer - offsetof(struct net, announce_timer));

	net->now_ns = now_ns;
	for (unsigned i = 0; i < net->interfaces_count; i++)
		announce_interface(net, net->interfaces[i]);
	if (--net->announcements)
		wheel_arm(&net->wheel, timer, now_ns + BETWEEN_NS);
}

void net_announce(struct net *net)
{
	if (!net->options.announce)
		return;
	net->announce_timer.fire = net_announce_timer_fire;
	net->announcements = TIMES;
	wheel_arm(&net->wheel, &net->announce_timer, net->now_ns);
}
