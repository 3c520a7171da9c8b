/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop: every reply on a connection is followed by the next request, so each one has `depth` requests in flight all
 * the time. One recv and one send per event; nothing is allocated.
 */
#include "app/starbench/starbench.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	EVENTS_MAX = 256,
	WAIT_MS = 50,	 /* how late an idle loop may notice the end of a phase */
	SPIN_TURNS = 16, /* over all sockets, between two reads of the clock */
};

/* Closes a connection; what was in flight on it counts as failed. */
static void fail_connection(struct bench *b, struct connection *c)
{
	close(c->fd);
	c->fd = -1;
	b->live--;
	b->errors += c->in_flight ? c->in_flight : 1;
	b->in_flight -= c->in_flight;
	c->in_flight = 0;
}

static void send_requests(struct bench *b, struct connection *c, uint32_t count)
{
	const uint32_t depth = b->options->depth, bytes = count * b->request_bytes;
	uint32_t slot = (c->oldest + c->in_flight) % depth;
	const uint32_t first = slot;
	ssize_t sent;
	uint64_t now;

	for (uint32_t i = 0; i < count; i++) {
		const uint32_t key = c->target->keys[prng_below(&c->prng, c->target->keys_count)];

		b->protocol->request(b, c, key, c->out + i * b->request_bytes);
		c->flights[slot].key = key;
		slot = slot + 1 == depth ? 0 : slot + 1;
		c->sent++;
	}
	c->in_flight += count;
	b->in_flight += count;
	/* A round trip begins when the request is passed to the kernel, because it ends when the kernel returns the
	 * reply. */
	now = clock_ns();
	for (uint32_t i = 0, at = first; i < count; i++, at = at + 1 == depth ? 0 : at + 1)
		c->flights[at].sent_ns = now;
	/* Everything in flight fits into any socket's send buffer many times over, so a short send is an error. */
	sent = send(c->fd, c->out, bytes, MSG_NOSIGNAL);
	if (sent == (ssize_t)bytes)
		return;
	bench_wrong(b, "sending %u bytes: %s", bytes, sent < 0 ? strerror(errno) : "the send buffer is full");
	fail_connection(b, c);
}

/* Takes the complete replies; returns their number, or -1. */
static int take_replies(struct bench *b, struct connection *c, uint64_t now)
{
	uint32_t used_bytes = 0;
	int taken = 0;

	while (used_bytes < c->in_bytes) {
		const struct flight *flight = &c->flights[c->oldest];
		int used;

		if (!c->in_flight)
			return bench_wrong(b, "%u bytes that were not requested", c->in_bytes - used_bytes);
		used = b->protocol->reply(b, c, flight->key, c->in + used_bytes, c->in_bytes - used_bytes);
		if (used < 0)
			return -1;
		if (!used)
			break;
		if (b->phase == BENCH_COUNT)
			histogram_record(&b->latency, now - flight->sent_ns);
		used_bytes += (uint32_t)used;
		c->oldest = c->oldest + 1 == b->options->depth ? 0 : c->oldest + 1;
		c->answered++;
		c->in_flight--;
		taken++;
	}
	b->in_flight -= (uint32_t)taken;
	c->in_bytes -= used_bytes;
	if (c->in_bytes)
		memmove(c->in, c->in + used_bytes, c->in_bytes);
	return taken;
}

/* One turn of a connection: receives replies, then sends as many requests. */
static void serve_connection(struct bench *b, struct connection *c)
{
	const size_t room = (size_t)b->options->depth * b->reply_bytes + BENCH_ROOM_BYTES;
	const ssize_t got = recv(c->fd, c->in + c->in_bytes, room - c->in_bytes, 0);
	int taken;

	if (got <= 0) {
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		bench_wrong(b, "a connection was lost: %s", got ? strerror(errno) : "closed by the server");
		fail_connection(b, c);
		return;
	}
	c->in_bytes += (uint32_t)got;
	taken = take_replies(b, c, clock_ns());
	if (taken < 0)
		fail_connection(b, c);
	else if (taken > 0 && b->phase != BENCH_DRAIN)
		send_requests(b, c, (uint32_t)taken);
}

static void wait_and_serve(struct bench *b)
{
	struct epoll_event events[EVENTS_MAX];
	const int ready = epoll_wait(b->epoll_fd, events, EVENTS_MAX, WAIT_MS);

	for (int i = 0; i < ready; i++)
		serve_connection(b, events[i].data.ptr);
}

static void spin_and_serve(struct bench *b)
{
	for (uint32_t turn = 0; turn < SPIN_TURNS; turn++)
		for (uint32_t i = 0; i < b->options->connections; i++)
			if (b->connections[i].fd >= 0)
				serve_connection(b, &b->connections[i]);
}

static uint64_t seconds_ns(double seconds)
{
	return (uint64_t)(seconds * 1e9);
}

/* Enters the next phase at its time; false after the last one. */
static bool next_phase(struct bench *b)
{
	const uint64_t now = clock_ns();

	if (b->phase == BENCH_DRAIN && !b->in_flight)
		return false;
	if (now < b->ends_ns)
		return true;
	switch (b->phase) {
	case BENCH_WARM_UP:
		cpu_read(b->options, &b->begin);
		b->phase = BENCH_COUNT;
		b->ends_ns = b->begin.ns + seconds_ns(b->options->seconds);
		return true;
	case BENCH_COUNT:
		cpu_read(b->options, &b->end);
		b->phase = BENCH_DRAIN;
		b->ends_ns = b->end.ns + seconds_ns(BENCH_TIMEOUT_S);
		return true;
	case BENCH_DRAIN:
		break;
	}
	bench_wrong(b, "%" PRIu64 " requests were not answered within %d s", b->in_flight, BENCH_TIMEOUT_S);
	b->errors += b->in_flight;
	return false;
}

void bench_run(struct bench *b)
{
	b->phase = BENCH_WARM_UP;
	b->ends_ns = clock_ns() + seconds_ns(b->options->warmup_s);
	for (uint32_t i = 0; i < b->options->connections; i++)
		send_requests(b, &b->connections[i], b->options->depth);
	while (b->live && next_phase(b)) {
		if (b->options->spin)
			spin_and_serve(b);
		else
			wait_and_serve(b);
	}
	if (b->phase != BENCH_DRAIN) /* no connection is left to end the phase */
		cpu_read(b->options, &b->end);
	bench_check_idle(b);
}
