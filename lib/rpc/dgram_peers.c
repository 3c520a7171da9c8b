/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shares by peer address (with IPv6: by /64) of an endpoint that accepts sessions. Three resources are scarce compared
 * with what one address can ask for: places for sessions, windows to send from, and mbufs that wait for
 * acknowledgements.
 *
 * - When all places are taken, an address with fewer sessions than another one gets a place: the idlest session of the
 *   larger share is ended. Nobody gets a place by ending sessions of a smaller share, except those that nobody has used
 *   for long.
 * - An address gets a window only while it holds at most PEER_WINDOW_SHARE times as many as are free, so some are
 *   always free (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998).
 * - If an address has half of the mbufs unacknowledged, its requests wait; less is enough when mbufs are short.
 */
#include <errno.h>

#include "net/siphash.h"
#include "rpc/dgram_internal.h"

#define UNUSED_NS (60000 * DGRAM_MS) /* a session without data for this long gives way to any other */
enum {
	LOOKED_AT = 64, /* sessions that are examined: if a share is too large, one of this many will be its */
};

static uint32_t *bucket(struct dgram *d, const struct net_address *address)
{
	return &d->peers_hash[siphash(d->options.secret, address->halves, 2) & d->hash_mask];
}

static struct dgram_peer *find_peer(struct dgram *d, const struct net_address *address)
{
	for (uint32_t at = *bucket(d, address); at; at = d->peers[at - 1].next)
		if (net_address_equal(&d->peers[at - 1].address, address))
			return &d->peers[at - 1];
	return NULL;
}

/* There are as many entries as sessions, and one more for a session that moves to another address. */
static struct dgram_peer *make_peer(struct dgram *d, const struct net_address *address)
{
	uint32_t *at = bucket(d, address);
	struct dgram_peer *peer = d->peers_free ? &d->peers[d->peers_free - 1] : &d->peers[d->peers_made++];

	if (d->peers_free)
		d->peers_free = peer->next;
	*peer = (struct dgram_peer){ .address = *address, .next = *at };
	*at = (uint32_t)(peer - d->peers) + 1;
	return peer;
}

static void drop_peer(struct dgram *d, struct dgram_peer *peer)
{
	const uint32_t own = (uint32_t)(peer - d->peers) + 1;
	uint32_t *at = bucket(d, &peer->address);

	while (*at != own)
		at = &d->peers[*at - 1].next;
	*at = peer->next;
	peer->next = d->peers_free;
	d->peers_free = own;
}

void dgram_peer_join(struct dgram_session *s)
{
	struct dgram *d = s->dgram;
	const struct net_address sharer = net_address_sharer(&s->flow.path.remote);
	struct dgram_peer *peer = find_peer(d, &sharer);

	if (!peer)
		peer = make_peer(d, &sharer);
	peer->sessions++;
	peer->mbufs += s->tx_queued + s->tx_held;
	peer->windows += !!s->window;
	s->peer = peer;
}

void dgram_peer_leave(struct dgram_session *s)
{
	struct dgram_peer *peer = s->peer;

	peer->mbufs -= s->tx_queued + s->tx_held;
	peer->windows -= !!s->window;
	if (--peer->sessions == 0)
		drop_peer(s->dgram, peer);
	s->peer = NULL;
}

void dgram_peer_move(struct dgram_session *s)
{
	const struct net_address sharer = net_address_sharer(&s->flow.path.remote);

	if (net_address_equal(&s->peer->address, &sharer))
		return;
	dgram_peer_leave(s);
	dgram_peer_join(s);
}

bool dgram_over_share(const struct dgram_session *s)
{
	const struct net *net = s->dgram->net;

	return s->peer->mbufs > net_pool(net)->size >> (1 + 2 * net_pressure(net));
}

/* When it last received anything but keepalives. */
static uint64_t used_ns(const struct dgram_session *s)
{
	return RTE_MAX(s->data_ns, s->opening_ns);
}

static bool gives_way(const struct dgram_session *s, uint32_t newcomers, uint64_t now_ns)
{
	return s->state == DGRAM_OPEN && (s->peer->sessions > newcomers + 1 || now_ns - used_ns(s) >= UNUSED_NS);
}

/* Of two sessions, the one of the larger share gives way; of two of the same share, the one used longer ago. */
static bool is_before(const struct dgram_session *s, const struct dgram_session *other)
{
	if (s->peer->sessions != other->peer->sessions)
		return s->peer->sessions > other->peer->sessions;
	return used_ns(s) < used_ns(other);
}

bool dgram_peer_make_place(struct dgram *d, const struct net_address *address, uint64_t now_ns)
{
	const struct net_address sharer = net_address_sharer(address);
	const struct dgram_peer *peer = find_peer(d, &sharer);
	const uint32_t newcomers = peer ? peer->sessions : 0;
	struct dgram_session *worst = NULL;

	for (unsigned i = 0; i < RTE_MIN(d->sessions_made, (uint32_t)LOOKED_AT); i++) {
		struct dgram_session *s = &d->all[d->peers_hand++ % d->sessions_made];

		if (gives_way(s, newcomers, now_ns) && (!worst || is_before(s, worst)))
			worst = s;
	}
	if (!worst)
		return false;
	d->counters.evicted++;
	dgram_open_send_close(worst);
	dgram_session_end(worst, ETIMEDOUT);
	return true;
}
