/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's limited number of connections: at most PLACES_OF_PEER per peer address (IPv6: per /64), each with the
 * time since when it has its place. Only the server's thread calls these. */
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
	uint64_t since_ns; /* UINT64_MAX: its connection was shut down */
};

struct places {
	struct place of[PLACES];
};

/* Whether the peer may have another place. */
bool metrics_places_allow(const struct places *places, const struct sockaddr *peer);
/* Takes a place; NULL: none is free. */
struct place *metrics_places_take(struct places *places, const struct sockaddr *peer, int fd, uint64_t now_ns);
/* Releases it. */
void metrics_place_give(struct place *place);

/* Shuts down connections that have had their places for patience_ns or longer. Returns when the next one is due;
 * UINT64_MAX: there is none. */
uint64_t metrics_places_end_overdue(struct places *places, uint64_t patience_ns, uint64_t now_ns);

#endif
