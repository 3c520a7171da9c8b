/* SPDX-License-Identifier: BSD-3-Clause */
#include "rpc/dgram_congestion.h"

#include <math.h>

/* The names and values of the Swift paper: ai, beta, max_mdf; fs_range, fs_min_cwnd, fs_max_cwnd (section 3.5);
 * RETX_RESET_THRESHOLD. */
#define INCREASE 1.0f
#define BETA 0.8f
#define DECREASE_MAX 0.5f
#define SCALE_RANGE 4.0f /* in targets */
#define SCALE_MIN 0.1f
#define SCALE_MAX 100.0f
#define TIMEOUTS_RESET 5
/* DCTCP's g. */
#define MARKS_GAIN (1.0f / 16)
#define LOST_SHARE 32 /* one loss, or two, in this many packets is not congestion */
#define PACE_ALL \
	16.0f /* smaller windows are told apart by gaps; of larger ones these are shorter: acknowledgements hold back */
#define PACE 0.8f
#define GAP_MOST_NS 4e9f /* so that it fits its type */
#define GAP_MAX_NS 1e7f	 /* no session sends slower than one packet in this time or in two round trips */

void dgram_congestion_init(struct dgram_congestion *c)
{
	*c = (struct dgram_congestion){ .window = CONGESTION_START,
					.packets = (uint32_t)CONGESTION_START,
					.min_rtt_ns = UINT32_MAX,
					.marked_share = 1,
					.starting = 1 };
}

/* As fminf and fmaxf, if neither is NaN: one instruction each, without a call. */
static inline float less_of(float a, float b)
{
	return a < b ? a : b;
}

static inline float more_of(float a, float b)
{
	return a > b ? a : b;
}

/* The target delay: higher for small windows, so that many of them share a queue fairly. */
static float target(const struct dgram_congestion *c, const struct congestion_limits *limits)
{
	const float alpha = SCALE_RANGE / (1 / sqrtf(SCALE_MIN) - 1 / sqrtf(SCALE_MAX));
	const float scale = alpha / sqrtf(c->window) - alpha / sqrtf(SCALE_MAX);
	const float base =
		more_of((float)limits->target_ns, c->min_rtt_ns == UINT32_MAX ? 0 : 1.25f * (float)c->min_rtt_ns);

	return base + (float)limits->target_ns * less_of(more_of(scale, 0), SCALE_RANGE);
}

static void set_window(struct dgram_congestion *c, const struct congestion_limits *limits, float window,
		       uint32_t srtt_ns)
{
	const float most = (float)limits->window_max;
	const float slowest = less_of(more_of(GAP_MAX_NS, 2 * (float)srtt_ns), GAP_MOST_NS);
	const float least = more_of((float)srtt_ns / slowest, CONGESTION_MIN);

	c->window = less_of(more_of(window, least), most);
	c->packets = (uint32_t)ceilf(c->window);
	c->max = c->window >= most && c->round_end == 0;
	c->gap_ns =
		c->window >= most || c->starting
			? 0
			: (uint32_t)less_of((c->window < PACE_ALL ? 1 : PACE) * (float)srtt_ns / c->window, slowest);
}

static void decrease(struct dgram_congestion *c, const struct congestion_limits *limits, float by, uint64_t now_ns,
		     uint32_t srtt_ns)
{
	c->starting = 0;
	c->decreased_ns = now_ns;
	set_window(c, limits, c->window * (1 - less_of(by, DECREASE_MAX)), srtt_ns);
}

/* A round trip with losses or marks has ended. */
static void end_round(struct dgram_congestion *c, const struct congestion_limits *limits,
		      const struct congestion_ack *ack)
{
	const bool lossy = c->round_lost > 2 + (c->round_acked + c->round_lost) / LOST_SHARE;
	const float share = c->round_acked ? (float)c->round_marked / (float)c->round_acked : 0;
	const bool again = c->round_lost || c->round_marked;

	c->marked_share += MARKS_GAIN * (less_of(share, 1) - c->marked_share);
	c->round_end = again && ack->next ? ack->next : 0;
	if (lossy && ack->now_ns - c->decreased_ns >= ack->srtt_ns)
		decrease(c, limits, DECREASE_MAX, ack->now_ns, ack->srtt_ns);
	else if (c->round_marked)
		decrease(c, limits, c->marked_share / 2, ack->now_ns, ack->srtt_ns);
	c->round_acked = c->round_marked = c->round_lost = 0;
}

static void begin_round(struct dgram_congestion *c, uint32_t next)
{
	c->max = 0;
	if (c->round_end == 0)
		c->round_end = next ? next : 1;
}

void dgram_congestion_ack(struct dgram_congestion *c, const struct congestion_limits *limits,
			  const struct congestion_ack *ack)
{
	const float delay = (float)ack->rtt_ns;
	float aim;

	if (ack->rtt_ns && ack->rtt_ns < c->min_rtt_ns)
		c->min_rtt_ns = ack->rtt_ns;
	if (ack->marked) {
		begin_round(c, ack->next);
		c->round_marked += ack->acked;
	}
	if (c->round_end) {
		c->round_acked += ack->acked;
		if ((int32_t)(ack->una - c->round_end) >= 0)
			end_round(c, limits, ack);
	}
	if (ack->acked == 0)
		return; /* a heartbeat: nothing of ours was in flight, so it says nothing of congestion */
	c->timeouts = 0;
	aim = target(c, limits);
	if (ack->rtt_ns && delay > aim) {
		if (ack->now_ns - c->decreased_ns >= ack->srtt_ns)
			decrease(c, limits, BETA * (delay - aim) / delay, ack->now_ns, ack->srtt_ns);
	} else if (!ack->marked) {
		const float acked = (float)ack->acked;

		set_window(c, limits,
			   c->window + (c->starting	 ? acked
					: c->window >= 1 ? INCREASE * acked / c->window
							 : INCREASE * acked),
			   ack->srtt_ns);
	}
}

void dgram_congestion_lost(struct dgram_congestion *c, uint32_t packets, uint32_t next)
{
	begin_round(c, next);
	c->round_lost += packets;
}

void dgram_congestion_timeout(struct dgram_congestion *c, const struct congestion_limits *limits, uint64_t now_ns,
			      uint32_t srtt_ns)
{
	if (c->timeouts < UINT8_MAX)
		c->timeouts++;
	if (c->timeouts >= TIMEOUTS_RESET) {
		c->starting = 0;
		c->decreased_ns = now_ns;
		set_window(c, limits, CONGESTION_MIN, srtt_ns);
	} else if (now_ns - c->decreased_ns >= srtt_ns) {
		decrease(c, limits, DECREASE_MAX, now_ns, srtt_ns);
	}
}
