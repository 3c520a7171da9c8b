/* SPDX-License-Identifier: BSD-3-Clause */
/* Snapshots in a reactor's turns, with requests in flight; requests that wait for them; what is loaded again. */
#include "tests/service/cases.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "service/internal.h"
#include "store/table.h"
#include "wire/checkpoint.h"

enum { BLOCKS = 3, N = 12000, ARENA = 64 << 20 };

static uint64_t keys[WIRE_KEYS_MAX];
static float gradients[1 << 20];

/* The thread that writes blocks down, which in virtual time does so when it is told. */
static struct writer {
	struct service_snapshot snapshot;
	struct service_block blocks[BLOCKS];
	unsigned patience; /* turns until the next block is taken */
	bool over;
	/* what it has written */
	uint8_t *bytes;
	size_t n;
	uint64_t rows, deleted;
	/* the instant */
	bool begun;
	float counts[N], eights[N][8];
	uint32_t versions[N];
} writer;

static struct rte_ring *ring(void)
{
	const ssize_t bytes = rte_ring_get_memsize(2 * BLOCKS + 2);
	struct rte_ring *r = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL((size_t)bytes, RTE_CACHE_LINE_SIZE));

	if (!r || rte_ring_init(r, "blocks", rte_align32pow2(2 * BLOCKS), RING_F_SP_ENQ | RING_F_SC_DEQ))
		exit(EXIT_FAILURE);
	return r;
}

/* The next snapshot has them from its begin on. */
static void have_blocks(void)
{
	for (writer.snapshot.blocks_count = 0; writer.snapshot.blocks_count < BLOCKS; writer.snapshot.blocks_count++)
		writer.snapshot.blocks[writer.snapshot.blocks_count] = &writer.blocks[writer.snapshot.blocks_count];
}

static void writer_open(void)
{
	memset(&writer, 0, sizeof(writer));
	writer.snapshot.full = ring();
	for (unsigned i = 0; i < BLOCKS; i++)
		writer.blocks[i].memory = aligned_alloc(CHECKPOINT_ALIGN, CHECKPOINT_BLOCK_MAX);
}

static void writer_close(void)
{
	free(writer.snapshot.full);
	for (unsigned i = 0; i < BLOCKS; i++)
		free(writer.blocks[i].memory);
	free(writer.bytes);
}

static void write_block(void)
{
	struct service_block *b;

	if (rte_ring_dequeue(writer.snapshot.full, (void **)&b))
		return;
	CHECK(!writer.over && b->payload_bytes <= CHECKPOINT_PAYLOAD_MAX);
	writer.bytes = realloc(writer.bytes, writer.n + b->payload_bytes + 1);
	memcpy(writer.bytes + writer.n, (uint8_t *)b->memory + sizeof(struct checkpoint_block), b->payload_bytes);
	writer.n += b->payload_bytes;
	writer.rows += b->rows;
	writer.deleted += b->deleted;
	writer.over = b->last;
	service_snapshot_give(shard.service, b);
}

static void read_table(unsigned object, uint64_t key, void *values, uint32_t *version)
{
	const struct store_table *t = shard.service->tables[object];
	const store_row row = store_index_find(&t->index, key, index_hash(key));

	store_read(t, row, key, STAR_FLOAT32, values);
	*version = store_version(t, row);
}

/* The reactor's turn, but for requests; then perhaps the writer's. */
static bool run_snapshot(void *ctx)
{
	uint32_t version;

	service_snapshot_turn(shard.service, shard.rig.link.now_ns, false);
	if (!writer.begun && shard.service->snapshots.snapshot && !shard.service->snapshots.pending) {
		writer.begun = true;
		for (unsigned k = 0; k < N; k++) {
			read_table(COUNTS, k, &writer.counts[k], &version);
			read_table(EIGHTS, k, writer.eights[k], &version);
			read_table(HALVES, k, (float[4]){ 0 }, &writer.versions[k]);
		}
	}
	if (writer.patience-- == 0) {
		write_block();
		writer.patience = prng_below(&shard.rig.link.prng, 20);
	}
	return *(const bool *)ctx;
}

/* The rest of the snapshot, without requests. */
static void finish(void)
{
	static const bool never;

	for (unsigned turns = 0; !writer.over && CHECK(turns < 1000000); turns++)
		run_snapshot((void *)&never);
}

/* Loads everything that was written into a new shard, in place of the old one's tables. */
static void check_restored(void)
{
	struct star_error err = { 0 };
	void *arena = malloc(ARENA);
	struct store *store = store_create(arena, ARENA, &err);
	const struct service_options options = { .incarnation = RIG_INCARNATION,
						 .partitions = PARTITIONS,
						 .store = store,
						 .payload_max = WIRE_PAYLOAD_DEFAULT,
						 .share = 1 };
	struct service *old = shard.service, *new = service_create(&options, &err);

	for (unsigned i = 1; i <= OBJECTS; i++)
		if (specs[i])
			CHECK_INT(service_install(new, specs[i], &err), 0);
	for (size_t at = 0; at < writer.n;) {
		const struct checkpoint_run *run = (const struct checkpoint_run *)(writer.bytes + at);

		if (!CHECK_INT(service_load(new, run, run + 1, run->count, &err), 0))
			printf("# %s\n", err.text);
		at += sizeof(*run) + (size_t)run->count * run->row_bytes;
	}
	shard.service = new;
	for (unsigned k = 0; k < N; k++) {
		float count, eights[8], halves[4];
		uint32_t version;

		read_table(COUNTS, k, &count, &version);
		if (!CHECK_NEAR(count, writer.counts[k], 0))
			break;
		read_table(EIGHTS, k, eights, &version);
		if (!CHECK_MEM(eights, writer.eights[k], sizeof(eights)))
			break;
		read_table(HALVES, k, halves, &version);
		if (!CHECK_UINT(version, writer.versions[k]))
			break;
	}
	CHECK_UINT(service_store_stats(new).rows, writer.rows);
	shard.service = old;
	service_destroy(new);
	store_destroy(store);
	free(arena);
}

static void send_any(struct peer *peer, struct prng *prng)
{
	const uint32_t count = 1 + prng_below(prng, prng_below(prng, 2) ? 40 : N);
	const uint64_t first = prng_below(prng, N - count + 1);
	const unsigned kind = prng_below(prng, 8);
	struct request r = { 0 };

	fill_keys(keys, count, first);
	if (kind < 2) {
		request_push(&r, COUNTS, keys, gradients, count, 0);
		request_push(&r, EIGHTS, keys, gradients, count, 0);
	} else if (kind < 4) {
		request_push(&r, HALVES, keys, gradients, count, 0);
	} else if (kind < 5) {
		request_op(&r,
			   (struct wire_op){ .kind = WIRE_DELETE,
					     .object = EIGHTS,
					     .count = count,
					     .dim = 8,
					     .body_bytes = count * 8 },
			   keys, NULL);
	} else {
		request_pull(&r, kind < 7 ? LIVING : COUNTS, keys, count, 0);
	}
	request_send(&r, peer);
}

void snapshots_while_requests_are_served(void)
{
	enum { PEERS = 4, REQUESTS = 12 };
	struct peer *peers[PEERS];
	struct request r = { 0 };
	struct reply reply;
	static const bool never;

	for (uint64_t seed = 1; seed <= 6; seed++) {
		shard_init(seed, 0);
		shard_start(0);
		writer_open();
		for (unsigned i = 0; i < PEERS; i++)
			peers[i] = rig_peer(&shard.rig, i);
		fill_floats(gradients, RTE_DIM(gradients), 2);
		fill_keys(keys, N, 0);
		request_push(&r, COUNTS, keys, gradients, N, 0);
		request_push(&r, EIGHTS, keys, gradients, N / 2, 0);
		request_pull(&r, LIVING, keys, N / 2, 0);
		request_good(&r, peers[0]);
		shard.store->snapshot.copies_bytes = seed % 2 ? STORE_SNAPSHOT_COPIES_MIN : 64 << 10;
		have_blocks();
		for (unsigned i = 0; i < PEERS * REQUESTS; i++) {
			send_any(peers[i % PEERS], &shard.rig.link.prng);
			if (i == 5)
				CHECK_INT(service_snapshot_begin(shard.service, STORE_SNAPSHOT_FULL, &writer.snapshot),
					  0);
			rig_run(&shard.rig, 200000, run_snapshot, (void *)&never);
		}
		finish();
		CHECK_INT(service_snapshot_status(&writer.snapshot), 0);
		service_snapshot_end(shard.service, true);
		CHECK(store_snapshot_delta_possible(shard.store));
		for (unsigned i = 0; i < PEERS * REQUESTS; i++) {
			peer_await(peers[i % PEERS], &reply);
			if (!CHECK_UINT(reply.frame.status, WIRE_OK))
				printf("# %s\n", reply.text);
		}
		check_restored();
		writer_close();
		shard_stop();
	}
}

/* A full store and a snapshot that is not written down, with hardly any memory for copies; two pushes that need it. */
static void begin_without_blocks(struct peer *peers[3], uint64_t wait_max_ns)
{
	static const bool never;
	struct request r = { 0 };
	struct wire_frame frame;

	shard_init(7, 0);
	shard_start(0);
	writer_open();
	for (unsigned i = 0; i < 3; i++)
		peers[i] = rig_peer(&shard.rig, i);
	fill_keys(keys, N, 0);
	fill_floats(gradients, RTE_DIM(gradients), 2);
	request_push(&r, COUNTS, keys, gradients, N, 0);
	request_pull(&r, WIDE, keys, 2, 0);
	request_good(&r, peers[0]);
	shard.store->snapshot.copies_bytes = 140 << 10;
	writer.snapshot.wait_max_ns = wait_max_ns;
	CHECK_INT(service_snapshot_begin(shard.service, STORE_SNAPSHOT_FULL, &writer.snapshot), 0);
	for (unsigned turns = 0; !writer.begun && CHECK(turns < 1000); turns++)
		run_snapshot((void *)&never);
	/* The first one fills the copies; all of its keys have no room, and its deadline passes. */
	frame = peer_frame(peers[0], WIRE_EXECUTE);
	frame.deadline_us = 50000;
	request_push(&r, COUNTS, keys, gradients, N, 0);
	peer_send(peers[0], frame, r.bytes, r.n);
	request_free(&r);
	rig_run(&shard.rig, 10 * LINK_MS, run_snapshot, (void *)&never);
	/* One that is small, of long rows, and one that is large. */
	request_push(&r, WIDE, keys, gradients, 2, 0);
	request_push(&r, COUNTS, keys + N - 10, gradients, 10, 0);
	request_send(&r, peers[1]);
	request_push(&r, COUNTS, keys, gradients, N, 0);
	request_send(&r, peers[2]);
}

static void expect_no_reply(struct peer *peer)
{
	static const bool never;

	rig_run(&shard.rig, 30 * LINK_MS, run_snapshot, (void *)&never);
	CHECK(!peer_has_reply(peer));
}

static bool has_reply(void *ctx)
{
	static const bool never;

	run_snapshot((void *)&never);
	return peer_has_reply(ctx);
}

static void expect_reply(struct peer *peer, enum wire_status status, const char *part)
{
	struct reply reply = { 0 };

	CHECK(rig_run(&shard.rig, RIG_S, has_reply, peer));
	CHECK(peer_reply(peer, &reply));
	CHECK_UINT(reply.frame.status, status);
	CHECK_HAS(reply.text, part);
}

void requests_wait_for_room_and_go_on(void)
{
	struct peer *peers[3];

	begin_without_blocks(peers, 0);
	/* Without a block it is not the snapshot that keeps a reactor awake. */
	CHECK_UINT(service_snapshot_turn(shard.service, shard.rig.link.now_ns, false), 0);
	expect_no_reply(peers[0]);
	expect_reply(peers[0], WIRE_DEADLINE, "waited for a checkpoint");
	expect_no_reply(peers[1]);
	expect_no_reply(peers[2]);
	/* Pulls of plain tables never wait. */
	CHECK_NEAR(pull_one(peers[0], COUNTS, 3), -1, 0);
	CHECK(store_snapshot_progress(shard.store).put_off > 0);
	for (unsigned i = 0; i < BLOCKS; i++)
		service_snapshot_give(shard.service, &writer.blocks[i]);
	expect_reply(peers[1], WIRE_OK, "");
	expect_reply(peers[2], WIRE_OK, "");
	finish();
	CHECK_INT(service_snapshot_status(&writer.snapshot), 0);
	service_snapshot_end(shard.service, true);
	/* The request that was refused for its deadline changed nothing; the snapshot has nothing of the others. */
	CHECK_NEAR(pull_one(peers[0], COUNTS, 3), -2, 0);
	CHECK_NEAR(pull_one(peers[0], COUNTS, N - 1), -3, 0);
	CHECK_NEAR(writer.counts[N - 1], -1, 0);
	check_restored();
	writer_close();
	shard_stop();
}

/* Gradients for sums that were open when they came, and are closed when there is room. */
void small_sums_that_waited_are_checked_again(void)
{
	const uint64_t key = 0;
	struct wire_op op = push_op(WIDE, 2, 0), open = { .kind = WIRE_COMMIT,
							  .flags = WIRE_OPEN,
							  .object = WIDE,
							  .count = 1,
							  .dim = specs[WIDE]->dim,
							  .body_bytes = sizeof(key),
							  .version = 5 };
	struct request r = { 0 };
	struct peer *peers[3], *waits, *other;

	begin_without_blocks(peers, 0);
	waits = rig_peer(&shard.rig, 3);
	other = rig_peer(&shard.rig, 4);
	request_op(&r, open, &key, NULL);
	request_good(&r, other);
	op.flags = WIRE_ACCUMULATE;
	op.version = 5;
	request_op(&r, op, keys, gradients);
	request_send(&r, waits);
	expect_no_reply(waits);
	open.version = 7;
	request_op(&r, open, &key, NULL);
	request_good(&r, other);
	for (unsigned i = 0; i < BLOCKS; i++)
		service_snapshot_give(shard.service, &writer.blocks[i]);
	expect_reply(waits, WIRE_CLOSED, "the sums 5 of \"wide\" are not open");
	finish();
	service_snapshot_end(shard.service, true);
	writer_close();
	shard_stop();
}

void snapshots_that_are_waited_for_are_given_up(void)
{
	/* By itself, or by somebody. */
	for (unsigned by_itself = 0; by_itself < 2; by_itself++) {
		struct peer *peers[3];

		begin_without_blocks(peers, by_itself ? 200 * LINK_MS : 0);
		expect_no_reply(peers[1]);
		if (by_itself) {
			expect_reply(peers[1], WIRE_OK, "");
			CHECK_INT(service_snapshot_status(&writer.snapshot), -ETIME);
		} else {
			service_snapshot_end(shard.service, true);
			expect_reply(peers[1], WIRE_OK, "");
		}
		expect_reply(peers[2], WIRE_OK, "");
		CHECK(!store_snapshot_delta_possible(shard.store)); /* it was not over */
		/* The next one is all right. */
		writer.begun = false;
		have_blocks();
		CHECK_INT(service_snapshot_begin(shard.service, STORE_SNAPSHOT_FULL, &writer.snapshot), 0);
		finish();
		check_restored();
		service_snapshot_end(shard.service, true);
		writer_close();
		shard_stop();
	}
}

static bool is_pushing(void *ctx)
{
	return service_counters(shard.service)->rows_pushed > *(const uint64_t *)ctx;
}

/* Of which a large request takes many turns. */
static void begin_slowly(void)
{
	writer_open();
	have_blocks();
	shard.rig.slices_per_turn = 1;
	fill_keys(keys, N, 0);
	fill_floats(gradients, RTE_DIM(gradients), 2);
}

void large_pushes_and_instants_wait_for_each_other(void)
{
	struct peer *first = shard_simple(8), *second = rig_peer(&shard.rig, 1);
	struct request r = { 0 };
	uint64_t rows = 100;

	begin_slowly();
	request_push(&r, COUNTS, keys, gradients, N, 0);
	request_send(&r, first);
	CHECK(rig_run(&shard.rig, RIG_S, is_pushing, &rows));
	CHECK_INT(service_snapshot_begin(shard.service, STORE_SNAPSHOT_FULL, &writer.snapshot), 0);
	request_push(&r, COUNTS, keys, gradients, N, 0);
	request_send(&r, second);
	expect_reply(second, WIRE_OK, "");
	/* The first is in it as a whole, the second not at all. */
	for (unsigned k = 0; k < N; k++)
		if (!CHECK_NEAR(writer.counts[k], -1, 0))
			break;
	expect_reply(first, WIRE_OK, "");
	finish();
	check_restored();
	writer_close();
	shard_stop();
}

static void add_sums(struct request *r, unsigned object, uint64_t tag)
{
	struct wire_op op = push_op(object, N, 0);

	op.flags = WIRE_ACCUMULATE;
	op.version = tag;
	request_op(r, op, keys, gradients);
}

static void add_commit(struct request *r, unsigned object, uint64_t tag, unsigned flags)
{
	const struct wire_op op = { .kind = WIRE_COMMIT,
				    .flags = (uint8_t)flags,
				    .object = object,
				    .count = 1,
				    .dim = specs[object]->dim,
				    .body_bytes = sizeof(uint64_t),
				    .version = tag };

	request_op(r, op, (const uint64_t[]){ 0 }, NULL);
}

static bool is_committing(void *ctx)
{
	return shard.service->accumulators[*(const unsigned *)ctx].emptying;
}

/* A step of two objects, with the snapshot's begin in the middle of one of them: all of the step is in it, or
 * nothing. */
void commits_and_instants_wait_for_each_other(void)
{
	for (unsigned object = COUNTS; object <= EIGHTS; object += EIGHTS - COUNTS) {
		struct peer *first = shard_simple(10), *second = rig_peer(&shard.rig, 1);
		struct request r = { 0 };

		writer_open();
		have_blocks();
		shard.rig.slices_per_turn = 1;
		fill_keys(keys, N, 0);
		for (unsigned i = 0; i < RTE_DIM(gradients); i++)
			gradients[i] = 1;
		add_commit(&r, COUNTS, 1, WIRE_OPEN);
		add_commit(&r, EIGHTS, 1, WIRE_OPEN);
		request_good(&r, first);
		add_sums(&r, COUNTS, 1);
		request_good(&r, first);
		add_sums(&r, EIGHTS, 1);
		request_good(&r, first);
		add_commit(&r, COUNTS, 1, 0);
		add_commit(&r, EIGHTS, 1, 0);
		request_send(&r, first);
		CHECK(rig_run(&shard.rig, 10 * RIG_S, is_committing, &object));
		CHECK_INT(service_snapshot_begin(shard.service, STORE_SNAPSHOT_FULL, &writer.snapshot), 0);
		/* The next step begins after the instant. */
		add_commit(&r, EIGHTS, 3, WIRE_OPEN);
		request_send(&r, second);
		expect_reply(first, WIRE_OK, "");
		expect_reply(second, WIRE_OK, "");
		finish();
		for (unsigned k = 0; k < N; k++)
			if (!CHECK(writer.counts[k] == writer.counts[0]) ||
			    !CHECK(writer.eights[k][0] == writer.eights[0][0]))
				break;
		CHECK(writer.counts[0] != 0 && writer.eights[0][0] != 0);
		check_restored();
		CHECK_UINT(shard.service->changing, 0);
		writer_close();
		shard_stop();
	}
}

static bool is_deleting(void *ctx)
{
	return store_table_stats(shard.service->tables[COUNTS])->deleted > *(const uint64_t *)ctx;
}

void large_deletes_and_instants_wait_for_each_other(void)
{
	struct peer *first = shard_simple(12);
	const uint64_t some = 1000;
	struct request r = { 0 };

	begin_slowly();
	request_push(&r, COUNTS, keys, gradients, N, 0);
	request_good(&r, first);
	request_op(&r,
		   (struct wire_op){ .kind = WIRE_DELETE,
				     .object = COUNTS,
				     .count = N,
				     .dim = specs[COUNTS]->dim,
				     .body_bytes = N * 8 },
		   keys, NULL);
	request_send(&r, first);
	CHECK(rig_run(&shard.rig, RIG_S, is_deleting, (void *)&some));
	CHECK(store_table_stats(shard.service->tables[COUNTS])->deleted < N);
	CHECK_INT(service_snapshot_begin(shard.service, STORE_SNAPSHOT_FULL, &writer.snapshot), 0);
	expect_reply(first, WIRE_OK, "");
	finish();
	CHECK_UINT(writer.rows, 0);
	CHECK_UINT(shard.service->changing, 0);
	writer_close();
	shard_stop();
}

/* A node that closes for a last checkpoint acknowledges nothing that is not in it. */
void what_waits_is_refused_by_another_layout(void)
{
	struct peer *first = shard_simple(13), *second = rig_peer(&shard.rig, 1);
	struct request r = { 0 };
	uint64_t rows = N - 1000;

	begin_slowly();
	request_push(&r, COUNTS, keys, gradients, N, 0);
	request_send(&r, first);
	request_push(&r, COUNTS, keys, gradients, N, 0);
	request_send(&r, second); /* waits for the first one's scratch */
	CHECK(rig_run(&shard.rig, RIG_S, is_pushing, &rows));
	CHECK(service_counters(shard.service)->rows_pushed <= N);
	service_set_layout(shard.service, 0, 0, shard.service->end_partition);
	CHECK_INT(service_snapshot_begin(shard.service, STORE_SNAPSHOT_FULL, &writer.snapshot), 0);
	expect_reply(first, WIRE_OK, "");
	expect_reply(second, WIRE_STALE_LAYOUT, "serves no layout");
	finish();
	CHECK_NEAR(writer.counts[N - 1], -1, 0);
	writer_close();
	shard_stop();
}

/* By the clock: many turns within a moment give few slices, turns without requests one each. */
void snapshots_have_an_eighth_of_busy_turns(void)
{
	enum { TURNS = 10000000 };
	struct peer *peer = shard_simple(9);
	struct request r = { 0 };
	uint64_t paused = 0, rows;

	writer_open();
	have_blocks();
	fill_keys(keys, WIRE_KEYS_MAX, 0);
	request_pull(&r, COUNTS, keys, WIRE_KEYS_MAX, 0);
	request_good(&r, peer);
	CHECK_INT(service_snapshot_begin(shard.service, STORE_SNAPSHOT_FULL, &writer.snapshot), 0);
	while (shard.service->snapshots.pending)
		service_snapshot_turn(shard.service, 0, false);
	for (unsigned i = 0; i < TURNS && !writer.over; i++) {
		rows = store_snapshot_progress(shard.store).rows;
		CHECK_UINT(service_snapshot_turn(shard.service, 0, true), 1);
		/* It has just had its slice. */
		if (store_snapshot_progress(shard.store).rows == rows)
			continue;
		shard.service->snapshots.pause_cycles += UINT64_C(1) << 40;
		rows = store_snapshot_progress(shard.store).rows;
		CHECK_UINT(service_snapshot_turn(shard.service, 0, true), 1);
		paused += store_snapshot_progress(shard.store).rows == rows;
		CHECK_UINT(service_snapshot_turn(shard.service, 0, false), 1);
		CHECK(store_snapshot_progress(shard.store).rows > rows || shard.service->snapshots.written);
		rows = store_snapshot_progress(shard.store).rows;
		shard.service->snapshots.pause_cycles = 0;
		break;
	}
	CHECK_UINT(paused, 1);
	while (!shard.service->snapshots.written) {
		service_snapshot_turn(shard.service, 0, false);
		write_block();
	}
	CHECK_UINT(service_snapshot_turn(shard.service, 0, false), 0);
	write_block();
	CHECK(writer.over);
	CHECK_UINT(writer.rows, WIRE_KEYS_MAX);
	service_snapshot_end(shard.service, true);
	/* Marks are cleared, then there is nothing to do. */
	rows = 0;
	while (service_snapshot_turn(shard.service, 0, false) && CHECK(rows < 1000))
		rows++;
	writer_close();
	shard_stop();
}

void snapshots_and_loads_are_refused(void)
{
	struct checkpoint_run run = { .object = COUNTS, .kind = CHECKPOINT_DELETED, .row_bytes = 8 };
	struct star_error err = { 0 };

	shard_simple(10);
	writer_open();
	service_snapshot_end(shard.service, true);
	CHECK_INT(service_snapshot_begin(shard.service, STORE_SNAPSHOT_DELTA, &writer.snapshot), -EAGAIN);
	CHECK_INT(service_snapshot_begin(shard.service, STORE_SNAPSHOT_FULL, &writer.snapshot), 0);
	CHECK_INT(service_snapshot_begin(shard.service, STORE_SNAPSHOT_FULL, &writer.snapshot), -EBUSY);
	service_snapshot_end(shard.service, true);
	CHECK_INT(service_snapshot_begin(shard.service, STORE_SNAPSHOT_FULL, &writer.snapshot), 0);
	run.count = 1;
	fill_keys(keys, 300, 0);
	CHECK_INT(service_load(shard.service, &run, keys, 1, &err), 0);
	CHECK_INT(service_load(shard.service, &run, keys, 2, &err), -EINVAL);
	run.count = 300;
	CHECK_INT(service_load(shard.service, &run, keys, 300, &err), 0);
	run.object = 6;
	CHECK_INT(service_load(shard.service, &run, keys, 300, &err), -ENOENT);
	run.object = UINT32_MAX;
	CHECK_INT(service_load(shard.service, &run, keys, 300, &err), -ENOENT);
	writer_close();
	shard_stop();
}
