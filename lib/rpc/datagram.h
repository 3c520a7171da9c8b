/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions over UDP: messages of any size, in order, exactly once, in both directions, with credits, selective repeat,
 * congestion control and heartbeats (docs/datagrams.rst; bytes in wire/packet.h). The same code on both sides: a
 * server's endpoint accepts sessions, a client's opens them. One thread, the stack's; it allocates at creation only.
 *
 * A message is a wire_frame and its payload. It is sent from the mbufs that it was written into, which the session
 * keeps until they are acknowledged, and received in the mbufs that the driver filled. Nothing is copied on the way.
 * Small messages that wait to be sent share a packet: none waits for others.
 *
 * Time is the stack's: net_turn, net_input and the wheel bring it. Timeouts come from the stack's wheel; pacing below
 * its tick comes from dgram_turn.
 */
#ifndef RPC_DATAGRAM_H
#define RPC_DATAGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "net/net.h"
#include "secure/ticket.h"
#include "star_error.h"
#include "wire/frame.h"

/* X(name, what it counts). */
#define DGRAM_COUNTERS(X) \
	X(packets_in, "packets of sessions received") \
	X(packets_out, "packets of sessions sent, retransmissions included") \
	X(messages_in, "messages received whole") \
	X(messages_out, "messages given to be sent") \
	X(retransmitted, "packets sent again") \
	X(timeouts, "retransmission timeouts") \
	X(duplicates, "packets received before") \
	X(marked, "packets received with a congestion mark") \
	X(opened, "sessions opened") \
	X(resumed, "sessions resumed after a silence") \
	X(expired, "sessions ended: the peer was silent for too long") \
	X(bad_packets, "dropped: malformed") \
	X(bad_versions, "dropped: of a peer of another release") \
	X(bad_tokens, "dropped: not of the session they name") \
	X(unknown, "dropped: of no session") \
	X(bad_cookies, "dropped: opened with a wrong or an old cookie") \
	X(outside, "dropped: beyond the credit that was granted") \
	X(crowded, "dropped: messages hold too many mbufs") \
	X(broken, "sessions ended: the peer broke the protocol") \
	X(refused, "sessions refused: there are too many") \
	X(evicted, "sessions ended for others: all places were taken, and their address had more than its share") \
	X(over_limit, "messages refused: over a limit, or over the buffers there are") \
	X(starved, "packets not sent for lack of mbufs") \
	X(bad_tags, "dropped: changed on the way, or not of the session that they name") \
	X(repeated, "dropped: packets with a tag that had come before, or are too old to tell") \
	X(strangers, "sessions refused: no ticket, or none that is good") \
	X(revoked, "sessions ended: their principal was revoked") \
	X(renewed, "keys of sessions renewed for sending")

struct dgram_counters {
#define X(name, text) uint64_t name;
	DGRAM_COUNTERS(X)
#undef X
};

struct dgram;
struct dgram_session;
struct dgram_seal;

/* By what a client opens a session. */
struct dgram_ticket {
	struct secure_ticket ticket;
	uint8_t secret[SECURE_HASH_BYTES];
	uint8_t random[SECURE_RANDOM_BYTES]; /* of this attempt alone */
};

struct dgram_handler {
	/* Server: a client has opened a session. *user is the session's, to be set. False refuses; dgram_refuse before
	 * that says why. */
	bool (*opened)(void *ctx, struct dgram_session *session, void **user);
	/* Client: it is open, or was resumed, with what it had in flight (resumed), or is a new one at a server that
	 * has forgotten the old: all that was given to dgram_send before this call is dropped, sent or not (!resumed).
	 * The first time it is !resumed too, but what was queued is sent. */
	void (*connected)(void *user, bool resumed, uint32_t incarnation);
	/*
	 * The next message, bytes long, as a chain of mbufs by ->next, of which data_off and data_len show the
	 * message's bytes, the first starting with the wire_frame (checked by wire_frame_check, and to be as long as
	 * the chain; its checksum is not). Or several messages in one mbuf, each checked so: dgram_next walks over
	 * them. The callee owns it, and says by dgram_taken when this many mbufs are freed. status is WIRE_OK, or
	 * WIRE_OVER_LIMIT: then the message is too large for message_max, or needs more than half of held_mbufs_max,
	 * and only its frame is there (in the first mbuf); it may still be on its way.
	 */
	void (*received)(void *user, struct rte_mbuf *message, uint32_t bytes, enum wire_status status);
	/* Some of what was sent has been acknowledged: dgram_queued has fallen. */
	void (*acknowledged)(void *user);
	/* It is gone: 0 when the peer closed it; ETIMEDOUT: the peer is silent; ECONNREFUSED: it would not open it, or
	 * is not there; EDQUOT: neither, says somebody, for its principal has as many sessions as his quota allows;
	 * EPROTO: it sent what is no message. Called once for each session; what was queued is freed. */
	void (*closed)(void *user, int reason);
	/* Client, of a session by ticket: a ticket, when it is opened, and again; false: there is none now. And: the
	 * server has not taken it, says somebody; another one is asked for soon. */
	bool (*ticket)(void *user, struct dgram_ticket *ticket);
	void (*refused)(void *user);
};

struct dgram_options {
	struct net *net;
	struct net_address local; /* none: any */
	uint16_t port;		  /* to bind; of a client 0: one that is free */
	bool accepts;		  /* a server */
	bool closed;		  /* one that refuses all, until dgram_listen, and from dgram_unlisten on */
	uint32_t incarnation;	  /* of a server */
	uint32_t sessions_max;
	uint32_t active_max; /* sessions with something in flight or half received, at once */
	uint32_t window_max; /* packets of a session in flight, each way; a power of two, at most 1024 */
	/* packets that all sessions together may be allowed to send us: of the size of the receive ring */
	uint32_t credits;
	uint32_t
		held_mbufs_max; /* that messages which are not taken yet, or not whole, may occupy together; for a while
				  * twice as many when one of them must be finished first */
	uint32_t message_max;	/* bytes */
	uint64_t rto_min_ns;	/* 50 us with polling */
	uint64_t rto_max_ns;
	uint64_t lease_ns;	  /* 10 s: a session that is silent for so long ends */
	uint64_t heartbeat_ns;	  /* of a client: after so much silence it asks; it gives up after lease_ns. 1 s */
	uint64_t ack_delay_ns;	  /* an acknowledgement waits for data to ride on for so long. 100 us */
	uint64_t target_delay_ns; /* of congestion control: round trips above are congestion; see dgram_congestion.h */
	uint64_t secret[2];	  /* random */
	/* of a server: sessions come by ticket; NULL: they do not */
	const struct secure_tickets *tickets;
	bool memory_in_clear; /* with tickets: what comes through shared memory (memif) has no tags */
	const struct dgram_handler *handler;
	void *ctx;
};

/* A server that was closed takes sessions from now on. */
void dgram_listen(struct dgram *dgram);
/* It refuses all again; those that it has stay. */
void dgram_unlisten(struct dgram *dgram);
/* A server's from now on. */
void dgram_set_incarnation(struct dgram *dgram, uint32_t incarnation);
struct dgram *dgram_create(const struct dgram_options *options, struct star_error *err);
/* Before net_destroy. Sessions end without a word to handlers; peers are told if they can be. */
void dgram_destroy(struct dgram *dgram);

/* Client: a session with a server's reactor. Messages may be sent at once; they go when it is open. NULL with err.
 * seal: memory for keys, of dgram_seal_bytes, aligned to 64, that is the session's as long as it lives: it is opened by
 * ticket; NULL: it is not. */
struct dgram_session *dgram_open(struct dgram *dgram, const struct net_address *to, uint16_t port, void *user,
				 struct dgram_seal *seal, struct star_error *err);
size_t dgram_seal_bytes(void);
/* In `opened`, before it returns false: an enum wire_status for the client. */
void dgram_refuse(struct dgram_session *session, uint8_t status);
/* Tells the peer, drops what is queued. closed is not called. */
void dgram_close(struct dgram_session *session);

/* Where the message behind the one at `at` begins in what was received; 0: there is none. */
static inline uint32_t dgram_next(const struct rte_mbuf *m, uint32_t at)
{
	const uint32_t length_at = at + (uint32_t)offsetof(struct wire_frame, payload_bytes);
	uint32_t payload_bytes;
	uint64_t next;

	memcpy(&payload_bytes, rte_pktmbuf_mtod_offset(m, const void *, length_at), sizeof(payload_bytes));
	next = at + sizeof(struct wire_frame) + (((uint64_t)payload_bytes + 7) & ~UINT64_C(7));
	return next < m->data_len ? (uint32_t)next : 0;
}

/* Bytes of a message that a packet carries. Constant for a session. */
uint32_t dgram_payload(const struct dgram_session *session);
/* An empty mbuf with room for them and for the headers before them; NULL when the pool is empty. */
struct rte_mbuf *dgram_alloc(struct dgram_session *session);
/* Queues a message: a chain by ->next in which all but the last hold exactly dgram_payload bytes. Owns it. */
void dgram_send(struct dgram_session *session, struct rte_mbuf *message);
/*
 * The way of a small message: dgram_room gives a reference to the packet that is queued last, if it holds whole
 * messages and has room for n bytes more (else NULL: the message needs an mbuf of its own, and dgram_send). They are
 * written behind its data, whose length was made a multiple of 8; data_len moves on with them. dgram_append makes them
 * a part of the packet, and takes the reference back; false: the packet has left meanwhile, and the reference is still
 * the caller's. Who gives up frees it. One writer a session at a time.
 */
struct rte_mbuf *dgram_room(struct dgram_session *session, uint32_t bytes);
bool dgram_append(struct dgram_session *session, struct rte_mbuf *packet);
/* Something will be sent: starts loading what that needs. */
void dgram_prefetch(const struct dgram_session *session);
/* Packets queued and not acknowledged. */
uint32_t dgram_queued(const struct dgram_session *session);
/* Its peer's address, with all sessions from there, has more unacknowledged than its share: what it asks for next is to
 * wait. */
bool dgram_over_share(const struct dgram_session *session);
/* For how long the peer has acknowledged nothing of what is queued; 0 when nothing is. */
uint64_t dgram_stalled_ns(const struct dgram_session *session);
/* What was received as n mbufs, a message or a packet of several, was freed by its reader; the session may be gone by
 * then. */
void dgram_taken(struct dgram_session *session, uint32_t mbufs);

/* Sends what may be sent, and the acknowledgements that are due: after the turn's work, before net_output, and again
 * after it while it returns true (there was more than the output queue took). */
bool dgram_turn(struct dgram *dgram, uint64_t now_ns);
/* When dgram_turn wants to be called at the latest, for pacing, acknowledgements and losses; UINT64_MAX: the wheel will
 * do. */
uint64_t dgram_next_ns(const struct dgram *dgram);

/* Packets have tags: what they bring needs no checksum, and has none. */
bool dgram_is_tagged(const struct dgram_session *session);
/* Who has opened it, by ticket; NULL: anybody. */
const struct secure_guest *dgram_guest(const struct dgram_session *session);
/* Ends, among n sessions from *at on, those whose guests may not stay; *at is 0 behind the last. */
void dgram_review(struct dgram *dgram, uint32_t *at, uint32_t n);

/* When its peer was heard last. */
uint64_t dgram_heard_ns(const struct dgram_session *session);
struct net *dgram_net(const struct dgram_session *session);
struct net_udp_address dgram_address(const struct dgram_session *session);
unsigned dgram_sessions(const struct dgram *dgram);
const struct dgram_counters *dgram_counters(const struct dgram *dgram);

#endif
