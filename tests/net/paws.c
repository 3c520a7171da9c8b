/* SPDX-License-Identifier: BSD-3-Clause */
/* Timestamps, and protection against wrapped sequence numbers (RFC 7323, 3 to 5). */
#include "tests/net/cases.h"
#include "tests/net/script.h"

static void connect_stamped(void)
{
	script_begin(NULL);
	script_connect(&(struct script_segment){ .mss = 1460, .stamped = true, .ts_value = 7000 });
}

static void send_stamped(uint8_t flags, uint32_t seq, uint32_t bytes, uint32_t ts_value)
{
	script_in(&(struct script_segment){
		.flags = flags, .seq = seq, .ack = 1, .bytes = bytes, .stamped = true, .ts_value = ts_value });
}

void an_old_timestamp_is_dropped_and_answered(void)
{
	connect_stamped();
	send_stamped(A, 1, 100, 7010);
	script_wait(10);
	script_drop();
	send_stamped(A, 101, 100, 7009);
	script_out(A, 1, 101, 0);
	CHECK_UINT(script.received, 100);
	CHECK_UINT(script_counters()->tcp_paws, 1);
	/* Data is answered each time, an ACK twice a second. */
	send_stamped(A, 101, 100, 7009);
	script_out(A, 1, 101, 0);
	for (int i = 0; i < 10; i++)
		send_stamped(A, 101, 0, 7009);
	script_out(A, 1, 101, 0);
	script_quiet();
	send_stamped(A, 101, 100, 7010);
	CHECK_UINT(script.received, 200);
	script_end();
}

/* Reordering is not an error: an ACK that a later one, or data, has overtaken is counted as that. */
void an_overtaken_ack_is_no_error(void)
{
	connect_stamped();
	send_stamped(A, 1, 100, 7010);
	send_stamped(A, 101, 0, 7012);
	send_stamped(A, 101, 0, 7011);
	send_stamped(A, 1, 0, 7009);
	CHECK_UINT(script_counters()->tcp_paws_old_acks, 2);
	CHECK_UINT(script_counters()->tcp_paws, 0);
	/* Neither what acknowledges more than has been acknowledged, nor data, can have been overtaken. */
	script_write(50);
	script_in(&(struct script_segment){ .flags = A, .seq = 101, .ack = 51, .stamped = true, .ts_value = 7011 });
	send_stamped(A, 101, 10, 7011);
	CHECK_UINT(script_counters()->tcp_paws, 2);
	CHECK_UINT(script_counters()->tcp_paws_old_acks, 2);
	script_end();
}

/* Numbers go round: what is below by half of them is above. */
void timestamps_wrap(void)
{
	script_begin(NULL);
	script_connect(&(struct script_segment){ .mss = 1460, .stamped = true, .ts_value = 0xfffffff0 });
	send_stamped(A, 1, 100, 0xfffffff8);
	send_stamped(A, 101, 100, 5);
	CHECK_UINT(script.received, 200);
	send_stamped(A, 201, 100, 0xfffffffe);
	CHECK_UINT(script.received, 200);
	script_end();
}

/* The exact RST ends a connection whatever its timestamp; an old SYN is challenged. */
void resets_may_be_old(void)
{
	connect_stamped();
	send_stamped(A, 1, 100, 7010);
	script_wait(10);
	script_drop();
	send_stamped(S, 101, 0, 6000);
	script_out(A, 1, 101, 0);
	CHECK_UINT(script_counters()->tcp_challenge_acks, 1);
	send_stamped(R, 101, 0, 6000);
	CHECK_UINT(script.ends, 1);
	script_end();
}

/* A peer that has agreed to timestamps sends them; a segment without one is somebody else's (RFC 7323, 3.2). */
void a_segment_without_its_timestamp_is_dropped(void)
{
	connect_stamped();
	script_in(&(struct script_segment){ .flags = A, .seq = 1, .ack = 1, .bytes = 100 });
	CHECK_UINT(script.received, 0);
	CHECK_UINT(script_counters()->tcp_no_timestamp, 1);
	script_in(&(struct script_segment){ .flags = R, .seq = 1 });
	CHECK_UINT(script.ends, 1);
	script_end();
}

/* After 24 days of silence the peer's clock may have gone round: any timestamp will do (RFC 7323, 5.5). */
void after_24_days_any_timestamp_is_accepted(void)
{
	connect_stamped();
	script_wait(UINT64_C(24) * 86400 * 1000 - 1000);
	send_stamped(A, 1, 100, 6000);
	CHECK_UINT(script.received, 0);
	script_wait(2000);
	send_stamped(A, 1, 100, 6000);
	CHECK_UINT(script.received, 100);
	send_stamped(A, 101, 100, 5999);
	CHECK_UINT(script.received, 100);
	send_stamped(A, 101, 100, 6000);
	CHECK_UINT(script.received, 200);
	script_end();
}

/* What is echoed is the timestamp of the segment that the ACK answers: of several, the first; after a hole, the last
 * before it (RFC 7323, 4.3: Last.ACK.sent). */
void the_echo_is_that_of_the_segment_that_is_answered(void)
{
	connect_stamped();
	for (uint32_t i = 0; i < 40; i++) { /* past the quick ACKs */
		send_stamped(A, 1 + 2000 * i, 1000, 7000 + i);
		send_stamped(A, 1001 + 2000 * i, 1000, 7000 + i);
	}
	script_drop();
	send_stamped(A, 80001, 1000, 7100);
	script_quiet(); /* the ACK is delayed: it will echo this one */
	send_stamped(A, 81001, 1000, 7101);
	CHECK_UINT(script_out(A, 1, 82001, 0)->ts_echo, 7100);
	send_stamped(A, 83001, 1000, 7103);
	CHECK_UINT(script_out(A, 1, 82001, 0)->ts_echo, 7100);
	send_stamped(A, 82001, 1000, 7102);
	CHECK_UINT(script_out(A, 1, 84001, 0)->ts_echo, 7102);
	script_end();
}

/* A forged segment whose ACK is wrong does not move the clock. */
void a_wrong_ack_does_not_set_the_clock(void)
{
	connect_stamped();
	script_in(&(struct script_segment){
		.flags = A, .seq = 1, .ack = 100000, .bytes = 10, .stamped = true, .ts_value = 0x70000000 });
	send_stamped(A, 1, 100, 7010);
	CHECK_UINT(script.received, 100);
	script_end();
}

/* The clock starts at a random place for each connection, the same one when it comes again: nobody reads our uptime
 * there. */
void timestamps_begin_anywhere(void)
{
	uint32_t stamps[3];

	script_begin(NULL);
	for (uint16_t i = 0; i < 3; i++) {
		script_in(&(struct script_segment){ .flags = S,
						    .port = (uint16_t)(40001 + i % 2),
						    .seq = i / 2 * 100,
						    .stamped = true,
						    .ts_value = 7 });
		stamps[i] = script.last_stamp;
		script_in(&(struct script_segment){
			.flags = R | A, .port = (uint16_t)(40001 + i % 2), .seq = 1 + i / 2 * 100, .ack = 1 });
		script_drop();
	}
	CHECK(stamps[0] != stamps[1]);
	CHECK_UINT(stamps[0], stamps[2]);
	script_wait(5);
	script_in(&(struct script_segment){ .flags = S, .port = 40001, .seq = 900, .stamped = true, .ts_value = 7 });
	CHECK_UINT(script.last_stamp, stamps[0] + 5);
	script_end();
}

/* The answer to our SYN must echo it. */
void an_answer_that_echoes_another_syn_is_refused(void)
{
	script_begin(NULL);
	script_open();
	CHECK(script_out(S, 0, 0, 0)->stamped);
	script_in(&(struct script_segment){
		.flags = S | A, .ack = 1, .stamped = true, .ts_value = 7, .ts_echo = script.last_stamp - 1000 });
	CHECK_UINT(script_out(R, 1, 0, 0)->ack, 0);
	CHECK_UINT(script_counters()->tcp_paws_active, 1);
	CHECK_UINT(script.opens, 0);
	script_in(&(struct script_segment){ .flags = S | A, .ack = 1, .stamped = true, .ts_value = 7 });
	script_out(A, 1, 1, 0);
	CHECK_UINT(script.opens, 1);
	script_end();
}
