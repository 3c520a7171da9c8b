/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests over datagram sessions, which deliver whole messages in order. Several may be in one packet. */
#include "rpc/chain.h"
#include "rpc/quota.h"
#include "rpc/record.h"
#include "rpc/sealed.h"

/* One message, or several in one packet, that wait for their turn. It is in the private area of the first mbuf. */
struct message {
	struct rte_mbuf *next;
	uint64_t arrived_ns;
	uint32_t charged; /* bytes of it that count as in flight: see quota.h */
	uint8_t status;	  /* an enum wire_status from dgram_handler's received, or WIRE_QUOTA_IN_FLIGHT */
};

static struct message *message_of(struct rte_mbuf *m)
{
	return rte_mbuf_to_priv(m);
}

uint64_t rpc_session_arrived_ns(const struct rpc_session *s)
{
	return message_of(s->head)->arrived_ns;
}

/* Frees the first message's mbufs. */
static inline void pop_message(struct rpc_session *s)
{
	struct net *net = s->work.server->options.net;
	struct rte_mbuf *m = s->head;
	uint32_t mbufs = 0;

	s->head = message_of(m)->next;
	s->at = 0;
	if (unlikely(message_of(m)->charged))
		rpc_quota_give_bytes(&s->work, message_of(m)->charged);
	for (struct rte_mbuf *next; m; m = next, mbufs++) {
		next = m->next;
		m->next = NULL;
		net_free(net, m);
	}
	dgram_taken(s->from, mbufs);
}

/* CRC of the message at `at`, in which its checksum field counts as zero; it is set to that. */
static uint32_t checksum(struct rte_mbuf *m, uint32_t at, uint32_t bytes)
{
	uint8_t *frame = rte_pktmbuf_mtod_offset(m, uint8_t *, at);

	memset(frame + offsetof(struct wire_frame, checksum), 0, sizeof(uint32_t));
	return rpc_chain_crc(m, at, bytes);
}

/* The frame is answered at once, and not recorded, as nothing in a damaged frame can be trusted. The session stays
 * open: it has checked the sender. */
static void refuse_message(struct rpc_work *w, enum wire_status status, const char *why)
{
	rpc_reply_fail(&w->request, status, "%s", why);
	w->reply_due = 1;
	w->replayed = 1;
}

static void check_message_of(struct rpc_work *w, struct rte_mbuf *m, uint32_t at)
{
	struct rpc_server *server = w->server;
	struct rpc_request *r = &w->request;
	const uint8_t status = message_of(m)->status;

	if (status != WIRE_OK) { /* refused when its turn comes, as it may repeat one that was executed */
		w->refusal = status;
	} else if (likely(!session_of(w)->tagged) &&
		   checksum(m, at, (uint32_t)sizeof(r->frame) + r->frame.payload_bytes) != r->frame.checksum) {
		server->counters.bad_checksums++;
		refuse_message(w, WIRE_BAD_CHECKSUM, "the frame's checksum does not match its bytes");
	} else if (r->frame.opcode == WIRE_REPLY) {
		server->counters.bad_frames++;
		refuse_message(w, WIRE_BAD_FRAME, "a reply was sent to a server");
	}
}

static void make_ready(struct rpc_session *s)
{
	s->state = SESSION_READY;
	rpc_work_arrived(&s->work);
}

/* Begins with the first message, if there is one. */
static void start_request(struct rpc_session *s)
{
	struct rpc_work *w = &s->work;
	struct rpc_request *r = &w->request;
	struct rte_mbuf *m = s->head;

	if (!m) {
		s->state = SESSION_IDLE;
		return;
	}
	memcpy(&r->frame, rte_pktmbuf_mtod_offset(m, const void *, s->at), sizeof(r->frame));
	if (unlikely(s->guest))
		sealed_bind(&s->bound, s->guest, &r->frame);
	rpc_work_begin(w);
	r->payload = (struct rpc_cursor){ m, s->at + (uint32_t)sizeof(r->frame) };
	r->deadline_ns =
		r->frame.deadline_us ? message_of(m)->arrived_ns + r->frame.deadline_us * UINT64_C(1000) : UINT64_MAX;
	check_message_of(w, m, s->at);
	if (unlikely(s->account) && quota_any(w->server))
		rpc_quota_request(w);
	if ((uint64_t)dgram_queued(w->session) * dgram_payload(w->session) <= w->server->options.send_queue_bytes)
		make_ready(s);
	else
		s->state = SESSION_BLOCKED; /* until its peer has read earlier replies */
}

void rpc_session_next(struct rpc_session *s)
{
	s->at = dgram_next(s->head, s->at);
	if (s->at == 0)
		pop_message(s);
	start_request(s);
}

void rpc_session_prefetch_next(const struct rpc_session *s)
{
	const uint32_t at = s->head ? dgram_next(s->head, s->at) : 0;
	const struct rte_mbuf *m = at || !s->head ? s->head : message_of(s->head)->next;

	work_prefetch(s->work.server, m, at + (uint32_t)sizeof(struct wire_frame), true);
}

void rpc_session_free(struct rpc_session *s)
{
	struct rpc_server *server = s->work.server;

	rpc_work_end(&s->work);
	while (s->head)
		pop_message(s);
	if (unlikely(s->account))
		rpc_quota_leave(&s->work);
	s->state = SESSION_FREE;
	s->work.next = server->free_sessions;
	server->free_sessions = &s->work;
}

static bool session_opened(void *ctx, struct dgram_session *session, void **user)
{
	struct rpc_server *server = ctx;
	struct rpc_session *s = session_of(server->free_sessions);

	if (!s) {
		server->counters.no_stream++;
		return false;
	}
	server->free_sessions = s->work.next;
	*s = (struct rpc_session){ .work = { .server = server, .session = session, .is_session = 1 },
				   .from = session,
				   .state = SESSION_IDLE,
				   .tagged = dgram_is_tagged(session),
				   .guest = dgram_guest(session) };
	if (s->guest && rpc_quota_enter(&s->work, s->guest) != WIRE_OK) {
		s->work.next = server->free_sessions;
		server->free_sessions = &s->work;
		dgram_refuse(session, WIRE_QUOTA_SESSIONS);
		return false;
	}
	if (server->options.observe) {
		const struct net_udp_address address = dgram_address(session);

		rpc_record_peer(&s->work, &address.remote, address.remote_port);
	}
	*user = s;
	return true;
}

static void session_received(void *user, struct rte_mbuf *m, uint32_t bytes, enum wire_status status)
{
	struct rpc_session *s = user;
	struct net *net = s->work.server->options.net;
	uint32_t at = 0;

	*message_of(m) = (struct message){ .arrived_ns = net_now_ns(net), .status = (uint8_t)status };
	if (unlikely(s->account) && status == WIRE_OK && quota_any(s->work.server)) {
		if (rpc_quota_take_bytes(&s->work, bytes))
			message_of(m)->charged = bytes;
		else
			message_of(m)->status = WIRE_QUOTA_IN_FLIGHT;
	}
	do
		work_prefetch(s->work.server, m, at + (uint32_t)sizeof(struct wire_frame), false);
	while ((at = dgram_next(m, at)));
	if (s->head) {
		message_of(s->tail)->next = m;
		s->tail = m;
		return;
	}
	s->head = s->tail = m;
	start_request(s);
}

static void session_acknowledged(void *user)
{
	struct rpc_session *s = user;
	const struct rpc_work *w = &s->work;

	if (s->state == SESSION_BLOCKED &&
	    (uint64_t)dgram_queued(w->session) * dgram_payload(w->session) <= w->server->options.send_queue_bytes / 2)
		make_ready(s);
}

static void session_closed(void *user, int reason)
{
	struct rpc_session *s = user;

	s->work.session = NULL;
	if (s->state == SESSION_READY)
		return; /* in the ready list: rpc_run finishes the request if it was begun, and frees the session */
	rpc_session_free(s);
}

void rpc_session_give_up(struct rpc_session *s)
{
	dgram_close(s->work.session);
	session_closed(s, 0);
}

const struct dgram_handler rpc_session_handler = {
	.opened = session_opened,
	.received = session_received,
	.acknowledged = session_acknowledged,
	.closed = session_closed,
};
