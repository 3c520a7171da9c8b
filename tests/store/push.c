/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes in slices. */
#include "tests/store/cases.h"

#include <errno.h>
#include <stdlib.h>

#include "base/prng.h"
#include "optim/optim.h"
#include "store/push_internal.h"

enum { DIM = 3 };

/* Rows of float32 that lie one after the other. */
static void add_floats(struct store_push *p, struct store_table *t, const float *gradients, uint32_t dim, unsigned n,
		       unsigned slice, float rate)
{
	add_rows(p, t, gradients, STAR_FLOAT32, dim * sizeof(float), n, slice,
		 &(struct store_push_step){ .has_rate = rate != 0, .rate = rate });
}

void push_sums_duplicates_in_order(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", 1, OPTIM_SGD);
	struct store_push *p = open_push(64, 4096);
	/* 1 + 2^25 - 2^25 is 0 in float32, in any other order 1. */
	const uint64_t keys[] = { 5, 9, 5, 7, 5, 9 };
	const float gradients[] = { 1, 0.5f, 0x1p25f, 3, -0x1p25f, 0.25f };
	float before[3], after[3];

	for (unsigned slice = 1; slice <= 6; slice++) {
		for (unsigned i = 0; i < 3; i++)
			before[i] = *values_of(t, find_one(t, 5 + 2 * i, STORE_PULL));
		store_push_begin(p);
		store_push_op(p, t, 6);
		CHECK_INT(add_keys(p, t, keys, 6, slice), 0);
		add_floats(p, t, gradients, 1, 6, 7 - slice, 1);
		for (unsigned i = 0; i < 3; i++)
			after[i] = *values_of(t, find_one(t, 5 + 2 * i, STORE_LOOK));
		CHECK_NEAR(after[0], before[0], 0);
		CHECK_NEAR(after[1], before[1] - 3.0f, 0);
		CHECK_NEAR(after[2], before[2] - 0.75f, 0);
	}
	store_push_destroy(p);
	fixture_close(&f);
}

/* A gradient so large that sums might overflow has them made before anything is applied: the rows have the same bits,
 * and one that does overflow changes none. */
void sums_are_the_same_before_and_while_rows_change(void)
{
	enum { N = 200, LARGE = 9999 };
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", DIM, OPTIM_ADAGRAD), *twin = table_of(&f, "t", DIM, OPTIM_ADAGRAD);
	struct store_push *p = open_push(N + 2, (N + 2) * DIM * sizeof(float));
	uint64_t keys[N + 2];
	float gradients[(N + 2) * DIM];
	struct prng r;

	prng_seed(&r, 3);
	for (unsigned i = 0; i < N * DIM; i++)
		gradients[i] = (float)(prng_unit(&r) - 0.5);
	for (unsigned i = 0; i < N; i++)
		keys[i] = prng_below(&r, N / 4);
	keys[N] = keys[N + 1] = LARGE;
	for (unsigned slice = 1; slice <= STORE_BATCH; slice += 7)
		for (unsigned overflows = 0; overflows < 2; overflows++) {
			for (unsigned i = N * DIM; i < (N + 2) * DIM; i++)
				gradients[i] = overflows ? 0x1p127f : 0x1p97f;
			store_push_begin(p);
			store_push_op(p, t, N + 2);
			CHECK_INT(add_keys(p, t, keys, N + 2, slice), 0);
			CHECK_INT(look_at(p, t, gradients, STAR_FLOAT32, DIM * sizeof(float), N + 2, slice),
				  overflows ? -ERANGE : 0);
			if (overflows)
				continue;
			add_floats(p, t, gradients, DIM, N + 2, slice, 0);
			store_push_begin(p);
			store_push_op(p, twin, N);
			CHECK_INT(add_keys(p, twin, keys, N, slice), 0);
			CHECK_INT(look_at(p, twin, gradients, STAR_FLOAT32, DIM * sizeof(float), N, slice), 0);
			CHECK(!p->ops[0].summed);
			add_floats(p, twin, gradients, DIM, N, slice, 0);
			for (unsigned i = 0; i < N; i++) {
				const store_row one = find_one(t, keys[i], STORE_LOOK),
						other = find_one(twin, keys[i], STORE_LOOK);

				CHECK_MEM(values_of(t, one), values_of(twin, other), DIM * sizeof(float));
				CHECK_MEM(slots_of(t, one), slots_of(twin, other), DIM * sizeof(float));
			}
		}
	store_push_destroy(p);
	fixture_close(&f);
}

void push_of_one_key_many_times(void)
{
	enum { MANY = 1 << 20 };
	struct fixture f = fixture_open(1 << 20);
	const char *zeros = "initializer=zeros, scale=0";
	struct store_table *t = table_with(&f, "t", DIM, OPTIM_ADAGRAD, STAR_FLOAT32, zeros),
			   *twin = table_with(&f, "twin", DIM, OPTIM_ADAGRAD, STAR_FLOAT32, zeros);
	struct store_push *p = open_push(MANY, MANY * DIM * sizeof(float));
	uint64_t *keys = malloc(MANY * sizeof(*keys));
	float *gradients = malloc(MANY * DIM * sizeof(*gradients)), sum[DIM] = { 0 };
	const store_row row = find_one(t, 77, STORE_PULL), twin_row = find_one(twin, 77, STORE_PULL);
	struct prng r;

	prng_seed(&r, 8);
	for (unsigned i = 0; i < MANY; i++) {
		keys[i] = 77;
		for (unsigned e = 0; e < DIM; e++) {
			gradients[i * DIM + e] = (float)prng_unit(&r);
			sum[e] += gradients[i * DIM + e];
		}
	}
	store_push_begin(p);
	store_push_op(p, t, MANY);
	CHECK_INT(add_keys(p, t, keys, MANY, STORE_BATCH), 0);
	add_floats(p, t, gradients, DIM, MANY, STORE_BATCH, 0);
	push_one(twin, 77, sum, 0);
	CHECK_MEM(values_of(t, row), values_of(twin, twin_row), DIM * sizeof(float));
	CHECK_MEM(slots_of(t, row), slots_of(twin, twin_row), DIM * sizeof(float));
	CHECK_UINT(store_table_stats(t)->rows, 1);
	free(keys);
	free(gradients);
	store_push_destroy(p);
	fixture_close(&f);
}

/* Positions are counted in 32 bits, and start over in time. */
void push_after_four_billion_keys(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", 1, OPTIM_ADAGRAD);
	struct store_push *p = open_push(64, 256);
	const uint64_t keys[] = { 1, 2, 1, 3 };
	const float gradients[] = { 1, 2, 4, 8 };

	p->origin = UINT32_MAX - 1000;
	for (unsigned i = 0; i < 600; i++) {
		store_push_begin(p);
		store_push_op(p, t, 4);
		CHECK_INT(add_keys(p, t, keys, 4, 4), 0);
		add_floats(p, t, gradients, 1, 4, 4, 0);
	}
	CHECK(p->origin < 3000);
	CHECK_NEAR(*slots_of(t, find_one(t, 1, STORE_LOOK)), 0.125 + 600 * 25, 0);
	CHECK_NEAR(*slots_of(t, find_one(t, 3, STORE_LOOK)), 0.125 + 600 * 64, 0);
	store_push_destroy(p);
	fixture_close(&f);
}

/* All keys in order and then once more, or each twice in a row: on the first of its seconds the order ends. */
static void push_all_twice(struct fixture *f, const char *name, bool in_a_row, unsigned slice)
{
	enum { KEYS = 512 };
	struct store_table *t = table_of(f, name, DIM, OPTIM_SGD);
	struct store_push *p = open_push(KEYS, KEYS * DIM * sizeof(float));
	uint64_t keys[KEYS], sums[KEYS / 2] = { 0 };
	float gradients[KEYS * DIM], initial[DIM];

	for (unsigned i = 0; i < KEYS; i++) {
		keys[i] = in_a_row ? i / 2 : i % (KEYS / 2);
		sums[keys[i]] += i;
		for (unsigned e = 0; e < DIM; e++)
			gradients[i * DIM + e] = (float)i;
	}
	store_push_begin(p);
	store_push_op(p, t, KEYS);
	CHECK_INT(add_keys(p, t, keys, KEYS, slice), 0);
	add_floats(p, t, gradients, DIM, KEYS, STORE_BATCH, 1);
	for (uint64_t key = 0; key < KEYS / 2; key++) {
		store_initial(t, key, initial);
		CHECK_NEAR(values_of(t, find_one(t, key, STORE_LOOK))[1], initial[1] - (float)sums[key], 0);
	}
	store_push_destroy(p);
}

void push_of_all_keys_twice_fills_the_sums(void)
{
	struct fixture f = fixture_open(1 << 20);

	push_all_twice(&f, "again", false, STORE_BATCH);
	push_all_twice(&f, "row", true, STORE_BATCH);
	push_all_twice(&f, "row by row", true, 1);
	fixture_close(&f);
}

void operations_are_separate_pushes(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", 1, OPTIM_ADAGRAD), *u = table_of(&f, "u", 1, OPTIM_SGD);
	struct store_push *p = open_push(64, 4096);
	const struct object_spec spec = spec_of("t", 1, OPTIM_ADAGRAD);
	struct optim o;
	const uint64_t keys[] = { 1, 1, 2 };
	const float gradients[] = { 1, 2, 4 }, three = 3;
	float value, slot = 0.125f, u_value;

	CHECK_INT(optim_init(&o, &spec.optim, OPTIM_SCALAR), 0);
	store_initial(t, 1, &value);
	store_initial(u, 1, &u_value);
	for (unsigned i = 0; i < 2; i++)
		optim_apply(&o, &(struct optim_step){ .rate = 0.5f, .scale = 1 }, &value, &slot, NULL, &three, 1);
	store_push_begin(p);
	store_push_op(p, t, 3);
	CHECK_INT(add_keys(p, t, keys, 3, 2), 0);
	store_push_op(p, t, 3);
	CHECK_INT(add_keys(p, t, keys, 3, 3), 0);
	store_push_op(p, u, 2);
	CHECK_INT(add_keys(p, u, keys, 2, 2), 0);
	add_floats(p, t, gradients, 1, 3, 2, 0.5f);
	add_floats(p, t, gradients, 1, 3, 1, 0.5f);
	add_floats(p, u, gradients, 1, 2, 2, 0.5f);
	CHECK_NEAR(*values_of(t, find_one(t, 1, STORE_LOOK)), value, 0);
	CHECK_NEAR(*slots_of(t, find_one(t, 1, STORE_LOOK)), 0.125f + 9 + 9, 0);
	CHECK_NEAR(*slots_of(t, find_one(t, 2, STORE_LOOK)), 0.125f + 16 + 16, 0);
	CHECK_NEAR(*values_of(u, find_one(u, 1, STORE_LOOK)), u_value - 1.5f, 0);
	store_push_destroy(p);
	fixture_close(&f);
}

void push_without_op_begins_one(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", 1, OPTIM_ADAGRAD), *u = table_of(&f, "u", 1, OPTIM_ADAGRAD);
	struct store_push *p = open_push(64, 4096);
	const uint64_t keys[] = { 1, 1, 1 };
	const float gradients[] = { 1, 2, 4 };

	store_push_begin(p);
	CHECK_INT(add_keys(p, t, keys, 3, 2), 0);
	CHECK_INT(add_keys(p, u, keys, 2, 1), 0);
	CHECK_INT(add_keys(p, t, keys, 2, 1), 0);
	add_floats(p, t, gradients, 1, 3, 2, 0);
	add_floats(p, u, gradients, 1, 2, 2, 0);
	add_floats(p, t, gradients, 1, 2, 2, 0);
	CHECK_NEAR(*slots_of(t, find_one(t, 1, STORE_LOOK)), 0.125f + 49 + 9, 0);
	CHECK_NEAR(*slots_of(u, find_one(u, 1, STORE_LOOK)), 0.125f + 9, 0);
	store_push_destroy(p);
	fixture_close(&f);
}

void push_over_a_limit_is_refused(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", DIM, OPTIM_SGD);
	struct store_push *p = open_push(100, 100 * DIM * sizeof(float));
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
		CHECK_INT(store_push_keys(p, t, keys, 41, 0), -EOVERFLOW);
		CHECK_INT(store_push_keys(p, t, keys, 40, 0), 0);
		CHECK_INT(store_push_keys(p, t, keys, 1, 0), -EOVERFLOW);
		store_push_begin(p);
		store_push_op(p, t, 10);
		CHECK_INT(store_push_keys(p, t, keys, 9, 0), 0);
		CHECK_INT(store_push_keys(p, t, keys, 2, 0), -EOVERFLOW); /* more than were announced */
		store_push_op(p, t, UINT32_MAX);
		CHECK_INT(store_push_keys(p, t, keys, 64, 0), 0);
		CHECK_INT(store_push_keys(p, t, keys, 28, 0), -EOVERFLOW);
	}
	/* More operations than a request may have. */
	store_push_begin(p);
	for (unsigned i = 0; i < WIRE_OPS_MAX; i++) {
		store_push_op(p, t, 1);
		CHECK_INT(store_push_keys(p, t, keys, 1, 0), 0);
	}
	store_push_op(p, t, 1);
	CHECK_INT(store_push_keys(p, t, keys, 1, 0), -EOVERFLOW);
	store_push_destroy(p);
	/* Sums that no gradients of 8 bytes in all can need. */
	p = open_push(100, 8);
	store_push_begin(p);
	store_push_op(p, t, 100);
	CHECK_INT(store_push_keys(p, t, keys, 8, 0), 0);
	CHECK_INT(store_push_keys(p, t, keys + 8, 2, 0), -EOVERFLOW);
	store_push_begin(p);
	store_push_op(p, t, 100);
	CHECK_INT(store_push_keys(p, t, keys, 8, 0), 0);
	store_push_destroy(p);
	fixture_close(&f);
}

void push_into_a_full_store_changes_no_value(void)
{
	enum { KEYS = 60000, PUSHED = 64 };
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", DIM, OPTIM_SGD);
	struct store_push *p = open_push(1024, 1 << 20);
	uint64_t keys[PUSHED], first_refused = 0;
	float gradients[PUSHED * DIM], initial[DIM];

	while (first_refused < KEYS && find_one(t, first_refused, STORE_PULL) != STORE_NO_ROW)
		first_refused++;
	CHECK(first_refused > PUSHED && first_refused < KEYS);
	for (unsigned i = 0; i < PUSHED; i++)
		keys[i] = i;
	for (unsigned i = 0; i < PUSHED * DIM; i++)
		gradients[i] = 1;
	store_push_begin(p);
	store_push_op(p, t, PUSHED + 1);
	CHECK_INT(add_keys(p, t, keys, PUSHED, STORE_BATCH), 0);
	CHECK_INT(store_push_keys(p, t, &first_refused, 1, 0), -ENOSPC);
	for (uint64_t key = 0; key < first_refused; key++) {
		store_initial(t, key, initial);
		CHECK_MEM(values_of(t, find_one(t, key, STORE_LOOK)), initial, sizeof(initial));
	}
	/* Rows that are there are still updated. */
	store_push_begin(p);
	store_push_op(p, t, PUSHED);
	CHECK_INT(add_keys(p, t, keys, PUSHED, STORE_BATCH), 0);
	add_floats(p, t, gradients, DIM, PUSHED, STORE_BATCH, 1);
	store_initial(t, 0, initial);
	CHECK_NEAR(*values_of(t, find_one(t, 0, STORE_LOOK)), initial[0] - 1, 0);
	store_push_destroy(p);
	fixture_close(&f);
}

void abandoned_push_changes_no_value(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", 1, OPTIM_SGD);
	struct store_push *p = open_push(64, 4096);
	const uint64_t keys[] = { 3, 3, 4, 3 };
	const float gradients[] = { 1, 2, 4, 8 };
	float initial;

	store_push_begin(p);
	store_push_op(p, t, 4);
	CHECK_INT(add_keys(p, t, keys, 4, 4), 0);
	store_push_begin(p);
	store_initial(t, 3, &initial);
	CHECK_NEAR(*values_of(t, find_one(t, 3, STORE_LOOK)), initial, 0);
	/* What the abandoned one knew of key 3 is forgotten. */
	store_push_op(p, t, 1);
	CHECK_INT(store_push_keys(p, t, keys, 1, 0), 0);
	add_floats(p, t, gradients, 1, 1, 1, 1);
	CHECK_NEAR(*values_of(t, find_one(t, 3, STORE_LOOK)), initial - 1.0f, 0);
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
		optim_apply(&m->optim, &(struct optim_step){ .rate = op->rate == 0 ? 0.1f : op->rate, .scale = 1 },
			    m->values[op->keys[i]], m->slots[op->keys[i]], NULL, sum, RANDOM_DIM);
	}
}

static bool compare(const struct plain *m)
{
	for (uint64_t key = 0; key < RANDOM_KEYS; key++) {
		const store_row row = find_one(m->table, key, STORE_PULL);

		if (!CHECK_MEM(values_of(m->table, row), m->values[key], sizeof(m->values[key])))
			return false;
		if (m->optim.slots && !CHECK_MEM(slots_of(m->table, row), m->slots[key], sizeof(m->slots[key])))
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
		const struct object_spec spec = spec_of("t", RANDOM_DIM, t ? OPTIM_ADAGRAD : OPTIM_SGD);

		plains[t].table = table_of(&f, t ? "u" : "t", RANDOM_DIM, t ? OPTIM_ADAGRAD : OPTIM_SGD);
		CHECK_INT(optim_init(&plains[t].optim, &spec.optim, OPTIM_SCALAR), 0);
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
			add_floats(p, ops[i].plain->table, ops[i].gradients + shift, RANDOM_DIM, ops[i].n, slice,
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
