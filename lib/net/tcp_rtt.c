/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Round-trip times and the retransmission timeout (RFC 6298). The send time of segments that were sent only once has
 * the finer resolution, and is used first. Timestamps (RFC 7323, 4) are used for segments that were sent twice, where
 * Karn's algorithm allows no sample.
 */
#include "net/tcp_sender.h"

enum {
	INITIAL_RTO_US = 1000000,
	RTT_MAX_US = 60000000,
	MIN_RTT_LASTS_S = 300, /* routes change, so an old minimum does not count for ever */
};

static uint32_t rto_us(const struct tcp_conn *conn)
{
	const struct net_options *o = &conn->net->options;
	uint32_t us;

	if (conn->srtt_8 == 0)
		us = RTE_MAX((uint32_t)INITIAL_RTO_US, o->rto_min_us);
	else /* the minimum is for delayed ACKs, which are added to the round trip */
		us = tcp_srtt_us(conn) + RTE_MAX(conn->rttvar_4, o->rto_min_us);
	return RTE_MIN(us, o->rto_max_us);
}

void tcp_rtt_init(struct tcp_conn *conn)
{
	conn->rto_us = rto_us(conn);
	conn->min_rtt_us = UINT32_MAX;
}

static void note_min(struct tcp_conn *conn, uint32_t us)
{
	const uint32_t now_s = (uint32_t)(conn->net->now_ns / (1000 * NET_MS));

	if (us > conn->min_rtt_us && now_s - conn->min_rtt_s < MIN_RTT_LASTS_S)
		return;
	conn->min_rtt_us = us;
	conn->min_rtt_s = now_s;
}

/*
 * Takes one sample. There may be hundreds per round trip, so a variance averaged over samples would forget within one
 * (RFC 7323, 4.2). Instead it follows the largest deviation of each round trip: up at once, down by a quarter.
 */
static void sample(struct tcp_conn *conn, uint32_t us)
{
	int32_t off;

	if (conn->srtt_8 == 0) {
		conn->srtt_8 = us << 3;
		conn->mdev_4 = conn->mdev_max_4 = conn->rttvar_4 = us << 1;
		conn->rtt_round = conn->snd_nxt;
		return;
	}
	off = (int32_t)(us - (conn->srtt_8 >> 3));
	conn->srtt_8 = RTE_MAX(conn->srtt_8 + (uint32_t)off, 8u);
	off = (off < 0 ? -off : off) - (int32_t)(conn->mdev_4 >> 2);
	conn->mdev_4 += (uint32_t)off;
	if (conn->mdev_4 > conn->mdev_max_4) {
		conn->mdev_max_4 = conn->mdev_4;
		conn->rttvar_4 = RTE_MAX(conn->rttvar_4, conn->mdev_max_4);
	}
	if (seq_lt(conn->rtt_round, conn->snd_una)) {
		if (conn->mdev_max_4 < conn->rttvar_4)
			conn->rttvar_4 -= (conn->rttvar_4 - conn->mdev_max_4) >> 2;
		conn->rtt_round = conn->snd_nxt;
		conn->mdev_max_4 = 0;
	}
}

static uint32_t since_us(const struct tcp_conn *conn, uint64_t sent_ns)
{
	const uint64_t us = (conn->net->now_ns - sent_ns) / NET_US;

	return us == 0 ? 1 : (uint32_t)RTE_MIN(us, (uint64_t)RTT_MAX_US);
}

void tcp_measure_rtt(struct tcp_conn *conn, uint64_t sent_ns)
{
	const uint32_t us = since_us(conn, sent_ns);

	note_min(conn, us);
	sample(conn, us);
	conn->rto_us = rto_us(conn);
}

/* The round trip by the timestamp's echo, 0 if that says nothing; its resolution is a millisecond. */
static uint32_t echoed_us(const struct tcp_conn *conn, const struct tcp_segment *s)
{
	uint32_t ms;

	if (!(conn->features & TCP_FEATURE_TIMESTAMP) || !s->has_timestamp || s->ts_echo == 0)
		return 0;
	ms = tcp_timestamp(conn) - s->ts_echo;
	return ms < RTT_MAX_US / 1000 ? RTE_MAX(ms, 1u) * 1000 : 0;
}

void tcp_rtt_ack(struct tcp_conn *conn, struct tcp_ack *a)
{
	const uint64_t sent_ns = a->sent_ns && !a->retransmitted ? a->sent_ns : a->sack_sent_ns;

	if (sent_ns) {
		a->rtt_us = since_us(conn, sent_ns);
		note_min(conn, a->rtt_us);
	} else if (a->advanced) {
		a->rtt_us = echoed_us(conn, a->segment);
	}
	if (a->rtt_us) {
		sample(conn, a->rtt_us);
		conn->rto_us = rto_us(conn);
	} else if (a->advanced) {
		/* Without samples, which a lossy path may not give for long, progress ends the backoff except for a
		 * factor of two, so that a path that has become slower gets a chance. */
		conn->rto_us = RTE_MIN(conn->rto_us, 2 * rto_us(conn));
	}
}

void tcp_rto_reset(struct tcp_conn *conn)
{
	conn->rto_us = rto_us(conn);
}
