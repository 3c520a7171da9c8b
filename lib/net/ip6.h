/* SPDX-License-Identifier: BSD-3-Clause */
/* Walks over IPv6's extension headers (RFC 8200, 4). Their number and bytes are bounded, and nothing beyond `end` is
 * read. Pure functions. */
#ifndef NET_IP6_H
#define NET_IP6_H

#include "net/internal.h"

enum { IP6_FRAGMENT_BYTES = 8 };

enum ip6_step { IP6_EXTENSION, IP6_UPPER, IP6_BAD };

struct ip6_walk {
	const uint8_t *base; /* the IPv6 header */
	uint16_t at, end;    /* offsets from there: of the next header, and of the packet's end */
	uint16_t named_at;   /* offset of the byte that has the type of the next header */
	uint8_t next;	     /* type of the next header */
	uint8_t count;
	/* the extension header that was passed last */
	uint8_t type;
	uint16_t bytes;
	const uint8_t *header;
};

/* have: bytes from the IPv6 header on, at least its own. */
void ip6_walk_begin(struct ip6_walk *w, const struct rte_ipv6_hdr *ip, uint16_t have);
/* Passes one extension header. IP6_UPPER: none is left; then `next` is the upper protocol, which begins at `at`. */
enum ip6_step ip6_walk_step(struct ip6_walk *w);
/* Whether the fragment header passed last says that the packet is not fragmented ("atomic fragment", RFC 6946). */
bool ip6_is_atomic(const struct ip6_walk *w);
/* Passes all extension headers, or those up to a fragment header: then *fragment is true. false: they are malformed. */
bool ip6_find_upper(struct ip6_walk *w, bool *fragment);

#endif
