/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An IP address of either family in 16 bytes: IPv4 is stored as ::ffff:a.b.c.d (RFC 4291, 2.5.5.2), a form that is
 * never used in packets. All zeros means no address. Pure functions.
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

/* Whether it can be one host's address. Not an IPv4 address that is "this network", loopback, multicast, reserved or
 * broadcast (RFC 1122, 3.2.1.3); not an IPv6 one that is multicast or begins with 64 zeros: unspecified, loopback, and
 * the forms that contain an IPv4 address. The stack only answers hosts. */
static inline bool net_address_is_host(const struct net_address *a)
{
	if (net_address_is_v4(a))
		return a->bytes[12] != 0 && a->bytes[12] != 127 && a->bytes[12] < 224;
	return a->halves[0] != 0 && a->bytes[0] != 0xff;
}

static inline bool net_address_is_multicast6(const struct net_address *a)
{
	return a->bytes[0] == 0xff;
}

/* fe80::/10 */
static inline bool net_address_is_link_local(const struct net_address *a)
{
	return a->bytes[0] == 0xfe && (a->bytes[1] & 0xc0) == 0x80;
}

/* The address under which limits per address are counted: IPv6 addresses count as their /64, because one host may use
 * as many addresses of that as it likes. */
static inline struct net_address net_address_sharer(const struct net_address *a)
{
	struct net_address sharer = *a;

	if (!net_address_is_v4(a))
		sharer.halves[1] = 0;
	return sharer;
}

/* ff02::1 */
static inline struct net_address net_address_all_nodes(void)
{
	return (struct net_address){ .bytes = { 0xff, 2, [15] = 1 } };
}

/* The multicast group to which neighbour solicitations for an address go (RFC 4291, 2.7.1): ff02::1:ff and its last
 * three bytes. */
static inline struct net_address net_address_solicited_node(const struct net_address *a)
{
	return (struct net_address){
		.bytes = { 0xff,
			   2, [11] = 1, [12] = 0xff, [13] = a->bytes[13], [14] = a->bytes[14], [15] = a->bytes[15] }
	};
}

/* Whether the first `prefix` bits of the 16 bytes are the same. For IPv4 addresses add 96 to their prefix. */
static inline bool net_address_same_prefix(const struct net_address *a, const struct net_address *b, unsigned prefix)
{
	const unsigned whole = prefix / 8, rest = prefix % 8;

	return memcmp(a->bytes, b->bytes, whole) == 0 &&
	       (rest == 0 || ((a->bytes[whole] ^ b->bytes[whole]) & (0xff00 >> rest) & 0xff) == 0);
}

/* Parses an IPv4 or IPv6 literal. false, and *address is all zeros: it is neither, or it is "::". */
bool net_address_parse(const char *text, struct net_address *address);

#endif
