/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is kept until it is durable (docs/availability.rst, "retained"). A node that says WIRE_RETAINS answers pushes
 * at once, and says in each reply how far what a session has changed is durable. Until it is, the request stays here
 * as it was sent. When the connection is lost, and there is another one, to the same node or to the one that has taken
 * its place, what is here is sent again first, in its order and one after the other, then what was in flight: the node
 * executes what it does not have. So a pull after a push sees it, whatever has happened between.
 *
 * What is kept is bounded. What finds no room is sent without WIRE_KEEPS, and its reply waits at the node until it, and
 * all before it, is durable.
 *
 * Who does it: whoever is a channel's waiter (waiter.c). While nobody is, an I/O thread looks every KEEP_LOOK_MS: it
 * asks the node by a ping how far it is, and connects again if there is no connection any more. Over TCP only, and not
 * under tickets: there nothing is kept, and replies wait.
 */
#ifndef CLIENT_KEEP_H
#define CLIENT_KEEP_H

#include "client/client.h"

enum {
	KEEP_MIB_DEFAULT = 64, /* of a cluster: STAR_KEEP_MIB */
	KEEP_MIB_MAX = 65536,
	KEEP_COUNT_MAX = 4096,	    /* of a connection */
	KEEP_SPARE_BYTES = 8 << 20, /* of a connection: buffers that wait to be used again */
	KEEP_LOOK_MS = 10,
	KEEP_SETTLE_MS = 1, /* the same while somebody waits for it */
	KEEP_CLOSE_US = 5000000,
	KEEP_DEATHS_MAX = 16, /* connections in a row that end with the same one asked, and not answered */
};

/* A request. */
struct kept {
	struct kept *next;
	uint64_t sequence;
	uint32_t bytes; /* of the frame */
	uint32_t room;	/* of its memory */
	_Alignas(16) char frame[];
};

/* STAR_KEEP_MIB. 0 or a negative errno. */
int client_keep_init(struct star_cluster *cluster, struct star_error *err);

/* ---- with the channel's lock held ---- */

/* Memory for the next request, where it is one that is to be kept; NULL: it is not, or there is no room. */
struct kept *client_keep_make(struct channel *ch, const struct part *part, size_t frame_bytes);
/* It was written there, but for its checksum. */
void client_keep_add(struct channel *ch, struct kept *e);
/* What a reply says of what is kept; the channel's first_sequence is behind it already. */
void client_keep_heard(struct channel *ch, const struct wire_frame *frame);
/* Whether the first reply that is awaited is that to a request that was kept, and is sent again. */
static inline bool keep_awaits(const struct channel *ch)
{
	return ch->keep_asked;
}
static inline uint64_t keep_awaited(const struct channel *ch)
{
	return ch->keep_again->sequence;
}
/* Makes the next one of them what is sent. */
void client_keep_resend(struct channel *ch);
/* Its reply; text: as of client_reply_refused. */
void client_keep_resent(struct channel *ch, const struct wire_frame *frame, const char *text, uint64_t now_ns);
/* The connection is lost: what was answered is sent again by the next one. */
void client_keep_lost(struct channel *ch);
/* None of it is sent any more. */
void client_keep_drop(struct channel *ch, const char *why);
void client_keep_free(struct channel *ch);
/* Whether there is something to be done without a call. */
static inline bool keep_tends(const struct channel *ch)
{
	return ch->keep_first && ch->state != CHANNEL_CLOSED &&
	       (ch->state != CHANNEL_OPEN || ch->keep_again || channel_in_flight(ch));
}

/* A reply that has waited: the tables that the request has pushed to are durable, too. */
void client_keep_settled(const struct part *part, const struct wire_frame *frame);

/* ---- without ---- */

/* An I/O thread looks after its channels; when it is to do so again. */
uint64_t client_keep_look(struct io *io, uint64_t now_ns);
/* Waits until nothing is kept any more, or the cluster is closed. Within star_close, inside is not entered. */
int client_keep_settle(struct star_cluster *cluster, uint64_t deadline_ns, struct star_error *err);

#endif
