/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes in slices. */
#include "tests/store/cases.h"

#include <errno.h>
#include <stdlib.h>

#include "base/prng.h"
#include "optim/optim.h"
#include "store/push.h"

enum { DIM = 3 };

static struct store_push *open_push(uint32_t max_keys, uint32_t max_bytes)
{
	struct star_error err = { 0 };
	struct store_push *p = store_push_create(max_keys, max_bytes, &err);

	if (!p)
		unit_fail(__FILE__, __LINE__, "no push: %s", err.text);
	return p;
}

/* All keys of an operation, in slices of `slice`. */
static int add_keys(struct store_push *p, struct store_table *t, const uint64_t *keys, unsigned n, unsigned slice)
{
	int result = 0;

	for (unsigned i = 0; i < n && !result; i += slice)
		result = store_push_keys(p, t, keys + i, n - i < slice ? n - i : slice);
	return result;
}

static void add_rows(struct store_push *p, struct store_table *t, const float *gradients, uint32_t dim, unsigned n,
		     unsigned slice, float rate)
{
	const float *pointers[STORE_BATCH];

	for (unsigned i = 0; i < n; i += slice) {
		const unsigned count = n - i < slice ? n - i : slice;

		for (unsigned j = 0; j < count; j++)
			pointers[j] = gradients + (size_t)(i + j) * dim;
		store_push_rows(p, t, pointers, count, rate);
	}
}

void push_sums_duplicates_in_order(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", 1, OBJECT_SGD);
	struct store_push *p = open_push(64, 4096);
	/* 1 + 2^25 - 2^25 is 0 in float32, in any other order 1. */
	const uint64_t keys[] = { 5, 9, 5, 7, 5, 9 };
	const float gradients[] = { 1, 0.5f, 0x1p25f, 3, -0x1p25f, 0.25f };
	float before[3], after[3];

	for (unsigned slice = 1; slice <= 6; slice++) {
		for (unsigned i = 0; i < 3; i++)
			before[i] = *store_values(t, find_one(t, 5 + 2 * i, 1));
		store_push_begin(p);
		store_push_op(p, t, 6);
		CHECK_INT(add_keys(p, t, keys, 6, slice), 0);
		add_rows(p, t, gradients, 1, 6, 7 - slice, 1);
		for (unsigned i = 0; i < 3; i++)
			after[i] = *store_values(t, find_one(t, 5 + 2 * i, 0));
		CHECK_NEAR(after[0], before[0], 0);
		CHECK_NEAR(after[1], before[1] - 3.0f, 0);
		CHECK_NEAR(after[2], before[2] - 0.75f, 0);
	}
	store_push_destroy(p);
	fixture_close(&f);
}

void push_of_one_key_many_times(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", DIM, OBJECT_ADAGRAD),
			   *twin = table_of(&f, "twin", DIM, OBJECT_ADAGRAD);
	struct store_push *p = open_push(WIRE_KEYS_MAX, WIRE_PAYLOAD_MAX);
	uint64_t *keys = malloc(WIRE_KEYS_MAX * sizeof(*keys));
	float *gradients = malloc(WIRE_KEYS_MAX * DIM * sizeof(*gradients)), sum[DIM] = { 0 };
	const store_row row = find_one(t, 77, 1), twin_row = find_one(twin, 77, 1);
	struct prng r;

	prng_seed(&r, 8);
	for (unsigned i = 0; i < WIRE_KEYS_MAX; i++) {
		keys[i] = 77;
		for (unsigned e = 0; e < DIM; e++) {
			gradients[i * DIM + e] = (float)prng_unit(&r);
			sum[e] += gradients[i * DIM + e];
		}
	}
	memcpy((float *)(uintptr_t)store_values(twin, twin_row), store_values(t, row), DIM * sizeof(float));
	store_push_begin(p);
	store_push_op(p, t, WIRE_KEYS_MAX);
	CHECK_INT(add_keys(p, t, keys, WIRE_KEYS_MAX, STORE_BATCH), 0);
	add_rows(p, t, gradients, DIM, WIRE_KEYS_MAX, STORE_BATCH, 0);
	store_apply(twin, twin_row, sum, 0);
	CHECK_MEM(store_values(t, row), store_values(twin, twin_row), DIM * sizeof(float));
	CHECK_MEM(store_slots(t, row), store_slots(twin, twin_row), DIM * sizeof(float));
	CHECK_UINT(store_table_stats(t)->rows, 1);
	free(keys);
	free(gradients);
	store_push_destroy(p);
	fixture_close(&f);
}

void push_of_all_keys_twice_fills_the_sums(void)
{
	enum { KEYS = 512 };
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", DIM, OBJECT_SGD);
	struct store_push *p = open_push(KEYS, KEYS * DIM * sizeof(float));
	uint64_t keys[KEYS];
	float gradients[KEYS * DIM], initial[DIM];

	for (unsigned i = 0; i < KEYS; i++) {
		keys[i] = i % (KEYS / 2);
		for (unsigned e = 0; e < DIM; e++)
			gradients[i * DIM + e] = (float)i;
	}
	store_push_begin(p);
	store_push_op(p, t, KEYS);
	CHECK_INT(add_keys(p, t, keys, KEYS, STORE_BATCH), 0);
	add_rows(p, t, gradients, DIM, KEYS, STORE_BATCH, 1);
	for (uint64_t key = 0; key < KEYS / 2; key++) {
		store_initial(t, key, initial);
		CHECK_NEAR(store_values(t, find_one(t, key, 0))[1], initial[1] - (float)(2 * key + KEYS / 2), 0);
	}
	store_push_destroy(p);
	fixture_close(&f);
}

void operations_are_separate_pushes(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", 1, OBJECT_ADAGRAD), *u = table_of(&f, "u", 1, OBJECT_SGD);
	struct store_push *p = open_push(64, 4096);
	struct optim o;
	const uint64_t keys[] = { 1, 1, 2 };
	const float gradients[] = { 1, 2, 4 }, three = 3;
	float value, slot = 0.125f, u_value;

	CHECK_INT(optim_init(&o, OPTIM_ADAGRAD, 0, 1e-8f, 0, OPTIM_SCALAR), 0);
	store_initial(t, 1, &value);
	store_initial(u, 1, &u_value);
	for (unsigned i = 0; i < 2; i++)
		o.apply(&o, 0.5f, &value, &slot, &three, 1);
	store_push_begin(p);
	store_push_op(p, t, 3);
	CHECK_INT(add_keys(p, t, keys, 3, 2), 0);
	store_push_op(p, t, 3);
	CHECK_INT(add_keys(p, t, keys, 3, 3), 0);
	store_push_op(p, u, 2);
	CHECK_INT(add_keys(p, u, keys, 2, 2), 0);
	add_rows(p, t, gradients, 1, 3, 2, 0.5f);
	add_rows(p, t, gradients, 1, 3, 1, 0.5f);
	add_rows(p, u, gradients, 1, 2, 2, 0.5f);
	CHECK_NEAR(*store_values(t, find_one(t, 1, 0)), value, 0);
	CHECK_NEAR(*store_slots(t, find_one(t, 1, 0)), 0.125f + 9 + 9, 0);
	CHECK_NEAR(*store_slots(t, find_one(t, 2, 0)), 0.125f + 16 + 16, 0);
	CHECK_NEAR(*store_values(u, find_one(u, 1, 0)), u_value - 1.5f, 0);
	store_push_destroy(p);
	fixture_close(&f);
}

void push_without_op_begins_one(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", 1, OBJECT_ADAGRAD), *u = table_of(&f, "u", 1, OBJECT_ADAGRAD);
	struct store_push *p = open_push(64, 4096);
	const uint64_t keys[] = { 1, 1, 1 };
	const float gradients[] = { 1, 2, 4 };

	store_push_begin(p);
	CHECK_INT(add_keys(p, t, keys, 3, 2), 0);
	CHECK_INT(add_keys(p, u, keys, 2, 1), 0);
	CHECK_INT(add_keys(p, t, keys, 2, 1), 0);
	add_rows(p, t, gradients, 1, 3, 2, 0);
	add_rows(p, u, gradients, 1, 2, 2, 0);
	add_rows(p, t, gradients, 1, 2, 2, 0);
	CHECK_NEAR(*store_slots(t, find_one(t, 1, 0)), 0.125f + 49 + 9, 0);
	CHECK_NEAR(*store_slots(u, find_one(u, 1, 0)), 0.125f + 9, 0);
	store_push_destroy(p);
	fixture_close(&f);
}

void push_over_a_limit_is_refused(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", DIM, OBJECT_SGD);
	struct store_push *p = open_push(100, 90 * DIM * sizeof(float));
	struct star_error err = { 0 };
	uint64_t keys[128];

	for (unsigned i = 0; i < 128; i++)
		keys[i] = i / 2;
	CHECK(!store_push_create(0, 4096, &err));
	CHECK_INT(err.code, -EINVAL);
	CHECK_HAS(err.text, "up to 0 keys");
	for (unsigned round = 0; round < 3; round++) {
		store_push_begin(p);
		store_push_op(p, t, 100);
		CHECK_INT(add_keys(p, t, keys, 60, 30), 0);
		CHECK_INT(store_push_keys(p, t, keys, 31), -EOVERFLOW); /* gradients */
		CHECK_INT(store_push_keys(p, t, keys, 41), -EOVERFLOW); /* keys */
		CHECK_INT(store_push_keys(p, t, keys, 30), 0);
		store_push_begin(p);
		store_push_op(p, t, 10);
		CHECK_INT(store_push_keys(p, t, keys, 9), 0);
		CHECK_INT(store_push_keys(p, t, keys, 2), -EOVERFLOW); /* more than were announced */
		store_push_op(p, t, UINT32_MAX);
		CHECK_INT(store_push_keys(p, t, keys, 64), 0);
		CHECK_INT(store_push_keys(p, t, keys, 28), -EOVERFLOW);
	}
	store_push_destroy(p);
	fixture_close(&f);
}

void push_into_a_full_store_changes_no_value(void)
{
	enum { KEYS = 60000, PUSHED = 64 };
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", DIM, OBJECT_SGD);
	struct store_push *p = open_push(1024, 1 << 20);
	uint64_t keys[PUSHED], first_refused = 0;
	float gradients[PUSHED * DIM], initial[DIM];

	while (first_refused < KEYS && find_one(t, first_refused, 1) != STORE_NO_ROW)
		first_refused++;
	CHECK(first_refused > PUSHED && first_refused < KEYS);
	for (unsigned i = 0; i < PUSHED; i++)
		keys[i] = i;
	for (unsigned i = 0; i < PUSHED * DIM; i++)
		gradients[i] = 1;
	store_push_begin(p);
	store_push_op(p, t, PUSHED + 1);
	CHECK_INT(add_keys(p, t, keys, PUSHED, STORE_BATCH), 0);
	CHECK_INT(store_push_keys(p, t, &first_refused, 1), -ENOSPC);
	for (uint64_t key = 0; key < first_refused; key++) {
		store_initial(t, key, initial);
		CHECK_MEM(store_values(t, find_one(t, key, 0)), initial, sizeof(initial));
	}
	/* Rows that are there are still updated. */
	store_push_begin(p);
	store_push_op(p, t, PUSHED);
	CHECK_INT(add_keys(p, t, keys, PUSHED, STORE_BATCH), 0);
	add_rows(p, t, gradients, DIM, PUSHED, STORE_BATCH, 1);
	store_initial(t, 0, initial);
	CHECK_NEAR(*store_values(t, find_one(t, 0, 0)), initial[0] - 1, 0);
	store_push_destroy(p);
	fixture_close(&f);
}

void abandoned_push_changes_no_value(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", 1, OBJECT_SGD);
	struct store_push *p = open_push(64, 4096);
	const uint64_t keys[] = { 3, 3, 4, 3 };
	const float gradients[] = { 1, 2, 4, 8 };
	float initial;

	store_push_begin(p);
	store_push_op(p, t, 4);
	CHECK_INT(add_keys(p, t, keys, 4, 4), 0);
	store_push_begin(p);
	store_initial(t, 3, &initial);
	CHECK_NEAR(*store_values(t, find_one(t, 3, 0)), initial, 0);
	/* What the abandoned one knew of key 3 is forgotten. */
	store_push_op(p, t, 1);
	CHECK_INT(store_push_keys(p, t, keys, 1), 0);
	add_rows(p, t, gradients, 1, 1, 1, 1);
	CHECK_NEAR(*store_values(t, find_one(t, 3, 0)), initial - 1.0f, 0);
	store_push_destroy(p);
	fixture_close(&f);
}

enum { RANDOM_KEYS = 300, OPS = 4, OP_KEYS = 150, RANDOM_DIM = 19 };

/* Plain copies of the rows of one table, updated by the scalar kernels from plain sums: the same bits are asked for. */
struct plain {
	struct store_table *table;
	struct optim optim;
	float values[RANDOM_KEYS][RANDOM_DIM], slots[RANDOM_KEYS][RANDOM_DIM];
};

struct random_op {
	struct plain *plain;
	unsigned n;
	float rate;
	uint64_t keys[OP_KEYS];
	float gradients[1 + OP_KEYS * RANDOM_DIM];
};

static void draw(struct random_op *op, struct plain *plains, struct prng *r)
{
	const unsigned range = 1 + prng_below(r, RANDOM_KEYS);

	op->plain = &plains[prng_below(r, 2)];
	op->n = 1 + prng_below(r, OP_KEYS);
	op->rate = prng_below(r, 2) ? 0 : (float)prng_unit(r);
	for (unsigned i = 0; i < op->n; i++)
		op->keys[i] = prng_below(r, range);
	for (unsigned i = 0; i < 1 + op->n * RANDOM_DIM; i++)
		op->gradients[i] = (float)(2 * prng_unit(r) - 1);
}

static void apply_plainly(const struct random_op *op, const float *gradients)
{
	struct plain *m = op->plain;
	float sum[RANDOM_DIM];

	for (unsigned i = 0; i < op->n; i++) {
		bool seen = false;

		for (unsigned j = 0; j < i; j++)
			seen |= op->keys[j] == op->keys[i];
		if (seen)
			continue;
		memcpy(sum, gradients + i * RANDOM_DIM, sizeof(sum));
		for (unsigned j = i + 1; j < op->n; j++)
			for (unsigned e = 0; e < RANDOM_DIM && op->keys[j] == op->keys[i]; e++)
				sum[e] += gradients[j * RANDOM_DIM + e];
		m->optim.apply(&m->optim, op->rate == 0 ? 0.1f : op->rate, m->values[op->keys[i]],
			       m->slots[op->keys[i]], sum, RANDOM_DIM);
	}
}

static bool compare(const struct plain *m)
{
	for (uint64_t key = 0; key < RANDOM_KEYS; key++) {
		const store_row row = find_one(m->table, key, 1);

		if (!CHECK_MEM(store_values(m->table, row), m->values[key], sizeof(m->values[key])))
			return false;
		if (m->optim.slots && !CHECK_MEM(store_slots(m->table, row), m->slots[key], sizeof(m->slots[key])))
			return false;
	}
	return true;
}

void random_pushes_follow_plain_sums(void)
{
	static struct plain plains[2];
	static struct random_op ops[OPS];
	struct fixture f = fixture_open(1 << 20);
	struct store_push *p = open_push(OPS * OP_KEYS, OPS * OP_KEYS * RANDOM_DIM * sizeof(float));
	struct prng r;

	prng_seed(&r, 10);
	for (unsigned t = 0; t < 2; t++) {
		plains[t].table = table_of(&f, t ? "u" : "t", RANDOM_DIM, t ? OBJECT_ADAGRAD : OBJECT_SGD);
		CHECK_INT(optim_init(&plains[t].optim, t ? OPTIM_ADAGRAD : OPTIM_SGD, 0, 1e-8f, 0, OPTIM_SCALAR), 0);
		for (uint64_t key = 0; key < RANDOM_KEYS; key++) {
			store_initial(plains[t].table, key, plains[t].values[key]);
			for (unsigned e = 0; e < RANDOM_DIM; e++)
				plains[t].slots[key][e] = 0.125f;
		}
	}
	for (unsigned request = 0; request < 400; request++) {
		const unsigned n = 1 + prng_below(&r, OPS), slice = 1 + prng_below(&r, STORE_BATCH);
		const unsigned shift = prng_below(&r, 2); /* gradients are aligned as floats are, no better */

		store_push_begin(p);
		for (unsigned i = 0; i < n; i++) {
			draw(&ops[i], plains, &r);
			store_push_op(p, ops[i].plain->table, ops[i].n);
			CHECK_INT(add_keys(p, ops[i].plain->table, ops[i].keys, ops[i].n, slice), 0);
		}
		if (prng_below(&r, 8) == 0)
			continue; /* abandoned */
		for (unsigned i = 0; i < n; i++) {
			add_rows(p, ops[i].plain->table, ops[i].gradients + shift, RANDOM_DIM, ops[i].n, slice,
				 ops[i].rate);
			apply_plainly(&ops[i], ops[i].gradients + shift);
		}
		if (!compare(&plains[0]) || !compare(&plains[1])) {
			unit_fail(__FILE__, __LINE__, "request %u of seed 10", request);
			break;
		}
	}
	store_push_destroy(p);
	fixture_close(&f);
}
