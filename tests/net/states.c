/* SPDX-License-Identifier: BSD-3-Clause */
/* How connections begin and end: RFC 9293, 3.5, 3.6 and 3.10.7; RFC 6191, 6528. */
#include <errno.h>

#include "tests/net/cases.h"
#include "tests/net/script.h"

#define SEGMENT(...) (&(struct script_segment){ __VA_ARGS__ })

void a_syn_is_answered_again_then_dropped(void)
{
	script_begin(NULL);
	script_in(SEGMENT(.flags = S));
	script_out(S | A, 0, 1, 0);
	script_in(SEGMENT(.flags = S)); /* our answer was lost */
	script_out(S | A, 0, 1, 0);
	for (int i = 0; i < 20; i++) /* not for every copy */
		script_in(SEGMENT(.flags = S));
	script_quiet();
	for (unsigned i = 0; i < 5; i++) {
		script_wait((1000u << i) + 100);
		script_out(S | A, 0, 1, 0);
		script_quiet();
	}
	script_wait(32000);
	script_quiet();
	CHECK_UINT(net_connections(script.net), 0);
	CHECK_UINT(script_counters()->tcp_attempt_fails, 1);
	CHECK_UINT(script.opens, 0);
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1));
	script_out(R, 1, 0, 0);
	script_end();
}

/* A SYN's data may come again with it: it is not acknowledged, and taken when it comes once more. */
void data_with_a_syn_is_not_taken_before_the_handshake(void)
{
	script_begin(NULL);
	script_in(SEGMENT(.flags = S, .bytes = 100));
	script_out(S | A, 0, 1, 0);
	CHECK_UINT(script.received, 0);
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .bytes = 100));
	CHECK_UINT(script.opens, 1);
	CHECK_UINT(script.received, 100);
	script_drop();
	script_in(SEGMENT(.flags = S | F, .seq = 5000, .port = 40001)); /* nonsense */
	script_quiet();
	CHECK_UINT(net_connections(script.net), 1);
	script_end();
}

void an_active_open_takes_what_comes_with_the_answer(void)
{
	script_begin(NULL);
	script_open();
	script_out(S, 0, 0, 0);
	script_in(SEGMENT(.flags = R)); /* without an ACK anybody may have sent it */
	script_in(SEGMENT(.flags = A, .ack = 1));
	script_in(SEGMENT(.flags = S | A, .ack = 2));
	CHECK_UINT(script_out(R, 2, 0, 0)->ack, 0);
	script_quiet();
	CHECK_UINT(script.opens + script.ends, 0);
	script_in(SEGMENT(.flags = S | A | F, .ack = 1, .bytes = 10));
	script_out(A, 1, 12, 0);
	CHECK_UINT(script.opens, 1);
	CHECK_UINT(script.received, 10);
	CHECK(script.finished);
	script_end();
}

void a_refused_open_ends(void)
{
	script_begin(NULL);
	script_open();
	script_drop();
	script_in(SEGMENT(.flags = R | A, .ack = 1));
	CHECK_UINT(script.ends, 1);
	CHECK_INT(script.reason, ECONNREFUSED);
	CHECK_UINT(script_counters()->tcp_attempt_fails, 1);
	script_end();
}

/* RFC 9293, figure 8. */
void both_sides_may_open(void)
{
	script_begin(NULL);
	script_open();
	script_out(S, 0, 0, 0);
	script_in(SEGMENT(.flags = S));
	script_out(S | A, 0, 1, 0);
	CHECK_UINT(script.opens, 0);
	script_in(SEGMENT(.flags = S | A, .ack = 1));
	CHECK_UINT(script.opens, 1);
	script_quiet(); /* answering it by another SYN would never end */
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .bytes = 10));
	CHECK_UINT(script.received, 10);
	script_end();
}

/* Half a connection: what the peer sends is read after our FIN, until its own. */
void a_connection_that_was_shut_down_goes_on_receiving(void)
{
	script_begin(NULL);
	script_connect(NULL);
	script_write(100);
	tcp_shutdown(script.conn);
	script_turn();
	script_out(A | P, 1, 1, 100);
	script_out(A | F, 101, 1, 0);
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 101, .bytes = 10)); /* FIN_WAIT_1 */
	CHECK_UINT(script.received, 10);
	script_in(SEGMENT(.flags = A, .seq = 11, .ack = 102));
	script_wait(600000); /* FIN_WAIT_2: the user still reads, so nothing ends it */
	script_drop();
	script_in(SEGMENT(.flags = A, .seq = 11, .ack = 102, .bytes = 10));
	script_wait(10);
	script_out(A, 102, 21, 0);
	CHECK_UINT(script.received, 20);
	CHECK(!script.finished);
	script_in(SEGMENT(.flags = A | F, .seq = 21, .ack = 102, .bytes = 5));
	script_out(A, 102, 27, 0);
	CHECK_UINT(script.received, 25);
	CHECK(script.finished);
	CHECK_UINT(script.ends, 1);
	CHECK_INT(script.reason, 0);
	CHECK_UINT(net_connections(script.net), 1); /* TIME_WAIT */
	script_wait(61000);
	CHECK_UINT(net_connections(script.net), 0);
	script_end();
}

/* After tcp_close nobody reads: data resets the connection, and a peer that never closes is not waited for. */
void a_closed_connection_waits_for_a_fin_only(void)
{
	struct net_options o = script_options();

	o.fin_wait_ms = 20000;
	script_begin(&o);
	script_connect(NULL);
	tcp_close(script.conn);
	script_turn();
	script_out(A | F, 1, 1, 0);
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 2));
	script_wait(19000);
	CHECK_UINT(script.ends, 0);
	script_wait(2000);
	CHECK_UINT(script.ends, 1);
	CHECK_UINT(net_connections(script.net), 0);
	script_quiet();

	script_connect(SEGMENT(.port = 40001));
	tcp_close(script.conn);
	script_turn();
	script_out(A | F, 1, 1, 0);
	script_in(SEGMENT(.flags = A, .port = 40001, .seq = 1, .ack = 2, .bytes = 10));
	script_out(R, 2, 0, 0);
	CHECK_UINT(script.ends, 2);
	CHECK_UINT(script_counters()->tcp_abort_on_data, 1);

	/* Shut down first, closed later: from then on the peer has as long. */
	script_connect(SEGMENT(.port = 40002));
	tcp_shutdown(script.conn);
	script_turn();
	script_out(A | F, 1, 1, 0);
	script_in(SEGMENT(.flags = A, .port = 40002, .seq = 1, .ack = 2));
	script_wait(100000);
	CHECK_UINT(script.ends, 2);
	tcp_close(script.conn);
	script_wait(21000);
	CHECK_UINT(script.ends, 3);
	script_end();
}

/* Data that was queued behind a hole is not delivered to a user that has closed meanwhile. */
void nothing_is_delivered_after_a_close(void)
{
	script_begin(NULL);
	script_connect(SEGMENT(.sack_permitted = true, .mss = 1460));
	script_in(SEGMENT(.flags = A, .seq = 101, .ack = 1, .bytes = 100));
	script.closes = true;
	script_drop();
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .bytes = 100));
	CHECK_UINT(script.received, 100);
	CHECK_UINT(script.ends, 1);
	CHECK_INT(script.reason, ECONNABORTED);
	script_out(R | A, 1, 201, 0);
	script_end();
}

void both_sides_may_close(void)
{
	script_begin(NULL);
	script_connect(NULL);
	tcp_close(script.conn);
	script_turn();
	script_out(A | F, 1, 1, 0);
	script_in(SEGMENT(.flags = A | F, .seq = 1, .ack = 1)); /* CLOSING */
	script_out(A, 2, 2, 0);
	CHECK_UINT(script.ends, 0);
	script_in(SEGMENT(.flags = A, .seq = 2, .ack = 2));
	CHECK_UINT(script.ends, 1);
	CHECK_UINT(net_connections(script.net), 1);
	script_end();
}

void the_peer_may_close_first(void)
{
	script_begin(NULL);
	script_connect(NULL);
	script_in(SEGMENT(.flags = A | F, .seq = 1, .ack = 1, .bytes = 10));
	script_out(A, 1, 12, 0);
	CHECK(script.finished);
	script_write(50); /* CLOSE_WAIT still sends */
	script_out(A | P, 1, 12, 50);
	tcp_close(script.conn);
	script_turn();
	script_out(A | F, 51, 12, 0);
	script_in(SEGMENT(.flags = A | F, .seq = 1, .ack = 1, .bytes = 10)); /* our ACK was lost */
	script_out(A, 52, 12, 0);
	script_in(SEGMENT(.flags = A, .seq = 12, .ack = 52));
	CHECK_UINT(script.ends, 1);
	CHECK_INT(script.reason, 0);
	CHECK_UINT(net_connections(script.net), 0); /* no TIME_WAIT for the side that closes second */
	script_end();
}

/* A FIN that comes before its turn waits for it, and what lies behind it is nobody's. */
void a_fin_waits_for_its_turn(void)
{
	script_begin(NULL);
	script_connect(SEGMENT(.sack_permitted = true, .mss = 1460));
	script_in(SEGMENT(.flags = A | F, .seq = 101, .ack = 1, .bytes = 100));
	script_in(SEGMENT(.flags = A, .seq = 202, .ack = 1, .bytes = 100));
	script_in(SEGMENT(.flags = A | F, .seq = 51, .ack = 1, .bytes = 150));
	CHECK(!script.finished);
	script_drop();
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .bytes = 50));
	CHECK(script.finished);
	CHECK_UINT(script.received, 200);
	script_out(A, 1, 202, 0);
	script_end();
}

static void into_time_wait(const struct script_segment *options)
{
	script_begin(NULL);
	script_connect(options);
	tcp_close(script.conn);
	script_turn();
	script_in(SEGMENT(.flags = A | F, .seq = 1, .ack = 2, .stamped = options && options->stamped,
			  .ts_value = options ? options->ts_value : 0));
	script_drop();
	CHECK_UINT(script.ends, 1);
	CHECK_UINT(net_connections(script.net), 1);
}

void time_wait_hears_the_last_fin_again(void)
{
	into_time_wait(NULL);
	script_wait(50000);
	script_in(SEGMENT(.flags = A | F, .seq = 1, .ack = 2));
	script_out(A, 2, 2, 0);
	script_in(SEGMENT(.flags = R, .seq = 2)); /* RFC 1337 */
	script_wait(50000);
	CHECK_UINT(net_connections(script.net), 1); /* its time began again */
	script_wait(11000);
	CHECK_UINT(net_connections(script.net), 0);
	script_end();
}

/* A SYN may follow a connection in TIME_WAIT when nothing old can be taken for its data; our own numbers go on above,
 * too. */
void time_wait_is_reused_safely(void)
{
	const uint32_t jump = 1 << 20;
	uint32_t former;

	into_time_wait(NULL);
	script_in(SEGMENT(.flags = S, .seq = 2)); /* not above */
	script_out(A, 2, 2, 0);
	CHECK_UINT(script_counters()->tcp_time_wait_reused, 0);
	former = script.stack_iss;
	script.peer_iss += 3;
	script_in(SEGMENT(.flags = S));
	script_out(S | A, 0, 1, 0);
	CHECK_UINT(script_counters()->tcp_time_wait_reused, 1);
	CHECK((int32_t)(script.stack_iss - former) > 0);
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1));
	CHECK_UINT(script.opens, 2);
	/* Much was sent, in so short a time that the clock of initial numbers is behind: the next one is above all the
	 * same. */
	for (uint32_t sent = 0; sent < jump; sent += 1460) {
		script_write(1460);
		script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1 + sent + 1460));
	}
	tcp_close(script.conn);
	script_drop();
	former = script.out[(script.out_tail - 1) % SCRIPT_FRAMES_MAX].seq + script.stack_iss;
	script_in(SEGMENT(.flags = A | F, .seq = 1, .ack = former - script.stack_iss + 1));
	script_drop();
	CHECK_UINT(script.ends, 2);
	script.peer_iss += 3;
	script_in(SEGMENT(.flags = S));
	script_out(S | A, 0, 1, 0);
	CHECK((int32_t)(script.stack_iss - former) > 0);
	script_end();
}

/* With timestamps a later one is enough, and an earlier one is refused whatever its number. */
void time_wait_is_reused_by_timestamps(void)
{
	into_time_wait(SEGMENT(.mss = 1460, .stamped = true, .ts_value = 7000));
	script_in(SEGMENT(.flags = S, .seq = 1000, .stamped = true, .ts_value = 6999));
	script_out(A, 2, 2, 0);
	CHECK_UINT(script_counters()->tcp_time_wait_reused, 0);
	script.peer_iss -= 1000; /* lower than before */
	script_in(SEGMENT(.flags = S, .stamped = true, .ts_value = 7001));
	script_out(S | A, 0, 1, 0);
	CHECK_UINT(script_counters()->tcp_time_wait_reused, 1);
	script_end();
}

/* Our own open follows one, too, when both have timestamps and a second has passed. */
void an_active_open_follows_time_wait(void)
{
	struct star_error err = { 0 };
	struct tcp_conn *conn;
	static const struct tcp_handler handler;

	script_begin(NULL);
	script_open();
	script_drop();
	script_in(SEGMENT(.flags = S | A, .ack = 1, .mss = 1460, .stamped = true, .ts_value = 7000));
	const struct tcp_address a = tcp_address(script.conn);

	tcp_close(script.conn);
	script_turn();
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 2, .stamped = true, .ts_value = 7000));
	script_in(SEGMENT(.flags = A | F, .seq = 1, .ack = 2, .stamped = true, .ts_value = 7000));
	CHECK_UINT(script.ends, 1);
	CHECK(!tcp_connect_from(script.net, NULL, a.local_port, &a.remote, a.remote_port, &handler, NULL, NULL, &err));
	CHECK_HAS(err.text, "in use");
	script_wait(1100);
	conn = tcp_connect_from(script.net, NULL, a.local_port, &a.remote, a.remote_port, &handler, NULL, NULL, &err);
	CHECK(conn);
	CHECK_UINT(net_connections(script.net), 1);
	script_end();
}

/* RFC 6528: the number of one connection does not reveal the next one's; for one four-tuple they go up with time. */
void initial_numbers_are_no_ones_guess(void)
{
	uint32_t iss[3], again;

	script_begin(NULL);
	for (uint16_t i = 0; i < 3; i++) {
		script_in(SEGMENT(.flags = S, .port = (uint16_t)(40001 + i)));
		iss[i] = script.stack_iss;
	}
	CHECK(iss[1] - iss[0] != iss[2] - iss[1]);
	CHECK(iss[1] - iss[0] > 1000000 && iss[2] - iss[1] > 1000000);
	script_in(SEGMENT(.flags = R, .port = 40001, .seq = 1));
	script_wait(4);
	script_in(SEGMENT(.flags = S, .port = 40001));
	again = script.stack_iss;
	CHECK_UINT(again - iss[0], 1000); /* 4 us each */
	script_end();
}

void urgent_data_is_data(void)
{
	script_begin(NULL);
	script_connect(NULL);
	script_in(SEGMENT(.flags = A | U | P, .seq = 1, .ack = 1, .bytes = 100));
	CHECK_UINT(script.received, 100);
	CHECK_UINT(script_counters()->tcp_urgent, 1);
	script_end();
}

/* RFC 9293, 3.10.7.2: an ACK is refused, a SYN answered, and what has none of the three flags is dropped. */
void a_listener_drops_what_says_nothing(void)
{
	script_begin(NULL);
	script_in(SEGMENT(.flags = 0, .seq = 5));
	script_in(SEGMENT(.flags = P, .seq = 5, .bytes = 100));
	script_in(SEGMENT(.flags = F, .seq = 5));
	script_in(SEGMENT(.flags = R, .seq = 5));
	script_quiet();
	CHECK_UINT(script_counters()->tcp_no_flags, 3);
	script_in(SEGMENT(.flags = F | A, .seq = 5, .ack = 1));
	script_out(R, 1, 0, 0);
	script_in(SEGMENT(.flags = S));
	script_out(S | A, 0, 1, 0);
	script_end();
}

void nobody_listens_any_more(void)
{
	script_begin(NULL);
	script_connect(NULL);
	CHECK_INT(tcp_unlisten(script.net, SCRIPT_PORT), 0);
	CHECK_INT(tcp_unlisten(script.net, SCRIPT_PORT), -ENOENT);
	script_in(SEGMENT(.flags = S, .port = 40001));
	script_out(R | A, 0 - script.stack_iss, 1, 0);
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .bytes = 100));
	CHECK_UINT(script.received, 100);
	script_end();
}

void a_user_may_refuse(void)
{
	script_begin(NULL);
	script.refuse = true;
	script_in(SEGMENT(.flags = S));
	script_drop();
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1));
	script_out(R | A, 1, 1, 0);
	CHECK_UINT(net_connections(script.net), 0);
	CHECK_UINT(script.ends, 0);
	script_end();
}
