/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known about a connection, as in Linux's TCP_INFO and `ss -ti`; and a list of all connections of a stack, in
 * steps of bounded time. Call it on the stack's thread; the results may go to other threads.
 */
#ifndef NET_TCP_INFO_H
#define NET_TCP_INFO_H

#include "net/tcp.h"

/* The kernel's numbers (enum in <netinet/tcp.h>). */
enum tcp_info_state {
	TCP_INFO_ESTABLISHED = 1,
	TCP_INFO_SYN_SENT,
	TCP_INFO_SYN_RECEIVED,
	TCP_INFO_FIN_WAIT_1,
	TCP_INFO_FIN_WAIT_2,
	TCP_INFO_TIME_WAIT,
	TCP_INFO_CLOSED,
	TCP_INFO_CLOSE_WAIT,
	TCP_INFO_LAST_ACK,
	TCP_INFO_LISTEN,
	TCP_INFO_CLOSING,
	TCP_INFO_STATES,
};

/* As ss writes it: "ESTAB", "FIN-WAIT-1". */
const char *tcp_state_name(enum tcp_info_state state);

/* The time that is left of each timer; 0: it does not run. */
struct tcp_info_timers {
	uint32_t retransmit_us, reorder_us, delayed_ack_us;
	uint32_t state_ms; /* keepalive, FIN_WAIT_2, TIME_WAIT */
};

struct tcp_info {
	struct tcp_address address;
	enum tcp_info_state state;
	uint8_t ca_state; /* 0 open, 1 disorder, 2 reducing by ECN, 3 recovery, 4 loss: the kernel's order */
	bool passive, sack, timestamps, scale, ecn, nagle;
	bool tail_loss_probe; /* timers.retransmit_us is for a tail-loss probe */
	uint8_t snd_scale, rcv_scale;
	const char *congestion; /* its name */
	/* sizes of segments, bytes */
	uint16_t mss, mss_max, rcv_mss, advmss, pmtu;
	/* sending: bytes, or segments where the name says so */
	uint32_t cwnd, ssthresh; /* UINT32_MAX: none yet */
	uint32_t unacked, queued, unsent;
	uint32_t unacked_segs, sacked_segs, lost_segs, retrans_segs, total_retrans;
	uint32_t snd_wnd, snd_wnd_max;
	uint64_t bytes_acked;
	/* receiving: bytes */
	uint32_t rcv_wnd, rcv_buf, unread, out_of_order_segs;
	uint64_t bytes_received;
	uint32_t segs_in, segs_out;
	/* times */
	uint32_t rto_us, ato_us, rtt_us, rttvar_us, min_rtt_us; /* min_rtt_us 0: none was measured */
	uint32_t last_heard_ms, last_sent_ms;			/* ago; of data that was sent. UINT32_MAX: never */
	uint8_t retransmits, probes;				/* of the same segment; of keepalive */
	uint32_t keep_idle_s, keep_interval_s, keep_probes;
	uint32_t user_timeout_ms;
	struct tcp_info_timers timers;
};

void tcp_info(const struct tcp_conn *conn, struct tcp_info *info);

struct tcp_filter {
	uint32_t states;	   /* 1 << enum tcp_info_state, or'ed; 0: all */
	struct net_address remote; /* none: all */
	uint16_t remote_port;	   /* 0: all */
};

enum {
	TCP_LIST_LOOKS = 512, /* connections that one step looks at */
	TCP_LIST_MAX = 32,    /* and that it may report: that takes some tens of microseconds */
};

/* One step, from *cursor on (0 at first): writes at most max connections (up to TCP_LIST_MAX) that match the filter,
 * returns their number, and moves *cursor (UINT32_MAX: that was the last step). Connections that come and go between
 * steps may be missed. */
unsigned tcp_list_connections(const struct net *net, const struct tcp_filter *filter, uint32_t *cursor,
			      struct tcp_info *infos, unsigned max);

#endif
