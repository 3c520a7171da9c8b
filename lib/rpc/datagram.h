/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions over UDP: messages of any size, in order, exactly once, in both directions, with credits, selective repeat,
 * congestion control and heartbeats (docs/datagrams.rst; formats in wire/packet.h). Both sides use the same code: a
 * server's endpoint accepts sessions, a client's opens them. One thread, the stack's; memory is allocated at creation
 * only.
 *
 * A message is a wire_frame and its payload. It is sent from the mbufs into which it was written, which the session
 * keeps until they are acknowledged, and received in the mbufs that the driver filled, without copying. Small messages
 * that wait to be sent share a packet; none waits for others.
 *
 * Time is the stack's: from net_turn, net_input and the wheel. Timeouts use the stack's wheel; pacing below its tick is
 * done by dgram_turn.
 */
#ifndef RPC_DATAGRAM_H
#define RPC_DATAGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "net/net.h"
#include "rpc/counters.h"
#include "secure/ticket.h"
#include "star_error.h"
#include "wire/frame.h"

struct dgram;
struct dgram_session;
struct dgram_seal;

/* What a client opens a session with. */
struct dgram_ticket {
	struct secure_ticket ticket;
	uint8_t secret[SECURE_HASH_BYTES];
	uint8_t random[SECURE_RANDOM_BYTES]; /* for this attempt only */
};

struct dgram_handler {
	/* Server: a client has opened a session. *user may be set, and is passed to the session's other callbacks.
	 * False refuses the session; dgram_refuse before that gives the reason. */
	bool (*opened)(void *ctx, struct dgram_session *session, void **user);
	/* Client: the session is open; or it was resumed, with what it had in flight (resumed); or it is a new one on a
	 * server that has forgotten the old one: everything that was passed to dgram_send before this call is dropped,
	 * sent or not (!resumed). The first time it is !resumed too, but what was queued is sent. */
	void (*connected)(void *user, bool resumed, uint32_t incarnation);
	/*
	 * The next message, of `bytes` bytes, as a chain of mbufs by ->next. Their data_off and data_len delimit the
	 * message's bytes; the first one starts with the wire_frame (checked by wire_frame_check, and its length
	 * against the chain's; the checksum is not checked). Or several messages in one mbuf, each checked in the same
	 * way; dgram_next iterates over them. The callee owns the mbufs, and calls dgram_taken when they are freed.
	 * status is WIRE_OK, or WIRE_OVER_LIMIT: then the message is larger than message_max, or needs more than half
	 * of held_mbufs_max, and only its frame is passed (in the first mbuf); the rest may not have arrived yet.
	 */
	void (*received)(void *user, struct rte_mbuf *message, uint32_t bytes, enum wire_status status);
	/* Something that was sent has been acknowledged: dgram_queued has decreased. */
	void (*acknowledged)(void *user);
	/* The session has ended. 0: the peer closed it; ETIMEDOUT: the peer is silent; ECONNREFUSED: the peer refused
	 * to open it, or is not there; EDQUOT: a packet says that its principal has as many sessions as its quota
	 * allows; EPROTO: the peer broke the protocol. Called once for each session; what was queued is freed. */
	void (*closed)(void *user, int reason);
	/* Client, for a session by ticket. ticket: supplies a ticket whenever the session is opened; false: there is
	 * none now. refused: a packet says that the server has not accepted it; another one will be requested soon. */
	bool (*ticket)(void *user, struct dgram_ticket *ticket);
	void (*refused)(void *user);
};

struct dgram_options {
	struct net *net;
	struct net_address local; /* none: any */
	uint16_t port;		  /* to bind; for a client 0: a free one */
	bool accepts;		  /* a server */
	bool closed;		  /* a server that refuses all until dgram_listen, and again after dgram_unlisten */
	uint32_t incarnation;	  /* for a server */
	uint32_t sessions_max;
	uint32_t active_max; /* sessions with something in flight or partly received at the same time */
	uint32_t window_max; /* packets of a session in flight, in each direction; a power of two, at most 1024 */
	/* packets that the peers of all sessions together may send to us: the size of the receive ring */
	uint32_t credits;
	uint32_t
		/* mbufs that messages which are incomplete or not taken yet may occupy together; for a while twice as
		 * many, if one of them must be completed first */
		held_mbufs_max;
	uint32_t message_max; /* bytes */
	uint64_t rto_min_ns;  /* 50 us with polling */
	uint64_t rto_max_ns;
	uint64_t lease_ns; /* 10 s: a session that is silent for this long ends */
	/* for a client: after this much silence it sends a PING; it gives up after lease_ns. 1 s */
	uint64_t heartbeat_ns;
	uint64_t ack_delay_ns; /* how long an acknowledgement waits for data to be sent with. 100 us */
	/* for congestion control: longer round trips are congestion; see dgram_congestion.h */
	uint64_t target_delay_ns;
	uint64_t secret[2]; /* random */
	/* for a server: sessions need tickets; NULL: they do not */
	const struct secure_tickets *tickets;
	bool memory_in_clear; /* with tickets: packets through shared memory (memif) have no tags */
	const struct dgram_handler *handler;
	void *ctx;
};

/* A server that was closed accepts sessions from now on. */
void dgram_listen(struct dgram *dgram);
/* It refuses new sessions again; existing ones stay. */
void dgram_unlisten(struct dgram *dgram);
/* Sets a server's incarnation. */
void dgram_set_incarnation(struct dgram *dgram, uint32_t incarnation);
struct dgram *dgram_create(const struct dgram_options *options, struct star_error *err);
/* Before net_destroy. Sessions end without calling handlers; peers are notified if possible. */
void dgram_destroy(struct dgram *dgram);

/* Client: opens a session with a server's reactor. Messages may be sent at once; they leave when it is open. NULL with
 * err. seal: memory for keys, of dgram_seal_bytes, aligned to 64, that the session uses as long as it exists: it is
 * opened by ticket; NULL: without a ticket. */
struct dgram_session *dgram_open(struct dgram *dgram, const struct net_address *to, uint16_t port, void *user,
				 struct dgram_seal *seal, struct star_error *err);
size_t dgram_seal_bytes(void);
/* In `opened`, before it returns false: sets an enum wire_status for the client. */
void dgram_refuse(struct dgram_session *session, uint8_t status);
/* Closes a session: notifies the peer, and drops what is queued. closed is not called. */
void dgram_close(struct dgram_session *session);

/* The offset of the message after the one at `at` in what was received; 0: there is none. */
static inline uint32_t dgram_next(const struct rte_mbuf *m, uint32_t at)
{
	const uint32_t length_at = at + (uint32_t)offsetof(struct wire_frame, payload_bytes);
	uint32_t payload_bytes;
	uint64_t next;

	memcpy(&payload_bytes, rte_pktmbuf_mtod_offset(m, const void *, length_at), sizeof(payload_bytes));
	next = at + sizeof(struct wire_frame) + (((uint64_t)payload_bytes + 7) & ~UINT64_C(7));
	return next < m->data_len ? (uint32_t)next : 0;
}

/* Bytes of a message that fit in a packet. Constant for a session. */
uint32_t dgram_payload(const struct dgram_session *session);
/* An empty mbuf with room for these and for the headers before them; NULL: the pool is empty. */
struct rte_mbuf *dgram_alloc(struct dgram_session *session);
/* Queues a message: a chain by ->next, in which all mbufs but the last hold exactly dgram_payload bytes. Takes
 * ownership. */
void dgram_send(struct dgram_session *session, struct rte_mbuf *message);
/*
 * Sending a small message. dgram_room returns a reference to the packet that is queued last, if it holds whole messages
 * and has room for n more bytes (otherwise NULL: the message needs an mbuf of its own, and dgram_send). Write the bytes
 * after its data, whose length was made a multiple of 8, and advance data_len. dgram_append makes them a part of the
 * packet, and takes the reference back; false: the packet has left meanwhile, and the caller still owns the reference.
 * To give up, free it. One writer per session at a time.
 */
struct rte_mbuf *dgram_room(struct dgram_session *session, uint32_t bytes);
bool dgram_append(struct dgram_session *session, struct rte_mbuf *packet);
/* Something will be sent: prefetches what that needs. */
void dgram_prefetch(const struct dgram_session *session);
/* Number of packets that are queued or not acknowledged. */
uint32_t dgram_queued(const struct dgram_session *session);
/* The peer's address, with all its sessions, has more unacknowledged than its share: its next requests have to wait. */
bool dgram_over_share(const struct dgram_session *session);
/* For how long the peer has acknowledged nothing of what is queued; 0: nothing is queued. */
uint64_t dgram_stalled_ns(const struct dgram_session *session);
/* The reader has freed n mbufs in which a message, or a packet with several, was received; the session may have ended
 * by then. */
void dgram_taken(struct dgram_session *session, uint32_t mbufs);

/* Sends what may be sent, and acknowledgements that are due: after the turn's work, before net_output; again after it
 * while it returns true (there was more than the output queue could take). */
bool dgram_turn(struct dgram *dgram, uint64_t now_ns);
/* When dgram_turn has to be called at the latest, for pacing, acknowledgements and losses; UINT64_MAX: the wheel
 * suffices. */
uint64_t dgram_next_ns(const struct dgram *dgram);

/* Packets have tags: their contents need no checksum, and have none. */
bool dgram_is_tagged(const struct dgram_session *session);
/* Who has opened it, by ticket; NULL: anyone. */
const struct secure_guest *dgram_guest(const struct dgram_session *session);
/* Ends those of n sessions, from *at on, whose guests may not stay; *at is 0 after the last. */
void dgram_review(struct dgram *dgram, uint32_t *at, uint32_t n);

/* When the peer was last heard from. */
uint64_t dgram_heard_ns(const struct dgram_session *session);
struct net *dgram_net(const struct dgram_session *session);
struct net_udp_address dgram_address(const struct dgram_session *session);
unsigned dgram_sessions(const struct dgram *dgram);
const struct dgram_counters *dgram_counters(const struct dgram *dgram);

#endif
