/* SPDX-License-Identifier: BSD-3-Clause */
/* What is remembered of requests over streams. */
#include <stdlib.h>

#include "observe/observe_read.h"
#include "tests/rpc/cases.h"

enum { RECORDS = 64, HZ = 1000000000 };

static struct observe *start(unsigned mbufs)
{
	struct star_error err = { 0 };
	struct observe *o = observe_create(HZ, &err);

	toy_init(1, mbufs);
	rig.options.observe = o;
	toy_start();
	return o;
}

static void stop(struct observe *o)
{
	rig_stop(&rig);
	observe_destroy(o);
}

static size_t records_of(const struct observe *o, struct observe_record records[RECORDS])
{
	uint64_t from = 0;

	rig_wait(&rig, RIG_S); /* a turn without requests */
	return observe_copy(o, &from, records, RECORDS);
}

/* Each that counts as a request, once: when it came, who sent it, how it ended, in how many slices, and how long others
 * were executed before it. */
void requests_are_remembered(void)
{
	static const struct order echo = { .reply_bytes = 8 }, big = { .slices = 200, .reply_bytes = 8 },
				  fails = { .reply_bytes = 8, .fail = 1 };
	struct observe_record records[RECORDS];
	struct observe *o = start(0);
	struct peer *peers[2] = { rig_peer(&rig, 0), rig_peer(&rig, 1) };
	struct observe_peer found;
	uint64_t before, waited;
	struct reply reply;
	size_t n;

	before = rig.link.now_ns;
	toy_send(peers[0], big, 0);
	toy_send(peers[0], echo, 3000); /* waits for it: of one stream one after the other */
	toy_await(peers[0], 1, big, 0);
	toy_await(peers[0], 2, echo, 3000);
	toy_send(peers[1], fails, 0);
	peer_await(peers[1], &reply);
	peer_send(peers[1], peer_frame(peers[1], WIRE_PING), NULL, 0);
	peer_await(peers[1], &reply);
	n = records_of(o, records);
	CHECK_UINT(n, 4);
	CHECK_UINT(rpc_counters(rig.server)->requests, 4);
	if (n == 4) {
		CHECK_UINT(observe_slices(&records[0]), 201);
		CHECK_UINT(observe_slices(&records[1]), 1);
		waited = observe_units_ns(records[1].wait);
		CHECK(waited >= 150 * (uint64_t)SLICE_NS && waited <= 250 * (uint64_t)SLICE_NS);
		CHECK(observe_units_ns(records[0].total) >= 190 * (uint64_t)SLICE_NS);
		CHECK(observe_units_ns(records[1].total) >= 150 * (uint64_t)SLICE_NS);
		CHECK(records[0].arrived_ns >= before && records[1].arrived_ns <= before + 20 * LINK_MS);
		CHECK_UINT(records[0].status, WIRE_OK);
		CHECK_UINT(records[2].status, WIRE_NO_KEYS);
		CHECK_UINT(observe_class(&records[3]), OBSERVE_OTHER);
		CHECK_UINT(observe_keys(&records[3]), 0);
		CHECK(records[0].peer == records[1].peer && records[2].peer != records[0].peer);
		CHECK(observe_find_peer(o, records[2].peer, records[2].arrived_ns, &found));
		CHECK_UINT(found.port, tcp_address(peers[1]->conn).local_port);
	}
	stop(o);
}

/* A request whose reply finds no packet buffer at its end, when its task is gone: one record. */
void requests_whose_replies_are_due_count_once(void)
{
	static const struct order echo = { .slices = 3, .reply_bytes = 8 };
	struct observe_record records[RECORDS];
	struct observe *o = start(1024);
	struct peer *peer = rig_peer(&rig, 0);
	struct reply reply;
	size_t n;

	toy_send(peer, echo, 5000);
	toy_await(peer, 1, echo, 5000);
	toy.drain = true;
	toy_send(peer, (struct order){ .slices = 3, .reply_bytes = 8, .fail = 1 }, 5000);
	rig_wait(&rig, RIG_S / 10);
	toy.drain = false;
	toy_refill();
	peer_await(peer, &reply);
	CHECK_UINT(reply.frame.status, WIRE_NO_KEYS);
	n = records_of(o, records);
	CHECK_UINT(n, 2);
	CHECK_UINT(rpc_counters(rig.server)->requests, 2);
	if (n == 2) {
		CHECK_UINT(records[1].status, WIRE_NO_KEYS);
		CHECK(records[1].why & OBSERVE_WHY_BUFFERS);
		CHECK(observe_units_ns(records[1].total) >= RIG_S / 20);
	}
	stop(o);
}

/* No packet buffers for a reply. */
void what_requests_wait_for_is_remembered(void)
{
	static const struct order echo = { .reply_bytes = 8 }, large = { .reply_bytes = 40000 };
	struct observe_record records[RECORDS];
	struct observe *o = start(1024);
	struct peer *peer = rig_peer(&rig, 0);
	size_t n;

	toy_send(peer, echo, 0);
	toy_await(peer, 1, echo, 0);
	toy.drain = true;
	toy.leave = 8;
	toy_send(peer, large, 0);
	rig_wait(&rig, 2 * RIG_S);
	toy.drain = false;
	toy_refill();
	toy_await(peer, 2, large, 0);
	n = records_of(o, records);
	CHECK_UINT(n, 2);
	if (n == 2) {
		CHECK_UINT(records[0].why, 0);
		CHECK_UINT(records[1].why, OBSERVE_WHY_BUFFERS);
		CHECK(observe_units_ns(records[1].total) >= RIG_S);
	}
	stop(o);
}
