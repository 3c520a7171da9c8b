/* SPDX-License-Identifier: BSD-3-Clause */
/* What SACK blocks make the sender do (RFC 2018, 2883, 6675), and what false ones do not. */
#include "tests/net/cases.h"
#include "tests/net/sender.h"

/* Ten segments, of which the first, fourth and fifth are lost: those three are sent again, and nothing else. */
void only_the_holes_are_sent_again(void)
{
	sender_begin(NULL, PEER_SACK, 100);
	script_write(10 * MSS);
	sender_sent_run(1, 10);
	script_wait(100);
	sender_sack(1, 1, 1001, 2001);
	sender_sack(1, 1, 1001, 3001);
	sender_quiet();
	sender_sack(1, 2, 5001, 6001, 1001, 3001);
	sender_sent(1, MSS);
	sender_quiet();
	CHECK_INT(script.conn->recovery, TCP_RECOVERY_FAST);
	CHECK_UINT(script.conn->lost_segs, 3);
	sender_sack(1, 2, 5001, 7001, 1001, 3001);
	sender_sent(3001, MSS);
	sender_sack(1, 2, 5001, 8001, 1001, 3001);
	sender_sent(4001, MSS);
	sender_sack(1, 2, 5001, 10001, 1001, 3001);
	sender_quiet();
	sender_check();
	script_wait(100);
	sender_sack(3001, 1, 5001, 10001);
	sender_ack(10001);
	sender_quiet();
	CHECK_INT(script.conn->recovery, TCP_RECOVERY_NONE);
	CHECK_UINT(script.conn->cwnd, 7 * MSS);
	CHECK_UINT(script_counters()->tcp_retrans_segs, 3);
	CHECK_UINT(script_counters()->tcp_rtos, 0);
	sender_end();
}

/* Proportional rate reduction: in recovery there goes out what ssthresh is to the window of what comes in (RFC
 * 6937). */
void a_recovery_sends_in_proportion(void)
{
	uint32_t sent = 0;

	sender_begin(NULL, PEER_SACK, 100);
	script.conn->cwnd = 20 * MSS;
	script_write(40 * MSS);
	sender_sent_run(1, 20);
	script_wait(100);
	for (uint32_t i = 2; i <= 19; i++) {
		sender_sack(1, 1, 1001, 1 + i * MSS);
		sent += sender_sent_bytes();
	}
	/* Two by limited transmit, then 0.7 of each. */
	CHECK_UINT(script.conn->ssthresh, 14 * MSS);
	CHECK(sent >= 13 * MSS && sent <= 16 * MSS);
	CHECK(tcp_pipe(script.conn) <= 15 * MSS);
	sender_end();
}

void an_ack_below_the_last_one_may_bring_sacks(void)
{
	sender_begin(NULL, PEER_SACK, 10);
	script_write(10 * MSS);
	sender_sent_run(1, 10);
	script_wait(10);
	sender_ack(4001);
	CHECK_UINT(script.conn->sacked_segs, 0);
	sender_sack(3001, 1, 5001, 7001); /* sent before that one */
	CHECK_UINT(script.conn->sacked_segs, 2);
	sender_end();
}

/* A segment counts when a block covers all of it. */
void parts_of_segments_are_not_sacked(void)
{
	sender_begin(NULL, PEER_SACK, 100);
	script_write(4 * MSS);
	sender_sent_run(1, 4);
	script_wait(100);
	sender_sack(1, 1, 4000, 4001);
	CHECK_UINT(script.conn->sacked_segs, 0);
	sender_sack(1, 1, 1500, 3500);
	CHECK_UINT(script.conn->sacked_segs, 1);
	sender_end();
}

void false_sack_blocks_are_ignored(void)
{
	const struct {
		uint32_t begin, end;
	} lies[] = {
		{ 10001, 11001 },			 /* was never sent */
		{ 5001, 10002 },			 /* goes beyond what was */
		{ 3001, 2001 },				 /* backwards */
		{ 2001, 2001 },				 /* empty */
		{ 0x80000001, 5001 },			 /* half the numbers */
		{ 5001, 0x80000001 }, { 0xfffff000, 1 }, /* below everything */
	};

	sender_begin(NULL, PEER_SACK, 100);
	script_write(10 * MSS);
	sender_sent_run(1, 10);
	script_wait(100);
	for (size_t i = 0; i < RTE_DIM(lies); i++) {
		sender_sack(1, 1, lies[i].begin, lies[i].end);
		CHECK_UINT(script.conn->sacked_segs, 0);
		CHECK_UINT(script.conn->lost_segs, 0);
		sender_check();
	}
	sender_quiet();
	CHECK_UINT(script.conn->cwnd, 10 * MSS);
	sender_end();
}

/* A peer that SACKed all but the first segment, and then has none of it (RFC 2018, 8). */
void a_peer_that_takes_back_its_sacks_gets_everything_again(void)
{
	sender_begin(NULL, PEER_SACK, 10);
	script_write(5 * MSS);
	sender_sent_run(1, 5);
	script_wait(10);
	sender_sack(1, 1, 1001, 5001);
	sender_sent(1, MSS);
	script_wait(10);
	sender_ack(1001); /* and not 5001: what it had is gone */
	CHECK_UINT(script.conn->sacked_segs, 4);
	for (int i = 0; i < 20 && script.conn->sacked_segs; i++)
		script_wait(100);
	CHECK_UINT(script_counters()->tcp_sack_reneged, 1);
	CHECK_UINT(script.conn->sacked_segs, 0);
	sender_sent(1001, MSS);
	sender_ack(2001);
	sender_sent(2001, MSS);
	sender_sent(3001, MSS);
	sender_ack(4001);
	sender_sent(4001, MSS);
	sender_ack(5001);
	CHECK_UINT(tcp_queued(script.conn), 0);
	sender_end();
}

static uint32_t steps(void)
{
	return (uint32_t)script_counters()->tcp_sack_steps;
}

/* Thousands of segments in flight, and blocks all over them: an ACK costs a bounded number of looks, whatever it
 * says. */
void an_ack_costs_no_walk_over_the_window(void)
{
	enum { MANY = 3000 };
	struct net_options o = sender_options();
	uint32_t before, most = 0;

	o.idle_keeps_window = true;
	sender_begin(&o, PEER_SACK, 100);
	script.conn->cwnd = script.conn->ssthresh = MANY * MSS;
	script_write(MANY * MSS);
	CHECK_UINT(sender_sent_bytes(), MANY * MSS);
	script_wait(20);
	/* One more segment each time: the run is not walked again. */
	for (uint32_t i = 2; i < 500; i++) {
		before = steps();
		sender_sack(1, 1, 1001, 1 + i * MSS);
		most = RTE_MAX(most, steps() - before);
	}
	CHECK(most <= 8);
	/* Single segments far apart, four an ACK, from the end to the front. */
	most = 0;
	for (uint32_t i = MANY - 2; i > 600; i -= 8) {
		before = steps();
		sender_sack(1, 4, 1 + i * MSS, 1001 + i * MSS, 1 + (i - 2) * MSS, 1001 + (i - 2) * MSS,
			    1 + (i - 4) * MSS, 1001 + (i - 4) * MSS, 1 + (i - 6) * MSS, 1001 + (i - 6) * MSS);
		most = RTE_MAX(most, steps() - before);
	}
	CHECK(most <= 4 * (MANY / 64 + 70));
	/* The same blocks again and again: nothing new. */
	most = 0;
	for (int i = 0; i < 100; i++) {
		before = steps();
		sender_sack(1, 2, 1001, 499 * MSS + 1, 1001, 499 * MSS + 1);
		most = RTE_MAX(most, steps() - before);
	}
	CHECK(most <= 8);
	script_drop();
	sender_end();
}
