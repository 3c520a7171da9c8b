/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables are dropped under requests of every kind, and others take their ids. */
#include "tests/service/cases.h"
#include "tests/service/programs.h"

#include <errno.h>

#include "service/internal.h"
#include "store/table.h"

enum { N = WIRE_KEYS_MAX };
static uint64_t keys[N];
static float gradients[1 << 20];

/* The same table under the next generation of its id; as requests name it. */
static unsigned install_again(unsigned id, uint32_t generation)
{
	struct object_spec spec = *specs[id];
	struct star_error err = { 0 };

	spec.generation = generation;
	CHECK_INT(service_install(shard.service, &spec, &err), 0);
	return object_wire_id(&spec);
}

static void reclaim(void)
{
	for (unsigned i = 0; service_sweep(shard.service, RIG_S) && CHECK(i < 100000); i++)
		;
}

/* Small pulls and pushes, the fast path and the general one; then with the table's definition under its id again. */
void handles_of_dropped_tables_are_refused(void)
{
	for (unsigned general = 0; general < 2; general++) {
		struct request r = { 0 };
		struct peer *peer;
		struct reply reply;
		struct wire_op op;

		shard.general = general;
		peer = shard_simple(50 + general);
		op = pull_op(COUNTS, 1, 0);
		fill_keys(keys, N, 0);
		fill_floats(gradients, 100, 1);
		push(peer, COUNTS, keys, gradients, 100);
		push(peer, EIGHTS, keys, gradients, 1);
		CHECK_INT(service_drop(shard.service, COUNTS), 0);
		CHECK_INT(service_drop(shard.service, COUNTS), 0);
		CHECK_INT(service_drop(shard.service, 0), 0);
		CHECK_INT(service_drop(shard.service, WIRE_OBJECTS_MAX + 1), 0);
		for (unsigned again = 0; again < 2; again++) {
			request_pull(&r, COUNTS, keys, 1, 0);
			request_refused(&r, peer, WIRE_UNKNOWN_OBJECT, "has the id 2 (generation 0): it was dropped");
			request_push(&r, COUNTS, keys, gradients, 1, 1);
			request_refused(&r, peer, WIRE_UNKNOWN_OBJECT, "it was dropped");
			op.object = install_again(COUNTS, 7);
		}
		request_op(&r, op, keys, NULL);
		reply = request_run(&r, peer);
		CHECK_STATUS(reply, WIRE_OK, "");
		CHECK_NEAR(*(const float *)(reply.payload + sizeof(struct wire_result)), 0, 0);
		/* The next generation but one, while the one before is being dropped. */
		CHECK_INT(service_drop(shard.service, COUNTS), 0);
		install_again(COUNTS, 8);
		request_op(&r, op, keys, NULL);
		request_refused(&r, peer, WIRE_UNKNOWN_OBJECT, "(generation 7)");
		CHECK(pull_one(peer, EIGHTS, 0) != 0);
		reclaim();
		shard_stop();
	}
	shard.general = false;
}

static bool has_begun(void *ctx)
{
	const struct service_counters *counters = service_counters(shard.service);

	return (*(unsigned *)ctx ? counters->rows_pulled : counters->rows_pushed) > 0;
}

/* A large pull of the table ends with an error, that of another table goes on; a large push is finished before. */
void requests_in_flight_end_or_are_finished(void)
{
	for (unsigned pull = 0; pull < 2; pull++) {
		struct peer *peer = shard_simple(60 + pull), *other = rig_peer(&shard.rig, 1);
		struct request r = { 0 };
		struct reply reply;

		fill_keys(keys, N, 0);
		fill_floats(gradients, RTE_DIM(gradients), 1);
		if (pull)
			request_pull(&r, EIGHTS, keys, N, 0);
		else
			request_push(&r, EIGHTS, keys, gradients, N, 1);
		request_send(&r, peer);
		CHECK(rig_run(&shard.rig, RIG_S, has_begun, &pull));
		request_pull(&r, WORDS, keys, 10000, 0);
		request_send(&r, other);
		CHECK_INT(service_drop(shard.service, EIGHTS), pull ? 0 : -EBUSY);
		if (!pull)
			CHECK_INT(service_drop(shard.service, EIGHTS), -EBUSY);
		peer_await(peer, &reply);
		CHECK_STATUS(reply, pull ? WIRE_UNKNOWN_OBJECT : WIRE_OK,
			     pull ? "was dropped while it was executed" : "");
		peer_await(other, &reply);
		CHECK_STATUS(reply, WIRE_OK, "");
		reclaim();
		CHECK(!shard.service->tables[EIGHTS] && !shard.service->dropping_count);
		request_push(&r, EIGHTS, keys, gradients, 1, 1);
		request_refused(&r, peer, WIRE_UNKNOWN_OBJECT, "it was dropped");
		push(peer, COUNTS, keys, gradients, 60000);
		shard_stop();
	}
}

/* Sums that are open, and a commit that was begun and given up. */
void dropped_tables_sums_go_too(void)
{
	struct peer *peer = shard_simple(70);
	struct wire_op sum = push_op(COUNTS, 100, 0), commit = { .kind = WIRE_COMMIT,
								 .flags = WIRE_OPEN,
								 .object = COUNTS,
								 .count = 1,
								 .dim = 1,
								 .body_bytes = sizeof(uint64_t),
								 .version = 5 };
	struct request r = { 0 };

	sum.flags = WIRE_ACCUMULATE;
	sum.version = 5;
	fill_keys(keys, N, 0);
	fill_floats(gradients, 100, 1);
	request_op(&r, commit, keys, NULL);
	request_good(&r, peer);
	request_op(&r, sum, keys, gradients);
	request_good(&r, peer);
	CHECK_INT(service_drop(shard.service, COUNTS), 0);
	commit.flags = 0;
	request_op(&r, commit, keys, NULL);
	request_refused(&r, peer, WIRE_UNKNOWN_OBJECT, "it was dropped");
	sum.object = commit.object = install_again(COUNTS, 1);
	request_op(&r, sum, keys, gradients);
	request_refused(&r, peer, WIRE_CLOSED, "none were yet");
	request_op(&r, commit, keys, NULL);
	request_refused(&r, peer, WIRE_CLOSED, "none were yet");
	commit.flags = WIRE_OPEN;
	commit.version = 1; /* below the former tag */
	request_op(&r, commit, keys, NULL);
	request_good(&r, peer);
	reclaim();
	shard_stop();
}

/* Tables with sums and rows, in an arena that holds one of them at a time. */
void dropped_tables_leave_no_memory_behind(void)
{
	uint64_t taken = 0;
	struct peer *peer;

	shard_init(80, 0);
	shard_start(8 << 20);
	peer = rig_peer(&shard.rig, 0);
	fill_keys(keys, N, 0);
	fill_floats(gradients, RTE_DIM(gradients), 1);
	CHECK_INT(service_drop(shard.service, EIGHTS), 0);
	for (uint32_t round = 1; round <= 100; round++) {
		struct wire_op op = push_op(EIGHTS, 60000, 1);
		struct request r = { 0 };

		op.object = install_again(EIGHTS, round);
		request_op(&r, op, keys, gradients);
		request_good(&r, peer);
		CHECK_INT(service_drop(shard.service, EIGHTS), 0);
		reclaim();
		if (round == 2)
			taken = arena_taken(&shard.store->arena);
		if (round > 2 && !CHECK_UINT(arena_taken(&shard.store->arena), taken))
			break;
	}
	shard_stop();
}

/* A program is gone with a table that it works on, and its place is another's. */
void dropped_tables_programs_go_too(void)
{
	struct peer *peer = shard_simple(90);
	struct star_error err = { 0 };
	struct program p = { .version = PROGRAM_VERSION,
			     .count = 3,
			     .nodes = { { .op = PROGRAM_KEYS, .object = EIGHTS, .dim = 8 },
					{ .op = PROGRAM_LOOKUP },
					{ .op = PROGRAM_FETCH, .a = 1 } } };
	struct request r = { 0 };
	struct body b = { 0 };
	uint64_t key = 5;

	for (uint32_t round = 0; round < 2 * PROGRAMS_MAX; round++) {
		p.nodes[0].generation = round;
		if (!CHECK_INT(install_program(300 + round % 7, &p, &err), 0))
			break;
		CHECK_UINT(shard.service->plans_used, 1);
		CHECK_INT(service_drop(shard.service, EIGHTS), 0);
		CHECK_UINT(shard.service->plans_used, 0);
		install_again(EIGHTS, round + 1);
	}
	reclaim();
	body_begin(&b, 300, &p, (uint32_t[]){ 1 }, 0);
	body_part(&b, &key, sizeof(key));
	body_into(&b, &r);
	request_refused(&r, peer, WIRE_UNKNOWN_OBJECT, "a table that it works on was dropped");
	/* Made for the former table, it does not get the present one. */
	CHECK_INT(install_program(300, &p, &err), -ENOENT);
	CHECK_HAS(err.text, "object 5, which was dropped: \"eights\" has its id now");
	shard_stop();
}
