/* SPDX-License-Identifier: BSD-3-Clause */
/* The effect of ICMP errors on connections (RFC 1122, 4.2.3.9; RFC 5461; RFC 5927). */
#include <errno.h>

#include "net/tcp_internal.h"

static int errno_of(enum net_icmp_error kind)
{
	switch (kind) {
	case NET_ICMP_NET_UNREACHABLE:
		return ENETUNREACH;
	case NET_ICMP_PROTOCOL_UNREACHABLE:
		return ENOPROTOOPT;
	case NET_ICMP_PORT_UNREACHABLE:
		return ECONNREFUSED;
	case NET_ICMP_PROHIBITED:
		return EACCES;
	case NET_ICMP_PARAMETER_PROBLEM:
		return EPROTO;
	default:
		return EHOSTUNREACH;
	}
}

/* Hard errors, which do not pass by themselves (RFC 9293, 3.9.2.2), and those of filters. An unreachable network or
 * host, or a loop, may pass: an open goes on (MUST-56), and reports the error only if it ends without an answer. */
static bool is_hard(enum net_icmp_error kind)
{
	return kind == NET_ICMP_PROTOCOL_UNREACHABLE || kind == NET_ICMP_PORT_UNREACHABLE ||
	       kind == NET_ICMP_PROHIBITED;
}

bool tcp_icmp_error(struct net *net, const struct net_address *local, rte_be16_t local_port,
		    const struct net_address *remote, rte_be16_t remote_port, uint32_t seq, enum net_icmp_error kind,
		    uint16_t mtu)
{
	struct tcp_conn *conn = tcp_find(net, local, local_port, remote, remote_port);

	if (!conn || conn->state == TCP_CLOSED || conn->state == TCP_TIME_WAIT || seq_lt(seq, conn->snd_una) ||
	    !seq_lt(seq, conn->snd_nxt)) {
		net->counters.tcp_icmp_stale++;
		return false;
	}
	if (kind == NET_ICMP_TOO_BIG) {
		tcp_path_mtu(conn, mtu);
		return true;
	}
	/* An established connection ignores such claims, which anyone on the path can make; if it ends, the error is
	 * its reason. */
	conn->soft_error = (uint8_t)errno_of(kind);
	if (conn->state == TCP_SYN_SENT && is_hard(kind)) {
		net->counters.tcp_attempt_fails++;
		tcp_conn_end(conn, conn->soft_error);
	}
	return true;
}
