/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fuzz/client_dpdk.h"

static uint8_t message[SIDES_REPLY_BYTES + SIDES_REQUEST_BYTES];

static bool on_opened(void *ctx, struct dgram_session *session, void **user)
{
	struct node *node = ctx;

	for (unsigned i = 0; i < NODE_SESSIONS; i++) {
		struct node_session *n = &node->sessions[i];

		if (n->session)
			continue;
		n->node = node;
		n->session = session;
		n->channel = node->channel_of(session);
		n->sequence = n->count = 0;
		n->refuses = false;
		*user = n;
		return true;
	}
	return false;
}

static void take_request(struct node_session *n, const uint8_t *at, size_t bytes)
{
	struct request *r = &n->requests[n->count];

	FUZZ_CHECK(request_read(r, at, bytes) > 0, "a request of %zu bytes is not whole", bytes);
	/* A client that goes on with an earlier session begins with its unanswered requests. */
	if (n->sequence == 0 && r->frame.flags & WIRE_GOES_ON)
		n->sequence = r->frame.sequence - 1;
	FUZZ_CHECK(n->channel || r->frame.sequence == n->sequence + 1, "request %lu after %lu", r->frame.sequence,
		   n->sequence);
	n->sequence = r->frame.sequence;
	n->count++;
}

static void on_received(void *user, struct rte_mbuf *m, uint32_t bytes, enum wire_status status)
{
	struct node_session *n = user;
	uint32_t have = 0, at = 0, mbufs = 0;

	for (const struct rte_mbuf *i = m; i; i = i->next, mbufs++) {
		FUZZ_CHECK(have + i->data_len <= sizeof(message), "a message of %u bytes", bytes);
		memcpy(message + have, rte_pktmbuf_mtod(i, void *), i->data_len);
		have += i->data_len;
	}
	for (bool more = status == WIRE_OK && n->channel >= 0; more && n->count < NODE_REQUESTS; more = at) {
		const uint32_t next = mbufs == 1 ? dgram_next(m, at) : 0;

		/* A client that was told (a lie) that the session starts over numbers its packets from the start again,
		 * too: old and new messages are mixed here. A server of lib/rpc ends the connection then. */
		if (n->channel && !request_is_sound(message + at, have - at))
			break;
		take_request(n, message + at, have - at);
		at = next;
	}
	FUZZ_CHECK(n->channel || n->count < NODE_REQUESTS, "%u requests in flight", n->count);
	rte_pktmbuf_free(m);
	dgram_taken(n->session, mbufs);
}

static void on_connected(void *user, bool resumed, uint32_t incarnation)
{
	FUZZ_CHECK(false, "the node connects");
}

static void on_acknowledged(void *user)
{
}

static void on_closed(void *user, int reason)
{
	((struct node_session *)user)->session = NULL;
}

static const struct dgram_handler handler = { .opened = on_opened,
					      .connected = on_connected,
					      .received = on_received,
					      .acknowledged = on_acknowledged,
					      .closed = on_closed };

/* False: mbufs are short. */
static bool send_message(struct dgram_session *s, const uint8_t *bytes, uint32_t count)
{
	const uint32_t most = dgram_payload(s);
	struct rte_mbuf *first = dgram_room(s, count), **link = &first;

	if (first) {
		memcpy(rte_pktmbuf_append(first, (uint16_t)count), bytes, count);
		FUZZ_CHECK(dgram_append(s, first), "a packet has left by itself");
		return true;
	}
	for (uint32_t at = 0, n; at < count; at += n) {
		struct rte_mbuf *m = dgram_alloc(s);

		if (!m) {
			rte_pktmbuf_free(first);
			return false;
		}
		n = RTE_MIN(most, count - at);
		memcpy(rte_pktmbuf_append(m, (uint16_t)n), bytes + at, n);
		*link = m;
		link = &m->next;
	}
	dgram_send(s, first);
	return true;
}

static void drop_request(struct node_session *n)
{
	memmove(n->requests, n->requests + 1, --n->count * sizeof(n->requests[0]));
}

bool node_answer(struct node_session *n, bool refuse)
{
	const struct request *r = &n->requests[0];
	uint32_t bytes;

	if (!n->session || !n->count)
		return false;
	refuse |= n->refuses && r->frame.flags & WIRE_BEHIND;
	if (refuse)
		bytes = request_refuse(r, WIRE_BUSY, message);
	else if (r->frame.flags & WIRE_RESENT && r->frame.sequence & 1) /* it may have been executed before */
		bytes = request_refuse(r, WIRE_REPEATED, message);
	else
		bytes = request_reply(r, message);
	reply_sum(message, bytes, false);
	if (!send_message(n->session, message, bytes))
		return false;
	n->refuses = refuse;
	drop_request(n);
	return true;
}

int node_spoil(struct node_session *n, struct input *in)
{
	const uint8_t how = take8(in);
	uint32_t bytes;

	if (!n->session || !n->count || n->channel < 0)
		return -1;
	bytes = reply_spoil(in, message, request_reply(&n->requests[0], message), how);
	reply_sum(message, bytes, how & 16 && how & 32);
	/* The engine sends messages of whole words, and checks that a chain is as long as its frame says. */
	if (bytes % 8 || !send_message(n->session, message, bytes))
		return -1;
	drop_request(n);
	return n->channel;
}

uint32_t node_lie(const struct node *node, int channel, struct input *in, uint8_t *to, uint32_t room)
{
	const uint8_t how = take8(in);
	uint32_t bytes;

	for (unsigned i = 0; i < NODE_SESSIONS; i++) {
		const struct node_session *n = &node->sessions[i];

		if (!n->session || n->channel != channel || !n->count)
			continue;
		bytes = request_reply(&n->requests[how % n->count], message);
		if (how & 0x80)
			bytes = reply_spoil(in, message, bytes, how);
		reply_sum(message, bytes, false);
		bytes = RTE_MIN(bytes, room);
		memcpy(to, message, bytes);
		return bytes;
	}
	return 0;
}

void node_close(struct node_session *n)
{
	if (n->session)
		dgram_close(n->session);
	n->session = NULL;
}

void node_start(struct node *node)
{
	struct star_error err;
	const struct dgram_options o = { .net = node->net,
					 .port = NODE_PORT,
					 .accepts = true,
					 .incarnation = node->incarnation,
					 .sessions_max = NODE_SESSIONS,
					 .active_max = NODE_SESSIONS,
					 .window_max = 64,
					 .credits = 200,
					 .held_mbufs_max = 500,
					 .message_max = sizeof(message),
					 .rto_min_ns = 50000,
					 .rto_max_ns = 1000 * DGRAM_MS,
					 .lease_ns = 10000 * DGRAM_MS,
					 .heartbeat_ns = 1000 * DGRAM_MS,
					 .ack_delay_ns = 100 * DGRAM_US,
					 .target_delay_ns = 50 * DGRAM_US,
					 .secret = { 3, ++node->starts },
					 .handler = &handler,
					 .ctx = node };

	node->dgram = dgram_create(&o, &err);
	FUZZ_CHECK(node->dgram, "no endpoint: %s", err.text);
	for (unsigned i = 0; i < NODE_SESSIONS; i++)
		node->sessions[i].session = NULL;
}

void node_restart(struct node *node, bool other_incarnation)
{
	dgram_destroy(node->dgram);
	node->incarnation += other_incarnation;
	node_start(node);
}
