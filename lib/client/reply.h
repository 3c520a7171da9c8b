/* SPDX-License-Identifier: BSD-3-Clause */
/* What every transport does with a request's and a reply's header. */
#ifndef CLIENT_REPLY_H
#define CLIENT_REPLY_H

#include "client/client.h"

/* Writes the header of the next request, without its checksum; its part is in the channel's ring then, and counts as
 * sent. */
void client_request_frame(struct channel *ch, struct part *part, uint64_t now_ns, char *to);
/*
 * The connection is lost. Whether what is in flight is to be sent again, by another one; else it is to be failed. Then,
 * once there is one, client_reply_resent writes the header of the next request, and returns its part: NULL, and an
 * empty frame, for one that was cancelled meanwhile, whose number must not be left out.
 */
bool client_reply_resend(struct channel *ch);
static inline bool channel_resends(const struct channel *ch)
{
	return ch->resend != ch->next_sequence;
}
struct part *client_reply_resent(struct channel *ch, uint64_t now_ns, char *to);
/* A request of this number that does nothing, without its checksum. */
void client_request_ping(const struct channel *ch, uint64_t sequence, char *to);
/* What can be said of a reply's frame by its header; NULL if it is good. With the channel's lock held. */
const char *client_reply_check(const struct channel *ch, const struct wire_frame *frame);
/* Takes the part that this reply answers off the channel; NULL if it was cancelled, or will be asked again. A part may
 * have been executed before: then there is nothing to be read of the reply (WIRE_REPEATED). With the lock. */
struct part *client_reply_take(struct channel *ch, const struct wire_frame *frame, uint64_t now_ns);
/* After client_reply_take, where it has found the node busy (channel.careful): text is what it says. With the lock. */
void client_reply_busy(struct channel *ch, const char *text, uint32_t bytes);
/* Of one that was executed before: 0, or a negative errno if its results are lost for good (STAR_AT_ONCE). */
int client_reply_repeated(const struct channel *ch, const struct part *part, struct star_error *err);
/* Why a node refused a request: text is what it says, bytes long. */
void client_reply_refused(const struct channel *ch, const struct wire_frame *frame, const char *text,
			  struct star_error *err);
/* The same for a frame that it could not read. */
void client_reply_refused_frame(const struct wire_frame *frame, const char *text, char *why, size_t size);
/* Takes a part that nobody has answered off the queue, or off what was sent (its reply is dropped), and says why in
 * err. With the lock. False: it is taken. */
bool client_reply_cancel(struct channel *ch, struct part *part, int code, uint64_t start_ns, struct star_error *err);
/* Takes off all that was sent, in its order, and what is queued, if that is asked for. The caller empties the ring.
 * With the lock. */
void client_reply_take_all(struct channel *ch, bool queued_too, struct parts *taken);
/* The part that waits longest; NULL: there is none. With the lock. */
struct part *client_oldest_live(struct channel *ch);

#endif
