/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/attempt.h"

#include <arpa/inet.h>
#include <string.h>

#include "client/client.h"

/* This many pairs of attempts follow each other after the third pause, of at most 40 ms; then pauses grow. */
enum { OTHER_OFTEN = 50, OTHER_OFTEN_BACKOFF = 2 };

uint64_t client_backoff_ns(struct prng *prng, uint32_t attempt)
{
	uint32_t us = attempt < 10 ? (uint32_t)BACKOFF_FIRST_US << attempt : BACKOFF_MAX_US;

	if (us > BACKOFF_MAX_US)
		us = BACKOFF_MAX_US;
	return (us / 2 + prng_below(prng, us / 2)) * UINT64_C(1000);
}

bool client_address_is(const struct sockaddr_storage *address, const char *host, uint16_t port)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (address->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)address;

		return inet_pton(AF_INET, host, &v4) == 1 && v4.s_addr == in->sin_addr.s_addr &&
		       in->sin_port == htons(port);
	}
	return inet_pton(AF_INET6, host, &v6) == 1 &&
	       memcmp(&v6, &((const struct sockaddr_in6 *)address)->sin6_addr, sizeof(v6)) == 0 &&
	       ((const struct sockaddr_in6 *)address)->sin6_port == htons(port);
}

void client_address_swap(struct channel *ch)
{
	const struct sockaddr_storage address = ch->address;
	const socklen_t bytes = ch->address_bytes;

	ch->address = ch->other;
	ch->address_bytes = ch->other_bytes;
	ch->other = address;
	ch->other_bytes = bytes;
}

void client_attempt_elsewhere(struct channel *ch)
{
	if (ch->other_bytes && !ch->moved)
		client_address_swap(ch);
}

uint64_t client_attempt_until_ns(const struct channel *ch, uint64_t now_ns)
{
	const uint32_t pairs = (ch->attempts - 1) / 2;
	const uint64_t ms = pairs < 8 ? (uint64_t)ATTEMPT_FIRST_MS << pairs : ATTEMPT_MS;

	return now_ns + (ms < ATTEMPT_MS ? ms : ATTEMPT_MS) * UINT64_C(1000000);
}

/* If a task has two addresses, one of them may be about to serve as soon as a lease ends: for a second or two both are
 * tried often. */
static uint64_t between_attempts_ns(struct channel *ch)
{
	uint32_t before = ch->attempts - 1;

	if (ch->other_bytes) {
		before /= 2; /* the second address is tried directly after the first */
		if (before >= OTHER_OFTEN)
			before -= OTHER_OFTEN - OTHER_OFTEN_BACKOFF;
		else if (before > OTHER_OFTEN_BACKOFF)
			before = OTHER_OFTEN_BACKOFF;
	}
	return client_backoff_ns(&ch->prng, before);
}

void client_attempt_failed(struct channel *ch, int error, uint64_t now_ns)
{
	ch->connect_error = error;
	ch->not_before_ns = now_ns + between_attempts_ns(ch);
	/* A standby that this worker does not know of may serve by now. */
	client_route_want(ch->cluster, now_ns);
	if (ch->moved) { /* the attempt used the node's old address; the new one has not been tried yet */
		ch->not_before_ns = now_ns;
	} else if (ch->other_bytes) {
		client_address_swap(ch);
		if (ch->attempts % 2) /* the next attempt uses the second address */
			ch->not_before_ns = now_ns;
	}
	ch->state = CHANNEL_WAITING;
}
