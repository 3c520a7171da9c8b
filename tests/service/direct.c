/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path of small requests against the general one: the same random requests, good and bad, to two shards that
 * begin alike, of which one has no fast path. Replies and what the store has counted must be the same to the byte.
 */
#include "tests/service/cases.h"

#include <math.h>
#include <stdlib.h>

enum { REQUESTS = 3000, COUNT_MAX = 40, DIM_MAX = 16, KEYS = 60, KEYS_MANY = 1 << 30 };

/* All that a shard has answered. */
struct record {
	uint8_t *bytes;
	size_t n, room;
	unsigned statuses[WIRE_NOT_FINITE + 1];
	struct store_stats stats;
	struct service_counters counters;
};

static void record(struct record *r, const void *bytes, size_t n)
{
	if (r->n + n > r->room) {
		r->room = 2 * (r->n + n);
		r->bytes = realloc(r->bytes, r->room);
		if (!r->bytes)
			exit(EXIT_FAILURE);
	}
	if (n)
		memcpy(r->bytes + r->n, bytes, n);
	r->n += n;
}

static bool one_in(struct prng *prng, uint64_t n)
{
	return prng_below(prng, n) == 0;
}

/* Mostly what the table takes, and one thing of many that it does not. */
static struct wire_op random_op(struct prng *prng)
{
	static const unsigned objects[] = { WORDS, WORDS, COUNTS, ADAGRAD, EIGHTS, HALVES, FILTERED, LIVING, NUMBERS };
	static const float rates[] = { 0, 0, 0.25f, 1, -1, INFINITY, NAN };
	const unsigned object = objects[prng_below(prng, RTE_DIM(objects))];
	const unsigned kind = 1 + (unsigned)prng_below(prng, one_in(prng, 4) ? 4 : 2);
	struct wire_op op = { .kind = (uint8_t)kind,
			      .object = object,
			      .dim = specs[object]->dim,
			      .step = one_in(prng, 2) ? 0 : 1 + prng_below(prng, 9) };

	op.count = 1 + (uint32_t)prng_below(prng, one_in(prng, 3) ? COUNT_MAX : 8);
	if (kind == WIRE_PUSH || kind == WIRE_PUSH_PULL) {
		op.dtype = STAR_FLOAT32;
		op.rate = rates[prng_below(prng, one_in(prng, 20) ? RTE_DIM(rates) : 4)];
		op.scale = rates[prng_below(prng, one_in(prng, 20) ? RTE_DIM(rates) : 4)];
		op.version = prng_below(prng, 4);
		op.flags = (op.rate != 0 || one_in(prng, 4) ? WIRE_RATE : 0) |
			   (op.scale != 0 || one_in(prng, 4) ? WIRE_SCALE : 0) | (op.version ? WIRE_PULLED : 0);
	}
	if (kind == WIRE_PULL || kind == WIRE_PUSH_PULL)
		op.result_dtype = one_in(prng, 8) ? STAR_FLOAT16 : (uint8_t)specs[object]->dtype;
	if (kind == WIRE_PULL && one_in(prng, 4))
		op.flags |= WIRE_READ_ONLY;
	op.body_bytes = (uint32_t)wire_op_bytes(&op);
	switch (prng_below(prng, 60)) {
	case 0:
		op.dim++;
		break;
	case 1:
		op.object = (uint32_t)prng_below(prng, 2 * WIRE_OBJECTS_MAX);
		break;
	case 2:
		op.reserved = 1;
		break;
	case 3:
		op.flags ^= 1u << prng_below(prng, 12);
		break;
	case 4:
		op.body_bytes += 8;
		break;
	case 5:
		op.count = 0;
		break;
	case 6:
		op.dtype ^= 1;
		break;
	case 7:
		op.result_dtype ^= 3;
		break;
	case 8:
		op.rate = 1;
		break;
	default:
		break;
	}
	return op;
}

/* The body that an operation says it has, as far as that is possible. */
static void put_op(struct request *r, struct prng *prng, struct wire_op op, uint64_t keys_max)
{
	const uint32_t keys = RTE_MIN(op.count, (uint32_t)COUNT_MAX),
		       bytes = RTE_MIN(op.body_bytes, (uint32_t)(COUNT_MAX * (DIM_MAX + 2) * sizeof(float)));
	const bool rare = one_in(prng, 30), twice = one_in(prng, 8);
	uint64_t key = 0;
	uint32_t at = 0;

	request_append(r, &op, sizeof(op));
	for (; at < keys && (at + 1) * sizeof(key) <= bytes; at++) {
		if (at == 0 || !twice)
			key = prng_below(prng, keys_max);
		request_append(r, &key, sizeof(key));
	}
	for (at *= (uint32_t)sizeof(key); at + sizeof(float) <= bytes; at += (uint32_t)sizeof(float)) {
		const float x = rare && one_in(prng, 10) ? NAN : (float)prng_below(prng, 100) / 64 - 0.5f;

		request_append(r, &x, sizeof(x));
	}
	request_zeros(r, wire_padded(r->n) - r->n);
}

/* Sends the requests of a seed, one after the other; in a small arena with keys that fill it. */
static void run(struct record *r, uint64_t seed, bool general, size_t arena_bytes)
{
	struct prng prng;
	struct peer *peer;

	prng_seed(&prng, seed);
	shard_init(seed, 0);
	shard.general = general;
	shard_start(arena_bytes);
	service_set_layout(shard.service, RIG_EPOCH, 0, PARTITIONS - PARTITIONS / 64);
	peer = rig_peer(&shard.rig, 0);
	for (uint64_t key = 0; arena_bytes && key * WIRE_DIM_MAX * sizeof(float) < arena_bytes * 7 / 8; key++) {
		struct request request = { 0 };

		request_pull(&request, WIDE, &key, 1, 0);
		request_run(&request, peer);
	}
	for (unsigned i = 0; i < REQUESTS; i++) {
		struct request request = { 0 };
		struct reply reply;

		do
			put_op(&request, &prng, random_op(&prng), arena_bytes ? KEYS_MANY : KEYS);
		while (one_in(&prng, 12));
		if (one_in(&prng, 100))
			request_zeros(&request, 8);
		reply = request_run(&request, peer);
		record(r, &reply.frame.status, sizeof(reply.frame.status));
		record(r, reply.payload, reply.frame.payload_bytes);
		r->statuses[RTE_MIN(reply.frame.status, (uint8_t)WIRE_NOT_FINITE)]++;
	}
	r->stats = service_store_stats(shard.service);
	r->counters = *service_counters(shard.service);
	shard_stop();
}

static void compare(uint64_t seed, size_t arena_bytes, enum wire_status sought)
{
	struct record fast = { 0 }, general = { 0 };

	run(&fast, seed, false, arena_bytes);
	run(&general, seed, true, arena_bytes);
	if (CHECK_UINT(fast.n, general.n))
		CHECK_MEM(fast.bytes, general.bytes, general.n);
#define X(name, text) CHECK_UINT(fast.stats.name, general.stats.name);
	STORE_STATS(X)
#undef X
	CHECK_UINT(fast.counters.pulls, general.counters.pulls);
	CHECK_UINT(fast.counters.pushes, general.counters.pushes);
	CHECK_UINT(fast.counters.rows_pulled, general.counters.rows_pulled);
	CHECK_UINT(fast.counters.rows_pushed, general.counters.rows_pushed);
	/* Both ways were taken, and what was to be refused was there. */
	CHECK_UINT(general.counters.direct, 0);
	CHECK(fast.counters.direct > REQUESTS / 4);
	CHECK(fast.counters.direct < REQUESTS * 9 / 10);
	CHECK(fast.statuses[sought] > 0);
	free(fast.bytes);
	free(general.bytes);
}

void fast_and_general_path_agree(void)
{
	compare(1, 0, WIRE_WRONG_SHARD);
	compare(2, 0, WIRE_NOT_FINITE);
	compare(3, 0, WIRE_BAD_REQUEST);
}

void fast_and_general_path_agree_in_full_memory(void)
{
	compare(4, 1 << 20, WIRE_NO_MEMORY);
}
