/* SPDX-License-Identifier: BSD-3-Clause */
/* Types, rows of variables, versions, deletes, norms. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tensor/convert.h"
#include "tests/client/cases.h"

static struct star_table *make(struct bench *b, struct star_spec spec, bool variable)
{
	struct star_error err = { 0 };
	struct star_table *t = (variable ? star_variable_create : star_table_create)(b->cluster, &spec, LONG_US, &err);

	if (!t) {
		unit_fail(__FILE__, __LINE__, "%s", err.text);
		exit(EXIT_FAILURE);
	}
	return t;
}

static void run(struct bench *b, struct star_op op)
{
	struct star_error err = { 0 };

	if (!CHECK_INT(star_execute(b->cluster, &op, 1, LONG_US, &err), 0))
		printf("# %s\n", err.text);
}

/* Each type with an odd dim, over reactors: rows come as that type, gradients go as it. */
void values_have_the_type_that_is_asked_for(void)
{
	static const char *const names[] = { "float32", "float16", "bfloat16", "float64", "scaled_int8" };
	enum { DIM = 5, KEYS = 40 };
	struct bench b = bench_start(1, 3, DIM);
	uint64_t keys[KEYS];

	for (uint32_t i = 0; i < KEYS; i++)
		keys[i] = i;
	for (unsigned t = 0; t < sizeof(names) / sizeof(names[0]); t++) {
		const unsigned dtype = dtype_parse(names[t]);
		const uint32_t bytes = (uint32_t)dtype_row_bytes(dtype, DIM);
		uint8_t *rows = aligned_alloc(64, 64 * KEYS), *expected = aligned_alloc(64, 64);
		float floats[DIM], scratch[DIM], after[DIM];

		CHECK_UINT(star_bytes(b.table, names[t]), bytes);
		run(&b, (struct star_op){ .kind = STAR_PULL,
					  .table = b.table,
					  .keys = keys,
					  .count = KEYS,
					  .values = rows,
					  .dtype = names[t] });
		CHECK_UINT(peer_last_op(b.peer).result_dtype, dtype);
		CHECK_UINT(peer_last_op(b.peer).dtype, 0);
		for (uint32_t i = 0; i < KEYS; i++) {
			for (uint32_t e = 0; e < DIM; e++)
				floats[e] = peer_initial(1, keys[i], e);
			tensor_convert_row(expected, dtype, floats, STAR_FLOAT32, DIM, scratch);
			CHECK_MEM(rows + i * bytes, expected, bytes);
		}
		/* The row of key 100 + t goes down by what it is as that type. */
		keys[0] = 100 + t;
		for (uint32_t e = 0; e < DIM; e++)
			floats[e] = (float)(e + 1) / 4;
		tensor_convert_row(rows, dtype, floats, STAR_FLOAT32, DIM, scratch);
		tensor_convert_row(floats, STAR_FLOAT32, rows, dtype, DIM, scratch);
		run(&b, (struct star_op){ .kind = STAR_PUSH,
					  .flags = STAR_SCALE,
					  .table = b.table,
					  .keys = keys,
					  .count = 1,
					  .values = rows,
					  .dtype = names[t],
					  .scale = 2 });
		CHECK_UINT(peer_last_op(b.peer).dtype, dtype);
		CHECK_NEAR(peer_last_op(b.peer).scale, 2, 0);
		run(&b, star_op_pull(b.table, keys, 1, after));
		for (uint32_t e = 0; e < DIM; e++)
			CHECK_NEAR(after[e], peer_initial(1, keys[0], e) - 2 * floats[e], 1e-3);
		keys[0] = 0;
		free(rows);
		free(expected);
	}
	bench_stop(&b);
}

void push_pull_is_one_trip(void)
{
	enum { KEYS = 100 };
	struct bench b = bench_start(1, 2, 3);
	uint64_t keys[KEYS];
	float gradients[KEYS * 3], rows[KEYS * 3];

	for (uint32_t i = 0; i < KEYS; i++) {
		keys[i] = i ? i : 1; /* 1 occurs twice */
		for (uint32_t e = 0; e < 3; e++)
			gradients[i * 3 + e] = (float)i;
	}
	run(&b, star_op_push_pull(b.table, keys, KEYS, gradients, rows));
	CHECK_UINT(peer_requests(b.peer), 2);
	for (uint32_t i = 0; i < KEYS; i++)
		CHECK_NEAR(rows[i * 3 + 2], peer_initial(1, keys[i], 2) - (float)keys[i], 1e-3);
	CHECK_NEAR(gradients[KEYS * 3 - 1], KEYS - 1, 0);
	bench_stop(&b);
}

/* In requests of their own, but in one call: in the operations' order. */
void deletes_and_conditional_pulls_go_apart(void)
{
	struct bench b = bench_start(1, 1, 2);
	struct star_table *t = make(&b, (struct star_spec){ .name = "v", .dim = 2, .options = "versions=1" }, false);
	const uint64_t keys[] = { 1, 2, 3 };
	float ones[6] = { 1, 1, 1, 1, 1, 1 }, first[6], second[6];
	uint32_t versions[3] = { 0 };
	struct star_op ops[] = {
		{ .kind = STAR_PUSH, .table = t, .keys = keys, .count = 3, .values = ones },
		{ .kind = STAR_PULL, .table = t, .keys = keys, .count = 3, .values = first, .versions = versions },
		{ .kind = STAR_PUSH, .table = t, .keys = keys, .count = 3, .values = ones },
		{ .kind = STAR_DELETE, .table = t, .keys = keys, .count = 1 },
		{ .kind = STAR_PULL, .table = t, .keys = keys, .count = 3, .values = second },
	};
	struct star_error err = { 0 };

	CHECK_INT(star_execute(b.cluster, ops, 5, LONG_US, &err), 0);
	CHECK_UINT(peer_requests(b.peer), 4);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_NEAR(first[2 * i], peer_initial(2, keys[i], 0) - 1, 1e-3);
		CHECK_NEAR(second[2 * i], peer_initial(2, keys[i], 0) - (i ? 2 : 0), 1e-3);
		CHECK_UINT(versions[i], 2);
	}
	bench_stop(&b);
}

/* Of a key that comes twice the last values, over requests and reactors; a variable as a whole and by rows of whole
 * blocks. */
void values_are_assigned(void)
{
	enum { KEYS = 150000, DIM = 8, BLOCKS = 5 };
	const uint64_t shape[] = { BLOCKS, 1024 }, some[] = { 4, 2 };
	struct bench b = bench_start(1, 2, DIM);
	struct star_table *v = make(&b, (struct star_spec){ .name = "v", .ndim = 2, .shape = shape }, true);
	uint64_t *keys = malloc(KEYS * sizeof(*keys));
	float *values = malloc(KEYS * DIM * sizeof(*values)), *rows = malloc(KEYS * DIM * sizeof(*rows));

	for (uint32_t i = 0; i < KEYS; i++)
		keys[i] = i / 2;
	for (uint32_t i = 0; i < KEYS * DIM; i++)
		values[i] = (float)i;
	run(&b, star_op_assign(b.table, keys, KEYS, values));
	CHECK_UINT(peer_last_op(b.peer).kind, WIRE_ASSIGN);
	CHECK_UINT(peer_last_op(b.peer).dtype, STAR_FLOAT32);
	run(&b, star_op_pull(b.table, keys, KEYS, rows));
	for (uint32_t i = 1; i < KEYS; i += 2)
		CHECK_MEM(rows + (size_t)i * DIM, values + (size_t)i * DIM, DIM * sizeof(float));
	run(&b, star_op_assign(v, NULL, 0, values));
	run(&b, star_op_assign(v, some, 2, values + 77));
	run(&b, star_op_pull(v, NULL, 0, rows));
	for (uint32_t i = 0; i < BLOCKS; i++)
		CHECK_MEM(rows + i * 1024, values + (i == 4 ? 77 : i == 2 ? 77 + 1024 : i * 1024), 4096);
	free(keys);
	free(values);
	free(rows);
	bench_stop(&b);
}

void only_what_is_new_is_written(void)
{
	enum { KEYS = 70001, DIM = 2 }; /* more than one request, and an odd number of versions */
	struct bench b = bench_start(1, 1, DIM);
	struct star_table *t = make(&b, (struct star_spec){ .name = "v", .dim = DIM, .options = "versions=1" }, false);
	uint64_t *keys = calloc(KEYS, sizeof(*keys));
	uint32_t *versions = calloc(KEYS, sizeof(*versions));
	float *rows = calloc(KEYS * DIM, sizeof(*rows)), one[DIM] = { 1, 1 };
	struct star_op op = {
		.kind = STAR_PULL, .table = t, .keys = keys, .count = KEYS, .values = rows, .versions = versions
	};

	for (uint64_t i = 0; i < KEYS; i++)
		keys[i] = i;
	/* What is not there has version 0, and comes all the same: so it stays while nothing is made. */
	op.flags = STAR_READ_ONLY;
	run(&b, op);
	CHECK_NEAR(rows[777 * DIM], peer_initial(2, 777, 0), 0);
	CHECK_UINT(versions[777], 0);
	rows[777 * DIM] = -1;
	run(&b, op);
	CHECK_NEAR(rows[777 * DIM], peer_initial(2, 777, 0), 0);
	op.flags = 0;
	run(&b, op);
	CHECK_UINT(peer_requests(b.peer), 6);
	for (uint32_t i = 0; i < KEYS; i += 777) {
		CHECK_NEAR(rows[i * DIM], peer_initial(2, i, 0), 0);
		CHECK_UINT(versions[i], 1);
	}
	for (uint32_t i = 0; i < KEYS * DIM; i++)
		rows[i] = -77;
	run(&b, star_op_push(t, &keys[70000], 1, one));
	run(&b, star_op_push(t, &keys[5], 1, one));
	run(&b, op);
	for (uint32_t i = 0; i < KEYS; i++) {
		const bool new = i == 5 || i == 70000;

		if (!CHECK_NEAR(rows[i * DIM + 1], new ? peer_initial(2, i, 1) - 1 : -77, 1e-3) ||
		    !CHECK_UINT(versions[i], new ? 2 : 1))
			break;
	}
	free(keys);
	free(versions);
	free(rows);
	bench_stop(&b);
}

/* Against a pull of the whole: with and without duplicates, in every type. */
static void check_rows(struct bench *b, struct star_table *t, uint32_t rows, uint32_t elements, const char *name)
{
	enum { COUNT = 30 };
	const unsigned dtype = dtype_parse(name);
	const bool scaled = dtype == STAR_SCALED_INT8, long_rows = elements > 1024;
	/* A long row of scaled int8s has a scale for each of its blocks. */
	const size_t bytes =
		long_rows ? elements / 1024 * dtype_row_bytes(dtype, 1024) : dtype_row_bytes(dtype, elements);
	float *whole = calloc((size_t)rows * elements, sizeof(*whole)),
	      *after = malloc((size_t)rows * elements * sizeof(*after));
	char *values = aligned_alloc(64, (COUNT * bytes + 127) / 64 * 64),
	     *row = aligned_alloc(64, (bytes + 63) / 64 * 64);
	float *scratch = malloc(elements * sizeof(*scratch)), *floats = malloc(elements * sizeof(*floats));
	uint64_t keys[COUNT];
	unsigned wrong = 0;

	for (uint32_t i = 0; i < COUNT; i++)
		keys[i] = i % 3 ? rows - 1 - i * 7 % rows : i % rows;
	run(b, (struct star_op){ .kind = STAR_PULL, .table = t, .values = whole, .dtype = "float32" });
	memset(values, 0x77, COUNT * bytes + 1);
	run(b, (struct star_op){
		       .kind = STAR_PULL, .table = t, .keys = keys, .count = COUNT, .values = values, .dtype = name });
	CHECK_INT(values[COUNT * bytes], 0x77);
	for (uint32_t i = 0; i < COUNT && !scaled; i++) { /* a scale is that of a block: it is another one */
		tensor_convert_row(row, dtype, whole + keys[i] * elements, STAR_FLOAT32, elements, scratch);
		wrong += memcmp(row, values + i * bytes, bytes) != 0;
	}
	CHECK_UINT(wrong, 0);
	for (uint32_t i = 0; i < COUNT; i++) {
		for (uint32_t e = 0; e < elements; e++)
			floats[e] = (float)(i + 1) * (e % 2 ? 0.5f : 0.25f);
		for (uint32_t part = 0; part < (long_rows ? elements / 1024 : 1); part++)
			tensor_convert_row(values + i * bytes + part * dtype_row_bytes(dtype, 1024), dtype, floats,
					   STAR_FLOAT32, long_rows ? 1024 : elements, scratch);
	}
	run(b, (struct star_op){
		       .kind = STAR_PUSH, .table = t, .keys = keys, .count = COUNT, .values = values, .dtype = name });
	for (uint32_t i = 0; i < COUNT; i++)
		for (uint32_t e = 0; e < elements; e++)
			whole[keys[i] * elements + e] -= (float)(i + 1) * (e % 2 ? 0.5f : 0.25f);
	run(b, (struct star_op){ .kind = STAR_PULL, .table = t, .values = after, .dtype = "float32" });
	for (uint64_t i = 0; i < (uint64_t)rows * elements; i++)
		if (fabsf(after[i] - whole[i]) > 1.0f * (float)scaled + 1e-3f + 1e-5f * fabsf(whole[i]) && wrong++ == 0)
			unit_fail(__FILE__, __LINE__, "element %llu of %u x %u as %s is %g, not %g",
				  (unsigned long long)i, rows, elements, name, (double)after[i], (double)whole[i]);
	free(whole);
	free(after);
	free(values);
	free(row);
	free(scratch);
	free(floats);
}

void rows_of_variables_are_gathered_and_scattered(void)
{
	static const uint64_t shapes[][2] = { { 5000, 1 },  { 100, 64 }, { 1000, 300 }, { 2, 300 },
					      { 40, 1024 }, { 9, 3072 }, { 7, 600 } };
	static const char *const names[] = { "float32", "float64", "scaled_int8" };

	for (uint32_t reactors = 1; reactors <= 3; reactors += 2) {
		struct bench b = bench_start(1, reactors, 1);

		for (unsigned i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
			char name[16];
			struct star_table *t;

			snprintf(name, sizeof(name), "v%u", i);
			t = make(&b, (struct star_spec){ .name = name, .ndim = 2, .shape = shapes[i] }, true);
			for (unsigned n = 0; n < sizeof(names) / sizeof(names[0]); n++)
				check_rows(&b, t, (uint32_t)shapes[i][0], (uint32_t)shapes[i][1], names[n]);
		}
		bench_stop(&b);
	}
}

void whole_variables_go_to_one_reactor(void)
{
	enum { ELEMENTS = 1100000 };
	const uint64_t shape[] = { 100, 100 }, large[] = { ELEMENTS };
	struct bench b = bench_start(2, 2, 1);
	struct star_table *t =
		make(&b, (struct star_spec){ .name = "w", .ndim = 2, .shape = shape, .options = "whole=1" }, true);
	struct star_table *lamb =
		make(&b,
		     (struct star_spec){
			     .name = "l", .ndim = 1, .shape = large, .optimizer = "lamb", .options = "whole=1" },
		     true);
	float *values = calloc(ELEMENTS, sizeof(*values));
	const uint32_t pulls = b.peer->datagrams ? 2 : 1; /* 40000 bytes, 32 KiB a request or 64 */
	struct star_error err = { 0 };

	CHECK_INT(star_variable_pull(t, values, LONG_US, &err), 0);
	CHECK_NEAR(values[9999], peer_initial(2, 9, 999), 0);
	CHECK_UINT(peer_requests(b.peer), pulls);
	CHECK_INT(star_variable_push(t, values, LONG_US, &err), 0);
	CHECK_UINT(peer_requests(b.peer), pulls + 1);
	/* What the node needs in one request is not cut: a narrower type fits. */
	CHECK_INT(star_variable_push(lamb, values, LONG_US, &err), -E2BIG);
	CHECK_HAS(err.text, "a push to \"l\" must go in one request of 4 MiB, for its optimizer lamb");
	CHECK_UINT(peer_requests(b.peer), pulls + 1);
	memset(values, 0, ELEMENTS * sizeof(*values));
	run(&b, (struct star_op){ .kind = STAR_PUSH, .table = lamb, .values = values, .dtype = "bfloat16" });
	CHECK_UINT(peer_requests(b.peer), pulls + 2);
	CHECK_INT(star_variable_pull(lamb, values, LONG_US, &err), 0);
	/* a pull is cut: 1075 blocks, 16 or 8 a request */
	CHECK_UINT(peer_requests(b.peer), pulls + 2 + (b.peer->datagrams ? 135 : 68));
	free(values);
	bench_stop(&b);
}

void requests_are_as_large_as_all_nodes_take(void)
{
	enum { ELEMENTS = 1100000 }; /* 4.2 MiB */
	static const uint32_t limits[][2] = { { 8 << 20, 5 << 20 }, { 5 << 20, 8 << 20 }, { 8 << 20, 1 << 20 } };
	const uint64_t shape[] = { ELEMENTS };
	struct bench b = bench_start(2, 1, 1);
	struct star_table *lamb =
		make(&b,
		     (struct star_spec){
			     .name = "l", .ndim = 1, .shape = shape, .optimizer = "lamb", .options = "whole=1" },
		     true);
	float *values = calloc(ELEMENTS, sizeof(*values));
	struct star_error err = { 0 };

	for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const uint64_t key = 1;
		float row;

		pthread_mutex_lock(&b.peer->lock);
		memcpy(b.peer->request_max, limits[i], sizeof(limits[i]));
		pthread_mutex_unlock(&b.peer->lock);
		peer_relayout(b.peer, 2, true);
		CHECK_INT(star_pull(b.table, &key, 1, &row, 0, LONG_US, &err), 0); /* the new layout is fetched */
		peer_forget_largest(b.peer);
		if (limits[i][1] > 4 << 20) {
			CHECK_INT(star_variable_push(lamb, values, LONG_US, &err), 0);
			CHECK(peer_largest_request(b.peer) > ELEMENTS * sizeof(*values));
			continue;
		}
		CHECK_INT(star_variable_push(lamb, values, LONG_US, &err), -E2BIG);
		CHECK_HAS(err.text, "a push to \"l\" must go in one request of 1 MiB, for its optimizer lamb");
		CHECK_HAS(err.text, "limits.request_mib");
		CHECK_UINT(peer_largest_request(b.peer), 0);
	}
	free(values);
	bench_stop(&b);
}

void pulled_versions_go_with_pushes(void)
{
	struct bench b = bench_start(1, 1, 1);
	struct star_table *t = make(&b, (struct star_spec){ .name = "s", .dim = 1, .options = "staleness=1" }, false);
	const uint64_t key = 1;
	float row = 0, result;
	struct star_error err = { 0 };

	CHECK_INT(star_push(t, &key, 1, &row, LONG_US, &err), 0);
	CHECK_UINT(peer_last_op(b.peer).version, 0);
	CHECK_UINT(peer_last_op(b.peer).flags & WIRE_PULLED, 0); /* nothing was pulled yet */
	CHECK_INT(star_push(t, &key, 1, &row, LONG_US, &err), 0);
	CHECK_INT(star_pull(t, &key, 1, &row, 0, LONG_US, &err), 0);
	CHECK_UINT(peer_last_op(b.peer).version, 0);
	CHECK_INT(star_push(t, &key, 1, &row, LONG_US, &err), 0);
	CHECK_UINT(peer_last_op(b.peer).version, 2);
	CHECK_INT(star_push(t, &key, 1, &row, LONG_US, &err), 0);
	CHECK_UINT(peer_last_op(b.peer).version, 2); /* that is what its gradient is of */
	run(&b, star_op_push_pull(t, &key, 1, &row, &result));
	CHECK_INT(star_push(t, &key, 1, &row, LONG_US, &err), 0);
	CHECK_UINT(peer_last_op(b.peer).version, 5);
	/* An object that nobody has pushed to has version 0, and a client that pulled it says so: its copy may be
	 * stale, too. */
	t = make(&b, (struct star_spec){ .name = "fresh", .dim = 1, .options = "staleness=1" }, false);
	CHECK_INT(star_pull(t, &key, 1, &row, 0, LONG_US, &err), 0);
	CHECK_INT(star_push(t, &key, 1, &row, LONG_US, &err), 0);
	CHECK_UINT(peer_last_op(b.peer).version, 0);
	CHECK_UINT(peer_last_op(b.peer).flags & WIRE_PULLED, WIRE_PULLED);
	/* Of tables without staleness nothing is kept. */
	CHECK_INT(star_pull(b.table, &key, 1, &row, 0, LONG_US, &err), 0);
	CHECK_INT(star_push(b.table, &key, 1, &row, LONG_US, &err), 0);
	CHECK_INT(star_pull(b.table, &key, 1, &row, 0, LONG_US, &err), 0);
	CHECK_INT(star_push(b.table, &key, 1, &row, LONG_US, &err), 0);
	CHECK_UINT(peer_last_op(b.peer).version, 0);
	CHECK_UINT(peer_last_op(b.peer).flags & WIRE_PULLED, 0);
	bench_stop(&b);
}

void gradients_are_clipped_by_their_norm(void)
{
	const uint64_t shape[] = { 3 }, keys[] = { 7, 8, 7 };
	struct bench b = bench_start(1, 1, 2);
	struct star_table *v = make(&b, (struct star_spec){ .name = "v", .ndim = 1, .shape = shape }, true);
	float sparse[] = { 1, 0, 2, 0, 2, 1 }, dense[] = { 2, 0, 4 }, pulled[6]; /* sums: 3, 1 and 2, 0 */
	struct star_op ops[] = {
		{ .kind = STAR_PUSH, .table = b.table, .keys = keys, .count = 3, .values = sparse },
		{ .kind = STAR_PULL, .table = b.table, .keys = keys, .count = 3, .values = pulled },
		{ .kind = STAR_PUSH, .flags = STAR_SCALE, .table = v, .values = dense, .scale = 0.5f }, /* 1, 0, 2 */
	};
	struct star_error err = { 0 };
	double norm = 0;

	/* 9 + 1 + 4 + 1 + 4 = 19 */
	CHECK_INT(star_clip_global_norm(ops, 3, 5, &norm, &err), 0);
	CHECK_NEAR(norm, sqrt(19), 1e-12);
	CHECK_NEAR(ops[0].scale, 0, 0);
	CHECK_UINT(ops[0].flags, 0);
	CHECK_NEAR(ops[2].scale, 0.5, 0);
	CHECK_INT(star_clip_global_norm(ops, 3, 2, NULL, &err), 0);
	CHECK_NEAR(ops[0].scale, 2 / sqrt(19), 1e-7);
	CHECK_UINT(ops[0].flags, STAR_SCALE);
	CHECK_NEAR(ops[1].scale, 0, 0);
	CHECK_NEAR(ops[2].scale, 1 / sqrt(19), 1e-7);
	CHECK_INT(star_clip_global_norm(ops, 3, 2, &norm, &err), 0);
	CHECK_NEAR(norm, 2, 1e-6); /* it is now: nothing changes any more */
	CHECK_INT(star_execute(b.cluster, ops, 3, LONG_US, &err), 0);
	dense[1] = NAN;
	ops[2].scale = 0;
	CHECK_INT(star_clip_global_norm(ops, 3, 1, &norm, &err), 0);
	CHECK(isnan(norm));
	CHECK_NEAR(ops[2].scale, 0, 0);
	ops[0].dtype = "float16";
	CHECK_INT(star_clip_global_norm(ops, 3, 1, &norm, &err), -EINVAL);
	CHECK_HAS(err.text, "the norm is that of float32 gradients, not of float16");
	CHECK_INT(star_clip_global_norm(ops, 3, 0, &norm, &err), -EINVAL);
	CHECK_INT(star_clip_global_norm(ops, 3, NAN, &norm, &err), -EINVAL);
	CHECK_INT(star_clip_global_norm(NULL, 3, 1, &norm, &err), -EINVAL);
	ops[0].keys = NULL;
	CHECK_INT(star_clip_global_norm(ops, 3, 1, &norm, &err), -EINVAL);
	bench_stop(&b);
}

void sizes_are_told(void)
{
	const uint64_t shape[] = { 2501 };
	struct bench b = bench_start(1, 1, 7);
	struct star_table *v =
		make(&b, (struct star_spec){ .name = "v", .ndim = 1, .shape = shape, .dtype = "float16" }, true);
	char *values = malloc(star_bytes(v, "scaled_int8") + 1);

	CHECK_UINT(star_blocks(b.table), 0);
	CHECK_UINT(star_blocks(v), 3);
	CHECK_UINT(star_blocks(NULL), 0);
	CHECK_UINT(star_reactors(b.cluster), 1);
	CHECK_UINT(star_reactors(NULL), 0);
	CHECK_UINT(star_bytes(b.table, NULL), 28);
	CHECK_UINT(star_bytes(b.table, "scaled_int8"), 12);
	CHECK_UINT(star_bytes(b.table, "int7"), 0);
	CHECK_UINT(star_bytes(v, NULL), 5002);
	CHECK_UINT(star_bytes(v, "float64"), 20008);
	CHECK_UINT(star_bytes(v, "scaled_int8"), 2 * 1028 + 4 + 456);
	CHECK_UINT(star_bytes(NULL, NULL), 0);
	/* That is what is written, and no more. */
	memset(values, 0x55, star_bytes(v, "scaled_int8"));
	values[star_bytes(v, "scaled_int8")] = 0x77;
	run(&b, (struct star_op){ .kind = STAR_PULL, .table = v, .values = values, .dtype = "scaled_int8" });
	CHECK_INT(values[star_bytes(v, "scaled_int8")], 0x77);
	CHECK_MEM(values + 2 * 1028 + 4 + 453, "\0\0\0",
		  3); /* the padding of 453 elements, whatever the block has there */
	free(values);
	bench_stop(&b);
}

void nonsense_about_types_and_variables_is_refused(void)
{
	const uint64_t shape[] = { 10 }, odd_shape[] = { 2, 1500 };
	struct bench b = bench_start(1, 2, 2);
	struct star_table *variable = make(&b, (struct star_spec){ .name = "bias", .ndim = 1, .shape = shape }, true);
	struct star_table *numbers =
		make(&b, (struct star_spec){ .name = "numbers", .dim = 2, .dtype = "int32" }, false);
	struct star_table *odd = make(&b, (struct star_spec){ .name = "odd", .ndim = 2, .shape = odd_shape }, true);
	struct star_table *lamb =
		make(&b,
		     (struct star_spec){
			     .name = "lamb", .ndim = 1, .shape = shape, .optimizer = "lamb", .options = "whole=1" },
		     true);
	uint64_t keys[2] = { 1, 2 }, far[2] = { 9, 10 };
	uint32_t versions[2] = { 0 };
	float v[20] = { 0 };
	const struct {
		struct star_op op;
		const char *says;
	} cases[] = {
		{ OP(STAR_PULL, 0, variable, far, 2, 0, v),
		  "variable \"bias\" has 10 rows in its first dimension, the operation names row 10" },
		{ OP(STAR_PULL, 0, variable, keys, 2, 0, v, .versions = versions),
		  "are those of its blocks, not of rows" },
		{ OP(STAR_PULL, 0, b.table, keys, 2, 0, v, .versions = versions), "have no versions: create it with" },
		{ OP(STAR_PUSH, 0, variable, NULL, 0, 0, v, .versions = versions), "has versions: only a pull may" },
		{ OP(STAR_DELETE, 0, variable, keys, 2, 0, NULL), "is a variable: its rows cannot be deleted" },
		{ OP(STAR_DELETE, 0, b.table, keys, 2, 0, v), "values is not NULL, and a delete has none" },
		{ OP(STAR_PUSH_PULL, 0, b.table, keys, 2, 0, v), "results is NULL" },
		{ OP(STAR_PULL, 0, b.table, keys, 2, 0, v, .results = v), "results is not NULL, and only a push_pull" },
		{ OP(STAR_PULL, 0, b.table, keys, 2, 0, v, .dtype = "float"), "there is no element type \"float\"" },
		{ OP(STAR_PULL, 0, b.table, keys, 2, 0, v, .dtype = "int8"),
		  "float32, which is not converted to int8" },
		{ OP(STAR_PUSH, 0, b.table, keys, 2, 0, v, .dtype = "int64"), "is not converted from int64" },
		{ OP(STAR_PUSH, STAR_SCALE, b.table, keys, 2, 0, v, .scale = INFINITY), "the scale is inf" },
		{ OP(STAR_PUSH, 0, b.table, keys, 2, 0.5f, v), "has a rate of 0.5, and its flags lack STAR_RATE" },
		{ OP(STAR_PUSH, STAR_RATE, b.table, keys, 2, 0, v, .scale = 2),
		  "has a scale of 2, and its flags lack STAR_SCALE: without it gradients are not scaled" },
		{ OP(STAR_PULL, STAR_RATE, b.table, keys, 2, 0, v), "flags are 0x10; a pull may have STAR_READ_ONLY" },
		{ OP(STAR_PULL, 0, b.table, keys, 2, 0, v, .scale = 2), "has a rate or a scale, but is not a push" },
		{ OP(STAR_PUSH, 0, numbers, keys, 2, 0, v),
		  "has no optimizer (element type int32), and takes no pushes" },
		{ OP(STAR_PUSH, 0, lamb, keys, 2, 0, v), "works on the whole tensor: push all of it, not rows" },
		{ OP(STAR_ASSIGN, 0, b.table, keys, 2, 0.5f, v), "has a rate or a scale, but is not a push" },
		{ OP(STAR_ASSIGN, 0, b.table, keys, 2, 0, v, .dtype = "int64"), "is not converted from int64" },
		{ OP(STAR_ASSIGN, 0, variable, keys, 2, 0, v), "share blocks of 10 elements: assign all of it" },
		{ OP(STAR_PULL, 0, odd, keys, 1, 0, v),
		  "has rows of 1500 elements, which are cut across its blocks of 1024" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		refuse_op(&b, cases[i].op, cases[i].says);
	CHECK_UINT(peer_requests(b.peer), 0);
	bench_stop(&b);
}

/* A handle drops its own table, and not one that has its name, its definition and its id now. */
void tables_are_dropped(void)
{
	struct bench b = bench_start(1, 1, 4);
	struct star_error err = { 0 };

	CHECK_INT(star_table_drop(NULL, LONG_US, &err), -EINVAL);
	CHECK_INT(star_table_drop(b.table, LONG_US, &err), 0);
	CHECK_UINT(b.peer->dropped, 1);
	b.peer->objects[0].generation = 1;
	CHECK_INT(star_table_drop(b.table, LONG_US, &err), -ENOENT);
	CHECK_HAS(err.text, "is another table by now");
	CHECK_INT(star_table_drop(b.table, LONG_US, NULL), -ENOENT);
	CHECK_UINT(b.peer->dropped, 1);
	b.peer->objects[0].generation = 0;
	CHECK(pull_works(&b));
	bench_stop(&b);
}

void tables_are_emptied(void)
{
	struct bench b = bench_start(1, 1, 4);
	struct star_error err = { 0 };

	b.peer->empty_left = 3;
	CHECK_INT(star_table_empty(b.table, LONG_US, &err), 0);
	CHECK_UINT(b.peer->empty_asked, 4);
	CHECK_UINT(b.peer->empty_left, 0);
	CHECK_INT(star_table_empty(NULL, LONG_US, &err), -EINVAL);
	CHECK_INT(star_table_empty(b.table, LONG_US, NULL), 0);
	/* Never a later table of the name. */
	b.peer->objects[0].generation = 1;
	CHECK_INT(star_table_empty(b.table, LONG_US, &err), -ENOENT);
	CHECK_UINT(b.peer->empty_asked, 5);
	b.peer->objects[0].generation = 0;
	b.peer->empty_left = 3;
	b.peer->empty_restart = b.peer->empty_asked + 2;
	CHECK_INT(star_table_empty(b.table, LONG_US, &err), -ESTALE);
	CHECK_HAS(err.text, "a PS task was restarted");
	/* A deadline ends the waiting. */
	b.peer->empty_left = 100000;
	CHECK_INT(star_table_empty(b.table, 500000, &err), -ETIMEDOUT);
	CHECK_HAS(err.text, "\"words\" is not empty yet: the nodes continue");
	CHECK(pull_works(&b));
	bench_stop(&b);
}
