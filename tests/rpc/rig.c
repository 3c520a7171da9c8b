/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/rpc/rig.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/unit.h"

void rig_init(struct rig *rig, uint64_t seed, unsigned server_mbufs)
{
	memset(rig, 0, sizeof(*rig));
	link_init(&rig->link, seed);
	if (server_mbufs)
		link_pool(&rig->link, 0, server_mbufs);
	for (int side = 0; side < 2; side++) {
		rig->net_options[side] = link_options(&rig->link, side);
		/* A window that was closed for long is noticed soon when it opens. */
		rig->net_options[side].rto_max_us = 1000000;
	}
	rig->options = (struct rpc_server_options){
		.port = RIG_PORT,
		.streams_max = RIG_PEERS_MAX,
		.payload_max = WIRE_PAYLOAD_DEFAULT,
		.send_queue_bytes = 256 * 1024,
		.held_mbufs_max = 8192,
		.stall_ns = 30 * RIG_S,
	};
	rig->slices_per_turn = 8;
}

void rig_start(struct rig *rig, const struct rpc_service *service)
{
	struct star_error err = { 0 };

	link_up_with(&rig->link, &rig->net_options[0], &rig->net_options[1]);
	rig->options.net = rig->link.net[0];
	rig->options.service = *service;
	rig->server = rpc_server_create(&rig->options, &err);
	if (!rig->server) {
		unit_fail(__FILE__, __LINE__, "no server: %s", err.text);
		exit(EXIT_FAILURE);
	}
	rpc_server_set_layout(rig->server, RIG_EPOCH, RIG_INCARNATION);
}

void rig_stop(struct rig *rig)
{
	rpc_server_destroy(rig->server);
	link_down(&rig->link);
	for (unsigned i = 0; i < RIG_PEERS_MAX; i++) {
		free(rig->peers[i].in);
		free(rig->peers[i].out);
	}
}

/* The server's part of a turn; ends link_run after work, so that the time it took can pass. */
static bool turn(void *ctx)
{
	struct rig *rig = ctx;

	rig->worked = rpc_run(rig->server, rig->slices_per_turn, rig->link.now_ns);
	rig->slices += rig->worked;
	rpc_turn_sent(rig->server, 0, 0);
	if (rig->options.observe && !rig->worked)
		observe_idle(rig->options.observe);
	return rig->worked || (rig->until && rig->until(rig->until_ctx));
}

bool rig_run(struct rig *rig, uint64_t for_ns, bool (*until)(void *ctx), void *ctx)
{
	const uint64_t end = rig->link.now_ns + for_ns;

	rig->until = until;
	rig->until_ctx = ctx;
	while (rig->link.now_ns < end) {
		rig->worked = 0;
		link_run(&rig->link, end - rig->link.now_ns, turn, rig);
		if (until && until(ctx))
			return true;
		rig->link.now_ns += rig->worked * (uint64_t)SLICE_NS;
	}
	return false;
}

static void pump(struct peer *peer)
{
	/* A segment takes an mbuf, however short it is. */
	const uint32_t most = peer->segment_max ? RTE_MIN(1024 * peer->segment_max, 512u * 1024) : 512 * 1024;

	while (peer->conn && peer->opened && peer->out_sent < peer->out_bytes && tcp_queued(peer->conn) < most) {
		uint32_t n = tcp_mss(peer->conn);
		struct rte_mbuf *m = tcp_alloc(peer->conn);

		if (!m)
			return;
		if (peer->segment_max)
			n = RTE_MIN(n, 1 + prng_below(&peer->rig->link.prng, peer->segment_max));
		n = (uint32_t)RTE_MIN(n, peer->out_bytes - peer->out_sent);
		memcpy(rte_pktmbuf_append(m, (uint16_t)n), peer->out + peer->out_sent, n);
		peer->out_sent += n;
		if (!tcp_send(peer->conn, m))
			return;
	}
	if (peer->out_sent == peer->out_bytes)
		peer->out_sent = peer->out_bytes = 0;
}

static uint8_t *reserve(uint8_t **at, size_t *room, size_t used, size_t more)
{
	if (used + more > *room) {
		*room = 2 * (used + more);
		*at = realloc(*at, *room);
		if (!*at)
			exit(EXIT_FAILURE);
	}
	return *at + used;
}

static bool on_opened(void *ctx, struct tcp_conn *conn, void **user)
{
	struct peer *peer = *user;

	peer->opened = true;
	return true;
}

static void on_received(void *user, struct rte_mbuf *payload)
{
	struct peer *peer = user;
	const uint32_t n = payload->data_len;

	if (peer->in_taken)
		memmove(peer->in, peer->in + peer->in_taken, peer->in_bytes - peer->in_taken);
	peer->in_bytes -= peer->in_taken;
	peer->in_taken = 0;
	memcpy(reserve(&peer->in, &peer->in_room, peer->in_bytes, n), rte_pktmbuf_mtod(payload, void *), n);
	peer->in_bytes += n;
	if (peer->hold)
		peer->held += n;
	else
		tcp_consumed(peer->conn, n);
	rte_pktmbuf_free(payload);
}

static void on_acknowledged(void *user)
{
	pump(user);
}

static void on_finished(void *user)
{
	struct peer *peer = user;

	peer->finished = true;
}

static void on_closed(void *user, int reason)
{
	struct peer *peer = user;

	peer->conn = NULL;
	peer->closed = true;
	peer->reason = reason;
}

static const struct tcp_handler handler = { on_opened, on_received, on_acknowledged, on_finished, on_closed };

static bool is_opened(void *ctx)
{
	const struct peer *peer = ctx;

	return peer->opened || peer->closed;
}

struct peer *rig_peer(struct rig *rig, unsigned i)
{
	return rig_peer_at(rig, i, link_ip(0));
}

struct peer *rig_peer_at(struct rig *rig, unsigned i, const struct net_address *address)
{
	struct peer *peer = &rig->peers[i];
	struct star_error err = { 0 };

	free(peer->in);
	free(peer->out);
	*peer = (struct peer){ .rig = rig, .session = hash_mix(i + 1) };
	peer->conn = tcp_connect(rig->link.net[1], address, RIG_PORT, &handler, NULL, peer, &err);
	if (!peer->conn)
		unit_fail(__FILE__, __LINE__, "peer %u: %s", i, err.text);
	rig_run(rig, 60 * RIG_S, is_opened, peer);
	return peer;
}

struct wire_frame peer_frame(struct peer *peer, enum wire_opcode opcode)
{
	return (struct wire_frame){
		.magic = WIRE_MAGIC,
		.version = WIRE_VERSION,
		.opcode = (uint8_t)opcode,
		.session = peer->session,
		.sequence = ++peer->sequence,
		.epoch = RIG_EPOCH,
		.incarnation = RIG_INCARNATION,
	};
}

static void queue(struct peer *peer, const void *bytes, size_t n)
{
	memcpy(reserve(&peer->out, &peer->out_room, peer->out_bytes, n), bytes, n);
	peer->out_bytes += n;
}

void peer_seal(struct peer *peer, struct wire_frame *frame, void *payload)
{
	memset(frame->auth_tag, 0, sizeof(frame->auth_tag));
	secure_seal_begin(peer->to_node, frame, sizeof(*frame));
	secure_seal_update(peer->to_node, payload, frame->payload_bytes);
	secure_seal_end(peer->to_node, frame->auth_tag);
}

static bool open_reply(struct peer *peer, const struct reply *reply)
{
	struct wire_frame header = reply->frame;

	memset(header.auth_tag, 0, sizeof(header.auth_tag));
	secure_open_begin(peer->from_node, &header, sizeof(header));
	secure_open_update(peer->from_node, (void *)(uintptr_t)reply->payload, header.payload_bytes);
	return secure_open_end(peer->from_node, reply->frame.auth_tag);
}

void peer_send(struct peer *peer, struct wire_frame frame, const void *payload, uint32_t bytes)
{
	const size_t at = peer->out_bytes;

	frame.payload_bytes = bytes;
	if (!peer->to_node)
		frame.checksum = wire_checksum(&frame, payload, bytes);
	queue(peer, &frame, sizeof(frame));
	if (bytes)
		queue(peer, payload, bytes);
	if (peer->to_node) {
		peer_seal(peer, &frame, peer->out + at + sizeof(frame));
		memcpy(peer->out + at, &frame, sizeof(frame));
	}
	pump(peer);
}

void peer_write(struct peer *peer, const void *bytes, size_t n)
{
	if (n)
		queue(peer, bytes, n);
	pump(peer);
}

void peer_resume(struct peer *peer)
{
	peer->hold = false;
	if (peer->conn)
		tcp_consumed(peer->conn, peer->held);
	peer->held = 0;
}

/* The frame at the front, if it is whole. */
static bool whole(const struct peer *peer, struct wire_frame *frame)
{
	const size_t have = peer->in_bytes - peer->in_taken;

	if (have < sizeof(*frame))
		return false;
	memcpy(frame, peer->in + peer->in_taken, sizeof(*frame));
	return have >= sizeof(*frame) + frame->payload_bytes;
}

bool peer_has_reply(void *ctx)
{
	const struct peer *peer = ctx;
	struct wire_frame frame;

	return peer->closed || whole(peer, &frame);
}

bool peer_is_closed(void *ctx)
{
	const struct peer *peer = ctx;

	return peer->closed;
}

bool peer_reply(struct peer *peer, struct reply *reply)
{
	const char *why = NULL;
	uint32_t n;

	memset(reply, 0, sizeof(*reply));
	if (!whole(peer, &reply->frame))
		return false;
	reply->payload = peer->in + peer->in_taken + sizeof(reply->frame);
	n = reply->frame.payload_bytes;
	if (wire_frame_check(&reply->frame, &why) != WIRE_OK)
		unit_fail(__FILE__, __LINE__, "a reply's header: %s", why);
	CHECK_UINT(reply->frame.opcode, WIRE_REPLY);
	CHECK_UINT(reply->frame.epoch, RIG_EPOCH);
	CHECK_UINT(reply->frame.incarnation, RIG_INCARNATION);
	if (peer->from_node)
		CHECK(open_reply(peer, reply));
	else
		CHECK_UINT(wire_checksum(&reply->frame, reply->payload, n), reply->frame.checksum);
	if (reply->frame.status != WIRE_OK && CHECK(n <= WIRE_ERROR_TEXT_MAX))
		memcpy(reply->text, reply->payload, n);
	peer->in_taken += sizeof(reply->frame) + n;
	return true;
}

bool peer_await(struct peer *peer, struct reply *reply)
{
	rig_run(peer->rig, 600 * RIG_S, peer_has_reply, peer);
	if (peer_reply(peer, reply))
		return true;
	return unit_fail(__FILE__, __LINE__, "no reply: %zu bytes, closed %d, reason %d", peer->in_bytes, peer->closed,
			 peer->reason);
}
