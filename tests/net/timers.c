/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that are silent: keepalive (RFC 9293, 3.8.4) and user timeout (RFC 5482). */
#include <errno.h>

#include "tests/net/cases.h"
#include "tests/net/script.h"

#define SEGMENT(...) (&(struct script_segment){ __VA_ARGS__ })

static void begin_keepalive(void)
{
	struct net_options o = script_options();

	o.keepalive_idle_s = 100;
	o.keepalive_interval_s = 10;
	o.keepalive_probes = 3;
	script_begin(&o);
	script_connect(NULL);
}

void a_silent_peer_is_probed_then_dropped(void)
{
	begin_keepalive();
	script_wait(90000);
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .bytes = 10)); /* it is alive */
	script_drop();
	script_wait(99000);
	script_quiet();
	for (unsigned i = 0; i < 3; i++) {
		script_wait(i ? 10000 : 1500);
		script_out(A, 0, 11, 0); /* one below what was sent, and no data */
		script_quiet();
	}
	CHECK_UINT(script.ends, 0);
	script_wait(10000);
	script_out(R | A, 1, 11, 0);
	CHECK_UINT(script.ends, 1);
	CHECK_INT(script.reason, ETIMEDOUT);
	CHECK_UINT(script_counters()->tcp_keepalives, 3);
	script_end();
}

void an_answer_restarts_the_idle_time(void)
{
	begin_keepalive();
	for (unsigned round = 0; round < 3; round++) {
		script_wait(100100);
		script_out(A, 0, 1, 0);
		script_wait(10000);
		script_out(A, 0, 1, 0);
		script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1));
		script_quiet();
	}
	CHECK_UINT(script.ends, 0);
	/* Our own answer to such a question. */
	script_in(SEGMENT(.flags = A, .seq = 0, .ack = 1));
	script_out(A, 1, 1, 0);
	script_end();
}

/* What is in flight is watched by its retransmissions. */
void data_in_flight_needs_no_keepalive(void)
{
	begin_keepalive();
	script_write(10);
	script_drop();
	script_wait(110000);
	CHECK_UINT(script_counters()->tcp_keepalives, 0);
	CHECK(script.out_tail != script.out_head);
	script_drop();
	script_end();
}

void a_user_sets_his_own_keepalive(void)
{
	script_begin(NULL);
	script_connect(NULL);
	script_wait(10000000);
	script_quiet(); /* none by default */
	tcp_set_keepalive(script.conn, 5, 1, 2);
	script_wait(5100);
	script_out(A, 0, 1, 0);
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1));
	tcp_set_keepalive(script.conn, 0, 0, 0);
	script_wait(1000000);
	script_quiet();
	tcp_set_keepalive(script.conn, 5, 1, 2);
	script_wait(7200);
	CHECK_UINT(script.ends, 1);
	script_drop();
	script_end();
}

/* RFC 5482: unacknowledged for this long, whatever the backoff says. */
void a_user_timeout_is_kept_to(void)
{
	script_begin(NULL);
	script_connect(NULL);
	tcp_set_user_timeout(script.conn, 3000);
	script_wait(100000); /* idle: nothing is unacknowledged */
	script_write(10);
	script_wait(2900);
	CHECK_UINT(script.ends, 0);
	script_wait(200);
	CHECK_UINT(script.ends, 1);
	CHECK_INT(script.reason, ETIMEDOUT);
	script_drop();
	/* A FIN is unacknowledged, too. */
	script_connect(SEGMENT(.port = 40001));
	tcp_set_user_timeout(script.conn, 3000);
	script_wait(100000);
	tcp_close(script.conn);
	script_turn();
	script_wait(2900);
	CHECK_UINT(script.ends, 1);
	script_wait(200);
	CHECK_UINT(script.ends, 2);
	script_drop();
	script_end();
}

/* A closed window counts only if a user timeout is set: the peer may just be slow to read. */
void a_closed_window_may_time_out(void)
{
	for (int own = 0; own < 2; own++) {
		script_begin(NULL);
		script_connect(NULL);
		if (own)
			tcp_set_user_timeout(script.conn, 10000);
		script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .closed = true));
		script_write(1000);
		for (unsigned i = 0; i < 500 && script.conn; i++) {
			script_wait(1000);
			if (script.out_tail != script.out_head && script.conn) { /* a probe: the peer is there */
				script_drop();
				script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .closed = true));
			}
		}
		CHECK_UINT(script.ends, own);
		script_drop();
		script_end();
	}
}

/* What is acknowledged step by step does not time out. */
void progress_begins_the_user_timeout_again(void)
{
	script_begin(NULL);
	script_connect(SEGMENT(.mss = 1000));
	tcp_set_user_timeout(script.conn, 3000);
	script_write(5000);
	for (uint32_t i = 1; i <= 4; i++) {
		script_wait(2500);
		script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1 + 1000 * i));
	}
	CHECK_UINT(script.ends, 0);
	script_wait(3100);
	CHECK_UINT(script.ends, 1);
	script_drop();
	script_end();
}
