/* SPDX-License-Identifier: BSD-3-Clause */
/* When and to which address a connection is tried again. Functions with a channel are called with its lock held. */
#ifndef CLIENT_ATTEMPT_H
#define CLIENT_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

struct channel;
struct sockaddr_storage;
struct prng;

/* Limits for channels with two addresses, of which one may belong to a machine that is gone or a node that is
 * restarting: for the first attempt to connect, for later ones, and for silence of an open connection. */
enum { ATTEMPT_FIRST_MS = 50, ATTEMPT_MS = 500, OTHER_TIMEOUT_MS = 1500 };

/* The time before the next attempt: half of min(first * 2^attempt, max), plus a random part of the same length. */
uint64_t client_backoff_ns(struct prng *prng, uint32_t attempt);
/* host: a numeric address. */
bool client_address_is(const struct sockaddr_storage *address, const char *host, uint16_t port);
/* Exchanges the channel's two addresses. */
void client_address_swap(struct channel *ch);
/* The connection has ended: tries the other address next, if there is one, because its node may have taken over. */
void client_attempt_elsewhere(struct channel *ch);
/* The end of the attempt that begins now, for channels with two addresses. */
uint64_t client_attempt_until_ns(const struct channel *ch, uint64_t now_ns);
/* An attempt has failed: sets the time and the address of the next one. */
void client_attempt_failed(struct channel *ch, int error, uint64_t now_ns);

#endif
