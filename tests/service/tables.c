/* SPDX-License-Identifier: BSD-3-Clause */
/* Types, versions, deletes, filters, whole variables: features of tables beside plain pulls and pushes. */
#include "tests/service/cases.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tensor/convert.h"
#include "wire/layout.h"

static struct wire_op with_body(struct wire_op op)
{
	op.body_bytes = (uint32_t)wire_op_bytes(&op);
	return op;
}

/* keys, then what comes behind them: as one piece. */
static void add(struct request *r, struct wire_op op, const uint64_t *keys, const void *rest)
{
	request_op(r, with_body(op), keys, rest);
}

static struct wire_op delete_op(unsigned object, uint32_t count)
{
	return (struct wire_op){ .kind = WIRE_DELETE, .object = object, .count = count, .dim = specs[object]->dim };
}

/* float16 in the table; float32, float64, bfloat16 and scaled int8 on the wire. */
void rows_are_converted_on_their_way(void)
{
	static const unsigned types[] = { STAR_FLOAT32, STAR_FLOAT16, STAR_BFLOAT16, STAR_FLOAT64, STAR_SCALED_INT8 };
	static const uint64_t keys[] = { 1, 2, 3 };
	struct peer *peer = shard_simple(1);
	float scratch[4], first[3][4];

	for (unsigned i = 0; i < 3; i++)
		initial(HALVES, keys[i], first[i]);
	for (unsigned t = 0; t < RTE_DIM(types); t++) {
		struct wire_op op = pull_op(HALVES, 3, WIRE_READ_ONLY);
		const uint32_t bytes = (uint32_t)dtype_row_bytes(types[t], 4);
		double half[4], expected[4]; /* aligned for each */
		struct request r = { 0 };
		struct wire_result result;
		struct reply reply;
		const uint8_t *body;

		op.result_dtype = (uint8_t)types[t];
		add(&r, op, keys, NULL);
		reply = request_run(&r, peer);
		body = result_of(&reply, 0, &result);
		CHECK_UINT(result.body_bytes, 3 * bytes);
		for (unsigned i = 0; i < 3; i++) {
			tensor_convert_row(half, STAR_FLOAT16, first[i], STAR_FLOAT32, 4, scratch);
			tensor_convert_row(expected, types[t], half, STAR_FLOAT16, 4, scratch);
			CHECK_MEM(body + i * bytes, expected, bytes);
		}
	}
	CHECK_UINT(shard_rows(), 0);
	/* Pushed as each of them: 0.5 * 0.25 less, exactly, in each type. */
	for (unsigned t = 0; t < RTE_DIM(types); t++) {
		const float gradients[3][4] = { { 0.25f, 0, -0.25f, 0.25f },
						{ 0.25f },
						{ 0.25f, 0.25f, 0.25f, 0.25f } };
		struct wire_op op = push_op(HALVES, 3, 0);
		const uint32_t bytes = (uint32_t)dtype_row_bytes(types[t], 4);
		uint8_t rows[3 * 32] __attribute__((aligned(8)));
		const float before = pull_one(peer, HALVES, 3);
		struct request r = { 0 };

		op.dtype = (uint8_t)types[t];
		for (unsigned i = 0; i < 3; i++)
			tensor_convert_row(rows + i * bytes, types[t], gradients[i], STAR_FLOAT32, 4, scratch);
		add(&r, op, keys, rows);
		request_good(&r, peer);
		CHECK_NEAR(pull_one(peer, HALVES, 3), before - 0.125f, 1e-3);
	}
	shard_stop();
}

void push_and_pull_in_one_trip(void)
{
	enum { N = 300 };
	static uint64_t keys[N];
	static float gradients[N * 16], rows[N * 16];
	struct peer *peer = shard_simple(2);

	for (uint32_t count = 3; count <= N; count += N - 3) { /* in one slice, and in several */
		struct wire_op op = push_op(WORDS, count, 0.25f);
		struct request r = { 0 };
		struct reply reply;
		float first[16];

		fill_keys(keys, N, 1000 * count);
		keys[2] = keys[0]; /* summed; and the row comes twice */
		fill_floats(gradients, RTE_DIM(gradients), 2);
		op.kind = WIRE_PUSH_PULL;
		op.result_dtype = STAR_FLOAT32;
		add(&r, op, keys, gradients);
		request_pull(&r, WORDS, keys, 1, WIRE_READ_ONLY);
		reply = request_run(&r, peer);
		memcpy(rows, result_rows(&reply, 0, WORDS, count), count * 64);
		initial(WORDS, keys[0], first);
		CHECK_NEAR(rows[5], first[5] - 1, 0);
		CHECK_MEM(rows, rows + 32, 64);
		CHECK_MEM(result_rows(&reply, 1, WORDS, 1), rows, 64);
		initial(WORDS, keys[count - 1], first);
		if (count > 3)
			CHECK_NEAR(rows[count * 16 - 1], first[15] - 0.5f, 0);
		CHECK_UINT(shard_rows(), count == 3 ? 2 : 2 + N - 1);
	}
	CHECK_UINT(service_counters(shard.service)->pushes, 2);
	CHECK_UINT(service_counters(shard.service)->pulls, 4);
	shard_stop();
}

void deleted_rows_start_again(void)
{
	static const uint64_t keys[] = { 1, 2, 3, 2 };
	static const float ones[3] = { 1, 1, 1 };
	struct peer *peer = shard_simple(3);
	struct request r = { 0 };
	struct wire_result result;
	struct reply reply;

	push(peer, COUNTS, keys, ones, 3);
	add(&r, delete_op(COUNTS, 3), keys + 1, NULL);
	request_pull(&r, COUNTS, keys, 3, 0);
	reply = request_run(&r, peer);
	result_of(&reply, 0, &result);
	CHECK_UINT(result.count, 2); /* a key that is named again is not there any more */
	CHECK_UINT(result.body_bytes, 0);
	CHECK_NEAR(result_rows(&reply, 1, COUNTS, 3)[0], -0.5f, 0);
	CHECK_NEAR(result_rows(&reply, 1, COUNTS, 3)[1], 0, 0);
	add(&r, delete_op(COUNTS, 1), keys + 3, NULL);
	request_push(&r, COUNTS, keys, ones, 1, 0);
	request_refused(&r, peer, WIRE_BAD_REQUEST,
			"a request with pushes has deletes or commits as well: they must go apart");
	add(&r, delete_op(VARIABLE, 1), keys, NULL);
	request_refused(&r, peer, WIRE_BAD_REQUEST, "\"weights\" is a variable: its blocks cannot be deleted");
	CHECK_NEAR(pull_one(peer, COUNTS, 1), -0.5f, 0);
	shard_stop();
}

/* A conditional pull: the versions now, and which of the rows came. given and now: count each. */
static unsigned pull_new(struct peer *peer, unsigned object, const uint64_t *keys, uint32_t count, unsigned flags,
			 const uint32_t *given, uint32_t *now, float *rows)
{
	struct wire_op op = pull_op(object, count, WIRE_VERSIONS | flags);
	const uint32_t versions = (uint32_t)wire_versions_bytes(count), row = 4 * specs[object]->dim;
	struct request r = { 0 };
	struct wire_result result;
	struct reply reply;
	const uint8_t *body;

	op = with_body(op);
	request_op(&r, op, NULL, NULL);
	r.n = sizeof(op); /* versions are padded by themselves: they are appended by hand */
	for (uint32_t i = 0; i < count; i++)
		request_append(&r, &keys[i], sizeof(*keys));
	request_append(&r, given, count * sizeof(*given));
	request_zeros(&r, versions - count * (uint32_t)sizeof(*given));
	reply = request_run(&r, peer);
	body = result_of(&reply, 0, &result);
	if (!body || !CHECK_UINT(result.count, count) || !CHECK_UINT((result.body_bytes - versions) % row, 0))
		return 0;
	CHECK_UINT(reply.frame.payload_bytes, sizeof(result) + wire_padded(result.body_bytes));
	memcpy(now, body, count * sizeof(*now));
	memcpy(rows, body + versions, result.body_bytes - versions);
	return (result.body_bytes - versions) / row;
}

void only_new_rows_are_sent(void)
{
	static const uint64_t keys[] = { 1, 2, 3, 4, 5 };
	const float gradients[4] = { 1, 1, 1, 1 };
	uint32_t had[5] = { 0 }, now[5];
	float rows[5 * 4], row[4];
	struct peer *peer = shard_simple(4);
	struct request r = { 0 };

	/* Nothing is there: all come, as they would be, and have no version. */
	CHECK_UINT(pull_new(peer, HALVES, keys, 5, WIRE_READ_ONLY, had, now, rows), 5);
	for (unsigned i = 0; i < 5; i++)
		CHECK_UINT(now[i], 0);
	CHECK_UINT(shard_rows(), 0);
	CHECK_UINT(pull_new(peer, HALVES, keys, 5, 0, had, had, rows), 5);
	for (unsigned i = 0; i < 5; i++)
		CHECK(had[i] != 0);
	CHECK_UINT(pull_new(peer, HALVES, keys, 5, 0, had, now, rows), 0);
	CHECK_MEM(now, had, sizeof(now));
	/* One version for each push, however often it names the key. */
	push(peer, HALVES, (const uint64_t[]){ 4 }, gradients, 1);
	request_push(&r, HALVES, (const uint64_t[]){ 2, 2 }, (const float[8]){ 1 }, 2, 0);
	request_push(&r, HALVES, (const uint64_t[]){ 2 }, gradients, 1, 0);
	request_good(&r, peer);
	CHECK_UINT(pull_new(peer, HALVES, keys, 5, 0, had, now, rows), 2);
	CHECK_UINT(now[1], had[1] + 2);
	CHECK_UINT(now[3], had[3] + 1);
	pull(peer, HALVES, &keys[3], 1, 0, row);
	CHECK_MEM(rows + 4, row, sizeof(row));
	/* Deleted and made again: never a version that it had before. */
	add(&r, delete_op(HALVES, 5), keys, NULL);
	request_good(&r, peer);
	CHECK_UINT(pull_new(peer, HALVES, keys, 5, 0, now, had, rows), 5);
	for (unsigned i = 0; i < 5; i++)
		CHECK(had[i] > now[i]);
	request_op(&r, with_body(pull_op(HALVES, 1, WIRE_VERSIONS)), NULL, NULL);
	request_zeros(&r, 16);
	request_push(&r, HALVES, keys, gradients, 1, 0);
	request_refused(&r, peer, WIRE_BAD_REQUEST, "a request with pushes has pulls with versions as well");
	shard_stop();
}

/* The request is prepared for its pull; what it deletes, or commits, is not: no row is made for that. */
void deletes_beside_conditional_pulls_make_no_rows(void)
{
	static const uint64_t keys[] = { 1, 9, 2 };
	static const float ones[4] = { 1, 1, 1, 1 };
	const uint32_t given[2] = { 0 };
	struct peer *peer = shard_simple(5);
	struct wire_op pulled = with_body(pull_op(HALVES, 1, WIRE_VERSIONS)), commit = delete_op(HALVES, 1);
	struct request r = { 0 };
	struct wire_result result;
	struct reply reply;

	push(peer, HALVES, keys, ones, 1);
	add(&r, delete_op(HALVES, 2), keys, NULL);
	request_append(&r, &pulled, sizeof(pulled));
	request_append(&r, &keys[2], sizeof(*keys));
	request_append(&r, given, sizeof(given));
	reply = request_run(&r, peer);
	result_of(&reply, 0, &result);
	CHECK_UINT(result.count, 1); /* key 9 was not there */
	result_of(&reply, 1, &result);
	CHECK_UINT(result.count, 1);
	CHECK_UINT(shard_rows(), 1);
	commit.kind = WIRE_COMMIT;
	commit.flags = WIRE_OPEN;
	commit.version = 7;
	add(&r, commit, keys, NULL);
	request_append(&r, &pulled, sizeof(pulled));
	request_append(&r, &keys[2], sizeof(*keys));
	request_append(&r, given, sizeof(given));
	request_good(&r, peer);
	CHECK_UINT(shard_rows(), 1);
	shard_stop();
}

/* In many slices, between which another stream pushes to the same rows: a reply is whole, and what it does not bring
 * comes with the next. */
void large_conditional_pulls_are_consistent(void)
{
	enum { N = 20000, ROUNDS = 30 };
	static uint64_t keys[N];
	static uint32_t had[N], now[N];
	static float rows[N * 4], mine[N * 4], last[N * 4], gradients[N * 4];
	struct peer *peer = shard_simple(5), *other = rig_peer(&shard.rig, 1);
	struct prng prng;
	unsigned came = 0;

	prng_seed(&prng, 5);
	fill_keys(keys, N, 0);
	fill_floats(gradients, RTE_DIM(gradients), 0.125f);
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct request r = { 0 };
		struct reply reply;
		unsigned n, at = 0;

		for (unsigned i = 0; i < 5; i++) {
			request_push(&r, HALVES, keys + prng_below(&prng, N - 50), gradients, 50, 0);
			request_send(&r, other);
		}
		n = pull_new(peer, HALVES, keys, N, 0, had, now, rows);
		for (uint32_t i = 0; i < N; i++)
			if (had[i] == 0 || had[i] != now[i])
				memcpy(mine + 4 * i, rows + 4 * at++, 16);
		CHECK_UINT(at, n);
		memcpy(had, now, sizeof(had));
		came += n;
		for (unsigned i = 0; i < 5; i++)
			peer_await(other, &reply);
	}
	/* Nothing changes now. */
	for (unsigned i = 0, at = 0; i < 2; i++, at = 0) {
		pull_new(peer, HALVES, keys, N, 0, had, now, rows);
		for (uint32_t k = 0; k < N; k++)
			if (had[k] != now[k])
				memcpy(mine + 4 * k, rows + 4 * at++, 16);
		memcpy(had, now, sizeof(had));
	}
	pull(peer, HALVES, keys, N, 0, last);
	CHECK_MEM(mine, last, sizeof(last));
	CHECK(came < N + ROUNDS * 5 * 50 * 2); /* only what was new */
	shard_stop();
}

void results_count_the_pushes(void)
{
	static const uint64_t keys[] = { 1, 2 };
	static const float ones[2] = { 1, 1 };
	struct peer *peer = shard_simple(6);
	struct request r = { 0 };
	struct wire_result result;
	struct reply reply;

	request_pull(&r, COUNTS, keys, 1, 0);
	request_push(&r, COUNTS, keys, ones, 2, 0);
	request_push(&r, COUNTS, keys, ones, 1, 0);
	request_pull(&r, COUNTS, keys, 1, 0);
	request_pull(&r, EIGHTS, keys, 1, 0);
	reply = request_run(&r, peer);
	for (unsigned i = 0; i < 5; i++) {
		result_of(&reply, i, &result);
		CHECK_UINT(result.version, ((const uint64_t[]){ 0, 1, 2, 2, 0 })[i]);
	}
	shard_stop();
}

void unadmitted_keys_read_the_filter_value(void)
{
	static const uint64_t key[] = { 9 };
	const float gradient[2] = { 1, 1 };
	struct peer *peer = shard_simple(7);
	struct store_stats stats = { 0 };
	float row[2];

	for (unsigned i = 0; i < 5; i++) { /* looking counts nothing */
		pull(peer, FILTERED, key, 1, WIRE_READ_ONLY, row);
		CHECK_NEAR(row[0], 0.5, 0);
	}
	push(peer, FILTERED, key, gradient, 1);
	pull(peer, FILTERED, key, 1, 0, row);
	CHECK_NEAR(row[1], 0.5, 0);
	CHECK_UINT(shard_rows(), 0);
	push(peer, FILTERED, key, gradient, 1); /* the third time: a row of ones, less the gradient */
	pull(peer, FILTERED, key, 1, 0, row);
	CHECK_NEAR(row[0], 0, 0);
	CHECK_UINT(shard_rows(), 1);
	service_table_stats(shard.service, FILTERED, &stats);
	CHECK_UINT(stats.unadmitted, 2);
	CHECK_UINT(stats.rows, 1);
	shard_stop();
}

/* Though a request with pushes looks its rows up twice, and a push_pull a third time. */
void each_operation_counts_once(void)
{
	static const uint64_t pulled[] = { 1 }, both[] = { 2 };
	static const float gradient[2] = { 1, 1 };
	struct peer *peer = shard_simple(14);
	struct wire_op op = push_op(FILTERED, 1, 0);

	op.kind = WIRE_PUSH_PULL;
	op.result_dtype = STAR_FLOAT32;
	for (unsigned time = 1; time <= 3; time++) {
		struct request r = { 0 };
		struct reply reply;

		request_push(&r, COUNTS, pulled, gradient, 1, 0);
		request_pull(&r, FILTERED, pulled, 1, 0);
		add(&r, op, both, gradient);
		reply = request_run(&r, peer);
		CHECK_NEAR(result_rows(&reply, 1, FILTERED, 1)[0], time < 3 ? 0.5 : 1, 0);
		CHECK_NEAR(result_rows(&reply, 2, FILTERED, 1)[0], time < 3 ? 0.5 : 0, 0);
		CHECK_UINT(shard_rows(), time < 3 ? 1 : 3);
	}
	shard_stop();
}

/* Small and large, behind operations that are good. */
void nonfinite_gradients_change_nothing(void)
{
	enum { N = 200 };
	static uint64_t keys[N];
	static float gradients[N * 7];
	struct store_stats stats = { 0 };
	struct peer *peer = shard_simple(8);
	float before;

	fill_keys(keys, N, 0);
	fill_floats(gradients, RTE_DIM(gradients), 1);
	push(peer, ADAGRAD, keys, gradients, N);
	before = pull_one(peer, ADAGRAD, 0);
	for (uint32_t count = 2; count <= N; count += N - 2) {
		static const float bad[] = { NAN, INFINITY, -INFINITY };

		for (unsigned i = 0; i < RTE_DIM(bad); i++) {
			struct request r = { 0 };

			gradients[count * 7 - 1] = bad[i];
			request_push(&r, COUNTS, keys, gradients, 1, 0);
			request_push(&r, ADAGRAD, keys, gradients, count, 0);
			request_refused(&r, peer, WIRE_NOT_FINITE,
					"a gradient for \"adagrad\" has NaN or infinities: nothing was applied");
			gradients[count * 7 - 1] = 1;
			CHECK_NEAR(pull_one(peer, ADAGRAD, 0), before, 0);
			CHECK_NEAR(pull_one(peer, COUNTS, 0), 0, 0);
		}
	}
	service_table_stats(shard.service, ADAGRAD, &stats);
	CHECK_UINT(stats.nonfinite, 6);
	CHECK_UINT(stats.pushes, 1);
	push(peer, ADAGRAD, keys, gradients, N); /* the scratch is free */
	/* With nonfinite="pass" it is applied. */
	gradients[0] = NAN;
	push(peer, COUNTS, keys, gradients, 1);
	CHECK(isnan(pull_one(peer, COUNTS, 0)));
	shard_stop();
}

/* A refused push releases its rows: their memory serves others at once. */
void refused_pushes_hold_no_rows(void)
{
	enum { N = 2000 };
	static uint64_t keys[N];
	static float gradients[N * 2], rows[N * 2];
	struct store_stats before = { 0 }, after = { 0 };
	struct peer *peer = shard_simple(15);

	for (uint32_t count = 10; count <= N; count += N - 10) {
		struct request r = { 0 };

		fill_keys(keys, N, 10000 * count);
		push(peer, LIVING, keys, gradients, count);
		gradients[count * 2 - 1] = NAN;
		request_push(&r, LIVING, keys, gradients, count, 0);
		request_refused(&r, peer, WIRE_NOT_FINITE, "\"living\"");
		gradients[count * 2 - 1] = 0;
		add(&r, delete_op(LIVING, count), keys, NULL);
		request_good(&r, peer);
		before = after = (struct store_stats){ 0 };
		service_table_stats(shard.service, LIVING, &before);
		fill_keys(keys, N, 10000 * count + N);
		pull(peer, LIVING, keys, count, 0, rows);
		service_table_stats(shard.service, LIVING, &after);
		CHECK(after.free_bytes < before.free_bytes);
	}
	shard_stop();
}

void lamb_takes_the_whole_tensor(void)
{
	static uint64_t keys[7] = { 0, 1, 2, 3, 4, 5, 6 };
	static float gradients[7 * 1024], rows[7 * 1024];
	struct peer *peer = shard_simple(9);
	struct request r = { 0 };

	fill_floats(gradients, 6400, 1);
	request_push(&r, LAMB, keys, gradients, 6, 0);
	request_refused(&r, peer, WIRE_BAD_REQUEST,
			"a push to \"lamb\" must have all its 7 blocks, it has 6: lamb works on the whole tensor");
	keys[6] = 5;
	request_push(&r, LAMB, keys, gradients, 7, 0);
	request_refused(&r, peer, WIRE_BAD_REQUEST, "must name all its 7 blocks in order");
	keys[6] = 6;
	push(peer, LAMB, keys, gradients, 7);
	/* All directions are the same, so the trust ratio takes the tensor's norm off by the rate: 2 * (1 - 0.001). */
	pull(peer, LAMB, keys, 7, 0, rows);
	for (unsigned i = 0; i < 6400; i += 799)
		CHECK_NEAR(rows[i], 2 * (1 - 0.001), 1e-6);
	shard_stop();
}

void gradients_of_whole_variables_are_clipped(void)
{
	static const uint64_t keys[7] = { 0, 1, 2, 3, 4, 5, 6 };
	static float gradients[7 * 1024], rows[7 * 1024];
	struct peer *peer = shard_simple(10);

	gradients[0] = 3; /* a norm of 5, over two blocks */
	gradients[5000] = 4;
	push(peer, CLIPPED, keys, gradients, 7);
	pull(peer, CLIPPED, keys, 7, 0, rows);
	CHECK_NEAR(rows[0], -3 * 2.0 / 5, 1e-6);
	CHECK_NEAR(rows[5000], -4 * 2.0 / 5, 1e-6);
	gradients[0] = 1; /* of 1: as it is */
	gradients[5000] = 0;
	push(peer, CLIPPED, keys, gradients, 7);
	pull(peer, CLIPPED, keys, 7, 0, rows);
	CHECK_NEAR(rows[0], -3 * 2.0 / 5 - 1, 1e-6);
	shard_stop();
}

/* All blocks where block 0 is; those of others by their own keys. */
void whole_variables_have_one_home(void)
{
	static const uint64_t keys[7] = { 0, 1, 2, 3, 4, 5, 6 };
	static float rows[7 * 1024];
	struct peer *peer = shard_simple(11);
	const uint32_t home = layout_partition(hash_key(hash_name("lamb"), 0), PARTITIONS);
	struct request r = { 0 };

	service_set_layout(shard.service, RIG_EPOCH, home, home + 1);
	pull(peer, LAMB, keys, 7, 0, rows);
	request_pull(&r, VARIABLE, keys, 7, 0);
	request_refused(&r, peer, WIRE_WRONG_SHARD, "another reactor");
	service_set_layout(shard.service, RIG_EPOCH, home + 1, PARTITIONS);
	request_pull(&r, LAMB, keys, 1, 0);
	request_refused(&r, peer, WIRE_WRONG_SHARD, "another reactor");
	request_pull(&r, LAMB, (const uint64_t[]){ 7 }, 1, 0);
	request_refused(&r, peer, WIRE_BAD_REQUEST, "variable \"lamb\" has 7 blocks, the request names block 7");
	shard_stop();
}

void integers_take_no_gradients(void)
{
	static const uint64_t keys[] = { 5 };
	struct wire_op op;
	struct peer *peer = shard_simple(12);
	struct request r = { 0 };
	struct wire_result result;
	struct reply reply;
	const uint8_t *body;
	int32_t row[2] = { 0 };

	op = pull_op(NUMBERS, 1, 0);
	op.result_dtype = STAR_INT32;
	add(&r, op, keys, NULL);
	reply = request_run(&r, peer);
	body = result_of(&reply, 0, &result);
	if (body)
		memcpy(row, body, sizeof(row));
	CHECK_INT(row[0], -7);
	CHECK_INT(row[1], -7);
	request_pull(&r, NUMBERS, keys, 1, 0);
	request_refused(&r, peer, WIRE_WRONG_TYPE, "\"numbers\" has elements of type int32, the request has float32");
	op = push_op(NUMBERS, 1, 0);
	op.dtype = STAR_INT32;
	add(&r, op, keys, row);
	request_refused(&r, peer, WIRE_WRONG_TYPE,
			"\"numbers\" has no optimizer (element type int32): it takes no pushes");
	shard_stop();
}

static void push_at(struct peer *peer, const uint64_t *keys, uint32_t count, uint64_t step)
{
	static const float zeros[2000];
	struct wire_op op = push_op(LIVING, count, 0);
	struct request r = { 0 };

	op.step = step;
	add(&r, op, keys, zeros);
	request_good(&r, peer);
}

void old_rows_are_swept_in_slices(void)
{
	enum { N = 1000 };
	static uint64_t keys[N];
	struct store_stats stats = { 0 };
	struct peer *peer = shard_simple(13);
	uint64_t now = 5 * RIG_S;
	unsigned slices = 0;

	fill_keys(keys, N, 0);
	push_at(peer, keys, N, 1);
	while (service_sweep(shard.service, now) && slices < 1000)
		slices++;
	CHECK(slices < 1000);
	slices = 0;
	push_at(peer, keys, 10, 100);
	/* At most 64 rows are looked at in 100 us; as long as no time goes by, nothing happens. */
	for (unsigned i = 0; i < 1000 && shard_rows() > 10; i++) {
		const uint64_t before = shard_rows();

		now += RIG_S / 10000;
		CHECK_UINT(service_sweep(shard.service, now), 0);
		CHECK_UINT(service_sweep(shard.service, now), 0);
		CHECK(before - shard_rows() <= 64);
	}
	CHECK_UINT(shard_rows(), 10);
	service_table_stats(shard.service, LIVING, &stats);
	CHECK_UINT(stats.evicted, N - 10);
	/* The time of a sleep is made up for, in slices of a turn each; then there is nothing to do, however long it
	 * slept. */
	push_at(peer, keys, N, 200);
	push_at(peer, keys, 10, 300);
	now += RIG_S;
	while (service_sweep(shard.service, now) && slices < 1000)
		slices++;
	CHECK(slices > N / 64 && slices < 1000);
	CHECK_UINT(shard_rows(), 10);
	for (unsigned i = 0; i < 10; i++)
		CHECK_UINT(service_sweep(shard.service, now += RIG_S), 0);
	/* On request, at once. */
	push_at(peer, keys + 10, 90, 301);
	push_at(peer, keys, 1, 1000);
	CHECK_INT(service_sweep_begin(shard.service, LIVING), 0);
	CHECK(service_sweep_left(shard.service, LIVING) > 0);
	for (slices = 0; service_sweep_left(shard.service, LIVING) && slices < 100; slices++)
		CHECK_UINT(service_sweep(shard.service, now), 1);
	CHECK_UINT(service_sweep_left(shard.service, LIVING), 0);
	CHECK_UINT(shard_rows(), 1);
	CHECK_INT(service_sweep_begin(shard.service, 6), -ENOENT);
	shard_stop();
}

/* On request: in slices of a turn each, while requests are served. */
void emptied_tables_start_again(void)
{
	enum { N = 1000 };
	static uint64_t keys[N];
	struct peer *peer = shard_simple(13);
	unsigned slices = 0;

	fill_keys(keys, N, 0);
	push_at(peer, keys, N, 1);
	CHECK_UINT(shard_rows(), N);
	CHECK_INT(service_empty_begin(shard.service, 6), -ENOENT);
	CHECK_INT(service_empty_begin(shard.service, WIRE_OBJECTS_MAX + 1), -ENOENT);
	CHECK_INT(service_empty_begin(shard.service, LIVING), 0);
	CHECK(service_sweep_left(shard.service, LIVING) > 0);
	while (service_sweep_left(shard.service, LIVING) && slices < 100) {
		CHECK_UINT(service_sweep(shard.service, 5 * RIG_S), 1);
		slices++;
	}
	CHECK(slices >= N / 128 && slices < 100);
	CHECK_UINT(shard_rows(), 0);
	push_at(peer, keys, 10, 2);
	CHECK_UINT(shard_rows(), 10);
	shard_stop();
}
