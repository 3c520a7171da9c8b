/* SPDX-License-Identifier: BSD-3-Clause */
/* Retransmissions that prove to be mistakes: the window is given back. */
#include "tests/net/cases.h"
#include "tests/net/sender.h"

/* Eifel (RFC 3522): the ACK echoes what was sent before the retransmission. */
void a_timestamp_undoes_a_timeout(void)
{
	sender_begin(NULL, PEER_SACK | PEER_STAMPS, 100);
	script_write(10 * MSS);
	sender_sent_run(1, 10);
	script_wait(650); /* the path has become slow: a probe, then the timeout */
	script_drop();
	CHECK_UINT(script_counters()->tcp_rtos, 1);
	CHECK(script.conn->cwnd <= 2 * MSS);
	sender_stamped_ack(1001, 650, 0);
	CHECK_UINT(script_counters()->tcp_timeout_undos, 1);
	CHECK_INT(script.conn->recovery <= TCP_RECOVERY_DISORDER, 1);
	CHECK(script.conn->cwnd >= 10 * MSS);
	CHECK(script.conn->ssthresh == UINT32_MAX);
	CHECK(!script.conn->lost.first);
	sender_stamped_ack(10001, 640, 0);
	script_wait(1000);
	CHECK_UINT(sender_sent_bytes(), 0);
	sender_end();
}

/* The timeout was right: the echo is the retransmission's. */
void a_timeout_that_was_right_stays(void)
{
	sender_begin(NULL, PEER_SACK | PEER_STAMPS, 100);
	script_write(10 * MSS);
	sender_sent_run(1, 10);
	script_wait(650);
	script_drop();
	script_wait(100);
	sender_stamped_ack(1001, 100, 0);
	CHECK_UINT(script_counters()->tcp_timeout_undos, 0);
	CHECK_INT(script.conn->recovery, TCP_RECOVERY_TIMEOUT);
	CHECK_UINT(script.conn->ssthresh, 7 * MSS);
	script_drop();
	sender_end();
}

/* F-RTO (RFC 5682): new data goes out after the timeout's first ACK, and the next ACK is of what was never sent
 * again. */
void new_data_shows_that_a_timeout_was_wrong(void)
{
	sender_begin(NULL, 0, 100);
	script_write(20 * MSS);
	sender_sent_run(1, 10);
	script_wait(310);
	sender_sent(1, MSS);
	CHECK_UINT(script_counters()->tcp_rtos, 1);
	sender_ack(1001);
	sender_sent(10001, MSS); /* and not 1001 again */
	sender_sent(11001, MSS);
	sender_quiet();
	sender_ack(2001);
	CHECK_UINT(script_counters()->tcp_timeout_undos, 1);
	CHECK(script.conn->cwnd >= 10 * MSS);
	CHECK_UINT(script_counters()->tcp_retrans_segs, 1);
	script_drop();
	sender_ack(12001);
	sender_end();
}

void new_data_shows_that_a_timeout_was_right(void)
{
	sender_begin(NULL, 0, 100);
	script_write(20 * MSS);
	sender_sent_run(1, 10);
	script_wait(310);
	sender_sent(1, MSS);
	script_wait(100);
	sender_ack(1001);
	sender_sent(10001, MSS);
	sender_sent(11001, MSS);
	script_wait(100);
	sender_ack(1001); /* a duplicate: what came is the new data */
	sender_sent(1001, MSS);
	CHECK_UINT(script_counters()->tcp_timeout_undos, 0);
	CHECK_INT(script.conn->recovery, TCP_RECOVERY_TIMEOUT);
	script_drop();
	sender_end();
}

/* A peer without SACK, whose ACK of the retransmission covers what it had got before: that says nothing. */
void what_came_before_a_timeout_does_not_undo_it(void)
{
	sender_begin(NULL, 0, 100);
	script_write(3 * MSS);
	sender_sent_run(1, 3);
	script_wait(310);
	sender_sent(1, MSS);
	script_wait(100);
	sender_ack(3001);
	CHECK_UINT(script_counters()->tcp_timeout_undos, 0);
	CHECK_UINT(script.conn->ssthresh, 7 * MSS);
	sender_end();
}

/* All that was sent again came twice, as the peer reports. */
void reported_duplicates_undo_a_recovery(void)
{
	sender_begin(NULL, PEER_SACK, 100);
	script_write(10 * MSS);
	sender_sent_run(1, 10);
	script_wait(100);
	sender_sack(1, 1, 2001, 5001);
	sender_sent(1, MSS);
	sender_sack(1, 1, 2001, 7001);
	sender_sent(1001, MSS);
	script_drop();
	CHECK_UINT(script.conn->ssthresh, 7 * MSS);
	sender_ack(10001); /* they were only late */
	CHECK_UINT(script.conn->cwnd, 7 * MSS);
	script_wait(90);
	sender_sack(10001, 1, 1, 1001);
	CHECK_UINT(script_counters()->tcp_recovery_undos, 0);
	sender_sack(10001, 1, 1001, 2001);
	CHECK_UINT(script_counters()->tcp_recovery_undos, 1);
	CHECK_UINT(script.conn->cwnd, 10 * MSS);
	CHECK(script.conn->ssthresh == UINT32_MAX);
	sender_end();
}

/* One of two was really lost: the reduction stays. */
void one_duplicate_of_two_undoes_nothing(void)
{
	sender_begin(NULL, PEER_SACK, 100);
	script_write(10 * MSS);
	sender_sent_run(1, 10);
	script_wait(100);
	sender_sack(1, 1, 2001, 5001);
	sender_sent(1, MSS);
	sender_sack(1, 1, 2001, 7001);
	sender_sent(1001, MSS);
	script_drop();
	script_wait(100);
	sender_sack(10001, 1, 1, 1001);
	script_wait(1000);
	CHECK_UINT(script_counters()->tcp_recovery_undos, 0);
	CHECK_UINT(script.conn->ssthresh, 7 * MSS);
	sender_end();
}

/* A timestamp in the middle of a fast recovery. */
void a_timestamp_undoes_a_recovery(void)
{
	sender_begin(NULL, PEER_SACK | PEER_STAMPS, 100);
	script_write(10 * MSS);
	sender_sent_run(1, 10);
	script_wait(100);
	sender_stamped_ack(1, 100, 1, 1001, 4001);
	sender_sent(1, MSS);
	CHECK_INT(script.conn->recovery, TCP_RECOVERY_FAST);
	script_wait(10);
	sender_stamped_ack(5001, 110, 0);
	CHECK_UINT(script_counters()->tcp_recovery_undos, 1);
	CHECK(script.conn->cwnd >= 10 * MSS);
	CHECK(script.conn->recovery <= TCP_RECOVERY_DISORDER);
	script_drop();
	sender_end();
}
