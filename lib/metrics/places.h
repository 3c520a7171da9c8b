/* SPDX-License-Identifier: BSD-3-Clause */
/* The few connections that there are: shares by peer address (of IPv6: by its /64), and since when each has had its
 * place. */
#ifndef METRICS_PLACES_H
#define METRICS_PLACES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { PLACES = 32, PLACES_OF_PEER = 8, PLACE_PEER_BYTES = 16 };

struct place {
	bool taken;
	int fd;
	uint8_t peer[PLACE_PEER_BYTES];
	uint64_t since_ns; /* UINT64_MAX: its connection was ended */
};

struct places {
	struct place of[PLACES];
};

/* Whether the peer may have one more. */
bool metrics_places_allow(const struct places *places, const struct sockaddr *peer);
/* NULL: none is left. */
struct place *metrics_places_take(struct places *places, const struct sockaddr *peer, int fd, uint64_t now_ns);
void metrics_place_give(struct place *place);

/* Ends the connections (shutdown) that have had their places for so long. When the next one will have; UINT64_MAX:
 * there is none. */
uint64_t metrics_places_end_overdue(struct places *places, uint64_t patience_ns, uint64_t now_ns);

#endif
