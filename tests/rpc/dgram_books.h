/* SPDX-License-Identifier: BSD-3-Clause */
/* What must hold of an endpoint between two calls, whatever its peers say. For the simulator and for the fuzz
 * target. */
#ifndef TESTS_RPC_DGRAM_BOOKS_H
#define TESTS_RPC_DGRAM_BOOKS_H

#include "rpc/dgram_internal.h"

static inline uint32_t books_chain(const struct dgram_chain *c)
{
	uint32_t n = 0;

	for (struct rte_mbuf *m = c->first; m; m = dgram_priv(m)->newer)
		n++;
	return n;
}

/* What a session has sent. NULL: all is right. */
static inline const char *books_of_sent(const struct dgram_session *s)
{
	const uint32_t mask = s->dgram->window_mask;
	uint32_t held = 0;

	if (s->tx_next - s->tx_una > mask + 1)
		return "more is in flight than the window has places";
	if (s->tx_held == 0 && s->tx_una != s->tx_next)
		return "all is acknowledged, but tx_una is not tx_next";
	if (!s->window != (s->tx_held == 0))
		return "a window is kept without need, or missing";
	for (uint32_t i = 0; s->window && i <= mask; i++) {
		const uint32_t number = s->tx_una + i;
		struct rte_mbuf *m = s->window->packets[number & mask];

		if (m && i >= s->tx_next - s->tx_una)
			return "a free place of a window holds a packet";
		if (m && dgram_priv(m)->number != number)
			return "a packet has the place of another one";
		held += !!m;
	}
	if (held != s->tx_held)
		return "tx_held is not the packets in the window";
	if (books_chain(&s->in_flight) != s->tx_in_flight || books_chain(&s->lost) != s->tx_held - s->tx_in_flight)
		return "packets in flight and lost ones do not add up";
	return NULL;
}

static inline const char *books_of_received(const struct dgram_session *s)
{
	if (number_before(s->rx_limit, s->rx_edge) || number_before(s->rx_edge, s->rx_next) ||
	    s->rx_limit - s->rx_next > s->dgram->options.window_max)
		return "edges";
	return NULL;
}

/* Of the pools: free places hold nothing, and none is missing. */
static inline const char *books_of_pools(const struct dgram *d)
{
	uint32_t windows = 0, reorders = 0, free = 0;

	for (uint32_t i = 0; i < d->sessions_made; i++) {
		windows += d->all[i].state != DGRAM_FREE && d->all[i].window;
		reorders += d->all[i].state != DGRAM_FREE && d->all[i].reorder;
	}
	for (const struct dgram_window *w = d->windows; w; w = w->next, windows++, free++)
		for (uint32_t i = 0; i <= d->window_mask; i++)
			if (w->packets[i])
				return "a window that is free holds a packet";
	for (const struct dgram_reorder *r = d->reorders; r; r = r->next, reorders++)
		for (uint32_t i = 0; i < DGRAM_WINDOW_MAX / 64; i++)
			if (r->count || r->present[i])
				return "a reorder ring that is free holds packets";
	return windows == d->options.active_max && free == d->windows_free && reorders == d->options.active_max
		       ? NULL
		       : "windows are missing";
}

/* What each address has. */
static inline const char *books_of_peers(const struct dgram *d)
{
	uint64_t have[3] = { 0 }, count[3] = { 0 };

	for (uint32_t i = 0; i < d->sessions_made; i++) {
		const struct dgram_session *s = &d->all[i];

		if (s->state == DGRAM_FREE)
			continue;
		const struct net_address sharer = net_address_sharer(&s->flow.path.remote);

		if (!s->peer || !net_address_equal(&s->peer->address, &sharer))
			return "a session is counted for another address";
		count[0]++;
		count[1] += s->tx_queued + s->tx_held;
		count[2] += !!s->window;
	}
	for (uint32_t i = 0; i <= d->hash_mask; i++)
		for (uint32_t at = d->peers_hash[i]; at; at = d->peers[at - 1].next) {
			have[0] += d->peers[at - 1].sessions;
			have[1] += d->peers[at - 1].mbufs;
			have[2] += d->peers[at - 1].windows;
		}
	return memcmp(have, count, sizeof(have)) ? "shares of addresses" : NULL;
}

/* What sessions have together. */
static inline const char *books_of_shares(const struct dgram *d)
{
	uint32_t sessions = 0, actives = 0, charge = 0, held = 0;

	for (uint32_t i = 0; i < d->sessions_made; i++) {
		const struct dgram_session *s = &d->all[i];

		if (s->state == DGRAM_FREE)
			continue;
		sessions++;
		actives += !!(s->flags & DGRAM_ACTIVE);
		charge += s->rx_charge;
		held += s->message_mbufs + (s->reorder ? s->reorder->count : 0);
	}
	if (sessions != d->sessions)
		return "sessions";
	if (actives != d->actives || charge != d->credits_out)
		return "credit";
	if (held + d->held_whole != d->held || d->held > 2 * d->options.held_mbufs_max)
		return "mbufs of messages";
	return NULL;
}

static inline const char *books_wrong(const struct dgram *d)
{
	const char *wrong = NULL;

	for (uint32_t i = 0; i < d->sessions_made && !wrong; i++) {
		const struct dgram_session *s = &d->all[i];

		if (s->state == DGRAM_FREE)
			continue;
		wrong = books_of_sent(s);
		if (!wrong)
			wrong = books_of_received(s);
	}
	if (!wrong)
		wrong = books_of_peers(d);
	return wrong ? wrong : books_of_shares(d);
}

#endif
