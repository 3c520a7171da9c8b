/* SPDX-License-Identifier: BSD-3-Clause */
/* Element types: what is stored, what is read, what pushes bring; and the same bits as the scalar kernels'. */
#include "tests/store/cases.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/prng.h"
#include "optim/optim.h"

enum { DIM = 21, KEYS = 40, PUSHES = 60, COUNT = 70 };

/* A row as it ought to be, worked on by the scalar kernels and converters. */
struct plain_row {
	double stored[DIM + 1], slots[3 * DIM], master[DIM];
	uint32_t words[2], rounds;
};

struct plain {
	struct store_table *table;
	const struct object_spec *spec;
	struct optim optim;
	const struct converter *converter;
	bool wide, narrow;
	struct plain_row rows[KEYS];
};

static const struct {
	unsigned dtype, gradients, optimizer;
	const char *options;
} cases[] = {
	{ STAR_FLOAT32, STAR_FLOAT32, OPTIM_SGD, "" },
	{ STAR_FLOAT32, STAR_FLOAT16, OPTIM_ADAGRAD, "clip_norm=1.5" },
	{ STAR_FLOAT32, STAR_BFLOAT16, OPTIM_ADAM, "versions=1" },
	{ STAR_FLOAT32, STAR_SCALED_INT8, OPTIM_FTRL, "l1=0.01" },
	{ STAR_FLOAT32, STAR_FLOAT64, OPTIM_AMSGRAD, "" },
	{ STAR_FLOAT64, STAR_FLOAT64, OPTIM_ADAM, "" },
	{ STAR_FLOAT64, STAR_FLOAT32, OPTIM_RMSPROP, "versions=1, centered=1, momentum=0.5" },
	{ STAR_FLOAT64, STAR_SCALED_INT8, OPTIM_MOMENTUM, "steps_to_live=1000" },
	{ STAR_FLOAT16, STAR_FLOAT32, OPTIM_NESTEROV, "" },
	{ STAR_FLOAT16, STAR_FLOAT16, OPTIM_ADADELTA, "master=1" },
	{ STAR_FLOAT16, STAR_FLOAT16, OPTIM_ADAM, "stochastic=1" },
	{ STAR_BFLOAT16, STAR_BFLOAT16, OPTIM_ADAMW, "stochastic=1, versions=1" },
	{ STAR_BFLOAT16, STAR_FLOAT32, OPTIM_ADAGRAD_DECAY, "decay_steps=7" },
	{ STAR_SCALED_INT8, STAR_SCALED_INT8, OPTIM_SGD, "stochastic=1" },
	{ STAR_SCALED_INT8, STAR_FLOAT32, OPTIM_ADAM_ASYNC, "master=1" },
};

static void plain_init(struct plain *m)
{
	float initial[DIM], scratch[DIM];

	CHECK_INT(optim_init(&m->optim, &m->spec->optim, OPTIM_SCALAR), 0);
	m->converter = tensor_convert_find(m->spec->dtype, CONVERT_SCALAR);
	m->wide = m->spec->dtype == STAR_FLOAT64;
	m->narrow = m->spec->dtype != STAR_FLOAT32 && !m->wide;
	for (uint64_t key = 0; key < KEYS; key++) {
		struct plain_row *r = &m->rows[key];

		*r = (struct plain_row){ .rounds = 0 };
		store_initial(m->table, key, initial);
		tensor_convert_row(r->stored, m->spec->dtype, initial, STAR_FLOAT32, DIM, scratch);
		memcpy(r->master, initial, sizeof(initial));
		for (unsigned s = 0; s < m->optim.slots; s++)
			for (unsigned e = 0; e < DIM; e++)
				if (m->wide)
					r->slots[s * DIM + e] = m->optim.initial_slots[s];
				else
					((float *)r->slots)[s * DIM + e] = m->optim.initial_slots[s];
	}
}

static void plain_apply(const struct plain *m, struct plain_row *r, uint64_t key, const void *sum,
			const struct optim_step *step)
{
	const uint64_t seed = hash_mix(hash_mix(m->spec->seed ^ hash_name(m->spec->name)) + 1);
	const uint64_t k = hash_mix(key ^ seed);
	const uint32_t rounding[2] = { (uint32_t)k, (uint32_t)(k >> 32) };
	float values[DIM];

	if (m->wide) {
		optim_apply64(&m->optim, step, r->stored, r->slots, r->words, sum, DIM);
		return;
	}
	if (!m->narrow) {
		optim_apply(&m->optim, step, (float *)r->stored, (float *)r->slots, r->words, sum, DIM);
		return;
	}
	if (m->spec->master)
		memcpy(values, r->master, sizeof(values));
	else
		m->converter->to_float(values, r->stored, DIM);
	optim_apply(&m->optim, step, values, (float *)r->slots, r->words, sum, DIM);
	memcpy(r->master, values, sizeof(values));
	if (m->spec->stochastic)
		m->converter->from_float_stochastic(r->stored, values, DIM, rounding, r->rounds++);
	else
		m->converter->from_float(r->stored, values, DIM);
}

/* Sums the gradients of each key in their order, in the type that is worked in. */
static void plain_push(struct plain *m, const uint64_t *keys, unsigned n, const void *gradients, size_t stride,
		       unsigned dtype, const struct optim_step *step)
{
	const unsigned type = m->wide ? STAR_FLOAT64 : STAR_FLOAT32;

	for (unsigned i = 0; i < n; i++) {
		double sum[DIM], further[DIM];
		float scratch[DIM];
		bool seen = false;

		for (unsigned j = 0; j < i; j++)
			seen |= keys[j] == keys[i];
		if (seen)
			continue;
		tensor_convert_row(sum, type, (const char *)gradients + i * stride, dtype, DIM, scratch);
		for (unsigned j = i + 1; j < n; j++) {
			if (keys[j] != keys[i])
				continue;
			tensor_convert_row(further, type, (const char *)gradients + j * stride, dtype, DIM, scratch);
			for (unsigned e = 0; e < DIM; e++)
				if (m->wide)
					sum[e] += further[e];
				else
					((float *)sum)[e] += ((float *)further)[e];
		}
		plain_apply(m, &m->rows[keys[i]], keys[i], sum, step);
	}
}

static bool same(const struct plain *m)
{
	const size_t bytes = dtype_row_bytes(m->spec->dtype, DIM), width = m->wide ? sizeof(double) : sizeof(float);
	float master[DIM];

	for (uint64_t key = 0; key < KEYS; key++) {
		const store_row row = find_one(m->table, key, STORE_PULL);
		const struct plain_row *r = &m->rows[key];

		if (!CHECK_MEM(store_values(m->table, row, m->spec->dtype), r->stored, bytes) ||
		    (m->optim.slots && !CHECK_MEM(store_slots(m->table, row), r->slots, m->optim.slots * DIM * width)))
			return false;
		store_read(m->table, row, key, STAR_FLOAT32, master);
		if (m->spec->master && !CHECK_MEM(master, r->master, sizeof(master)))
			return false;
	}
	return true;
}

void random_pushes_of_all_types_have_the_scalar_bits(void)
{
	static struct plain m;
	static double gradients[COUNT][DIM + 1];
	const size_t stride = sizeof(gradients[0]);

	for (unsigned c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct fixture f = fixture_open(1 << 20);
		struct store_push *p = open_push(COUNT, COUNT * 8 * DIM);
		struct prng r;
		bool good = true;

		prng_seed(&r, c);
		m.table = table_with(&f, "t", DIM, cases[c].optimizer, cases[c].dtype, cases[c].options);
		m.spec = store_table_spec(m.table);
		plain_init(&m);
		for (unsigned push = 1; push <= PUSHES && good; push++) {
			const unsigned n = 1 + prng_below(&r, COUNT), slice = 1 + prng_below(&r, STORE_BATCH);
			const struct optim_step step = { .rate = push % 2 ? m.spec->optim.rate : 0.5f,
							 .scale = push % 3 ? 1 : 0.75f,
							 .count = push };
			uint64_t keys[COUNT];

			for (unsigned i = 0; i < n; i++) {
				double g[DIM];
				float scratch[DIM];

				keys[i] = prng_below(&r, KEYS);
				for (unsigned e = 0; e < DIM; e++)
					g[e] = 2 * prng_unit(&r) - 1;
				tensor_convert_row(gradients[i], cases[c].gradients, g, STAR_FLOAT64, DIM, scratch);
			}
			store_push_begin(p);
			store_push_op(p, m.table, n);
			CHECK_INT(add_keys(p, m.table, keys, n, slice), 0);
			CHECK_INT(look_at(p, m.table, gradients, cases[c].gradients, stride, n, slice), 0);
			add_rows(p, m.table, gradients, cases[c].gradients, stride, n, slice,
				 &(struct store_push_step){ .has_rate = push % 2 == 0,
							    .rate = push % 2 ? 0 : 0.5f,
							    .has_scale = true,
							    .scale = step.scale });
			plain_push(&m, keys, n, gradients, stride, cases[c].gradients, &step);
			good = same(&m) || unit_fail(__FILE__, __LINE__, "case %u, push %u", c, push);
		}
		store_push_destroy(p);
		fixture_close(&f);
	}
}

/* Every real type as every other, for a row, for a key without one, and for one that the filter keeps out. */
void rows_are_read_as_any_type(void)
{
	static const unsigned types[] = { STAR_FLOAT32, STAR_FLOAT16, STAR_BFLOAT16, STAR_FLOAT64, STAR_SCALED_INT8 };

	for (unsigned i = 0; i < 5; i++)
		for (unsigned j = 0; j < 5; j++) {
			struct fixture f = fixture_open(1 << 20);
			struct store_table *t = table_with(&f, "t", DIM, OPTIM_SGD, types[i], ""),
					   *u = table_with(&f, "u", DIM, OPTIM_SGD, types[i],
							   "filter=counter, filter_frequency=9, filter_value=0.75");
			const size_t bytes = dtype_row_bytes(types[j], DIM);
			float initial[DIM], scratch[DIM], value[DIM];
			double stored[DIM], wanted[DIM], got[DIM];
			store_row row;

			store_initial(t, 9, initial);
			tensor_convert_row(stored, types[i], initial, STAR_FLOAT32, DIM, scratch);
			tensor_convert_row(wanted, types[j], stored, types[i], DIM, scratch);
			store_read(t, STORE_NO_ROW, 9, types[j], got);
			CHECK_MEM(got, wanted, bytes);
			row = find_one(t, 9, STORE_PULL);
			store_read(t, row, 9, types[j], got);
			CHECK_MEM(got, wanted, bytes);
			CHECK((store_values(t, row, types[j]) == NULL) == (i != j));
			CHECK(store_values(t, STORE_NO_ROW, types[i]) == NULL);
			row = find_one(u, 9, STORE_PULL);
			CHECK_UINT(row, STORE_UNADMITTED);
			CHECK(store_values(u, row, types[i]) == NULL);
			store_read(u, row, 9, types[j], got);
			tensor_convert_row(value, STAR_FLOAT32, got, types[j], DIM, scratch);
			for (unsigned e = 0; e < DIM; e++)
				CHECK_NEAR(value[e], 0.75, 1e-6);
			fixture_close(&f);
		}
}

/* A master holds what the stored type cannot. */
void master_keeps_small_updates(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *plain = table_with(&f, "a", 1, OPTIM_SGD, STAR_FLOAT16, "initializer=ones, scale=0"),
			   *master = table_with(&f, "b", 1, OPTIM_SGD, STAR_FLOAT16,
						"initializer=ones, scale=0, master=1"),
			   *chance = table_with(&f, "c", 1, OPTIM_SGD, STAR_FLOAT16,
						"initializer=ones, scale=0, stochastic=1");
	const float gradient = 0x1p-14f; /* an eighth of a unit of 1's last place downwards */
	float value;
	double sum = 0;

	for (unsigned i = 0; i < 64; i++) {
		push_one(plain, 3, &gradient, 1);
		push_one(master, 3, &gradient, 1);
	}
	store_read(plain, find_one(plain, 3, STORE_LOOK), 3, STAR_FLOAT32, &value);
	CHECK_NEAR(value, 1, 0);
	store_read(master, find_one(master, 3, STORE_LOOK), 3, STAR_FLOAT32, &value);
	CHECK_NEAR(value, 1 - 0x1p-8, 0);
	CHECK_UINT(*(const uint16_t *)store_values(master, find_one(master, 3, STORE_LOOK), STAR_FLOAT16), 0x3bf8);
	/* Of many rows an eighth goes down a unit. */
	for (uint64_t key = 0; key < 4000; key++) {
		push_one(chance, key, &gradient, 1);
		store_read(chance, find_one(chance, key, STORE_LOOK), key, STAR_FLOAT32, &value);
		CHECK(value == 1 || value == 1 - 0x1p-11f);
		sum += 1 - (double)value;
	}
	CHECK_NEAR(sum / 4000 / 0x1p-11, 0.125, 0.025);
	fixture_close(&f);
}

void integers_are_held(void)
{
	static const struct {
		unsigned dtype;
		const char *options;
		int64_t value;
	} kinds[] = {
		{ STAR_INT8, "initializer=constant, scale=-128", -128 },
		{ STAR_INT32, "initializer=constant, scale=-2147483648", INT32_MIN },
		{ STAR_INT64, "initializer=constant, scale=9007199254740992", INT64_C(1) << 53 },
		{ STAR_INT64, "initializer=ones", 1 },
		{ STAR_INT8, "initializer=zeros", 0 },
	};

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct fixture f = fixture_open(1 << 20);
		struct store_table *t = table_with(&f, "t", 5, OPTIM_NONE, kinds[i].dtype, kinds[i].options);
		struct store_push *p = open_push(8, 64);
		const uint64_t key = 77;
		int64_t there[5], absent[5];

		store_read(t, STORE_NO_ROW, key, kinds[i].dtype, absent);
		store_read(t, find_one(t, key, STORE_PULL), key, kinds[i].dtype, there);
		for (unsigned e = 0; e < 5; e++) {
			const int64_t got = kinds[i].dtype == STAR_INT8	   ? ((int8_t *)there)[e]
					    : kinds[i].dtype == STAR_INT32 ? ((int32_t *)there)[e]
									   : there[e];

			CHECK_INT(got, kinds[i].value);
		}
		CHECK_MEM(absent, there, dtype_row_bytes(kinds[i].dtype, 5));
		store_push_begin(p);
		store_push_op(p, t, 1);
		CHECK_INT(store_push_keys(p, t, &key, 1, 0), -EOPNOTSUPP);
		store_push_destroy(p);
		fixture_close(&f);
	}
}

static void assign_all(struct store_push *p, struct store_table *t, const uint64_t *keys, unsigned n,
		       const void *values, unsigned dtype, size_t stride)
{
	store_push_begin(p);
	store_push_assign(p, t, n);
	CHECK_INT(add_keys(p, t, keys, n, 2), 0);
	if (store_push_needs_look(t))
		CHECK_INT(look_at(p, t, values, dtype, stride, n, 3), 0);
	add_rows(p, t, values, dtype, stride, n, 3, NULL);
}

/* Of a key that comes twice the last values; slots stay, a row's version and the table's pushes go up by one. */
void assigned_rows_hold_what_came(void)
{
	static const struct {
		unsigned dtype, values, optimizer;
		const char *options;
	} kinds[] = {
		{ STAR_INT8, STAR_INT8, OPTIM_NONE, "" },
		{ STAR_INT32, STAR_INT32, OPTIM_NONE, "" },
		{ STAR_INT64, STAR_INT64, OPTIM_NONE, "" },
		{ STAR_FLOAT32, STAR_FLOAT32, OPTIM_ADAGRAD, "" },
		{ STAR_FLOAT32, STAR_FLOAT32, OPTIM_SGD, "versions=1, nonfinite=clip, clip_value=0.5" },
		{ STAR_FLOAT32, STAR_SCALED_INT8, OPTIM_SGD, "nonfinite=pass" },
		{ STAR_FLOAT64, STAR_FLOAT64, OPTIM_ADAM, "versions=1" },
		{ STAR_FLOAT16, STAR_FLOAT32, OPTIM_MOMENTUM, "master=1" },
		{ STAR_BFLOAT16, STAR_BFLOAT16, OPTIM_SGD, "stochastic=1" },
		{ STAR_SCALED_INT8, STAR_SCALED_INT8, OPTIM_SGD, "" },
	};
	enum { N = 4 };
	static const uint64_t keys[N] = { 7, 3, 7, 9 };

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const size_t stride = dtype_row_bytes(STAR_FLOAT64, DIM);
		struct fixture f = fixture_open(1 << 20);
		struct store_table *t = table_with(&f, "t", DIM, kinds[i].optimizer, kinds[i].dtype, kinds[i].options);
		struct store_push *p = open_push(8, 8 * (uint32_t)stride);
		const uint32_t version = store_version(t, find_one(t, 7, STORE_PULL));
		double values[N][DIM], expected[DIM], is[DIM];
		float floats[DIM], scratch[DIM];
		struct prng r;

		prng_seed(&r, i);
		for (unsigned row = 0; row < N; row++) {
			for (unsigned e = 0; e < DIM; e++)
				floats[e] = (float)prng_unit(&r) * 100 - 50;
			if (dtype_is_real(kinds[i].values))
				tensor_convert_row(values[row], kinds[i].values, floats, STAR_FLOAT32, DIM, scratch);
			else
				for (unsigned b = 0; b < sizeof(values[row]); b++)
					((uint8_t *)values[row])[b] = (uint8_t)prng_next(&r);
		}
		assign_all(p, t, keys, N, values, kinds[i].values, stride);
		CHECK_UINT(store_table_stats(t)->rows, 3);
		CHECK_UINT(store_table_stats(t)->pushes, 1);
		for (unsigned row = 1; row < N; row++) {
			const store_row handle = find_one(t, keys[row], STORE_LOOK);

			tensor_convert_row(expected, kinds[i].dtype, values[row], kinds[i].values, DIM, scratch);
			store_read(t, handle, keys[row], kinds[i].dtype, is);
			CHECK_MEM(is, expected, dtype_row_bytes(kinds[i].dtype, DIM));
		}
		/* By way of float32, the master keeps what the stored type does not. */
		if (store_table_spec(t)->master) {
			store_read(t, find_one(t, 9, STORE_LOOK), 9, STAR_FLOAT32, is);
			CHECK_MEM(is, values[3], DIM * sizeof(float));
		}
		if (kinds[i].optimizer == OPTIM_ADAGRAD)
			CHECK_NEAR(slots_of(t, find_one(t, 7, STORE_LOOK))[DIM - 1], 0.125, 0);
		if (version)
			CHECK_UINT(store_version(t, find_one(t, 7, STORE_LOOK)), version + 1); /* named twice */
		store_push_destroy(p);
		fixture_close(&f);
	}
}

void assigned_values_must_be_finite(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", 2, OPTIM_SGD),
			   *clips = table_with(&f, "c", 2, OPTIM_SGD, STAR_FLOAT32, "nonfinite=clip");
	struct store_push *p = open_push(8, 64);
	const float values[] = { 1, 2, 3, -INFINITY };
	const uint64_t keys[] = { 1, 2 };
	float before[2];

	store_read(t, find_one(t, 1, STORE_PULL), 1, STAR_FLOAT32, before);
	store_push_begin(p);
	store_push_assign(p, t, 2);
	CHECK_INT(add_keys(p, t, keys, 2, 2), 0);
	CHECK_INT(look_at(p, t, values, STAR_FLOAT32, 8, 2, 2), -EDOM);
	store_push_begin(p);
	CHECK_MEM(values_of(t, find_one(t, 1, STORE_LOOK)), before, sizeof(before));
	CHECK_UINT(store_table_stats(t)->nonfinite, 1);
	assign_all(p, clips, keys, 2, values, STAR_FLOAT32, 8);
	CHECK_NEAR(values_of(clips, find_one(clips, 1, STORE_LOOK))[1], 2, 0);
	CHECK_NEAR(values_of(clips, find_one(clips, 2, STORE_LOOK))[1], -FLT_MAX, 0);
	store_push_destroy(p);
	fixture_close(&f);
}

/* Every type at both ends of what a row may have, and at each of its alignments. */
void rows_of_all_sizes(void)
{
	static const unsigned types[] = { STAR_FLOAT32, STAR_FLOAT16, STAR_BFLOAT16, STAR_FLOAT64, STAR_SCALED_INT8 };
	static const uint32_t dims[] = { 1, 2, 3, 5, 64, WIRE_DIM_MAX };
	static const char *const options[] = { "", "versions=1",
					       "versions=1, steps_to_live=9, rows_max=100000, full=evict_lfu" };
	static float gradient[WIRE_DIM_MAX], before[WIRE_DIM_MAX], after[WIRE_DIM_MAX];

	for (unsigned e = 0; e < WIRE_DIM_MAX; e++)
		gradient[e] = 1;
	for (unsigned i = 0; i < 5 * 6 * 3; i++) {
		struct fixture f = fixture_open(4 << 20);
		const uint32_t dim = dims[i / 5 % 6];
		struct store_table *t = table_with(&f, "t", dim, OPTIM_ADAM, types[i % 5], options[i / 30]);

		for (uint64_t key = 0; key < 20; key++)
			find_one(t, key, STORE_PULL);
		for (uint64_t key = 0; key < 20; key++) {
			const store_row row = find_one(t, key, STORE_LOOK);

			CHECK_UINT((uintptr_t)store_values(t, row, types[i % 5]) % dtype_alignment(types[i % 5]), 0);
			CHECK_UINT((uintptr_t)store_slots(t, row) % (types[i % 5] == STAR_FLOAT64 ? 8 : 4), 0);
			store_read(t, row, key, STAR_FLOAT32, before);
			push_one(t, key, gradient, 0.5f);
			store_read(t, row, key, STAR_FLOAT32, after);
			/* Adam's first step is the rate. */
			for (uint32_t e = 0; e < dim; e++)
				if (!CHECK_NEAR(after[e], before[e] - 0.5, 0.01))
					break;
			store_read(t, find_one(t, key ^ 1, STORE_LOOK), key ^ 1, STAR_FLOAT32, after);
			store_read(t, STORE_NO_ROW, key ^ 1, STAR_FLOAT32, before);
			for (uint32_t e = 0; e < dim && key % 2 == 0; e++)
				if (!CHECK_NEAR(after[e], before[e], 0))
					break;
		}
		fixture_close(&f);
	}
}
