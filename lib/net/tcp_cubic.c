/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUBIC (RFC 9438): after a loss the window grows by a cubic function of time, which is flat around the window of that
 * loss. HyStart++ (RFC 9406) ends the first slow start when round trips become longer. Section numbers without a name
 * are those of RFC 9438.
 */
#include <math.h>

#include "net/tcp_sender.h"

/* 4.6, 5.1 */
#define C 0.4
#define BETA 0.7
#define ALPHA (3 * (1 - BETA) / (1 + BETA)) /* 4.3 */

/* RFC 9406, 4.3 */
enum {
	RTT_THRESH_MIN_US = 4000,
	RTT_THRESH_MAX_US = 16000,
	RTT_DIVISOR = 8,
	RTT_SAMPLES = 8,
	CSS_GROWTH_DIVISOR = 4,
	CSS_ROUNDS = 5,
};

static void begin_round(struct tcp_conn *conn)
{
	struct tcp_hystart_state *h = &conn->cc.hystart;

	h->last_min_us = h->min_us;
	h->min_us = UINT32_MAX;
	h->samples = 0;
	h->round_end = conn->snd_nxt;
}

static bool is_first_slow_start(const struct tcp_conn *conn)
{
	return conn->ssthresh == UINT32_MAX;
}

static void cubic_init(struct tcp_conn *conn)
{
	if (!is_first_slow_start(conn))
		return;
	conn->cc.hystart.min_us = UINT32_MAX;
	begin_round(conn);
}

/* RFC 9406, 4.2: whether slow start, standard or conservative, has ended. */
static bool hystart_over(struct tcp_conn *conn, const struct tcp_ack *a)
{
	struct tcp_hystart_state *h = &conn->cc.hystart;

	if (a->rtt_us) {
		h->min_us = RTE_MIN(h->min_us, a->rtt_us);
		h->samples += h->samples < RTT_SAMPLES;
	}
	if (h->samples == RTT_SAMPLES && h->css_rounds == 0 && h->last_min_us != UINT32_MAX) {
		uint32_t by = RTE_MAX(h->last_min_us / RTT_DIVISOR, (uint32_t)RTT_THRESH_MIN_US);

		by = RTE_MIN(by, (uint32_t)RTT_THRESH_MAX_US);
		if (h->min_us >= h->last_min_us + by) {
			h->css_base_us = h->min_us;
			h->css_rounds = 1;
		}
	} else if (h->samples == RTT_SAMPLES && h->css_rounds && h->min_us < h->css_base_us) {
		h->css_rounds = 0; /* the queue was temporary */
	}
	if (seq_lt(conn->snd_una, h->round_end))
		return false;
	begin_round(conn);
	return h->css_rounds && h->css_rounds++ == CSS_ROUNDS;
}

/* RFC 9406, 4.3: HyStart++ applies to the first slow start only. */
static void first_slow_start(struct tcp_conn *conn, const struct tcp_ack *a)
{
	const bool over = hystart_over(conn, a);

	tcp_slow_start(conn, conn->cc.hystart.css_rounds ? a->delivered / CSS_GROWTH_DIVISOR : a->delivered);
	if (over) {
		conn->ssthresh = conn->cwnd;
		memset(&conn->cc, 0, sizeof(conn->cc));
	}
}

static void begin_epoch(struct tcp_conn *conn)
{
	struct tcp_cubic_state *s = &conn->cc.cubic;

	s->epoch_ns = conn->net->now_ns;
	if (s->w_max > conn->cwnd) {
		s->k_s = (float)cbrt((s->w_max - conn->cwnd) / conn->mss / C);
	} else { /* 4.2, 4.10: probes for more at once from here */
		s->k_s = 0;
		s->w_max = conn->cwnd;
	}
	s->w_est = conn->cwnd;
	s->fraction = 0;
}

static double w_cubic(const struct tcp_conn *conn, double t_s)
{
	const struct tcp_cubic_state *s = &conn->cc.cubic;
	const double off = t_s - s->k_s;

	return C * off * off * off * conn->mss + s->w_max;
}

/* 4.2 to 4.5. */
static void avoid(struct tcp_conn *conn, uint32_t delivered)
{
	struct tcp_cubic_state *s = &conn->cc.cubic;
	const double cwnd = conn->cwnd;
	double t_s, target, grown;

	if (s->epoch_ns == 0)
		begin_epoch(conn);
	t_s = (double)(conn->net->now_ns - s->epoch_ns) * 1e-9;
	s->w_est += (s->w_est < s->cwnd_prior ? ALPHA : 1.0) * delivered * conn->mss / cwnd;
	if (w_cubic(conn, t_s) < s->w_est) {
		grown = fmax(cwnd, s->w_est);
	} else {
		target = w_cubic(conn, t_s + tcp_srtt_us(conn) * 1e-6);
		target = fmin(fmax(target, cwnd), 1.5 * cwnd);
		grown = cwnd + (target - cwnd) / cwnd * delivered;
	}
	/* At most half as fast as slow start, whatever the elapsed time (the limit of 4.4, applied to each ACK). */
	grown = s->fraction + fmin(grown - cwnd, delivered * 0.5);
	conn->cwnd += (uint32_t)grown;
	s->fraction = (float)(grown - (uint32_t)grown);
}

static void cubic_acked(struct tcp_conn *conn, const struct tcp_ack *a)
{
	uint32_t delivered = a->delivered;

	if (is_first_slow_start(conn)) {
		first_slow_start(conn, a);
		return;
	}
	if (conn->cwnd < conn->ssthresh)
		delivered = tcp_slow_start(conn, delivered);
	if (delivered)
		avoid(conn, delivered);
}

/* 4.6, 4.7: fast convergence: a window below the last maximum leaves room to other flows. */
static uint32_t cubic_reduced(struct tcp_conn *conn, enum tcp_reduction why)
{
	struct tcp_cubic_state *s = &conn->cc.cubic;

	if (conn->ssthresh_prior == UINT32_MAX) /* so far the state was HyStart's */
		memset(&conn->cc, 0, sizeof(conn->cc));
	s->w_max_before = (float)s->w_max;
	s->w_max = conn->cwnd < s->w_max ? conn->cwnd * (1 + BETA) / 2 : conn->cwnd;
	s->cwnd_prior = conn->cwnd;
	s->epoch_ns = 0;
	return (uint32_t)(conn->cwnd * BETA);
}

/* 4.9 */
static void undone(struct tcp_conn *conn)
{
	if (is_first_slow_start(conn)) {
		memset(&conn->cc, 0, sizeof(conn->cc));
		cubic_init(conn);
		return;
	}
	conn->cc.cubic.w_max = conn->cc.cubic.w_max_before;
	conn->cc.cubic.epoch_ns = 0;
}

/* Idle time does not count (for the reason of 5.8). */
static void idle(struct tcp_conn *conn, uint64_t ns)
{
	if (!is_first_slow_start(conn) && conn->cc.cubic.epoch_ns)
		conn->cc.cubic.epoch_ns = RTE_MIN(conn->cc.cubic.epoch_ns + ns, conn->net->now_ns);
}

const struct tcp_congestion tcp_cubic = {
	.name = "cubic",
	.init = cubic_init,
	.acked = cubic_acked,
	.reduced = cubic_reduced,
	.undone = undone,
	.idle = idle,
};
