/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists the connections, with the kernel's data about them. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "ksock/internal.h"

enum { LIST_LOOKS = 512 /* entries examined in one step */ };

static void ask_kernel(const struct ksock_conn *conn, struct ksock_connection *c)
{
	struct tcp_info info = { 0 };
	socklen_t bytes = sizeof(info), name_bytes = sizeof(c->congestion) - 1;

	getsockopt(conn->fd, IPPROTO_TCP, TCP_CONGESTION, c->congestion, &name_bytes);
	if (getsockopt(conn->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) < 0)
		return;
	c->state = info.tcpi_state;
	c->recovery = info.tcpi_ca_state;
	c->timestamps = (info.tcpi_options & TCPI_OPT_TIMESTAMPS) != 0;
	c->sack = (info.tcpi_options & TCPI_OPT_SACK) != 0;
	c->scale = (info.tcpi_options & TCPI_OPT_WSCALE) != 0;
	c->ecn = (info.tcpi_options & TCPI_OPT_ECN) != 0;
	c->send_scale = info.tcpi_snd_wscale;
	c->receive_scale = info.tcpi_rcv_wscale;
	c->send_mss = info.tcpi_snd_mss;
	c->receive_mss = info.tcpi_rcv_mss;
	c->advertised_mss = info.tcpi_advmss;
	c->path_mtu = info.tcpi_pmtu;
	c->cwnd = info.tcpi_snd_cwnd;
	c->ssthresh = info.tcpi_snd_ssthresh;
	c->unacked = info.tcpi_unacked;
	c->sacked = info.tcpi_sacked;
	c->lost = info.tcpi_lost;
	c->retransmitted = info.tcpi_retrans;
	c->retransmitted_total = info.tcpi_total_retrans;
	c->retransmits = info.tcpi_retransmits;
	c->probes = info.tcpi_probes;
	c->rto_us = info.tcpi_rto;
	c->rtt_us = info.tcpi_rtt;
	c->rttvar_us = info.tcpi_rttvar;
	c->receive_space = info.tcpi_rcv_space;
	c->last_sent_ms = info.tcpi_last_data_sent;
	c->last_heard_ms = info.tcpi_last_data_recv;
}

static struct ksock_connection describe_connection(const struct ksock_conn *conn)
{
	struct ksock_connection c = {
		.address = ksock_transport.address((const struct tcp_conn *)conn),
		.queued = conn->queued,
		.unread = conn->unread,
		.silent_ms = (uint32_t)((conn->ks->now_ns - conn->received_ns) / 1000000),
		.bytes_in = conn->bytes_in,
		.bytes_out = conn->bytes_out,
	};

	ask_kernel(conn, &c);
	return c;
}

unsigned ksock_list(const struct ksock *ks, uint32_t *cursor, struct ksock_connection *list, unsigned max)
{
	const uint32_t end = (uint32_t)RTE_MIN((uint64_t)*cursor + LIST_LOOKS, (uint64_t)ks->connections_max);
	unsigned n = 0;
	uint32_t i = *cursor;

	for (; i < end && n < max; i++)
		if (ks->conns[i].state != KSOCK_FREE)
			list[n++] = describe_connection(&ks->conns[i]);
	*cursor = i < ks->connections_max ? i : UINT32_MAX;
	return n;
}
