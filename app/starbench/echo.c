/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plain echo with the sizes of star's frames (bench/peers/epoll-echo.c): the cost of kernel TCP and an epoll loop if
 * the server does nothing. A request begins with its sequence, which the reply repeats.
 */
#include "app/starbench/starbench.h"

#include <inttypes.h>
#include <string.h>

static int echo_open(struct bench *b, struct star_error *err)
{
	b->request_bytes = star_request_bytes();
	b->reply_bytes = star_reply_bytes(b->options->dim);
	return bench_single_target(b, b->options->address, err);
}

static void echo_prepare(struct bench *b, struct connection *c, uint8_t *out)
{
	memset(out, 0, b->request_bytes);
}

static void echo_request(struct bench *b, struct connection *c, uint32_t key, uint8_t *out)
{
	const uint64_t sequence = c->sent + 1;

	memcpy(out, &sequence, sizeof(sequence));
}

static int echo_reply(struct bench *b, struct connection *c, uint32_t key, uint8_t *in, uint32_t bytes)
{
	uint64_t sequence;

	if (bytes < b->reply_bytes)
		return 0;
	memcpy(&sequence, in, sizeof(sequence));
	if (sequence != c->answered + 1)
		return bench_wrong(b, "the echo of request %" PRIu64 " carries sequence %" PRIu64, c->answered + 1,
				   sequence);
	return (int)b->reply_bytes;
}

const struct protocol protocol_echo = {
	.name = "echo",
	.open = echo_open,
	.prepare = echo_prepare,
	.request = echo_request,
	.reply = echo_reply,
};
