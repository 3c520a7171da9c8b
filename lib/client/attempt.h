/* SPDX-License-Identifier: BSD-3-Clause */
/* When, and where, a connection is tried again. A channel's functions are called with its lock held. */
#ifndef CLIENT_ATTEMPT_H
#define CLIENT_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

struct channel;
struct sockaddr_storage;
struct prng;

/* Of two addresses one may be that of a machine that is gone, or of a node that begins again just now: how long the
 * first attempt to connect takes at most, and a later one, and a silence. */
enum { ATTEMPT_FIRST_MS = 50, ATTEMPT_MS = 500, OTHER_TIMEOUT_MS = 1500 };

/* Half of min(first * 2^attempt, max), and as much again at random. */
uint64_t client_backoff_ns(struct prng *prng, uint32_t attempt);
/* host: as digits. */
bool client_address_is(const struct sockaddr_storage *address, const char *host, uint16_t port);
/* The other address is the channel's. */
void client_address_swap(struct channel *ch);
/* The connection has ended: where another address is known, the node that has taken its place is there. */
void client_attempt_elsewhere(struct channel *ch);
/* Of two addresses: until when the attempt that begins may take. */
uint64_t client_attempt_until_ns(const struct channel *ch, uint64_t now_ns);
/* An attempt came to nothing: when the next one is, and where. */
void client_attempt_failed(struct channel *ch, int error, uint64_t now_ns);

#endif
