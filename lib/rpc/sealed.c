/* SPDX-License-Identifier: BSD-3-Clause */
#include "rpc/sealed.h"

#include <string.h>

#include "rpc/link.h"
#include "rpc/quota.h"
#include "secure/memory.h"

enum {
	LOOKS = 1024, /* streams that are checked per call */
	REVIEW_STEP_NS = 1000000,
	REVIEW_NS = 500000000,
};

struct rpc_seal *rpc_sealed_create(uint32_t n)
{
	return secure_alloc(n * sizeof(struct rpc_seal));
}

void rpc_sealed_destroy(struct rpc_seal *seals)
{
	secure_free(seals);
}

const char *rpc_sealed_check(const struct wire_frame *frame)
{
	if (frame->magic != WIRE_MAGIC || frame->version != WIRE_VERSION)
		return "this is not a frame of this version of StarServer";
	if (frame->opcode != WIRE_HELLO)
		return "this node takes requests by ticket only (security.data): a libstar that is told so asks for "
		       "one with the key in STAR_KEY";
	return frame->payload_bytes == sizeof(struct secure_hello) ? NULL : "a hello of another length";
}

/* The ticket says which node it is for: the node's root key is drawn at each start. The incarnation is the one that the
 * worker knows. If the node has restarted since, the worker learns that from the answers to its requests; it has no
 * other way. */
static struct secure_place place_of(const struct rpc_server *server, const struct wire_frame *hello)
{
	return (struct secure_place){ .incarnation = hello->incarnation, .port = server->options.port };
}

/* Sends the reply to a hello: not encrypted, but with a tag. false: there is no mbuf. */
static bool send_welcome(struct rpc_stream *s, const uint8_t secret[SECURE_HASH_BYTES],
			 const struct secure_hello *hello, const struct secure_welcome *welcome)
{
	const struct rpc_server *server = s->work.server;
	struct rte_mbuf *m = link_alloc(&s->work);
	struct wire_frame frame = {
		.magic = WIRE_MAGIC,
		.version = WIRE_VERSION,
		.opcode = WIRE_REPLY,
		.session = s->work.request.frame.session,
		.sequence = s->work.request.frame.sequence,
		.epoch = server->epoch,
		.incarnation = server->incarnation,
		.payload_bytes = sizeof(*welcome),
	};

	if (!m)
		return false;
	secure_welcome_tag(secret, hello, &frame, sizeof(frame), welcome, frame.auth_tag);
	memcpy(rte_pktmbuf_append(m, sizeof(frame)), &frame, sizeof(frame));
	memcpy(rte_pktmbuf_append(m, sizeof(*welcome)), welcome, sizeof(*welcome));
	link_send(&s->work, m);
	return true;
}

/* Whether the sender has proved that the ticket is its own. */
static const char *check_hello(const struct rpc_server *server, struct wire_frame *frame,
			       const struct secure_hello *hello, struct secure_guest *guest,
			       uint8_t secret[SECURE_HASH_BYTES])
{
	uint8_t tag[SECURE_TAG_BYTES], right[SECURE_TAG_BYTES];

	memcpy(tag, frame->auth_tag, sizeof(tag));
	memset(frame->auth_tag, 0, sizeof(frame->auth_tag));
	if (!secure_tickets_open(server->options.tickets, &hello->ticket, net_now_ns(server->options.net), guest,
				 secret))
		return "the ticket is not one of this node's, or is too old, or its principal was revoked";
	secure_hello_tag(secret, place_of(server, frame), frame, sizeof(*frame), hello, right);
	return secure_same(tag, right, sizeof(tag)) ? NULL
						    : "the sender of the ticket has not proved that it is theirs";
}

enum wire_status rpc_sealed_greet(struct rpc_stream *s, const char **why)
{
	struct rpc_server *server = s->work.server;
	struct wire_frame *frame = &s->work.request.frame;
	struct rpc_seal *seal = seal_of(s);
	uint8_t secret[SECURE_HASH_BYTES] = { 0 };
	struct rpc_cursor at = { s->head, 0 };
	enum wire_status status = WIRE_NO_TICKET;
	struct secure_welcome welcome;
	struct secure_hello hello;

	rpc_cursor_copy(&at, &hello, sizeof(hello));
	*why = check_hello(server, frame, &hello, &seal->guest, secret);
	if (!*why) {
		status = rpc_quota_enter(&s->work, &seal->guest);
		*why = status == WIRE_OK ? NULL : rpc_quota_text(status);
	}
	if (status == WIRE_OK) {
		secure_welcome_make(server->options.tickets, server->options.port, ++server->welcomes, &welcome);
		if (send_welcome(s, secret, &hello, &welcome)) {
			secure_connection_keys(secret, place_of(server, frame), &hello, &welcome,
					       secure_data_cipher(secure_tickets_data(server->options.tickets)),
					       &seal->in, &seal->out);
			seal->bound = (struct rpc_bound){ 0 };
			s->sealed = 1;
		} else {
			rpc_quota_leave(&s->work);
			*why = "the node has no buffers left for the reply: retry later";
			status = WIRE_BUSY;
		}
	}
	explicit_bzero(secret, sizeof(secret));
	return status;
}

/* The tag covers a record's header, except for the tag itself. */
static struct wire_frame guarded(const struct wire_frame *frame)
{
	struct wire_frame copy = *frame;

	memset(copy.auth_tag, 0, sizeof(copy.auth_tag));
	return copy;
}

void rpc_sealed_begin(struct rpc_stream *s)
{
	const struct wire_frame header = guarded(&s->work.request.frame);

	secure_open_begin(&seal_of(s)->in, &header, sizeof(header));
}

const char *rpc_sealed_end(struct rpc_stream *s)
{
	struct rpc_server *server = s->work.server;

	if (unlikely(!secure_open_end(&seal_of(s)->in, s->work.request.frame.auth_tag))) {
		server->counters.bad_tags++;
		return "the record is not as it was sent: the stream is closed";
	}
	if (unlikely(!secure_tickets_hold(server->options.tickets, &seal_of(s)->guest))) {
		server->counters.revoked++;
		return "the key was revoked: the stream is closed";
	}
	sealed_bind(&seal_of(s)->bound, &seal_of(s)->guest, &s->work.request.frame);
	return NULL;
}

static void review(struct wheel_timer *timer, uint64_t now_ns)
{
	struct rpc_server *server = (struct rpc_server *)((char *)timer - offsetof(struct rpc_server, review_timer));
	const uint32_t all = server->options.streams_max, reviews = secure_tickets_reviews(server->options.tickets);
	const uint32_t end = all - server->review_at > LOOKS ? server->review_at + LOOKS : all;

	if (server->reviewing_sessions) {
		dgram_review(server->dgram, &server->review_session, LOOKS);
		server->reviewing_sessions = server->review_session;
		wheel_arm(net_wheel(server->options.net), timer, now_ns + REVIEW_STEP_NS);
		return;
	}
	if (server->review_at == 0 && server->reviews == reviews) {
		wheel_arm(net_wheel(server->options.net), timer, now_ns + REVIEW_NS);
		return;
	}
	if (server->review_at == 0)
		server->reviews = reviews;
	for (; server->review_at < end; server->review_at++) {
		struct rpc_stream *s = &server->streams[server->review_at];

		if (s->state == STREAM_FREE || !s->sealed || !s->work.conn ||
		    secure_tickets_hold(server->options.tickets, &seal_of(s)->guest))
			continue;
		server->counters.revoked++;
		link_abort(&s->work);
	}
	if (server->review_at == all) {
		server->review_at = 0;
		server->reviewing_sessions = server->dgram;
	}
	wheel_arm(net_wheel(server->options.net), timer, now_ns + (server->review_at ? REVIEW_STEP_NS : REVIEW_NS));
}

void rpc_sealed_watch(struct rpc_server *server)
{
	server->review_timer.fire = review;
	wheel_arm(net_wheel(server->options.net), &server->review_timer, net_now_ns(server->options.net) + REVIEW_NS);
}

uint32_t rpc_sealed_reply(struct rpc_stream *s)
{
	struct secure_direction *out = &seal_of(s)->out;
	struct rte_mbuf *m = s->work.reply_head;
	struct wire_frame *frame = rte_pktmbuf_mtod(m, struct wire_frame *);
	uint32_t more = 0;

	frame->session = seal_of(s)->bound.chosen;
	secure_seal_begin(out, frame, sizeof(*frame));
	secure_seal_update(out, frame + 1, m->data_len - sizeof(*frame));
	for (m = m->next; m && m->data_len; m = m->next, more++)
		secure_seal_update(out, rte_pktmbuf_mtod(m, void *), m->data_len);
	secure_seal_end(out, frame->auth_tag);
	return more;
}

const _Atomic(uint8_t) *rpc_request_rights(const struct rpc_request *request)
{
	struct rpc_work *w = work_of((struct rpc_request *)(uintptr_t)request);
	const struct secure_tickets *tickets = w->server->options.tickets;

	if (!tickets)
		return NULL;
	return secure_tickets_rights_of(tickets, w->is_session ? session_of(w)->guest : &seal_of(stream_of(w))->guest);
}
