/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion control: the interface between TCP and an algorithm that sets a connection's congestion window. An
 * algorithm decides how the window grows on an acknowledgement, and how far it falls on a loss, a timeout or an ECN
 * mark. What all algorithms share is in tcp_congestion.c: the initial window, whether a window is fully used,
 * proportional rate reduction (RFC 6937), undo, and the restart after idle time. Windows are in bytes. All on the
 * stack's thread.
 */
#ifndef NET_TCP_CONGESTION_H
#define NET_TCP_CONGESTION_H

#include <stdbool.h>
#include <stdint.h>

struct tcp_conn;
struct tcp_ack;

enum tcp_reduction { TCP_BY_LOSS, TCP_BY_ECN, TCP_BY_TIMEOUT };

struct tcp_congestion {
	const char *name;
	/* A connection begins, or changes its algorithm. cwnd and ssthresh are set, the algorithm's state is zero. */
	void (*init)(struct tcp_conn *conn);
	/* Every ACK of an established connection, before it has any other effect. May be NULL. */
	void (*heard)(struct tcp_conn *conn, const struct tcp_ack *ack);
	/* Data was acknowledged, the window is fully used and not being reduced: cwnd may grow. */
	void (*acked)(struct tcp_conn *conn, const struct tcp_ack *ack);
	/* A reduction begins: returns the new ssthresh. */
	uint32_t (*reduced)(struct tcp_conn *conn, enum tcp_reduction why);
	/* The last reduction was a mistake; cwnd and ssthresh have been restored. May be NULL. */
	void (*undone)(struct tcp_conn *conn);
	/* Sending restarts after nothing was in flight for so long. May be NULL. */
	void (*idle)(struct tcp_conn *conn, uint64_t ns);
};

extern const struct tcp_congestion tcp_newreno, tcp_cubic, tcp_dctcp;

/* An algorithm's own state: part of struct tcp_conn. */
union tcp_congestion_state {
	struct tcp_newreno_state {
		uint32_t acked; /* bytes that have not counted yet in congestion avoidance */
	} newreno;
	struct tcp_hystart_state { /* HyStart++ (RFC 9406), used by CUBIC as long as ssthresh is infinite */
		uint32_t round_end, last_min_us, min_us, css_base_us;
		uint8_t samples, css_rounds; /* css_rounds: 0 in standard slow start, else 1 and on */
	} hystart;
	struct tcp_cubic_state { /* RFC 9438; windows in bytes */
		double w_max, w_est;
		float k_s, fraction; /* fraction: of cwnd, below one byte */
		uint64_t epoch_ns;   /* start of the epoch; 0: the next ACK in congestion avoidance starts one */
		uint32_t cwnd_prior;
		float w_max_before; /* of the last reduction: for undo */
	} cubic;
	struct tcp_dctcp_state {
		struct tcp_newreno_state newreno;
		uint32_t window_end;
		uint64_t delivered, marked; /* bytes, in this window */
		uint32_t alpha;		    /* the marked share, in units of 1/TCP_DCTCP_ONE */
	} dctcp;
};
enum { TCP_DCTCP_ONE = 1 << 20 };

/* Slow start with appropriate byte counting (RFC 3465): cwnd grows by what was delivered, up to ssthresh. Returns the
 * rest. */
uint32_t tcp_slow_start(struct tcp_conn *conn, uint32_t delivered);
/* Congestion avoidance of RFC 5681, 3.1: one segment for each window. */
void tcp_newreno_avoid(struct tcp_conn *conn, struct tcp_newreno_state *state, uint32_t delivered);

/* The part that is common to all. */
void tcp_congestion_init(struct tcp_conn *conn);
void tcp_congestion_use(struct tcp_conn *conn, const struct tcp_congestion *algorithm);
/* Something is about to be sent, and nothing is in flight. */
void tcp_congestion_restart(struct tcp_conn *conn);
/* All that the windows allow has been sent: what is delivered from now on counts for a reduction that may begin. */
void tcp_congestion_tried(struct tcp_conn *conn);
/* Sending of this turn has ended. limited: cwnd was the limit. */
void tcp_congestion_sent(struct tcp_conn *conn, bool limited);
/* Begins a reduction, which ends when what is in flight now is acknowledged. */
void tcp_congestion_reduce(struct tcp_conn *conn, enum tcp_reduction why);
/* The reduction is over: cwnd is ssthresh. */
void tcp_congestion_reduced(struct tcp_conn *conn);
/* The reduction was a mistake: restores what was before it. */
void tcp_congestion_undo(struct tcp_conn *conn);
/* An ACK: cwnd grows, or its reduction continues. */
void tcp_congestion_ack(struct tcp_conn *conn, const struct tcp_ack *ack);
/* One step of a reduction: this many bytes have left the network. */
void tcp_congestion_step(struct tcp_conn *conn, uint32_t delivered, bool lost, bool advanced);

#endif
