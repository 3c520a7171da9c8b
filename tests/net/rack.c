/* SPDX-License-Identifier: BSD-3-Clause */
/* Loss by time, and tail-loss probes (RFC 8985). */
#include "tests/net/cases.h"
#include "tests/net/sender.h"

/* One segment of four was SACKed, the last: the others are lost a quarter of a round trip later. */
void a_loss_is_found_by_time(void)
{
	sender_begin(NULL, PEER_SACK, 100);
	script_write(4 * MSS);
	sender_sent_run(1, 4);
	script_wait(100);
	sender_sack(1, 1, 3001, 4001);
	sender_quiet();
	script_wait(24);
	sender_quiet();
	script_wait(2);
	sender_sent(1, MSS);
	CHECK_INT(script.conn->recovery, TCP_RECOVERY_FAST);
	CHECK_UINT(script.conn->lost_segs, 3);
	CHECK_UINT(script_counters()->tcp_rtos, 0);
	sender_end();
}

/* A segment that arrives late, but within that time, is not a loss. */
void reordering_is_not_taken_for_loss(void)
{
	sender_begin(NULL, PEER_SACK, 100);
	script_write(4 * MSS);
	sender_sent_run(1, 4);
	script_wait(100);
	sender_sack(1, 1, 1001, 2001);
	script_wait(20);
	sender_sack(2001, 1, 3001, 4001);
	CHECK(script.conn->sender & TCP_SENDER_REORDERED);
	script_wait(20);
	sender_ack(4001);
	sender_quiet();
	CHECK_UINT(script_counters()->tcp_retrans_segs, 0);
	CHECK_UINT(script.conn->cwnd, 10 * MSS);
	/* From now on three SACKs alone do not make a loss either. */
	script_write(8 * MSS);
	sender_sent_run(4001, 8);
	script_wait(100);
	sender_sack(4001, 1, 5001, 8001);
	sender_quiet();
	script_wait(10);
	sender_ack(12001);
	CHECK_UINT(script_counters()->tcp_retrans_segs, 0);
	sender_end();
}

/* Duplicates that the peer reports widen the window, once a round trip; sixteen recoveries without make it narrow
 * again. */
void duplicates_widen_the_reordering_window(void)
{
	uint32_t una = 1;

	sender_begin(NULL, PEER_SACK, 100);
	script_write(4 * MSS);
	sender_sent_run(1, 4);
	script_wait(100);
	sender_sack(1, 1, 1001, 2001);
	script_wait(20);
	sender_ack(4001); /* reordered */
	una = 4001;
	script_write(4 * MSS);
	sender_sent_run(una, 4);
	script_wait(100);
	sender_sack(una, 1, una + MSS, una + 2 * MSS);
	script_wait(30);
	sender_sent(una, MSS); /* without effect */
	sender_sack(una + 4 * MSS, 1, una, una + MSS);
	CHECK_UINT(script.conn->rack_wider, 1);
	CHECK(script.conn->rack_persist >= 15);
	una += 4 * MSS;
	script_drop();
	/* Now half a round trip. */
	script_wait(300);
	script_write(4 * MSS);
	sender_sent_run(una, 4);
	script_wait(100);
	sender_sack(una, 1, una + MSS, una + 2 * MSS);
	script_wait(45);
	sender_quiet();
	script_wait(10);
	sender_sent(una, MSS);
	sender_end();
}

/* A retransmission that is lost is found so, too: what was sent after it has arrived. */
void a_lost_retransmission_is_sent_again(void)
{
	sender_begin(NULL, PEER_SACK, 100);
	script_write(20 * MSS);
	sender_sent_run(1, 10);
	script_wait(100);
	sender_sack(1, 1, 1001, 4001);
	sender_sent(1, MSS);
	sender_sack(1, 1, 1001, 8001);
	script_drop(); /* new data, which arrives */
	script_wait(100);
	sender_sack(1, 1, 1001, 11001);
	sender_sent(1, MSS);
	CHECK_UINT(script_counters()->tcp_rtos, 0);
	script_drop();
	sender_end();
}

/* A timeout shorter than the round trip that RACK knows, where it is bounded so: all that is as old as the timeout is
 * lost with the head, or each timeout would tell of one segment only. */
void what_is_as_old_as_the_timeout_is_lost_with_the_head(void)
{
	struct net_options o = sender_options();

	o.rto_max_us = 300000;
	sender_begin(&o, PEER_SACK | PEER_STAMPS, 100);
	script_write(20 * MSS);
	sender_sent_run(1, 10);
	script_wait(1000);
	sender_stamped_ack(2001, 1000, 0); /* late, but there: the timeouts were mistakes */
	CHECK(script.conn->rack_rtt_us >= 1000000);
	CHECK_INT(script.conn->recovery <= TCP_RECOVERY_DISORDER, 1);
	script_drop();
	sender_stamped_ack(10001, 1000, 0);
	script_drop();
	CHECK_UINT(script.conn->snd_nxt - script.conn->snd_una, 10 * MSS); /* sent just now, and lost */
	script_wait(310);
	sender_sent(19001, MSS); /* the probe */
	script_wait(310);
	sender_sent(10001, MSS);
	sender_quiet();
	CHECK_UINT(script.conn->lost_segs, 10);
	for (uint32_t ack = 11001; ack <= 20001; ack += MSS) {
		script_wait(10);
		sender_stamped_ack(ack, 10, 0);
	}
	CHECK_UINT(tcp_queued(script.conn), 0);
	script_drop();
	sender_end();
}

/* The last segment of a flight is lost: a probe sends it again long before the timeout. */
void a_probe_repairs_a_lost_tail(void)
{
	sender_begin(NULL, PEER_SACK, 20);
	script_write(3 * MSS);
	sender_sent_run(1, 3);
	script_wait(20);
	sender_ack(2001);
	script_wait(20);
	sender_quiet();
	script_wait(205); /* a segment alone: its ACK might be delayed */
	sender_sent(2001, MSS);
	CHECK_UINT(script_counters()->tcp_loss_probes, 1);
	sender_ack(3001);
	CHECK_UINT(script_counters()->tcp_rtos, 0);
	/* It may have been the original's ACK, which was late: no reduction, for nobody can tell. */
	CHECK_UINT(script_counters()->tcp_loss_probe_recoveries, 0);
	sender_end();
}

void a_probe_that_repairs_a_loss_slows_down(void)
{
	sender_begin(NULL, PEER_SACK, 20);
	script_write(4 * MSS);
	sender_sent_run(1, 4);
	script_wait(20);
	script_wait(40);
	sender_sent(3001, MSS); /* two round trips after the flight */
	CHECK_UINT(script_counters()->tcp_loss_probes, 1);
	script_write(MSS);
	sender_sent(4001, MSS);
	script_wait(20);
	sender_ack(5001); /* all, and no word of a duplicate */
	CHECK_UINT(script_counters()->tcp_loss_probe_recoveries, 1);
	CHECK_UINT(script.conn->cwnd, 7 * MSS);
	CHECK_INT(script.conn->recovery, TCP_RECOVERY_NONE);
	sender_end();
}

void a_probe_in_vain_changes_nothing(void)
{
	sender_begin(NULL, PEER_SACK, 20);
	script_write(4 * MSS);
	sender_sent_run(1, 4);
	script_wait(60);
	sender_sent(3001, MSS);
	sender_ack(4001);
	sender_sack(4001, 1, 3001, 4001);
	CHECK_UINT(script_counters()->tcp_loss_probe_recoveries, 0);
	CHECK_UINT(script_counters()->tcp_dsacks_in, 1);
	CHECK_UINT(script.conn->cwnd, 10 * MSS);
	CHECK(!(script.conn->sender & TCP_SENDER_TLP));
	sender_end();
}

/* With something new to send the probe is that, one segment beyond the window. */
void a_probe_prefers_new_data(void)
{
	sender_begin(NULL, PEER_SACK, 20);
	script_write(12 * MSS);
	sender_sent_run(1, 10);
	script_wait(60);
	sender_sent(10001, MSS);
	sender_quiet();
	CHECK_UINT(script_counters()->tcp_retrans_segs, 0);
	/* One probe only; then the timeout. */
	script_wait(200);
	CHECK_UINT(script_counters()->tcp_loss_probes, 1);
	script_wait(100);
	CHECK_UINT(script_counters()->tcp_rtos, 1);
	sender_sent(1, MSS);
	sender_end();
}
