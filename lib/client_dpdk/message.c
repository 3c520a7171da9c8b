/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests, written from the caller's memory straight into the mbufs that leave; replies, copied once, from the mbufs that the
 * driver filled to the caller's memory. What a node sends is believed only after it was bounded and checked.
 */
#include "client_dpdk/poller.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"

static void next_out(struct codec_out *out)
{
	struct rte_mbuf *m = out->piece;

	m = m->next; /* there is one: the chain was made for the whole request */
	out->piece = m;
	out->at = rte_pktmbuf_mtod(m, char *);
	out->end = out->at + m->data_len;
}

static void next_in(struct codec_in *in)
{
	const struct rte_mbuf *m = in->piece;

	m = m->next; /* there is one: what is read was measured first */
	in->piece = m;
	in->at = rte_pktmbuf_mtod(m, const char *);
	in->end = in->at + m->data_len;
}

/* Of a message of so many bytes at `at`. */
static uint32_t chain_crc(const struct rte_mbuf *m, uint32_t at, uint32_t bytes)
{
	uint32_t crc = crc32(rte_pktmbuf_mtod_offset(m, const char *, at), RTE_MIN(bytes, m->data_len - at));

	while ((m = m->next))
		crc = crc32_combine(crc, crc32(rte_pktmbuf_mtod(m, const char *), m->data_len), m->data_len);
	return crc;
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

/* Mbufs for so many bytes, each a packet's. NULL: there are not enough. */
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

bool message_send(struct stream *s, struct part *part)
{
	const uint32_t bytes = (uint32_t)sizeof(struct wire_frame) + part->request_bytes;
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
	request_frame(s->ch, part, s->poller->now_ns, first);
	out.piece = message;
	out.at = first + sizeof(struct wire_frame);
	out.end = first + message->data_len - at;
	codec_request(part, &out);
	checksum = chain_crc(message, at, bytes);
	memcpy(first + offsetof(struct wire_frame, checksum), &checksum, sizeof(checksum));
	if (shared)
		dgram_append(s->session, shared); /* nothing was sent meanwhile */
	else
		dgram_send(s->session, message);
	return true;
}

static void doom(struct stream *s, int code, const char *why)
{
	s->doom = code;
	snprintf(s->why, sizeof(s->why), "%s", why);
	stream_touch(s);
}

/* The sentence of a refusal, in one piece. in: at the payload. */
static void copy_text(struct codec_in in, uint32_t bytes, char *text)
{
	for (uint32_t i = 0; i < bytes; i++) {
		while (in.at == in.end)
			in.next(&in);
		text[i] = *in.at++;
	}
}

/* A reply to a part. */
static void answer(struct stream *s, struct part *part, const struct wire_frame *frame, struct codec_in in)
{
	char text[WIRE_ERROR_TEXT_MAX];
	struct star_error err;
	const char *wrong;

	if (frame->status == WIRE_STALE_LAYOUT) {
		part_end_stale(s->poller, part);
		return;
	}
	if (frame->status != WIRE_OK) {
		copy_text(in, frame->payload_bytes, text);
		reply_refused(s->ch, frame, text, &err);
		part_end(s->poller, part, &err);
		return;
	}
	wrong = codec_check(part, in, frame->payload_bytes);
	if (wrong) {
		star_error_set(&err, -EPROTO, "%s %s", s->ch->label, wrong);
		part_end(s->poller, part, &err);
		doom(s, -EPROTO, wrong);
		return;
	}
	codec_remember(part, in);
	codec_scatter(part, in);
	part_end(s->poller, part, NULL);
}

/* Too large for what a client takes, or for the mbufs that it has: the frame came alone. */
static void answer_too_large(struct stream *s, const struct wire_frame *frame, enum wire_status status)
{
	struct part *part = reply_take(s->ch, frame, s->poller->now_ns);
	struct star_error err;

	if (!part)
		return;
	if (status == WIRE_OVER_LIMIT)
		star_error_set(&err, -EPROTO, "%s sent a reply over the limit", s->ch->label);
	else
		star_error_set(&err, -ENOMEM,
			       "%s sent a reply of %u bytes, and there are not enough packet buffers for it: raise "
			       "memory.mbufs in the worker's file",
			       s->ch->label, frame->payload_bytes);
	part_end(s->poller, part, &err);
}

/* The message at `at`. */
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
	wrong = reply_check(s->ch, &frame);
	if (wrong) {
		doom(s, -EPROTO, wrong);
		return;
	}
	if (status != WIRE_OK) {
		answer_too_large(s, &frame, status);
		return;
	}
	memset(first + offsetof(struct wire_frame, checksum), 0, sizeof(frame.checksum));
	if (chain_crc(message, at, (uint32_t)sizeof(frame) + frame.payload_bytes) != frame.checksum) {
		doom(s, -EBADMSG, "sent a reply whose checksum does not match");
		return;
	}
	if (frame.status == WIRE_BAD_FRAME || frame.status == WIRE_BAD_CHECKSUM) {
		char text[WIRE_ERROR_TEXT_MAX], why[WIRE_ERROR_TEXT_MAX + 64];

		copy_text(in, frame.payload_bytes, text);
		reply_refused_frame(&frame, text, why, sizeof(why));
		doom(s, frame.status == WIRE_BAD_CHECKSUM ? -EBADMSG : -EPROTO, why);
		return;
	}
	part = reply_take(s->ch, &frame, s->poller->now_ns);
	if (part)
		answer(s, part, &frame, in);
	/* There is room for a further request; or this one is asked again; or the last one has ended. */
	if (!TAILQ_EMPTY(&s->ch->queue) || s->ch->retired)
		stream_touch(s);
}

void message_received(struct stream *s, struct rte_mbuf *message, uint32_t bytes, enum wire_status status)
{
	struct dgram_session *session = s->session;
	uint32_t mbufs = 0, at = 0;

	do {
		if (s->doom)
			break;
		handle(s, message, at, status);
		at = dgram_next(message, at);
	} while (at);
	for (const struct rte_mbuf *m = message; m; m = m->next)
		mbufs++;
	free_chain(message);
	dgram_taken(session, mbufs);
}
