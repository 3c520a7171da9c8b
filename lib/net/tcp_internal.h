/* SPDX-License-Identifier: BSD-3-Clause */
/* A TCP connection, and what the files of TCP share. */
#ifndef NET_TCP_INTERNAL_H
#define NET_TCP_INTERNAL_H

#include "net/internal.h"

enum tcp_state {
	TCP_CLOSED,
	TCP_SYN_SENT,
	TCP_SYN_RECEIVED,
	TCP_ESTABLISHED,
	TCP_FIN_WAIT_1,
	TCP_FIN_WAIT_2,
	TCP_CLOSE_WAIT,
	TCP_CLOSING,
	TCP_LAST_ACK,
	TCP_TIME_WAIT,
};

enum tcp_conn_flags {
	TCP_LISTED = 1 << 0,	  /* on the stack's list for this turn's end */
	TCP_ACK_NOW = 1 << 1,	  /* an ACK must go out this turn */
	TCP_OUTPUT = 1 << 2,	  /* there may be something to send */
	TCP_FIN_QUEUED = 1 << 3,  /* after the queued data comes a FIN */
	TCP_READ_CLOSED = 1 << 4, /* the user reads no more */
	TCP_TOLD = 1 << 5,	  /* the user knows the connection, and must hear of its end */
	TCP_RECOVERY = 1 << 6,	  /* fast recovery (RFC 6582) */
	TCP_PASSIVE = 1 << 7,
};

/* Sequence number arithmetic, modulo 2^32. */
static inline bool seq_lt(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static inline bool seq_le(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) <= 0;
}

enum { TCP_SACK_BLOCKS_MAX = 4 };

/* A received segment. tcp points into the mbuf's memory before its payload, and stays readable. */
struct tcp_segment {
	const struct net_packet *packet;
	const struct rte_tcp_hdr *tcp;
	struct rte_mbuf *payload; /* data only */
	uint32_t seq, ack, window;
	uint32_t bytes; /* of payload */
	uint32_t space; /* of sequence: payload, SYN and FIN */
	uint8_t flags;
	/* options */
	int8_t scale; /* -1: no such option */
	uint16_t mss;
	bool sack_permitted, has_timestamp;
	uint32_t ts_value, ts_echo;
	uint8_t sack_count;
	struct tcp_sack_block {
		uint32_t begin, end; /* end is not in it */
	} sacks[TCP_SACK_BLOCKS_MAX];
};

struct tcp_conn {
	/* who */
	struct net *net;
	struct tcp_conn *hash_next;
	struct net_path path;
	rte_be16_t local_port, remote_port;
	const struct tcp_handler *handler;
	void *ctx, *user;
	uint8_t state;
	uint8_t flags;
	uint8_t snd_scale, rcv_scale;
	uint16_t mss;
	uint8_t dupacks;
	uint8_t tries; /* of a SYN, or of the same segment */
	struct tcp_conn *list_next;
	/* send: una <= nxt <= max; end is that of the queued data, a FIN apart */
	uint32_t snd_una, snd_nxt, snd_max, snd_end, iss;
	uint32_t snd_wnd, snd_wl1, snd_wl2, snd_wnd_max;
	struct rte_mbuf *send_head, *send_next, *send_tail; /* first unacknowledged, first to send, last */
	/* receive */
	uint32_t rcv_nxt, rcv_adv; /* next expected; right edge of the window as advertised */
	uint32_t unread;
	uint32_t owed; /* segments not acknowledged yet */
	struct rte_mbuf *reorder;
	uint32_t reorder_count;
	uint64_t reorder_ns; /* when the first of them came, or one was taken */
	/* congestion control */
	uint32_t cwnd, ssthresh, recover;
	/* retransmission (RFC 6298), microseconds */
	uint32_t srtt_us, rttvar_us, rto_us;
	uint64_t deadline_ns; /* of the retransmission timer; 0: off. The wheel's timer may fire earlier. */
	uint64_t answered_ns; /* when a segment outside the window was last answered */
	uint64_t moved_ns;    /* when snd_una last moved, or the queue was last empty */
	uint64_t progress_ns; /* when the peer last took data, or said that it is alive with a closed window */
	struct wheel_timer timer, ack_timer;
	/* TIME_WAIT's list, by age */
	struct tcp_conn *older, *newer;
};

/* tcp_table.c */
int tcp_table_init(struct net *net);
void tcp_table_fini(struct net *net);
struct tcp_conn *tcp_find(struct net *net, const struct net_address *local, rte_be16_t local_port,
			  const struct net_address *remote, rte_be16_t remote_port);
/* A connection in the table, with what both opens share; NULL when there is none left. */
struct tcp_conn *tcp_conn_make(struct net *net, const struct tcp_listener *listener, const struct net_path *path,
			       rte_be16_t local_port, rte_be16_t remote_port);
/* Takes it from the table, frees what it holds, tells the user; its memory is reused from the turn's end on. */
void tcp_conn_end(struct tcp_conn *conn, int reason);
void tcp_enter_time_wait(struct tcp_conn *conn);
/* Puts it on the list for the end of the turn. */
void tcp_list(struct tcp_conn *conn, uint8_t why);
void tcp_flush(struct net *net);

/* tcp_output.c */
void tcp_send_segment(struct tcp_conn *conn, uint8_t flags, uint32_t seq, struct rte_mbuf *payload);
void tcp_send_ack(struct tcp_conn *conn);
void tcp_send_syn(struct tcp_conn *conn);
void tcp_retransmit_head(struct tcp_conn *conn);
void tcp_probe_window(struct tcp_conn *conn);
void tcp_output(struct tcp_conn *conn);
/* Answers a segment that belongs to no connection. */
void tcp_refuse(struct net *net, const struct net_packet *packet, const struct rte_tcp_hdr *tcp, uint32_t seg_len);
void tcp_reset_peer(struct tcp_conn *conn);

/* tcp_recovery.c: acknowledgements, round-trip time, congestion control, the retransmission timer */
void tcp_recovery_init(struct tcp_conn *conn);
/* A round trip that began at sent_ns ends now. */
void tcp_measure_rtt(struct tcp_conn *conn, uint64_t sent_ns);
void tcp_acked(struct tcp_conn *conn, uint32_t ack);
void tcp_duplicate_ack(struct tcp_conn *conn);
/* The peer's window was closed, and is not any more. */
void tcp_window_opened(struct tcp_conn *conn);
void tcp_timer_arm(struct tcp_conn *conn, uint64_t delay_us);
void tcp_timer_fire(struct wheel_timer *timer, uint64_t now_ns);
void tcp_ack_timer_fire(struct wheel_timer *timer, uint64_t now_ns);
/* Bytes that congestion control lets be in flight. */
uint32_t tcp_send_limit(const struct tcp_conn *conn);

/* tcp_reorder.c: segments that came before their turn. payload's net_priv has seq and fin. */
void tcp_reorder_put(struct tcp_conn *conn, struct rte_mbuf *payload);
/* The next segment that is due, trimmed to start at rcv_nxt; NULL when there is a gap. */
struct rte_mbuf *tcp_reorder_take(struct tcp_conn *conn);
void tcp_reorder_clear(struct tcp_conn *conn);

#endif
