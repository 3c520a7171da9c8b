/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path's MTU has become too small for a connection. An ICMP error reports it (RFC 1191, RFC 8201), or timeouts show
 * it where errors are dropped on the way (packetization layer path MTU discovery, RFC 4821). Segments that are too
 * large are split when they are sent again. The segment size that the user sees does not change, as it may be filling
 * an mbuf.
 *
 * Larger sizes are not probed. RFC 4821 would risk losses for it, and a connection whose path carries what its
 * interface does would gain nothing. A reduced size returns after ten minutes, in one step, to what the path is known
 * to carry (RFC 8201, 4).
 */
#include "net/tcp_sender.h"

enum {
	BASE_MTU = 1024 + 40, /* RFC 4821, 7.2 */
	FLOOR_V4 = 576,	      /* RFC 1191, 3: every host must accept that */
	FLOOR_V6 = 1280,      /* RFC 8200, 5 */
	TIMEOUTS = 3,	      /* consecutive ones of a larger segment */
	RETURNS_S = 600,
};

static uint32_t now_s(const struct tcp_conn *conn)
{
	return (uint32_t)(conn->net->now_ns / (1000 * NET_MS));
}

static void set_mtu(struct tcp_conn *conn, uint16_t mtu)
{
	const uint32_t headers = net_path_header(&conn->path) + (uint32_t)sizeof(struct rte_tcp_hdr) +
				 (conn->features & TCP_FEATURE_TIMESTAMP ? TCP_TIMESTAMPS_BYTES : 0);

	conn->path.mtu = mtu;
	conn->mss = RTE_MIN(conn->mss_max, (uint16_t)(mtu - headers));
	conn->mtu_s = now_s(conn);
}

static uint16_t at_least(const struct tcp_conn *conn, uint16_t mtu)
{
	return RTE_MAX(mtu, (uint16_t)(net_address_is_v4(&conn->path.remote) ? FLOOR_V4 : FLOOR_V6));
}

/* What was too large was not lost by congestion, so it is sent again with the same window (RFC 1191, 6.5). */
void tcp_path_mtu(struct tcp_conn *conn, uint16_t mtu)
{
	mtu = at_least(conn, mtu);
	if (mtu >= conn->path.mtu)
		return;
	set_mtu(conn, mtu);
	if (!tcp_scoreboard_lose_larger(conn, conn->mss))
		return;
	tcp_recover_smaller(conn);
}

/* RFC 4821, 7.7: the size may be the reason for the loss. Falls back to the base if that is smaller, else to what
 * everybody must accept. */
void tcp_mtu_timeout(struct tcp_conn *conn)
{
	static const uint16_t sizes[] = { BASE_MTU, 0 };

	if (conn->tries % TIMEOUTS || !conn->send_head)
		return;
	for (unsigned i = 0; i < RTE_DIM(sizes); i++) {
		const uint16_t mtu = at_least(conn, sizes[i]);

		if (mtu < conn->path.mtu &&
		    net_priv(conn->send_head)->payload_len > conn->mss - (conn->path.mtu - mtu)) {
			conn->net->counters.tcp_mtu_fails++;
			set_mtu(conn, mtu);
			return;
		}
	}
}

void tcp_mtu_return(struct tcp_conn *conn)
{
	uint16_t mtu;

	if (now_s(conn) - conn->mtu_s < RETURNS_S)
		return;
	mtu = net_path_mtu(conn->net, &conn->path);
	if (mtu > conn->path.mtu)
		set_mtu(conn, mtu);
	conn->mtu_s = now_s(conn);
}
