/* SPDX-License-Identifier: BSD-3-Clause */
/* Headers of requests and replies, for all transports. With the channel's lock held, unless a comment says
 * otherwise. */
#ifndef CLIENT_REPLY_H
#define CLIENT_REPLY_H

#include "client/client.h"

/* Writes the header of the next request, without its checksum. Its part is then in the channel's ring, and counts as
 * sent. */
void client_request_frame(struct channel *ch, struct part *part, uint64_t now_ns, char *to);
/*
 * The connection is lost. Returns whether requests in flight are to be sent again on another connection; otherwise they
 * have to be failed. Once there is a connection, client_reply_resent writes the header of the next one and returns its
 * part; NULL, with an empty frame, if it was cancelled meanwhile, because its sequence number must not be left out.
 */
bool client_reply_resend(struct channel *ch);
static inline bool channel_resends(const struct channel *ch)
{
	return ch->resend != ch->next_sequence;
}
struct part *client_reply_resent(struct channel *ch, uint64_t now_ns, char *to);
/* Writes a request with this number that does nothing, without its checksum. */
void client_request_ping(const struct channel *ch, uint64_t sequence, char *to);
/* Checks a reply's header. NULL if it is valid, else what is wrong. */
const char *client_reply_check(const struct channel *ch, const struct wire_frame *frame);
/* Removes the part that this reply answers from the channel. NULL: it was cancelled, or will be sent again. If it had
 * been executed before, the reply has no results (WIRE_REPEATED). */
struct part *client_reply_take(struct channel *ch, const struct wire_frame *frame, uint64_t now_ns);
/* Call it after client_reply_take if that has found the node busy (channel.careful). text: the node's message. */
void client_reply_busy(struct channel *ch, const char *text, uint32_t bytes);
/* For a part that had been executed before: 0, or a negative errno if its results are lost (STAR_AT_ONCE). */
int client_reply_repeated(const struct channel *ch, const struct part *part, struct star_error *err);
/* Sets err for a request that a node has refused. text: the node's message. */
void client_reply_refused(const struct channel *ch, const struct wire_frame *frame, const char *text,
			  struct star_error *err);
/* The same for a frame that the node could not read. */
void client_reply_refused_frame(const struct wire_frame *frame, const char *text, char *why, size_t size);
/* Removes a part that has no reply yet from the queue or from those in flight (its reply will be dropped), and sets
 * err. false: it was already removed. */
bool client_reply_cancel(struct channel *ch, struct part *part, int code, uint64_t start_ns, struct star_error *err);
/* Removes all parts in flight, in order, and with queued_too also those in the queue. The caller empties the ring. */
void client_reply_take_all(struct channel *ch, bool queued_too, struct parts *taken);
/* The part that has waited longest; NULL: there is none. */
struct part *client_oldest_live(struct channel *ch);

#endif
