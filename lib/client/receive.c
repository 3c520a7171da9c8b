/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies: from the socket into the channel's buffer, checked, then copied to the caller's rows. What a node sends is
 * believed only after it was bounded and checked; anything else is the end of the connection.
 */
#include "client/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crc32.h"

enum { ROUNDS = 16 }; /* of one visit, so that a fast node does not keep its keeper from its other channels */

static bool die(struct channel *ch, int code, const char *why, struct keeper *self)
{
	channel_die(ch, code, why, self);
	return false;
}

/* A node's sentence, fit to be printed. */
static void copy_sentence(char *to, size_t size, const char *text, size_t bytes)
{
	size_t n = bytes < size - 1 ? bytes : size - 1;

	for (size_t i = 0; i < n; i++)
		to[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
	to[n] = 0;
}

static void refused(const struct channel *ch, const struct wire_frame *frame, const char *payload,
		    struct star_error *err)
{
	char sentence[WIRE_ERROR_TEXT_MAX + 1];

	if (frame->status == WIRE_STALE_INCARNATION) {
		star_error_set(
			err, -ESTALE,
			"%s was restarted since this cluster was opened, and what it held then is lost: open the "
			"cluster again, and restore or create its tables anew",
			ch->label);
		return;
	}
	copy_sentence(sentence, sizeof(sentence), payload, frame->payload_bytes);
	star_error_set(err, codec_errno(frame->status), "%s: %s", ch->label,
		       sentence[0] ? sentence : wire_status_text(frame->status));
}

/* Whether a request can be sent again without changing what anybody sees: nothing but pulls of the same call went behind it. */
static bool overtakes_nobody(const struct channel *ch, const struct part *part)
{
	for (uint64_t s = ch->first_sequence; s != ch->next_sequence; s++) {
		const struct part *behind = ch->ring[s & (IN_FLIGHT_MAX - 1)];

		if (!behind || behind->call != part->call || behind->pushes || part->pushes)
			return false;
	}
	return true;
}

/* The node was too busy. */
static bool ask_again(struct channel *ch, struct part *part, uint64_t now_ns)
{
	if (!overtakes_nobody(ch, part))
		return false;
	ch->pause_until_ns = now_ns + backoff_ns(&ch->prng, part->busy++);
	part->state = PART_QUEUED;
	TAILQ_INSERT_HEAD(&ch->queue, part, link);
	ch->live++;
	return true;
}

/* Takes the part that this reply answers off the channel; NULL if it was cancelled, or will be asked again. */
static struct part *take(struct channel *ch, const struct wire_frame *frame)
{
	struct part **slot = &ch->ring[frame->sequence & (IN_FLIGHT_MAX - 1)];
	const uint64_t now = clock_ns();
	struct part *part;

	pthread_mutex_lock(&ch->lock);
	part = *slot;
	*slot = NULL;
	ch->first_sequence++;
	ch->heard_ns = now;
	ch->answered = true;
	ch->attempts = 0;
	if (part) {
		part->state = PART_TAKEN;
		ch->live--;
		if (frame->status == WIRE_BUSY && ask_again(ch, part, now))
			part = NULL;
	}
	channel_pump(ch, now);
	pthread_mutex_unlock(&ch->lock);
	return part;
}

/* A whole frame with a good checksum. */
static bool handle(struct channel *ch, const struct wire_frame *frame, const char *payload, struct keeper *self)
{
	struct part *part = take(ch, frame);
	struct star_error err;
	const char *wrong;

	if (!part)
		return true;
	if (frame->status == WIRE_STALE_LAYOUT) {
		part_finish_stale(part, self);
		return true;
	}
	if (frame->status != WIRE_OK) {
		refused(ch, frame, payload, &err);
		part_finish(part, &err, self);
		return true;
	}
	wrong = codec_check(part, payload, frame->payload_bytes);
	if (wrong) {
		star_error_set(&err, -EPROTO, "%s %s", ch->label, wrong);
		part_finish(part, &err, self);
		return die(ch, -EPROTO, wrong, self);
	}
	pthread_mutex_lock(&ch->lock);
	codec_remember(part, payload);
	pthread_mutex_unlock(&ch->lock);
	codec_scatter(part, payload);
	part_finish(part, NULL, self);
	return true;
}

/* What can be said of a frame by its header; NULL if it is good. */
static const char *check_header(struct channel *ch, const struct wire_frame *frame)
{
	uint64_t expected, next;

	if (wire_frame_check(frame, NULL) != WIRE_OK || frame->opcode != WIRE_REPLY)
		return "sent something that is not a reply frame; is that address StarServer's?";
	/* About a frame that it could not read a node cannot say which one it was. */
	if (frame->status == WIRE_BAD_FRAME || frame->status == WIRE_BAD_CHECKSUM)
		return frame->payload_bytes <= WIRE_ERROR_TEXT_MAX ? NULL : "sent an error sentence over the limit";
	if (frame->session != ch->session)
		return "answered a session that is not this one";
	pthread_mutex_lock(&ch->lock);
	expected = ch->first_sequence;
	next = ch->next_sequence;
	pthread_mutex_unlock(&ch->lock);
	if (expected == next)
		return "sent a reply that nobody asked for";
	if (frame->sequence != expected)
		return "answered out of sequence";
	if (frame->status != WIRE_OK && frame->payload_bytes > WIRE_ERROR_TEXT_MAX)
		return "sent an error sentence over the limit";
	return NULL;
}

static bool died_of_our_frame(struct channel *ch, const struct wire_frame *frame, const char *payload,
			      struct keeper *self)
{
	char sentence[WIRE_ERROR_TEXT_MAX + 1], why[WIRE_ERROR_TEXT_MAX + 64];

	copy_sentence(sentence, sizeof(sentence), payload, frame->payload_bytes);
	snprintf(why, sizeof(why), "refused a frame: %s", sentence[0] ? sentence : wire_status_text(frame->status));
	return die(ch, frame->status == WIRE_BAD_CHECKSUM ? -EBADMSG : -EPROTO, why, self);
}

/* Handles the whole frames of the buffer; *need: how much memory the next one takes. */
static bool handle_frames(struct channel *ch, size_t *need, struct keeper *self)
{
	size_t at = 0;

	*need = RECEIVE_BYTES;
	while (ch->in_bytes - at >= sizeof(struct wire_frame)) {
		char *start = ch->in + at;
		struct wire_frame frame;
		const char *wrong;
		size_t bytes;

		memcpy(&frame, start, sizeof(frame));
		wrong = check_header(ch, &frame);
		if (wrong)
			return die(ch, -EPROTO, wrong, self);
		bytes = sizeof(frame) + frame.payload_bytes;
		if (ch->in_bytes - at < bytes) {
			*need = bytes;
			break;
		}
		memset(start + offsetof(struct wire_frame, checksum), 0, sizeof(frame.checksum));
		if (crc32(start, bytes) != frame.checksum)
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

static bool make_room(struct channel *ch, size_t need)
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

static bool lost(struct channel *ch, ssize_t n, int error, struct keeper *self)
{
	char why[128];

	if (n == 0)
		return die(ch, -ECONNRESET, "closed the connection while this call was in flight; its log may say why",
			   self);
	snprintf(why, sizeof(why), "was lost while this call was in flight: %s", strerrordesc_np(error));
	return die(ch, error == EHOSTUNREACH || error == ENETUNREACH ? -EHOSTUNREACH : -ECONNRESET, why, self);
}

bool receive(struct channel *ch, struct keeper *self)
{
	size_t need = RECEIVE_BYTES;

	for (int round = 0; round < ROUNDS; round++) {
		size_t space;
		ssize_t n;

		if (!make_room(ch, need))
			return die(ch, -ENOMEM, "sent a reply for which there is no memory", self);
		space = ch->in_size - ch->in_bytes;
		n = recv(ch->fd, ch->in + ch->in_bytes, space, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n <= 0)
			return lost(ch, n, errno, self);
		ch->in_bytes += (size_t)n;
		if (!handle_frames(ch, &need, self))
			return false;
		if ((size_t)n < space)
			return true; /* that was all for now */
	}
	return true;
}
