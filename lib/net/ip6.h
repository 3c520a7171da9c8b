/* SPDX-License-Identifier: BSD-3-Clause */
/* A walk over IPv6's extension headers (RFC 8200, 4), with a bound on their number and bytes. Nothing behind `end` is
 * read. */
#ifndef NET_IP6_H
#define NET_IP6_H

#include "net/internal.h"

enum { IP6_FRAGMENT_BYTES = 8 };

enum ip6_step { IP6_EXTENSION, IP6_UPPER, IP6_BAD };

struct ip6_walk {
	const uint8_t *base; /* the IPv6 header */
	uint16_t at, end;    /* offsets from there: what comes next, and the packet's end */
	uint16_t named_at;   /* of the byte that says what comes next */
	uint8_t next;	     /* what comes next */
	uint8_t count;
	/* the extension header that was passed last */
	uint8_t type;
	uint16_t bytes;
	const uint8_t *header;
};

/* have: bytes from the IPv6 header on, at least its own. */
void ip6_walk_begin(struct ip6_walk *w, const struct rte_ipv6_hdr *ip, uint16_t have);
/* Passes one extension header, or says that none comes next: next is then the protocol, and at where it begins. */
enum ip6_step ip6_walk_step(struct ip6_walk *w);
/* The fragment header passed last is one of a packet that is whole (RFC 6946). */
bool ip6_is_atomic(const struct ip6_walk *w);
/* Passes all extension headers, or all up to a fragment's (then *fragment); false: they are malformed. */
bool ip6_find_upper(struct ip6_walk *w, bool *fragment);

#endif
