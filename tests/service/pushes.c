/* SPDX-License-Identifier: BSD-3-Clause */
/* What a push says of itself: that more of it follows, its rate and scale; and gradients of one key that add up to too
 * much. */
#include "tests/service/cases.h"

#include "service/internal.h"
#include "tests/service/programs.h"

enum { N = 600 };

static uint64_t version_of(struct request *r, struct peer *peer)
{
	struct wire_result result = { 0 };
	const struct reply reply = request_run(r, peer);

	CHECK_UINT(reply.frame.status, WIRE_OK);
	result_of(&reply, 0, &result);
	return result.version;
}

/* Requests of one push count once, with the last of them; also where they assign. */
void parts_of_a_push_count_once(void)
{
	static const uint8_t kinds[] = { WIRE_PUSH, WIRE_PUSH_PULL, WIRE_ASSIGN };
	static uint64_t keys[3 * N];
	static float gradients[N];
	struct peer *peer = shard_simple(1);
	struct request r = { 0 };

	fill_keys(keys, 3 * N, 0);
	fill_floats(gradients, N, 1);
	for (uint32_t n = 1; n <= N; n += N - 1) /* the fast path, and slices */
		for (unsigned k = 0; k < RTE_DIM(kinds); k++) {
			const uint64_t before = store_table_stats(shard.service->tables[COUNTS])->pushes;

			for (unsigned part = 0; part < 3; part++) {
				struct wire_op op = push_op(COUNTS, n, 0);

				op.kind = kinds[k];
				op.result_dtype = kinds[k] == WIRE_PUSH_PULL ? STAR_FLOAT32 : 0;
				op.flags = part < 2 ? WIRE_MORE : 0;
				request_op(&r, op, keys + part * n, gradients);
				CHECK_UINT(version_of(&r, peer), before + part / 2);
			}
		}
	shard_stop();
}

void a_rate_and_a_scale_of_zero_are_meant(void)
{
	static uint64_t keys[N];
	static float gradients[N];
	struct peer *peer = shard_simple(1);
	struct request r = { 0 };

	fill_keys(keys, N, 0);
	fill_floats(gradients, N, 1);
	for (uint32_t n = 1; n <= N; n += N - 1)
		for (unsigned zero = 0; zero < 3; zero++) {
			const float before = pull_one(peer, COUNTS, 0);
			struct wire_op op = push_op(COUNTS, n, 0);

			op.flags = zero == 0 ? WIRE_RATE : zero == 1 ? WIRE_SCALE : 0;
			request_op(&r, op, keys, gradients);
			request_good(&r, peer);
			CHECK_NEAR(pull_one(peer, COUNTS, 0), zero < 2 ? before : before - 0.5f, 0);
			op.flags = 0;
			*(zero == 0 ? &op.rate : &op.scale) = 1;
			request_op(&r, op, keys, gradients);
			request_refused(&r, peer, WIRE_BAD_REQUEST, "or its flag is missing");
		}
	shard_stop();
}

/* Each is finite; in one batch, and in two that are far apart. */
void gradients_of_one_key_that_overflow_are_refused(void)
{
	static uint64_t keys[N];
	static float gradients[N * 7];
	float row[7], first[7];
	struct peer *peer = shard_simple(1);
	struct request r = { 0 };

	initial(ADAGRAD, 0, first);
	for (uint32_t n = 3; n <= N; n += N - 3) {
		fill_keys(keys, n, 0);
		keys[n - 1] = 0;
		fill_floats(gradients, RTE_DIM(gradients), 1);
		gradients[0] = gradients[(n - 1) * 7] = 3e38f;
		request_push(&r, ADAGRAD, keys, gradients, n, 0);
		request_refused(&r, peer, WIRE_NOT_FINITE, "gradients of one key for \"adagrad\" add up to infinities");
		pull(peer, ADAGRAD, keys, 1, WIRE_READ_ONLY, row);
		CHECK_MEM(row, first, sizeof(row));
		gradients[(n - 1) * 7] = -3e38f;
		request_push(&r, ADAGRAD, keys, gradients, n, 1e-30f);
		request_good(&r, peer);
		pull(peer, ADAGRAD, keys, 1, WIRE_READ_ONLY, row);
		CHECK_NEAR(row[0], first[0], 1e-6);
	}
	shard_stop();
}

static void apply_rows(struct peer *peer, const struct program *p, unsigned id, const uint64_t *keys,
		       const float *gradients, uint32_t n, bool refused)
{
	struct request r = { 0 };
	struct reply reply;
	struct body b;

	body_begin(&b, id, p, (uint32_t[]){ n }, 0);
	body_part(&b, keys, n * sizeof(*keys));
	body_part(&b, gradients, n * 2 * sizeof(*gradients));
	if (refused) {
		body_into(&b, &r);
		request_refused(&r, peer, WIRE_NOT_FINITE, "gradients of one key for \"living\" add up to infinities");
	} else {
		/* The first and the last key are the same, whose row is read for both as it was. */
		const float *rows = body_run(&b, peer, &reply);

		CHECK_MEM(rows, rows + (n - 1) * 2, 2 * sizeof(*rows));
	}
}

/* The same of what a program applies. */
void computed_gradients_of_one_key_that_overflow_are_refused(void)
{
	static uint64_t keys[N];
	static float gradients[N * 2];
	struct program p = { 0 };
	const unsigned k = node_keys(&p, LIVING), g = node_rows(&p, PROGRAM_ROWS, k, 2);
	struct peer *peer = shard_simple(1);
	unsigned lookup;

	lookup = node(&p, PROGRAM_LOOKUP, k, 0);
	node(&p, PROGRAM_APPLY, k, g);
	node(&p, PROGRAM_FETCH, lookup, 0);
	install_good(100, &p);
	for (uint32_t n = 3; n <= N; n += N - 3) {
		fill_keys(keys, n, 0);
		keys[n - 1] = 0;
		fill_floats(gradients, RTE_DIM(gradients), 1);
		gradients[0] = gradients[(n - 1) * 2] = 3e38f;
		apply_rows(peer, &p, 100, keys, gradients, n, true);
		CHECK_NEAR(pull_one(peer, LIVING, 0), 0, 0);
		gradients[(n - 1) * 2] = -3e38f;
		apply_rows(peer, &p, 100, keys, gradients, n, false);
		CHECK_NEAR(pull_one(peer, LIVING, 0), 0, 0);
	}
	shard_stop();
}
