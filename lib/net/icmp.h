/* SPDX-License-Identifier: BSD-3-Clause */
/* What ICMP and ICMPv6 share. On the stack's thread. */
#ifndef NET_ICMP_H
#define NET_ICMP_H

#include "net/internal.h"

enum { ICMP_HEADER_BYTES = 8, ICMP_QUOTED_BYTES = 8 };

/* The header of both. The meaning of `word` depends on the type. */
struct icmp_message {
	uint8_t type, code;
	uint16_t checksum;
	rte_be32_t word;
} __rte_packed;
_Static_assert(sizeof(struct icmp_message) == ICMP_HEADER_BYTES, "icmp_message");

/* What an ICMP error quotes of the packet of ours that caused it. */
struct icmp_quote {
	struct net_address from, to;
	uint8_t protocol;
	uint16_t total;	      /* bytes that the packet had */
	const uint8_t *upper; /* the beginning of what was in it: */
	uint16_t upper_bytes; /* ICMP_QUOTED_BYTES, or more */
};

/* Parses what follows the ICMP header, which is not trusted. false: it is malformed. */
bool icmp_quote4(const uint8_t *quoted, uint16_t bytes, struct icmp_quote *q);
bool icmp_quote6(const uint8_t *quoted, uint16_t bytes, struct icmp_quote *q);

/* Acts on an error if it is about something that we have sent, and counts it. mtu is 0 except for NET_ICMP_TOO_BIG. */
void icmp_act(struct net *net, const struct net_packet *packet, const struct icmp_quote *quote,
	      enum net_icmp_error kind, uint32_t mtu);

/* Turns an echo request into its reply, in the same mbuf, and sends it. Owns m. */
void icmp_echo(struct net *net, struct rte_mbuf *m, const struct net_packet *packet, uint8_t type);

#endif
