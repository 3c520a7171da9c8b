/* SPDX-License-Identifier: BSD-3-Clause */
/* The TCP connection to one reactor: its queue, what is in flight on it, and its end. Receiving is in receive.c. */
#include "client/attempt.h"
#include "client/codec.h"
#include "client/connect.h"
#include "client/keep.h"
#include "client/reply.h"
#include "client/seal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32.h"

void client_channel_close(struct channel *ch)
{
	if (ch->fd >= 0)
		close(ch->fd);
	ch->fd = -1;
	ch->state = CHANNEL_CLOSED;
	client_seal_close(ch);
	ch->broken = false;
	ch->resumed = false;
	client_keep_lost(ch);
	if (!ch->keep_first)
		ch->next_sequence = 1;
	ch->first_sequence = ch->resend = ch->next_sequence;
	memset(ch->ring, 0, sizeof(ch->ring));
	ch->out_bytes = ch->out_sent = 0;
	ch->in_bytes = 0;
	ch->pause_until_ns = 0;
	ch->refused = false;
	ch->careful = WIRE_OK;
}

/* Cannot happen: the buffer was made for the whole request. */
static void past_the_end(struct codec_out *out)
{
	abort();
}

/* Writes the next request completely into the send buffer, so that one checksum and one system call are enough. It is
 * one that must be sent again, or that of the part that has waited longest. */
static void build_request(struct channel *ch, uint64_t now_ns)
{
	const bool resends = channel_resends(ch);
	struct part *part = resends ? *channel_slot(ch, ch->resend) : TAILQ_FIRST(&ch->queue);
	const size_t bytes = sizeof(struct wire_frame) + (part ? part->request_bytes : 0);
	struct kept *kept = part && ch->retains ? client_keep_make(ch, part, bytes) : NULL;
	char *to = kept ? kept->frame : ch->out;
	struct codec_out payload = { .at = to + sizeof(struct wire_frame), .end = to + bytes, .next = past_the_end };
	uint32_t checksum;

	if (resends) {
		client_reply_resent(ch, now_ns, to);
	} else {
		TAILQ_REMOVE(&ch->queue, part, link);
		client_request_frame(ch, part, now_ns, to);
	}
	if (kept)
		client_keep_add(ch, kept);
	ch->out_kept = kept;
	ch->out_bytes = bytes;
	if (part)
		client_codec_request(part, &payload);
	ch->out_sent = 0;
	if (ch->seal) {
		client_seal_request(ch);
		return;
	}
	checksum = base_crc32(to, bytes);
	memcpy(to + offsetof(struct wire_frame, checksum), &checksum, sizeof(checksum));
}

static bool may_build(const struct channel *ch)
{
	if (ch->keep_again)
		return !ch->keep_asked;
	return (channel_resends(ch) || channel_may_send(ch)) && seal_lets_send(ch);
}

/* Computed each time, because out moves when it grows, and a request may have been sent in part by then. */
static const char *being_sent(const struct channel *ch)
{
	return ch->out_kept ? ch->out_kept->frame : ch->out;
}

void client_channel_pump(struct channel *ch, uint64_t now_ns)
{
	while (ch->state == CHANNEL_OPEN && !ch->broken) {
		ssize_t n;

		if (ch->out_sent == ch->out_bytes) {
			if (!may_build(ch) || now_ns < ch->pause_until_ns)
				return;
			if (ch->keep_again)
				client_keep_resend(ch);
			else
				build_request(ch, now_ns);
		}
		n = send(ch->fd, being_sent(ch) + ch->out_sent, ch->out_bytes - ch->out_sent,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0) {
			ch->out_sent += (size_t)n;
		} else if (errno == EAGAIN) {
			return;
		} else if (errno != EINTR) {
			/* The waiter reads earlier replies, and then sees the end; shutdown wakes its poll. */
			ch->broken = true;
			shutdown(ch->fd, SHUT_RDWR);
		}
	}
}

void client_channel_check_idle(struct channel *ch, uint64_t now_ns)
{
	char byte;
	ssize_t n;

	if (ch->state != CHANNEL_OPEN || now_ns - ch->heard_ns < IDLE_CHECK_US * UINT64_C(1000))
		return;
	n = recv(ch->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		client_channel_close(ch);
		client_attempt_elsewhere(ch);
	}
}

bool client_channel_reserve(struct channel *ch, size_t bytes)
{
	char *out;

	if (bytes <= ch->out_size)
		return true;
	out = realloc(ch->out, bytes);
	if (!out)
		return false;
	ch->out = out;
	ch->out_size = bytes;
	return true;
}

void client_channel_submit(struct channel *ch, struct part *part, struct waiter *self)
{
	const uint64_t now = clock_ns();

	pthread_mutex_lock(&ch->lock);
	if (!client_channel_reserve(ch, sizeof(struct wire_frame) + part->request_bytes)) {
		struct star_error err;

		part->state = PART_TAKEN;
		pthread_mutex_unlock(&ch->lock);
		star_error_set(&err, -ENOMEM, "out of memory for a request to %s", ch->label);
		client_part_finish(part, &err, self);
		return;
	}
	if (!ch->waiter)
		client_channel_check_idle(ch, now);
	part->state = PART_QUEUED;
	TAILQ_INSERT_TAIL(&ch->queue, part, link);
	if (ch->live++ == 0) /* an attempt that continues from an earlier call gets the full time, too */
		ch->give_up_ns = now + ch->cluster->connect_timeout_ns;
	if (ch->state == CHANNEL_CLOSED)
		ch->state = CHANNEL_WAITING;
	if (ch->state == CHANNEL_WAITING && now >= ch->not_before_ns)
		client_connect_start(ch, now);
	client_channel_pump(ch, now);
	if (!ch->waiter)
		client_waiter_give(part->call->async ? ch->io : part->call->waiter, ch, self);
	else if (ch->waiter != self && (ch->state != CHANNEL_OPEN || ch->out_sent < ch->out_bytes))
		waiter_wake(ch->waiter); /* it polls for something else by now */
	pthread_mutex_unlock(&ch->lock);
}

bool client_channel_cancel(struct channel *ch, struct part *part, int code, uint64_t start_ns, struct star_error *err)
{
	bool cancelled;

	pthread_mutex_lock(&ch->lock);
	cancelled = client_reply_cancel(ch, part, code, start_ns, err);
	pthread_mutex_unlock(&ch->lock);
	return cancelled;
}

/* Takes all parts and closes the connection; under ch->lock. The parts are taken before the lock is released: a call
 * that begins after that belongs to a new connection. */
static void take_and_close(struct channel *ch, uint64_t now_ns, struct parts *taken)
{
	client_reply_take_all(ch, true, taken);
	if (ch->state == CHANNEL_OPEN && !ch->answered) /* connecting again at once would fail in the same way */
		ch->not_before_ns = now_ns + client_backoff_ns(&ch->prng, ch->attempts - 1);
	client_channel_close(ch);
}

static void finish_all(struct parts *taken, const struct star_error *err, struct waiter *self)
{
	struct part *part;

	while ((part = TAILQ_FIRST(taken))) {
		TAILQ_REMOVE(taken, part, link);
		client_part_finish(part, err, self);
	}
}

void client_channel_die(struct channel *ch, int code, const char *why, struct waiter *self)
{
	const uint64_t now = clock_ns();
	struct star_error err;
	struct parts taken;

	pthread_mutex_lock(&ch->lock);
	take_and_close(ch, now, &taken);
	pthread_mutex_unlock(&ch->lock);
	star_error_set(&err, code, "%s %s", ch->label, why);
	finish_all(&taken, &err, self);
}

/* Requests that must be sent again, or were never sent because the node was busy, are sent over a new connection. Under
 * ch->lock; false: that would not help. */
static bool connects_again(struct channel *ch)
{
	if (client_reply_resend(ch)) {
		close(ch->fd);
		ch->fd = -1;
		ch->broken = false;
		ch->out_bytes = ch->out_sent = ch->in_bytes = 0;
		client_seal_close(ch);
		return true;
	}
	if (TAILQ_EMPTY(&ch->queue) || channel_in_flight(ch) || ch->lost >= UNANSWERED_MAX)
		return false;
	client_channel_close(ch);
	return true;
}

void client_channel_lose(struct channel *ch, int code, const char *why, struct waiter *self)
{
	const uint64_t now = clock_ns();
	struct parts taken = TAILQ_HEAD_INITIALIZER(taken);
	struct star_error err;

	pthread_mutex_lock(&ch->lock);
	ch->lost++;
	client_keep_lost(ch);
	client_attempt_elsewhere(ch);
	if (connects_again(ch)) {
		ch->state = CHANNEL_WAITING;
		ch->not_before_ns = now + client_backoff_ns(&ch->prng, ch->attempts);
		ch->give_up_ns = now + ch->cluster->connect_timeout_ns;
	} else {
		take_and_close(ch, now, &taken);
	}
	pthread_mutex_unlock(&ch->lock);
	star_error_set(&err, code, "%s %s", ch->label, why);
	finish_all(&taken, &err, self);
}

/* When to ask for the layout if nothing is received. The node may have been replaced by a standby, known or not: if its
 * process is stopped or hangs, its kernel still accepts what is sent, and the connection does not end. */
static uint64_t layout_due_ns(const struct channel *ch)
{
	const uint64_t since_ns = ch->asked_ns > ch->heard_ns ? ch->asked_ns : ch->heard_ns;

	if ((ch->live == 0 && !ch->keep_first) ||
	    !(ch->state == CHANNEL_CONNECTING || (ch->state == CHANNEL_OPEN && channel_in_flight(ch))))
		return UINT64_MAX;
	return since_ns + OTHER_TIMEOUT_MS * UINT64_C(1000000);
}

int client_channel_interest(struct channel *ch, short *events, uint64_t *until_ns)
{
	uint64_t due_ns;
	int fd;

	pthread_mutex_lock(&ch->lock);
	fd = ch->fd;
	due_ns = layout_due_ns(ch);
	switch (ch->state) {
	case CHANNEL_OPEN:
		*events = POLLIN;
		if (ch->out_sent < ch->out_bytes && !ch->broken)
			*events |= POLLOUT;
		else if (may_build(ch) && !ch->broken)
			*until_ns = ch->pause_until_ns;
		break;
	case CHANNEL_CONNECTING:
		*events = POLLOUT;
		*until_ns = ch->attempt_ns < ch->give_up_ns ? ch->attempt_ns : ch->give_up_ns;
		break;
	case CHANNEL_WAITING:
		*until_ns = ch->not_before_ns < ch->give_up_ns ? ch->not_before_ns : ch->give_up_ns;
		break;
	case CHANNEL_CLOSED:
		break;
	}
	if (due_ns < *until_ns)
		*until_ns = due_ns;
	pthread_mutex_unlock(&ch->lock);
	return fd;
}

void client_channel_serve(struct channel *ch, short revents, uint64_t now_ns, struct waiter *self)
{
	struct parts taken = TAILQ_HEAD_INITIALIZER(taken);
	struct star_error err;
	bool open;

	pthread_mutex_lock(&ch->lock);
	open = ch->state == CHANNEL_OPEN;
	if ((ch->state == CHANNEL_CONNECTING || ch->state == CHANNEL_WAITING) &&
	    !client_connect_continue(ch, revents, now_ns, &err))
		take_and_close(ch, now_ns, &taken);
	client_channel_pump(ch, now_ns);
	if (now_ns >= layout_due_ns(ch)) {
		ch->asked_ns = now_ns;
		client_route_want(ch->cluster, now_ns);
	}
	pthread_mutex_unlock(&ch->lock);
	finish_all(&taken, &err, self);
	if (open && revents & (POLLIN | POLLERR | POLLHUP))
		client_receive_reply(ch, self);
}

bool client_channel_idle(struct channel *ch)
{
	bool idle;

	pthread_mutex_lock(&ch->lock);
	idle = ch->live == 0 && !keep_tends(ch);
	pthread_mutex_unlock(&ch->lock);
	return idle;
}

/*
 * Whether a connection that has only cancelled requests in flight should be closed: it has been silent for SILENT_US,
 * or for longer than connecting may take (after an outage a new connection works sooner than an old one, whose
 * retransmissions have backed off), or it can take no further request. One that is still being made is kept: even if a
 * call's deadline is too short for that, the next call gains from it.
 */
static bool hopeless(const struct channel *ch)
{
	const uint64_t connect_ns = ch->cluster->connect_timeout_ns, silent_ns = SILENT_US * UINT64_C(1000);

	if (ch->retired || ch->broken || (ch->state == CHANNEL_OPEN && !seal_lets_send(ch)))
		return true;
	return channel_in_flight(ch) == IN_FLIGHT_MAX ||
	       (channel_in_flight(ch) && clock_ns() - ch->heard_ns > (connect_ns < silent_ns ? connect_ns : silent_ns));
}

void client_channel_release(struct channel *ch, struct waiter *self)
{
	pthread_mutex_lock(&ch->lock);
	if (ch->live) {
		const struct call *call = client_oldest_live(ch)->call;

		client_waiter_give(call->async ? ch->io : call->waiter, ch, self);
	} else {
		if (hopeless(ch))
			client_channel_close(ch);
		ch->waiter = NULL;
		if (keep_tends(ch))
			client_waiter_give(ch->io, ch, self);
	}
	pthread_mutex_unlock(&ch->lock);
}

void client_channel_retire(struct channel *ch)
{
	pthread_mutex_lock(&ch->lock);
	ch->retired = true;
	client_keep_drop(ch, "the layout does not name it any more");
	if (!ch->waiter)
		client_channel_close(ch);
	pthread_mutex_unlock(&ch->lock);
}
