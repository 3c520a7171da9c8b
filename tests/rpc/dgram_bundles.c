/* SPDX-License-Identifier: BSD-3-Clause */
/* Several messages in a packet: which share one, in what order they come, and packets that only look like bundles. */
#include <errno.h>

#include "tests/rpc/cases.h"
#include "tests/rpc/dgram_rig.h"

enum { PARTS_MAX = 30 };

/* A client whose server has answered, with credit for one packet. */
static struct dg_end *begin(uint64_t seed)
{
	struct dg_end *client;

	dg_init(seed);
	dg_up();
	client = dg_open(0);
	dg_send(client, 10, 1 + 10);
	CHECK(dg_run(DG_S, dg_answered, client));
	dg_wait(LINK_MS);
	return client;
}

void dgram_small_messages_share_packets(void)
{
	struct dg_end *client = begin(70);
	const uint64_t out[2] = { dg_counters(0)->packets_out, dg_counters(1)->packets_out };
	uint32_t bytes = 0;

	for (unsigned i = 0; i < 60; i++) {
		dg_send(client, i * 37 % 150, 1 + i * 31 % 200);
		bytes += 64 + wire_padded(i * 37 % 150);
	}
	CHECK(dgram_queued(client->session) <= bytes / 1200 + 1);
	CHECK(dg_run(DG_S, dg_answered, client));
	dg_wait(LINK_MS);
	CHECK_UINT(dg_counters(0)->messages_in, 61);
	CHECK_UINT(dg_counters(1)->messages_in, 61);
	CHECK_UINT(dg_counters(0)->messages_out, 61);
	CHECK_UINT(dg_counters(1)->messages_out, 61);
	CHECK(dg_counters(0)->packets_out - out[0] <= 20);
	CHECK(dg_counters(1)->packets_out - out[1] <= 20);
	dg_check_quiet();
	dg_down();
}

void dgram_bundles_fill_a_packet_and_no_more(void)
{
	struct dg_end *client = begin(71);
	const uint32_t most = dgram_payload(client->session);

	CHECK_UINT(most % 64, 0);
	for (unsigned i = 0; i < most / 64; i++)
		dg_send(client, 0, 1);
	CHECK_UINT(dgram_queued(client->session), 1);
	dg_send(client, 0, 1);
	CHECK_UINT(dgram_queued(client->session), 2);
	/* The last of them ends with the packet, though its length is not a multiple of 8. */
	dg_send(client, most - 128 - 3, 1);
	CHECK_UINT(dgram_queued(client->session), 2);
	dg_send(client, 0, 1);
	CHECK_UINT(dgram_queued(client->session), 3);
	CHECK(dg_run(DG_S, dg_answered, client));
	CHECK_UINT(dg_server_of(client)->received, most / 64 + 4);
	dg_down();
}

/* A message that needs packets of its own begins with one, and what follows it does not join its last one. */
void dgram_large_messages_stand_between_bundles(void)
{
	struct dg_end *client = begin(72);
	uint32_t packets = 0;

	dg.link.loss = 30;
	dg.link.reorder = 50;
	for (unsigned i = 0; i < 20; i++) {
		dg_send(client, 20, 1 + 20);
		dg_send(client, 20, 1 + 3000);
		CHECK_UINT(dgram_queued(client->session), ++packets);
		dg_send(client, 3000, 1 + 20);
		packets += 3;
		CHECK_UINT(dgram_queued(client->session), packets);
	}
	CHECK(dg_run(10 * DG_S, dg_answered, client));
	CHECK_UINT(dg_counters(0)->messages_in, 61);
	CHECK_UINT(dg_counters(1)->messages_in, 61);
	dg_wait(DG_S);
	dg_check_quiet();
	dg_down();
}

/* What was begun when the packet leaves does not go with it. */
void dgram_packets_leave_without_what_is_not_whole(void)
{
	struct dg_end *client = begin(73), *server = dg_server_of(client);
	struct rte_mbuf *m;

	dg_send(client, 20, 1);
	m = dgram_room(client->session, 64);
	CHECK(m != NULL);
	CHECK(dgram_room(client->session, 64) == NULL); /* one writer at a time */
	memset(rte_pktmbuf_append(m, 64), 0xff, 64);
	dg_wait(LINK_MS);
	CHECK_UINT(server->received, 2);
	CHECK(!dgram_append(client->session, m));
	rte_pktmbuf_free(m);
	/* One that is given up leaves nothing behind. */
	dg_send(client, 20, 1);
	m = dgram_room(client->session, 64);
	memset(rte_pktmbuf_append(m, 64), 0xff, 64);
	rte_pktmbuf_free(m);
	dg_send(client, 20, 1);
	CHECK_UINT(dgram_queued(client->session), 1);
	CHECK(dg_run(DG_S, dg_answered, client) || server->received == 4);
	CHECK_UINT(server->received, 4);
	/* Nor does the session's end. */
	dg_send(client, 20, 1);
	m = dgram_room(client->session, 64);
	dgram_close(client->session);
	client->session = NULL;
	rte_pktmbuf_free(m);
	dg_wait(LINK_MS);
	dg_check_quiet();
	dg_down();
}

/* Frames at multiples of 8, which say that they have so much payload, in a packet of n bytes; counted: this many
 * messages come, 0: the session ends. */
static const struct bundle {
	const char *what;
	uint32_t parts, payloads[PARTS_MAX];
	uint32_t bytes, counted;
	uint32_t magic; /* of the last frame; 0: the right one */
} bundles[] = {
	{ "two", 2, { 16, 16 }, 160, 2, 0 },
	{ "padding between", 2, { 13, 11 }, 155, 2, 0 },
	{ "no payloads at all", 22, { 0 }, 22 * 64, 22, 0 },
	{ "the last one is cut", 2, { 16, 16 }, 159, 0, 0 },
	{ "a byte behind", 2, { 16, 16 }, 161, 0, 0 },
	{ "zeros behind", 2, { 16, 12 }, 160, 0, 0 },
	{ "another frame's place behind", 2, { 16, 16 }, 160 + 64, 0, 0 },
	{ "half a frame behind", 2, { 16, 16 }, 160 + 32, 0, 0 },
	{ "beyond the packet", 2, { 16, 4000 }, 160, 0, 0 },
	{ "the first beyond the packet", 2, { 97, 16 }, 160, 0, 0 },
	{ "sums that wrap", 2, { 16, UINT32_MAX - 143 }, 160, 0, 0 },
	{ "sums that wrap at once", 2, { UINT32_MAX - 63, 16 }, 160, 0, 0 },
	{ "a bad magic", 2, { 16, 16 }, 160, 0, 7 },
	{ "only the last is too long", 21, { [20] = 65 }, 22 * 64, 0, 0 },
};

static uint32_t build(const struct bundle *bundle, uint8_t *body)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < bundle->parts; i++) {
		const struct wire_frame frame = {
			.magic = i + 1 == bundle->parts && bundle->magic ? bundle->magic : WIRE_MAGIC,
			.version = WIRE_VERSION,
			.opcode = WIRE_EXECUTE,
			.sequence = 2 + i,
			.payload_bytes = bundle->payloads[i],
		};

		if (at + sizeof(frame) <= bundle->bytes)
			memcpy(body + at, &frame, sizeof(frame));
		at += (uint32_t)sizeof(frame) + (bundle->payloads[i] < 1400 ? wire_padded(bundle->payloads[i]) : 0);
	}
	return bundle->bytes;
}

void dgram_bundles_that_do_not_work_out_end_the_session(void)
{
	for (unsigned i = 0; i < RTE_DIM(bundles); i++) {
		struct dg_end *client = begin(74), *server = dg_server_of(client);
		struct rte_mbuf *m = dgram_alloc(client->session);
		uint8_t body[1408] = { 0 };
		const uint32_t bytes = build(&bundles[i], body);
		const uint64_t before = dg_counters(0)->messages_in;

		dg.unchecked = true;
		server->quiet = true;
		memcpy(rte_pktmbuf_append(m, (uint16_t)bytes), body, bytes);
		dgram_send(client->session, m); /* which does not look at what it is given */
		dg_wait(LINK_MS);
		if (dg_counters(0)->messages_in - before != bundles[i].counted)
			unit_fail(__FILE__, __LINE__, "%s: %llu messages, wanted %u", bundles[i].what,
				  (unsigned long long)(dg_counters(0)->messages_in - before), bundles[i].counted);
		CHECK_UINT(server->closes, bundles[i].counted == 0);
		CHECK_UINT(dg_counters(0)->broken, bundles[i].counted == 0);
		if (server->closes)
			CHECK_INT(server->reason, EPROTO);
		else
			CHECK_UINT(server->received, 1 + bundles[i].counted);
		dg_check_quiet();
		dg_down();
	}
}
