/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libstar's way of replies, in one thread: calls go out on a socket pair, and the input says what the node at its other
 * end answers, in pieces of any length. What comes out right is in the caller's memory, and every call ends once.
 */
#include "tests/fuzz/client_sides.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { STEPS_MAX = 200, CALLS_MAX = 32, REQUESTS_MAX = 64, BYTES_MAX = 64 << 10 };

static struct world {
	struct star_cluster cluster;
	struct waiter waiter;
	struct channel *ch;
	struct star_table table;
	int fd; /* the node's end */
	struct asked calls[CALLS_MAX];
	bool seen[CALLS_MAX];
	unsigned calls_count;
	struct request requests[REQUESTS_MAX];
	unsigned requests_count;
	uint8_t bytes[BYTES_MAX];
	size_t bytes_count;
	bool wrong; /* an answer was sent that is not the right one */
} w;
static struct route *route;

static uint32_t min(size_t a, size_t b)
{
	return (uint32_t)(a < b ? a : b);
}

/* ---- the caller ---- */

static void ask(struct input *in)
{
	struct asked *a = &w.calls[w.calls_count];

	/* A channel that has died would connect to a real address. */
	if (w.calls_count == CALLS_MAX || w.ch->state != CHANNEL_OPEN || w.ch->broken) {
		take8(in);
		return;
	}
	w.calls_count++;
	asked_make(a, in, &w.table, route, 1, false);
	a->call->waiter = &w.waiter;
	call_submit(a->call, &w.waiter);
}

static void check_call(unsigned i)
{
	const struct asked *a = &w.calls[i];

	if (a->call->finished != CALL_FINISHED || w.seen[i])
		return;
	w.seen[i] = true;
	if (!a->call->error.code && TAILQ_EMPTY(&a->call->stale) && !w.wrong)
		asked_check(a);
}

/* ---- the node ---- */

static void read_requests(void)
{
	size_t at = 0, taken = 1;
	ssize_t n = recv(w.fd, w.bytes + w.bytes_count, BYTES_MAX - w.bytes_count, MSG_DONTWAIT);

	w.bytes_count += n > 0 ? (size_t)n : 0;
	while (taken && w.requests_count < REQUESTS_MAX) {
		taken = request_read(&w.requests[w.requests_count], w.bytes + at, w.bytes_count - at);
		w.requests_count += taken > 0;
		at += taken;
	}
	w.bytes_count -= at;
	memmove(w.bytes, w.bytes + at, w.bytes_count);
}

static void send_bytes(struct input *in, const uint8_t *bytes, uint32_t n, bool in_pieces)
{
	while (n) {
		const uint32_t piece = in_pieces ? min(n, 1u + take8(in)) : n;

		if (send(w.fd, bytes, piece, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)piece)
			return;
		bytes += piece;
		n -= piece;
		if (w.ch->state == CHANNEL_OPEN)
			client_receive_reply(w.ch, &w.waiter);
	}
}

static void reply(struct input *in)
{
	static uint8_t bytes[SIDES_REPLY_BYTES];
	const uint8_t how = take8(in), wrong = take8(in);
	uint32_t n;

	read_requests();
	if (!w.requests_count)
		return;
	n = request_reply(&w.requests[0], bytes);
	if (wrong >= 0xa0)
		n = reply_spoil(in, bytes, n, wrong);
	reply_sum(bytes, n, wrong >= 0x98 && wrong < 0xa0);
	w.wrong |= wrong >= 0x98;
	memmove(w.requests, w.requests + 1, --w.requests_count * sizeof(w.requests[0]));
	send_bytes(in, bytes, n, how & 1);
}

static void send_raw(struct input *in)
{
	const uint32_t n = min(take8(in), input_left(in));
	const uint8_t *bytes = in->at;

	in->at += n;
	w.wrong = true;
	send_bytes(in, bytes, n, false);
}

static void step(struct input *in)
{
	switch (take8(in) % 8) {
	case 0:
	case 1:
	case 2:
		ask(in);
		break;
	case 3:
	case 4:
	case 5:
		reply(in);
		break;
	case 6:
		send_raw(in);
		break;
	case 7: /* the node is gone */
		if (take8(in) >= 0xf0)
			shutdown(w.fd, SHUT_RDWR);
		if (w.ch->state == CHANNEL_OPEN)
			client_receive_reply(w.ch, &w.waiter);
		break;
	}
	for (unsigned i = 0; i < w.calls_count; i++)
		check_call(i);
}

static void begin(void)
{
	struct star_error err = { 0 };
	int pair[2];

	w.calls_count = w.requests_count = 0;
	w.bytes_count = 0;
	w.wrong = false;
	memset(w.seen, 0, sizeof(w.seen));
	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0, "no socket pair");
	w.fd = pair[1];
	w.cluster.transport = &client_transport_tcp;
	w.ch = route->channels[0] = client_channel_create(&w.cluster, 0, 0, 7, "127.0.0.1", 1, &w.waiter, &err);
	FUZZ_CHECK(w.ch, "no channel: %s", err.text);
	w.ch->fd = pair[0];
	w.ch->state = CHANNEL_OPEN;
	w.ch->waiter = &w.waiter;
	w.ch->session = 5;
}

static void end(void)
{
	client_channel_die(w.ch, -ECONNRESET, "is gone", &w.waiter);
	for (unsigned i = 0; i < w.calls_count; i++) {
		struct asked *a = &w.calls[i];

		FUZZ_CHECK(a->call->finished == CALL_FINISHED && a->call->remaining == 0, "a call has %u parts left",
			   a->call->remaining);
		asked_free(a);
	}
	FUZZ_CHECK(w.ch->live == 0, "%u parts live on", w.ch->live);
	client_channel_destroy(w.ch);
	close(w.fd);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct star_error err = { 0 };

	pthread_mutex_init(&w.cluster.lock, NULL);
	FUZZ_CHECK(client_waiter_init(&w.waiter, &w.cluster, false, &err) == 0, "no waiter: %s", err.text);
	sides_table(&w.table, &w.cluster);
	route = calloc(1, sizeof(*route) + sizeof(route->channels[0]));
	FUZZ_CHECK(route, "no memory");
	route->epoch = 3;
	route->partitions = 16;
	route->reactors = 1;
	route->payload_max = WIRE_PAYLOAD_DEFAULT;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, data + bytes };

	begin();
	for (unsigned i = 0; i < STEPS_MAX && input_left(&in); i++)
		step(&in);
	end();
	return 0;
}
