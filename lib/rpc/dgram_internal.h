/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the sessions over UDP (dgram_*.c) share. docs/datagrams.rst describes the protocol. Everything
 * belongs to the stack's thread. */
#ifndef RPC_DGRAM_INTERNAL_H
#define RPC_DGRAM_INTERNAL_H

#include <string.h>
#include <sys/queue.h>

#include "base/bucket.h"
#include "base/wheel.h"
#include "net/net.h"
#include "rpc/datagram.h"
#include "rpc/dgram_congestion.h"
#include "wire/packet.h"

#define DGRAM_US UINT64_C(1000)
#define DGRAM_MS UINT64_C(1000000)

enum dgram_internal {
	DGRAM_BODY_OFF =
		192, /* offset of a body in its mbuf, after NET_UDP_HEADERS and the packet's header; a multiple of 64 */
	DGRAM_INDEX_BITS = 20,
	DGRAM_SESSIONS_MAX = 1 << DGRAM_INDEX_BITS,
	DGRAM_WINDOW_MAX = 1024,
	DGRAM_ACK_EVERY = 16,	 /* packets, at most; see unacked_most */
	DGRAM_TURN_PACKETS = 32, /* packets that a session sends before others have their turn */
	DGRAM_PACE_SLOTS = 1024, /* of DGRAM_PACE_NS */
	DGRAM_PACE_SHIFT = 10,	 /* ns */
	DGRAM_COOKIE_SHIFT = 32, /* ns: a cookie's time slot, 4.3 s; it is valid in its own slot and the next one */
	DGRAM_ANSWERS_PER_SECOND = 1000, /* to packets that belong to no session */
	DGRAM_ANSWERS_BURST = 100,
	DGRAM_QUOTES_PER_SECOND = 100, /* ICMP errors that are examined */
	DGRAM_PREFETCH_FROM = 64,      /* sessions; more than the first-level cache holds */
};
_Static_assert(DGRAM_BODY_OFF >= NET_UDP_HEADERS + sizeof(struct wire_packet), "headers fit before a body");
_Static_assert(DGRAM_BODY_OFF % 64 == 0, "headers are aligned");

/* The private area of an mbuf that is to be sent. */
struct dgram_priv {
	struct rte_mbuf *next;		/* in the queue, before its first transmission */
	struct rte_mbuf *newer, *older; /* in the list of packets in flight, by time of sending; or of lost ones */
	uint64_t sent_ns;		/* the last time */
	uint32_t number;
	uint16_t body_off; /* from buf_addr: headers are written before it again for each transmission */
	uint16_t body_len;
	uint16_t flags; /* enum wire_packet_flags: FIRST, LAST */
	uint8_t lost;
	uint8_t transmissions; /* 2: or more */
	uint8_t phase;	       /* of the key with which the body is encrypted in place, */
	uint64_t sealed;       /* and the packet's number for that; 0: the body is not encrypted */
};
_Static_assert(sizeof(struct dgram_priv) <= NET_PRIV_BYTES, "dgram_priv");

static inline struct dgram_priv *dgram_priv(struct rte_mbuf *m)
{
	return rte_mbuf_to_priv(m);
}

/* Packets that have arrived out of order. */
struct dgram_reorder {
	struct dgram_reorder *next; /* in the pool */
	uint32_t highest;	    /* number */
	uint32_t count;
	uint64_t present[DGRAM_WINDOW_MAX / 64]; /* by number */
	struct rte_mbuf *packets[];		 /* by number */
};

/* Packets that have been sent and not acknowledged, by number; NULL: acknowledged out of order. */
struct dgram_window {
	struct dgram_window *next;     /* in the pool */
	struct dgram_session *session; /* NULL: it is in the pool */
	struct rte_mbuf *packets[];
};

struct dgram_chain {
	struct rte_mbuf *first, *last;
};

enum dgram_state {
	DGRAM_FREE,
	DGRAM_OPENING,
	DGRAM_OPEN,
	DGRAM_REOPENING, /* a client's: it keeps its state of the session, and sends only OPEN */
};

enum dgram_flags {
	DGRAM_ACCEPTED = 1 << 0, /* we have accepted it: we are the server */
	DGRAM_HEARD = 1 << 1,	 /* peer_stamp is set */
	DGRAM_ACK_OWED = 1 << 2,
	DGRAM_ACK_URGENT = 1 << 3,
	DGRAM_MARKED = 1 << 4,	/* an ECN mark has come since the last acknowledgement */
	DGRAM_ACTIVE = 1 << 5,	/* has credit for more than one packet */
	DGRAM_PING = 1 << 6,	/* a PING is due */
	DGRAM_PROBED = 1 << 7,	/* the tail was sent again as a probe; next comes a timeout */
	DGRAM_ASKED = 1 << 8,	/* it has asked for credit since it last had some */
	DGRAM_KNOWN = 1 << 9,	/* a client's: it was open before */
	DGRAM_TAGGED = 1 << 10, /* its packets have tags */
};

/* Lists that a session may be in, each first in, first out. A session stays in a list until it is taken from it, even
 * if the reason is gone. */
enum dgram_list {
	DGRAM_DUE,     /* has something to send */
	DGRAM_ACKS,    /* owes an acknowledgement, at ack_ns */
	DGRAM_ACTIVES, /* has credit for more than one packet */
	DGRAM_WANTS,   /* wants more credit than it was given yet */
	DGRAM_WAITS,   /* gets no credit, because incomplete messages hold many mbufs */
	DGRAM_WINDOWS, /* waits for a window to send from */
	DGRAM_PACED,   /* is in a slot of the pacer: has no queue of its own */
	DGRAM_LISTS,
};

struct dgram_queue {
	struct dgram_session *first, *last;
};

/* What the sessions of one address (IPv6: of one /64) use together. */
struct dgram_peer {
	struct net_address address;
	uint32_t next; /* index + 1 of the next one in the same bucket, or of the next free one */
	uint32_t sessions, windows;
	uint32_t mbufs; /* queued or not acknowledged */
};

struct dgram_session {
	/* constant while it is open */
	struct dgram *dgram;
	void *user;
	struct dgram_peer *peer;
	struct dgram_seal *seal;      /* NULL: it is opened without a ticket */
	uint64_t token, peer_token;   /* in packets that arrive, and in those that are sent; see wire_packet.token */
	uint32_t number, peer_number; /* index in the low DGRAM_INDEX_BITS, a generation above */
	uint32_t payload;
	uint8_t state;	/* enum dgram_state */
	uint8_t listed; /* 1 << enum dgram_list */
	uint16_t flags; /* enum dgram_flags */
	/* receiving */
	uint32_t rx_next;    /* the number expected */
	uint32_t rx_edge;    /* the first number not granted */
	uint32_t rx_limit;   /* the highest edge ever granted: credit may expire */
	uint32_t rx_charge;  /* how much of the endpoint's credit it uses */
	uint32_t rx_unacked; /* packets since the last acknowledgement */
	uint32_t peer_stamp; /* stamp of its newest packet */
	uint32_t peer_wants;
	uint64_t heard_ns; /* when that came */
	uint64_t data_ns;
	uint64_t ack_ns; /* when an owed acknowledgement is due */
	struct dgram_reorder *reorder;
	/* the message that is arriving */
	struct dgram_chain message;
	uint32_t message_need; /* bytes; 0: none */
	uint32_t message_have, message_mbufs;
	uint16_t message_packet; /* bytes of each of its packets but the last */
	uint16_t message_status; /* not WIRE_OK: its frame was delivered with this status, and the rest is dropped */
	/* sending */
	uint32_t tx_una, tx_next; /* the first number not acknowledged, the next one */
	uint32_t tx_edge;
	uint32_t tx_queued;    /* not sent yet */
	uint32_t tx_held;      /* sent and not acknowledged */
	uint32_t tx_in_flight; /* of these, those not known to be lost */
	struct dgram_chain queue, in_flight, lost;
	struct dgram_window *window;
	uint64_t newest_ns; /* when the acknowledged packet that was sent last was sent (RFC 8985, RACK.xmit_ts), */
	uint32_t newest_number, newest_rtt_ns;
	uint32_t sacked_edge; /* one more than the highest number acknowledged out of order */
	uint32_t srtt_ns, rttvar_ns;
	uint8_t backoff;
	uint8_t reordering; /* for how many more recoveries the path is assumed to reorder */
	uint64_t progress_ns, due_ns, pace_ns;
	uint64_t sent_ns;	  /* when data was last sent, or credit came: credit expires some time after */
	struct wheel_timer timer; /* retransmission, probes, OPEN */
	struct wheel_timer life;  /* lease, heartbeat */
	struct dgram_congestion congestion;
	struct net_udp_flow flow;
	/* opening */
	uint64_t client;     /* the client's number: wire_packet_open.client */
	uint64_t open_token; /* for a session that we open: the token in its OPENs and their answers */
	uint64_t cookie;
	uint64_t opening_ns; /* when opening began; for an accepted one, when it was opened */
	uint32_t hash_next;
	struct dgram_session *next[DGRAM_LISTS];
};
_Static_assert(sizeof(struct dgram_session) <= 640, "memory of an idle session");

struct dgram {
	struct dgram_options options;
	struct net *net;
	uint16_t port;
	uint32_t window_mask;
	uint32_t sessions, sessions_made; /* in use; how many places were ever used */
	uint64_t random;		  /* counts the random numbers drawn */
	struct dgram_session *all, *free_first, *free_last;
	struct dgram_seal *seals;  /* of a server's sessions with tickets */
	uint64_t welcomes;	   /* sent to these */
	uint8_t refusal;	   /* status for the session that is being opened: dgram_refuse */
	uint32_t *hash, hash_mask; /* index + 1: accepted sessions by client number, others by the peer's token */
	struct dgram_peer *peers;  /* of sessions_max + 1 */
	uint32_t *peers_hash, peers_made, peers_free, peers_hand;
	uint32_t windows_free;
	struct dgram_window *windows;
	struct dgram_reorder *reorders;
	void *windows_memory, *reorders_memory;
	struct dgram_queue lists[DGRAM_LISTS];
	/* the pacer: a wheel of slots */
	struct dgram_session *slots[DGRAM_PACE_SLOTS];
	uint64_t slots_used[DGRAM_PACE_SLOTS / 64];
	uint64_t pace_slot; /* all slots before it are empty */
	uint32_t paced;
	/* credit */
	uint32_t actives, share, credits_out;
	uint64_t lapse_ns;   /* when active sessions are next checked for unused credit */
	uint32_t held;	     /* mbufs of messages that are incomplete or not yet released */
	uint32_t held_whole; /* of these, those of complete messages */
	struct dgram_session *favoured;
	uint64_t favoured_ns; /* when it was chosen, or last sent something */
	bool favoured_sends;  /* it has sent something since it was chosen */
	struct wheel_timer favour_timer;
	struct bucket answers, quotes; /* rate limits: of answers to unknown senders, of ICMP errors examined */
	struct dgram_counters counters;
};

static inline bool number_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static inline uint32_t dgram_stamp(uint64_t now_ns)
{
	return (uint32_t)(now_ns / WIRE_STAMP_NS);
}

static inline uint64_t dgram_now(const struct dgram *d)
{
	return net_now_ns(d->net);
}

/* Lists. */
static inline void list_put(struct dgram_session *s, enum dgram_list list)
{
	struct dgram_queue *q = &s->dgram->lists[list];

	if (s->listed & 1 << list)
		return;
	s->listed |= (uint8_t)(1 << list);
	s->next[list] = NULL;
	if (q->last)
		q->last->next[list] = s;
	else
		q->first = s;
	q->last = s;
}

static inline struct dgram_session *list_take(struct dgram *d, enum dgram_list list)
{
	struct dgram_queue *q = &d->lists[list];
	struct dgram_session *s = q->first;

	if (!s)
		return NULL;
	q->first = s->next[list];
	if (!q->first)
		q->last = NULL;
	s->listed &= (uint8_t) ~(1 << list);
	return s;
}

/* Lists of mbufs linked by dgram_priv: of those in flight, and of the lost ones. */
static inline void chain_append(struct dgram_chain *c, struct rte_mbuf *m)
{
	struct dgram_priv *p = dgram_priv(m);

	p->older = c->last;
	p->newer = NULL;
	if (c->last)
		dgram_priv(c->last)->newer = m;
	else
		c->first = m;
	c->last = m;
}

static inline void chain_remove(struct dgram_chain *c, struct rte_mbuf *m)
{
	const struct dgram_priv *p = dgram_priv(m);

	if (p->older)
		dgram_priv(p->older)->newer = p->newer;
	else
		c->first = p->newer;
	if (p->newer)
		dgram_priv(p->newer)->older = p->older;
	else
		c->last = p->older;
}

/* dgram.c */
uint64_t dgram_draw(struct dgram *d);
struct dgram_session *dgram_session_make(struct dgram *d, const struct net_udp_address *address);
/* Drops all that it has, and frees its place. */
void dgram_session_free(struct dgram_session *s);
/* The same, after calling the user's handler. */
void dgram_session_end(struct dgram_session *s, int reason);
/* Drops what is queued and in flight, and an incomplete message; numbers start again. */
void dgram_session_reset(struct dgram_session *s);
/* Adds it to the hash, by client number or by the peer's token. */
void dgram_session_hash(struct dgram_session *s);
void dgram_session_unhash(struct dgram_session *s);
struct dgram_session *dgram_session_find(struct dgram *d, uint64_t key, bool accepted);
void dgram_window_release(struct dgram_session *s);
void dgram_reorder_release(struct dgram_session *s);

/* dgram_open.c */
struct dgram_from {
	const struct net_udp_address *address;
	const struct wire_packet *packet;
	const uint8_t *body;
	uint32_t bytes; /* of the body */
	uint64_t now_ns;
};
void dgram_open_begin(struct dgram_session *s);
void dgram_open_timer(struct dgram_session *s, uint64_t now_ns);
void dgram_open_asked(struct dgram *d, const struct dgram_from *from);
void dgram_open_cookie(struct dgram_session *s, const struct dgram_from *from);
void dgram_open_opened(struct dgram_session *s, const struct dgram_from *from);
void dgram_open_stranger(struct dgram *d, const struct dgram_from *from);
void dgram_open_unknown(struct dgram *d, const struct dgram_from *from);
/* A packet of another version of the protocol. */
void dgram_open_foreign(struct dgram *d, const struct dgram_from *from);
net_udp_quoted dgram_open_quoted;
/* Closes the peer's end. */
void dgram_open_send_close(struct dgram_session *s);

/* dgram_seal.c: sessions with tickets */
/* An authenticated hello of an OPEN: who has sent it. */
struct dgram_greeting {
	struct secure_hello hello;
	struct secure_guest guest;
	uint8_t secret[SECURE_HASH_BYTES];
};
/* Server: whether the OPEN has a valid ticket. The client number in it is replaced by one that only its principal can
 * have. */
bool dgram_seal_greeted(struct dgram *d, const struct dgram_from *from, struct dgram_greeting *greeting);
void dgram_seal_accept(struct dgram_session *s, const struct dgram_greeting *greeting);
/* Whether the client cannot have the keys of a session of ours, because another OPEN has opened it. */
bool dgram_seal_is_stale(const struct dgram_session *s, const struct dgram_greeting *greeting);
/* Appends the welcome to the body of OPENED, and completes its header. Returns the welcome's bytes. */
uint16_t dgram_seal_welcome(const struct dgram_session *s, const struct dgram_greeting *greeting,
			    struct wire_packet *header, uint8_t *body, uint16_t bytes);
/* Client: whether there is a ticket to open with; and drops it, because it was refused. */
bool dgram_seal_prepare(struct dgram_session *s);
void dgram_seal_refused(struct dgram_session *s);
uint16_t dgram_seal_hello(const struct dgram_session *s, struct wire_packet *header, uint8_t *body, uint16_t bytes);
/* Whether OPENED is from a node that has the ticket's secret; and starts the keys, if OPENED opens a new session. */
bool dgram_seal_welcomed(const struct dgram_session *s, const struct dgram_from *from);
void dgram_seal_begin(struct dgram_session *s, const struct dgram_from *from, const struct wire_packet_opened *opened);
/* Encrypts or authenticates a packet that is sent, and completes its header. If the body was encrypted in place, *p (if
 * not NULL) records it. */
void dgram_seal_packet(struct dgram_session *s, struct wire_packet *header, void *body, uint32_t bytes,
		       struct dgram_priv *p, uint64_t now_ns);
/* Decrypts the body of a packet that is sent again. */
void dgram_seal_undo(struct dgram_session *s, const struct dgram_priv *p, void *body);
/* Verifies and decrypts a received packet, whose header is also at `packet`. false: it is not authentic, or its session
 * has ended. */
bool dgram_seal_open(struct dgram_session *s, const struct dgram_from *from, uint8_t *packet);
void dgram_seal_clear(struct dgram_session *s);

/* dgram_input.c */
net_udp_receive dgram_receive;
net_udp_prefetch_fn dgram_prefetch_packet;
/* Takes the next packet in order: m's data is its body. false: s has ended. */
bool dgram_message_take(struct dgram_session *s, struct rte_mbuf *m, uint16_t flags);
void dgram_message_drop(struct dgram_session *s);

/* dgram_recovery.c: processes what a packet acknowledges. news: it is the newest one so far. false: the session's user
 * has closed it. */
bool dgram_recovery_ack(struct dgram_session *s, const struct dgram_from *from, bool news);
/* Marks packets as lost that were sent long enough before an acknowledged one. */
void dgram_recovery_detect(struct dgram_session *s, uint64_t now_ns);
void dgram_recovery_arm(struct dgram_session *s, uint64_t now_ns, bool restart);
void dgram_recovery_timer(struct wheel_timer *timer, uint64_t now_ns);
void dgram_recovery_life(struct wheel_timer *timer, uint64_t now_ns);

/* dgram_output.c */
/* Sends what may be sent. false: the output queue is full. */
bool dgram_output_session(struct dgram_session *s, uint64_t now_ns);
bool dgram_output_packet(struct dgram_session *s, struct rte_mbuf *m, uint16_t flags, uint64_t now_ns);
/* A packet without data. */
bool dgram_output_bare(struct dgram_session *s, enum wire_packet_kind kind, uint16_t flags, uint64_t now_ns);
void dgram_output_owe(struct dgram_session *s, uint64_t now_ns);
static inline void output_urgent(struct dgram_session *s)
{
	s->flags |= DGRAM_ACK_URGENT | DGRAM_ACK_OWED;
	list_put(s, DGRAM_DUE);
}

/* dgram_peers.c: a session begins; it ends; its peer has another address now. */
void dgram_peer_join(struct dgram_session *s);
void dgram_peer_leave(struct dgram_session *s);
void dgram_peer_move(struct dgram_session *s);
enum { PEER_WINDOW_SHARE = 16 };
static inline bool peer_may_take_window(const struct dgram_session *s)
{
	const struct dgram *d = s->dgram;

	return !d->options.accepts || s->peer->windows <= PEER_WINDOW_SHARE * d->windows_free;
}
/* Ends another session to make room for one with that address. false: none gives way. */
bool dgram_peer_make_place(struct dgram *d, const struct net_address *address, uint64_t now_ns);

/* dgram_pace.c: has a session send at a time, with the precision of a slot. */
void dgram_pace_at(struct dgram_session *s, uint64_t when_ns);
void dgram_pace_turn(struct dgram *d, uint64_t now_ns);
uint64_t dgram_pace_next_ns(const struct dgram *d);

/* dgram_credit.c */
/* Grants as much credit as possible: moves rx_edge. */
void dgram_credit_update(struct dgram_session *s, uint64_t now_ns);
/* The peer says in a packet how many of its packets wait for credit. */
void dgram_credit_wanted(struct dgram_session *s, const struct wire_packet *p, uint64_t now_ns);
/* Whether a packet of data is accepted although messages hold as many mbufs as they may. */
bool dgram_credit_admit(struct dgram_session *s, const struct wire_packet *p, uint64_t now_ns);
/* A packet of the favoured session was accepted. */
void dgram_credit_favoured_sends(struct dgram *d, uint64_t now_ns);
void dgram_credit_leave(struct dgram_session *s);
void dgram_credit_turn(struct dgram *d, uint64_t now_ns);
void dgram_credit_timer(struct wheel_timer *timer, uint64_t now_ns);
/* Messages hold so many mbufs that only the favoured session may send more. */
static inline bool credit_tight(const struct dgram *d)
{
	return d->held > d->options.held_mbufs_max / 2;
}
/* Messages hold so many mbufs that those which make no progress are ended. */
static inline bool credit_strained(const struct dgram *d)
{
	return d->held > d->options.held_mbufs_max + d->options.held_mbufs_max / 2;
}
/* dgram_credit_update for the usual case: one packet, for which every session has credit. */
static inline void credit_update(struct dgram_session *s, uint64_t now_ns)
{
	if (unlikely(s->flags & DGRAM_ACTIVE || credit_tight(s->dgram))) {
		dgram_credit_update(s, now_ns);
		return;
	}
	s->rx_edge += s->rx_edge == s->rx_next;
	if (number_before(s->rx_limit, s->rx_edge))
		s->rx_limit = s->rx_edge;
}
/* Whether a session may be favoured: most of the mbufs must not be waiting for their users, and there must be room left
 * for a message. */
static inline bool credit_may_favour(const struct dgram *d)
{
	return !d->favoured && d->held_whole <= d->options.held_mbufs_max / 4 && !credit_strained(d);
}

#endif
