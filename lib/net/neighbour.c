/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The neighbours on a link: one bounded, set-associative table for ARP and neighbour discovery, with the states of RFC
 * 4861, 7.3: asked for, confirmed by an answer, gone stale, asked again. Entries age when they are used; only the
 * frames that wait for an answer need a timer.
 *
 * Hard to poison: an entry is made for an address that we ask for, or for a neighbour that asks for us; a link address
 * is believed from an answer that we have asked for, or where there is none yet. Whoever claims that an address has
 * moved only makes us ask the station that had it: when that one is silent, everybody is asked. Questions have a rate.
 */
#include "net/internal.h"

#include "base/hash.h"

enum {
	TRIES = 3, /* RFC 4861, 10: MAX_MULTICAST_SOLICIT and MAX_UNICAST_SOLICIT */
	ASKS_PER_SECOND = 1000,
	ASKS_BURST = 1000,
};

#define WAIT_NS (3000 * NET_MS) /* how long a frame waits for address resolution */

static const uint32_t retry = NEIGHBOUR_TICKS(1000); /* between two requests for one address */
static const uint32_t unused =
	NEIGHBOUR_TICKS(600000); /* after this time an entry is worth no more than one that was never confirmed */

static uint32_t ticks(const struct net *net)
{
	return (uint32_t)(net->now_ns >> 20);
}

static struct neighbour *find_set(const struct net *net, struct net_interface *interface,
				  const struct net_address *address)
{
	const uint64_t hash = hash_mix(address->halves[1] ^ hash_mix(address->halves[0] ^ net->options.secret[1]));

	return interface->neighbours[hash % NEIGHBOUR_SETS];
}

static struct neighbour *find_neighbour(const struct net *net, struct net_interface *interface,
					const struct net_address *address)
{
	struct neighbour *set = find_set(net, interface, address);

	for (int i = 0; i < NEIGHBOUR_WAYS; i++)
		if (net_address_equal(&set[i].address, address))
			return &set[i];
	return NULL;
}

static void drop_pending(struct net *net, struct neighbour *n)
{
	net->neighbour_pending -= n->pending_count;
	for (int i = 0; i < n->pending_count; i++)
		NET_DROP(net, n->pending[i], neighbour_unresolved);
	n->pending_count = 0;
}

/* Waiting frames are dropped after a few seconds: answers to forged addresses would wait for ever. */
static void arm_timer(struct net *net)
{
	if (net->neighbour_pending && !wheel_armed(&net->neighbour_timer))
		wheel_arm(&net->wheel, &net->neighbour_timer, net->now_ns + WAIT_NS);
}

void net_neighbour_timer_fire(struct wheel_timer *timer, uint64_t now_ns)
{
	struct net *net = (struct net *)((char *)timer - offsetof(struct net, neighbour_timer));

	net->now_ns = now_ns;
	for (unsigned i = 0; i < net->interfaces_count; i++)
		for (unsigned j = 0; j < NEIGHBOUR_SETS * NEIGHBOUR_WAYS && net->neighbour_pending; j++) {
			struct neighbour *n = &net->interfaces[i]->neighbours[j / NEIGHBOUR_WAYS][j % NEIGHBOUR_WAYS];

			if (n->pending_count && ticks(net) - n->queued >= (uint32_t)(WAIT_NS >> 20))
				drop_pending(net, n);
		}
	arm_timer(net);
}

static void queue(struct net *net, struct neighbour *n, struct rte_mbuf *frame)
{
	if (n->pending_count == NEIGHBOUR_PENDING_MAX ||
	    net->neighbour_pending >= net->memory.pool->size / NEIGHBOUR_PENDING_SHARE) {
		NET_DROP(net, frame, neighbour_unresolved);
		return;
	}
	n->pending[n->pending_count++] = frame;
	n->queued = ticks(net);
	net->neighbour_pending++;
	arm_timer(net);
}

/* An entry's worth when another address needs its slot. */
static unsigned worth(const struct net *net, const struct neighbour *n)
{
	if (net_address_is_none(&n->address))
		return 0;
	if (!n->known)
		return 1;
	return n->confirmed && ticks(net) - n->heard < unused ? 3 : 2;
}

/* A new entry for an address, in place of the least valuable one of its set, and of these the oldest. A host that only
 * asks for us gets no entry if all entries of the set are confirmed: NULL. */
static struct neighbour *make_neighbour(struct net *net, struct net_interface *interface,
					const struct net_address *address, bool asked_for)
{
	struct neighbour *set = find_set(net, interface, address), *victim = &set[0];

	for (int i = 1; i < NEIGHBOUR_WAYS; i++) {
		const unsigned a = worth(net, &set[i]), b = worth(net, victim);

		if (a < b || (a == b && ticks(net) - set[i].heard > ticks(net) - victim->heard))
			victim = &set[i];
	}
	if (!asked_for && worth(net, victim) == 3)
		return NULL;
	drop_pending(net, victim);
	*victim = (struct neighbour){ .address = *address, .heard = ticks(net) };
	return victim;
}

static bool may_ask(struct net *net)
{
	return bucket_take(&net->neighbour_asks, net->now_ns, ASKS_PER_SECOND, ASKS_BURST);
}

static void ask_neighbour(struct net *net, struct net_interface *interface, struct neighbour *n)
{
	n->asked = ticks(net);
	n->tries++;
	net->counters.neighbour_solicits++;
	if (net_address_is_v4(&n->address))
		arp_ask(net, interface, &n->address, n->known ? &n->mac : NULL);
	else
		nd_ask(net, interface, &n->address, n->known ? &n->mac : NULL);
}

static void learn(struct net *net, struct neighbour *n, const struct rte_ether_addr *mac)
{
	n->mac = *mac;
	n->known = 1;
	n->tries = 0;
	for (int i = 0; i < n->pending_count; i++) {
		rte_pktmbuf_mtod(n->pending[i], struct rte_ether_hdr *)->dst_addr = *mac;
		net_transmit(net, n->pending[i]);
	}
	net->neighbour_pending -= n->pending_count;
	n->pending_count = 0;
}

static void confirm(struct net *net, struct neighbour *n)
{
	n->tries = 0;
	n->heard = ticks(net);
	n->confirmed = 1;
}

/* The host that had the address is asked now, and once more when the entry is used next; without an answer it counts as
 * gone. */
static void doubt(struct net *net, struct net_interface *interface, struct neighbour *n)
{
	net->counters.neighbour_conflicts++;
	if (ticks(net) - n->asked < retry || !may_ask(net))
		return;
	n->tries = RTE_MAX(n->tries, (uint8_t)(TRIES - 2));
	ask_neighbour(net, interface, n);
}

void net_neighbour_heard(struct net *net, struct net_interface *interface, const struct net_address *address,
			 const struct rte_ether_addr *mac, enum neighbour_news news)
{
	struct neighbour *n = find_neighbour(net, interface, address);

	if (!n) {
		if (news == NEIGHBOUR_ASKS) {
			n = make_neighbour(net, interface, address, false);
			if (n)
				learn(net, n, mac);
		}
		return;
	}
	if (!n->known) {
		if (news == NEIGHBOUR_ASKS || (news == NEIGHBOUR_ANSWERS && n->tries)) {
			learn(net, n, mac);
			if (news == NEIGHBOUR_ANSWERS)
				confirm(net, n);
		}
	} else if (!rte_is_same_ether_addr(&n->mac, mac)) {
		doubt(net, interface, n);
	} else if (news == NEIGHBOUR_ANSWERS && n->tries) {
		confirm(net, n);
	}
}

/* Whether an entry can still be used. If it was not confirmed for a long time, asks again. */
static bool usable(struct net *net, struct net_interface *interface, struct neighbour *n)
{
	if (n->tries == 0 || ticks(net) - n->asked >= retry) {
		if (n->tries >= TRIES) { /* gone, or moved: ask by broadcast from now on */
			n->known = n->tries = 0;
			return false;
		}
		if (may_ask(net))
			ask_neighbour(net, interface, n);
	}
	return true;
}

const struct rte_ether_addr *net_neighbour_resolve(struct net *net, struct net_interface *interface,
						   const struct net_address *address, struct rte_mbuf *frame)
{
	struct neighbour *n = interface->last_neighbour;

	if (unlikely(!n || !net_address_equal(&n->address, address)))
		interface->last_neighbour = n = find_neighbour(net, interface, address);
	if (likely(n && n->known)) {
		if (likely(neighbour_is_sure(net, n, address)))
			return &n->mac;
		if (usable(net, interface, n))
			return &n->mac;
	}
	if (!n || n->tries == 0 || ticks(net) - n->asked >= retry) {
		if (!may_ask(net)) { /* so that a flood from forged addresses cannot evict entries */
			NET_DROP(net, frame, neighbour_limited);
			return NULL;
		}
		if (!n)
			n = make_neighbour(net, interface, address, true);
		if (n->tries >= TRIES) {
			drop_pending(net, n);
			n->tries = 0;
		}
		ask_neighbour(net, interface, n);
	}
	queue(net, n, frame);
	return NULL;
}

const struct rte_ether_addr *net_neighbour_known(const struct net *net, struct net_interface *interface,
						 const struct net_address *address)
{
	const struct neighbour *n = find_neighbour(net, interface, address);

	return n && n->known ? &n->mac : NULL;
}

void net_neighbour_fini(struct net *net, struct net_interface *interface)
{
	for (int i = 0; i < NEIGHBOUR_SETS; i++)
		for (int j = 0; j < NEIGHBOUR_WAYS; j++)
			drop_pending(net, &interface->neighbours[i][j]);
}
