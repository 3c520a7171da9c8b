/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics/places.h"

#include <netinet/in.h>
#include <string.h>

enum { PREFIX_BYTES = 8 }; /* of IPv6: whoever has one address of a /64 may have all of it */

/* IPv4 in its IPv6 form. */
static void find_sharer(const struct sockaddr *from, uint8_t peer[static PLACE_PEER_BYTES])
{
	memset(peer, 0, PLACE_PEER_BYTES);
	if (from->sa_family == AF_INET) {
		peer[10] = peer[11] = 0xff;
		memcpy(peer + 12, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
	} else if (from->sa_family == AF_INET6) {
		const struct in6_addr *address = &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;

		memcpy(peer, address, IN6_IS_ADDR_V4MAPPED(address) ? PLACE_PEER_BYTES : PREFIX_BYTES);
	}
}

bool metrics_places_allow(const struct places *places, const struct sockaddr *from)
{
	uint8_t peer[PLACE_PEER_BYTES];
	unsigned has = 0;

	find_sharer(from, peer);
	for (unsigned i = 0; i < PLACES; i++)
		has += places->of[i].taken && memcmp(places->of[i].peer, peer, sizeof(peer)) == 0;
	return has < PLACES_OF_PEER;
}

struct place *metrics_places_take(struct places *places, const struct sockaddr *from, int fd, uint64_t now_ns)
{
	for (unsigned i = 0; i < PLACES; i++) {
		struct place *place = &places->of[i];

		if (place->taken)
			continue;
		*place = (struct place){ .taken = true, .fd = fd, .since_ns = now_ns };
		find_sharer(from, place->peer);
		return place;
	}
	return NULL;
}

void metrics_place_give(struct place *place)
{
	place->taken = false;
}

uint64_t metrics_places_end_overdue(struct places *places, uint64_t patience_ns, uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;

	for (unsigned i = 0; i < PLACES; i++) {
		struct place *place = &places->of[i];

		if (!place->taken || place->since_ns == UINT64_MAX)
			continue;
		if (now_ns - place->since_ns >= patience_ns) {
			shutdown(place->fd, SHUT_RDWR);
			place->since_ns = UINT64_MAX;
		} else if (place->since_ns + patience_ns < next_ns) {
			next_ns = place->since_ns + patience_ns;
		}
	}
	return next_ns;
}
