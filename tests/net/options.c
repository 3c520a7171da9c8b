/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP's options: what is agreed on, what hostile lists do, and what SACK blocks tell (RFC 2018, 2883, 7323). */
#include "tests/net/cases.h"
#include "tests/net/script.h"

#define ALL_OPTIONS .mss = 1460, .scale = 8, .sack_permitted = true, .stamped = true, .ts_value = 7000

static void check_block(const struct script_segment *s, unsigned i, uint32_t begin, uint32_t end)
{
	if (s->sacks_count <= i || s->sacks[i].begin != begin || s->sacks[i].end != end)
		unit_fail(__FILE__, __LINE__, "block %u of %u is %u to %u, not %u to %u", i, s->sacks_count,
			  s->sacks[i].begin, s->sacks[i].end, begin, end);
}

void a_syn_is_answered_by_the_options_that_it_offers(void)
{
	static const struct {
		uint32_t without;
		struct script_segment syn;
		bool scale, sack, stamp;
	} cases[] = {
		{ 0, { .flags = S }, false, false, false },
		{ 0, { .flags = S, .mss = 1000 }, false, false, false },
		{ 0, { .flags = S, ALL_OPTIONS }, true, true, true },
		{ 0, { .flags = S, .scale = 1 }, true, false, false },
		{ 0, { .flags = S, .sack_permitted = true }, false, true, false },
		{ 0, { .flags = S, .stamped = true, .ts_value = 1 }, false, false, true },
		{ NET_WITHOUT_SACK, { .flags = S, ALL_OPTIONS }, true, false, true },
		{ NET_WITHOUT_TIMESTAMPS, { .flags = S, ALL_OPTIONS }, true, true, false },
		{ NET_WITHOUT_SCALE, { .flags = S, ALL_OPTIONS }, false, true, true },
	};

	for (size_t i = 0; i < RTE_DIM(cases); i++) {
		struct net_options o = script_options();
		const struct script_segment *answer;

		o.without = cases[i].without;
		o.receive_window_bytes = 1 << 20;
		script_begin(&o);
		script_in(&cases[i].syn);
		answer = script_out(S | A, 0, 1, 0);
		CHECK_UINT(answer->mss, 1460);
		CHECK_INT(answer->scale, cases[i].scale ? 1 + 5 : 0); /* 2^20 fits 16 bits after a shift of 5 */
		CHECK_INT(answer->sack_permitted, cases[i].sack);
		CHECK_INT(answer->stamped, cases[i].stamp);
		CHECK_UINT(answer->ts_echo, cases[i].stamp ? cases[i].syn.ts_value : 0);
		CHECK_UINT(answer->window, 65535);
		script_end();
	}
}

/* What a segment can carry: the smaller size of both, less the timestamps, and never next to nothing. */
void segments_keep_to_the_size_that_was_agreed_on(void)
{
	static const struct {
		struct script_segment syn;
		uint32_t bytes;
	} cases[] = {
		{ { .flags = S }, 536 },
		{ { .flags = S, .mss = 1 }, 88 },
		{ { .flags = S, .mss = 1000 }, 1000 },
		{ { .flags = S, .mss = 9000 }, 1460 },
		{ { .flags = S, .mss = 1000, .stamped = true, .ts_value = 1 }, 988 },
		{ { .flags = S, .mss = 9000, .stamped = true, .ts_value = 1 }, 1448 },
	};

	for (size_t i = 0; i < RTE_DIM(cases); i++) {
		script_begin(NULL);
		script_connect(&cases[i].syn);
		CHECK_UINT(tcp_mss(script.conn), cases[i].bytes);
		script_write(cases[i].bytes);
		script_out(A | P, 1, 1, cases[i].bytes);
		script_quiet();
		script_end();
	}
}

/* A shift of more than 14 is one of 14 (RFC 7323, 2.3): by it a window of 2 is 32 KiB, and one of 1 too small for 20
 * KiB. */
void a_window_scale_is_clamped(void)
{
	script_begin(NULL);
	script_connect(&(struct script_segment){ .mss = 1460, .scale = 1 + 200 });
	script_in(&(struct script_segment){ .flags = A, .seq = 1, .ack = 1, .window = 1 });
	script_drop();
	script_write(20000);
	CHECK_UINT(script.out_tail - script.out_head, 10); /* the congestion window, and 16 KiB beyond 14600 bytes */
	script_end();
}

/* Lists that do not parse, one of them TAS's length of 0, are dropped with their segment, and counted; odd ones that do
 * parse are taken for what they are. */
void hostile_option_lists_are_dropped_and_counted(void)
{
	static const struct {
		uint8_t bytes[12];
		unsigned count;
		bool bad;
	} cases[] = {
		{ { 8, 0, 0, 0 }, 4, true },	 { { 99, 0, 0, 0 }, 4, true },
		{ { 99, 1, 0, 0 }, 4, true },	 { { 1, 1, 1, 5 }, 4, true },
		{ { 1, 1, 5, 10 }, 4, true },	 { { 8, 10, 0, 0, 0, 0, 0, 0 }, 8, true },
		{ { 254, 255, 0, 0 }, 4, true }, { { 5, 40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 12, true },
		{ { 0, 1, 1, 5 }, 4, false },	 { { 1, 1, 1, 1 }, 4, false },
		{ { 5, 2, 1, 1 }, 4, false },	 { { 5, 9, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1 }, 12, false },
		{ { 8, 4, 1, 1 }, 4, false },	 { { 2, 4, 0, 1 }, 4, false },
		{ { 3, 3, 255, 0 }, 4, false },	 { { 254, 4, 1, 2 }, 4, false },
		{ { 4, 2, 4, 2 }, 4, false },	 { { 2, 4, 0, 1, 2, 4, 0, 1 }, 8, false },
	};
	uint32_t seq = 1, dropped = 0;

	script_begin(NULL);
	script_connect(&(struct script_segment){ .sack_permitted = true });
	for (size_t i = 0; i < RTE_DIM(cases); i++) {
		script_in(&(struct script_segment){ .flags = A,
						    .seq = seq,
						    .ack = 1,
						    .bytes = 10,
						    .options = cases[i].bytes,
						    .options_bytes = cases[i].count });
		seq += cases[i].bad ? 0 : 10;
		dropped += cases[i].bad;
		if (!CHECK_UINT(script.received, seq - 1) || !CHECK_UINT(script_counters()->tcp_bad_option, dropped))
			unit_fail(__FILE__, __LINE__, "case %zu", i);
	}
	CHECK_UINT(tcp_mss(script.conn), 536); /* only a SYN's options count */
	script_end();
}

void the_newest_sack_block_comes_first(void)
{
	const struct script_segment *s;

	script_begin(NULL);
	script_connect(&(struct script_segment){ .mss = 1000, .sack_permitted = true });
	for (uint32_t i = 0; i < 5; i++) {
		script_in(&(struct script_segment){ .flags = A, .seq = 1001 + 2000 * i, .ack = 1, .bytes = 1000 });
		s = script_out(A, 1, 1, 0);
		CHECK_UINT(s->sacks_count, RTE_MIN(i + 1, 4u));
		for (unsigned k = 0; k < s->sacks_count; k++)
			check_block(s, k, 1001 + 2000 * (i - k), 2001 + 2000 * (i - k));
	}
	/* The oldest is not told of any more; when it grows, the whole of it is. */
	script_in(&(struct script_segment){ .flags = A, .seq = 2001, .ack = 1, .bytes = 500 });
	s = script_out(A, 1, 1, 0);
	CHECK_UINT(s->sacks_count, 4);
	check_block(s, 0, 1001, 2501);
	check_block(s, 1, 9001, 10001);
	/* Two become one. */
	script_in(&(struct script_segment){ .flags = A, .seq = 2501, .ack = 1, .bytes = 500 });
	s = script_out(A, 1, 1, 0);
	check_block(s, 0, 1001, 4001);
	check_block(s, 1, 9001, 10001);
	check_block(s, 2, 7001, 8001);
	/* The first hole is filled: what is left are the others. */
	script_in(&(struct script_segment){ .flags = A, .seq = 1, .ack = 1, .bytes = 1000 });
	s = script_out(A, 1, 4001, 0);
	CHECK_UINT(s->sacks_count, 3);
	check_block(s, 0, 9001, 10001);
	check_block(s, 1, 7001, 8001);
	check_block(s, 2, 5001, 6001);
	CHECK_UINT(script.received, 4000);
	for (uint32_t seq = 4001; seq < 9001; seq += 2000)
		script_put(&(struct script_segment){ .flags = A, .seq = seq, .ack = 1, .bytes = 1000 });
	script_turn();
	s = script_out(A, 1, 10001, 0);
	CHECK_UINT(s->sacks_count, 0);
	CHECK_UINT(script.received, 10000);
	script_quiet();
	script_end();
}

/* With timestamps there is room for three. */
/* Many gaps in one turn: no block is left out because there is one ACK a turn. */
void all_sack_blocks_of_a_turn_are_reported(void)
{
	const struct script_segment *s;

	script_begin(NULL);
	script_connect(&(struct script_segment){ .mss = 1000, .sack_permitted = true, .stamped = true, .ts_value = 1 });
	for (uint32_t i = 0; i < 8; i++)
		script_put(&(struct script_segment){
			.flags = A, .seq = 1001 + 2000 * i, .ack = 1, .bytes = 500, .stamped = true, .ts_value = 1 });
	script_put(&(struct script_segment){
		.flags = A, .seq = 15501, .ack = 1, .bytes = 500, .stamped = true, .ts_value = 1 }); /* no other one */
	script_turn();
	for (uint32_t told = 3; told <= 9; told += 3) {
		s = script_out(A, 1, 1, 0);
		CHECK_UINT(s->sacks_count, 3);
		for (unsigned k = 0; k < 3; k++) {
			const uint32_t i = RTE_MIN(told, 8u) - 1 - k;

			check_block(s, k, 1001 + 2000 * i, 1501 + 2000 * i + (i == 7 ? 500 : 0));
		}
	}
	script_quiet();
	script_end();
}

void sack_blocks_share_the_room_with_timestamps(void)
{
	const struct script_segment *s;

	script_begin(NULL);
	script_connect(&(struct script_segment){ ALL_OPTIONS });
	for (uint32_t i = 0; i < 5; i++)
		script_put(&(struct script_segment){ .flags = A,
						     .seq = 1001 + 2000 * i,
						     .ack = 1,
						     .bytes = 1000,
						     .stamped = true,
						     .ts_value = 7001 });
	script_turn();
	script_out(A, 1, 1, 0); /* the first three, before the fourth */
	s = script_out(A, 1, 1, 0);
	CHECK(s->stamped);
	CHECK_UINT(s->sacks_count, 3);
	check_block(s, 0, 9001, 10001);
	check_block(s, 2, 5001, 6001);
	script_end();
}

/* RFC 2883's examples: duplicates below the ACK, in a block, and of a part. */
void duplicates_are_reported_first(void)
{
	const struct script_segment *s;

	script_begin(NULL);
	script_connect(&(struct script_segment){ .mss = 1000, .sack_permitted = true });
	script_in(&(struct script_segment){ .flags = A, .seq = 1, .ack = 1, .bytes = 1000 });
	script_drop();
	script_in(&(struct script_segment){ .flags = A, .seq = 1, .ack = 1, .bytes = 1000 }); /* all of it again */
	s = script_out(A, 1, 1001, 0);
	CHECK_UINT(s->sacks_count, 1);
	check_block(s, 0, 1, 1001);
	script_in(&(struct script_segment){ .flags = A, .seq = 501, .ack = 1, .bytes = 1000 }); /* half of it */
	s = script_out(A, 1, 1501, 0);
	CHECK_UINT(s->sacks_count, 1);
	check_block(s, 0, 501, 1001);
	script_in(&(struct script_segment){ .flags = A, .seq = 3001, .ack = 1, .bytes = 1000 });
	s = script_out(A, 1, 1501, 0);
	CHECK_UINT(s->sacks_count, 1); /* once told, a duplicate is not told again */
	check_block(s, 0, 3001, 4001);
	script_in(&(struct script_segment){ .flags = A, .seq = 3001, .ack = 1, .bytes = 1000 });
	s = script_out(A, 1, 1501, 0);
	CHECK_UINT(s->sacks_count, 2);
	check_block(s, 0, 3001, 4001);
	check_block(s, 1, 3001, 4001);
	script_in(&(struct script_segment){ .flags = A, .seq = 2501, .ack = 1, .bytes = 1000 }); /* reaches into it */
	s = script_out(A, 1, 1501, 0);
	CHECK_UINT(s->sacks_count, 2);
	check_block(s, 0, 3001, 3501);
	check_block(s, 1, 2501, 4001);
	CHECK_UINT(script_counters()->tcp_dsack_old_sent, 2);
	CHECK_UINT(script_counters()->tcp_dsack_ofo_sent, 2);
	/* Two duplicates in one turn: an ACK each. */
	script_put(&(struct script_segment){ .flags = A, .seq = 1, .ack = 1, .bytes = 1000 });
	script_put(&(struct script_segment){ .flags = A, .seq = 2501, .ack = 1, .bytes = 1000 });
	script_turn();
	check_block(script_out(A, 1, 1501, 0), 0, 1, 1001);
	check_block(script_out(A, 1, 1501, 0), 0, 2501, 3501);
	script_quiet();
	/* One segment over all of it leaves nothing behind. */
	script_in(&(struct script_segment){ .flags = A, .seq = 1501, .ack = 1, .bytes = 1400 });
	s = script_out(A, 1, 4001, 0);
	check_block(s, 0, 2501, 2901);
	CHECK_UINT(s->sacks_count, 1);
	CHECK_UINT(script.received, 4000);
	script_end();
}

/* What a segment repeats without a gap is one block, however many segments it had come in; of several the first (RFC
 * 2883, 4 (3)). */
void a_duplicate_is_reported_whole(void)
{
	static const uint32_t apart[] = { 101, 201, 401, 701 };
	const struct script_segment *s;

	script_begin(NULL);
	script_connect(&(struct script_segment){ .mss = 1000, .sack_permitted = true });
	for (unsigned i = 0; i < sizeof(apart) / sizeof(apart[0]); i++)
		script_in(&(struct script_segment){ .flags = A, .seq = apart[i], .ack = 1, .bytes = 100 });
	script_drop();
	script_in(&(struct script_segment){ .flags = A, .seq = 1, .ack = 1, .bytes = 600 });
	s = script_out(A, 1, 601, 0);
	CHECK_UINT(s->sacks_count, 2);
	check_block(s, 0, 101, 301);
	check_block(s, 1, 701, 801);
	script_in(&(struct script_segment){ .flags = A, .seq = 801, .ack = 1, .bytes = 100 });
	script_drop();
	script_in(&(struct script_segment){ .flags = A, .seq = 601, .ack = 1, .bytes = 250 }); /* into the second */
	s = script_out(A, 1, 901, 0);
	CHECK_UINT(s->sacks_count, 1);
	check_block(s, 0, 701, 851);
	CHECK_UINT(script_counters()->tcp_dsack_ofo_sent, 2);
	CHECK_UINT(script.received, 900);
	script_end();
}

/* A full segment has no room for blocks: an ACK of their own follows it. */
void blocks_that_data_cannot_carry_go_alone(void)
{
	const struct script_segment *s;

	script_begin(NULL);
	script_connect(&(struct script_segment){ .mss = 1460, .sack_permitted = true });
	script_put(&(struct script_segment){ .flags = A, .seq = 1001, .ack = 1, .bytes = 1000 });
	script_write(1460);
	CHECK_UINT(script_out(A | P, 1, 1, 1460)->sacks_count, 0);
	s = script_out(A, 1461, 1, 0);
	CHECK_UINT(s->sacks_count, 1);
	check_block(s, 0, 1001, 2001);
	script_quiet();
	/* A small one carries them itself. */
	script_put(&(struct script_segment){ .flags = A, .seq = 2001, .ack = 1461, .bytes = 1000 });
	script_write(100);
	s = script_out(A | P, 1461, 1, 100);
	check_block(s, 0, 1001, 3001);
	script_quiet();
	script_end();
}

/* Gaps are bounded, too: each costs a look on the way to the next. */
void the_number_of_gaps_is_bounded(void)
{
	struct net_options o = script_options();

	script_begin(&o);
	script_connect(&(struct script_segment){ .mss = 1460, .sack_permitted = true });
	for (uint32_t i = 1; i <= 200; i++)
		script_put(&(struct script_segment){ .flags = A, .seq = 1 + 20 * i, .ack = 1, .bytes = 10 });
	script_drop();
	CHECK_UINT(script_counters()->tcp_out_of_order, 64);
	CHECK_UINT(script_counters()->tcp_out_of_order_dropped, 200 - 64);
	/* What was dropped comes again, and all is there. */
	for (uint32_t i = 0; i <= 200; i++)
		script_put(&(struct script_segment){ .flags = A, .seq = 1 + 20 * i, .ack = 1, .bytes = 20 });
	script_drop();
	CHECK_UINT(script.received, 4020);
	script_end();
}
