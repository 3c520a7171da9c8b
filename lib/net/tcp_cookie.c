/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SYN cookies (after Bernstein, 1996; RFC 4987, 3.6): when too many connections are half open, a SYN is answered
 * without storing anything. The ACK returns what is needed: our sequence number consists of 27 bits of SipHash over the
 * four-tuple, the peer's number, the segment size and the time; of two bits of that time; and of three for the segment
 * size. So each period of time has a hash function of its own, and a cookie is valid in its own period and the next.
 * The other options are in the low bits of the timestamp that the peer echoes, as in Linux; without timestamps they are
 * not used.
 */
#include "net/tcp_internal.h"

enum {
	TIME_BITS = 2,
	SIZE_BITS = 3,
	STAMP_BITS = 6,	     /* in the timestamp: */
	STAMP_SCALE = 0xf,   /* the peer's window scale; 15: none */
	STAMP_SACK = 1 << 4, /* SACK-permitted */
	STAMP_ECN = 1 << 5,
};

#define PERIOD_NS (64000 * NET_MS)
#define STAMP_AGE_MS 128000 /* two periods */

static const uint16_t sizes[1 << SIZE_BITS] = { 88, 536, 1220, 1380, 1440, 1460, 4312, 8960 };

static uint32_t cookie(const struct net *net, const struct tcp_segment *s, uint32_t peer_iss, uint64_t period,
		       unsigned size)
{
	const uint64_t more = (uint64_t)peer_iss << 32 | (uint32_t)(period << SIZE_BITS) | size;
	const uint64_t hash = tcp_secret(net, TCP_SECRET_COOKIE, &s->packet->to, &s->packet->from,
					 tcp_ports(s->tcp->dst_port, s->tcp->src_port), more);

	return (uint32_t)hash << (TIME_BITS + SIZE_BITS) | size << TIME_BITS | (period & ((1 << TIME_BITS) - 1));
}

static unsigned size_index(uint16_t mss)
{
	unsigned i = RTE_DIM(sizes) - 1;

	while (i > 0 && sizes[i] > mss)
		i--;
	return i;
}

/* The latest timestamp, not after now, with these low bits. */
static uint32_t stamp(uint64_t now_ms, uint32_t bits)
{
	const uint64_t mask = (1 << STAMP_BITS) - 1;
	const uint64_t at = (now_ms & ~mask) | bits;

	return (uint32_t)(at > now_ms ? at - (mask + 1) : at);
}

void tcp_cookie_send(struct net *net, const struct tcp_listener *listener, const struct net_path *path,
		     const struct tcp_segment *s)
{
	const uint64_t now_ms = net->now_ns / NET_MS;
	struct tcp_conn conn;
	uint32_t bits;

	tcp_conn_init(&conn, net, listener, path, s->tcp->dst_port, s->tcp->src_port);
	conn.state = TCP_SYN_RECEIVED;
	tcp_take_syn(&conn, s);
	if (conn.features & TCP_FEATURE_TIMESTAMP) {
		bits = (conn.features & TCP_FEATURE_SCALE ? conn.snd_scale : STAMP_SCALE) |
		       (conn.features & TCP_FEATURE_SACK ? STAMP_SACK : 0) |
		       (conn.features & TCP_FEATURE_ECN ? STAMP_ECN : 0);
		conn.ts_offset += stamp(now_ms, bits) - (uint32_t)now_ms;
	} else {
		conn.features = 0;
		conn.rcv_scale = 0;
	}
	tcp_set_iss(&conn, cookie(net, s, s->seq, net->now_ns / PERIOD_NS,
				  size_index(conn.mss + (conn.features ? TCP_TIMESTAMPS_BYTES : 0))));
	net->cookie_ns = net->now_ns;
	net->counters.tcp_cookies_sent++;
	tcp_send_syn(&conn);
}

/* The segment size in the cookie; 0 if it is not one of ours. */
static uint16_t cookie_size(const struct net *net, const struct tcp_segment *s)
{
	const uint32_t value = s->ack - 1;
	const unsigned size = value >> TIME_BITS & ((1 << SIZE_BITS) - 1);
	const uint64_t period = net->now_ns / PERIOD_NS;

	for (unsigned age = 0; age <= 1 && age <= period; age++)
		if (cookie(net, s, s->seq - 1, period - age, size) == value)
			return sizes[size];
	return 0;
}

/* Restores the options of the peer's SYN from the cookie and its timestamp; false if that timestamp is not ours. */
static bool restore_syn(const struct net *net, const struct tcp_segment *s, uint32_t ts_offset, uint16_t mss,
			struct tcp_segment *syn)
{
	const uint32_t stamped = s->ts_echo - ts_offset;

	*syn = (struct tcp_segment){ .packet = s->packet, .tcp = s->tcp, .seq = s->seq - 1, .scale = -1, .mss = mss };
	if (!s->has_timestamp)
		return true;
	if ((uint32_t)(net->now_ns / NET_MS) - stamped > STAMP_AGE_MS)
		return false;
	syn->has_timestamp = true;
	syn->ts_value = s->ts_value;
	syn->scale = (int8_t)(stamped & STAMP_SCALE);
	if (syn->scale > TCP_SCALE_MAX)
		syn->scale = -1;
	syn->sack_permitted = stamped & STAMP_SACK;
	if (stamped & STAMP_ECN)
		syn->flags = RTE_TCP_ECE_FLAG | RTE_TCP_CWR_FLAG;
	return true;
}

struct tcp_conn *tcp_cookie_open(struct net *net, const struct tcp_listener *listener, const struct tcp_segment *s)
{
	struct tcp_segment syn;
	struct tcp_conn *conn;
	struct net_path path;
	uint16_t mss;
	uint8_t ecn;

	if (net->cookie_ns == 0 || net->now_ns - net->cookie_ns > 2 * PERIOD_NS)
		return NULL; /* no cookies were sent recently, so this cannot be one */
	mss = cookie_size(net, s);
	if (mss == 0) {
		net->counters.tcp_cookies_failed++;
		return NULL;
	}
	if (!net_path_find(net, &s->packet->from, &s->packet->to, &path))
		return NULL;
	conn = tcp_conn_make(net, listener, &path, s->tcp->dst_port, s->tcp->src_port);
	if (!conn) {
		net->counters.tcp_listen_overflow++;
		return NULL;
	}
	net->half_open++;
	conn->flags |= TCP_PASSIVE;
	conn->state = TCP_SYN_RECEIVED;
	if (!restore_syn(net, s, conn->ts_offset, mss, &syn)) {
		net->counters.tcp_cookies_failed++;
		tcp_conn_end(conn, 0);
		return NULL;
	}
	if (!syn.has_timestamp)
		conn->features = 0;
	ecn = syn.flags ? conn->features & TCP_FEATURE_ECN : 0; /* the segment's mark says nothing about the SYN's */
	tcp_take_syn(conn, &syn);
	conn->features |= ecn;
	tcp_set_iss(conn, s->ack - 1);
	tcp_sender_init(conn);
	conn->snd_nxt = conn->iss + 1;
	conn->snd_wl1 = s->seq;
	conn->snd_wl2 = conn->iss;
	conn->tries = 1; /* our answer's send time is unknown, so its round trip is not measured */
	tcp_window_field(conn, RTE_TCP_SYN_FLAG);
	net->counters.tcp_cookies_received++;
	return conn;
}
