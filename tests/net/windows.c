/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive window and acknowledgements: RFC 9293, 3.8.6.2 and 3.8.6.3; RFC 5681, 4.2. */
#include "tests/net/cases.h"
#include "tests/net/script.h"

#define SEGMENT(...) (&(struct script_segment){ __VA_ARGS__ })

enum { MSS = 1000, QUICK = 16 };

static uint32_t sent; /* by the peer, whose next number is one more */

static void begin(const struct net_options *o)
{
	sent = 0;
	script_begin(o);
	script_connect(SEGMENT(.mss = MSS, .scale = 1, .sack_permitted = true));
}

static void data(uint32_t bytes)
{
	script_in(SEGMENT(.flags = A, .seq = 1 + sent, .ack = 1, .bytes = bytes));
	sent += bytes;
}

static void take(uint32_t bytes)
{
	script.held -= bytes;
	tcp_consumed(script.conn, bytes);
	script_turn();
}

void the_first_segments_are_acknowledged_at_once(void)
{
	begin(NULL);
	for (unsigned i = 0; i < QUICK; i++) {
		data(MSS);
		script_out(A, 1, 1 + sent, 0);
	}
	data(MSS);
	script_quiet();
	script_end();
	/* Not where requests are answered: once an answer has said it, the next one will. */
	begin(NULL);
	script_put(SEGMENT(.flags = A, .seq = 1, .ack = 1, .bytes = 100));
	script_write(10);
	script_out(A | P, 1, 101, 10);
	script_in(SEGMENT(.flags = A, .seq = 101, .ack = 11, .bytes = 100));
	script_quiet();
	script_end();
}

void acknowledgements_are_delayed(void)
{
	begin(NULL);
	for (unsigned i = 0; i < QUICK; i++)
		data(MSS);
	script_drop();
	data(MSS); /* one alone: within a millisecond, and not before */
	script_wait_us(900);
	script_quiet();
	script_wait_us(200);
	script_out(A, 1, 1 + sent, 0);
	CHECK_UINT(script_counters()->tcp_delayed_acks, 1);
	script_wait(10);
	script_quiet();
	data(MSS); /* the second full one brings it at once */
	script_quiet();
	data(MSS);
	script_out(A, 1, 1 + sent, 0);
	script_wait(10);
	script_quiet();
	data(MSS); /* data carries it */
	script_write(50);
	script_out(A | P, 1, 1 + sent, 50);
	script_wait(5);
	script_quiet();
	script_in(SEGMENT(.flags = A | F, .seq = 1 + sent, .ack = 51)); /* a FIN is not kept waiting */
	script_out(A, 51, 2 + sent, 0);
	script_end();
}

/* What the user will answer waits for the answer, if neither for ever nor for more than some segments; what comes after
 * the answer does not. */
void an_answer_carries_the_acknowledgement(void)
{
	begin(NULL);
	for (unsigned i = 0; i < QUICK; i++)
		data(MSS);
	script_drop();
	script_put(SEGMENT(.flags = A, .seq = 1 + sent, .ack = 1, .bytes = 600));
	sent += 600;
	tcp_will_answer(script.conn);
	script_turn();
	script_wait(30);
	script_quiet();
	script_write(50);
	script_out(A | P, 1, 1 + sent, 50);
	script_in(SEGMENT(.flags = A, .seq = 1 + sent, .ack = 51));
	script_wait(100);
	script_quiet();
	data(600); /* nobody has promised to answer this one */
	script_wait(2);
	script_out(A, 51, 1 + sent, 0);
	script_put(SEGMENT(.flags = A, .seq = 1 + sent, .ack = 51, .bytes = 600));
	sent += 600;
	tcp_will_answer(script.conn);
	script_turn();
	script_wait(38);
	script_quiet();
	script_wait(4); /* the answer has not come */
	script_out(A, 51, 1 + sent, 0);
	data(MSS); /* and the promise is forgotten */
	data(MSS);
	script_out(A, 51, 1 + sent, 0);
	tcp_will_answer(script.conn);
	for (unsigned i = 0; i < 5; i++)
		data(MSS);
	script_quiet();
	data(1);
	script_out(A, 51, 1 + sent, 0);
	script_end();
}

/* A peer without SACK counts duplicates: one for each segment behind a hole, even of one turn; and its filling is
 * news. */
void a_hole_is_reported_at_once(void)
{
	script_begin(NULL);
	script_connect(SEGMENT(.mss = MSS));
	for (uint32_t i = 1; i <= 3; i++)
		script_put(SEGMENT(.flags = A, .seq = 1 + MSS * i, .ack = 1, .bytes = MSS));
	script_turn();
	for (unsigned i = 0; i < 3; i++)
		script_out(A, 1, 1, 0);
	script_quiet();
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .bytes = MSS));
	script_out(A, 1, 1 + 4 * MSS, 0);
	script_end();
}

void the_window_closes_and_opens_in_big_steps(void)
{
	struct net_options o = script_options();
	uint32_t edge;

	o.receive_window_bytes = 10 * MSS;
	begin(&o);
	script.hold = true;
	for (unsigned i = 0; i < 10; i++) {
		data(MSS);
		CHECK_UINT(script_out(A, 1, 1 + sent, 0)->window, (9 - i) * MSS);
	}
	edge = 1 + sent;
	script_in(SEGMENT(.flags = A, .seq = edge, .ack = 1, .bytes = 1)); /* a probe */
	CHECK(script_out(A, 1, edge, 0)->closed);
	CHECK_UINT(script.received, 10 * MSS);
	/* Little was read: nothing is said, and what is said for another reason does not creep either. */
	take(MSS - 1);
	script_quiet();
	script_in(SEGMENT(.flags = A, .seq = edge, .ack = 1, .bytes = 1));
	CHECK(script_out(A, 1, edge, 0)->closed);
	take(1);
	script_quiet();
	take(MSS);
	CHECK_UINT(script_out(A, 1, edge, 0)->window, 2 * MSS);
	/* While the peer has room enough, it is not told of more. */
	take(2 * MSS);
	CHECK_UINT(script_out(A, 1, edge, 0)->window, 4 * MSS);
	take(2 * MSS);
	take(2 * MSS);
	script_quiet();
	data(MSS);
	CHECK_UINT(script_out(A, 1, 1 + sent, 0)->window, 7 * MSS);
	script_end();
}

/* Data beyond the window is cut off; what fits counts. */
void data_beyond_the_window_is_cut_off(void)
{
	struct net_options o = script_options();

	o.receive_window_bytes = 1500;
	begin(&o);
	script.hold = true;
	data(1000);
	script_drop();
	data(1000);
	CHECK(script_out(A, 1, 1501, 0)->closed);
	CHECK_UINT(script.received, 1500);
	script_in(SEGMENT(.flags = A, .seq = 1501, .ack = 1, .bytes = 500)); /* nothing fits, but the ACK counts */
	script_out(A, 1, 1501, 0);
	CHECK_UINT(script.received, 1500);
	script_in(SEGMENT(.flags = A, .seq = 3000, .ack = 1, .bytes = 500)); /* wholly outside */
	script_out(A, 1, 1501, 0);
	CHECK_UINT(script_counters()->tcp_outside_window, 1);
	script_end();
}

/* A peer that does not scale can be told of 64 KiB: a larger window is not announced to it. */
void a_window_that_cannot_be_expressed_is_not_announced(void)
{
	struct net_options o = script_options();

	o.receive_window_bytes = o.receive_initial_bytes = 1 << 20;
	script_begin(&o);
	script_connect(SEGMENT(.mss = MSS));
	sent = 0;
	for (unsigned i = 0; i < 20; i++) {
		data(10);
		script_drop();
	}
	for (unsigned i = 0; i < 100; i++) {
		const uint64_t before = script_counters()->tcp_out;

		data(10);
		CHECK_UINT(script_counters()->tcp_out - before,
			   i % 2); /* every second, as they are the largest that came */
	}
	script_end();
}

static uint16_t window_after(uint32_t bytes_a_round, unsigned rounds)
{
	uint16_t window = 0;

	for (unsigned i = 0; i < rounds; i++) {
		for (uint32_t n = 0; n < bytes_a_round; n += MSS)
			data(MSS);
		script_wait(10);
		window = script.out[(script.out_tail - 1) % SCRIPT_FRAMES_MAX].window;
		script_drop();
	}
	return window;
}

static struct net_options growing(void)
{
	struct net_options o = script_options();

	o.receive_window_bytes = 1 << 20; /* a shift of 5 */
	return o;
}

/* The handshake takes 10 ms. */
static void begin_far(const struct net_options *o)
{
	sent = 0;
	script_begin(o);
	script_in(SEGMENT(.flags = S, .mss = MSS, .scale = 1, .sack_permitted = true));
	script_wait(10);
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1));
	script_drop();
}

/* Twice what the reader takes in a round trip, and some more; never beyond what is allowed. */
void the_window_follows_the_reader(void)
{
	const struct net_options o = growing();
	uint32_t window;

	begin_far(&o);
	window = window_after(20 * MSS, 20) * 32u;
	CHECK(window <= 65536);
	window = window_after(60 * MSS, 20) * 32u;
	CHECK(window > 120 * MSS && window < 180 * MSS);
	window = window_after(300 * MSS, 20) * 32u;
	CHECK(window > 600 * MSS && window < 700 * MSS);
	window = window_after(900 * MSS, 20) * 32u;
	CHECK(window > (1 << 20) - 10 * MSS && window <= 1 << 20);
	script_end();
}

/* A reader that takes nothing needs no room for more. */
void the_window_does_not_grow_for_who_does_not_read(void)
{
	const struct net_options o = growing();

	begin_far(&o);
	script.hold = true;
	for (unsigned i = 0; i < 200; i++) {
		data(MSS);
		script_wait(1);
		if (i % 40 == 0)
			take(MSS);
	}
	CHECK(script.received <= 65536 + 5 * MSS);
	script_end();
}

/* Windows grow out of one budget; a connection that no longer uses its share gives it back. */
void windows_share_a_budget(void)
{
	struct net_options o = growing();
	uint32_t window;

	o.receive_grown_bytes = 100000;
	begin_far(&o);
	window = window_after(300 * MSS, 20) * 32u;
	CHECK(window > 160000 && window <= 165536);
	script_wait(11000); /* the first one sleeps */
	sent = 0;
	script_in(SEGMENT(.flags = S, .mss = MSS, .scale = 1, .port = 40001));
	script_wait(10);
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .port = 40001));
	script_drop();
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 300; i++, sent += MSS)
			script_in(SEGMENT(.flags = A, .seq = 1 + sent, .ack = 1, .bytes = MSS, .port = 40001));
		script.received = 0; /* another stream */
		script_wait(10);
		window = script.out[(script.out_tail - 1) % SCRIPT_FRAMES_MAX].window * 32u;
		script_drop();
	}
	CHECK(window > 160000 && window <= 165536);
	script.wrong = false;
	script_end();
}

/* Over the stack's budget of unread bytes windows are small, but nobody who reads is kept out. */
void unread_data_has_a_budget(void)
{
	struct net_options o = growing();
	const struct script_segment *s;
	struct tcp_conn *greedy;

	o.unread_bytes = 20000;
	begin_far(&o);
	script.hold = true;
	for (unsigned i = 0; i < 30; i++)
		data(MSS);
	script_drop();
	CHECK(script_counters()->tcp_window_tight > 0);
	greedy = script.conn;
	script.hold = false;
	script.received = 0;
	script_in(SEGMENT(.flags = S, .mss = MSS, .scale = 1, .port = 40001));
	script_drop();
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .port = 40001));
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .bytes = MSS, .port = 40001));
	CHECK_UINT(script.received, MSS);
	s = script_out(A, 1, 1 + MSS, 0);
	CHECK(s->window * 32u >= 2 * MSS && s->window * 32u <= 65536); /* as was promised */
	tcp_consumed(greedy, 30 * MSS);
	script_end();
}
