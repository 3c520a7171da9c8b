/* SPDX-License-Identifier: BSD-3-Clause */
/* A path that carries less than it did. */
#include <rte_ip.h>

#include "tests/net/cases.h"
#include "tests/net/sender.h"

static void write_large(uint32_t bytes)
{
	script_write(bytes);
}

/* A connection of full Ethernet segments: 1460 bytes. */
static void begin(void)
{
	const struct script_segment syn = { .mss = 1460, .sack_permitted = true, .scale = 8 };

	script_begin(NULL);
	script_connect(&syn);
	CHECK_UINT(tcp_mss(script.conn), 1460);
}

/* What was in flight and too large is cut and goes again, at the same window; what follows is smaller. */
void segments_are_cut_when_the_path_says_so(void)
{
	begin();
	write_large(4 * 1460);
	for (uint32_t i = 0; i < 4; i++)
		sender_sent(1 + i * 1460, 1460);
	tcp_path_mtu(script.conn, 1040);
	script_turn();
	for (uint32_t i = 0; i < 4; i++) {
		sender_sent(1 + i * 1460, 1000);
		sender_sent(1001 + i * 1460, 460);
	}
	sender_check();
	CHECK_UINT(script.conn->cwnd, 14600);
	CHECK_UINT(script.conn->ssthresh, UINT32_MAX);
	CHECK_UINT(tcp_mss(script.conn), 1460); /* the user's stays */
	sender_ack(5841);
	CHECK_INT(script.conn->recovery, TCP_RECOVERY_NONE);
	write_large(1460);
	sender_sent(5841, 1000);
	sender_sent(6841, 460);
	/* It never grows by an error, and never becomes absurd. */
	tcp_path_mtu(script.conn, 1400);
	CHECK_UINT(script.conn->mss, 1000);
	tcp_path_mtu(script.conn, 68);
	CHECK_UINT(script.conn->mss, 536);
	sender_end();
}

/* After ten minutes the path may carry more again. */
void a_smaller_segment_size_is_not_for_ever(void)
{
	begin();
	tcp_path_mtu(script.conn, 1040);
	script_wait(601000);
	write_large(1460);
	sender_sent(1, 1460);
	sender_end();
}

/* Nobody says so, but large segments never arrive (RFC 4821). */
void a_black_hole_is_found(void)
{
	uint32_t acked = 1;

	begin();
	write_large(3 * 1460);
	for (int rounds = 0; rounds < 100 && tcp_queued(script.conn); rounds++) {
		script_wait(100);
		while (script.out_head != script.out_tail) {
			const struct script_segment *s = &script.out[script.out_head++ % SCRIPT_FRAMES_MAX];

			if (s->bytes && s->bytes <= 1024 && s->seq == acked)
				acked += s->bytes;
		}
		if (acked > 1)
			sender_ack(acked);
	}
	CHECK_UINT(acked, 3 * 1460 + 1);
	CHECK_UINT(script.conn->mss, 1024);
	CHECK_UINT(script_counters()->tcp_mtu_fails, 1);
	sender_end();
}

/* The same where the segment is smaller than the first size that is tried: it is cut for the next one. */
void a_narrow_black_hole_is_found(void)
{
	begin();
	write_large(700);
	script_wait(5000);
	CHECK_UINT(script.conn->mss, 536);
	CHECK_UINT(script_counters()->tcp_mtu_fails, 1);
	script_drop();
	sender_ack(1 + 536);
	sender_sent(1 + 536, 700 - 536);
	script_drop();
	sender_end();
}

/* Small segments that are lost say nothing of the path's size. */
void losses_of_small_segments_change_no_size(void)
{
	begin();
	write_large(500);
	script_wait(100000);
	CHECK(script_counters()->tcp_rtos >= 5);
	CHECK_UINT(script.conn->mss, 1460);
	script_drop();
	sender_end();
}
