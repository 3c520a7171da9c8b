/* SPDX-License-Identifier: BSD-3-Clause */
/* Congestion windows: how they begin, grow, fall and decay, algorithm by algorithm. */
#include <math.h>

#include "tests/net/cases.h"
#include "tests/net/sender.h"

static void use(enum net_congestion which, uint32_t cwnd, uint32_t ssthresh)
{
	struct net_options o = sender_options();

	o.congestion = which;
	sender_begin(&o, PEER_SACK, 100);
	script.conn->cwnd = cwnd;
	script.conn->ssthresh = ssthresh;
}

/* One round trip of 100 ms with a full window: the peer acknowledges every second segment. */
static void round_trip(void)
{
	const uint32_t una = script.conn->snd_una - script.conn->iss, nxt = script.conn->snd_nxt - script.conn->iss;

	script_wait(100);
	for (uint32_t ack = una + 2 * MSS; seq_lt(ack, nxt); ack += 2 * MSS)
		sender_ack(ack);
	sender_ack(nxt);
	script_drop();
}

static void keep_queue(uint32_t bytes)
{
	const uint32_t queued = tcp_queued(script.conn);

	if (queued < bytes)
		script_write((bytes - queued) / MSS * MSS);
	script_drop();
}

/* Ten segments (RFC 6928); then what is delivered is added, however the ACKs are spaced. */
void slow_start_doubles_ten_segments(void)
{
	sender_begin(NULL, PEER_SACK, 100);
	script_write(60 * MSS);
	sender_sent_run(1, 10);
	sender_quiet();
	script_wait(100);
	sender_ack(1001);
	sender_sent_run(10001, 2);
	sender_ack(3001);
	sender_sent_run(12001, 4);
	sender_ack(10001);
	sender_sent_run(16001, 14);
	sender_quiet();
	CHECK_UINT(script.conn->cwnd, 20 * MSS);
	sender_end();
}

/* Half of the window tells nothing of the rest (RFC 7661). */
void a_window_that_is_not_used_does_not_grow(void)
{
	sender_begin(NULL, PEER_SACK, 100);
	script_write(5 * MSS);
	script_wait(100);
	sender_ack(5001);
	CHECK_UINT(script.conn->cwnd, 10 * MSS);
	script_write(6 * MSS);
	script_wait(100);
	sender_ack(7001);
	CHECK_UINT(script.conn->cwnd, 12 * MSS);
	sender_ack(11001);
	CHECK_UINT(script.conn->cwnd, 12 * MSS);
	script_drop();
	sender_end();
}

static void write_and_ack(uint32_t bytes)
{
	script_write(bytes);
	script_wait(100);
	sender_ack(script.conn->snd_nxt - script.conn->iss);
	script_drop();
}

/* RFC 2861: halved for each timeout of silence, down to the initial window. */
void an_idle_window_decays(void)
{
	struct net_options o = sender_options();

	sender_begin(NULL, PEER_SACK, 100);
	script.conn->cwnd = 40 * MSS;
	write_and_ack(40 * MSS);
	CHECK_UINT(script.conn->cwnd, 80 * MSS);
	script_wait(script.conn->rto_us / 1000 * 2 - 150);
	script_write(30 * MSS);
	CHECK_UINT(script.conn->cwnd, 40 * MSS);
	CHECK(script.conn->ssthresh >= 60 * MSS);
	script_drop();
	sender_end();
	/* and a longer silence, and with the option that leaves it alone */
	for (int i = 0; i < 2; i++) {
		o.idle_keeps_window = i == 1;
		sender_begin(&o, PEER_SACK, 100);
		script.conn->cwnd = 40 * MSS;
		write_and_ack(40 * MSS);
		script_wait(60000);
		script_write(30 * MSS);
		CHECK_UINT(script.conn->cwnd, i == 1 ? 80 * MSS : 10 * MSS);
		CHECK_UINT(sender_sent_bytes(), i == 1 ? 30 * MSS : 10 * MSS);
		sender_end();
	}
}

/* A window of which an application uses a part for long goes down to that part. */
void a_window_used_in_part_decays(void)
{
	sender_begin(NULL, PEER_SACK, 100);
	script.conn->cwnd = 200 * MSS;
	for (int i = 0; i < 100; i++)
		write_and_ack(20 * MSS);
	CHECK(script.conn->cwnd < 50 * MSS);
	CHECK(script.conn->cwnd >= 20 * MSS);
	sender_end();
}

void newreno_adds_a_segment_a_round_trip_and_halves(void)
{
	use(NET_NEWRENO, 20 * MSS, 20 * MSS);
	for (int i = 0; i < 10; i++) {
		keep_queue(60 * MSS);
		round_trip();
	}
	CHECK_NEAR(script.conn->cwnd, 30 * MSS, 1.01 * MSS);
	keep_queue(60 * MSS);
	{
		const uint32_t una = script.conn->snd_una - script.conn->iss, cwnd = script.conn->cwnd;

		script_wait(100);
		sender_sack(una, 1, una + MSS, una + 4 * MSS);
		CHECK_UINT(script.conn->ssthresh, cwnd / 2);
	}
	script_drop();
	sender_end();
}

/* The ACKs of a whole flight come in one turn, as they do from a near peer, and tell of the loss at its end only. What
 * they took out of the network is replaced up to the new window: the retransmission is not alone, where a second loss
 * would take a timeout to be found. */
void a_loss_at_the_end_of_a_turn_leaves_the_window_in_use(void)
{
	struct script_segment s = { .flags = A, .seq = 1, .ack = 1 };

	sender_begin(NULL, PEER_SACK, 100);
	script_write(60 * MSS);
	sender_sent_run(1, 10);
	script_wait(100);
	for (s.ack = 1001; s.ack <= 6001; s.ack += MSS)
		script_put(&s);
	s.ack = 6001;
	s.sacks_count = 1;
	s.sacks[0].begin = 7001;
	for (s.sacks[0].end = 8001; s.sacks[0].end <= 10001; s.sacks[0].end += MSS)
		script_put(&s);
	script_turn();
	CHECK_INT(script.conn->recovery, TCP_RECOVERY_FAST);
	CHECK_UINT(script.conn->ssthresh, script.conn->cwnd_prior * 7 / 10);
	sender_sent(6001, MSS);
	CHECK_UINT(sender_sent_bytes(), 8 * MSS); /* nine have arrived */
	CHECK(script.conn->pipe <= script.conn->ssthresh);
	/* The retransmission is lost, too, and found by what went with it. */
	script_wait(100);
	s.sacks[0].end = 13001;
	script_put(&s);
	script_turn();
	sender_sent(6001, MSS);
	CHECK_UINT(script_counters()->tcp_rtos, 0);
	script_drop();
	sender_end();
}

/* Three segments have arrived, the last of them a short one: three go. */
void a_recovery_counts_whole_segments(void)
{
	const struct script_segment s = {
		.flags = A, .seq = 1, .ack = 1, .sacks_count = 1, .sacks = { { 1001, 3501 } }
	};

	sender_begin(NULL, PEER_SACK, 100);
	script.conn->cwnd = 3 * MSS + 500;
	script_write(3 * MSS + 500);
	script_write(10 * MSS);
	sender_sent_run(1, 3);
	sender_sent(3001, 500);
	sender_quiet();
	script_wait(100);
	script_in(&s);
	sender_sent(1, MSS);
	sender_sent_run(3501, 2);
	sender_quiet();
	script_drop();
	sender_end();
}

/* RFC 9438, 4.2: cwnd(t) = C (t - K)^3 + W_max, with K = cbrt((W_max - cwnd_epoch) / C). */
void cubic_follows_its_curve(void)
{
	const double w_max = 400, k = cbrt(w_max * 0.3 / 0.4);
	uint64_t begin_ns;
	uint32_t una;

	use(NET_CUBIC, 400 * MSS, 50 * MSS);
	script_write(400 * MSS);
	script_drop();
	script_wait(100);
	sender_sack(1, 1, 1001, 400 * MSS + 1);
	CHECK_UINT(script.conn->ssthresh, 280 * MSS);
	script_wait(100);
	script_drop();
	sender_ack(script.conn->snd_nxt - script.conn->iss);
	CHECK_UINT(script.conn->cwnd, 280 * MSS);
	CHECK_INT(script.conn->recovery, TCP_RECOVERY_NONE);
	begin_ns = script.now_ns + 100000000; /* the next ACK in congestion avoidance */
	for (int i = 0; i < 100; i++) {
		const double t = ((double)script.now_ns - (double)begin_ns) * 1e-9 + 0.1;
		const double expected = 0.4 * (t - k) * (t - k) * (t - k) + w_max;

		if (i > 5)
			CHECK_NEAR(script.conn->cwnd / (double)MSS, expected, 0.02 * expected);
		keep_queue(1000 * MSS);
		round_trip();
	}
	/* A loss below the former window: fast convergence (4.7). */
	script.conn->cwnd = 80 * MSS;
	script.conn->cc.cubic.w_max = 100 * MSS;
	una = script.conn->snd_una - script.conn->iss;
	keep_queue(400 * MSS);
	script_wait(100);
	sender_sack(una, 1, una + MSS, una + 4 * MSS);
	CHECK_NEAR(script.conn->cc.cubic.w_max, 68.0 * MSS, 1);
	CHECK_UINT(script.conn->ssthresh, 56 * MSS);
	script_drop();
	sender_end();
}

/* With short round trips CUBIC is no slower than Reno would be (RFC 9438, 4.3). */
void cubic_is_not_slower_than_reno(void)
{
	struct net_options o = sender_options();

	sender_begin(&o, PEER_SACK, 1);
	script.conn->cwnd = script.conn->ssthresh = 20 * MSS;
	script.conn->cwnd_prior = script.conn->cwnd;
	for (int i = 0; i < 60; i++) {
		keep_queue(100 * MSS);
		script_wait(1);
		sender_ack(script.conn->snd_nxt - script.conn->iss);
		script_drop();
	}
	CHECK(script.conn->cwnd >= 20 * MSS + 60 * 0.5 * MSS);
	sender_end();
}

/* HyStart++ (RFC 9406): round trips become longer, and slow start ends before there is a loss. */
void slow_start_ends_when_round_trips_grow(void)
{
	for (int longer = 0; longer < 2; longer++) {
		sender_begin(NULL, PEER_SACK, 50);
		for (int i = 0; i < 16 && script.conn->ssthresh == UINT32_MAX; i++) {
			const uint32_t from = script.conn->snd_una - script.conn->iss;
			uint32_t nxt;

			keep_queue(2000 * MSS);
			nxt = script.conn->snd_nxt - script.conn->iss;
			script_wait(50 + (longer && i > 1 ? 10 * (unsigned)i : 0));
			for (uint32_t ack = from + MSS; seq_le(ack, nxt); ack += MSS)
				sender_ack(ack);
			script_drop();
			if (script.conn->cwnd > 1500 * MSS)
				break;
		}
		CHECK_INT(script.conn->ssthresh != UINT32_MAX, longer);
		CHECK_UINT(script_counters()->tcp_retrans_segs, 0);
		script_drop();
		sender_end();
	}
}

/* ECT(0) on new data, not on what is sent again nor on ACKs; one reduction a round trip, told by CWR (RFC 3168,
 * 6.1). */
void marks_reduce_the_window_once_a_round_trip(void)
{
	const struct script_segment ece = { .flags = A | E, .seq = 1, .ack = 1001 };
	struct script_segment more = ece;

	sender_begin(NULL, PEER_SACK | PEER_ECN, 100);
	CHECK(script.conn->features & TCP_FEATURE_ECN);
	script_write(30 * MSS);
	for (uint32_t i = 0; i < 10; i++)
		CHECK_UINT(sender_sent(1 + i * MSS, MSS)->tos, 2);
	script_wait(100);
	script_in(&ece);
	CHECK_INT(script.conn->recovery, TCP_RECOVERY_REDUCING);
	CHECK_UINT(script.conn->ssthresh, 7 * MSS);
	CHECK_UINT(script_counters()->tcp_ecn_reductions, 1);
	for (more.ack = 2001; more.ack <= 9001; more.ack += MSS)
		script_in(&more);
	CHECK_UINT(script_counters()->tcp_ecn_reductions, 1);
	{
		const struct script_segment *first = sender_sent(10001, MSS);

		CHECK_UINT(first->flags & W, W);
		CHECK_UINT(first->tos, 2);
	}
	while (script.out_head != script.out_tail)
		CHECK_UINT(script.out[script.out_head++ % SCRIPT_FRAMES_MAX].flags & W, 0);
	sender_ack(10001);
	script_wait(100);
	sender_ack(script.conn->snd_nxt - script.conn->iss);
	CHECK_UINT(script.conn->cwnd >= 7 * MSS, 1);
	CHECK_INT(script.conn->recovery, TCP_RECOVERY_NONE);
	script_drop();
	/* What is sent again is not marked. */
	{
		const uint32_t una = script.conn->snd_una - script.conn->iss;

		script_wait(100);
		sender_sack(una, 1, una + MSS, una + 4 * MSS);
		CHECK_UINT(sender_sent(una, MSS)->tos, 0);
	}
	script_drop();
	sender_end();
}

void without_ecn_nothing_is_marked(void)
{
	const struct script_segment ece = { .flags = A | E, .seq = 1, .ack = 1001 };

	sender_begin(NULL, PEER_SACK, 100);
	script_write(2 * MSS);
	CHECK_UINT(sender_sent(1, MSS)->tos, 0);
	script_drop();
	script_in(&ece);
	CHECK_INT(script.conn->recovery, TCP_RECOVERY_NONE);
	CHECK_UINT(script.conn->cwnd, 10 * MSS);
	sender_end();
}

/* RFC 8257, 3.3: alpha follows the share of bytes that was marked, and the window falls by half of it. */
void dctcp_reduces_by_the_share_of_marks(void)
{
	struct net_options o = sender_options();
	double alpha = 1;

	o.congestion = NET_DCTCP;
	sender_begin(&o, PEER_SACK | PEER_ECN, 100);
	CHECK(script.conn->flags & TCP_ECN_EXACT);
	script.conn->cwnd = script.conn->ssthresh = 40 * MSS;
	for (int i = 0; i < 30; i++) {
		const uint32_t una = script.conn->snd_una - script.conn->iss;
		uint32_t nxt, marked = 0, acks = 0;

		keep_queue(200 * MSS);
		nxt = script.conn->snd_nxt - script.conn->iss;
		script_wait(100);
		for (uint32_t ack = una + MSS; seq_le(ack, nxt); ack += MSS, acks++) {
			struct script_segment s = { .flags = A, .seq = 1, .ack = ack };

			if (acks % 4 == 3) { /* a quarter */
				s.flags |= E;
				marked++;
			}
			script_in(&s);
		}
		script_drop();
		alpha += ((acks ? (double)marked / acks : 0) - alpha) / 16;
	}
	CHECK_NEAR(script.conn->cc.dctcp.alpha / (double)TCP_DCTCP_ONE, alpha, 0.06);
	alpha = script.conn->cc.dctcp.alpha / (double)TCP_DCTCP_ONE;
	{
		const uint32_t cwnd = script.conn->cwnd_prior;

		CHECK_NEAR(script.conn->ssthresh, cwnd * (1 - alpha / 2), 0.02 * cwnd);
	}
	sender_end();
}

void the_algorithm_is_a_choice_of_the_stack_and_of_the_connection(void)
{
	static const char *const names[] = { [NET_CUBIC] = "cubic", [NET_NEWRENO] = "newreno", [NET_DCTCP] = "dctcp" };

	for (unsigned i = 0; i < RTE_DIM(names); i++) {
		struct net_options o = sender_options();

		o.congestion = i;
		sender_begin(&o, PEER_SACK, 10);
		CHECK_STR(tcp_congestion_name(script.conn), names[i]);
		for (unsigned k = 0; k < RTE_DIM(names); k++) {
			tcp_set_congestion(script.conn, k);
			CHECK_STR(tcp_congestion_name(script.conn), names[k]);
			CHECK_INT(!!(script.conn->flags & TCP_ECN_EXACT), k == NET_DCTCP);
		}
		CHECK_UINT(script.conn->cwnd, 10 * MSS);
		sender_end();
	}
}
