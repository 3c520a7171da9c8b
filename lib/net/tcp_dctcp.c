/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data Center TCP (RFC 8257), the sender: the window is reduced by half of the fraction of marked bytes. In a closed
 * network whose switches mark early this keeps queues short; on an open network it is unfair to other flows (RFC 8257,
 * 5).
 */
#include "net/tcp_sender.h"

enum { GAIN_SHIFT = 4 }; /* g = 1/16 */

static void dctcp_init(struct tcp_conn *conn)
{
	/* Starts as if all bytes had been marked: the first mark halves the window (RFC 8257, 3.3). */
	conn->cc.dctcp.alpha = TCP_DCTCP_ONE;
	conn->cc.dctcp.window_end = conn->snd_nxt;
	conn->flags |= TCP_ECN_EXACT;
}

/* RFC 8257, 3.3: updates the estimate once per window. */
static void heard(struct tcp_conn *conn, const struct tcp_ack *a)
{
	struct tcp_dctcp_state *d = &conn->cc.dctcp;

	d->delivered += a->delivered;
	if (a->marked)
		d->marked += a->delivered;
	if (!seq_lt(d->window_end, conn->snd_una) || d->delivered == 0)
		return;
	d->alpha -= d->alpha >> GAIN_SHIFT;
	d->alpha += (uint32_t)((d->marked << 20 >> GAIN_SHIFT) / d->delivered);
	d->delivered = d->marked = 0;
	d->window_end = conn->snd_nxt;
}

static void dctcp_acked(struct tcp_conn *conn, const struct tcp_ack *a)
{
	uint32_t delivered = a->delivered;

	if (conn->cwnd < conn->ssthresh)
		delivered = tcp_slow_start(conn, delivered);
	if (delivered)
		tcp_newreno_avoid(conn, &conn->cc.dctcp.newreno, delivered);
}

static uint32_t dctcp_reduced(struct tcp_conn *conn, enum tcp_reduction why)
{
	conn->cc.dctcp.newreno.acked = 0;
	if (why != TCP_BY_ECN)
		return conn->cwnd / 2;
	return conn->cwnd - (uint32_t)((uint64_t)conn->cwnd * conn->cc.dctcp.alpha >> 21);
}

const struct tcp_congestion tcp_dctcp = {
	.name = "dctcp",
	.init = dctcp_init,
	.heard = heard,
	.acked = dctcp_acked,
	.reduced = dctcp_reduced,
};
_Static_assert(TCP_DCTCP_ONE == 1 << 20, "the shifts above");
