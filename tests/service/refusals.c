/* SPDX-License-Identifier: BSD-3-Clause */
/* Which requests are refused, with which status and message; and that they change nothing, whatever else they asked
 * for. */
#include "tests/service/cases.h"

#include <stdio.h>
#include <stdlib.h>

#include "wire/layout.h"

static const uint64_t key = 77;
static const float gradient[16] = { 1, 2, 3 };

struct bad_op {
	struct wire_op op;
	unsigned body_bytes; /* that are sent, zeros; a multiple of 8 */
	enum wire_status status;
	const char *sentence;
};

static struct wire_op changed(unsigned field, uint32_t value)
{
	struct wire_op op = field >= 10 ? push_op(WORDS, 1, 0) : pull_op(WORDS, 1, 0);

	switch (field % 10) {
	case 0:
		op.kind = (uint8_t)value;
		break;
	case 1:
		*(field >= 10 ? &op.dtype : &op.result_dtype) = (uint8_t)value;
		break;
	case 2:
		op.object = value;
		break;
	case 3:
		op.count = value;
		break;
	case 4:
		op.dim = value;
		break;
	case 5:
		op.body_bytes = value;
		break;
	case 6:
		memcpy(&op.rate, &value, sizeof(value));
		break;
	case 7:
		memcpy(&op.scale, &value, sizeof(value));
		break;
	case 8:
		op.flags = value;
		break;
	case 9:
		op.reserved = (uint8_t)value;
		break;
	}
	return op;
}

/* A good push, the bad operation, and a good pull behind it. */
static void check_bad(struct peer *peer, const struct bad_op *bad)
{
	const float before = pull_one(peer, WORDS, key);
	const uint64_t rows = shard_rows();
	struct request r = { 0 };

	request_push(&r, WORDS, &key, gradient, 1, 0);
	request_op(&r, bad->op, NULL, NULL);
	request_zeros(&r, bad->body_bytes);
	request_refused(&r, peer, bad->status, bad->sentence);
	CHECK_UINT(shard_rows(), rows);
	CHECK_NEAR(pull_one(peer, WORDS, key), before, 0);
}

void each_bad_request_is_refused_and_changes_nothing(void)
{
	enum { KIND, DTYPE, OBJECT, COUNT, DIM, BODY, RATE, SCALE, FLAGS, RESERVED, OF_PUSH = 10 };
	const struct bad_op cases[] = {
		{ changed(KIND, 0), 8, WIRE_BAD_REQUEST, "unknown operation 0" },
		{ changed(KIND, 6), 8, WIRE_UNKNOWN_OBJECT, "no program has the id 1: register it first" },
		{ changed(KIND, 8), 8, WIRE_BAD_REQUEST, "unknown operation 8" },
		{ changed(KIND, 255), 8, WIRE_BAD_REQUEST, "unknown operation 255" },
		{ changed(DTYPE, 0), 8, WIRE_WRONG_TYPE,
		  "has elements of type float32, the request has an unknown one" },
		{ changed(DTYPE, STAR_INT8), 8, WIRE_WRONG_TYPE,
		  "\"words\" has elements of type float32, the request has int8: not the same, and not converted" },
		{ changed(OF_PUSH + DTYPE, 255), 72, WIRE_WRONG_TYPE, "an unknown one" },
		{ changed(OBJECT, 0), 8, WIRE_UNKNOWN_OBJECT,
		  "no table or variable has the id 0 (generation 0): it was dropped, or never created" },
		{ changed(OBJECT, 6), 8, WIRE_UNKNOWN_OBJECT, "has the id 6" },
		{ changed(OBJECT, WIRE_OBJECTS_MAX), 8, WIRE_UNKNOWN_OBJECT, "has the id 16384" },
		{ changed(OBJECT, WIRE_OBJECTS_MAX + 1), 8, WIRE_UNKNOWN_OBJECT, "has the id 16385" },
		{ changed(OF_PUSH + OBJECT, UINT32_MAX), 72, WIRE_UNKNOWN_OBJECT,
		  "has the id 32767 (generation 131071)" },
		{ changed(OBJECT, COUNTS), 8, WIRE_WRONG_DIM, "\"counts\" has rows of 1 elements, the request has 16" },
		{ changed(DIM, 0), 8, WIRE_WRONG_DIM, "\"words\" has rows of 16 elements, the request has 0" },
		{ changed(DIM, 15), 8, WIRE_WRONG_DIM, "the request has 15" },
		{ changed(OF_PUSH + DIM, UINT32_MAX), 72, WIRE_WRONG_DIM, "the request has 4294967295" },
		{ changed(COUNT, 0), 0, WIRE_NO_KEYS, "the operation on \"words\" names no keys" },
		{ changed(OF_PUSH + COUNT, 0), 0, WIRE_NO_KEYS, "names no keys" },
		{ changed(COUNT, WIRE_KEYS_MAX + 1), 8, WIRE_OVER_LIMIT, "65537 keys in one request: at most 65536" },
		{ changed(OF_PUSH + COUNT, UINT32_MAX), 8, WIRE_OVER_LIMIT, "4294967295 keys in one request" },
		{ changed(OF_PUSH + RATE, 0x7f800000), 72, WIRE_BAD_REQUEST,
		  "the learning rate or the scale of a push to \"words\" is not a finite number of 0 or more" },
		{ changed(OF_PUSH + RATE, 0xbf800000), 72, WIRE_BAD_REQUEST, "is not a finite number of 0 or more" },
		{ changed(OF_PUSH + SCALE, 0x7fc00000), 72, WIRE_BAD_REQUEST, "is not a finite number" },
		{ changed(OF_PUSH + SCALE, 0xbf800000), 72, WIRE_BAD_REQUEST, "is not a finite number" },
		{ changed(SCALE, 0x3f800000), 8, WIRE_BAD_REQUEST,
		  "is not a push: its rate, scale and version must be 0" },
		{ changed(OF_PUSH + FLAGS, WIRE_READ_ONLY), 72, WIRE_BAD_REQUEST,
		  "has flags that it cannot have (0x1)" },
		{ changed(FLAGS, 4), 8, WIRE_BAD_REQUEST, "has flags that it cannot have (0x4)" },
		{ changed(FLAGS, WIRE_VERSIONS), 8, WIRE_BAD_REQUEST,
		  "the rows of \"words\" have no versions: create it with versions=1" },
		{ changed(RESERVED, 1), 8, WIRE_BAD_REQUEST,
		  "a reserved field of the operation on \"words\" is not 0" },
		{ changed(OF_PUSH + RATE, 0xff800000), 72, WIRE_BAD_REQUEST, "is not a finite number" },
		{ changed(OF_PUSH + RATE, 0x7fc00000), 72, WIRE_BAD_REQUEST, "is not a finite number" },
		{ changed(RATE, 0x3f800000), 8, WIRE_BAD_REQUEST, "is not a push" },
		{ changed(BODY, 0), 0, WIRE_BAD_REQUEST, "has a body of 0 bytes: 8 are needed, 0 are left" },
		{ changed(BODY, 7), 8, WIRE_BAD_REQUEST, "has a body of 7 bytes: 8 are needed, 8 are left" },
		{ changed(BODY, 9), 16, WIRE_BAD_REQUEST, "has a body of 9 bytes: 8 are needed, 16 are left" },
		{ changed(BODY, UINT32_MAX), 8, WIRE_BAD_REQUEST, "has a body of 4294967295 bytes: 8 are needed" },
		{ changed(BODY, 8), 0, WIRE_BAD_REQUEST, "has a body of 8 bytes: 8 are needed, 0 are left" },
		{ changed(COUNT, 2), 8, WIRE_BAD_REQUEST, "has a body of 8 bytes: 16 are needed, 8 are left" },
		{ changed(OF_PUSH + BODY, 72), 64, WIRE_BAD_REQUEST, "72 are needed, 64 are left" },
		{ changed(OF_PUSH + BODY, 8), 8, WIRE_BAD_REQUEST, "has a body of 8 bytes: 72 are needed" },
		{ pull_op(WORDS, 1, 0), 16, WIRE_BAD_REQUEST, "8 bytes are left over after 2 operations" },
		{ pull_op(WORDS, 1, 0), 32, WIRE_BAD_REQUEST, "24 bytes are left over after 2 operations" },
		{ pull_op(WORDS, 1, 0), 8 + sizeof(struct wire_op), WIRE_BAD_REQUEST, "unknown operation 0" },
	};
	struct peer *peer = shard_simple(1);

	for (unsigned i = 0; i < RTE_DIM(cases); i++)
		check_bad(peer, &cases[i]);
	CHECK_UINT(rpc_counters(shard.rig.server)->errors, RTE_DIM(cases));
	CHECK_UINT(service_counters(shard.service)->pushes, 0);
	CHECK_UINT(shard_rows(), 0);
	/* Still the same stream. */
	push(peer, WORDS, &key, gradient, 1);
	CHECK_UINT(shard_rows(), 1);
	shard_stop();
}

void what_is_left_over_or_missing_is_refused(void)
{
	struct peer *peer = shard_simple(1);
	struct request r = { 0 };

	/* Padding counts: an odd operation without it is one that is too long. */
	request_push(&r, COUNTS, &key, gradient, 1, 0);
	r.n -= 4;
	request_refused(&r, peer, WIRE_BAD_REQUEST, "has a body of 12 bytes: 12 are needed, 12 are left");
	request_refused(&r, peer, WIRE_BAD_REQUEST, "the request has no operations");
	CHECK_UINT(shard_rows(), 0);
	shard_stop();
}

void operations_and_keys_have_limits(void)
{
	static uint64_t keys[WIRE_KEYS_MAX];
	static float gradients[1 << 20];
	struct peer *peer = shard_simple(2);
	struct request r = { 0 };

	fill_keys(keys, WIRE_KEYS_MAX, 0);
	for (unsigned i = 0; i <= WIRE_OPS_MAX; i++)
		request_push(&r, COUNTS, keys, gradients, 1, 0);
	request_refused(&r, peer, WIRE_OVER_LIMIT, "more than 64 operations in one request");
	/* All operations together. */
	request_push(&r, COUNTS, keys, gradients, 40000, 0);
	request_pull(&r, COUNTS, keys, 25537, 0);
	request_refused(&r, peer, WIRE_OVER_LIMIT, "65537 keys in one request: at most 65536 are possible");
	CHECK_UINT(shard_rows(), 0);
	request_push(&r, COUNTS, keys, gradients, 40000, 0);
	request_pull(&r, COUNTS, keys, 25536, 0);
	request_good(&r, peer);
	CHECK_UINT(shard_rows(), 40000);
	/* 4 MiB of reply hold 255 rows of 16 KiB and their header, not 256. */
	request_pull(&r, WIDE, keys, 256, 0);
	request_refused(&r, peer, WIRE_OVER_LIMIT, "the reply would have 4194328 bytes: at most 4194304 are possible");
	request_pull(&r, WORDS, keys, 65536, 0);
	request_refused(&r, peer, WIRE_OVER_LIMIT, "split the request");
	request_pull(&r, WIDE, keys, 255, WIRE_READ_ONLY);
	request_good(&r, peer);
	CHECK_UINT(shard_rows(), 40000);
	shard_stop();
}

static void refused_frame(struct peer *peer, struct wire_frame frame, enum wire_status status, const char *part)
{
	struct request r = { 0 };
	struct reply reply;

	request_push(&r, WORDS, &key, gradient, 1, 0);
	peer_send(peer, frame, r.bytes, r.n);
	peer_await(peer, &reply);
	CHECK_STATUS(reply, status, part);
	CHECK_UINT(shard_rows(), 0);
	request_free(&r);
}

void stale_layouts_are_refused(void)
{
	struct peer *peer = shard_simple(3);
	struct wire_frame frame;

	frame = peer_frame(peer, WIRE_EXECUTE);
	frame.epoch--;
	refused_frame(peer, frame, WIRE_STALE_LAYOUT, "the layout's epoch is 3, the request's 2: get the layout again");
	frame = peer_frame(peer, WIRE_EXECUTE);
	frame.epoch = 0;
	refused_frame(peer, frame, WIRE_STALE_LAYOUT, "the layout's epoch is 3, the request's 0");
	frame = peer_frame(peer, WIRE_EXECUTE);
	frame.epoch++; /* the client knows a layout that has not come here yet */
	refused_frame(peer, frame, WIRE_STALE_LAYOUT, "the layout's epoch is 3, the request's 4");
	frame = peer_frame(peer, WIRE_EXECUTE);
	frame.incarnation++;
	refused_frame(peer, frame, WIRE_STALE_INCARNATION,
		      "the node was restarted (incarnation 77, the request is for 78): what it held is lost");
	/* Before the node has a layout, no epoch is right. */
	service_set_layout(shard.service, 0, 0, 0);
	frame = peer_frame(peer, WIRE_EXECUTE);
	frame.epoch = 0;
	refused_frame(peer, frame, WIRE_STALE_LAYOUT, "the node serves no layout at present");
	service_set_layout(shard.service, RIG_EPOCH, 0, PARTITIONS);
	push(peer, WORDS, &key, gradient, 1);
	shard_stop();
}

void keys_of_other_shards_are_refused(void)
{
	enum { N = 200 };
	static uint64_t mine[N], other[1];
	static float gradients[N * 16];
	const uint64_t name = hash_name("words");
	struct peer *peer = shard_simple(4);
	struct request r = { 0 };
	unsigned n = 0;

	service_set_layout(shard.service, RIG_EPOCH, 300, 700);
	for (uint64_t k = 0; n < N; k++) {
		const uint32_t p = layout_partition(hash_key(name, k), PARTITIONS);

		if (p >= 300 && p < 700)
			mine[n++] = k;
		else
			other[0] = k;
	}
	request_pull(&r, WORDS, other, 1, 0);
	request_refused(&r, peer, WIRE_WRONG_SHARD, "a key of the request belongs to another reactor: get the layout");
	request_pull(&r, WORDS, other, 1, WIRE_READ_ONLY);
	request_refused(&r, peer, WIRE_WRONG_SHARD, "split by partition");
	fill_floats(gradients, N * 16, 1);
	push(peer, WORDS, mine, gradients, N);
	/* The last key of many, behind operations that are good: small and large. */
	for (uint32_t count = 30; count <= N - 1; count += N - 31) {
		const float before = pull_one(peer, WORDS, mine[0]);
		uint64_t keys[N];

		memcpy(keys, mine, sizeof(keys));
		keys[count] = other[0];
		request_push(&r, WORDS, mine, gradients, count, 0);
		request_push(&r, WORDS, keys, gradients, count + 1, 0);
		request_refused(&r, peer, WIRE_WRONG_SHARD, "another reactor");
		request_push(&r, WORDS, mine, gradients, count, 0);
		request_pull(&r, WORDS, keys, count + 1, 0);
		request_refused(&r, peer, WIRE_WRONG_SHARD, "another reactor");
		CHECK_NEAR(pull_one(peer, WORDS, mine[0]), before, 0);
		/* The scratch is free again. */
		push(peer, WORDS, mine, gradients, count);
		CHECK_NEAR(pull_one(peer, WORDS, mine[0]), before - 0.5f, 0);
	}
	CHECK_UINT(shard_rows(), N);
	shard_stop();
}

/* Rows of 16 KiB in 2 MiB: some hundred fit. */
void full_memory_refuses_a_request_as_a_whole(void)
{
	enum { N = 150 };
	static uint64_t keys[N];
	static float gradients[N * WIRE_DIM_MAX];
	struct request r = { 0 };
	struct peer *peer;
	uint64_t rows;
	float before;

	shard_init(5, 0);
	shard_start(2 << 20);
	peer = rig_peer(&shard.rig, 0);
	fill_keys(keys, N, 0);
	fill_floats(gradients, (size_t)N * WIRE_DIM_MAX, 1);
	push(peer, WIDE, keys, gradients, 10);
	before = pull_one(peer, WIDE, 0);
	/* A large push, of which the first rows are there. */
	request_push(&r, COUNTS, keys, gradients, 10, 0);
	request_push(&r, WIDE, keys, gradients, N, 0);
	request_refused(
		&r, peer, WIRE_NO_MEMORY,
		"\"wide\" cannot get new rows: the reactor's parameter memory is full; raise memory.parameter_mib");
	CHECK_NEAR(pull_one(peer, WIDE, 0), before, 0);
	CHECK_NEAR(pull_one(peer, COUNTS, 0), 0, 0);
	rows = shard_rows();
	CHECK(rows > 60 && rows < 10 + N);
	CHECK(service_store_stats(shard.service).refused > 0);
	/* A small one; a pull that creates; and one that would with a push before it. */
	request_push(&r, WIDE, keys, gradients, 2, 0);
	request_push(&r, WIDE, keys + N - 1, gradients, 1, 0);
	request_refused(&r, peer, WIRE_NO_MEMORY, "\"wide\" cannot get new rows");
	request_pull(&r, WIDE, keys + N - 1, 1, 0);
	request_refused(&r, peer, WIRE_NO_MEMORY, "\"wide\" cannot get new rows");
	request_push(&r, WIDE, keys, gradients, 2, 0);
	request_pull(&r, WIDE, keys + N - 1, 1, 0);
	request_refused(&r, peer, WIRE_NO_MEMORY, "\"wide\" cannot get new rows");
	CHECK_NEAR(pull_one(peer, WIDE, 0), before, 0);
	CHECK_UINT(shard_rows(), rows);
	/* Existing rows are still updated, and missing ones can still be read. */
	push(peer, WIDE, keys, gradients, 10);
	CHECK_NEAR(pull_one(peer, WIDE, 0), before - 0.5f, 0);
	initial(WIDE, N - 1, gradients);
	CHECK_NEAR(pull_one(peer, WIDE, N - 1), gradients[0], 0);
	shard_stop();
}
