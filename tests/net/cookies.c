/* SPDX-License-Identifier: BSD-3-Clause */
/* SYN cookies: what happens when more connections are half open than may be (RFC 4987). */
#include "tests/net/cases.h"
#include "tests/net/script.h"

#define SEGMENT(...) (&(struct script_segment){ __VA_ARGS__ })
#define ALL_OPTIONS .mss = 1400, .scale = 1 + 3, .sack_permitted = true, .stamped = true, .ts_value = 7000

enum { HALF_OPEN = 4 };

static void begin(bool always)
{
	struct net_options o = script_options();

	o.half_open_max = HALF_OPEN;
	o.cookies_always = always;
	o.receive_window_bytes = 1 << 20;
	script_begin(&o);
}

static void flood(unsigned syns)
{
	const uint32_t iss = script.stack_iss;

	for (unsigned i = 0; i < syns; i++)
		script_in(SEGMENT(.flags = S, .port = (uint16_t)(1000 + i), .seq = 77 * i));
	script_drop();
	script.stack_iss = iss;
}

void a_flood_does_not_keep_others_out(void)
{
	begin(false);
	script_connect(SEGMENT(.mss = 1000));
	flood(1000);
	CHECK_UINT(net_connections(script.net), 1 + HALF_OPEN);
	CHECK_UINT(script_counters()->tcp_cookies_sent, 1000 - HALF_OPEN);
	/* Existing connections go on. */
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .bytes = 100));
	CHECK_UINT(script.received, 100);
	script_drop();
	/* New connections are accepted. */
	script_connect(SEGMENT(.mss = 1000, .port = 40001));
	CHECK_UINT(script.opens, 2);
	CHECK_UINT(script_counters()->tcp_cookies_received, 1);
	CHECK_UINT(net_connections(script.net), 2 + HALF_OPEN);
	script_end();
}

/* Both ends know of the same options whether the SYN was kept or not. */
void a_cookie_keeps_the_options(void)
{
	static const struct {
		struct script_segment syn;
		uint32_t mss;
	} cases[] = {
		{ { .flags = S }, 536 },
		{ { .flags = S, .mss = 90 }, 88 },
		{ { .flags = S, .mss = 1400, .sack_permitted = true, .scale = 4 }, 1380 },
		{ { .flags = S, .mss = 1460 }, 1460 },
		{ { .flags = S, .mss = 9000 }, 1460 },
		{ { .flags = S, .mss = 1460, .stamped = true, .ts_value = 7000 }, 1448 },
		{ { .flags = S, ALL_OPTIONS }, 1380 - 12 },
		{ { .flags = S, .stamped = true, .ts_value = 7000, .scale = 15 }, 524 },
	};

	for (size_t i = 0; i < RTE_DIM(cases); i++) {
		const struct script_segment *syn = &cases[i].syn, *s;
		const bool stamped = syn->stamped;

		begin(true);
		script_in(syn);
		s = script_out(S | A, 0, 1, 0);
		CHECK_UINT(net_connections(script.net), 0);
		CHECK_INT(s->stamped, stamped);
		CHECK_INT(s->scale, stamped && syn->scale ? 1 + 5 : 0); /* without timestamps nobody remembers it */
		CHECK_INT(s->sack_permitted, stamped && syn->sack_permitted);
		script_wait(100);
		script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .bytes = 100, .stamped = stamped, .ts_value = 7100));
		CHECK_UINT(script.opens, 1);
		CHECK_UINT(script.received, 100);
		CHECK_UINT(tcp_mss(script.conn), cases[i].mss);
		s = script_out(A, 1, 101, 0);
		CHECK_INT(s->stamped, stamped);
		CHECK_UINT(s->ts_echo, stamped ? 7100 : 0);
		CHECK(stamped && syn->scale ? s->window > 2000 && s->window <= 2048 : s->window > 65000);
		/* The peer's window counts as it was scaled. */
		script_in(SEGMENT(.flags = A, .seq = 101, .ack = 1, .window = 1000, .stamped = stamped,
				  .ts_value = 7100));
		script_write(3000);
		CHECK_UINT(script.out_tail - script.out_head,
			   RTE_MIN(10u, stamped && syn->scale ? 3000 / cases[i].mss + 1 : 1000 / cases[i].mss));
		script_drop();
		/* SACK, or not. */
		script_in(SEGMENT(.flags = A, .seq = 201, .ack = 1, .bytes = 10, .stamped = stamped, .ts_value = 7100));
		s = script_out(A, script.out[(script.out_head) % SCRIPT_FRAMES_MAX].seq, 101, 0);
		CHECK_UINT(s->sacks_count, stamped && syn->sack_permitted ? 1 : 0);
		script_end();
	}
}

/* One bit of it changed, another peer, another number: it is not a cookie. */
void a_forged_cookie_opens_nothing(void)
{
	begin(true);
	script_in(SEGMENT(.flags = S));
	script_drop();
	for (unsigned bit = 0; bit < 32; bit++) {
		script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1 + (1u << bit)));
		CHECK_UINT(script_out(R, 1 + (1u << bit), 0, 0)->ack, 0);
	}
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .port = 40001));
	script_in(SEGMENT(.flags = A, .seq = 2, .ack = 1));
	script_in(SEGMENT(.flags = R | A, .seq = 1, .ack = 1));
	script_in(SEGMENT(.flags = S | A, .seq = 1, .ack = 1));
	CHECK_UINT(net_connections(script.net), 0);
	CHECK_UINT(script_counters()->tcp_cookies_failed, 34);
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1));
	CHECK_UINT(script.opens, 1);
	script_end();
}

/* The secret changes: an old one is good for one or two minutes. */
void a_cookie_grows_old(void)
{
	uint32_t iss;

	begin(true);
	script_in(SEGMENT(.flags = S));
	script_wait(60000);
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1));
	CHECK_UINT(script.opens, 1);
	script_in(SEGMENT(.flags = S, .port = 40001));
	iss = script.stack_iss;
	script_wait(128000);
	script_in(SEGMENT(.flags = S, .port = 40002)); /* so that cookies are out still */
	script_drop();
	script.stack_iss = iss;
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .port = 40001));
	script_out(R, 1, 0, 0);
	CHECK_UINT(script.opens, 1);
	CHECK_UINT(script_counters()->tcp_cookies_failed, 1);
	script_end();
}

/* While none was sent, no ACK is one: nobody need guess. */
void without_a_flood_there_are_no_cookies(void)
{
	uint32_t iss;

	begin(true);
	script_in(SEGMENT(.flags = S));
	script_drop();
	iss = script.stack_iss;
	script_end();
	begin(false);
	script.stack_iss = iss;
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1)); /* right, but for another stack */
	script_out(R, 1, 0, 0);
	CHECK_UINT(net_connections(script.net), 0);
	CHECK_UINT(script_counters()->tcp_cookies_failed, 0);
	script_end();
}

/* The timestamp that carries options back must be one that we have sent of late. */
void a_cookies_timestamp_is_looked_at(void)
{
	begin(true);
	script_in(SEGMENT(.flags = S, ALL_OPTIONS));
	script_drop();
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .stamped = true, .ts_value = 7001,
			  .ts_echo = script.last_stamp + 1000000));
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .stamped = true, .ts_value = 7001,
			  .ts_echo = script.last_stamp - 1000000));
	CHECK_UINT(script.opens, 0);
	CHECK_UINT(script_counters()->tcp_cookies_failed, 2);
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .stamped = true, .ts_value = 7001));
	CHECK_UINT(script.opens, 1);
	script_end();
}

/* A SYN that may follow a connection in TIME_WAIT is answered by a cookie, too, and its ACK does not meet the old
 * one. */
void a_cookie_may_follow_time_wait(void)
{
	begin(true);
	script_connect(NULL);
	tcp_close(script.conn);
	script_turn();
	script_in(SEGMENT(.flags = A | F, .seq = 1, .ack = 2));
	script_drop();
	CHECK_UINT(net_connections(script.net), 1);
	script.peer_iss += 1000;
	script_connect(NULL);
	CHECK_UINT(script.opens, 2);
	CHECK_UINT(net_connections(script.net), 1);
	script_end();
}
