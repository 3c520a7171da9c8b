/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts the connections of each address (IPv6: of each /64), so that one address cannot take all places. There are
 * CROWDS_COUNT counters, chosen by a hash: addresses with the same counter are treated as one. Belongs to the stack's
 * thread.
 */
#ifndef NET_CROWD_H
#define NET_CROWD_H

#include <rte_jhash.h>
#include <stdbool.h>

#include "net/address.h"

enum { CROWDS_COUNT = 1024 };

struct crowds {
	uint32_t seed; /* random */
	uint32_t connections[CROWDS_COUNT];
};

static inline uint32_t *crowd_of(struct crowds *crowds, const struct net_address *remote)
{
	const struct net_address sharer = net_address_sharer(remote);

	return &crowds->connections[rte_jhash_32b(sharer.words, 4, crowds->seed) % CROWDS_COUNT];
}

/* When the table is full: whether a connection of an address that has `connections` is closed for a new one, whose
 * address has `newcomers`. Only if it has more than twice as many. */
static inline bool crowd_gives_way(uint32_t connections, uint32_t newcomers)
{
	return connections > 2 * (newcomers + 1);
}

#endif
