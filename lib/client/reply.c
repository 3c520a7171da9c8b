/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all transports share: a request's header, what a reply's header says, and how long to wait before the next
 * attempt. Changes only the given channel; its lock is held.
 */
#include "client/reply.h"
#include "client/attempt.h"
#include "client/codec.h"
#include "client/connect.h"
#include "client/keep.h"
#include "client/seal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"

_Static_assert((IN_FLIGHT_MAX & (IN_FLIGHT_MAX - 1)) == 0, "the ring is indexed by a mask");

static inline void write_frame(const struct channel *ch, const struct part *part, uint64_t sequence, unsigned flags,
			       uint64_t now_ns, char *to)
{
	const struct call *call = part->call;
	const uint64_t left_us = call->deadline_ns > now_ns ? (call->deadline_ns - now_ns) / 1000 : 0;
	struct unaligned_frame *at = (struct unaligned_frame *)to;

	at->frame = (struct wire_frame){
		.magic = WIRE_MAGIC,
		.version = WIRE_VERSION,
		.opcode = WIRE_EXECUTE,
		.flags = (uint8_t)(flags | (ch->resumed ? WIRE_GOES_ON : 0) |
				   (sequence != ch->first_sequence || ch->refused ? WIRE_BEHIND : 0)),
		.session = ch->session,
		.sequence = sequence,
		.epoch = part->epoch,
		.incarnation = ch->incarnation,
		.deadline_us = left_us > UINT32_MAX ? UINT32_MAX
			       : left_us	    ? (uint32_t)left_us
						    : 1,
		.payload_bytes = part->request_bytes,
	};
}

void client_request_frame(struct channel *ch, struct part *part, uint64_t now_ns, char *to)
{
	const uint64_t sequence = ch->next_sequence++;

	ch->refused = false; /* this is that request, or there was none: see channel_may_send */
	part->again = false;
	write_frame(ch, part, sequence, 0, now_ns, to);
	ch->resend = ch->next_sequence;
	if (channel_in_flight(ch) == 1)
		ch->heard_ns = now_ns;
	*channel_slot(ch, sequence) = part;
	part->state = PART_SENT;
}

void client_request_ping(const struct channel *ch, uint64_t sequence, char *to)
{
	((struct unaligned_frame *)to)->frame = (struct wire_frame){
		.magic = WIRE_MAGIC,
		.version = WIRE_VERSION,
		.opcode = WIRE_PING,
		.flags = ch->resumed ? WIRE_GOES_ON : 0,
		.session = ch->session,
		.sequence = sequence,
	};
}

bool client_reply_resend(struct channel *ch)
{
	if (ch->live == 0 || (channel_in_flight(ch) == 0 && !ch->keep_first) || ch->lost >= UNANSWERED_MAX)
		return false;
	ch->resend = ch->first_sequence;
	ch->resumed = true;
	return true;
}

struct part *client_reply_resent(struct channel *ch, uint64_t now_ns, char *to)
{
	const uint64_t sequence = ch->resend++;
	struct part *part = *channel_slot(ch, sequence);

	if (part) /* a pull may simply be executed again */
		write_frame(ch, part, sequence, part->pushes || part->deletes ? WIRE_RESENT : 0, now_ns, to);
	else
		client_request_ping(ch, sequence, to);
	return part;
}

/* Copies a node's message, and makes it printable. */
static void copy_sentence(char *to, size_t size, const char *text, size_t bytes)
{
	size_t n = bytes < size - 1 ? bytes : size - 1;

	for (size_t i = 0; i < n; i++)
		to[i] = base_printable(text[i]);
	to[n] = 0;
}

void client_reply_busy(struct channel *ch, const char *text, uint32_t bytes)
{
	copy_sentence(ch->busy_why, sizeof(ch->busy_why), text, bytes);
}

void client_reply_refused(const struct channel *ch, const struct wire_frame *frame, const char *text,
			  struct star_error *err)
{
	char sentence[WIRE_ERROR_TEXT_MAX + 1];

	if (frame->status == WIRE_STALE_INCARNATION) {
		star_error_set(
			err, -ESTALE,
			"%s was restarted since this cluster was opened, and what it held then is lost: open the "
			"cluster again, and restore or create its tables again",
			ch->label);
		return;
	}
	copy_sentence(sentence, sizeof(sentence), text, frame->payload_bytes);
	star_error_set(err, client_codec_errno(frame->status), "%s: %s", ch->label,
		       sentence[0] ? sentence : wire_status_text(frame->status));
}

void client_reply_refused_frame(const struct wire_frame *frame, const char *text, char *why, size_t size)
{
	char sentence[WIRE_ERROR_TEXT_MAX + 1];

	copy_sentence(sentence, sizeof(sentence), text, frame->payload_bytes);
	snprintf(why, size, "refused a frame: %s", sentence[0] ? sentence : wire_status_text(frame->status));
}

/* After requests that must be sent again, because they were sent in that order. */
static void queue_again(struct channel *ch, struct part *part)
{
	struct part *next = TAILQ_FIRST(&ch->queue);

	while (next && next->again)
		next = TAILQ_NEXT(next, link);
	if (next)
		TAILQ_INSERT_BEFORE(next, part, link);
	else
		TAILQ_INSERT_TAIL(&ch->queue, part, link);
	part->again = true;
	part->state = PART_QUEUED;
	ch->live++;
}

/*
 * The node was too busy. Requests keep their order: those sent after this one are refused as well (WIRE_BEHIND), and
 * nothing more is sent until all of them have been answered.
 */
static void ask_later(struct channel *ch, struct part *part, uint64_t now_ns)
{
	ch->pause_until_ns = now_ns + client_backoff_ns(&ch->prng, part->busy++);
	ch->refused = true;
	queue_again(ch, part);
}

static bool is_lost(const struct part *part)
{
	for (const struct slice *s = part->slices; s; s = s->next)
		if (part->call->ops[s->op].at_once)
			return true;
	return false;
}

int client_reply_repeated(const struct channel *ch, const struct part *part, struct star_error *err)
{
	return is_lost(part)
		       ? star_error_set(err, -EREMOTEIO, "%s has applied a push, and its reply was lost", ch->label)
		       : 0;
}

/* Its pushes were applied, but the results of its later pulls were lost. */
static bool ask_for_pulls(struct channel *ch, struct part *part)
{
	if (is_lost(part) || !client_codec_leave_pulls(part))
		return false;
	queue_again(ch, part);
	return true;
}

/* What its runs use is missing, or there is no room for what they keep; nothing of the request was executed. Requests
 * that other calls have sent after it are executed before it. */
static bool ask_alone(struct channel *ch, struct part *part)
{
	if (!client_codec_bring_all(part))
		return false;
	queue_again(ch, part);
	return true;
}

struct part *client_reply_take(struct channel *ch, const struct wire_frame *frame, uint64_t now_ns)
{
	struct part **slot = channel_slot(ch, frame->sequence), *part = *slot;

	*slot = NULL;
	ch->first_sequence++;
	ch->heard_ns = now_ns;
	ch->answered = true;
	ch->attempts = 0;
	ch->lost = 0;
	ch->careful = wire_status_is_busy(frame->status) ? frame->status : WIRE_OK;
	if (!part)
		return NULL;
	part->state = PART_TAKEN;
	ch->live--;
	if (ch->careful) {
		ask_later(ch, part, now_ns);
		return NULL;
	}
	if (((frame->status == WIRE_GONE || frame->status == WIRE_NOT_KEPT) && ask_alone(ch, part)) ||
	    (frame->status == WIRE_REPEATED && ask_for_pulls(ch, part)))
		return NULL;
	return part;
}

const char *client_reply_check(const struct channel *ch, const struct wire_frame *frame)
{
	if (wire_frame_check(frame, NULL) != WIRE_OK || frame->opcode != WIRE_REPLY)
		return "sent something that is not a reply frame; is that address StarServer's?";
	/* If a node cannot read a frame, its answer cannot say which request that was. */
	if (frame->status == WIRE_BAD_FRAME || frame->status == WIRE_BAD_CHECKSUM)
		return frame->payload_bytes <= WIRE_ERROR_TEXT_MAX ? NULL : "sent an error sentence over the limit";
	if (frame->status == WIRE_REPEATED && !ch->resumed)
		return "says that it has executed before what was sent once";
	if (frame->session != ch->session)
		return "answered a session that is not this one";
	if (ch->keep_asked ? frame->sequence != keep_awaited(ch) : ch->first_sequence == ch->resend)
		return "sent a reply that nobody asked for";
	if (!ch->keep_asked && frame->sequence != ch->first_sequence)
		return "answered out of sequence";
	if (frame->status != WIRE_OK && frame->payload_bytes > WIRE_ERROR_TEXT_MAX)
		return "sent an error sentence over the limit";
	return NULL;
}

/* Why a part was cancelled. */
static int cancel_error(const struct channel *ch, int code, uint64_t start_ns, struct star_error *err)
{
	const double waited_s = (double)(clock_ns() - start_ns) * 1e-9;

	if (code == -EINTR)
		return star_error_set(err, code, "interrupted after %.3f s, while a request to %s was in flight",
				      waited_s, ch->label);
	if (code != -ETIMEDOUT)
		return star_error_set(err, code, "the cluster was closed while a request to %s was in flight",
				      ch->label);
	if (ch->state == CHANNEL_OPEN && wire_status_is_quota(ch->careful))
		return star_error_set(err, -EDQUOT,
				      "%s has refused a request for %.3f s: %s; send less, or have the quota raised "
				      "(security.rights of the nodes)",
				      ch->label, waited_s, wire_status_text(ch->careful));
	if (ch->state == CHANNEL_OPEN && ch->careful)
		return star_error_set(err, -EBUSY, "%s has refused requests for %.3f s, it is overloaded: %s",
				      ch->label, waited_s, ch->busy_why);
	if (ch->state == CHANNEL_OPEN)
		return star_error_set(err, code, "%s did not answer within %.3f s", ch->label, waited_s);
	if ((ch->connect_error == ENOKEY || ch->connect_error == EKEYREJECTED) &&
	    client_tickets_why(ch->cluster, ch->task, err))
		return err->code;
	if (ch->connect_error == EDQUOT)
		return client_connect_over_quota(ch, err);
	if (ch->connect_error)
		return star_error_set(err, -ch->connect_error,
				      "cannot connect to %s within %.3f s: %s; is starserver running "
				      "there, and its data address reachable from here?",
				      ch->label, waited_s, strerrordesc_np(ch->connect_error));
	return star_error_set(err, code, "no connection to %s within %.3f s; is its data address reachable from here?",
			      ch->label, waited_s);
}

bool client_reply_cancel(struct channel *ch, struct part *part, int code, uint64_t start_ns, struct star_error *err)
{
	if (part->state == PART_QUEUED) {
		TAILQ_REMOVE(&ch->queue, part, link);
	} else if (part->state == PART_SENT) {
		for (uint64_t s = ch->first_sequence; s != ch->next_sequence; s++)
			if (*channel_slot(ch, s) == part)
				*channel_slot(ch, s) = NULL;
	} else {
		return false;
	}
	part->state = PART_TAKEN;
	ch->live--;
	cancel_error(ch, code, start_ns, err);
	return true;
}

void client_reply_take_all(struct channel *ch, bool queued_too, struct parts *taken)
{
	struct part *part;

	TAILQ_INIT(taken);
	for (uint64_t s = ch->first_sequence; s != ch->next_sequence; s++)
		if (*channel_slot(ch, s))
			TAILQ_INSERT_TAIL(taken, *channel_slot(ch, s), link);
	if (queued_too)
		TAILQ_CONCAT(taken, &ch->queue, link);
	TAILQ_FOREACH(part, taken, link)
	{
		part->state = PART_TAKEN;
		ch->live--;
	}
}

struct part *client_oldest_live(struct channel *ch)
{
	for (uint64_t s = ch->first_sequence; s != ch->next_sequence; s++)
		if (*channel_slot(ch, s))
			return *channel_slot(ch, s);
	return TAILQ_FIRST(&ch->queue);
}
