/* SPDX-License-Identifier: BSD-3-Clause */
/* Explicit congestion notification, the receiver's side: RFC 3168, 6.1, or, for DCTCP, RFC 8257, 3.2. */
#include "net/tcp_internal.h"

enum { ECN_MASK = 3, ECN_CE = 3 };

#define ECN_BOTH (RTE_TCP_ECE_FLAG | RTE_TCP_CWR_FLAG)

uint8_t tcp_ecn_flags(const struct tcp_conn *conn, uint8_t flags)
{
	if (!(conn->features & TCP_FEATURE_ECN) || flags & RTE_TCP_RST_FLAG)
		return 0;
	if (flags & RTE_TCP_SYN_FLAG)
		return flags & RTE_TCP_ACK_FLAG ? RTE_TCP_ECE_FLAG : ECN_BOTH;
	return conn->flags & TCP_ECN_ECHO ? RTE_TCP_ECE_FLAG : 0;
}

bool tcp_ecn_agreed(const struct tcp_conn *conn, const struct tcp_segment *s)
{
	if (s->flags & RTE_TCP_ACK_FLAG)
		return (s->flags & ECN_BOTH) == RTE_TCP_ECE_FLAG;
	return (s->flags & ECN_BOTH) == ECN_BOTH && !(s->packet->tos & ECN_MASK);
}

void tcp_ecn_received(struct tcp_conn *conn, const struct tcp_segment *s)
{
	const bool marked = (s->packet->tos & ECN_MASK) == ECN_CE;
	const bool echo = conn->flags & TCP_ECN_ECHO;

	conn->net->counters.tcp_ce_segs += marked;
	if (conn->flags & TCP_ECN_EXACT) {
		if (marked == echo)
			return;
		if (conn->owed)
			tcp_send_ack(conn); /* acknowledge earlier data, with its own mark */
		conn->flags ^= TCP_ECN_ECHO;
		tcp_list(conn, TCP_ACK_NOW);
		return;
	}
	if (s->flags & RTE_TCP_CWR_FLAG) {
		conn->flags &= ~(uint32_t)TCP_ECN_ECHO;
		tcp_list(conn, TCP_ACK_NOW); /* the peer's window may be a single segment now */
	}
	if (marked) {
		conn->flags |= TCP_ECN_ECHO;
		tcp_list(conn, TCP_ACK_NOW);
	}
}
