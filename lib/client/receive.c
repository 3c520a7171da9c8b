/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies: read from the socket into the channel's buffer, checked, then copied to the caller's rows. Nothing that a
 * node sends is trusted before its size is limited and it is checked; anything invalid ends the connection.
 */
#include "client/codec.h"
#include "client/connect.h"
#include "client/keep.h"
#include "client/reply.h"
#include "client/seal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crc32.h"

enum { ROUNDS = 16 }; /* per visit, so that a fast node does not keep its waiter from its other channels */

static bool die(struct channel *ch, int code, const char *why, struct waiter *self)
{
	client_channel_die(ch, code, why, self);
	return false;
}

/* Removes the part that this reply answers from the channel; NULL: it was cancelled, or will be asked again. */
static struct part *take_part_of(struct channel *ch, const struct wire_frame *frame, const char *payload)
{
	const uint64_t now = clock_ns();
	struct part *part = NULL;

	pthread_mutex_lock(&ch->lock);
	if (keep_awaits(ch)) {
		client_keep_resent(ch, frame, payload, now);
	} else {
		part = client_reply_take(ch, frame, now);
		if (ch->careful)
			client_reply_busy(ch, payload, frame->payload_bytes);
		client_keep_heard(ch, frame);
	}
	client_channel_pump(ch, now);
	pthread_mutex_unlock(&ch->lock);
	return part;
}

static void past_the_end(struct codec_in *in)
{
	abort(); /* cannot happen: what is read was checked for size first */
}

/* Handles a complete frame with a correct checksum. */
static bool handle(struct channel *ch, const struct wire_frame *frame, const char *payload, struct waiter *self)
{
	struct part *part = take_part_of(ch, frame, payload);
	const struct codec_in in = { .at = payload, .end = payload + frame->payload_bytes, .next = past_the_end };
	struct star_error err;
	const char *wrong;

	if (!part)
		return true;
	if (frame->status == WIRE_STALE_LAYOUT) {
		client_part_finish_stale(part, self);
		return true;
	}
	if (frame->status == WIRE_REPEATED) {
		client_part_finish(part, client_reply_repeated(ch, part, &err) < 0 ? &err : NULL, self);
		return true;
	}
	if (frame->status != WIRE_OK) {
		client_reply_refused(ch, frame, payload, &err);
		client_part_finish(part, &err, self);
		return true;
	}
	wrong = client_codec_check(part, in, frame->payload_bytes);
	if (wrong) {
		star_error_set(&err, -EPROTO, "%s %s", ch->label, wrong);
		client_part_finish(part, &err, self);
		return die(ch, -EPROTO, wrong, self);
	}
	pthread_mutex_lock(&ch->lock);
	client_codec_remember(part, in);
	pthread_mutex_unlock(&ch->lock);
	client_keep_settled(part, frame);
	client_codec_scatter(part, in);
	client_part_finish(part, NULL, self);
	return true;
}

static const char *check_frame_header(struct channel *ch, const struct wire_frame *frame)
{
	const char *wrong;

	pthread_mutex_lock(&ch->lock);
	wrong = client_reply_check(ch, frame);
	pthread_mutex_unlock(&ch->lock);
	return wrong;
}

static bool died_of_our_frame(struct channel *ch, const struct wire_frame *frame, const char *payload,
			      struct waiter *self)
{
	char why[WIRE_ERROR_TEXT_MAX + 64];

	client_reply_refused_frame(frame, payload, why, sizeof(why));
	return die(ch, frame->status == WIRE_BAD_CHECKSUM ? -EBADMSG : -EPROTO, why, self);
}

/* The connection ended before any request was sent on it. */
static bool not_welcome(struct channel *ch, int error)
{
	pthread_mutex_lock(&ch->lock);
	if (error != EBUSY && error != EDQUOT) /* its refusal may have been lost */
		client_tickets_refused(ch, &ch->address, ch->seal->by.number);
	client_connect_failed(ch, error, clock_ns());
	pthread_mutex_unlock(&ch->lock);
	return false;
}

static bool take_welcome(struct channel *ch, const struct wire_frame *frame, const char *payload)
{
	bool good;

	pthread_mutex_lock(&ch->lock);
	good = client_seal_welcome(ch, frame, payload);
	if (good)
		client_channel_pump(ch, clock_ns());
	pthread_mutex_unlock(&ch->lock);
	return good || not_welcome(ch, frame->status == WIRE_BUSY		 ? EBUSY
				       : frame->status == WIRE_QUOTA_CONNECTIONS ? EDQUOT
										 : EKEYREJECTED);
}

/* Anyone on the path can end the connection in this way, so nothing else may follow: what is in flight is sent over
 * another one. */
static bool bad_record(struct channel *ch, const char *wrong, struct waiter *self)
{
	if (ch->seal->stage == SEAL_GREETING)
		return not_welcome(ch, EPROTO);
	client_channel_lose(ch, -EBADMSG, wrong, self);
	return false;
}

/* Opens a complete record. */
static bool open_record(struct channel *ch, struct wire_frame *frame, char *payload, struct waiter *self)
{
	const char *wrong = NULL;

	if (!client_seal_open(ch, frame, payload))
		wrong = "did not send this reply, or it was changed on the way";
	else if (frame->status == WIRE_NO_TICKET)
		wrong = "no longer accepts the key, or found a request changed on the way";
	if (wrong)
		return bad_record(ch, wrong, self);
	wrong = check_frame_header(ch, frame);
	return !wrong || die(ch, -EPROTO, wrong, self);
}

/* Checks a header by itself. If it is a record's, nothing else in it is trusted before its tag is checked. */
static const char *look_at_header(struct channel *ch, const struct wire_frame *frame)
{
	if (!ch->seal)
		return check_frame_header(ch, frame);
	return wire_frame_check(frame, NULL) == WIRE_OK && frame->opcode == WIRE_REPLY
		       ? NULL
		       : "sent something that is not a reply frame; is that address StarServer's?";
}

/* Handles all complete frames in the buffer; *need: how much memory the next one takes. */
static bool handle_frames(struct channel *ch, size_t *need, struct waiter *self)
{
	size_t at = 0;

	*need = RECEIVE_BYTES;
	while (ch->in_bytes - at >= sizeof(struct wire_frame)) {
		char *start = ch->in + at;
		struct wire_frame frame;
		const char *wrong;
		size_t bytes;

		memcpy(&frame, start, sizeof(frame));
		wrong = look_at_header(ch, &frame);
		if (wrong && ch->seal)
			return bad_record(ch, wrong, self);
		if (wrong)
			return die(ch, -EPROTO, wrong, self);
		bytes = sizeof(frame) + frame.payload_bytes;
		if (ch->in_bytes - at < bytes) {
			*need = bytes;
			break;
		}
		if (ch->seal && ch->seal->stage == SEAL_GREETING) {
			if (!take_welcome(ch, &frame, start + sizeof(frame)))
				return false;
			at += bytes;
			continue;
		}
		if (ch->seal && !open_record(ch, &frame, start + sizeof(frame), self))
			return false;
		memset(start + offsetof(struct wire_frame, checksum), 0, sizeof(frame.checksum));
		if (!ch->seal && base_crc32(start, bytes) != frame.checksum)
			return die(ch, -EBADMSG, "sent a reply whose checksum does not match", self);
		if (frame.status == WIRE_BAD_FRAME || frame.status == WIRE_BAD_CHECKSUM)
			return died_of_our_frame(ch, &frame, start + sizeof(frame), self);
		if (!handle(ch, &frame, start + sizeof(frame), self))
			return false;
		at += bytes;
	}
	ch->in_bytes -= at;
	memmove(ch->in, ch->in + at, ch->in_bytes);
	return true;
}

static bool make_receive_room(struct channel *ch, size_t need)
{
	char *in;

	if (need <= ch->in_size)
		return true;
	in = realloc(ch->in, need);
	if (!in)
		return false;
	ch->in = in;
	ch->in_size = need;
	return true;
}

static bool connection_lost(struct channel *ch, ssize_t n, int error, struct waiter *self)
{
	char why[128];

	if (ch->seal && ch->seal->stage == SEAL_GREETING)
		return not_welcome(ch, n ? error : ECONNRESET);
	if (n == 0)
		snprintf(why, sizeof(why), "closed the connection while this call was in flight; its log may say why");
	else
		snprintf(why, sizeof(why), "was lost while this call was in flight: %s", strerrordesc_np(error));
	client_channel_lose(ch, error == EHOSTUNREACH || error == ENETUNREACH ? -EHOSTUNREACH : -ECONNRESET, why, self);
	return false;
}

bool client_receive_more(struct channel *ch, size_t bytes, struct waiter *self)
{
	size_t need;

	ch->in_bytes += bytes;
	if (!handle_frames(ch, &need, self))
		return false;
	return make_receive_room(ch, need) || die(ch, -ENOMEM, "sent a reply for which there is no memory", self);
}

bool client_receive_reply(struct channel *ch, struct waiter *self)
{
	size_t need = RECEIVE_BYTES;

	for (int round = 0; round < ROUNDS; round++) {
		size_t space;
		ssize_t n;

		if (!make_receive_room(ch, need))
			return die(ch, -ENOMEM, "sent a reply for which there is no memory", self);
		space = ch->in_size - ch->in_bytes;
		n = recv(ch->fd, ch->in + ch->in_bytes, space, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n <= 0)
			return connection_lost(ch, n, n ? errno : 0, self);
		ch->in_bytes += (size_t)n;
		if (!handle_frames(ch, &need, self))
			return false;
		if ((size_t)n < space)
			return true; /* there is no more at the moment */
	}
	return true;
}
