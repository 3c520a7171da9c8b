/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests over TCP: divides a stream's bytes into frames. */
#include "rpc/link.h"
#include "rpc/quota.h"
#include "rpc/record.h"
#include "rpc/sealed.h"

#include "base/crc32.h"

enum {
	GOODBYE_MS = 1000, /* how long a stream that was answered an error may stay open */
	/* time to send the first byte, and the first one after its hello, which may be a replayed one: workers connect
	 * when they have something to send */
	MUTE_MS = 60000,
};

/* The current request is no longer in flight. */
static void discharge(struct rpc_stream *s)
{
	struct rpc_seal *seal;

	if (likely(!s->sealed))
		return;
	seal = seal_of(s);
	if (unlikely(seal->charged))
		rpc_quota_give_bytes(&s->work, seal->charged);
	seal->charged = 0;
}

void rpc_stream_free(struct rpc_stream *s)
{
	struct rpc_server *server = s->work.server;

	wheel_cancel(net_wheel(server->options.net), &s->timer);
	rpc_budget_leave(s);
	rpc_budget_forget(s);
	rpc_work_end(&s->work);
	server->held_mbufs -= s->mbufs;
	while (s->head) {
		struct rte_mbuf *next = s->head->next;

		s->head->next = NULL;
		rte_pktmbuf_free(s->head);
		s->head = next;
	}
	if (unlikely(s->sealed)) {
		discharge(s);
		rpc_quota_leave(&s->work);
		explicit_bzero(seal_of(s), sizeof(struct rpc_seal));
	}
	s->sealed = 0;
	s->state = STREAM_FREE;
	s->work.next = server->free_streams;
	server->free_streams = &s->work;
	rpc_budget_resume(server);
}

/* When the last bytes in this mbuf of the chain arrived. */
static uint64_t *arrived_ns_of(struct rte_mbuf *m)
{
	return rte_mbuf_to_priv(m);
}

static void make_ready(struct rpc_stream *s)
{
	s->state = STREAM_READY;
	link_will_answer(&s->work);
	rpc_work_arrived(&s->work);
}

static void append_mbuf(struct rpc_stream *s, struct rte_mbuf *m)
{
	const uint64_t now_ns = net_now_ns(s->work.server->options.net);
	struct rte_mbuf *tail = s->tail;
	const uint16_t bytes = m->data_len;

	s->have += bytes;
	/* Small segments are merged, so that a peer can make us hold at most about twice what it sent. */
	if (tail && bytes <= 512 && rte_pktmbuf_tailroom(tail) >= bytes && s->crc_at != tail) {
		memcpy(rte_pktmbuf_mtod_offset(tail, char *, tail->data_len), rte_pktmbuf_mtod(m, void *), bytes);
		tail->data_len += bytes;
		*arrived_ns_of(tail) = now_ns;
		rte_pktmbuf_free(m);
		return;
	}
	*arrived_ns_of(m) = now_ns;
	m->next = NULL;
	if (tail)
		tail->next = m;
	else
		s->head = m;
	s->tail = m;
	s->mbufs++;
	s->work.server->held_mbufs++;
}

static void pop_mbuf(struct rpc_stream *s)
{
	struct rte_mbuf *m = s->head;

	s->head = m->next;
	if (!s->head)
		s->tail = NULL;
	m->next = NULL;
	s->mbufs--;
	s->work.server->held_mbufs--;
	net_free(s->work.server->options.net, m);
}

/* Removes n bytes from the front. */
static void consume(struct rpc_stream *s, uint32_t n)
{
	s->have -= n;
	while (n) {
		const uint32_t part = RTE_MIN(n, (uint32_t)s->head->data_len);

		s->head->data_off += part;
		s->head->data_len -= part;
		n -= part;
		if (s->head->data_len == 0)
			pop_mbuf(s);
	}
	while (s->head && s->head->data_len == 0)
		pop_mbuf(s);
}

/* Removes n bytes that are done with, and returns their part of TCP's window even if the budget has not opened it
 * yet. */
static void take_off(struct rpc_stream *s, uint32_t n)
{
	if (s->granted < n) {
		link_consumed(&s->work, n - s->granted);
		s->granted = n;
	}
	consume(s, n);
	s->granted -= n;
}

/* Answers that the stream is out of sync or too greedy, and waits a moment for the peer to close. */
static void refuse_stream(struct rpc_stream *s, enum wire_status status, const char *why)
{
	rpc_reply_fail(&s->work.request, status, "%s", why);
	rpc_reply_send(&s->work);
	if (s->have > s->granted)
		link_consumed(&s->work, s->have - s->granted);
	consume(s, s->have);
	s->granted = 0;
	s->state = STREAM_DRAINING;
	discharge(s);
	rpc_budget_leave(s);
	rpc_budget_resume(s->work.server);
	wheel_arm(net_wheel(s->work.server->options.net), &s->timer,
		  net_now_ns(s->work.server->options.net) + GOODBYE_MS * UINT64_C(1000000));
}

/* Begins with the header's part of the checksum. A small request, which is in one mbuf with its header, is checksummed
 * at once. */
static void begin_checksum(struct rpc_stream *s)
{
	const struct wire_frame *frame = &s->work.request.frame;
	uint8_t *at = rte_pktmbuf_mtod(s->head, uint8_t *);

	s->crc_at = NULL;
	if (unlikely(s->work.server->seals)) {
		if (s->sealed)
			rpc_sealed_begin(s);
		s->crc_done = s->sealed ? 0 : frame->payload_bytes; /* of a hello */
	} else if (s->head->data_len >= sizeof(*frame) + frame->payload_bytes) {
		memset(at + offsetof(struct wire_frame, checksum), 0, sizeof(frame->checksum));
		s->crc = base_crc32(at, sizeof(*frame) + frame->payload_bytes);
		s->crc_done = frame->payload_bytes;
	} else {
		s->crc = wire_frame_crc(frame);
		s->crc_done = 0;
	}
}

static bool over_budget(const struct rpc_stream *s)
{
	const struct rpc_server *server = s->work.server;

	return server->held_mbufs > server->options.held_mbufs_max && server->favoured != s;
}

/* Adds the payload that has arrived to the checksum. The payload starts after the header, at the front of the chain. */
static void checksum(struct rpc_stream *s)
{
	const uint32_t bytes = s->work.request.frame.payload_bytes;
	struct rte_mbuf *m = s->crc_at ? s->crc_at->next : s->head;

	/* Only complete mbufs, so that each is read once; the last one counts up to the end of the payload. */
	while (m && s->crc_done < bytes) {
		const uint32_t left = bytes - s->crc_done, part = RTE_MIN(left, (uint32_t)m->data_len);

		if (!m->next && part < left && rte_pktmbuf_tailroom(m) >= 64 && !s->work.refusal)
			return; /* may still grow */
		if (unlikely(s->sealed))
			secure_open_update(&seal_of(s)->in, rte_pktmbuf_mtod(m, void *), part);
		else
			s->crc = base_crc32_join(&s->work.server->crc_length, s->crc,
						 base_crc32(rte_pktmbuf_mtod(m, const void *), part), part);
		s->crc_done += part;
		s->crc_at = m;
		m = m->next;
	}
}

/* Drops what has arrived of the payload of a request that will be refused. */
static void discard(struct rpc_stream *s)
{
	checksum(s);
	take_off(s, s->crc_done - s->dropped);
	s->dropped = s->crc_done;
	s->crc_at = NULL;
}

/*
 * The request would take too many mbufs. It is read to its end without being stored, and is answered when its turn
 * comes. So the stream stays in sync, and the peer may send the request again on it.
 */
static void refuse_greedy(struct rpc_stream *s)
{
	s->work.server->counters.no_buffers++;
	s->work.refusal = WIRE_BUSY;
	rpc_budget_leave(s);
	discard(s);
	rpc_budget_resume(s->work.server);
}

/* The header's length is trusted as far as it is anywhere else: up to payload_max. As with any corruption on the way, a
 * wrong one ends the stream. */
static void charge(struct rpc_stream *s)
{
	const uint32_t bytes = (uint32_t)sizeof(struct wire_frame) + s->work.request.frame.payload_bytes;

	if (rpc_quota_take_bytes(&s->work, bytes))
		seal_of(s)->charged = bytes;
	else
		s->work.refusal = WIRE_QUOTA_IN_FLIGHT;
}

static void await_first_byte(struct rpc_stream *s)
{
	struct net *net = s->work.server->options.net;

	s->mute = 1;
	wheel_arm(net_wheel(net), &s->timer, net_now_ns(net) + MUTE_MS * UINT64_C(1000000));
}

static bool refuse_stranger(struct rpc_stream *s, const char *why)
{
	s->work.server->counters.strangers++;
	refuse_stream(s, WIRE_NO_TICKET, why);
	return false;
}

/* The header has arrived: checks it, and removes it from the chain. */
static bool begin_request(struct rpc_stream *s)
{
	struct rpc_server *server = s->work.server;
	struct rpc_request *r = &s->work.request;
	struct rpc_cursor at = { s->head, 0 };
	const bool greets = unlikely(server->seals) && !s->sealed;
	const char *why;

	rpc_cursor_copy(&at, &r->frame, sizeof(r->frame));
	if (greets && (why = rpc_sealed_check(&r->frame)))
		return refuse_stranger(s, why);
	if (!greets && (wire_frame_check(&r->frame, &why) != WIRE_OK || r->frame.opcode == WIRE_REPLY)) {
		server->counters.bad_frames++;
		refuse_stream(s, WIRE_BAD_FRAME, why ? why : "a reply was sent to a server");
		return false;
	}
	if (r->frame.payload_bytes > server->options.payload_max) {
		char text[WIRE_ERROR_TEXT_MAX];

		server->counters.bad_frames++;
		refuse_stream(s, WIRE_BAD_FRAME, rpc_work_over_limit(server, text));
		return false;
	}
	rpc_work_begin(&s->work);
	s->dropped = 0;
	if (unlikely(s->sealed) && quota_any(server))
		charge(s);
	begin_checksum(s);
	take_off(s, sizeof(r->frame));
	s->state = STREAM_PAYLOAD;
	r->deadline_ns = r->frame.deadline_us ? net_now_ns(server->options.net) + r->frame.deadline_us * UINT64_C(1000)
					      : UINT64_MAX;
	return true;
}

/* The peer may not read for a long time, so no other stream waits for it. */
static void block(struct rpc_stream *s)
{
	s->state = STREAM_BLOCKED;
	rpc_budget_resume(s->work.server);
}

/* When the last byte of the current request arrived; its checksum is done. */
static uint64_t came_whole_ns(const struct rpc_stream *s)
{
	struct rte_mbuf *last = s->crc_at ? s->crc_at : s->head;

	if (!last || s->work.refusal || s->work.request.frame.payload_bytes == 0)
		return net_now_ns(s->work.server->options.net);
	return *arrived_ns_of(last);
}

/* With tickets, a record or the hello has arrived completely. Returns whether it is a request. */
static bool take_sealed(struct rpc_stream *s)
{
	enum wire_status status;
	const char *why;

	if (s->sealed) {
		why = rpc_sealed_end(s);
		if (why)
			refuse_stream(s, WIRE_NO_TICKET, why);
		else if (quota_any(s->work.server))
			rpc_quota_request(&s->work);
		return !why;
	}
	status = rpc_sealed_greet(s, &why);
	if (status == WIRE_NO_TICKET)
		return refuse_stranger(s, why);
	if (status == WIRE_OK) {
		await_first_byte(s);
		rpc_stream_next(s);
	} else {
		refuse_stream(s, status, why);
	}
	return false;
}

/*
 * Parses as far as the bytes reach: header, then payload; when both are complete, the request goes to the ready list.
 */
static void parse_bytes(struct rpc_stream *s)
{
	struct rpc_server *server = s->work.server;
	struct rpc_request *r = &s->work.request;
	uint64_t arrived_ns;

	if (s->state == STREAM_HEADER) {
		if (s->have < sizeof(struct wire_frame)) {
			rpc_budget_grant(s, sizeof(struct wire_frame));
			return;
		}
		if (!begin_request(s))
			return;
	}
	if (s->work.refusal)
		discard(s);
	else
		rpc_budget_grant(s, r->frame.payload_bytes);
	if (s->have + s->dropped < r->frame.payload_bytes) {
		checksum(s);
		return;
	}
	wheel_cancel(net_wheel(server->options.net), &s->timer);
	rpc_budget_leave(s);
	checksum(s);
	if (unlikely(server->seals)) {
		if (!take_sealed(s))
			return;
	} else if (s->crc != r->frame.checksum) {
		server->counters.bad_checksums++;
		refuse_stream(s, WIRE_BAD_CHECKSUM,
			      "the frame's checksum does not match its bytes: the stream is closed");
		return;
	}
	arrived_ns = came_whole_ns(s);
	if (link_queued(&s->work) <= server->options.send_queue_bytes) {
		s->arrived_ns = arrived_ns;
		r->payload = (struct rpc_cursor){ s->head, 0 };
		make_ready(s);
		return;
	}
	if (over_budget(s) && !s->work.refusal)
		refuse_greedy(s); /* it would hold its mbufs until its peer reads */
	s->arrived_ns = arrived_ns;
	r->payload = (struct rpc_cursor){ s->head, 0 };
	block(s);
}

/* A request that has arrived in part must be completed soon. */
static void arm_stall(struct rpc_stream *s)
{
	struct net *net = s->work.server->options.net;

	if ((s->state == STREAM_PAYLOAD || (s->state == STREAM_HEADER && (s->have || s->aside))) && !s->waiting &&
	    !wheel_armed(&s->timer))
		wheel_arm(net_wheel(net), &s->timer, net_now_ns(net) + s->work.server->options.stall_ns);
}

static void parse_stream(struct rpc_stream *s)
{
	parse_bytes(s);
	arm_stall(s);
}

/* The beginning of a header, for which an mbuf is too much while they are short. */
static void set_aside(struct rpc_stream *s)
{
	struct rpc_cursor at = { s->head, 0 };
	const uint32_t bytes = s->have;

	rpc_cursor_copy(&at, &s->work.request.frame, bytes); /* where the whole header will be */
	take_off(s, bytes);
	s->aside = (uint8_t)bytes;
	rpc_budget_leave(s);
	rpc_budget_resume(s->work.server);
}

/* Puts what was set aside before what has arrived since. */
static void take_back(struct rpc_stream *s, struct rte_mbuf *m)
{
	_Static_assert(sizeof(struct wire_frame) <= RTE_PKTMBUF_HEADROOM, "what was set aside fits before the rest");

	memcpy(rte_pktmbuf_prepend(m, s->aside), &s->work.request.frame, s->aside);
	s->granted = s->aside;
	s->aside = 0;
}

/* Requests hold too many mbufs: this one gives up its own. A complete request takes no more, and will soon free its
 * own. */
static void give_way(struct rpc_stream *s)
{
	if (s->state == STREAM_PAYLOAD && !s->work.refusal)
		refuse_greedy(s);
	else if (s->state == STREAM_HEADER && s->have)
		set_aside(s);
	arm_stall(s);
}

/* After something has arrived, or a request has ended with more behind it. */
static void parse_within_budget(struct rpc_stream *s)
{
	const bool over = over_budget(s);

	if (s->state == STREAM_HEADER || s->state == STREAM_PAYLOAD)
		parse_stream(s);
	if (unlikely(over))
		give_way(s);
}

static void stream_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct rpc_stream *s = (struct rpc_stream *)((char *)timer - offsetof(struct rpc_stream, timer));

	if (s->state != STREAM_DRAINING)
		s->work.server->counters.stalled++;
	link_abort(&s->work);
}

static bool stream_opened(void *ctx, struct tcp_conn *conn, void **user)
{
	struct rpc_server *server = ctx;
	struct rpc_stream *s = stream_of(server->free_streams);

	if (!s) {
		server->counters.no_stream++;
		return false;
	}
	server->free_streams = s->work.next;
	*s = (struct rpc_stream){ .work = { .server = server, .conn = conn },
				  .state = STREAM_HEADER,
				  .crowd = rpc_budget_crowd(server, conn),
				  .timer.fire = stream_timer };
	if (server->options.observe) {
		const struct tcp_address address = link_address(&s->work);

		rpc_record_peer(&s->work, &address.remote, address.remote_port);
	}
	await_first_byte(s);
	*user = s;
	return true;
}

static void stream_received(void *user, struct rte_mbuf *payload)
{
	struct rpc_stream *s = user;

	if (s->state == STREAM_DRAINING) {
		link_consumed(&s->work, payload->data_len);
		rte_pktmbuf_free(payload);
		return;
	}
	if (unlikely(s->mute)) {
		s->mute = 0;
		wheel_cancel(net_wheel(s->work.server->options.net), &s->timer);
	}
	if (unlikely(s->aside))
		take_back(s, payload);
	append_mbuf(s, payload);
	parse_within_budget(s);
}

static void stream_acknowledged(void *user)
{
	struct rpc_stream *s = user;

	rpc_budget_read(s);
	if (s->state == STREAM_BLOCKED && link_queued(&s->work) <= s->work.server->options.send_queue_bytes / 2)
		make_ready(s);
}

static void stream_finished(void *user)
{
	struct rpc_stream *s = user;

	/* Its requests are still answered; then both sides are done. */
	s->peer_finished = 1;
	if (s->state != STREAM_READY && s->state != STREAM_BLOCKED)
		link_close(&s->work);
}

static void stream_closed(void *user, int reason)
{
	struct rpc_stream *s = user;

	s->work.conn = NULL;
	/* The peer has acknowledged everything, and was idle between two requests. */
	s->work.ended = s->peer_finished && reason == 0 && s->state == STREAM_HEADER && !s->have && !s->aside;
	if (s->state == STREAM_READY)
		return; /* in the ready list: rpc_run finishes the request if it was begun, and frees the stream */
	rpc_stream_free(s);
}

const struct tcp_handler rpc_stream_handler = {
	.opened = stream_opened,
	.received = stream_received,
	.acknowledged = stream_acknowledged,
	.finished = stream_finished,
	.closed = stream_closed,
};

void rpc_stream_let_go(struct rpc_stream *s)
{
	const uint32_t bytes = s->work.request.frame.payload_bytes;

	take_off(s, bytes - s->dropped);
	s->dropped = bytes;
	s->crc_at = NULL;
	s->work.request.payload = (struct rpc_cursor){ 0 };
	discharge(s);
	rpc_budget_resume(s->work.server);
}

void rpc_stream_next(struct rpc_stream *s)
{
	take_off(s, s->work.request.frame.payload_bytes - s->dropped);
	s->state = STREAM_HEADER;
	discharge(s);
	rpc_budget_resume(s->work.server);
	if (s->have)
		parse_within_budget(s);
	if (s->peer_finished && s->state != STREAM_READY && s->state != STREAM_BLOCKED)
		link_close(&s->work);
}
