/* SPDX-License-Identifier: BSD-3-Clause */
/* From bytes to requests: cuts, damage, and what never becomes whole. */
#include "tests/rpc/cases.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const struct order echo = { .reply_bytes = 20 };

/* A whole request as bytes; returns their number. */
static size_t compose(struct peer *peer, uint8_t *bytes, uint32_t data_bytes)
{
	struct wire_frame frame = peer_frame(peer, WIRE_EXECUTE);
	const uint32_t n = (uint32_t)sizeof(echo) + data_bytes;
	const void *payload = toy_payload(frame.session, frame.sequence, echo, data_bytes);

	frame.payload_bytes = n;
	frame.checksum = wire_checksum(&frame, payload, n);
	memcpy(bytes, &frame, sizeof(frame));
	memcpy(bytes + sizeof(frame), payload, n);
	return sizeof(frame) + n;
}

void requests_cut_in_two_anywhere(void)
{
	enum { DATA = 101 };
	uint8_t bytes[256];
	size_t n = 1;

	toy_init(1, 0);
	toy_start();
	struct peer *peer = rig_peer(&rig, 0);
	for (size_t cut = 0; cut < n; cut++) {
		n = compose(peer, bytes, DATA);
		peer_write(peer, bytes, cut);
		if (cut % 2) /* by turns as two segments of one burst, and with time in between */
			rig_wait(&rig, 5 * LINK_MS);
		peer_write(peer, bytes + cut, n - cut);
		if (!toy_await(peer, peer->sequence, echo, DATA)) {
			printf("# cut at %zu\n", cut);
			break;
		}
	}
	CHECK_UINT(rpc_counters(rig.server)->requests, n);
	CHECK_UINT(rpc_counters(rig.server)->replies, n);
	rig_stop(&rig);
}

void requests_byte_by_byte(void)
{
	uint8_t bytes[600];

	toy_init(2, 0);
	toy_start();
	struct peer *peer = rig_peer(&rig, 0);
	for (int round = 0; round < 3; round++) {
		size_t n = compose(peer, bytes, 37);

		n += compose(peer, bytes + n, 300);
		for (size_t i = 0; i < n; i++) {
			peer_write(peer, bytes + i, 1);
			if (round == 1)
				rig_wait(&rig, LINK_MS / 2);
		}
		toy_await(peer, peer->sequence - 1, echo, 37);
		toy_await(peer, peer->sequence, echo, 300);
	}
	CHECK_UINT(rpc_counters(rig.server)->requests, 6);
	rig_stop(&rig);
}

/* Pieces over 512 bytes are not put together: each cut falls between two mbufs. */
void large_pieces_cut_anywhere(void)
{
	enum { DATA = 2200 };
	static uint8_t bytes[DATA + 256];
	size_t n = 2000;

	toy_init(3, 0);
	toy_start();
	struct peer *peer = rig_peer(&rig, 0);
	for (size_t cut = 700; cut < n - 520; cut++) {
		n = compose(peer, bytes, DATA);
		peer_write(peer, bytes, cut);
		peer_write(peer, bytes + cut, n - cut);
		if (!toy_await(peer, peer->sequence, echo, DATA)) {
			printf("# cut at %zu\n", cut);
			break;
		}
	}
	rig_stop(&rig);
}

void pipelined_requests_cut_at_random(void)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		enum { REQUESTS = 60 };
		uint32_t data[REQUESTS];
		struct peer *peer;
		bool good = true;

		toy_init(seed, 0);
		toy_start();
		peer = rig_peer(&rig, 0);
		peer->segment_max = 1 + prng_below(&rig.link.prng, seed % 2 ? 60 : 1460);
		for (int i = 0; i < REQUESTS; i++) {
			data[i] = prng_below(&rig.link.prng, 1u << prng_below(&rig.link.prng, 13));
			toy_send(peer, echo, data[i]);
		}
		for (unsigned i = 0; i < REQUESTS && good; i++)
			good = toy_await(peer, i + 1, echo, data[i]);
		if (!good)
			printf("# seed %llu\n", (unsigned long long)seed);
		CHECK_UINT(rpc_counters(rig.server)->requests, REQUESTS);
		rig_stop(&rig);
	}
}

void pings_are_answered(void)
{
	struct wire_frame frame;
	struct reply reply;
	struct peer *peer;

	toy_init(4, 0);
	toy_start();
	peer = rig_peer(&rig, 0);
	for (int i = 0; i < 3; i++) {
		frame = peer_frame(peer, WIRE_PING);
		/* A ping needs no epoch, and may carry bytes that nobody reads. */
		frame.epoch = frame.incarnation = 0;
		peer_send(peer, frame, "12345", i == 1 ? 5 : 0);
	}
	for (uint64_t i = 1; i <= 3; i++) {
		peer_await(peer, &reply);
		CHECK_UINT(reply.frame.status, WIRE_OK);
		CHECK_UINT(reply.frame.payload_bytes, 0);
		CHECK_UINT(reply.frame.sequence, i);
		CHECK_UINT(reply.frame.session, peer->session);
	}
	CHECK_UINT(toy.started, 0);
	rig_stop(&rig);
}

struct damage {
	struct wire_frame frame; /* what is not 0 is taken over */
	uint32_t flip;		 /* bit of the whole request to flip after the checksum was made, from 1 */
	bool ping;
	enum wire_status status;
	const char *sentence;
};

static void send_damaged(struct peer *peer, const struct damage *d)
{
	struct wire_frame frame = peer_frame(peer, d->ping ? WIRE_PING : WIRE_EXECUTE);
	const uint32_t n = d->ping ? 0 : sizeof(echo) + 50;
	uint8_t bytes[256];

	frame.magic += d->frame.magic;
	frame.version += d->frame.version;
	frame.opcode += d->frame.opcode;
	frame.payload_bytes = n + d->frame.payload_bytes;
	memcpy(bytes + sizeof(frame), toy_payload(frame.session, frame.sequence, echo, 50), sizeof(echo) + 50);
	frame.checksum = wire_checksum(&frame, bytes + sizeof(frame), n);
	memcpy(bytes, &frame, sizeof(frame));
	if (d->flip)
		bytes[(d->flip - 1) / 8] ^= (uint8_t)(1 << (d->flip - 1) % 8);
	peer_write(peer, bytes, sizeof(frame) + n);
}

/* One damaged request: an error reply, then the end; kind: the peer closes, does nothing, or goes on sending. */
static void check_damage(const struct damage *d, unsigned kind)
{
	const struct rpc_counters before = *rpc_counters(rig.server);
	struct peer *peer = rig_peer(&rig, 1), *other = &rig.peers[0];
	struct reply reply;
	uint64_t since;

	send_damaged(peer, d);
	if (!peer_await(peer, &reply))
		return;
	CHECK_STATUS(reply, d->status, d->sentence);
	CHECK_UINT(reply.frame.session, peer->session);
	since = rig.link.now_ns;
	if (kind == 0)
		tcp_close(peer->conn);
	for (int i = 0; kind == 2 && i < 100; i++) /* more than a window of requests that nobody reads */
		toy_send(peer, echo, 4000);
	toy_send(other, echo, 30);
	toy_await(other, other->sequence, echo, 30);
	CHECK(rig_run(&rig, 60 * RIG_S, peer_is_closed, peer));
	CHECK_INT(peer->reason, kind == 0 ? 0 : ECONNRESET);
	CHECK(!peer_reply(peer, &reply));
	if (kind)
		CHECK(rig.link.now_ns - since >= 900 * LINK_MS && rig.link.now_ns - since < 1200 * LINK_MS);
	CHECK_UINT(rpc_counters(rig.server)->bad_frames, before.bad_frames + (d->status == WIRE_BAD_FRAME));
	CHECK_UINT(rpc_counters(rig.server)->bad_checksums, before.bad_checksums + (d->status == WIRE_BAD_CHECKSUM));
	CHECK_UINT(rpc_counters(rig.server)->requests, before.requests + 1);
	CHECK_UINT(rpc_counters(rig.server)->errors, before.errors + 1);
}

void each_bad_frame_ends_its_stream_only(void)
{
	static const struct damage cases[] = {
		{ { .magic = 1 }, .status = WIRE_BAD_FRAME, .sentence = "bad magic" },
		{ { .version = 1 }, .status = WIRE_BAD_FRAME, .sentence = "unknown protocol version" },
		{ { .version = 255 }, .status = WIRE_BAD_FRAME, .sentence = "this node speaks version 4" },
		{ { .opcode = 255 }, .status = WIRE_BAD_FRAME, .sentence = "unknown opcode" },
		{ { .opcode = 3 }, .status = WIRE_BAD_FRAME, .sentence = "unknown opcode" },
		{ { .opcode = WIRE_REPLY - WIRE_EXECUTE },
		  .status = WIRE_BAD_FRAME,
		  .sentence = "a reply was sent to a server" },
		{ { .payload_bytes = WIRE_PAYLOAD_DEFAULT },
		  .status = WIRE_BAD_FRAME,
		  .sentence = "limit of 4 MiB of this node (limits.request_mib)" },
		{ { .payload_bytes = INT32_MAX }, .status = WIRE_BAD_FRAME, .sentence = "limit of 64 MiB" },
		/* the session (not the bits that the reply repeats), the checksum itself, first and last of the
		 * payload */
		{ .flip = 1 + 8 * 24, .status = WIRE_BAD_CHECKSUM, .sentence = "checksum does not match" },
		{ .flip = 1 + 8 * 60, .status = WIRE_BAD_CHECKSUM, .sentence = "checksum does not match" },
		{ .flip = 1 + 8 * 64, .status = WIRE_BAD_CHECKSUM, .sentence = "checksum does not match" },
		{ .flip = 8 * 130, .status = WIRE_BAD_CHECKSUM, .sentence = "checksum does not match" },
		{ .flip = 1 + 8 * 40,
		  .ping = true,
		  .status = WIRE_BAD_CHECKSUM,
		  .sentence = "checksum does not match" },
	};

	toy_init(5, 0);
	toy_start();
	rig_peer(&rig, 0);
	for (unsigned i = 0; i < RTE_DIM(cases); i++)
		for (unsigned kind = 0; kind < 3; kind++) {
			const unsigned before = toy.started;

			check_damage(&cases[i], kind);
			if (!CHECK_UINT(toy.started, before + 1))
				printf("# case %u, kind %u\n", i, kind);
		}
	rig_wait(&rig, 10 * RIG_S);
	CHECK_UINT(net_connections(rig.link.net[0]), 1);
	rig_stop(&rig);
}

void a_good_request_before_a_bad_one_is_answered(void)
{
	static const struct damage bad = { .flip = 1 + 8 * 64 };
	static const struct order slow = { .slices = 100, .reply_bytes = 5000 };
	struct reply reply;
	struct peer *peer;

	toy_init(6, 0);
	toy_start();
	peer = rig_peer(&rig, 0);
	toy_send(peer, slow, 3000);
	send_damaged(peer, &bad);
	toy_send(peer, echo, 0);
	toy_await(peer, 1, slow, 3000);
	peer_await(peer, &reply);
	CHECK_STATUS(reply, WIRE_BAD_CHECKSUM, "checksum");
	CHECK_UINT(reply.frame.sequence, 2);
	CHECK(rig_run(&rig, 10 * RIG_S, peer_is_closed, peer));
	CHECK_UINT(toy.started, 1);
	rig_stop(&rig);
}

void random_bytes_end_their_stream_only(void)
{
	struct peer *other;

	toy_init(7, 0);
	rig.options.stall_ns = RIG_S;
	toy_start();
	other = rig_peer(&rig, 0);
	for (unsigned i = 0; i < 200; i++) {
		struct peer *peer = rig_peer(&rig, 1);
		uint8_t bytes[300];

		for (size_t b = 0; b < sizeof(bytes); b++)
			bytes[b] = (uint8_t)prng_next(&rig.link.prng);
		if (i % 2) { /* some of them begin well */
			const struct wire_frame frame = peer_frame(peer, WIRE_EXECUTE);

			memcpy(bytes, &frame, prng_below(&rig.link.prng, sizeof(frame)));
		}
		peer_write(peer, bytes, 1 + prng_below(&rig.link.prng, sizeof(bytes)));
		if (i % 10 == 0) {
			toy_send(other, echo, i);
			toy_await(other, other->sequence, echo, i);
		}
		CHECK(rig_run(&rig, 10 * RIG_S, peer_is_closed, peer));
	}
	CHECK_UINT(toy.started, 20);
	CHECK_UINT(rpc_counters(rig.server)->bad_frames + rpc_counters(rig.server)->bad_checksums +
			   rpc_counters(rig.server)->stalled,
		   200);
	rig_wait(&rig, 10 * RIG_S);
	CHECK_UINT(net_connections(rig.link.net[0]), 1);
	rig_stop(&rig);
}

/* Whatever part of a request came: the stream ends stall_ns after its first byte, not before. */
void partial_requests_do_not_stall_for_ever(void)
{
	static const size_t parts[] = { 1, 63, 64, 65, 100, 64 + sizeof(struct order) + 199 };
	struct peer *idle, *peer;
	uint8_t bytes[512];

	toy_init(8, 0);
	rig.options.stall_ns = 5 * RIG_S;
	toy_start();
	idle = rig_peer(&rig, 0);
	toy_send(idle, echo, 0);
	toy_await(idle, 1, echo, 0);
	for (unsigned i = 0; i < 2 * RTE_DIM(parts); i++) {
		const size_t part = parts[i / 2];

		peer = rig_peer(&rig, 1);
		if (i % 2) /* behind a whole request, which takes longer than that, and does not count */
			toy_send(peer, (struct order){ .slices = 400000, .reply_bytes = 4 }, 0);
		compose(peer, bytes, 200);
		peer_write(peer, bytes, part);
		if (i % 2)
			toy_await(peer, 1, (struct order){ .slices = 400000, .reply_bytes = 4 }, 0);
		CHECK(!rig_run(&rig, 4900 * LINK_MS, peer_is_closed, peer));
		if (!CHECK(rig_run(&rig, 300 * LINK_MS, peer_is_closed, peer)))
			printf("# %zu bytes came\n", part);
		CHECK_INT(peer->reason, ECONNRESET);
		CHECK_UINT(rpc_counters(rig.server)->stalled, i + 1);
	}
	/* One byte a second keeps nobody alive. */
	peer = rig_peer(&rig, 1);
	compose(peer, bytes, 200);
	for (int i = 0; i < 6; i++) {
		peer_write(peer, bytes + i, 1);
		rig_wait(&rig, RIG_S);
	}
	CHECK(peer->closed);
	CHECK(!idle->closed); /* a stream that has sent a request may idle as long as it likes */
	toy_send(idle, echo, 0);
	toy_await(idle, 2, echo, 0);
	rig_stop(&rig);
}

void limits_travel_over_a_bad_link(void)
{
	static const struct order small = { .slices = 2, .reply_bytes = 100 };
	static const struct order big = { .slices = 20, .reply_bytes = WIRE_PAYLOAD_DEFAULT };
	const uint32_t most = WIRE_PAYLOAD_DEFAULT - sizeof(struct order);
	struct peer *peers[3];

	for (uint64_t seed = 1; seed <= 2; seed++) {
		toy_init(seed, 0);
		rig.link.loss = 10;
		rig.link.duplicate = 10;
		rig.link.reorder = 100;
		rig.link.corrupt = 5;
		rig.options.stall_ns = 3600 * RIG_S;
		toy_start();
		for (unsigned i = 0; i < RTE_DIM(peers); i++)
			peers[i] = rig_peer(&rig, i);
		peers[2]->segment_max = 1460;
		toy_send(peers[0], small, most);
		toy_send(peers[1], big, 0);
		toy_send(peers[2], big, most);
		toy_send(peers[0], big, 10);
		toy_send(peers[1], small, most);
		if (!toy_await(peers[1], 1, big, 0) || !toy_await(peers[2], 1, big, most) ||
		    !toy_await(peers[0], 1, small, most) || !toy_await(peers[0], 2, big, 10) ||
		    !toy_await(peers[1], 2, small, most))
			printf("# seed %llu\n", (unsigned long long)seed);
		CHECK_UINT(rpc_counters(rig.server)->requests, 5);
		rig_stop(&rig);
	}
}
