/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies, written once into the mbufs that leave. The frame header has its place in the first mbuf and is filled in last;
 * the checksum is computed mbuf by mbuf and combined.
 */
#include "rpc/internal.h"

#include <rte_memcpy.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/crc32.h"
#include "net/tcp.h"

enum {
	LARGE_MBUFS = 32,  /* a reply of more mbufs than these ... */
	RECEIVE_SHARE = 8, /* ... leaves one in so many to what comes in */
};

/* A reply found no mbufs. */
static bool starve(struct rpc_stream *s)
{
	s->server->short_of_mbufs = 1;
	if (s->starved_ns == 0)
		s->starved_ns = net_now_ns(s->server->options.net);
	return false;
}

/* The list of a reply goes by mbuf->next until TCP takes each mbuf for itself. */
static bool add_mbuf(struct rpc_stream *s)
{
	struct rte_mbuf *m = tcp_alloc(s->conn);

	if (!m)
		return starve(s);
	if (s->reply_tail)
		s->reply_tail->next = m;
	else
		s->reply_head = m;
	s->reply_tail = m;
	if (s->reply_head == m)
		rte_pktmbuf_append(m, sizeof(struct wire_frame));
	return true;
}

static uint32_t room_in(const struct rpc_stream *s, const struct rte_mbuf *m)
{
	return tcp_mss(s->conn) - m->data_len;
}

/* Whether a reply may take n mbufs more. A large one leaves a share of the pool to what comes in: without mbufs no
 * acknowledgement is received, and none becomes free again. */
static bool spared(struct rpc_stream *s, uint32_t n)
{
	const struct rte_mempool *pool = s->reply_head->pool;
	const uint32_t share = pool->size / RECEIVE_SHARE;

	if (n <= LARGE_MBUFS)
		return true;
	s->hopeless = n > pool->size - share;
	return !s->hopeless && rte_mempool_avail_count(pool) >= n + share;
}

/* Makes n empty mbufs behind the last one, or none at all: requests that each hold a part of what they need would wait for
 * one another for ever. */
static bool add_empty(struct rpc_stream *s, struct rte_mbuf *last, uint32_t n)
{
	struct rte_mbuf *m = last, *next;

	for (; n && (m->next = tcp_alloc(s->conn)); n--)
		m = m->next;
	if (n == 0)
		return true;
	for (m = last->next; m; m = next) {
		next = m->next;
		m->next = NULL;
		rte_pktmbuf_free(m);
	}
	last->next = NULL;
	return false;
}

/* Mbufs after reply_tail are still empty; writing moves reply_tail on. */
bool rpc_reply_room(struct rpc_request *request, uint32_t n)
{
	struct rpc_stream *s = request->stream;
	struct rte_mbuf *last;
	uint32_t room, more;

	if (!s->conn)
		return true;
	if (!s->reply_head && !add_mbuf(s))
		return false;
	room = room_in(s, s->reply_tail);
	for (last = s->reply_tail; last->next; last = last->next)
		room += tcp_mss(s->conn);
	if (room >= n) {
		s->starved_ns = 0;
		return true;
	}
	more = (n - room + tcp_mss(s->conn) - 1) / tcp_mss(s->conn);
	if (spared(s, more) && add_empty(s, last, more)) {
		s->starved_ns = 0;
		return true;
	}
	if (s->reply_bytes == 0) {
		rte_pktmbuf_free(s->reply_head);
		s->reply_head = s->reply_tail = NULL;
	}
	return starve(s);
}

static void put(struct rte_mbuf *m, const void *data, uint32_t n)
{
	rte_memcpy(rte_pktmbuf_mtod_offset(m, char *, m->data_len), data, n);
	m->data_len += n;
	m->pkt_len += n;
}

void rpc_reply_put(struct rpc_request *request, const void *data, uint32_t n)
{
	struct rpc_stream *s = request->stream;
	const char *from = data;

	s->reply_bytes += n;
	if (!s->conn)
		return;
	while (n) {
		const uint32_t room = room_in(s, s->reply_tail), part = RTE_MIN(room, n);

		put(s->reply_tail, from, part);
		from += part;
		n -= part;
		if (n)
			s->reply_tail = s->reply_tail->next;
	}
}

void rpc_reply_pad(struct rpc_request *request)
{
	static const char zeros[8];

	rpc_reply_put(request, zeros, wire_padded(request->stream->reply_bytes) - request->stream->reply_bytes);
}

void reply_drop(struct rpc_stream *s)
{
	while (s->reply_head) {
		struct rte_mbuf *next = s->reply_head->next;

		s->reply_head->next = NULL;
		rte_pktmbuf_free(s->reply_head);
		s->reply_head = next;
	}
	s->reply_tail = NULL;
	s->reply_bytes = 0;
	s->reply_status = WIRE_OK;
}

enum rpc_progress rpc_reply_fail(struct rpc_request *request, enum wire_status status, const char *format, ...)
{
	struct rpc_stream *s = request->stream;
	char text[WIRE_ERROR_TEXT_MAX];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	n = n < (int)sizeof(text) ? n : (int)sizeof(text) - 1;
	reply_drop(s);
	s->reply_status = status;
	if (rpc_reply_room(request, (uint32_t)n))
		rpc_reply_put(request, text, (uint32_t)n);
	s->server->counters.errors++;
	return RPC_DONE;
}

/* Completes the header and gives the mbufs to TCP. false: there is no mbuf for it now. */
bool reply_send(struct rpc_stream *s)
{
	struct rte_mbuf *m = s->reply_head;
	struct wire_frame *frame;
	uint32_t crc;

	if (!s->conn) {
		reply_drop(s);
		return true;
	}
	if (!m && !add_mbuf(s))
		return false;
	m = s->reply_head;
	frame = rte_pktmbuf_mtod(m, struct wire_frame *);
	*frame = (struct wire_frame){
		.magic = WIRE_MAGIC,
		.version = WIRE_VERSION,
		.opcode = WIRE_REPLY,
		.status = s->reply_status,
		.session = s->request.frame.session,
		.sequence = s->request.frame.sequence,
		.epoch = s->server->epoch,
		.incarnation = s->server->incarnation,
		.payload_bytes = s->reply_bytes,
	};
	crc = crc32(frame, m->data_len);
	for (m = m->next; m && m->data_len; m = m->next)
		crc = crc32_combine(crc, crc32(rte_pktmbuf_mtod(m, const void *), m->data_len), m->data_len);
	frame->checksum = crc;
	s->server->counters.replies++;
	while (s->reply_head) {
		m = s->reply_head;
		s->reply_head = m->next;
		m->next = NULL;
		if (m->data_len == 0)
			rte_pktmbuf_free(m); /* made ahead, and not needed */
		else
			tcp_send(s->conn, m); /* a connection that is closing frees it: its peer is gone */
	}
	s->reply_tail = NULL;
	s->reply_bytes = 0;
	s->reply_status = WIRE_OK;
	return true;
}
