/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many connections each address has (of IPv6: each /64), so that one address cannot take the places of all. By a
 * hash: addresses that share a counter share what it stands for.
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

/* Where all places are taken: whether one of an address that has this many is ended for a newcomer, whose address has
 * `newcomers`. Nobody gets a place at the cost of an address that has hardly more. */
static inline bool crowd_gives_way(uint32_t connections, uint32_t newcomers)
{
	return connections > 2 * (newcomers + 1);
}

#endif
