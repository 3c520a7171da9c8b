/* SPDX-License-Identifier: BSD-3-Clause */
/* What all congestion control algorithms share. */
#include "net/tcp_congestion.h"

#include "net/tcp_sender.h"

enum {
	INITIAL_SEGMENTS = 10, /* RFC 6928 */
	CWND_MAX = 1 << 30,    /* the largest window a peer can offer (RFC 7323, 2.3) */
};

static const struct tcp_congestion *const algorithms[] = {
	[NET_CUBIC] = &tcp_cubic,
	[NET_NEWRENO] = &tcp_newreno,
	[NET_DCTCP] = &tcp_dctcp,
};

static bool is_reducing(const struct tcp_conn *conn)
{
	return conn->recovery == TCP_RECOVERY_REDUCING || conn->recovery == TCP_RECOVERY_FAST;
}

static uint32_t initial_window(const struct tcp_conn *conn)
{
	return INITIAL_SEGMENTS * (uint32_t)conn->mss;
}

void tcp_congestion_use(struct tcp_conn *conn, const struct tcp_congestion *algorithm)
{
	conn->congestion = algorithm;
	conn->flags &= ~(uint32_t)TCP_ECN_EXACT;
	memset(&conn->cc, 0, sizeof(conn->cc));
	algorithm->init(conn);
}

void tcp_congestion_init(struct tcp_conn *conn)
{
	conn->cwnd = initial_window(conn);
	conn->ssthresh = UINT32_MAX;
	conn->cwnd_round = conn->snd_nxt;
	conn->cwnd_used_ns = conn->net->now_ns;
	tcp_congestion_use(conn, algorithms[conn->net->options.congestion]);
}

void tcp_set_congestion(struct tcp_conn *conn, enum net_congestion which)
{
	if (conn->congestion != algorithms[which])
		tcp_congestion_use(conn, algorithms[which]);
}

const char *tcp_congestion_name(const struct tcp_conn *conn)
{
	return conn->congestion->name;
}

uint32_t tcp_slow_start(struct tcp_conn *conn, uint32_t delivered)
{
	const uint32_t room = conn->ssthresh - conn->cwnd, part = RTE_MIN(delivered, room);

	conn->cwnd += part;
	return delivered - part;
}

/*
 * A window that is not used says nothing about the path, so it does not grow (RFC 7661). It counts as used if it
 * stopped the sender, and in slow start also if more than half of it was in flight.
 */
static bool window_used(const struct tcp_conn *conn)
{
	return conn->sender & TCP_SENDER_LIMITED ||
	       (conn->cwnd < conn->ssthresh && conn->cwnd < 2ull * conn->flight_max);
}

static uint32_t decayed(uint32_t cwnd, uint32_t floor, uint64_t timeouts)
{
	for (; timeouts && cwnd > floor; timeouts--)
		cwnd /= 2;
	return RTE_MAX(cwnd, floor);
}

/* After idle time the window is halved for each RTO, down to the initial window (RFC 2861, 3.1; RFC 5681, 4.1), because
 * old knowledge of the path becomes less reliable. */
void tcp_congestion_restart(struct tcp_conn *conn)
{
	const uint64_t idle_ns = conn->net->now_ns - conn->sent_ns;
	const uint32_t floor = RTE_MIN(initial_window(conn), conn->cwnd);

	if (conn->sent_ns == 0 || conn->recovery != TCP_RECOVERY_NONE)
		return;
	if (conn->congestion->idle)
		conn->congestion->idle(conn, idle_ns);
	if (idle_ns < conn->rto_us * NET_US || conn->net->options.idle_keeps_window)
		return;
	conn->ssthresh = RTE_MAX(conn->ssthresh, conn->cwnd / 4 * 3);
	conn->cwnd = decayed(conn->cwnd, floor, idle_ns / (conn->rto_us * NET_US));
	conn->cwnd_used_ns = conn->net->now_ns;
	conn->flight_max = 0;
}

/* If the window has not been full for an RTO, it is reduced half way to what was used of it (RFC 2861, 3.2). */
static void application_limited(struct tcp_conn *conn)
{
	const uint32_t used = RTE_MAX(conn->flight_max, initial_window(conn));

	if (conn->recovery == TCP_RECOVERY_NONE && used < conn->cwnd) {
		conn->ssthresh = RTE_MAX(conn->ssthresh, conn->cwnd / 4 * 3);
		conn->cwnd = (conn->cwnd + used) / 2;
	}
	conn->flight_max = 0;
	conn->cwnd_used_ns = conn->net->now_ns;
}

void tcp_congestion_tried(struct tcp_conn *conn)
{
	if (!is_reducing(conn))
		conn->prr_delivered = 0;
}

void tcp_congestion_sent(struct tcp_conn *conn, bool limited)
{
	const uint32_t flight = conn->snd_nxt - conn->snd_una;

	if (limited || !seq_lt(conn->snd_una, conn->cwnd_round) ||
	    (!(conn->sender & TCP_SENDER_LIMITED) && flight > conn->flight_max)) {
		conn->sender =
			limited ? conn->sender | TCP_SENDER_LIMITED : conn->sender & ~(uint32_t)TCP_SENDER_LIMITED;
		conn->flight_max = flight;
		conn->cwnd_round = conn->snd_nxt;
	}
	if (window_used(conn))
		conn->cwnd_used_ns = conn->net->now_ns;
	else if (conn->net->now_ns - conn->cwnd_used_ns >= conn->rto_us * NET_US &&
		 !conn->net->options.idle_keeps_window)
		application_limited(conn);
}

void tcp_congestion_reduce(struct tcp_conn *conn, enum tcp_reduction why)
{
	conn->cwnd_prior = conn->cwnd;
	conn->ssthresh_prior = conn->ssthresh;
	conn->ssthresh = RTE_MAX(conn->congestion->reduced(conn, why), 2u * conn->mss);
	if (why == TCP_BY_TIMEOUT)
		conn->prr_delivered = 0;
	/* What this turn's earlier ACKs have taken out of the network has not been replaced yet. */
	conn->prr_flight = RTE_MAX(conn->snd_nxt - conn->snd_una + conn->prr_delivered, 1u);
	conn->prr_out = 0;
	if (why != TCP_BY_TIMEOUT && conn->features & TCP_FEATURE_ECN)
		conn->sender |= TCP_SENDER_CWR;
}

void tcp_congestion_reduced(struct tcp_conn *conn)
{
	conn->cwnd = conn->ssthresh;
	conn->prr_delivered = 0;
	conn->cwnd_used_ns = conn->net->now_ns;
}

void tcp_congestion_undo(struct tcp_conn *conn)
{
	conn->cwnd = RTE_MAX(conn->cwnd, conn->cwnd_prior);
	conn->ssthresh = RTE_MAX(conn->ssthresh, conn->ssthresh_prior);
	conn->prr_delivered = 0;
	conn->sender &= ~(uint32_t)TCP_SENDER_CWR;
	if (conn->congestion->undone)
		conn->congestion->undone(conn);
}

static uint32_t whole_segments(const struct tcp_conn *conn, uint64_t bytes)
{
	return (uint32_t)((bytes + conn->mss - 1) / conn->mss * conn->mss);
}

/* Proportional rate reduction, RFC 6937, with the slow start part only where an ACK shows progress and no loss. */
void tcp_congestion_step(struct tcp_conn *conn, uint32_t delivered, bool lost, bool advanced)
{
	const uint32_t pipe = tcp_pipe(conn);
	int64_t may;

	conn->prr_delivered += delivered;
	if (pipe > conn->ssthresh) {
		may = (int64_t)whole_segments(conn, (uint64_t)conn->prr_delivered * conn->ssthresh / conn->prr_flight) -
		      conn->prr_out;
	} else {
		may = RTE_MAX((int64_t)whole_segments(conn, conn->prr_delivered) - conn->prr_out, (int64_t)delivered);
		if (advanced && !lost)
			may += conn->mss;
		may = RTE_MIN(may, (int64_t)whole_segments(conn, conn->ssthresh - pipe));
	}
	/* The first retransmission is sent at once. */
	may = RTE_MAX(may, conn->prr_out ? 0 : (int64_t)conn->mss);
	conn->cwnd = pipe + (uint32_t)may;
}

void tcp_congestion_ack(struct tcp_conn *conn, const struct tcp_ack *a)
{
	if (is_reducing(conn)) {
		if (a->delivered)
			tcp_congestion_step(conn, a->delivered, a->lost, a->advanced);
		return;
	}
	conn->prr_delivered += a->delivered;
	if (a->advanced && a->delivered && window_used(conn)) {
		conn->congestion->acked(conn, a);
		conn->cwnd = RTE_MIN(conn->cwnd, (uint32_t)CWND_MAX);
	}
}
