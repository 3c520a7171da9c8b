/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a light step, a pull of some rows and a push for them, costs a reactor by the number of workers that step: its
 * stack, its requests over TCP or over sessions of datagrams, service and shard, in this process, fed with the frames
 * of as many workers. Each has one request in flight, so that with many of them most wait for their turns in the
 * reactor. Cycles a step by stage of the turns, and the rows/s that a core has time for: of the tenth of all periods
 * that was disturbed least; and frames a step, in and out. Neither the kernel nor a driver is in it. The workers take
 * their part of the caches, too.
 */
#include <jansson.h>
#include <rte_cycles.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/peers/appliance.h"
#include "net/tcp.h"

enum {
	WORKERS_MAX = 1 << 14,
	ROWS_MAX = 1024,  /* of a step */
	OPENING_MAX = 64, /* at once */
	PERIODS_MAX = 4096,
	LEAST_SHARE = 10, /* of the periods are disturbed least by what else the machine does */
	PERIOD = 2048,	  /* steps: about one of each of the many workers */
	MBUFS = 16383,
	KEYS = 100000,
	STAGES = APPLIANCE_END,
};
static const uint64_t patience_ns = 20000000000;

struct worker {
	struct tcp_conn *conn; /* one of these */
	struct dgram_session *session;
	uint64_t number, sequence;
	uint32_t got; /* bytes of the reply so far, over TCP */
	bool open, pushes;
	uint64_t keys[ROWS_MAX];
};

static struct {
	struct appliance appliance;
	struct worker *all;
	uint32_t workers, rows, opened;
	bool counts;
	uint64_t steps, turns, in, out; /* frames that came to the server, and went */
	uint64_t spent[STAGES + 1];	/* in this period; the last is their sum */
	double periods[STAGES + 1][PERIODS_MAX];
	uint32_t periods_count;
} b;

static uint32_t reply_bytes(const struct worker *w)
{
	return (uint32_t)(sizeof(struct wire_frame) + sizeof(struct wire_result) +
			  (w->pushes ? 0 : b.rows * APPLIANCE_DIM * sizeof(float)));
}

/* ---- requests ---- */

static struct rte_mbuf *mbuf_of(struct worker *w)
{
	struct rte_mbuf *m = w->conn ? tcp_alloc(w->conn) : dgram_alloc(w->session);

	if (!m)
		appliance_fail("the workers have no mbufs");
	return m;
}

static void ask(struct worker *w)
{
	const uint32_t each = w->conn ? tcp_mss(w->conn) : dgram_payload(w->session);
	const uint8_t *message;
	const uint32_t bytes =
		appliance_fill(w->number, ++w->sequence, w->pushes ? WIRE_PUSH : WIRE_PULL, w->keys, b.rows, &message);
	struct rte_mbuf *first = NULL, **last = &first;

	w->got = 0;
	for (uint32_t at = 0; at < bytes; at += each) {
		const uint32_t n = RTE_MIN(bytes - at, each);
		struct rte_mbuf *m = mbuf_of(w);

		memcpy(rte_pktmbuf_append(m, (uint16_t)n), message + at, n);
		*last = m;
		last = &m->next;
		if (w->conn) {
			first = NULL;
			last = &first;
			tcp_send(w->conn, m);
		}
	}
	if (w->session)
		dgram_send(w->session, first);
}

static void begin_step(struct worker *w, bool with_push)
{
	for (uint32_t i = 0; i < b.rows; i++)
		w->keys[i] = prng_below(&b.appliance.prng, KEYS);
	w->pushes = with_push;
	ask(w);
}

static void answered(struct worker *w)
{
	if (!w->pushes) {
		w->pushes = true;
		ask(w);
		return;
	}
	b.steps++;
	begin_step(w, false);
}

/* What came of a reply's first bytes. */
static void check(const struct worker *w, const struct rte_mbuf *m)
{
	struct wire_frame frame;

	memcpy(&frame, rte_pktmbuf_mtod(m, const void *), sizeof(frame));
	if (frame.status != WIRE_OK)
		appliance_fail(wire_status_text(frame.status));
	if (frame.sequence != w->sequence || sizeof(frame) + frame.payload_bytes != reply_bytes(w))
		appliance_fail("a reply is not that of its request");
}

static void opened(struct worker *w)
{
	w->open = true;
	b.opened++;
}

/* ---- over TCP ---- */

static bool tcp_opened(void *ctx, struct tcp_conn *conn, void **user)
{
	opened(*user);
	return true;
}

static void tcp_received(void *user, struct rte_mbuf *m)
{
	struct worker *w = user;

	if (w->got == 0)
		check(w, m);
	w->got += m->data_len;
	tcp_consumed(w->conn, m->data_len);
	rte_pktmbuf_free(m);
	if (w->got == reply_bytes(w))
		answered(w);
}

static void nothing(void *user)
{
}

static void closed(void *user, int reason)
{
	appliance_fail("a connection has ended");
}

static const struct tcp_handler tcp_side = {
	.opened = tcp_opened, .received = tcp_received, .acknowledged = nothing, .finished = nothing, .closed = closed
};

static void open_tcp(struct worker *w)
{
	const struct net_address to = net_address_v4(rte_cpu_to_be_32(APPLIANCE_ADDRESS));
	struct star_error err;

	w->conn = tcp_connect(b.appliance.worker_net, &to, APPLIANCE_PORT, &tcp_side, NULL, w, &err);
	if (!w->conn)
		appliance_fail(err.text);
}

/* ---- over sessions ---- */

static void session_connected(void *user, bool resumed, uint32_t incarnation)
{
	opened(user);
}

static void session_received(void *user, struct rte_mbuf *m, uint32_t bytes, enum wire_status status)
{
	struct worker *w = user;
	uint32_t mbufs = 0;

	check(w, m);
	for (struct rte_mbuf *next; m; m = next, mbufs++) {
		next = m->next;
		m->next = NULL;
		rte_pktmbuf_free(m);
	}
	dgram_taken(w->session, mbufs);
	answered(w);
}

static const struct dgram_handler session_side = {
	.connected = session_connected, .received = session_received, .acknowledged = nothing, .closed = closed
};

static void open_session(struct worker *w, struct dgram *dgram)
{
	const struct net_address to = net_address_v4(rte_cpu_to_be_32(APPLIANCE_ADDRESS));
	struct star_error err;

	w->session = dgram_open(dgram, &to, APPLIANCE_PORT, w, NULL, &err);
	if (!w->session)
		appliance_fail(err.text);
}

/* ---- measuring ---- */

static void turned(struct appliance *a, unsigned received, const uint64_t at[APPLIANCE_MOMENTS])
{
	for (unsigned s = 0; s < STAGES; s++)
		b.spent[s] += at[s + 1] - at[s];
	b.spent[STAGES] += at[APPLIANCE_END] - at[APPLIANCE_RECEIVE];
	b.turns++;
	b.in += received;
}

static void end_period(void)
{
	if (b.counts && b.periods_count < PERIODS_MAX) {
		for (unsigned s = 0; s <= STAGES; s++)
			b.periods[s][b.periods_count] = (double)b.spent[s] / (double)b.steps;
		b.periods_count++;
	}
	memset(b.spent, 0, sizeof(b.spent));
	b.steps = 0;
}

static void run(uint64_t periods)
{
	uint64_t until = clock_ns() + patience_ns;

	while (periods) {
		const uint64_t in = b.in;

		b.out += appliance_round(&b.appliance);
		b.out -= b.in - in;
		if (b.steps >= PERIOD) {
			end_period();
			periods--;
			until = clock_ns() + patience_ns;
		} else if (clock_ns() > until) {
			appliance_fail("the workers stand still");
		}
	}
}

static void open_all(bool tcp)
{
	struct dgram *dgram = tcp ? NULL : appliance_sessions(&b.appliance, &session_side);
	const uint64_t until = clock_ns() + patience_ns;

	for (uint32_t i = 0; b.opened < b.workers;) {
		for (; i < b.workers && i - b.opened < OPENING_MAX; i++) {
			b.all[i].number = i + 1;
			if (tcp)
				open_tcp(&b.all[i]);
			else
				open_session(&b.all[i], dgram);
		}
		appliance_round(&b.appliance);
		if (clock_ns() > until)
			appliance_fail("not all workers can connect");
	}
}

static int compare(const void *x, const void *y)
{
	const double a = *(const double *)x, c = *(const double *)y;

	return (a > c) - (a < c);
}

static double least_disturbed(double *values)
{
	qsort(values, b.periods_count, sizeof(*values), compare);
	return values[b.periods_count / LEAST_SHARE];
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "receive", "execute", "transmit", "all" };
	const bool tcp = argc == 5 && strcmp(argv[4], "tcp") == 0;
	unsigned long periods = argc == 5 ? strtoul(argv[3], NULL, 10) : 0;
	const double steps = (double)periods * PERIOD;
	json_t *json = json_object();

	_Static_assert(sizeof(names) / sizeof(names[0]) == STAGES + 1, "a name for each stage");
	b.workers = argc == 5 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	b.rows = argc == 5 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
	if (b.workers == 0 || b.workers > WORKERS_MAX || b.rows == 0 || b.rows > ROWS_MAX || periods == 0 ||
	    periods > PERIODS_MAX || (!tcp && strcmp(argv[4], "sessions"))) {
		fprintf(stderr, "usage: step-cost WORKERS ROWS PERIODS tcp|sessions\n"
				"PERIODS of 2048 steps are measured, after as many that warm up\n");
		return 2;
	}
	b.all = calloc(b.workers, sizeof(*b.all));
	if (!b.all)
		appliance_fail("no memory");
	b.appliance.workers = b.workers;
	b.appliance.mbufs = MBUFS;
	b.appliance.alone = true;
	b.appliance.sequence = 1; /* every turn is measured by stage */
	b.appliance.turned = turned;
	appliance_start(&b.appliance, NULL);
	open_all(tcp);
	for (uint32_t i = 0; i < b.workers; i++)
		begin_step(&b.all[i], i % 2); /* so that they don't all do the same for ever */
	run(periods);
	b.counts = true;
	b.turns = b.in = b.out = 0;
	run(periods);
	for (unsigned s = 0; s <= STAGES; s++)
		json_object_set_new(json, names[s], json_real(least_disturbed(b.periods[s])));
	/* Of a reactor that does nothing else: a step is a pull and a push. */
	json_object_set_new(json, "rows_s",
			    json_real(2 * b.rows * (double)rte_get_tsc_hz() / least_disturbed(b.periods[STAGES])));
	json_object_set_new(json, "turns", json_real((double)b.turns / steps));
	json_object_set_new(json, "in", json_real((double)b.in / steps));
	json_object_set_new(json, "out", json_real((double)b.out / steps));
	json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(json);
	return EXIT_SUCCESS;
}
