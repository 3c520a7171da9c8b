/* SPDX-License-Identifier: BSD-3-Clause */
/* A TCP connection, and what the files of TCP share, beyond tcp.h. Everything belongs to the stack's thread. */
#ifndef NET_TCP_INTERNAL_H
#define NET_TCP_INTERNAL_H

#include "net/internal.h"
#include "net/tcp_congestion.h"

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
	TCP_FIN_QUEUED = 1 << 3,  /* a FIN follows the queued data */
	TCP_READ_CLOSED = 1 << 4, /* the user reads no more */
	TCP_TOLD = 1 << 5,	  /* the user knows the connection: `closed` must be called */
	TCP_PASSIVE = 1 << 7,
	TCP_DSACK_DUE = 1 << 8,	 /* the next ACK reports conn->dsack (RFC 2883) */
	TCP_SACKS_LEFT = 1 << 9, /* the last segment had no room for SACK blocks: an ACK of their own follows */
	TCP_ECN_ECHO =
		1 << 10, /* ACKs carry ECE: until CWR comes (RFC 3168), or as the last data was marked (RFC 8257) */
	TCP_ECN_EXACT = 1 << 11,   /* the congestion control wants RFC 8257's echo */
	TCP_OWN_TIMEOUT = 1 << 12, /* the user has set user_timeout_ms */
	TCP_ANSWERS = 1 << 13,	   /* the user will answer what has arrived: its data carries the ACK */
};

/* What both ends have agreed on. */
enum tcp_features {
	TCP_FEATURE_SACK = 1 << 0,
	TCP_FEATURE_TIMESTAMP = 1 << 1,
	TCP_FEATURE_ECN = 1 << 2,
	TCP_FEATURE_SCALE = 1 << 3,
};

/* The timers of a connection. Each has its own deadline, and all share one timer of the wheel. */
enum tcp_timer {
	TCP_TIMER_RETRANSMIT, /* RTO, tail-loss probe, probe of a closed window; a SYN's */
	TCP_TIMER_REORDER,    /* RACK's */
	TCP_TIMER_ACK,	      /* delayed acknowledgement */
	TCP_TIMER_STATE,      /* keepalive, FIN_WAIT_2, TIME_WAIT */
	TCP_TIMERS,
};

/* The sender's recovery state, with the numbers of the kernel's tcpi_ca_state. */
enum tcp_recovery {
	TCP_RECOVERY_NONE,
	TCP_RECOVERY_DISORDER, /* something was SACKed, or a duplicate ACK came */
	TCP_RECOVERY_REDUCING, /* the window falls because of an ECN mark */
	TCP_RECOVERY_FAST,     /* fast recovery */
	TCP_RECOVERY_TIMEOUT,
};

enum tcp_sender_flags {
	TCP_SENDER_LIMITED = 1 << 0,	 /* the window was full in this round trip */
	TCP_SENDER_CWR = 1 << 1,	 /* the next new segment says that the window was reduced */
	TCP_SENDER_UNDO = 1 << 2,	 /* the last reduction may prove to be a mistake */
	TCP_SENDER_FRTO = 1 << 3,	 /* the last timeout may (RFC 5682) */
	TCP_SENDER_FRTO_NEW = 1 << 4,	 /* new data goes before what was lost, to find out */
	TCP_SENDER_REORDERED = 1 << 5,	 /* reordering was seen on this path */
	TCP_SENDER_DSACK_ROUND = 1 << 6, /* rack_dsack_round stands */
	TCP_SENDER_TLP_TIMER = 1 << 7,	 /* TCP_TIMER_RETRANSMIT is for a tail-loss probe */
	TCP_SENDER_TLP = 1 << 8,	 /* a probe is out */
	TCP_SENDER_TLP_AGAIN = 1 << 9,	 /* and was a retransmission */
	TCP_SENDER_NAGLE = 1 << 10,	 /* the user wants it */
};

/* The stack's time in 32 bits: the numbers wrap, so use differences only. */
static inline uint32_t net_us(const struct net *net)
{
	return (uint32_t)(net->now_ns / NET_US);
}

static inline uint32_t net_ms(const struct net *net)
{
	return (uint32_t)(net->now_ns / NET_MS);
}

static inline uint32_t net_s(const struct net *net)
{
	return (uint32_t)(net->now_ns / (1000 * NET_MS));
}

/* Sequence number arithmetic, modulo 2^32. */
static inline bool seq_lt(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static inline bool seq_le(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) <= 0;
}

enum {
	TCP_SACK_BLOCKS_MAX = 4,
	TCP_TIMESTAMPS_BYTES = 12,
	TCP_SCALE_MAX = 14,	/* RFC 7323, 2.3 */
	TCP_ISS_STEP = 1 << 16, /* how far above the last number of a former connection a new one starts */
};

struct tcp_sack_block {
	uint32_t begin, end; /* end is exclusive */
};

/* A received segment. tcp points into the mbuf's memory before its payload, and stays readable. */
struct tcp_segment {
	const struct net_packet *packet;
	const struct rte_tcp_hdr *tcp;
	struct rte_mbuf *payload; /* data only */
	uint32_t seq, ack, window;
	uint32_t bytes; /* of payload */
	uint32_t space; /* in sequence numbers: payload, SYN and FIN */
	uint8_t flags;
	/* options */
	int8_t scale; /* -1: no such option */
	uint16_t mss;
	bool sack_permitted, has_timestamp;
	uint32_t ts_value, ts_echo;
	uint8_t sack_count;
	struct tcp_sack_block sacks[TCP_SACK_BLOCKS_MAX];
};

/* Segments, by net_priv's links. */
struct tcp_segment_list {
	struct rte_mbuf *first, *last;
};

struct tcp_conn {
	/* who */
	struct net *net;
	struct net_path path;
	const struct tcp_handler *handler;
	void *ctx, *user;
	struct tcp_conn *list_next;
	uint32_t hash_next; /* in the table; 0: the last one */
	rte_be16_t local_port, remote_port;
	uint32_t flags; /* enum tcp_conn_flags */
	uint8_t state;
	uint8_t features; /* enum tcp_features */
	uint8_t snd_scale, rcv_scale;
	uint16_t mss;	    /* payload bytes of a full segment, without the 12 of timestamps */
	uint8_t tries;	    /* of a SYN, or of the same segment */
	uint8_t soft_error; /* errno of an ICMP error, reported if nothing better comes */
	struct wheel_timer timer;
	uint64_t deadlines[TCP_TIMERS]; /* 0: it does not run. The wheel's timer may fire earlier. */
	/* send: una <= nxt <= end; end is that of the queued data, without a FIN */
	uint32_t snd_una, snd_nxt, snd_end, iss;
	uint32_t snd_wnd, snd_wl1, snd_wl2, snd_wnd_max;
	struct rte_mbuf *send_head, *send_next, *send_tail; /* first unacknowledged, first to send, last */
	/* receive */
	uint32_t rcv_nxt, rcv_adv; /* next expected; right edge of the window as advertised */
	uint32_t unread;	   /* bytes that the user has, and has not consumed yet */
	uint32_t rcv_buf;	   /* room for unread and out-of-order bytes: grows with what the reader consumes */
	uint32_t taken;		   /* consumed by the reader since taken_us: rcv_buf grows with it */
	uint32_t taken_us;
	uint32_t owed;		 /* bytes not acknowledged yet */
	uint32_t ack_sent;	 /* the last ACK that went out */
	uint16_t rcv_mss;	 /* the largest payload that has come */
	uint8_t quick;		 /* how many ACKs are still sent without delay */
	uint8_t sacks_count : 4; /* in sacks */
	uint8_t sacks_fresh : 4; /* of them, the first ones: not reported yet */
	uint16_t reorder_runs;
	uint8_t keep_probes, keep_sent;
	uint32_t heard_ms;				  /* when the last segment came */
	uint32_t data_ms;				  /* when data came last, or an acknowledgement of some */
	uint32_t answered_ms;				  /* when a challenge ACK was last sent; 0: never */
	struct rte_mbuf *reorder, *reorder_last;	  /* the first and the last run of out-of-order data */
	uint32_t reorder_count;				  /* mbufs */
	uint32_t reorder_ms;				  /* when the first of them came, or one was delivered */
	struct tcp_sack_block sacks[TCP_SACK_BLOCKS_MAX]; /* runs, the one changed last first */
	struct tcp_sack_block dsack;			  /* the duplicate to report */
	uint64_t bytes_received, bytes_acked;		  /* these and the next two for tcp_info */
	uint32_t segs_in, segs_out;
	/* timestamps (RFC 7323) */
	uint32_t ts_offset;  /* added to the clock of milliseconds */
	uint32_t ts_recent;  /* to be echoed */
	uint32_t ts_heard_s; /* when ts_recent was taken */
	/* the user's wishes */
	uint32_t keep_idle_s, keep_interval_s; /* 0: no keepalive */
	uint32_t user_timeout_ms;
	/* the sender (tcp_sender.h): the states of segments */
	struct tcp_segment_list in_flight, lost, skips;
	struct rte_mbuf *lost_at; /* where the last one was inserted into lost */
	uint32_t queued_segments; /* ever */
	uint32_t pipe;		  /* bytes of those in in_flight */
	uint32_t sacked_segs, lost_segs, retrans_segs, total_retrans;
	uint32_t reno_sacked; /* bytes that duplicate ACKs stand for, without SACK */
	uint32_t fack;	      /* the end of the last one delivered */
	uint32_t sender;      /* enum tcp_sender_flags */
	uint8_t recovery;     /* enum tcp_recovery */
	uint8_t dupacks;
	uint16_t mss_max;    /* the MSS of the handshake */
	uint32_t mtu_s;	     /* when mss became less than that */
	uint32_t recover;    /* where a recovery or reduction ends */
	uint32_t undo_from;  /* what was sent again before that belongs to another recovery */
	int32_t undo_left;   /* retransmissions not yet known to have been unnecessary; -1: there was none */
	uint32_t retrans_ts; /* timestamp of the first retransmission; 0: none */
	/* RACK-TLP */
	uint64_t rack_sent_ns; /* the latest time of sending of all that was delivered */
	uint32_t rack_end, rack_rtt_us, rack_dsack_round;
	uint8_t rack_wider, rack_persist;
	uint32_t tlp_end;
	/* round-trip times (RFC 6298): _8 and _4 are in units of 1/8 and 1/4 us */
	uint32_t srtt_8, rttvar_4, mdev_4, mdev_max_4, rtt_round;
	uint32_t min_rtt_us, rto_us;
	uint32_t min_rtt_s; /* when that was measured */
	uint64_t rto_ns;    /* when the retransmission timer expires, if no probe comes before */
	uint64_t sent_ns;   /* when data was sent last; 0: never */
	/* congestion control (tcp_congestion.h) */
	const struct tcp_congestion *congestion;
	uint32_t cwnd, ssthresh, cwnd_prior, ssthresh_prior;
	uint32_t prr_flight, prr_out;
	uint32_t prr_delivered;		 /* in this reduction; outside of one, since sending was last tried */
	uint32_t flight_max, cwnd_round; /* the most in flight in this round trip, and its end */
	uint64_t cwnd_used_ns;
	union tcp_congestion_state cc;
	uint64_t moved_ns;    /* when snd_una last moved, or the queue was last empty */
	uint64_t progress_ns; /* when the peer last accepted data, or answered with a closed window */
	/* TIME_WAIT's list, by age */
	struct tcp_conn *older, *newer;
};
_Static_assert(sizeof(struct tcp_conn) <= TCP_CONN_BYTES, "tcp_conn");

/* tcp_table.c */
/* Replaces options that are 0 by their defaults. */
void tcp_defaults(struct net_options *options);
int tcp_table_init(struct net *net);
void tcp_table_fini(struct net *net);
struct tcp_conn *tcp_find(struct net *net, const struct net_address *local, rte_be16_t local_port,
			  const struct net_address *remote, rte_be16_t remote_port);
/* The bucket that leads to a connection's number. */
uint32_t *tcp_bucket(const struct net *net, const struct net_address *local, rte_be16_t local_port,
		     const struct net_address *remote, rte_be16_t remote_port);
/* Whether the table is full, and some address has so many connections that one of them may be closed for the newcomer's
 * (crowd.h). */
bool tcp_is_crowded(struct net *net, const struct net_address *newcomer);
/* A new connection in the table, with what active and passive opens share. NULL: the table is full. */
struct tcp_conn *tcp_conn_make(struct net *net, const struct tcp_listener *listener, const struct net_path *path,
			       rte_be16_t local_port, rte_be16_t remote_port);
/* The same without the table: for answering a SYN with a cookie. */
void tcp_conn_init(struct tcp_conn *conn, struct net *net, const struct tcp_listener *listener,
		   const struct net_path *path, rte_be16_t local_port, rte_be16_t remote_port);
/* Sets the initial sequence number. Nothing may have been sent yet. */
void tcp_set_iss(struct tcp_conn *conn, uint32_t iss);
/* A number that is always the same for a four-tuple and a purpose, and that nobody outside can predict. */
enum tcp_secret_purpose { TCP_SECRET_ISS, TCP_SECRET_TIMESTAMP, TCP_SECRET_PORT, TCP_SECRET_COOKIE };
uint64_t tcp_secret(const struct net *net, enum tcp_secret_purpose purpose, const struct net_address *local,
		    const struct net_address *remote, uint32_t ports, uint64_t more);
static inline uint32_t tcp_ports(rte_be16_t local, rte_be16_t remote)
{
	return (uint32_t)local << 16 | remote;
}
/* Removes it from the table, frees what it holds, calls `closed`. Its memory is reused from the end of the turn on. */
void tcp_conn_end(struct tcp_conn *conn, int reason);
void tcp_enter_time_wait(struct tcp_conn *conn);
/* A new connection of the same four-tuple takes the place of one in TIME_WAIT. */
void tcp_leave_time_wait(struct tcp_conn *conn);
/* Puts it on the list for the end of the turn. why: flags of enum tcp_conn_flags to set. */
void tcp_list(struct tcp_conn *conn, uint32_t why);
void tcp_flush(struct net *net);

/* tcp_handshake.c: how connections begin */
/* A SYN for a listener. former: the connection in TIME_WAIT that it may follow, or NULL. */
void tcp_passive_open(struct net *net, const struct tcp_listener *listener, const struct tcp_segment *s,
		      struct tcp_conn *former);
/* A segment for a connection in SYN_SENT. true: it owns the payload. */
bool tcp_syn_sent_input(struct tcp_conn *conn, const struct tcp_segment *s);
/* The handshake is complete. false: the user refused the connection, and it is gone. */
bool tcp_establish(struct tcp_conn *conn);
/* Applies the options of the peer's SYN, as far as our own features allow. */
void tcp_take_syn(struct tcp_conn *conn, const struct tcp_segment *s);

/* tcp_cookie.c: SYN cookies, which need no memory */
void tcp_cookie_send(struct net *net, const struct tcp_listener *listener, const struct net_path *path,
		     const struct tcp_segment *s);
/* If an ACK contains a cookie of ours, returns the connection that it opens, in SYN_RECEIVED. NULL: it does not. */
struct tcp_conn *tcp_cookie_open(struct net *net, const struct tcp_listener *listener, const struct tcp_segment *s);

/* tcp_input.c */
/* Applies the window that a segment offers. news: it acknowledges something for the first time. */
void tcp_take_window(struct tcp_conn *conn, const struct tcp_segment *s, bool news);
/* Answers a segment that may be forged with a challenge ACK, at a limited rate (RFC 5961, 7). */
void tcp_challenge(struct tcp_conn *conn);

/* tcp_receive.c: received data. Owns the segment's payload. */
void tcp_take_data(struct tcp_conn *conn, const struct tcp_segment *s);

/* tcp_ecn.c: explicit congestion notification, the receiver's side */
/* The ECN flags to add to a segment that has these flags. */
uint8_t tcp_ecn_flags(const struct tcp_conn *conn, uint8_t flags);
/* Whether the peer's SYN, or its answer to ours, agrees to ECN. */
bool tcp_ecn_agreed(const struct tcp_conn *conn, const struct tcp_segment *s);
/* A segment with data came that is not acknowledged yet. */
void tcp_ecn_received(struct tcp_conn *conn, const struct tcp_segment *s);

/* tcp_output.c */
void tcp_send_ack(struct tcp_conn *conn);
void tcp_send_syn(struct tcp_conn *conn);
/* Sends a segment that makes the peer answer with its next expected number and its window. */
void tcp_send_probe(struct tcp_conn *conn);
void tcp_output(struct tcp_conn *conn);
/* Answers a segment that belongs to no connection. */
void tcp_refuse(struct net *net, const struct net_packet *packet, const struct rte_tcp_hdr *tcp, uint32_t seg_len);
void tcp_reset_peer(struct tcp_conn *conn);

/* tcp_scoreboard.c */
/* Frees what is queued for sending. */
void tcp_queue_clear(struct tcp_conn *conn);

/* tcp_rtt.c */
/* A round trip that began at sent_ns ends now: updates the estimates. */
void tcp_measure_rtt(struct tcp_conn *conn, uint64_t sent_ns);
static inline uint32_t tcp_srtt_us(const struct tcp_conn *conn)
{
	return conn->srtt_8 >> 3;
}
static inline uint32_t tcp_rttvar_us(const struct tcp_conn *conn)
{
	return conn->rttvar_4 >> 2;
}

/* tcp_recovery.c: acknowledgements, and timeouts */ /* mss, features and iss must be set. */
void tcp_sender_init(struct tcp_conn *conn);
/* Processes the acknowledgement of every acceptable segment, before its window. ack is at most snd_nxt, but may be old.
 * true: it acknowledged something new. */
bool tcp_sender_ack(struct tcp_conn *conn, const struct tcp_segment *s);
/* The peer's window was closed and is open now. */
void tcp_window_opened(struct tcp_conn *conn);
/* TCP_TIMER_RETRANSMIT of an established connection, or TCP_TIMER_REORDER, has expired. */
void tcp_sender_timer(struct tcp_conn *conn, enum tcp_timer which);
/* Doubles the time to the next retransmission. */
void tcp_back_off(struct tcp_conn *conn);

/* tcp_mtu.c */
/* An ICMP error about data in flight says that the path carries packets of mtu bytes. */
void tcp_path_mtu(struct tcp_conn *conn, uint16_t mtu);

/* tcp_options.c: the one place that reads and writes TCP's options. */ /* false: the list is malformed: a length of 0
 * or 1, or beyond the end. */
bool tcp_options_parse(struct tcp_segment *s, const uint8_t *option, unsigned bytes);
/* Fills *s from a segment of `bytes` bytes, the length of whose header has been checked. false: the options are
 * malformed. m is not changed: the caller has to remove the header from its data. */
static inline bool tcp_segment_read(struct tcp_segment *s, const struct net_packet *packet, struct rte_mbuf *m,
				    const struct rte_tcp_hdr *tcp, uint16_t bytes)
{
	const uint16_t header = (uint16_t)((tcp->data_off >> 4) * 4);

	s->packet = packet;
	s->tcp = tcp;
	s->payload = m;
	s->seq = rte_be_to_cpu_32(tcp->sent_seq);
	s->ack = rte_be_to_cpu_32(tcp->recv_ack);
	s->window = rte_be_to_cpu_16(tcp->rx_win);
	s->bytes = bytes - header;
	s->flags = tcp->tcp_flags;
	s->space = s->bytes + !!(s->flags & RTE_TCP_SYN_FLAG) + !!(s->flags & RTE_TCP_FIN_FLAG);
	s->mss = 0;
	s->sack_permitted = s->has_timestamp = false;
	s->ts_value = s->ts_echo = 0;
	s->sack_count = 0; /* entries beyond sack_count are never read */
	return tcp_options_parse(s, (const uint8_t *)(tcp + 1), header - (unsigned)sizeof(*tcp));
}

/* tcp_input.c: a segment for a connection that is not in SYN_SENT. true: it owns the payload. */
bool tcp_conn_input(struct tcp_conn *conn, const struct tcp_segment *s);

/* tcp_plain.c, the fast path: sends a segment whose data starts with TCP's header and whose checksum is 0. true: it
 * owns the segment then; false: it is unchanged, for the general path. */
bool tcp_send_plain(struct net *net, const struct net_path *path, struct rte_mbuf *segment, uint8_t tos);
/* Writes the options of a segment with these flags that is sent now, in at most `room` bytes (up to TCP_OPTIONS_MAX;
 * for a segment with data, what its payload leaves of the MTU, which is always enough for timestamps). Returns their
 * length, a multiple of 4. Mandatory options come first; SACK blocks get the room that is left. */
unsigned tcp_options_put(struct tcp_conn *conn, uint8_t flags, unsigned room, uint8_t *option);
/* The value of a timestamp that is sent now. */
uint32_t tcp_timestamp(const struct tcp_conn *conn);
/* The same for what was sent at `ns`. */
uint32_t tcp_timestamp_at(const struct tcp_conn *conn, uint64_t ns);

/* tcp_window.c: the receive window */
/* The window field of a segment that is sent now. Moves the advertised edge. */
uint16_t tcp_window_field(struct tcp_conn *conn, uint8_t flags);
/* A segment with an ACK and this many bytes of data is sent. */
void tcp_ack_sent(struct tcp_conn *conn, uint32_t payload);
/* An ACK is due: sends it now, or starts the delayed-ACK timer. */
void tcp_ack_due(struct tcp_conn *conn);
/* Returns what the connection had of the stack's budgets. */
void tcp_window_release(struct tcp_conn *conn);

/* tcp_timer.c */
static inline bool tcp_timer_runs(const struct tcp_conn *conn, enum tcp_timer which)
{
	return conn->deadlines[which] != 0;
}

static inline void tcp_timer_stop(struct tcp_conn *conn, enum tcp_timer which)
{
	conn->deadlines[which] = 0;
}

/* Starts the timer, or moves it. */
void tcp_timer_start(struct tcp_conn *conn, enum tcp_timer which, uint64_t delay_us);
void tcp_timer_fire(struct wheel_timer *timer, uint64_t now_ns);
/* Starts or stops TCP_TIMER_STATE of an idle connection: for keepalive, or for the end of FIN_WAIT_2. */
void tcp_timer_idle(struct tcp_conn *conn);

/* tcp_reorder.c: segments that came out of order */
/* The private area of an mbuf that waits there. */
struct tcp_reorder_priv {
	struct rte_mbuf *next; /* of the run */
	uint32_t seq;	       /* of the first byte */
	bool fin;	       /* a FIN follows the last byte */
	/* of a run's first mbuf: */
	uint32_t end; /* of the run, a FIN's number included */
	struct rte_mbuf *tail, *next_run;
};
_Static_assert(sizeof(struct tcp_reorder_priv) <= NET_PRIV_BYTES, "tcp_reorder_priv");

static inline struct tcp_reorder_priv *tcp_reorder_priv(struct rte_mbuf *m)
{
	return rte_mbuf_to_priv(m);
}

/* Owns payload. */
void tcp_reorder_put(struct tcp_conn *conn, struct rte_mbuf *payload, uint32_t seq, bool fin);
/* The next segment in order, trimmed to start at rcv_nxt. NULL: there is a gap. */
struct rte_mbuf *tcp_reorder_take(struct tcp_conn *conn, bool *fin);
void tcp_reorder_clear(struct tcp_conn *conn);
/* These bytes came twice: the next ACK reports it (RFC 2883). */
void tcp_note_duplicate(struct tcp_conn *conn, uint32_t begin, uint32_t end);

#endif
