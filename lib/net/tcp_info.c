/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/tcp_info.h"
#include "net/tcp_sender.h"

const char *tcp_state_name(enum tcp_info_state state)
{
	static const char *const names[TCP_INFO_STATES] = {
		[TCP_INFO_ESTABLISHED] = "ESTAB",     [TCP_INFO_SYN_SENT] = "SYN-SENT",
		[TCP_INFO_SYN_RECEIVED] = "SYN-RECV", [TCP_INFO_FIN_WAIT_1] = "FIN-WAIT-1",
		[TCP_INFO_FIN_WAIT_2] = "FIN-WAIT-2", [TCP_INFO_TIME_WAIT] = "TIME-WAIT",
		[TCP_INFO_CLOSED] = "UNCONN",	      [TCP_INFO_CLOSE_WAIT] = "CLOSE-WAIT",
		[TCP_INFO_LAST_ACK] = "LAST-ACK",     [TCP_INFO_LISTEN] = "LISTEN",
		[TCP_INFO_CLOSING] = "CLOSING",
	};

	return state < TCP_INFO_STATES && names[state] ? names[state] : "UNKNOWN";
}

static enum tcp_info_state info_state(const struct tcp_conn *conn)
{
	static const uint8_t states[] = {
		[TCP_CLOSED] = TCP_INFO_CLOSED,
		[TCP_SYN_SENT] = TCP_INFO_SYN_SENT,
		[TCP_SYN_RECEIVED] = TCP_INFO_SYN_RECEIVED,
		[TCP_ESTABLISHED] = TCP_INFO_ESTABLISHED,
		[TCP_FIN_WAIT_1] = TCP_INFO_FIN_WAIT_1,
		[TCP_FIN_WAIT_2] = TCP_INFO_FIN_WAIT_2,
		[TCP_CLOSE_WAIT] = TCP_INFO_CLOSE_WAIT,
		[TCP_CLOSING] = TCP_INFO_CLOSING,
		[TCP_LAST_ACK] = TCP_INFO_LAST_ACK,
		[TCP_TIME_WAIT] = TCP_INFO_TIME_WAIT,
	};

	return (enum tcp_info_state)states[conn->state];
}

static uint32_t us_until(const struct tcp_conn *conn, enum tcp_timer which)
{
	const uint64_t when_ns = conn->deadlines[which], now_ns = conn->net->now_ns;

	if (when_ns == 0)
		return 0;
	return when_ns <= now_ns ? 1 : (uint32_t)RTE_MIN((when_ns - now_ns) / NET_US + 1, (uint64_t)UINT32_MAX);
}

static uint32_t ms_since(const struct tcp_conn *conn, uint64_t when_ns)
{
	return (uint32_t)RTE_MIN((conn->net->now_ns - when_ns) / NET_MS, (uint64_t)UINT32_MAX - 1);
}

static void sending(const struct tcp_conn *conn, struct tcp_info *info)
{
	info->nagle = conn->sender & TCP_SENDER_NAGLE;
	info->tail_loss_probe = conn->sender & TCP_SENDER_TLP_TIMER;
	info->ca_state = conn->recovery;
	info->congestion = conn->congestion ? conn->congestion->name : "";
	info->cwnd = conn->cwnd;
	info->ssthresh = conn->ssthresh;
	info->unacked = conn->snd_nxt - conn->snd_una;
	info->unacked_segs = (info->unacked + conn->mss - 1) / RTE_MAX(conn->mss, (uint16_t)1);
	info->queued = tcp_queued(conn);
	info->unsent = conn->send_next ? conn->snd_end - conn->snd_nxt : 0;
	info->sacked_segs = conn->sacked_segs;
	info->lost_segs = conn->lost_segs;
	info->retrans_segs = conn->retrans_segs;
	info->total_retrans = conn->total_retrans;
	info->snd_wnd = conn->snd_wnd;
	info->snd_wnd_max = conn->snd_wnd_max;
	info->bytes_acked = conn->bytes_acked;
	info->rto_us = conn->rto_us;
	info->rtt_us = tcp_srtt_us(conn);
	info->rttvar_us = tcp_rttvar_us(conn);
	info->min_rtt_us = conn->min_rtt_us == UINT32_MAX ? 0 : conn->min_rtt_us;
	info->retransmits = conn->tries;
	info->last_sent_ms = conn->sent_ns ? ms_since(conn, conn->sent_ns) : UINT32_MAX;
}

static void receiving(const struct tcp_conn *conn, struct tcp_info *info)
{
	info->rcv_wnd = conn->rcv_adv - conn->rcv_nxt;
	info->rcv_buf = conn->rcv_buf;
	info->unread = conn->unread;
	info->out_of_order_segs = conn->reorder_count;
	info->bytes_received = conn->bytes_received;
	info->segs_in = conn->segs_in;
	info->segs_out = conn->segs_out;
	info->ato_us = conn->net->options.delayed_ack_us;
	info->last_heard_ms = net_ms(conn->net) - conn->heard_ms;
	info->probes = conn->keep_sent;
	info->keep_idle_s = conn->keep_idle_s;
	info->keep_interval_s = conn->keep_interval_s;
	info->keep_probes = conn->keep_probes;
	info->user_timeout_ms = conn->user_timeout_ms;
}

void tcp_info(const struct tcp_conn *conn, struct tcp_info *info)
{
	*info = (struct tcp_info){
		.address = tcp_address(conn),
		.state = info_state(conn),
		.passive = conn->flags & TCP_PASSIVE,
		.sack = conn->features & TCP_FEATURE_SACK,
		.timestamps = conn->features & TCP_FEATURE_TIMESTAMP,
		.scale = conn->features & TCP_FEATURE_SCALE,
		.ecn = conn->features & TCP_FEATURE_ECN,
		.snd_scale = conn->snd_scale,
		.rcv_scale = conn->rcv_scale,
		.mss = conn->mss,
		.mss_max = conn->mss_max,
		.rcv_mss = conn->rcv_mss,
		.advmss = (uint16_t)(conn->path.interface->options.mtu - net_path_header(&conn->path) -
				     sizeof(struct rte_tcp_hdr)),
		.pmtu = conn->path.mtu,
		.timers = { us_until(conn, TCP_TIMER_RETRANSMIT), us_until(conn, TCP_TIMER_REORDER),
			    us_until(conn, TCP_TIMER_ACK), us_until(conn, TCP_TIMER_STATE) / 1000 },
	};
	sending(conn, info);
	receiving(conn, info);
}

static bool passes(const struct tcp_conn *conn, const struct tcp_filter *filter)
{
	return conn->state != TCP_CLOSED && (filter->states == 0 || filter->states >> info_state(conn) & 1) &&
	       (net_address_is_none(&filter->remote) || net_address_equal(&filter->remote, &conn->path.remote)) &&
	       (filter->remote_port == 0 || filter->remote_port == rte_be_to_cpu_16(conn->remote_port));
}

unsigned tcp_list_connections(const struct net *net, const struct tcp_filter *filter, uint32_t *cursor,
			      struct tcp_info *infos, unsigned max)
{
	const uint32_t count = net->options.connections_max;
	const uint32_t from = RTE_MIN(*cursor, count), stop = from + RTE_MIN(count - from, (uint32_t)TCP_LIST_LOOKS);
	unsigned n = 0;

	for (*cursor = from; *cursor < stop && n < max && n < TCP_LIST_MAX; ++*cursor)
		if (passes(&net->conns[*cursor], filter))
			tcp_info(&net->conns[*cursor], &infos[n++]);
	if (*cursor == count)
		*cursor = UINT32_MAX;
	return n;
}
