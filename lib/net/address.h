/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An IP address of either family in one shape: IPv4 is kept as ::ffff:a.b.c.d (RFC 4291, 2.5.5.2), which never stands in a
 * packet. Pure functions.
 */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <rte_byteorder.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct net_address {
	union {
		uint8_t bytes[16];
		rte_be32_t words[4];
		uint64_t halves[2];
	};
};
_Static_assert(sizeof(struct net_address) == 16, "net_address");

static inline struct net_address net_address_v4(rte_be32_t v4)
{
	return (struct net_address){ .words = { 0, 0, RTE_BE32(0xffff), v4 } };
}

static inline struct net_address net_address_v6(const void *bytes)
{
	struct net_address a;

	memcpy(a.bytes, bytes, sizeof(a.bytes));
	return a;
}

static inline bool net_address_is_v4(const struct net_address *a)
{
	return a->halves[0] == 0 && a->words[2] == RTE_BE32(0xffff);
}

static inline rte_be32_t net_address_to_v4(const struct net_address *a)
{
	return a->words[3];
}

static inline bool net_address_equal(const struct net_address *a, const struct net_address *b)
{
	return ((a->halves[0] ^ b->halves[0]) | (a->halves[1] ^ b->halves[1])) == 0;
}

static inline bool net_address_is_none(const struct net_address *a)
{
	return (a->halves[0] | a->halves[1]) == 0;
}

/* Whether the first `prefix` bits are the same; of IPv4 addresses count 96 more. */
static inline bool net_address_same_prefix(const struct net_address *a, const struct net_address *b, unsigned prefix)
{
	const unsigned whole = prefix / 8, rest = prefix % 8;

	return memcmp(a->bytes, b->bytes, whole) == 0 &&
	       (rest == 0 || ((a->bytes[whole] ^ b->bytes[whole]) & (0xff00 >> rest) & 0xff) == 0);
}

#endif
