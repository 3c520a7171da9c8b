/* SPDX-License-Identifier: BSD-3-Clause */
/* What ICMP and ICMPv6 have in common. */
#ifndef NET_ICMP_H
#define NET_ICMP_H

#include "net/internal.h"

enum { ICMP_HEADER_BYTES = 8, ICMP_QUOTED_BYTES = 8 };

/* The header of both; word means what the type says. */
struct icmp_message {
	uint8_t type, code;
	uint16_t checksum;
	rte_be32_t word;
} __rte_packed;
_Static_assert(sizeof(struct icmp_message) == ICMP_HEADER_BYTES, "icmp_message");

/* The packet of ours that an error quotes, as far as it does. */
struct icmp_quote {
	struct net_address from, to;
	uint8_t protocol;
	uint16_t total;	      /* bytes that the packet had */
	const uint8_t *upper; /* the beginning of what was in it: */
	uint16_t upper_bytes; /* ICMP_QUOTED_BYTES, or more */
};

/* quoted: what stands behind the ICMP header, `bytes` long and in no way to be trusted; false: it makes no sense. */
bool icmp_quote4(const uint8_t *quoted, uint16_t bytes, struct icmp_quote *q);
bool icmp_quote6(const uint8_t *quoted, uint16_t bytes, struct icmp_quote *q);

/* Does what an error says, when it is about something that we have sent; counts it. mtu: of NET_ICMP_TOO_BIG, else
 * 0. */
void icmp_act(struct net *net, const struct net_packet *packet, const struct icmp_quote *quote,
	      enum net_icmp_error kind, uint32_t mtu);

/* Answers an echo request in its own mbuf. */
void icmp_echo(struct net *net, struct rte_mbuf *m, const struct net_packet *packet, uint8_t type);

#endif
