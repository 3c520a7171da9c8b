/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests are written from the caller's memory directly into mbufs; replies are copied once, from the received mbufs
 * to the caller's memory. Everything that a node sends is bounded and checked first.
 */
#include "client_dpdk/poller.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/codec.h"
#include "client/reply.h"
#include "client/small.h"
#include "rpc/chain.h"

enum { KEPT_FIRST = 64 };

static void next_out(struct codec_out *out)
{
	struct rte_mbuf *m = out->piece;

	m = m->next; /* it exists: the chain was made for the whole request */
	out->piece = m;
	out->at = rte_pktmbuf_mtod(m, char *);
	out->end = out->at + m->data_len;
}

static void next_in(struct codec_in *in)
{
	const struct rte_mbuf *m = in->piece;

	m = m->next; /* it exists: the length was checked before */
	in->piece = m;
	in->at = rte_pktmbuf_mtod(m, const char *);
	in->end = in->at + m->data_len;
}

static void free_chain(struct rte_mbuf *m)
{
	while (m) {
		struct rte_mbuf *next = m->next;

		m->next = NULL;
		m->nb_segs = 1;
		rte_pktmbuf_free_seg(m);
		m = next;
	}
}

/* Called by the owner of a view: the driver frees the mbufs in its next turn. */
static void release_view(struct star_view *view)
{
	struct poller *p = view->transport;

	view->next = atomic_load_explicit(&p->released, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&p->released, &view->next, view, memory_order_release,
						      memory_order_relaxed))
		;
}

void dpdk_poller_reclaim(struct poller *p)
{
	struct star_view *view = atomic_exchange_explicit(&p->released, NULL, memory_order_acquire);

	while (view) {
		struct star_view *next = view->next;

		p->viewed -= view->kept_count;
		rte_pktmbuf_free_bulk((struct rte_mbuf **)view->kept, view->kept_count);
		free(view->kept);
		free(view);
		view = next;
	}
}

/* Mbufs for n bytes, one for each packet. NULL: there are not enough. */
static struct rte_mbuf *make_chain(struct dgram_session *session, uint32_t bytes)
{
	const uint32_t most = dgram_payload(session);
	struct rte_mbuf *first = NULL, **link = &first;

	while (bytes) {
		const uint32_t n = bytes < most ? bytes : most;
		struct rte_mbuf *m = dgram_alloc(session);

		if (!m) {
			free_chain(first);
			return NULL;
		}
		m->data_len = (uint16_t)n;
		m->pkt_len = n;
		*link = m;
		link = &m->next;
		bytes -= n;
	}
	return first;
}

/* part: NULL for one that was cancelled, and still has to be sent again, without operations. */
static bool send_message(struct stream *s, struct part *part, bool again)
{
	const uint32_t bytes = (uint32_t)sizeof(struct wire_frame) + (part ? part->request_bytes : 0);
	struct rte_mbuf *shared = dgram_room(s->session, bytes), *message = shared;
	struct codec_out out = { .next = next_out };
	uint32_t at = 0, checksum;
	char *first;

	if (shared) {
		at = shared->data_len;
		shared->data_len = (uint16_t)(at + bytes);
	} else {
		message = make_chain(s->session, bytes);
	}
	if (!message)
		return false;
	first = rte_pktmbuf_mtod_offset(message, char *, at);
	if (likely(!again))
		client_request_frame(s->ch, part, s->poller->now_ns, first);
	else
		client_reply_resent(s->ch, s->poller->now_ns, first);
	out.piece = message;
	out.at = first + sizeof(struct wire_frame);
	out.end = first + message->data_len - at;
	if (likely(part))
		client_codec_request(part, &out);
	if (likely(!s->ch->tagged)) {
		checksum = rpc_chain_crc(message, at, bytes);
		memcpy(first + offsetof(struct wire_frame, checksum), &checksum, sizeof(checksum));
	}
	if (shared)
		dgram_append(s->session, shared); /* nothing was sent meanwhile */
	else
		dgram_send(s->session, message);
	return true;
}

bool dpdk_message_send(struct stream *s, struct part *part)
{
	return send_message(s, part, false);
}

bool dpdk_message_resend(struct stream *s)
{
	return send_message(s, *channel_slot(s->ch, s->ch->resend), true);
}

bool dpdk_message_send_small(struct stream *s, struct call *call)
{
	const uint32_t bytes = call->small.request_bytes;
	const uint64_t now = s->poller->now_ns;
	struct rte_mbuf *shared, *m;
	uint32_t at = 0, queued;

	if (s->dirty || !small_may_send(s->ch, now) || channel_resends(s->ch))
		return false;
	queued = dgram_queued(s->session);
	if (queued >= DPDK_QUEUED_MAX || bytes > dgram_payload(s->session))
		return false;
	shared = queued ? dgram_room(s->session, bytes) : NULL;
	m = shared ? shared : dgram_alloc(s->session);
	if (unlikely(!m))
		return false;
	if (shared)
		at = m->data_len;
	m->data_len = (uint16_t)(at + bytes);
	small_write(call, s->ch, rte_pktmbuf_mtod_offset(m, char *, at), 0);
	small_sent(s->ch, call, now);
	call->remaining = 1;
	if (shared) {
		dgram_append(s->session, m); /* nothing was sent meanwhile */
	} else {
		m->pkt_len = bytes;
		dgram_send(s->session, m);
	}
	return true;
}

static void doom(struct stream *s, int code, const char *why)
{
	s->doom = code;
	snprintf(s->why, sizeof(s->why), "%s", why);
	dpdk_stream_touch(s);
}

/* Copies the error message of a refusal. in: at the payload. */
static void copy_text(struct codec_in in, uint32_t bytes, char *text)
{
	for (uint32_t i = 0; i < bytes; i++) {
		while (in.at == in.end)
			in.next(&in);
		text[i] = *in.at++;
	}
}

/* Makes room for n more mbufs. They are freed long after they were used: to walk a chain would cost a cache miss for
 * each. */
static bool make_view_room(struct star_view *view, uint32_t mbufs)
{
	uint32_t size = view->kept_size ? view->kept_size : KEPT_FIRST;
	void **kept;

	while (size < view->kept_count + mbufs)
		size *= 2;
	if (size == view->kept_size)
		return true;
	kept = realloc(view->kept, size * sizeof(*kept));
	if (!kept)
		return false;
	view->kept = kept;
	view->kept_size = size;
	return true;
}

/*
 * A view takes ownership of the reply's mbufs: the endpoint is told that they are in use, and they are counted here.
 * Not if the reply is a single mbuf, which is copied quickly, nor if all views together would have too many.
 */
static bool keep_view(struct poller *p, const struct part *part, struct codec_in in)
{
	struct star_view *view = part->slices_count == 1 ? part->call->ops[part->slices->op].view : NULL;
	struct rte_mbuf *message = (struct rte_mbuf *)(uintptr_t)in.piece; /* its first one */
	uint32_t mbufs = 0;

	if (!view || part->call->ops[part->slices->op].pieces || !message->next)
		return false;
	for (const struct rte_mbuf *m = message; m; m = m->next)
		mbufs++;
	if (p->viewed + mbufs > p->viewed_max || !make_view_room(view, mbufs) || !client_codec_show(part, in))
		return false;
	for (struct rte_mbuf *next; message; message = next) {
		next = message->next;
		message->next = NULL;
		view->kept[view->kept_count++] = message;
	}
	view->transport = p;
	view->release = release_view;
	p->viewed += mbufs;
	p->kept = true;
	return true;
}

/* Handles a reply to a part. */
static void answer_part(struct stream *s, struct part *part, const struct wire_frame *frame, struct codec_in in)
{
	char text[WIRE_ERROR_TEXT_MAX];
	struct star_error err;
	const char *wrong;

	if (frame->status == WIRE_STALE_LAYOUT) {
		dpdk_part_end_stale(s->poller, part);
		return;
	}
	if (frame->status == WIRE_REPEATED) {
		dpdk_part_end(s->poller, part, client_reply_repeated(s->ch, part, &err) < 0 ? &err : NULL);
		return;
	}
	if (frame->status != WIRE_OK) {
		copy_text(in, frame->payload_bytes, text);
		client_reply_refused(s->ch, frame, text, &err);
		dpdk_part_end(s->poller, part, &err);
		return;
	}
	wrong = client_codec_check(part, in, frame->payload_bytes);
	if (wrong) {
		star_error_set(&err, -EPROTO, "%s %s", s->ch->label, wrong);
		dpdk_part_end(s->poller, part, &err);
		doom(s, -EPROTO, wrong);
		return;
	}
	client_codec_remember(part, in);
	if (!keep_view(s->poller, part, in))
		client_codec_scatter(part, in);
	dpdk_part_end(s->poller, part, NULL);
}

/* Larger than the client's limit, or than its free mbufs: only the frame arrived. */
static void answer_too_large(struct stream *s, const struct wire_frame *frame)
{
	struct part *part = client_reply_take(s->ch, frame, s->poller->now_ns);
	struct star_error err;

	if (!part)
		return;
	if (frame->payload_bytes > WIRE_PAYLOAD_MAX)
		star_error_set(&err, -EPROTO, "%s sent a reply over the limit", s->ch->label);
	else
		star_error_set(&err, -ENOMEM,
			       "%s sent a reply of %u bytes, and there are not enough packet buffers for it: raise "
			       "memory.mbufs in the worker's file",
			       s->ch->label, frame->payload_bytes);
	dpdk_part_end(s->poller, part, &err);
}

/* Handles the message at `at`. */
static void handle(struct stream *s, struct rte_mbuf *message, uint32_t at, enum wire_status status)
{
	char *first = rte_pktmbuf_mtod_offset(message, char *, at);
	struct codec_in in = { .at = first + sizeof(struct wire_frame),
			       .end = first + message->data_len - at,
			       .next = next_in,
			       .piece = message };
	struct part *part;
	struct wire_frame frame;
	const char *wrong;

	memcpy(&frame, first, sizeof(frame));
	wrong = client_reply_check(s->ch, &frame);
	if (wrong) {
		doom(s, -EPROTO, wrong);
		return;
	}
	if (status != WIRE_OK) {
		answer_too_large(s, &frame);
		return;
	}
	memset(first + offsetof(struct wire_frame, checksum), 0, sizeof(frame.checksum));
	if (likely(!s->ch->tagged) &&
	    rpc_chain_crc(message, at, (uint32_t)sizeof(frame) + frame.payload_bytes) != frame.checksum) {
		doom(s, -EBADMSG, "sent a reply whose checksum does not match");
		return;
	}
	if (frame.status == WIRE_BAD_FRAME || frame.status == WIRE_BAD_CHECKSUM) {
		char text[WIRE_ERROR_TEXT_MAX], why[WIRE_ERROR_TEXT_MAX + 64];

		copy_text(in, frame.payload_bytes, text);
		client_reply_refused_frame(&frame, text, why, sizeof(why));
		doom(s, frame.status == WIRE_BAD_CHECKSUM ? -EBADMSG : -EPROTO, why);
		return;
	}
	part = client_reply_take(s->ch, &frame, s->poller->now_ns);
	if (unlikely(s->ch->careful)) {
		char text[WIRE_ERROR_TEXT_MAX];

		copy_text(in, frame.payload_bytes, text);
		client_reply_busy(s->ch, text, frame.payload_bytes);
	}
	if (part)
		answer_part(s, part, &frame, in);
	/* There is room for another request; or this one has to be sent again; or the last one has ended. */
	if (!TAILQ_EMPTY(&s->ch->queue) || s->ch->retired)
		dpdk_stream_touch(s);
}

/* If the message at `at` is the reply that a small call waits for, returns its bytes; otherwise 0. */
static inline uint32_t take_small(struct stream *s, struct rte_mbuf *message, uint32_t at)
{
	struct poller *p = s->poller;
	struct channel *ch = s->ch;
	struct part *part = *channel_slot(ch, ch->first_sequence);
	struct call *call = part ? part->call : NULL;
	uint32_t bytes;

	if (!call || call->small.part != part || message->next || s->doom || ch->first_sequence == ch->next_sequence)
		return 0;
	bytes = call->small.reply_bytes;
	if (message->data_len < at + bytes || !small_take_row(call, ch, rte_pktmbuf_mtod_offset(message, char *, at)))
		return 0;
	small_take(ch, call, p->now_ns);
	if (likely(call == p->awaited)) { /* as in dpdk_part_end */
		p->done = true;
		atomic_store_explicit(&call->finished, CALL_FINISHED, memory_order_relaxed);
	} else {
		dpdk_part_end(p, part, NULL);
	}
	if (unlikely(!TAILQ_EMPTY(&ch->queue) || ch->retired))
		dpdk_stream_touch(s);
	return bytes;
}

/* Handles all messages of the packet from `at` on. */
static __attribute__((noinline)) void handle_all(struct stream *s, struct rte_mbuf *message, uint32_t at,
						 enum wire_status status)
{
	struct dgram_session *session = s->session;
	uint32_t mbufs = 0;

	for (const struct rte_mbuf *m = message; m; m = m->next)
		mbufs++;
	do {
		if (s->doom)
			break;
		if (!take_small(s, message, at))
			handle(s, message, at, status);
		at = s->poller->kept ? 0 : dgram_next(message, at);
	} while (at);
	if (!s->poller->kept)
		free_chain(message);
	s->poller->kept = false;
	dgram_taken(session, mbufs);
}

void dpdk_message_received(struct stream *s, struct rte_mbuf *message, uint32_t bytes, enum wire_status status)
{
	const uint32_t taken = take_small(s, message, 0);
	const uint32_t at = taken && message->data_len != taken ? dgram_next(message, 0) : 0;

	if (likely(taken && !at)) {
		net_free(s->poller->net, message);
		dgram_taken(s->session, 1);
		return;
	}
	handle_all(s, message, at, status);
}
