/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that take many slices: what others see meanwhile, and what happens to them when a stream, table or layout
 * changes. */
#include "tests/service/cases.h"

#include <errno.h>
#include <stdio.h>

#include "journal/ring.h"
#include "wire/layout.h"

enum { N = WIRE_KEYS_MAX };
static uint64_t keys[N];
static float gradients[1 << 20];

static void fill(uint64_t first, float gradient)
{
	fill_keys(keys, N, first);
	fill_floats(gradients, RTE_DIM(gradients), gradient);
}

static bool has_begun(void *ctx)
{
	const struct service_counters *counters = service_counters(shard.service);

	return (*(unsigned *)ctx ? counters->rows_pulled : counters->rows_pushed) > 0;
}

/* An id that was given to something of which the creation failed elsewhere: a large push is finished before it becomes
 * another table's, a large pull is refused. */
void ids_change_their_meaning_between_requests(void)
{
	struct peer *peer = shard_simple(1);
	struct object_spec other = *specs[EIGHTS];
	struct star_error err = { 0 };
	struct request r = { 0 };
	struct reply reply;

	other.dim = 3;
	other.generation++; /* as every id that is given again has it */
	fill(0, 2);
	for (unsigned pull = 0; pull < 2; pull++) {
		if (pull)
			request_pull(&r, EIGHTS, keys, N, 0);
		else
			request_push(&r, EIGHTS, keys, gradients, N, 1);
		request_send(&r, peer);
		CHECK(rig_run(&shard.rig, RIG_S, has_begun, &pull));
		CHECK(!peer_has_reply(peer));
		CHECK_INT(service_install(shard.service, &other, &err), pull ? 0 : -EBUSY);
		peer_await(peer, &reply);
		CHECK_UINT(reply.frame.status, pull ? WIRE_UNKNOWN_OBJECT : WIRE_OK);
	}
	shard_stop();
}

/* A primary that goes on alone has no stream any more: what it had begun under one is finished without. */
void a_stream_may_end_under_a_request(void)
{
	struct star_error err = { 0 };
	struct journal_ring *ring = journal_ring_create(JOURNAL_RING_MIN, UINT64_C(1000000000), &err);
	struct peer *peer = shard_simple(1);
	struct request r = { 0 };
	struct reply reply;
	unsigned pull = 0;

	if (CHECK(ring != NULL)) {
		fill(0, 2);
		service_journal_begin(shard.service, ring);
		request_push(&r, EIGHTS, keys, gradients, N, 1);
		request_send(&r, peer);
		CHECK(rig_run(&shard.rig, RIG_S, has_begun, &pull));
		CHECK(!peer_has_reply(peer));
		CHECK(ring->changes > 0);
		service_journal_begin(shard.service, NULL);
		peer_await(peer, &reply);
		CHECK_UINT(reply.frame.status, WIRE_OK);
	}
	shard_stop();
	journal_ring_destroy(ring);
}

void largest_requests_over_a_bad_link(void)
{
	struct peer *peers[3];
	struct request r = { 0 };
	struct reply reply;
	const float *rows;

	shard_init(1, 0);
	shard.rig.link.loss = 10;
	shard.rig.link.reorder = 100;
	shard.rig.link.duplicate = 10;
	shard.rig.link.corrupt = 5;
	shard_start(0);
	for (unsigned i = 0; i < 3; i++)
		peers[i] = rig_peer(&shard.rig, i);
	peers[1]->segment_max = 1460;
	/* All keys there may be; as many bytes as there may be; and a reply of as many. */
	fill(0, 2);
	request_push(&r, EIGHTS, keys, gradients, N, 1);
	request_send(&r, peers[0]);
	request_push(&r, WIDE, keys, gradients, 255, 1);
	request_send(&r, peers[1]);
	request_pull(&r, WIDE, keys + 1000, 255, WIRE_READ_ONLY);
	request_send(&r, peers[2]);
	peer_await(peers[0], &reply);
	result_rows(&reply, 0, EIGHTS, N);
	peer_await(peers[1], &reply);
	result_rows(&reply, 0, WIDE, 255);
	peer_await(peers[2], &reply);
	rows = result_rows(&reply, 0, WIDE, 255);
	for (unsigned i = 0; i < 255; i++) {
		float expected[WIRE_DIM_MAX];

		initial(WIDE, 1000 + i, expected);
		if (!CHECK_MEM(rows + (size_t)i * WIRE_DIM_MAX, expected, sizeof(expected)))
			break;
	}
	request_pull(&r, EIGHTS, keys, N, 0);
	reply = request_run(&r, peers[0]);
	rows = result_rows(&reply, 0, EIGHTS, N);
	for (unsigned i = 0; i < N * 8; i++)
		if (!CHECK_NEAR(rows[i], -2, 0))
			break;
	CHECK_UINT(shard_rows(), N + 255);
	shard_stop();
}

/* Rows in the longest slice so far, with one slice a turn. */
struct slices {
	uint64_t rows, longest;
};

static bool watch_slices(void *ctx)
{
	const struct service_counters *c = service_counters(shard.service);
	const uint64_t rows = c->rows_pulled + c->rows_pushed;
	struct slices *s = ctx;

	s->longest = RTE_MAX(s->longest, rows - s->rows);
	s->rows = rows;
	return peer_has_reply(&shard.rig.peers[0]);
}

void slices_are_bounded(void)
{
	static const struct {
		unsigned object;
		uint32_t count, most;
	} cases[] = { { COUNTS, N, 256 }, { EIGHTS, N, 256 }, { WIDE, 200, 4 }, { WORDS, 3000, 256 } };

	for (unsigned i = 0; i < RTE_DIM(cases); i++)
		for (unsigned kind = 0; kind < 2; kind++) {
			struct slices s = { 0 };
			struct peer *peer = shard_simple(2);
			struct request r = { 0 };
			struct reply reply;
			uint64_t before = shard.rig.slices;

			shard.rig.slices_per_turn = 1;
			fill(0, 1);
			if (kind)
				request_push(&r, cases[i].object, keys, gradients, cases[i].count, 0);
			else
				request_pull(&r, cases[i].object, keys, cases[i].count, 0);
			request_send(&r, peer);
			CHECK(rig_run(&shard.rig, 600 * RIG_S, watch_slices, &s));
			CHECK(peer_reply(peer, &reply));
			CHECK_UINT(reply.frame.status, WIRE_OK);
			if (!CHECK_UINT(s.longest, cases[i].most))
				printf("# case %u, %s\n", i, kind ? "push" : "pull");
			/* A push also has its rows found first, by slices of the same size. */
			CHECK_NEAR((double)(shard.rig.slices - before), (1.0 + kind) * cases[i].count / cases[i].most,
				   4);
			shard_stop();
		}
}

static bool in_the_middle(void *ctx)
{
	const struct service_counters *c = service_counters(shard.service);

	return c->rows_pulled + c->rows_pushed >= *(const uint64_t *)ctx;
}

static void run_rows(uint64_t rows)
{
	const struct service_counters *c = service_counters(shard.service);
	uint64_t until = c->rows_pulled + c->rows_pushed + rows;

	CHECK(rig_run(&shard.rig, 60 * RIG_S, in_the_middle, &until));
}

void small_requests_are_answered_in_between(void)
{
	enum { DELAY_SLICES = 100000 / SLICE_NS };

	for (unsigned kind = 0; kind < 2; kind++) {
		struct peer *big = shard_simple(3), *small = rig_peer(&shard.rig, 1);
		struct request r = { 0 };
		struct reply reply;
		uint64_t slices;

		shard.rig.slices_per_turn = 1;
		fill(0, 1);
		if (kind)
			request_push(&r, EIGHTS, keys, gradients, N, 0);
		else
			request_pull(&r, EIGHTS, keys, N, 0);
		request_send(&r, big);
		run_rows(10000);
		slices = shard.rig.slices;
		push(small, COUNTS, keys, gradients, 10);
		CHECK_NEAR(pull_one(small, COUNTS, 3), -0.5, 0);
		/* Two round trips on the wire; and for each one slice that had begun, one of the big request's and its
		 * own. */
		CHECK_NEAR((double)(shard.rig.slices - slices), 2 * (2 * DELAY_SLICES + 3), 4);
		CHECK(!peer_has_reply(big));
		CHECK(service_counters(shard.service)->rows_pulled + service_counters(shard.service)->rows_pushed < N);
		peer_await(big, &reply);
		CHECK_UINT(reply.frame.status, WIRE_OK);
		shard_stop();
	}
}

/* All to the same rows, by sums that are exact in any order. */
void large_pushes_at_once_all_finish(void)
{
	enum { PEERS = 6, ROUNDS = 2, KEYS = 20000 };
	struct peer *peers[PEERS];
	struct request r = { 0 };
	struct reply reply;
	const float *rows;

	shard_init(4, 0);
	shard.rig.link.loss = 5;
	shard_start(0);
	fill(1000, 2);
	for (unsigned i = 0; i < PEERS; i++)
		peers[i] = rig_peer(&shard.rig, i);
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned i = 0; i < PEERS; i++) {
			request_push(&r, COUNTS, keys, gradients, KEYS, 0);
			request_push(&r, EIGHTS, keys, gradients, KEYS, 0);
			request_pull(&r, COUNTS, keys, KEYS, 0);
			request_send(&r, peers[i]);
			/* A small one behind it, with scratch of its own. */
			request_push(&r, COUNTS, keys, gradients, 5, 0);
			request_send(&r, peers[i]);
		}
	for (unsigned round = 0; round < 2 * ROUNDS; round++)
		for (unsigned i = 0; i < PEERS; i++) {
			peer_await(peers[i], &reply);
			if (!CHECK_UINT(reply.frame.status, WIRE_OK))
				printf("# %s\n", reply.text);
		}
	request_pull(&r, COUNTS, keys, KEYS, 0);
	request_pull(&r, EIGHTS, keys, KEYS, 0);
	reply = request_run(&r, peers[0]);
	rows = result_rows(&reply, 0, COUNTS, KEYS);
	for (unsigned i = 0; i < KEYS; i++)
		if (!CHECK_NEAR(rows[i], i < 5 ? -2 * PEERS * ROUNDS : -PEERS * ROUNDS, 0))
			break;
	rows = result_rows(&reply, 1, EIGHTS, KEYS);
	for (unsigned i = 0; i < KEYS * 8; i++)
		if (!CHECK_NEAR(rows[i], -PEERS * ROUNDS, 0))
			break;
	shard_stop();
}

/* Few keys, but all the bytes that a push may have to count as small; with pulls as large behind it. */
void wide_small_pushes_at_once_all_finish(void)
{
	enum { PEERS = 8, ROUNDS = 5 };
	struct peer *peers[PEERS];
	struct request r = { 0 };
	struct reply reply;

	shard_init(5, 0);
	shard_start(0);
	for (unsigned i = 0; i < PEERS; i++)
		peers[i] = rig_peer(&shard.rig, i);
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned i = 0; i < PEERS; i++) {
			fill(10 * i, 2);
			request_push(&r, WIDE, keys, gradients, i % 4 + 1, 0);
			request_pull(&r, WIDE, keys, 3, 0);
			request_push(&r, EIGHTS, keys, gradients, 2, 0);
			request_send(&r, peers[i]);
		}
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned i = 0; i < PEERS; i++) {
			float row[WIRE_DIM_MAX];
			const float *rows;

			peer_await(peers[i], &reply);
			rows = result_rows(&reply, 1, WIDE, 3);
			for (unsigned k = 0; k < 3; k++) {
				initial(WIDE, 10 * i + k, row);
				for (unsigned step = 0; step <= round; step++)
					row[4095] -= k <= i % 4 ? 1 : 0;
				CHECK_NEAR(rows[k * WIRE_DIM_MAX + 4095], row[4095], 0);
			}
		}
	for (unsigned i = 0; i < PEERS; i++)
		CHECK_NEAR(pull_one(peers[0], EIGHTS, 10 * i + 1), -ROUNDS, 0);
	shard_stop();
}

/* One was begun when its stream died, one waited for the scratch, one had come only in part. */
void dead_streams_finish_what_was_begun(void)
{
	struct peer *peers[4];
	struct request r = { 0 };
	struct reply reply;
	const float *rows;
	uint64_t part;

	shard_init(6, 0);
	shard_start(0);
	for (unsigned i = 0; i < 4; i++)
		peers[i] = rig_peer(&shard.rig, i);
	fill(0, 2);
	request_push(&r, COUNTS, keys, gradients, N, 0);
	request_send(&r, peers[0]);
	run_rows(1000);
	fill(N, 2);
	request_push(&r, COUNTS, keys, gradients, 30000, 0);
	request_send(&r, peers[1]);
	fill(2 * N, 2);
	request_push(&r, COUNTS, keys, gradients, 30000, 0);
	part = r.n - 100;
	peer_send(peers[2], peer_frame(peers[2], WIRE_EXECUTE), r.bytes, r.n);
	peers[2]->out_bytes = RTE_MIN(peers[2]->out_bytes, part); /* the last bytes stay behind */
	request_free(&r);
	rig_wait(&shard.rig, 3 * LINK_MS);
	CHECK(service_counters(shard.service)->rows_pushed < N); /* still in the middle */
	for (unsigned i = 0; i < 3; i++)
		tcp_abort(peers[i]->conn);
	rig_wait(&shard.rig, 100 * LINK_MS);
	CHECK_UINT(service_counters(shard.service)->rows_pushed, N);
	CHECK_UINT(rpc_counters(shard.rig.server)->abandoned, 1);
	CHECK_UINT(rpc_counters(shard.rig.server)->requests, 0);
	CHECK_UINT(rte_mempool_in_use_count(shard.rig.link.pool[0]), 0);
	CHECK_UINT(shard_rows(), N);
	fill(0, 2);
	request_pull(&r, COUNTS, keys, N, 0);
	reply = request_run(&r, peers[3]);
	rows = result_rows(&reply, 0, COUNTS, N);
	for (unsigned i = 0; i < N; i++)
		if (!CHECK_NEAR(rows[i], -1, 0))
			break;
	/* The scratch is free. */
	request_push(&r, COUNTS, keys, gradients, N, 0);
	request_good(&r, peers[3]);
	CHECK_NEAR(pull_one(peers[3], COUNTS, N - 1), -2, 0);
	shard_stop();
}

void deadline_passes_while_another_push_has_the_scratch(void)
{
	struct peer *first = shard_simple(7), *second = rig_peer(&shard.rig, 1);
	struct wire_frame frame;
	struct request r = { 0 };
	struct reply reply;

	fill(0, 2);
	request_push(&r, COUNTS, keys, gradients, N, 0);
	request_send(&r, first);
	run_rows(100);
	frame = peer_frame(second, WIRE_EXECUTE);
	frame.deadline_us = 1000;
	request_push(&r, COUNTS, keys, gradients, 100, 0);
	peer_send(second, frame, r.bytes, r.n);
	peer_await(second, &reply);
	CHECK_STATUS(reply, WIRE_DEADLINE, "the deadline passed before the request was executed");
	CHECK(service_counters(shard.service)->rows_pushed < N);
	frame = peer_frame(second, WIRE_EXECUTE);
	frame.deadline_us = 10000000;
	peer_send(second, frame, r.bytes, r.n);
	peer_await(second, &reply);
	CHECK_UINT(reply.frame.status, WIRE_OK);
	CHECK_NEAR(pull_one(second, COUNTS, 5), -2, 0);
	CHECK_NEAR(pull_one(second, COUNTS, 500), -1, 0);
	CHECK_UINT(rpc_counters(shard.rig.server)->late, 1);
	peer_await(first, &reply);
	CHECK_UINT(reply.frame.status, WIRE_OK);
	request_free(&r);
	shard_stop();
}

static bool pushed_some(void *ctx)
{
	return service_counters(shard.service)->rows_pushed > 1000;
}

/* A request that pushes is finished as it was begun; one that only pulls is refused, and asked again elsewhere. */
void layout_changes_in_the_middle(void)
{
	struct peer *first = shard_simple(8), *second = rig_peer(&shard.rig, 1);
	struct request r = { 0 };
	struct reply reply;

	fill(0, 2);
	request_push(&r, COUNTS, keys, gradients, 20000, 0);
	request_pull(&r, COUNTS, keys, 20000, 0);
	request_send(&r, first);
	request_pull(&r, COUNTS, keys, N, WIRE_READ_ONLY);
	request_send(&r, second);
	rig_run(&shard.rig, 60 * RIG_S, pushed_some, NULL);
	service_set_layout(shard.service, RIG_EPOCH + 1, 0, PARTITIONS / 2);
	peer_await(first, &reply);
	CHECK_NEAR(result_rows(&reply, 1, COUNTS, 20000)[19999], -1, 0);
	peer_await(second, &reply);
	CHECK_STATUS(reply, WIRE_WRONG_SHARD, "belongs to another reactor");
	request_pull(&r, COUNTS, keys, 1, 0);
	request_refused(&r, second, WIRE_STALE_LAYOUT, "the layout's epoch is 4, the request's 3");
	service_set_layout(shard.service, RIG_EPOCH, 0, PARTITIONS);
	request_pull(&r, COUNTS, keys, 20000, 0);
	reply = request_run(&r, second);
	CHECK_NEAR(result_rows(&reply, 0, COUNTS, 20000)[10000], -1, 0);
	shard_stop();
}

/* Replies that together need three times the mbufs there are, written over many slices. */
void large_pulls_share_a_small_pool(void)
{
	enum { PEERS = 10, ROWS = 20 };
	struct peer *peers[PEERS];
	struct request r = { 0 };
	struct reply reply;

	shard_init(9, 1023);
	shard.rig.link.loss = 5;
	shard_start(0);
	fill(0, 2);
	for (unsigned i = 0; i < PEERS; i++)
		peers[i] = rig_peer(&shard.rig, i);
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < PEERS; i++) {
			if (i == 3) { /* one that holds the scratch of large pushes meanwhile */
				request_push(&r, WIDE, keys, gradients, 1, 0);
				request_push(&r, COUNTS, keys, gradients, 100, 0);
			}
			request_pull(&r, WIDE, keys, ROWS, 0);
			request_send(&r, peers[i]);
		}
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < PEERS; i++) {
			float row[WIRE_DIM_MAX];

			peer_await(peers[i], &reply);
			initial(WIDE, ROWS - 1, row);
			CHECK_NEAR(result_rows(&reply, i == 3 ? 2 : 0, WIDE, ROWS)[ROWS * WIRE_DIM_MAX - 1], row[4095],
				   0);
		}
	CHECK_NEAR(pull_one(peers[0], COUNTS, 99), -3, 0);
	shard_stop();
}
