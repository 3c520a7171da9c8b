/* SPDX-License-Identifier: BSD-3-Clause */
/* NewReno's window: RFC 5681, with byte counting by RFC 3465. */
#include "net/tcp_sender.h"

static void newreno_init(struct tcp_conn *conn)
{
}

void tcp_newreno_avoid(struct tcp_conn *conn, struct tcp_newreno_state *state, uint32_t delivered)
{
	state->acked += delivered;
	while (state->acked >= conn->cwnd) { /* only a few iterations: an ACK covers a window or two at most */
		state->acked -= conn->cwnd;
		conn->cwnd += conn->mss;
	}
}

static void newreno_acked(struct tcp_conn *conn, const struct tcp_ack *a)
{
	uint32_t delivered = a->delivered;

	if (conn->cwnd < conn->ssthresh)
		delivered = tcp_slow_start(conn, delivered);
	if (delivered)
		tcp_newreno_avoid(conn, &conn->cc.newreno, delivered);
}

static uint32_t newreno_reduced(struct tcp_conn *conn, enum tcp_reduction why)
{
	conn->cc.newreno.acked = 0;
	return conn->cwnd / 2;
}

const struct tcp_congestion tcp_newreno = {
	.name = "newreno",
	.init = newreno_init,
	.acked = newreno_acked,
	.reduced = newreno_reduced,
};
