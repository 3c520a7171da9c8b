/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies are written once, into the mbufs that are sent. Room for the frame header is kept in the first mbuf, and
 * filled in last; the checksum is computed per mbuf, and combined. A small reply of a session is appended to those that
 * wait in its last packet, if there is room.
 */
#include "rpc/link.h"
#include "rpc/sealed.h"

#include <rte_memcpy.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/crc32.h"
#include "net/tcp.h"

enum {
	LARGE_MBUFS = 32,  /* a reply of more mbufs than these ... */
	RECEIVE_SHARE = 8, /* ... leaves one in this many to received packets */
};

static struct rte_mbuf *alloc(const struct rpc_work *w)
{
	return w->is_session ? dgram_alloc(w->session) : link_alloc(w);
}

/* How many bytes of a reply fit into an mbuf. */
static uint32_t mbuf_room(const struct rpc_work *w)
{
	return w->is_session ? dgram_payload(w->session) : link_mss(w);
}

/* There were no mbufs for a reply. */
static bool starve(struct rpc_work *w)
{
	w->server->short_of_mbufs = 1;
	w->request.why |= OBSERVE_WHY_BUFFERS;
	if (w->starved_ns == 0)
		w->starved_ns = net_now_ns(w->server->options.net);
	return false;
}

/* The mbufs of a reply are linked by mbuf->next until TCP takes each of them. */
static bool add_mbuf(struct rpc_work *w)
{
	struct rte_mbuf *m = alloc(w);

	if (!m)
		return starve(w);
	if (w->reply_tail)
		w->reply_tail->next = m;
	else
		w->reply_head = m;
	w->reply_tail = m;
	if (w->reply_head == m)
		rte_pktmbuf_append(m, sizeof(struct wire_frame));
	return true;
}

/* Puts the reply into the session's last packet, if it fits in there with n bytes of payload. */
static bool share_packet(struct rpc_work *w, uint32_t n)
{
	struct rte_mbuf *m = w->is_session ? dgram_room(w->session, (uint32_t)sizeof(struct wire_frame) + n) : NULL;

	if (!m)
		return false;
	w->reply_head = w->reply_tail = m;
	rte_pktmbuf_append(m, sizeof(struct wire_frame));
	return true;
}

/* Where the reply begins in its first mbuf; not 0: it shares that packet with earlier replies, and lies completely in
 * it. */
static uint32_t reply_at(const struct rpc_work *w)
{
	return w->reply_head == w->reply_tail
		       ? w->reply_head->data_len - (uint32_t)sizeof(struct wire_frame) - w->reply_bytes
		       : 0;
}

/* Moves a reply that shares a packet into an mbuf of its own. */
static bool part_packet(struct rpc_work *w)
{
	const uint32_t at = reply_at(w), bytes = (uint32_t)sizeof(struct wire_frame) + w->reply_bytes;
	struct rte_mbuf *m = alloc(w);

	if (!m)
		return starve(w);
	memcpy(rte_pktmbuf_append(m, (uint16_t)bytes), rte_pktmbuf_mtod_offset(w->reply_head, const void *, at), bytes);
	rte_pktmbuf_free(w->reply_head);
	w->reply_head = w->reply_tail = m;
	return true;
}

void rpc_reply_part(struct rpc_work *w)
{
	if (w->reply_head && reply_at(w))
		part_packet(w);
}

static uint32_t room_in(const struct rpc_work *w, const struct rte_mbuf *m)
{
	return mbuf_room(w) - m->data_len;
}

/* Whether a reply may take n more mbufs. A large one leaves a part of the pool to received packets: without mbufs no
 * acknowledgement can be received, and so none would become free again. */
static bool spared(struct rpc_work *w, uint32_t n)
{
	const struct rte_mempool *pool = w->reply_head->pool;
	const uint32_t share = pool->size / RECEIVE_SHARE;

	if (n <= LARGE_MBUFS)
		return true;
	w->hopeless = n > pool->size - share;
	return !w->hopeless && rte_mempool_avail_count(pool) >= n + share;
}

/* Frees the mbufs after this one, which were allocated ahead and are not needed. */
static void give_back_empty(struct rte_mbuf *last)
{
	struct rte_mbuf *m = last->next, *next;

	last->next = NULL;
	for (; m; m = next) {
		next = m->next;
		m->next = NULL;
		rte_pktmbuf_free(m);
	}
}

/* Appends n empty mbufs after the last one, or none at all. If requests could hold a part of what they need, they would
 * wait for one another for ever. */
static bool add_empty(struct rpc_work *w, struct rte_mbuf *last, uint32_t n)
{
	struct rte_mbuf *m = last;

	for (; n && (m->next = alloc(w)); n--)
		m = m->next;
	if (n == 0)
		return true;
	give_back_empty(last);
	return false;
}

/* Mbufs after reply_tail are still empty; writing moves reply_tail on. */
bool rpc_reply_room(struct rpc_request *request, uint32_t n)
{
	struct rpc_work *w = work_of(request);
	struct rte_mbuf *last;
	uint32_t room, more;

	if (!w->peer)
		return true;
	if (!w->reply_head && !share_packet(w, n) && !add_mbuf(w))
		return false;
	if (unlikely(room_in(w, w->reply_tail) < n && reply_at(w)) && !part_packet(w))
		return false;
	room = room_in(w, w->reply_tail);
	for (last = w->reply_tail; last->next; last = last->next)
		room += mbuf_room(w);
	if (room >= n) {
		w->starved_ns = 0;
		return true;
	}
	more = (n - room + mbuf_room(w) - 1) / mbuf_room(w);
	if (spared(w, more) && add_empty(w, last, more)) {
		w->starved_ns = 0;
		return true;
	}
	if (w->reply_bytes == 0) {
		rte_pktmbuf_free(w->reply_head);
		w->reply_head = w->reply_tail = NULL;
	}
	return starve(w);
}

static void put_bytes(struct rte_mbuf *m, const void *data, uint32_t n)
{
	rte_memcpy(rte_pktmbuf_mtod_offset(m, char *, m->data_len), data, n);
	m->data_len += n;
	m->pkt_len += n;
}

void rpc_reply_put(struct rpc_request *request, const void *data, uint32_t n)
{
	struct rpc_work *w = work_of(request);
	const char *from = data;

	w->reply_bytes += n;
	if (!w->peer)
		return;
	while (n) {
		const uint32_t room = room_in(w, w->reply_tail), part = RTE_MIN(room, n);

		for (uint32_t i = part; i < RTE_MIN(n, 2 * part); i += RTE_CACHE_LINE_SIZE)
			rte_prefetch0(from + i); /* the part of a long row that goes into the next mbuf */
		put_bytes(w->reply_tail, from, part);
		from += part;
		n -= part;
		if (n)
			w->reply_tail = w->reply_tail->next;
	}
}

/* Writes as many whole rows as fit; returns their number. Most tables have rows of one cache
 * line, which have a copy of fixed size. */
static unsigned put_whole(struct rte_mbuf *m, uint32_t room, const void *const *rows, unsigned n, uint32_t bytes)
{
	const unsigned whole = RTE_MIN(n, room / bytes);
	uint8_t *to = rte_pktmbuf_mtod_offset(m, uint8_t *, m->data_len);

	for (unsigned i = 0; i < whole; i++, to += bytes)
		if (bytes == RTE_CACHE_LINE_SIZE)
			rte_mov64(to, rows[i]);
		else
			rte_memcpy(to, rows[i], bytes);
	m->data_len = (uint16_t)(m->data_len + whole * bytes);
	m->pkt_len += whole * bytes;
	return whole;
}

void rpc_reply_put_rows(struct rpc_request *request, const void *const *rows, unsigned n, uint32_t bytes)
{
	struct rpc_work *w = work_of(request);

	for (unsigned i = 0; w->peer && i < n; i++) {
		const unsigned whole = put_whole(w->reply_tail, room_in(w, w->reply_tail), rows + i, n - i, bytes);

		w->reply_bytes += whole * bytes;
		i += whole;
		if (i < n) /* it continues in the next mbuf */
			rpc_reply_put(request, rows[i], bytes);
	}
	if (!w->peer)
		w->reply_bytes += n * bytes;
}

void rpc_reply_pad(struct rpc_request *request)
{
	static const char zeros[8];

	rpc_reply_put(request, zeros, wire_padded(work_of(request)->reply_bytes) - work_of(request)->reply_bytes);
}

void *rpc_reply_piece(struct rpc_request *request, uint32_t n)
{
	const uint32_t bytes = (uint32_t)sizeof(struct wire_frame) + n;
	struct rpc_work *w = work_of(request);
	struct rte_mbuf *m;
	uint16_t at;

	if (unlikely(!w->peer || w->reply_head || bytes > mbuf_room(w)))
		return NULL;
	m = w->is_session ? dgram_room(w->session, bytes) : NULL;
	if (likely(!m))
		m = alloc(w);
	if (unlikely(!m)) {
		starve(w);
		return NULL;
	}
	at = m->data_len;
	m->data_len = (uint16_t)(at + bytes);
	m->pkt_len = m->data_len;
	w->reply_head = w->reply_tail = m;
	w->reply_bytes = n;
	w->starved_ns = 0;
	return rte_pktmbuf_mtod_offset(m, char *, at + sizeof(struct wire_frame));
}

void rpc_reply_unput(struct rpc_request *request)
{
	rpc_reply_drop(work_of(request));
}

void rpc_reply_drop(struct rpc_work *w)
{
	while (w->reply_head) {
		struct rte_mbuf *next = w->reply_head->next;

		w->reply_head->next = NULL;
		rte_pktmbuf_free(w->reply_head);
		w->reply_head = next;
	}
	w->reply_tail = NULL;
	w->reply_bytes = 0;
	w->reply_status = WIRE_OK;
}

enum rpc_progress rpc_reply_fail(struct rpc_request *request, enum wire_status status, const char *format, ...)
{
	struct rpc_work *w = work_of(request);
	char text[WIRE_ERROR_TEXT_MAX];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	n = n < (int)sizeof(text) ? n : (int)sizeof(text) - 1;
	rpc_reply_drop(w);
	w->reply_status = status;
	request->failed = true;
	if (rpc_reply_room(request, (uint32_t)n))
		rpc_reply_put(request, text, (uint32_t)n);
	w->server->counters.errors++;
	return RPC_DONE;
}

static void send_segments(struct rpc_work *w, struct rte_mbuf *m)
{
	struct rte_mbuf *next;
	uint32_t n = 0;

	for (; m; m = next, n++) {
		next = m->next;
		m->next = NULL;
		link_send(w, m); /* a closing connection frees it, as the peer is gone */
	}
	rpc_budget_sent(stream_of(w), n);
}

/* The checksum of a reply's bytes in the first mbuf, and in the others; returns the number of the others. */
static uint32_t add_checksum(const struct rte_mbuf *m, struct wire_frame *frame, uint32_t bytes)
{
	uint32_t crc = base_crc32(frame, bytes), more = 0;
	struct crc32_length length = { 0 };

	for (m = m->next; m && m->data_len; m = m->next, more++)
		crc = base_crc32_join(&length, crc, base_crc32(rte_pktmbuf_mtod(m, const void *), m->data_len),
				      m->data_len);
	frame->checksum = crc;
	return more;
}

/* Completes the reply's header, except for the checksum or tag. */
static uint32_t guard_reply(struct rpc_work *w, struct rte_mbuf *m, struct wire_frame *frame, uint32_t bytes)
{
	uint32_t more = 0;

	if (!w->is_session)
		return unlikely(stream_of(w)->sealed) ? rpc_sealed_reply(stream_of(w)) : add_checksum(m, frame, bytes);
	if (unlikely(session_of(w)->guest))
		frame->session = session_of(w)->bound.chosen;
	if (likely(!session_of(w)->tagged))
		return add_checksum(m, frame, bytes);
	for (m = m->next; m && m->data_len; m = m->next)
		more++;
	return more;
}

/* Completes the header and passes the mbufs to the transport. false: there is no mbuf for it at the moment. */
bool rpc_reply_send(struct rpc_work *w)
{
	struct rte_mbuf *m = w->reply_head;
	struct wire_frame *frame;
	uint32_t at;

	if (!w->peer) {
		rpc_reply_drop(w);
		return true;
	}
	if (!m && !share_packet(w, 0) && !add_mbuf(w))
		return false;
	m = w->reply_head;
	at = reply_at(w);
	frame = rte_pktmbuf_mtod_offset(m, struct wire_frame *, at);
	*frame = (struct wire_frame){
		.magic = WIRE_MAGIC,
		.version = WIRE_VERSION,
		.opcode = WIRE_REPLY,
		.status = w->reply_status,
		.session = w->request.frame.session,
		.sequence = w->request.frame.sequence,
		.epoch = w->server->epoch,
		.incarnation = w->server->incarnation,
		.payload_bytes = w->reply_bytes,
	};
	if (unlikely(w->server->retains) && !w->is_session)
		rpc_work_tell(w, frame);
	else if (unlikely(w->replayed) && w->request.frame.flags & WIRE_KEPT && w->reply_status == WIRE_REPEATED)
		rpc_work_tell_ahead(w, frame);
	w->server->turn_mbufs += at == 0;
	w->server->turn_mbufs += guard_reply(w, m, frame, m->data_len - at);
	if (at && !dgram_append(w->session, w->reply_head)) {
		if (!part_packet(w))
			return false;
		at = 0;
	}
	w->server->counters.replies++;
	give_back_empty(w->reply_tail);
	if (!w->is_session)
		send_segments(w, w->reply_head);
	else if (!at)
		dgram_send(w->session, w->reply_head);
	w->reply_head = w->reply_tail = NULL;
	w->reply_bytes = 0;
	w->reply_status = WIRE_OK;
	return true;
}
