/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps pushes until they are durable (docs/availability.rst, "Retained pushes"). A node that sends WIRE_RETAINS
 * answers pushes at once, and says in each reply up to which request a session's changes are durable. Until then the
 * request is kept here as it was sent. When the connection is lost, and there is another one, to the same node or to
 * the one that has taken its place, kept requests are sent again first, in order and one after the other, and then what
 * was in flight. The node executes those that it does not have. So a pull after a push sees the push, whatever happened
 * in between.
 *
 * The memory for this is bounded. A request for which there is no room is sent without WIRE_KEEPS: its reply waits at
 * the node until it and all before it are durable.
 *
 * Threads: a channel's waiter (waiter.c) does this. If there is none, an I/O thread does it every KEEP_LOOK_MS: it
 * sends a ping to learn what is durable, and connects again if the connection is lost. Only over TCP without tickets;
 * otherwise nothing is kept, and replies wait.
 */
#ifndef CLIENT_KEEP_H
#define CLIENT_KEEP_H

#include "client/client.h"

enum {
	KEEP_MIB_DEFAULT = 64, /* for a cluster: STAR_KEEP_MIB */
	KEEP_MIB_MAX = 65536,
	KEEP_COUNT_MAX = 4096,
	/* requests of a connection */ KEEP_SPARE_BYTES =
		8 << 20, /* for a connection: free buffers that may be used again */
	KEEP_LOOK_MS = 10,
	KEEP_SETTLE_MS = 1, /* the same while somebody waits for it */
	KEEP_CLOSE_US = 5000000,
	KEEP_DEATHS_MAX = 16, /* connections in a row that may end while the same request is unanswered */
};

/* A kept request. */ struct kept {
	struct kept *next;
	uint64_t sequence;
	uint32_t bytes; /* of the frame */
	uint32_t room;	/* of its memory */
	_Alignas(16) char frame[];
};

/* Reads STAR_KEEP_MIB. 0, or a negative errno with err. */
int client_keep_init(struct star_cluster *cluster, struct star_error *err);

/* ---- with the channel's lock held ---- */

/* Memory for the next request, if it should be kept. NULL: it should not, or there is no room. */
struct kept *client_keep_make(struct channel *ch, const struct part *part, size_t frame_bytes);
/* The request was written there, without its checksum. */
void client_keep_add(struct channel *ch, struct kept *e);
/* Processes what a reply says about durability. The channel's first_sequence is already past the reply. */
void client_keep_heard(struct channel *ch, const struct wire_frame *frame);
/* Whether the next expected reply is that to a kept request that was sent again; and its sequence number. */
static inline bool keep_awaits(const struct channel *ch)
{
	return ch->keep_asked;
}
static inline uint64_t keep_awaited(const struct channel *ch)
{
	return ch->keep_again->sequence;
}
/* Prepares the next kept request for sending. */
void client_keep_resend(struct channel *ch);
/* Processes its reply. text: as for client_reply_refused. */
void client_keep_resent(struct channel *ch, const struct wire_frame *frame, const char *text, uint64_t now_ns);
/* The connection is lost: kept requests will be sent again on the next one. */
void client_keep_lost(struct channel *ch);
/* Drops all kept requests. */
void client_keep_drop(struct channel *ch, const char *why);
void client_keep_free(struct channel *ch);
/* Whether there is something to do even without a call. */
static inline bool keep_tends(const struct channel *ch)
{
	return ch->keep_first && ch->state != CHANNEL_CLOSED &&
	       (ch->state != CHANNEL_OPEN || ch->keep_again || channel_in_flight(ch));
}

/* A reply has arrived that had waited: so the tables to which its request has pushed are durable too. */
void client_keep_settled(const struct part *part, const struct wire_frame *frame);

/* ---- without the lock ---- */

/* An I/O thread does this for its channels. Returns when to call it again. */
uint64_t client_keep_look(struct io *io, uint64_t now_ns);
/* Waits until nothing is kept any more, or the cluster is closed. It does not count as a call inside the cluster, for
 * star_close. */
int client_keep_settle(struct star_cluster *cluster, uint64_t deadline_ns, struct star_error *err);

#endif
