/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of programs as requests: refused runs, which change nothing; slices; full memory; changing layouts. */
#include "tests/service/programs.h"

#include "service/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { POOLER = 100, LEARNER = 101, READER = 102, SEGMENTS = 9, BAG = 5 };

/* Sums of rows of WORDS by segment. */
static struct program pooler(void)
{
	struct program p = { 0 };
	const unsigned k = node_keys(&p, WORDS), s = node(&p, PROGRAM_SEGMENTS, k, 0);

	node(&p, PROGRAM_FETCH, node(&p, PROGRAM_POOL, node(&p, PROGRAM_LOOKUP, k, 0), s), 0);
	return p;
}

/* Applies 2 g to a table and fetches what was there. */
static struct program learner(unsigned object)
{
	struct program p = { 0 };
	const unsigned k = node_keys(&p, object), g = node_rows(&p, PROGRAM_ROWS, k, specs[object]->dim);
	const unsigned l = node(&p, PROGRAM_LOOKUP, k, 0);

	node(&p, PROGRAM_APPLY, k, node(&p, ELEMENTWISE_ADD, g, g));
	node(&p, PROGRAM_FETCH, l, 0);
	return p;
}

static void pool_body(struct body *b, const struct program *p, const uint64_t *keys, const uint32_t *segments,
		      uint32_t n)
{
	body_begin(b, POOLER, p, &n, SEGMENTS);
	body_part(b, keys, n * sizeof(*keys));
	body_part(b, segments, n * sizeof(*segments));
}

static void learn_body(struct body *b, unsigned id, const struct program *p, const uint64_t *keys,
		       const float *gradients, uint32_t n, uint32_t dim)
{
	body_begin(b, id, p, &n, 0);
	body_part(b, keys, n * sizeof(*keys));
	body_part(b, gradients, (size_t)n * dim * sizeof(float));
}

enum change {
	OBJECT,
	COUNT,
	DIM,
	BODY,
	RATE,
	SCALE,
	FLAGS,
	DTYPE,
	RESULT_DTYPE,
	RESERVED,
	VERSION,
	FEED,
	SEGMENT,
	FOREIGN,
};

static void change(struct body *b, enum change what, uint32_t value)
{
	switch (what) {
	case OBJECT:
		b->op.object = value;
		break;
	case COUNT:
		b->op.count = value;
		break;
	case DIM:
		b->op.dim = value;
		break;
	case BODY:
		b->op.body_bytes = value;
		break;
	case RATE:
		memcpy(&b->op.rate, &value, sizeof(value));
		break;
	case SCALE:
		memcpy(&b->op.scale, &value, sizeof(value));
		break;
	case FLAGS:
		b->op.flags = value;
		break;
	case DTYPE:
		b->op.dtype = (uint8_t)value;
		break;
	case RESULT_DTYPE:
		b->op.result_dtype = (uint8_t)value;
		break;
	case RESERVED:
		b->op.reserved = (uint8_t)value;
		break;
	case VERSION:
		b->op.version = value;
		break;
	case FEED:
		memcpy(b->r.bytes, &value, sizeof(value));
		break;
	default: /* the last segment */
		memcpy(b->r.bytes + 8 + 8 * BAG + 4 * (BAG - 1), &value, sizeof(value));
	}
}

/* Behind a good push and a good run that would make rows: nothing of them happens. */
void bad_runs_are_refused_and_change_nothing(void)
{
	static const struct {
		enum change what;
		uint32_t value;
		enum wire_status status;
		const char *sentence;
	} cases[] = {
		{ OBJECT, 0, WIRE_UNKNOWN_OBJECT, "no program has the id 0: register it first" },
		{ OBJECT, WORDS, WIRE_UNKNOWN_OBJECT, "no program has the id 1" },
		{ OBJECT, UINT32_MAX, WIRE_UNKNOWN_OBJECT, "no program has the id 4294967295" },
		{ COUNT, 0, WIRE_NO_KEYS, "names no keys" },
		{ COUNT, BAG - 1, WIRE_BAD_REQUEST, "says 4 keys, and its feeds have 5" },
		{ COUNT, UINT32_MAX, WIRE_OVER_LIMIT, "4294967295 keys in one request" },
		{ FEED, UINT32_MAX, WIRE_BAD_REQUEST, "says 5 keys, and its feeds have 4294967295" },
		{ DIM, 0, WIRE_BAD_REQUEST, "names 0 segments: 1 to 65536 are possible" },
		{ DIM, PROGRAM_SEGMENTS_MAX + 1, WIRE_BAD_REQUEST, "names 65537 segments" },
		{ DIM, SEGMENTS - 1, WIRE_BAD_REQUEST, "names segment 8 of 8" },
		{ BODY, 0, WIRE_BAD_REQUEST, "has a body of 0 bytes: 72 are needed, 72 are left" },
		{ BODY, 71, WIRE_BAD_REQUEST, "has a body of 71 bytes: 72 are needed" },
		{ BODY, UINT32_MAX, WIRE_BAD_REQUEST, "has a body of 4294967295 bytes" },
		{ RATE, 0x3f800000, WIRE_BAD_REQUEST, "it has one and applies nothing" },
		{ SCALE, 0x7fc00000, WIRE_BAD_REQUEST, "is not a finite number" },
		{ FLAGS, WIRE_READ_ONLY, WIRE_BAD_REQUEST, "flags that it cannot have" },
		{ FLAGS, WIRE_APPLIED, WIRE_BAD_REQUEST, "flags that it cannot have" },
		{ DTYPE, STAR_FLOAT32, WIRE_BAD_REQUEST, "has a type" },
		{ RESULT_DTYPE, STAR_FLOAT32, WIRE_BAD_REQUEST, "has a type" },
		{ RESERVED, 1, WIRE_BAD_REQUEST, "has a type" },
		{ VERSION, 1, WIRE_BAD_REQUEST, "a tag" },
		{ SEGMENT, SEGMENTS, WIRE_BAD_REQUEST, "names segment 9 of 9" },
		{ SEGMENT, UINT32_MAX, WIRE_BAD_REQUEST, "names segment 4294967295 of 9" },
	};
	static const uint64_t keys[BAG] = { 1, 2, 3, 4, 5 };
	static const uint32_t segments[BAG] = { 0, 0, 0, 0, SEGMENTS - 1 };
	static const float ones[BAG * 16] = { 1, 1, 1 };
	struct peer *peer = shard_simple(1);
	const struct program p = pooler();

	install_good(POOLER, &p);
	for (unsigned i = 0; i < RTE_DIM(cases); i++) {
		struct request r = { 0 };
		struct body b;

		request_push(&r, COUNTS, keys, ones, 1, 1);
		pool_body(&b, &p, keys, segments, BAG);
		change(&b, cases[i].what, cases[i].value);
		body_into(&b, &r);
		request_refused(&r, peer, cases[i].status, cases[i].sentence);
		CHECK_NEAR(pull_one(peer, COUNTS, 1), 0, 0);
	}
	CHECK_UINT(service_counters(shard.service)->pushes + service_counters(shard.service)->runs, 0);
	shard_stop();
}

/* A gradient that is computed may be not finite, too. */
void computed_gradients_that_are_not_finite_change_nothing(void)
{
	enum { N = 200 };
	static uint64_t keys[N];
	static float gradients[N * 2], rows[N * 2];
	struct peer *peer = shard_simple(2);
	const struct program p = learner(LIVING), c = learner(COUNTS);

	install_good(LEARNER, &p);
	install_good(READER, &c);
	fill_keys(keys, N, 0);
	fill_floats(gradients, RTE_DIM(gradients), 1);
	for (uint32_t n = 3; n <= N; n += N - 3) {
		struct request r = { 0 };
		struct body b;

		gradients[2 * n - 1] = 3e38f; /* finite, but twice as much is not */
		learn_body(&b, READER, &c, keys, gradients, n, 1);
		body_into(&b, &r);
		learn_body(&b, LEARNER, &p, keys, gradients, n, 2);
		body_into(&b, &r);
		request_refused(&r, peer, WIRE_NOT_FINITE, "a gradient for \"living\" has NaN or infinities");
		gradients[2 * n - 1] = 1;
		pull(peer, LIVING, keys, n, WIRE_READ_ONLY, rows);
		CHECK_NEAR(rows[0], 0, 0);
		CHECK_NEAR(pull_one(peer, COUNTS, 0), 0, 0);
		learn_body(&b, LEARNER, &p, keys, gradients, n, 2);
		body_into(&b, &r);
		request_good(&r, peer);
		pull(peer, LIVING, keys, n, WIRE_READ_ONLY, rows);
		CHECK(rows[0] < 0 && rows[2 * n - 1] < 0);
		CHECK_INT(store_delete(shard.service->tables[LIVING], keys, RTE_MIN(n, (uint32_t)STORE_BATCH)),
			  RTE_MIN(n, (uint32_t)STORE_BATCH));
	}
	shard_stop();
}

static bool has_reply(void *ctx)
{
	return peer_has_reply(ctx);
}

/* As many keys as there may be, over a bad link, while others are answered in between. */
void large_runs_go_by_slices(void)
{
	enum { N = WIRE_KEYS_MAX };
	static uint64_t keys[N];
	static uint32_t segments[N];
	static float gradients[N];
	const struct program p = pooler(), l = learner(COUNTS);
	struct peer *big, *small;
	struct request r = { 0 };
	struct reply reply;
	struct body b;
	uint64_t slices;

	shard_init(3, 0);
	shard.rig.link.loss = 5;
	shard.rig.link.reorder = 50;
	shard_start(0);
	big = rig_peer(&shard.rig, 0);
	small = rig_peer(&shard.rig, 1);
	install_good(POOLER, &p);
	install_good(LEARNER, &l);
	for (unsigned i = 0; i < N; i++) {
		keys[i] = i % 1000;
		segments[i] = i % SEGMENTS;
		gradients[i] = 1;
	}
	pool_body(&b, &p, keys, segments, N);
	body_into(&b, &r);
	learn_body(&b, LEARNER, &l, keys, gradients, 1, 1);
	body_into(&b, &r);
	request_refused(&r, big, WIRE_OVER_LIMIT, "65537 keys in one request");
	shard.rig.slices_per_turn = 1;
	slices = shard.rig.slices;
	pool_body(&b, &p, keys, segments, N);
	body_into(&b, &r);
	request_send(&r, big);
	while (shard.rig.slices == slices && !peer_has_reply(big)) {
		request_pull(&r, COUNTS, keys, 1, WIRE_READ_ONLY);
		reply = request_run(&r, small);
	}
	CHECK(!peer_has_reply(big));
	CHECK(rig_run(&shard.rig, 600 * RIG_S, has_reply, big));
	CHECK(peer_reply(big, &reply));
	CHECK_UINT(reply.frame.payload_bytes, sizeof(struct wire_result) + SEGMENTS * 16 * sizeof(float));
	CHECK(shard.rig.slices - slices > 2 * N / 256);
	shard.rig.slices_per_turn = 8;
	learn_body(&b, LEARNER, &l, keys, gradients, N, 1);
	body_into(&b, &r);
	request_good(&r, big);
	/* 66 gradients for this one: they are summed. */
	CHECK_NEAR(pull_one(big, COUNTS, 0), -0.5 * 2 * 66, 0);
	CHECK_NEAR(pull_one(big, COUNTS, 999), -0.5 * 2 * 65, 0);
	shard_stop();
}

static bool has_rows(void *ctx)
{
	return shard_rows() >= *(const uint64_t *)ctx;
}

/* What was begun is finished even if its peer has gone, and its scratch is free again. */
void large_runs_of_dead_streams_are_finished(void)
{
	enum { N = 30000 };
	static uint64_t keys[N];
	static uint32_t segments[N];
	const struct program p = pooler();
	struct peer *dead = shard_simple(4), *other = rig_peer(&shard.rig, 1);
	struct request r = { 0 };
	struct body b;
	uint64_t until = 5000;

	install_good(POOLER, &p);
	fill_keys(keys, N, 0);
	shard.rig.slices_per_turn = 1;
	pool_body(&b, &p, keys, segments, N);
	body_into(&b, &r);
	request_send(&r, dead);
	CHECK(rig_run(&shard.rig, 60 * RIG_S, has_rows, &until));
	tcp_abort(dead->conn);
	shard.rig.slices_per_turn = 8;
	pool_body(&b, &p, keys, segments, N);
	body_into(&b, &r);
	request_good(&r, other);
	CHECK_UINT(shard_rows(), N);
	shard_stop();
}

void full_memory_refuses_runs_as_a_whole(void)
{
	enum { N = 150 };
	static uint64_t keys[N];
	static float gradients[N * WIRE_DIM_MAX];
	const struct program p = { 0 };
	struct program l, look = p;
	struct request r = { 0 };
	struct peer *peer;
	struct body b;
	unsigned k;

	shard_init(5, 0);
	shard_start(2 << 20);
	peer = rig_peer(&shard.rig, 0);
	l = learner(WIDE);
	k = node_keys(&look, WIDE);
	node(&look, PROGRAM_FETCH, node(&look, ELEMENTWISE_NEG, node(&look, PROGRAM_LOOKUP, k, 0), 0), 0);
	install_good(LEARNER, &l);
	install_good(READER, &look);
	fill_keys(keys, N, 0);
	fill_floats(gradients, (size_t)N * WIRE_DIM_MAX, 1);
	request_push(&r, COUNTS, keys, gradients, 10, 0);
	learn_body(&b, LEARNER, &l, keys, gradients, N, WIRE_DIM_MAX);
	body_into(&b, &r);
	request_refused(&r, peer, WIRE_NO_MEMORY, "\"wide\" cannot get new rows");
	CHECK_NEAR(pull_one(peer, COUNTS, 0), 0, 0);
	body_begin(&b, READER, &look, (uint32_t[]){ N }, 0);
	body_part(&b, keys, sizeof(keys));
	body_into(&b, &r);
	request_refused(&r, peer, WIRE_NO_MEMORY, "\"wide\" cannot get new rows");
	learn_body(&b, LEARNER, &l, keys, gradients, 2, WIRE_DIM_MAX);
	body_into(&b, &r);
	request_good(&r, peer);
	shard_stop();
}

/* Each of a request's pushes, also that of a program, counts against what there may be. */
void runs_have_limits(void)
{
	static const uint64_t keys[2] = { 1, 2 };
	static const float ones[2] = { 1, 1 };
	struct peer *peer = shard_simple(6);
	struct program twice = learner(COUNTS);
	struct request r = { 0 };
	unsigned k, g;
	struct body b;

	k = node_keys(&twice, COUNTS);
	g = node_rows(&twice, PROGRAM_ROWS, k, 1);
	node(&twice, PROGRAM_APPLY, k, g);
	install_good(LEARNER, &twice);
	for (unsigned n = 32; n <= 33; n++) {
		for (unsigned i = 0; i < n; i++) {
			body_begin(&b, LEARNER, &twice, (uint32_t[]){ 1, 1 }, 0);
			for (unsigned f = 0; f < 2; f++) {
				body_part(&b, &keys[f], sizeof(keys[f]));
				body_part(&b, ones, sizeof(*ones));
			}
			body_into(&b, &r);
		}
		if (n == 32)
			request_good(&r, peer);
		else
			request_refused(&r, peer, WIRE_OVER_LIMIT, "push more than 64 times");
	}
	CHECK_NEAR(pull_one(peer, COUNTS, 1), -0.5 * 2 * 32, 0);
	CHECK_NEAR(pull_one(peer, COUNTS, 2), -0.5 * 32, 0);
	/* Keys of another shard. */
	service_set_layout(shard.service, RIG_EPOCH, 0, 1);
	body_begin(&b, LEARNER, &twice, (uint32_t[]){ 1, 1 }, 0);
	for (unsigned f = 0; f < 2; f++) {
		body_part(&b, &keys[f], sizeof(keys[f]));
		body_part(&b, ones, sizeof(*ones));
	}
	body_into(&b, &r);
	request_refused(&r, peer, WIRE_WRONG_SHARD, "belongs to another reactor");
	shard_stop();
}

void programs_are_installed_once_and_bound_to_tables(void)
{
	static const struct {
		unsigned object;
		const char *why;
	} refused[] = {
		{ NUMBERS, "\"numbers\", whose elements of type int32 are not converted to float32" },
		{ LAMB, "\"lamb\", which needs all of its gradient at once (optimizer lamb): push it" },
		{ CLIPPED, "at once (clip_global_norm)" },
	};
	static struct object_spec other;
	struct star_error err = { 0 };
	struct peer *peer = shard_simple(7);
	struct program p = pooler(), wrong = p;
	static const uint64_t key = 1;
	struct request r = { 0 };
	struct body b;

	for (unsigned i = 0; i < RTE_DIM(refused); i++) {
		const struct program l = learner(refused[i].object);

		CHECK_INT(install_program(POOLER, &l, &err), -EINVAL);
		CHECK_HAS(err.text, refused[i].why);
	}
	wrong.nodes[0].dim = 15;
	CHECK_INT(install_program(POOLER, &wrong, &err), -EINVAL);
	CHECK_HAS(err.text, "takes \"words\" to have rows of 15 elements, it has 16");
	wrong.nodes[0].object = 99;
	CHECK_INT(install_program(POOLER, &wrong, &err), -ENOENT);
	CHECK_HAS(err.text, "object 99, and there is no such table");
	install_good(POOLER, &p);
	install_good(POOLER, &p);
	CHECK_UINT(shard.service->plans_used, 1);
	for (unsigned i = 0; i < PROGRAMS_MAX - 1; i++) {
		wrong = learner(EIGHTS);
		wrong.nodes[3] = (struct program_node){ .op = ELEMENTWISE_SCALE, .a = 1, .constant = (float)i };
		install_good(200 + i, &wrong);
	}
	wrong.nodes[3].constant = 0.5f;
	CHECK_INT(install_program(200 + PROGRAMS_MAX, &wrong, &err), -ENOSPC);
	CHECK_HAS(err.text, "there are 256 programs already");
	/* A table that was made again under its id: the program is one of the table before. */
	other = *specs[WORDS];
	strcpy(other.name, "other words");
	CHECK_INT(service_install(shard.service, &other, &err), 0);
	pool_body(&b, &p, &key, (uint32_t[]){ 0 }, 1);
	body_into(&b, &r);
	request_refused(&r, peer, WIRE_UNKNOWN_OBJECT, "register it first; or a table that it works on was dropped");
	shard_stop();
}
