/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of TCP's sending side share: the queue of segments that were sent or will be, what an ACK says about
 * them, loss detection and recovery. The queue has one mbuf for each segment, in order of sequence numbers; net_priv
 * has its state:
 *
 *   waiting (from send_next on) -> in flight -> gone, when it is acknowledged
 *                                   |  ^
 *                                   v  |
 *                                   lost            or -> sacked, from either
 *
 * Segments in flight are in conn->in_flight, in the order of their last transmission. Lost ones that have not
 * been sent again are in conn->lost, ordered by sequence number as far as that is cheap. No ACK makes the code walk
 * over the whole window: each step handles a segment that has just changed its state, or skips a run that was SACKed
 * before. On the stack's thread.
 */
#ifndef NET_TCP_SENDER_H
#define NET_TCP_SENDER_H

#include "net/tcp_congestion.h"
#include "net/tcp_internal.h"

enum tcp_segment_state {
	TCP_SEG_IN_FLIGHT = 1 << 0,
	TCP_SEG_LOST = 1 << 1, /* stays set while it is in flight again */
	TCP_SEG_SACKED = 1 << 2,
	TCP_SEG_SKIP = 1 << 3, /* in conn->skips */
};

enum { TCP_DUPACKS = 3 };

/* What an ACK says. */
struct tcp_ack {
	const struct tcp_segment *segment; /* NULL: a timer, not an ACK */
	uint32_t acked;			   /* bytes acknowledged cumulatively */
	uint32_t delivered;		   /* bytes acknowledged or SACKed for the first time */
	uint64_t sent_ns,
		sack_sent_ns; /* when the first segment that was newly acknowledged, or SACKed, was sent; 0: unknown */
	uint32_t rtt_us;      /* 0: unknown */
	uint32_t dsack_bytes;
	bool advanced;	    /* snd_una has moved */
	bool sacked;	    /* something for the first time */
	bool retransmitted; /* some of what was acknowledged cumulatively had been sent twice */
	bool original;	    /* some of what was delivered was sent only once, before recovery began */
	bool dsack;	    /* it reports a duplicate */
	bool duplicate;	    /* without SACK: a duplicate ACK as in RFC 5681 */
	bool lost;	    /* losses were found */
	bool marked;	    /* ECN's echo */
	bool rack;	    /* RACK has to look for losses */
};

static inline uint32_t tcp_end(const struct net_priv *p)
{
	return p->seq + p->payload_len;
}

/* Bytes of payload that congestion control assumes to be in the network. */
static inline uint32_t tcp_pipe(const struct tcp_conn *conn)
{
	return conn->pipe - RTE_MIN(conn->pipe, conn->reno_sacked);
}

/* tcp_scoreboard.c: the queue */
void tcp_queue_append(struct tcp_conn *conn, struct rte_mbuf *m);
/* Splits a segment after `bytes` bytes. false: there is no mbuf for the rest. */
bool tcp_queue_split(struct tcp_conn *conn, struct rte_mbuf *m, uint32_t bytes);
/* Removes acknowledged bytes from the queue. */
void tcp_queue_release(struct tcp_conn *conn, uint32_t ack, struct tcp_ack *a);
/* A segment is being sent. */
void tcp_queue_sent(struct tcp_conn *conn, struct rte_mbuf *m);
/* Processes an ACK's SACK blocks (RFC 2018, 2883). una: snd_una before that ACK. */
void tcp_scoreboard_sack(struct tcp_conn *conn, const struct tcp_segment *s, uint32_t una, struct tcp_ack *a);
void tcp_scoreboard_lose(struct tcp_conn *conn, struct rte_mbuf *m);
/* After a timeout: marks segments in flight as lost, except those sent very recently; with reneged, also what the
 * peer once SACKed. */
void tcp_scoreboard_timeout(struct tcp_conn *conn, bool reneged);
/* Marks all segments in flight of more than `bytes` bytes as lost. Returns whether there were any. */
bool tcp_scoreboard_lose_larger(struct tcp_conn *conn, uint32_t bytes);
/* Segments that were marked as lost are in flight again. */
void tcp_scoreboard_undo(struct tcp_conn *conn);

/* tcp_rack.c: loss by time, and tail-loss probes (RFC 8985) */
/* A segment was acknowledged or SACKed for the first time. */
void tcp_rack_delivered(struct tcp_conn *conn, const struct net_priv *p, struct tcp_ack *a);
void tcp_rack_adapt(struct tcp_conn *conn, const struct tcp_ack *a);
/* Marks segments as lost, and starts the reordering timer for those that may be. Returns whether any was lost. */
bool tcp_rack_detect(struct tcp_conn *conn);
/* Whether a segment was sent so recently that a timeout says nothing about it. */
bool tcp_rack_recent(const struct tcp_conn *conn, const struct net_priv *p);
/* Fast recovery has ended. */
void tcp_rack_recovered(struct tcp_conn *conn);
/* The time until a tail-loss probe; 0: none is due. */
uint64_t tcp_tlp_delay_us(const struct tcp_conn *conn);
void tcp_tlp_send(struct tcp_conn *conn);
void tcp_tlp_ack(struct tcp_conn *conn, const struct tcp_ack *a);

/* tcp_rtt.c: RFC 6298, RFC 7323 */
void tcp_rtt_init(struct tcp_conn *conn);
void tcp_rtt_ack(struct tcp_conn *conn, struct tcp_ack *a);
/* Ends a backoff. */
void tcp_rto_reset(struct tcp_conn *conn);

/* tcp_output.c */
/* Sends a segment of the queue now, for the first time or again. false: there was no mbuf. */
bool tcp_transmit(struct tcp_conn *conn, struct rte_mbuf *m);
/* Sends the FIN, by itself. */
bool tcp_transmit_fin(struct tcp_conn *conn);
/* Sends the first segment that is not acknowledged, regardless of windows. */
void tcp_transmit_head(struct tcp_conn *conn);
/* A copy of a payload in an mbuf of its own. */
struct rte_mbuf *tcp_copy_payload(struct net *net, struct rte_mbuf *m);
/* Probes the peer's closed window, or fills a small one. */
void tcp_probe(struct tcp_conn *conn);

/* tcp_recovery.c */
/* Starts the timer that is needed for what is in flight, or for what waits for the window. restart: the timeout counts
 * from now. */
void tcp_sender_arm(struct tcp_conn *conn, bool restart);
/* Begins a recovery if there is none, so that what was lost may be sent again. */
void tcp_enter_recovery(struct tcp_conn *conn);

/* Segments were dropped on the way because of their size: sends them again, without reducing the window. */
void tcp_recover_smaller(struct tcp_conn *conn);

/* tcp_mtu.c */
/* A timeout. If a large segment has had several, the path may be dropping large packets silently (RFC 4821). */
void tcp_mtu_timeout(struct tcp_conn *conn);
/* The segment size was lowered: checks whether the path carries more again. */
void tcp_mtu_return(struct tcp_conn *conn);

#endif
