/* SPDX-License-Identifier: BSD-3-Clause */
/* What a call sends and returns while all nodes are well. */
#include "tests/client/cases.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/prng.h"

static void check_rows(const uint64_t *keys, uint32_t count, uint32_t dim, const float *rows, const float *minus)
{
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t e = 0; e < dim; e++) {
			const float expected = peer_initial(1, keys[i], e) - (minus ? minus[i] : 0);

			if (!CHECK_NEAR(rows[i * dim + e], expected, 1e-3))
				return;
		}
}

static void over_reactors(uint32_t nodes, uint32_t reactors, uint32_t dim)
{
	enum { KEYS = 1000 };
	struct bench b = bench_start(nodes, reactors, dim);
	uint64_t keys[KEYS] = { 0, UINT64_MAX, 1, (uint64_t)INT64_MIN };
	float *rows = calloc(KEYS * dim, sizeof(*rows)), minus[KEYS], applied_value;
	struct star_error err = { 0 };
	uint32_t applied;
	struct prng p;

	prng_seed(&p, 5);
	for (uint32_t i = 4; i < KEYS; i++)
		keys[i] = i % 3 ? i : prng_next(&p);
	keys[KEYS - 1] = keys[10]; /* duplicates, far apart */
	keys[KEYS - 2] = keys[11];
	CHECK_INT(star_pull(b.table, keys, KEYS, rows, 0, LONG_US, &err), 0);
	check_rows(keys, KEYS, dim, rows, NULL);
	CHECK_UINT(peer_requests(b.peer), nodes * reactors);
	for (uint32_t i = 0; i < KEYS; i++) {
		minus[i] = (float)(i % 7);
		for (uint32_t e = 0; e < dim; e++)
			rows[i * dim + e] = minus[i];
	}
	minus[10] = minus[KEYS - 1] = minus[10] + minus[KEYS - 1];
	minus[11] = minus[KEYS - 2] = minus[11] + minus[KEYS - 2];
	CHECK_INT(star_push(b.table, keys, KEYS, rows, LONG_US, &err), 0);
	CHECK_INT(star_pull(b.table, keys, KEYS, rows, STAR_READ_ONLY, LONG_US, &err), 0);
	check_rows(keys, KEYS, dim, rows, minus);
	if (CHECK(peer_find(b.peer, 1, keys[10], &applied, &applied_value)))
		CHECK_UINT(applied, 1);
	CHECK_UINT(peer_connections(b.peer), nodes * reactors);
	CHECK_UINT(star_elements(b.table), dim);
	free(rows);
	bench_stop(&b);
}

/* A request that has left in part stays what it was when a longer one behind it needs a longer buffer. */
void a_longer_request_leaves_the_one_before_as_it_was(void)
{
	enum { PUSHES = 48, MORE = 5, LONGEST = MORE * PUSHES, WIDE = 1000 };
	struct bench b = bench_start(1, 1, WIDE);
	float *rows = calloc(LONGEST * WIDE, sizeof(*rows)), row[WIDE];
	struct star_request *requests[PUSHES];
	struct star_error err = { 0 };
	uint64_t keys[LONGEST];

	for (uint32_t i = 0; i < LONGEST; i++)
		keys[i] = i;
	CHECK_INT(star_pull(b.table, keys, 1, row, 0, LONG_US, &err), 0);
	/* The peer reads nothing while it holds its answer back: what does not fit into the sockets' buffers stays
	 * here. */
	peer_misbehave(b.peer, FAULT_HOLD, 0, 1);
	for (uint32_t i = 0; i < PUSHES; i++) {
		const struct star_op op = {
			.kind = STAR_PUSH, .table = b.table, .keys = keys, .count = MORE * (i + 1), .values = rows
		};

		requests[i] = star_execute_async(b.cluster, &op, 1, LONG_US, NULL, NULL, &err);
		if (!CHECK(requests[i] != NULL))
			break;
		usleep(2000);
	}
	peer_open_gate(b.peer);
	for (uint32_t i = 0; i < PUSHES && requests[i]; i++)
		CHECK_INT(star_request_wait(requests[i], &err), 0);
	CHECK_UINT(peer_connections(b.peer), 1);
	free(rows);
	bench_stop(&b);
}

void pull_and_push_over_reactors(void)
{
	over_reactors(1, 1, 4);
	over_reactors(1, 2, 3);
	over_reactors(1, 7, 1);
	over_reactors(2, 3, 16);
	over_reactors(4, 1, 5);
}

void one_frame_a_reactor_carries_all_operations(void)
{
	struct bench b = bench_start(2, 1, 4);
	struct star_table *other = bench_table(&b, "contexts", 3);
	uint64_t keys[200];
	float gradients[200 * 4], rows[200 * 4], others[200 * 3];
	struct star_op ops[] = {
		{ .kind = STAR_PUSH, .table = b.table, .keys = keys, .count = 200, .values = gradients },
		{ .kind = STAR_PULL, .table = b.table, .keys = keys, .count = 200, .values = rows },
		{ .kind = STAR_PULL, .table = other, .keys = keys, .count = 100, .values = others },
	};
	struct star_error err = { 0 };

	for (uint32_t i = 0; i < 200; i++)
		keys[i] = 1000 + i;
	for (uint32_t i = 0; i < 200 * 4; i++)
		gradients[i] = 2;
	CHECK_INT(star_execute(b.cluster, ops, 3, LONG_US, &err), 0);
	CHECK_UINT(peer_requests(b.peer), 2);
	for (uint32_t i = 0; i < 200; i++)
		CHECK_NEAR(rows[i * 4], peer_initial(1, keys[i], 0) - 2, 1e-3);
	for (uint32_t i = 0; i < 100; i++)
		CHECK_NEAR(others[i * 3 + 2], peer_initial(2, keys[i], 2), 0);
	bench_stop(&b);
}

void fields_of_an_operation_arrive(void)
{
	struct bench b = bench_start(1, 1, 2);
	uint64_t key = 5;
	float row[2] = { 1, 1 };
	struct star_op push = {
		.kind = STAR_PUSH,
		.flags = STAR_RATE,
		.table = b.table,
		.keys = &key,
		.count = 1,
		.values = row,
		.rate = 0.25f,
		.step = 77,
	};
	struct star_error err = { 0 };

	CHECK_INT(star_execute(b.cluster, &push, 1, LONG_US, &err), 0);
	CHECK_NEAR(peer_last_op(b.peer).rate, 0.25, 0);
	CHECK_UINT(peer_last_op(b.peer).step, 77);
	CHECK_UINT(peer_last_op(b.peer).flags, WIRE_RATE);
	push.flags = STAR_RATE | STAR_SCALE; /* zeros that are meant */
	push.rate = 0;
	CHECK_INT(star_execute(b.cluster, &push, 1, LONG_US, &err), 0);
	CHECK_NEAR(peer_last_op(b.peer).rate, 0, 0);
	CHECK_NEAR(peer_last_op(b.peer).scale, 0, 0);
	CHECK_UINT(peer_last_op(b.peer).flags, WIRE_RATE | WIRE_SCALE);
	CHECK_INT(star_pull(b.table, &key, 1, row, STAR_READ_ONLY, UINT64_MAX, &err), 0);
	CHECK_UINT(peer_last_op(b.peer).flags, WIRE_READ_ONLY);
	CHECK_INT(star_pull(b.table, &key, 1, row, 0, 0, NULL), 0);
	CHECK_UINT(peer_last_op(b.peer).flags, 0);
	bench_stop(&b);
}

void large_pulls_are_split(void)
{
	enum { KEYS = 200000, DIM = 2 };
	struct bench b = bench_start(1, 2, DIM);
	uint64_t *keys = calloc(KEYS, sizeof(*keys));
	float *rows = calloc(KEYS * DIM, sizeof(*rows));
	struct star_error err = { 0 };

	for (uint64_t i = 0; i < KEYS; i++)
		keys[i] = i % 70000; /* a pull may name a key twice, and be cut between */
	CHECK_INT(star_pull(b.table, keys, KEYS, rows, 0, LONG_US, &err), 0);
	check_rows(keys, KEYS, DIM, rows, NULL);
	/* 100000 keys a reactor, 64 KiB of rows a request: 8192; over DPDK half of that */
	CHECK_UINT(peer_requests(b.peer), b.peer->datagrams ? 50 : 26);
	bench_stop(&b);
	/* and by the size of the reply */
	b = bench_start(1, 1, 4096);
	free(rows);
	rows = calloc(600 * 4096, sizeof(*rows));
	CHECK_INT(star_pull(b.table, keys, 600, rows, 0, LONG_US, &err), 0);
	check_rows(keys, 600, 4096, rows, NULL);
	CHECK_UINT(peer_requests(b.peer), b.peer->datagrams ? 300 : 150);
	bench_stop(&b);
	free(keys);
	free(rows);
}

void many_operations_are_split(void)
{
	enum { OPS = 150 };
	struct bench b = bench_start(1, 1, 1);
	struct star_op ops[OPS];
	uint64_t keys[OPS];
	float values[OPS];
	struct star_error err = { 0 };

	for (uint32_t i = 0; i < OPS; i++) {
		keys[i] = i;
		ops[i] = (struct star_op){
			.kind = STAR_PULL, .table = b.table, .keys = &keys[i], .count = 1, .values = &values[i]
		};
	}
	CHECK_INT(star_execute(b.cluster, ops, OPS, LONG_US, &err), 0);
	CHECK_UINT(peer_requests(b.peer), 3); /* 64 a request */
	check_rows(keys, OPS, 1, values, NULL);
	bench_stop(&b);
}

void duplicates_are_summed_in_large_pushes(void)
{
	enum { UNIQUE = 9000, EACH = 4, KEYS = UNIQUE * EACH, DIM = 64 };

	for (uint32_t reactors = 1; reactors <= 2; reactors++) {
		struct bench b = bench_start(1, reactors, DIM);
		uint64_t *keys = calloc(KEYS, sizeof(*keys));
		float *rows = malloc(sizeof(float) * KEYS * DIM), first;
		struct star_error err = { 0 };
		uint32_t applied, wrong = 0;

		for (uint32_t i = 0; i < KEYS; i++)
			keys[i] = i % UNIQUE; /* the four are far apart: a plain cut would part them */
		for (uint32_t i = 0; i < KEYS * DIM; i++)
			rows[i] = 0.5f;
		CHECK_INT(star_push(b.table, keys, KEYS, rows, LONG_US, &err), 0);
		CHECK(peer_requests(b.peer) > reactors); /* it was cut */
		CHECK(peer_largest_request(b.peer) <= WIRE_PAYLOAD_DEFAULT);
		for (uint64_t key = 0; key < UNIQUE; key += 7) {
			if (!CHECK(peer_find(b.peer, 1, key, &applied, &first)))
				break;
			wrong += applied != 1 || first != peer_initial(1, key, 0) - 0.5f - 0.5f - 0.5f - 0.5f;
		}
		CHECK_UINT(wrong, 0);
		free(keys);
		free(rows);
		bench_stop(&b);
	}
}

/* A request of exactly what the nodes take, and one of a gradient more: its head, and a key with each gradient. */
void a_request_is_as_large_as_the_limit(void)
{
	enum { LIMIT = 4 << 20 };
	static const uint32_t dims[] = { 20, 909, 3896 };
	struct star_error err = { 0 };

	for (unsigned i = 0; i < sizeof(dims) / sizeof(dims[0]); i++) {
		const uint32_t fit = (LIMIT - (uint32_t)sizeof(struct wire_op)) / (8 + 4 * dims[i]);
		struct bench b = bench_start(1, 1, dims[i]);
		uint64_t *keys = calloc(fit + 1, sizeof(*keys));
		float *rows = calloc((size_t)(fit + 1) * dims[i], sizeof(*rows));

		CHECK(LIMIT - sizeof(struct wire_op) - (size_t)fit * (8 + 4 * dims[i]) < 14); /* or it shows nothing */
		CHECK_INT(star_push(b.table, keys, fit, rows, LONG_US, &err), 0);
		CHECK_UINT(peer_requests(b.peer), 1);
		CHECK_INT(star_push(b.table, keys, fit + 1, rows, LONG_US, &err), -E2BIG);
		CHECK_UINT(peer_requests(b.peer), 1);
		free(keys);
		free(rows);
		bench_stop(&b);
	}
}

void too_many_duplicates_are_refused(void)
{
	enum { KEYS = 300, DIM = 4096 };
	struct bench b = bench_start(1, 1, DIM);
	uint64_t *keys = calloc(KEYS, sizeof(*keys));
	float *rows = calloc(KEYS * DIM, sizeof(*rows));
	struct star_error err = { 0 };

	CHECK_INT(star_push(b.table, keys, KEYS, rows, LONG_US, &err), -E2BIG);
	CHECK_HAS(err.text, "key 0 occurs more than 255 times");
	CHECK_UINT(peer_requests(b.peer), 0);
	keys[200] = 1; /* no group is too large now: a request ends between them */
	for (uint32_t i = 201; i < KEYS; i++)
		keys[i] = 1;
	CHECK_INT(star_push(b.table, keys, KEYS, rows, LONG_US, &err), 0);
	CHECK_UINT(peer_requests(b.peer), 2);
	free(keys);
	free(rows);
	bench_stop(&b);
}

void refuse_op(struct bench *b, struct star_op op, const char *says)
{
	struct star_error err = { 0 };

	CHECK_INT(star_execute(b->cluster, &op, 1, LONG_US, &err), -EINVAL);
	CHECK_HAS(err.text, says);
	CHECK(!star_execute_async(b->cluster, &op, 1, LONG_US, NULL, NULL, &err));
	CHECK_HAS(err.text, says);
	CHECK_INT(star_execute(b->cluster, &op, 1, LONG_US, NULL), -EINVAL);
}

void nonsense_is_refused_before_it_is_sent(void)
{
	struct bench b = bench_start(1, 2, 2), other = bench_start(1, 1, 2);
	struct star_error err = { 0 };
	uint64_t keys[2] = { 1, 2 };
	float v[20] = { 0 };
	const struct {
		struct star_op op;
		const char *says;
	} cases[] = {
		{ OP(0, 0, b.table, keys, 2, 0, v), "not one of STAR_PULL, STAR_PUSH, STAR_PUSH_PULL, STAR_DELETE, "
						    "STAR_ASSIGN, STAR_RUN and STAR_COMMIT" },
		{ OP(8, 0, b.table, keys, 2, 0, v), "its kind is 8" },
		{ OP(STAR_RUN, 0, b.table, keys, 2, 0, v), "run is NULL" },
		{ OP(STAR_PULL, 0, NULL, keys, 2, 0, v), "table is NULL" },
		{ OP(STAR_PULL, 0, other.table, keys, 2, 0, v), "another cluster" },
		{ OP(STAR_PULL, 0, b.table, keys, 0, 0, v), "names no keys" },
		{ OP(STAR_PUSH, 0, b.table, NULL, 0, 0, v), "names no keys" },
		{ OP(STAR_PULL, 0, b.table, NULL, 2, 0, v), "has a count, but its keys are NULL" },
		{ OP(STAR_PULL, 0, b.table, keys, 0, 0, v), "its count is 0" },
		{ OP(STAR_PULL, 0, b.table, keys, 2, 0, NULL), "values is NULL" },
		{ OP(STAR_PULL, 2, b.table, keys, 2, 0, v), "flags are 0x2" },
		{ OP(STAR_PUSH, STAR_READ_ONLY, b.table, keys, 2, 0, v), "a pull may have STAR_READ_ONLY" },
		{ OP(STAR_PUSH, 0, b.table, keys, 2, -1, v), "learning rate is -1" },
		{ OP(STAR_PUSH, 0, b.table, keys, 2, NAN, v), "learning rate is nan" },
	};
	struct star_op op = cases[0].op, *ops = calloc(STAR_OPS_MAX + 1, sizeof(*ops));

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		refuse_op(&b, cases[i].op, cases[i].says);
	CHECK_INT(star_execute(b.cluster, NULL, 1, LONG_US, &err), -EINVAL);
	CHECK_INT(star_execute(b.cluster, &op, 0, LONG_US, &err), -EINVAL);
	CHECK_HAS(err.text, "at least one operation");
	CHECK_INT(star_execute(NULL, &op, 1, LONG_US, &err), -EINVAL);
	CHECK_INT(star_execute(b.cluster, ops, STAR_OPS_MAX + 1, LONG_US, &err), -E2BIG);
	CHECK_HAS(err.text, "at most 4096");
	CHECK_INT(star_pull(NULL, keys, 2, v, 0, LONG_US, &err), -EINVAL);
	CHECK_INT(star_push(NULL, keys, 2, v, LONG_US, &err), -EINVAL);
	CHECK_INT(star_variable_pull(b.table, v, LONG_US, &err), -EINVAL);
	CHECK_INT(star_request_wait(NULL, &err), -EINVAL);
	CHECK_UINT(star_elements(NULL), 0);
	star_close(NULL);
	CHECK_UINT(peer_requests(b.peer), 0);
	free(ops);
	bench_stop(&other);
	bench_stop(&b);
}

static void one_shape(struct bench *b, const char *name, uint32_t ndim, const uint64_t *shape)
{
	const struct star_spec spec = { .name = name, .ndim = ndim, .shape = shape };
	struct star_error err = { 0 };
	struct star_table *v = star_variable_create(b->cluster, &spec, LONG_US, &err);
	const struct object_spec *object = &b->peer->objects[b->peer->objects_count - 1];
	uint64_t elements = 1;
	float *values;

	for (uint32_t i = 0; i < ndim; i++)
		elements *= shape[i];
	if (!v) {
		unit_fail(__FILE__, __LINE__, "%s", err.text);
		return;
	}
	CHECK_UINT(star_elements(v), elements);
	values = malloc((elements + 1) * sizeof(*values)); /* exact but for one guard: ASan sees the rest */
	values[elements] = -77;
	CHECK_INT(star_variable_pull(v, values, LONG_US, &err), 0);
	for (uint64_t i = 0; i < elements; i++)
		if (!CHECK_NEAR(values[i], peer_initial(object->id, i / object->dim, (uint32_t)(i % object->dim)), 0))
			break;
	for (uint64_t i = 0; i < elements; i++)
		values[i] = (float)(i % 13);
	CHECK_INT(star_variable_push(v, values, LONG_US, &err), 0);
	CHECK_INT(star_variable_pull(v, values, LONG_US, &err), 0);
	for (uint64_t i = 0; i < elements; i++)
		if (!CHECK_NEAR(values[i],
				peer_initial(object->id, i / object->dim, (uint32_t)(i % object->dim)) -
					(float)(i % 13),
				0))
			break;
	CHECK_NEAR(values[elements], -77, 0);
	free(values);
}

void variables_of_odd_shapes(void)
{
	static const struct {
		uint32_t ndim;
		uint64_t shape[8];
	} shapes[] = {
		{ 1, { 1 } },
		{ 1, { 5 } },
		{ 1, { 1024 } },
		{ 1, { 1025 } },
		{ 1, { 2047 } },
		{ 2, { 3, 700 } },
		{ 2, { 2, 1500 } },
		{ 3, { 7, 13, 11 } },
		{ 2, { 9, 1 } },
		{ 1, { 100003 } },
		{ 8, { 2, 1, 3, 1, 2, 1, 5, 17 } },
	};

	for (uint32_t reactors = 1; reactors <= 3; reactors += 2) {
		struct bench b = bench_start(1, reactors, 1);

		for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
			char name[32];

			snprintf(name, sizeof(name), "variable %zu", i);
			one_shape(&b, name, shapes[i].ndim, shapes[i].shape);
		}
		/* The largest has 98 blocks: a push takes 16 of them, since they are less than 1 MiB; ... */
		if (reactors == 1)
			CHECK_UINT(peer_largest_request(b.peer),
				   sizeof(struct wire_op) + 16 * (sizeof(uint64_t) + 4096));
		/* ... of 260, 64, so many that the node's caches hold them. */
		one_shape(&b, "large", 1, (uint64_t[]){ 266003 });
		if (reactors == 1)
			CHECK_UINT(peer_largest_request(b.peer),
				   sizeof(struct wire_op) + 64 * (sizeof(uint64_t) + 4096));
		bench_stop(&b);
	}
}

void tables_are_created_and_found(void)
{
	struct bench b = bench_start(2, 1, 8);
	struct star_spec spec = { .name = "words", .dim = 8 };
	struct star_error err = { 0 };

	CHECK(star_table_create(b.cluster, &spec, LONG_US, &err) == b.table);
	CHECK(star_lookup(b.cluster, "words", LONG_US, &err) == b.table);
	CHECK(star_lookup(b.cluster, "words", 0, NULL) == b.table);
	spec.dim = 9;
	CHECK(!star_table_create(b.cluster, &spec, LONG_US, &err));
	CHECK_INT(err.code, -EEXIST);
	CHECK_HAS(err.text, "\"words\" exists with another dim");
	CHECK(!star_lookup(b.cluster, "sentences", LONG_US, &err));
	CHECK_INT(err.code, -ENOENT);
	CHECK_HAS(err.text, "sentences");
	CHECK_UINT(b.peer->objects_count, 1);
	CHECK_NEAR(b.peer->objects[0].optim.rate, 0.01f, 0);
	bench_stop(&b);
}

void bad_definitions_are_refused(void)
{
	struct bench b = bench_start(1, 1, 1);
	char longer[200];
	const uint64_t shape[9] = { 1, 0, 1, 1, 1, 1, 1, 1, 1 }, huge[] = { UINT64_C(1) << 40 };
	const struct {
		struct star_spec spec;
		bool variable;
		const char *says;
	} cases[] = {
		{ { .name = NULL, .dim = 1 }, false, "1 to 127 bytes" },
		{ { .name = "", .dim = 1 }, false, "1 to 127 bytes" },
		{ { .name = longer, .dim = 1 }, false, "1 to 127 bytes" },
		{ { .name = "a\nb", .dim = 1 }, false, "control character" },
		{ { .name = "t\xff", .dim = 1 }, false, "UTF-8" },
		{ { .name = "t" }, false, "dim is 0" },
		{ { .name = "t", .dim = 4097 }, false, "dim is 4097" },
		{ { .name = "t", .dim = 1, .dtype = "int7" },
		  false,
		  "\"t\": there is no element type \"int7\"; possible values are float32, " },
		{ { .name = "t", .dim = 1, .initializer = "twos" },
		  false,
		  "\"t\": there is no initializer \"twos\"; possible values are zeros, " },
		{ { .name = "t", .dim = 1, .optimizer = "magic" },
		  false,
		  "\"t\": there is no optimizer \"magic\"; possible values are sgd, " },
		{ { .name = "t", .dim = 1, .rate = INFINITY }, false, "rate of optimizer sgd is inf" },
		{ { .name = "t", .dim = 1, .scale = 1 }, false, "scale=1 needs initializer" },
		{ { .name = "t", .dim = 1, .dtype = "int8", .optimizer = "adam" },
		  false,
		  "optimizer adam does not support element type int8" },
		{ { .name = "t", .dim = 1, .options = "beta1=0.5" },
		  false,
		  "beta1 is 0.5, but optimizer sgd does not use" },
		{ { .name = "t", .dim = 1, .options = "filtr=bloom" },
		  false,
		  "\"t\": there is no option \"filtr\"; did you mean \"filter\"?" },
		{ { .name = "v", .ndim = 1, .shape = huge },
		  true,
		  "1099511627776 elements: at most 2^38 are possible" },
		{ { .name = "v" }, true, "0 dimensions" },
		{ { .name = "v", .ndim = 1 }, true, "shape is NULL" },
		{ { .name = "v", .ndim = 2, .shape = shape }, true, "dimension 1" },
		{ { .name = "v", .ndim = 9, .shape = shape }, true, "9 dimensions" },
	};
	struct star_error err;

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		err = (struct star_error){ 0 };
		CHECK(!(cases[i].variable ? star_variable_create : star_table_create)(b.cluster, &cases[i].spec,
										      LONG_US, &err));
		CHECK_INT(err.code, -EINVAL);
		CHECK_HAS(err.text, cases[i].says);
	}
	CHECK(!star_table_create(b.cluster, NULL, LONG_US, &err));
	CHECK_INT(err.code, -EINVAL);
	CHECK(!star_table_create(NULL, &cases[0].spec, LONG_US, NULL));
	CHECK(!star_lookup(b.cluster, NULL, LONG_US, &err));
	CHECK(!star_lookup(b.cluster, longer, LONG_US, &err));
	CHECK_INT(err.code, -EINVAL);
	bench_stop(&b);
}

void shared_library_exports_the_api_only(void)
{
	static const char *const api[] = {
		"star_open",	 "star_close",	       "star_table_create",	"star_variable_create", "star_lookup",
		"star_elements", "star_execute",       "star_execute_async",	"star_request_wait",	"star_pull",
		"star_push",	 "star_variable_pull", "star_variable_push",	"star_error_set",	"star_blocks",
		"star_reactors", "star_bytes",	       "star_clip_global_norm",
	};
	static const char *const inside[] = { "client_channel_submit", "client_waiter_turn", "jsonrpc_call",
					      "base_crc32", "config_load" };
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	void *library;

	path[n < 0 ? 0 : n] = 0;
	for (int up = 0; up < 3 && strrchr(path, '/'); up++)
		*strrchr(path, '/') = 0;
	strncat(path, "/lib/libstar.so", sizeof(path) - strlen(path) - 1);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		unit_fail(__FILE__, __LINE__, "%s", dlerror());
		return;
	}
	for (size_t i = 0; i < sizeof(api) / sizeof(api[0]); i++)
		if (!dlsym(library, api[i]))
			unit_fail(__FILE__, __LINE__, "libstar.so does not export %s", api[i]);
	for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++)
		if (dlsym(library, inside[i]))
			unit_fail(__FILE__, __LINE__, "libstar.so exports %s", inside[i]);
	dlclose(library);
}

static void check_same(int line, struct star_op made, struct star_op expected)
{
	if (made.kind != expected.kind || made.flags != expected.flags || made.table != expected.table ||
	    made.keys != expected.keys || made.count != expected.count || made.values != expected.values ||
	    made.results != expected.results || made.view != expected.view || made.run != expected.run ||
	    made.tag != expected.tag || made.rate != 0 || made.scale != 0 || made.step != 0 || made.dtype ||
	    made.versions)
		unit_fail(__FILE__, line, "the constructor has made another operation of kind %d", (int)made.kind);
}

/* What a constructor makes is what the header says of its kind, and nothing else; and an execution takes each of
 * them. */
void operations_have_constructors(void)
{
	struct bench b = bench_start(1, 1, 1);
	const uint64_t keys[] = { 5, 6 };
	float rows[2] = { 0 }, given[2] = { 1, 2 };
	struct star_table *t = b.table;
	struct star_view *view = NULL;
	struct star_run *run = (struct star_run *)(void *)rows; /* which nobody looks at */
	struct star_error err;
	struct star_op op;

	check_same(__LINE__, star_op_pull(t, keys, 2, rows),
		   (struct star_op){ .kind = STAR_PULL, .table = t, .keys = keys, .count = 2, .values = rows });
	check_same(__LINE__, star_op_pull_view(t, keys, 2, &view),
		   (struct star_op){ .kind = STAR_PULL, .table = t, .keys = keys, .count = 2, .view = &view });
	check_same(__LINE__, star_op_push(t, keys, 2, given),
		   (struct star_op){ .kind = STAR_PUSH, .table = t, .keys = keys, .count = 2, .values = given });
	check_same(__LINE__, star_op_accumulate(t, keys, 2, given, 7),
		   (struct star_op){ .kind = STAR_PUSH,
				     .flags = STAR_ACCUMULATE,
				     .table = t,
				     .keys = keys,
				     .count = 2,
				     .values = given,
				     .tag = 7 });
	check_same(__LINE__, star_op_push_pull(t, keys, 2, given, rows),
		   (struct star_op){ .kind = STAR_PUSH_PULL,
				     .table = t,
				     .keys = keys,
				     .count = 2,
				     .values = given,
				     .results = rows });
	check_same(__LINE__, star_op_delete(t, keys, 2),
		   (struct star_op){ .kind = STAR_DELETE, .table = t, .keys = keys, .count = 2 });
	check_same(__LINE__, star_op_assign(t, keys, 2, given),
		   (struct star_op){ .kind = STAR_ASSIGN, .table = t, .keys = keys, .count = 2, .values = given });
	check_same(__LINE__, star_op_commit(t, 7), (struct star_op){ .kind = STAR_COMMIT, .table = t, .tag = 7 });
	check_same(__LINE__, star_op_run(run), (struct star_op){ .kind = STAR_RUN, .run = run });

	op = star_op_assign(t, keys, 2, given);
	CHECK_INT(star_execute(b.cluster, &op, 1, LONG_US, &err), 0);
	op = star_op_pull(t, keys, 2, rows);
	CHECK_INT(star_execute(b.cluster, &op, 1, LONG_US, &err), 0);
	CHECK_MEM(rows, given, sizeof(rows));
	op = star_op_pull(t, keys, 2, NULL);
	CHECK_INT(star_execute(b.cluster, &op, 1, LONG_US, &err), -EINVAL);
	CHECK_HAS(err.text, "values is NULL");
	bench_stop(&b);
}
