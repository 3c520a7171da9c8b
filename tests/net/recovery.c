/* SPDX-License-Identifier: BSD-3-Clause */
/* Timeouts, recovery without SACK, and windows that hold the sender back. */
#include "tests/net/cases.h"
#include "tests/net/sender.h"

/* RFC 6298: the floor on top of the round trip, doubled each time, and measured again when an ACK comes. */
void timeouts_double_and_are_measured_again(void)
{
	sender_begin(NULL, 0, 100);
	CHECK_UINT(script.conn->rto_us, 300000);
	script_write(MSS);
	sender_sent(1, MSS);
	script_wait(298);
	sender_quiet();
	script_wait(3);
	sender_sent(1, MSS);
	script_wait(597);
	sender_quiet();
	script_wait(4);
	sender_sent(1, MSS);
	script_wait(1196);
	sender_quiet();
	script_wait(5);
	sender_sent(1, MSS);
	CHECK_UINT(script_counters()->tcp_rtos, 3);
	CHECK_UINT(script_counters()->tcp_retrans_segs, 3);
	CHECK_UINT(script.conn->cwnd, MSS);
	/* Karn: this says nothing of the round trip; but what comes after it does. */
	sender_ack(1001);
	CHECK_UINT(tcp_srtt_us(script.conn), 100000);
	script_write(MSS);
	sender_sent(1001, MSS);
	script_wait(100);
	sender_ack(2001);
	CHECK(script.conn->rto_us >= 300000 && script.conn->rto_us <= 302000);
	/* The variance fades, the floor does not. */
	for (uint32_t i = 2; i < 30; i++) {
		script_write(MSS);
		sender_sent(1 + i * MSS, MSS);
		script_wait(100);
		sender_ack(1001 + i * MSS);
	}
	CHECK(tcp_rttvar_us(script.conn) < 10000);
	CHECK(script.conn->rto_us >= 300000 && script.conn->rto_us <= 301000);
	sender_end();
}

void the_floor_of_the_timeout_is_an_option(void)
{
	struct net_options o = sender_options();

	o.rto_min_us = 5000;
	sender_begin(&o, 0, 1);
	CHECK(script.conn->rto_us >= 6000 && script.conn->rto_us < 7000);
	script_write(MSS);
	sender_sent(1, MSS);
	script_wait(8);
	sender_sent(1, MSS);
	sender_end();
}

/* A segment that was sent twice is measured by the timestamp that comes back (RFC 7323, 4). */
void timestamps_measure_what_was_sent_twice(void)
{
	sender_begin(NULL, PEER_STAMPS, 100);
	script_write(MSS);
	sender_sent(1, MSS);
	script_wait(301);
	sender_sent(1, MSS);
	script_wait(180);
	sender_stamped_ack(1001, 180, 0);
	CHECK_UINT(tcp_srtt_us(script.conn), 110000); /* 100 + (180 - 100) / 8 */
	sender_end();
}

/* Everything is sent again after a timeout, as slow start lets it; what the peer has had all the while is not. */
void after_a_timeout_only_what_is_missing_is_sent(void)
{
	sender_begin(NULL, PEER_SACK, 100);
	script_write(10 * MSS);
	sender_sent_run(1, 10);
	script_wait(100);
	sender_sack(1, 1, 4001, 6001);
	script_drop();
	script_wait(700);
	CHECK(script_counters()->tcp_rtos >= 1);
	script_drop();
	CHECK_INT(script.conn->recovery, TCP_RECOVERY_TIMEOUT);
	for (int i = 0; i < 20 && tcp_queued(script.conn); i++) {
		script_wait(100);
		sender_sack(1 + (uint32_t)(i + 1) * MSS > 4001 ? 10001 : 1 + (uint32_t)(i + 1) * MSS, 0);
		while (script.out_head != script.out_tail) {
			const struct script_segment *s = &script.out[script.out_head++ % SCRIPT_FRAMES_MAX];

			CHECK(s->bytes == 0 || s->seq + s->bytes <= 4001 || s->seq >= 6001);
		}
		sender_check();
	}
	CHECK_UINT(tcp_queued(script.conn), 0);
	sender_end();
}

/* NewReno (RFC 6582): three duplicates, then one hole for each partial ACK. */
void a_peer_without_sack_is_repaired_hole_by_hole(void)
{
	sender_begin(NULL, 0, 100);
	script_write(20 * MSS);
	sender_sent_run(1, 10);
	script_wait(100);
	sender_ack(1);
	sender_sent(10001, MSS); /* limited transmit (RFC 3042) */
	sender_ack(1);
	sender_sent(11001, MSS);
	sender_quiet();
	sender_ack(1);
	sender_sent(1, MSS);
	CHECK_INT(script.conn->recovery, TCP_RECOVERY_FAST);
	for (int i = 0; i < 8; i++)
		sender_ack(1);
	script_drop(); /* new data, one for each or so */
	sender_check();
	script_wait(100);
	sender_ack(4001); /* the fourth is missing, too */
	sender_sent(4001, MSS);
	script_drop();
	CHECK_INT(script.conn->recovery, TCP_RECOVERY_FAST);
	script_wait(100);
	sender_ack(12001);
	CHECK_INT(script.conn->recovery, TCP_RECOVERY_NONE);
	CHECK_UINT(script.conn->cwnd, 7 * MSS);
	CHECK_UINT(script_counters()->tcp_retrans_segs, 2);
	CHECK_UINT(script_counters()->tcp_fast_retrans, 1);
	CHECK_UINT(script_counters()->tcp_rtos, 0);
	script_drop();
	sender_end();
}

/* After a recovery, duplicates of what was sent before its end do not begin another (RFC 6582, 4). */
void duplicates_of_a_recovery_begin_no_other(void)
{
	sender_begin(NULL, 0, 100);
	script_write(10 * MSS);
	sender_sent_run(1, 10);
	script_wait(301);
	sender_sent(1, MSS); /* a timeout */
	for (int i = 0; i < 5; i++)
		sender_ack(1);
	CHECK_UINT(script_counters()->tcp_fast_retrans, 0);
	sender_quiet();
	sender_end();
}

/* ACKs that do not count as duplicates: with data, or with another window (RFC 5681, 2). */
void what_is_no_duplicate_does_not_count(void)
{
	sender_begin(NULL, 0, 100);
	script_write(5 * MSS);
	sender_sent_run(1, 5);
	for (uint16_t i = 0; i < 5; i++)
		script_in(&(struct script_segment){ .flags = A, .seq = 1, .ack = 1, .window = (uint16_t)(60000 + i) });
	for (uint32_t i = 0; i < 5; i++)
		script_in(&(struct script_segment){
			.flags = A, .seq = 1 + i * 10, .ack = 1, .bytes = 10, .window = 60004 });
	CHECK_UINT(script.conn->dupacks, 0);
	CHECK_UINT(script_counters()->tcp_fast_retrans, 0);
	script_drop();
	sender_end();
}

static void window(uint32_t ack, uint16_t window)
{
	script_in(
		&(struct script_segment){ .flags = A, .seq = 1, .ack = ack, .window = window, .closed = window == 0 });
}

/* Probes of a closed window: without data, of a number that was acknowledged, at longer and longer intervals; when the
 * window opens everything goes at once. */
void a_closed_window_is_probed(void)
{
	uint64_t probes = 0;

	sender_begin(NULL, PEER_SACK, 100);
	script_write(MSS);
	sender_sent(1, MSS);
	script_wait(100);
	window(1001, 0);
	script_write(4 * MSS);
	sender_quiet();
	for (uint64_t wait = 300; wait < 3000; wait *= 2) {
		script_wait(wait + 3);
		CHECK_UINT(script_counters()->tcp_zero_window_probes, ++probes);
		sender_sent(1000, 0);
		sender_quiet();
		window(1001, 0);
	}
	CHECK_UINT(script.conn->cwnd, 10 * MSS);
	window(1001, 65535);
	sender_sent_run(1001, 4);
	CHECK_UINT(script_counters()->tcp_retrans_segs + script_counters()->tcp_rtos, 0);
	script_wait(100);
	sender_ack(5001);
	sender_end();
}

/* A peer that answers probes is waited for, however long it does not read; the probes never come so rarely that it
 * seems dead. */
void a_reader_that_sleeps_is_waited_for(void)
{
	struct net_options o = sender_options();

	o.user_timeout_ms = 10000;
	sender_begin(&o, PEER_SACK, 100);
	window(1, 0);
	script_write(MSS);
	for (int i = 0; i < 600 && script.conn; i++) {
		const uint64_t probes = script_counters()->tcp_zero_window_probes;

		script_wait(1000);
		if (script_counters()->tcp_zero_window_probes != probes)
			window(1, 0);
		script_drop();
	}
	CHECK(script.conn);
	sender_end();
}

/* A small window is filled when it is half of the largest there was; less waits for a timer (RFC 9293, 3.8.6.2.1). */
void silly_windows_are_not_filled(void)
{
	struct script_segment syn = { .mss = MSS, .sack_permitted = true };

	script_begin(NULL);
	script_connect(&syn);
	script_write(MSS);
	sender_sent(1, MSS);
	window(1001, 400);
	script_write(2 * MSS);
	sender_quiet();
	script_wait(250);
	sender_sent(1001, 400);
	window(1401, 300);
	sender_quiet();
	window(1401, 40000);
	sender_sent(1401, 600); /* the rest of the first, then the second */
	sender_sent(2001, MSS);
	sender_end();
	/* A peer whose largest window is less than a segment. */
	script_begin(NULL);
	syn.flags = S;
	syn.window = 600;
	script_in(&syn);
	window(1, 600);
	script_drop();
	script_write(2 * MSS);
	sender_sent(1, 600);
	window(601, 200);
	sender_quiet();
	window(601, 300);
	sender_sent(601, 300);
	sender_end();
}

/* The peer took a part of its window back (RFC 9293, 3.8.6): nothing is sent again beyond it, but for the first
 * segment. */
void what_is_beyond_a_window_taken_back_waits(void)
{
	sender_begin(NULL, PEER_SACK, 100);
	script_write(5 * MSS);
	sender_sent_run(1, 5);
	script_wait(100);
	script_in(&(struct script_segment){ .flags = A, .seq = 1, .ack = 1, .window = 1 }); /* 128 bytes */
	script_wait(1000);
	script_drop();
	script_in(&(struct script_segment){ .flags = A, .seq = 1, .ack = 1001, .window = 1 });
	sender_sent(1001, MSS);
	sender_quiet();
	script_in(&(struct script_segment){ .flags = A, .seq = 1, .ack = 2001, .window = 1000 });
	sender_sent(2001, MSS);
	sender_sent(3001, MSS);
	script_drop();
	sender_end();
}

void nagle_holds_small_segments_back_if_asked(void)
{
	sender_begin(NULL, PEER_SACK, 100);
	script_write(100);
	script_write(100);
	sender_sent(1, 100);
	sender_sent(101, 100);
	sender_ack(201);
	tcp_set_nagle(script.conn, true);
	script_write(100);
	sender_sent(201, 100);
	script_write(50);
	script_write(50);
	sender_quiet();
	script_wait(100);
	sender_ack(301);
	sender_sent(301, 100); /* both */
	script_write(10);
	sender_quiet();
	script_write(MSS);
	sender_sent(401, MSS);
	sender_quiet();
	tcp_set_nagle(script.conn, false);
	script_turn();
	sender_sent(1401, 10);
	sender_end();
}

/* The FIN goes with the last data, is lost with it, and comes again with it. */
void a_fin_is_sent_with_data_and_again(void)
{
	sender_begin(NULL, PEER_SACK, 100);
	for (int i = 0; i < 2; i++) {
		struct rte_mbuf *m = tcp_alloc(script.conn);

		rte_pktmbuf_append(m, MSS);
		CHECK(tcp_send(script.conn, m));
	}
	tcp_shutdown(script.conn);
	script_turn();
	CHECK_UINT(sender_sent(1, MSS)->flags, A);
	CHECK_UINT(sender_sent(1001, MSS)->flags, A | P | F);
	script_wait(100);
	sender_ack(1001);
	script_wait(310);
	CHECK_UINT(sender_sent(1001, MSS)->flags, A | P | F);
	sender_ack(2001);
	script_wait(700);
	CHECK_UINT(sender_sent(2001, 0)->flags, A | F);
	sender_ack(2002);
	script_wait(2000);
	sender_quiet();
	sender_end();
}

/* Mbufs run out for a while: nothing is lost but time. */
void a_sender_without_mbufs_goes_on_later(void)
{
	static struct rte_mbuf *all[SCRIPT_MBUFS];
	unsigned n = 0;

	sender_begin(NULL, PEER_SACK, 100);
	script_write(3 * MSS);
	sender_sent_run(1, 3);
	tcp_shutdown(script.conn);
	while ((all[n] = rte_pktmbuf_alloc(script.pool)))
		n++;
	script_turn(); /* the FIN has no mbuf */
	sender_quiet();
	rte_pktmbuf_free_bulk(all, n);
	script_wait(1000);
	CHECK(script.out_head != script.out_tail);
	script_drop();
	sender_ack(3002);
	script_wait(3000);
	sender_quiet();
	sender_end();
}
