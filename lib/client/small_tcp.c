/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small call over TCP (small.h). If nobody uses the connection, the calling thread sends the request and becomes the
 * channel's waiter while it holds the lock once. It holds the lock a second time to take the reply and release the
 * channel. It keeps the rules of waiter.c; all other cases are left to that.
 */
#include "client/keep.h"
#include "client/small.h"

#include <errno.h>

#include "base/clock.h"

enum {
	LOOKS = 256,	       /* at a socket, with polling: longer than any reply takes for which this matters */
	PATIENCE_NS = 1000000, /* without polling; then client_waiter_wait also handles deadlines and interruptions */
};

enum sent { NOT_SENT, SENT_PARTLY, SENT };

static inline bool is_unused(const struct channel *ch, const struct small *small)
{
	return !ch->waiter && !ch->seal && !ch->keep_again && ch->first_sequence == ch->next_sequence &&
	       ch->out_sent == ch->out_bytes && !ch->in_bytes && ch->out_size >= small->request_bytes &&
	       ch->in_size >= small->reply_bytes && !ch->broken && !ch->retired;
}

/* NOT_SENT: nothing has changed. */
static enum sent send_first(struct channel *ch, struct call *call, struct waiter *k, uint64_t now_ns)
{
	const struct small *small = &call->small;
	enum sent sent = NOT_SENT;

	pthread_mutex_lock(&ch->lock);
	if (is_unused(ch, small)) {
		client_channel_check_idle(ch, now_ns);
		sent = small_may_send(ch, now_ns) ? SENT_PARTLY : NOT_SENT;
	}
	if (sent) {
		struct kept *kept =
			small->pushes && ch->retains ? client_keep_make(ch, small->part, small->request_bytes) : NULL;
		char *to = kept ? kept->frame : ch->out;
		ssize_t n;

		small_write(call, ch, to, kept ? WIRE_KEEPS : 0);
		if (kept)
			client_keep_add(ch, kept);
		small_sent(ch, call, now_ns);
		ch->waiter = k;
		ch->out_kept = kept;
		n = send(ch->fd, to, small->request_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
		ch->out_bytes = small->request_bytes;
		ch->out_sent = n > 0 ? (size_t)n : 0; /* client_channel_pump will get the error again */
		sent = ch->out_sent == ch->out_bytes ? SENT : SENT_PARTLY;
	}
	pthread_mutex_unlock(&ch->lock);
	return sent;
}

/* The number of bytes that have come; 0: client_waiter_wait finds out why there are none. */
static size_t await_reply(struct channel *ch, struct waiter *k)
{
	static const struct timespec patience = { .tv_nsec = PATIENCE_NS };
	const bool polling = k->cluster->polling;
	ssize_t n;

	if (!polling) {
		k->polls[0] = (struct pollfd){ .fd = k->event_fd, .events = POLLIN };
		k->polls[1] = (struct pollfd){ .fd = ch->fd, .events = POLLIN };
		if (ppoll(k->polls, 2, &patience, NULL) != 1 || k->polls[1].revents != POLLIN)
			return 0;
	}
	for (int look = 0; look < LOOKS; look++) {
		n = recv(ch->fd, ch->in, ch->in_size, MSG_DONTWAIT);
		if (n > 0)
			return (size_t)n;
		if (n == 0 || errno != EAGAIN || !polling)
			return 0;
		__builtin_ia32_pause();
	}
	return 0;
}

/* Evaluates the reply that has come. */
static inline void look_at_kept(struct channel *ch, const struct call *call)
{
	struct wire_frame frame;

	memcpy(&frame, ch->in, sizeof(frame));
	if (!(frame.flags & WIRE_RETAINS) && !ch->keep_first && !ch->retains)
		return;
	client_keep_heard(ch, &frame);
	client_keep_settled(call->small.part, &frame);
}

/* Whether nobody else waits for the channel; then it is released. */
static bool take_reply(struct channel *ch, struct call *call)
{
	bool alone;

	pthread_mutex_lock(&ch->lock);
	small_take(ch, call, call->start_ns);
	look_at_kept(ch, call);
	alone = ch->first_sequence == ch->next_sequence && TAILQ_EMPTY(&ch->queue) && !ch->retired && !ch->broken;
	if (alone)
		ch->waiter = NULL;
	pthread_mutex_unlock(&ch->lock);
	return alone;
}

void client_small_tcp(struct call *call, struct waiter *k)
{
	struct channel *ch = call->small.part->channel;
	const uint64_t now = clock_ns();
	const enum sent sent = client_waiter_may_keep(k) ? send_first(ch, call, k, now) : NOT_SENT;
	size_t n;

	if (sent == NOT_SENT) {
		client_transport_tcp.submit(call, k);
		return;
	}
	call_begin(call, now);
	k->kept[k->kept_count++] = ch;
	call->remaining = 1;
	atomic_store_explicit(&call->finished, CALL_RUNS, memory_order_relaxed);
	n = sent == SENT ? await_reply(ch, k) : 0;
	if (n == call->small.reply_bytes && small_take_row(call, ch, ch->in)) {
		if (take_reply(ch, call))
			k->kept_count = 0;
		else
			client_waiter_release(k, true);
	} else if (n) {
		client_receive_more(ch, n, k);
	}
}
