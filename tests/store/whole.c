/* SPDX-License-Identifier: BSD-3-Clause */
/* Effects of a push besides applying rows: non-finite gradients, rates by step and staleness, norms and LAMB over a
 * variable. */
#include "tests/store/cases.h"

#include <errno.h>
#include <stdlib.h>

#include "base/prng.h"
#include "optim/optim.h"

static const struct store_push_step plain_step = { .has_rate = true, .rate = 1 };

void non_finite_gradients_are_refused(void)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY };
	static const unsigned types[] = { STAR_FLOAT32, STAR_FLOAT16, STAR_FLOAT64 };

	for (unsigned i = 0; i < 9; i++) {
		struct fixture f = fixture_open(1 << 20);
		struct store_table *t =
			table_with(&f, "t", 3, OPTIM_SGD, i / 3 == 2 ? STAR_FLOAT64 : STAR_FLOAT32, "nonfinite=refuse");
		struct store_push *p = open_push(8, 8 * 24);
		const uint64_t keys[3] = { 1, 2, 1 };
		float plain[3][3] = { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, bad[i % 3] } }, scratch[3];
		double rows[3][3], before[3], after[3];

		for (unsigned r = 0; r < 3; r++)
			tensor_convert_row(rows[r], types[i / 3], plain[r], STAR_FLOAT32, 3, scratch);
		CHECK(store_push_needs_look(t));
		store_push_begin(p);
		store_push_op(p, t, 3);
		CHECK_INT(add_keys(p, t, keys, 3, 2), 0);
		CHECK_INT(look_at(p, t, rows, types[i / 3], sizeof(rows[0]), 3, 2), -EDOM);
		CHECK_UINT(store_table_stats(t)->nonfinite, 1);
		store_push_begin(p);
		store_read(t, STORE_NO_ROW, 1, STAR_FLOAT64, before);
		store_read(t, find_one(t, 1, STORE_LOOK), 1, STAR_FLOAT64, after);
		CHECK_MEM(after, before, sizeof(after));
		CHECK_UINT(store_table_stats(t)->pushes, 0);
		store_push_destroy(p);
		fixture_close(&f);
	}
}

void non_finite_gradients_are_clipped_or_passed(void)
{
	for (unsigned wide = 0; wide < 2; wide++)
		for (unsigned pass = 0; pass < 2; pass++) {
			struct fixture f = fixture_open(1 << 20);
			struct store_table *t = table_with(&f, "t", 3, OPTIM_SGD, wide ? STAR_FLOAT64 : STAR_FLOAT32,
							   pass ? "nonfinite=pass" : "nonfinite=clip");
			struct store_push *p = open_push(8, 8 * 12);
			const uint64_t keys[3] = { 1, 2, 1 };
			const float gradients[3][3] = { { 1, NAN, 3 }, { 4, 5, 6 }, { 7, 8, -INFINITY } };
			double first[3], one[3], two[3];

			CHECK(!store_push_needs_look(t));
			store_push_begin(p);
			store_push_op(p, t, 3);
			CHECK_INT(add_keys(p, t, keys, 3, 2), 0);
			add_rows(p, t, gradients, STAR_FLOAT32, sizeof(gradients[0]), 3, 2, &plain_step);
			CHECK_UINT(store_table_stats(t)->nonfinite, 2);
			store_read(t, STORE_NO_ROW, 1, STAR_FLOAT64, first);
			store_read(t, find_one(t, 1, STORE_LOOK), 1, STAR_FLOAT64, one);
			store_read(t, find_one(t, 2, STORE_LOOK), 2, STAR_FLOAT64, two);
			CHECK_NEAR(one[0], first[0] - 8, 1e-5);
			if (pass) {
				CHECK(isnan(one[1]) && one[2] == INFINITY);
			} else {
				CHECK_NEAR(one[1], first[1] - 8, 1e-5);
				CHECK(isfinite(one[2]) && one[2] > 3e38);
			}
			CHECK(isfinite(two[0]) && isfinite(two[2]));
			store_push_destroy(p);
			fixture_close(&f);
		}
}

/* Long rows are looked at as they are applied: each bad gradient counts once, and changes what it would. */
void long_non_finite_gradients_are_counted(void)
{
	enum { LONG = 1500, KEYS = 6 };
	static const char *const options[] = { "nonfinite=pass", "nonfinite=pass, clip_value=100",
					       "nonfinite=pass, versions=1" };
	static float gradients[KEYS][LONG];
	const uint64_t keys[KEYS] = { 1, 2, 3, 4, 5, 5 };
	float *const bad[] = { &gradients[0][0], &gradients[2][LONG / 2], &gradients[3][LONG - 1], &gradients[5][7] };

	for (unsigned i = 0; i < KEYS * LONG; i++)
		gradients[i / LONG][i % LONG] = (float)(i % 7);
	for (unsigned i = 0; i < 4; i++)
		*bad[i] = i == 1 ? INFINITY : NAN;
	for (unsigned i = 0; i < 3; i++) {
		struct fixture f = fixture_open(4 << 20);
		struct store_table *t = table_with(&f, "t", LONG, OPTIM_SGD, STAR_FLOAT32, options[i]);
		struct store_push *p = open_push(KEYS, sizeof(gradients));
		static float first[LONG];

		store_push_begin(p);
		store_push_op(p, t, KEYS);
		CHECK_INT(add_keys(p, t, keys, KEYS, 2), 0);
		add_rows(p, t, gradients, STAR_FLOAT32, sizeof(gradients[0]), KEYS, 2, &plain_step);
		CHECK_UINT(store_table_stats(t)->nonfinite, 4);
		for (unsigned k = 0; k < 4; k++) {
			const float *values = values_of(t, find_one(t, keys[k], STORE_LOOK));

			store_initial(t, keys[k], first);
			for (unsigned e = 0; e < LONG; e++)
				if (isfinite(gradients[k][e]) ? !CHECK_NEAR(values[e], first[e] - gradients[k][e], 1e-5)
				    : isnan(gradients[k][e])
					    ? !CHECK(isnan(values[e]))
					    : !CHECK(values[e] == (i == 1 ? first[e] - 100 : -INFINITY)))
					break;
		}
		CHECK(isnan(values_of(t, find_one(t, 5, STORE_LOOK))[7]));
		store_push_destroy(p);
		fixture_close(&f);
	}
}

/* A push of one key at a step; returns by how much its gradient of 1 lowered the value. */
static double push_at(struct store_table *t, struct store_push *p, const struct store_push_step *step)
{
	const uint64_t key = 1;
	const float gradient = 1;
	const double before = *values_of(t, find_one(t, key, STORE_PULL));

	store_push_begin(p);
	store_push_op(p, t, 1);
	CHECK_INT(store_push_keys(p, t, &key, 1, step->step), 0);
	add_rows(p, t, &gradient, STAR_FLOAT32, sizeof(gradient), 1, 1, step);
	return before - (double)*values_of(t, find_one(t, key, STORE_LOOK));
}

void rates_follow_step_and_staleness(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_push *p = open_push(8, 64);
	struct store_table *t = table_with(&f, "t", 1, OPTIM_SGD, STAR_FLOAT32,
					   "rate=0.5, schedule=cosine, schedule_steps=100, schedule_rate=0, "
					   "warmup_steps=4, initializer=zeros, scale=0");
	struct store_table *u =
		table_with(&f, "u", 1, OPTIM_SGD, STAR_FLOAT32, "staleness=1, initializer=zeros, scale=0");

	CHECK_NEAR(push_at(t, p, &(struct store_push_step){ .step = 1 }), 0.125, 1e-6);
	CHECK_NEAR(push_at(t, p, &(struct store_push_step){ .step = 4 }), 0.5, 1e-6);
	CHECK_NEAR(push_at(t, p, &(struct store_push_step){ .step = 55 }), 0.25, 1e-6);
	CHECK_NEAR(push_at(t, p, &(struct store_push_step){ .step = 55, .has_rate = true, .rate = 2 }), 1, 1e-6);
	CHECK_NEAR(push_at(t, p,
			   &(struct store_push_step){
				   .step = 55, .has_rate = true, .rate = 2, .has_scale = true, .scale = 0.5f }),
		   0.5, 1e-6);
	CHECK_NEAR(push_at(t, p, &(struct store_push_step){ .step = 1000 }), 0, 0);
	/* A push without a step counts as the next of the table: this is the seventh. */
	CHECK_NEAR(push_at(t, p, &(struct store_push_step){ .has_rate = true, .rate = 2 }),
		   2 * (1 + cos(M_PI * 2 / 100)) / 2, 1e-5);

	for (unsigned i = 0; i < 10; i++)
		CHECK_NEAR(push_at(u, p, &(struct store_push_step){ .has_rate = true, .rate = 1 }), 1, 1e-5);
	CHECK_UINT(store_table_stats(u)->pushes, 10);
	CHECK_NEAR(push_at(u, p,
			   &(struct store_push_step){
				   .has_rate = true, .rate = 1, .has_version = true, .version = 10 }),
		   1, 1e-5);
	CHECK_NEAR(push_at(u, p,
			   &(struct store_push_step){ .has_rate = true, .rate = 1, .has_version = true, .version = 9 }),
		   0.5, 1e-5);
	CHECK_NEAR(push_at(u, p,
			   &(struct store_push_step){ .has_rate = true, .rate = 1, .has_version = true, .version = 4 }),
		   0.125, 1e-5);
	/* A pull of an object that nobody had pushed to is as good as any; no pull at all is something else. */
	CHECK_NEAR(push_at(u, p, &(struct store_push_step){ .has_version = true, .version = 0 }), 0.1 / 13, 1e-5);
	/* One from the future is a mistake of its sender, and not stale. */
	CHECK_NEAR(push_at(u, p,
			   &(struct store_push_step){
				   .has_rate = true, .rate = 1, .has_version = true, .version = 1000 }),
		   1, 1e-5);
	store_push_destroy(p);
	fixture_close(&f);
}

/* A push that comes in parts is one: for its rate, its staleness, and the count. */
void parts_are_applied_as_one_push(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_push *p = open_push(8, 64);
	struct store_table *t = table_with(&f, "t", 1, OPTIM_SGD, STAR_FLOAT32,
					   "rate=1, staleness=1, schedule=exponential, schedule_steps=1, "
					   "schedule_rate=0.5, initializer=zeros, scale=0");

	for (unsigned push = 0; push < 4; push++)
		for (unsigned part = 0; part < 5; part++) {
			const struct store_push_step step = { .has_version = true, .version = 0, .more = part < 4 };

			CHECK_NEAR(push_at(t, p, &step), pow(0.5, push) / (push ? push : 1), 1e-6);
			CHECK_UINT(store_table_stats(t)->pushes, push + part / 4);
		}
	store_push_destroy(p);
	fixture_close(&f);
}

void zero_is_a_rate_and_a_scale(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_push *p = open_push(8, 64);
	struct store_table *t = table_with(&f, "t", 1, OPTIM_SGD, STAR_FLOAT32, "rate=0.5, initializer=zeros, scale=0");

	CHECK_NEAR(push_at(t, p, &(struct store_push_step){ .has_rate = true }), 0, 0);
	CHECK_NEAR(push_at(t, p, &(struct store_push_step){ .has_scale = true }), 0, 0);
	CHECK_NEAR(push_at(t, p, &(struct store_push_step){ 0 }), 0.5, 0);
	store_push_destroy(p);
	fixture_close(&f);
}

enum { ROWS = 7, COLUMNS = 600 }; /* 600 elements a block: one row each */

static struct object_spec variable_spec(unsigned optimizer, unsigned dtype, const char *options)
{
	struct object_spec spec = spec_of("v", 0, optimizer);
	struct star_error err = { 0 };

	spec.kind = OBJECT_VARIABLE;
	spec.dtype = (uint8_t)dtype;
	spec.ndim = 2;
	spec.shape[0] = ROWS;
	spec.shape[1] = COLUMNS;
	spec.whole = 1;
	if (wire_object_spec_options(&spec, options, &err) < 0)
		unit_fail(__FILE__, __LINE__, "no options: %s", err.text);
	return spec;
}

/* The norm is that of the rows' sums, whatever the slices; scale comes first. */
void gradients_are_clipped_by_their_norm(void)
{
	for (unsigned i = 0; i < 12; i++) {
		struct fixture f = fixture_open(1 << 20);
		const bool wide = i % 3 == 2;
		const unsigned type = i % 3 == 1 ? STAR_BFLOAT16 : STAR_FLOAT32;
		struct object_spec spec = variable_spec(OPTIM_SGD, wide ? STAR_FLOAT64 : STAR_FLOAT32,
							"clip_global_norm=2, rate=1, initializer=zeros, scale=0");
		struct store_table *t = table_from(&f, &spec);
		struct store_push *p = open_push(ROWS + 2, (ROWS + 2) * COLUMNS * 4);
		const uint64_t keys[ROWS + 2] = { 0, 1, 2, 3, 4, 5, 6, 2, 2 };
		const unsigned n = i < 6 ? ROWS : ROWS + 2, slice = 1 + i % 4;
		const double scale = i % 2 ? 0.5 : 1;
		static double rows[ROWS + 2][COLUMNS];
		double squares = 0, factor, values[COLUMNS], plain[ROWS] = { 0 };

		for (unsigned r = 0; r < n; r++) {
			float g[COLUMNS], scratch[COLUMNS];

			for (unsigned e = 0; e < COLUMNS; e++)
				g[e] = 0.125f * (float)(r + 1);
			plain[keys[r]] += (double)g[0];
			tensor_convert_row(rows[r], type, g, STAR_FLOAT32, COLUMNS, scratch);
		}
		for (unsigned r = 0; r < ROWS; r++)
			squares += COLUMNS * plain[r] * plain[r] * scale * scale;
		factor = 2 / sqrt(squares) * scale;
		CHECK(store_push_needs_look(t));
		store_push_begin(p);
		store_push_op(p, t, n);
		CHECK_INT(add_keys(p, t, keys, n, slice), 0);
		CHECK_INT(look_at(p, t, rows, type, sizeof(rows[0]), n, slice), 0);
		add_rows(p, t, rows, type, sizeof(rows[0]), n, slice,
			 &(struct store_push_step){ .has_scale = true, .scale = (float)scale });
		for (unsigned r = 0; r < ROWS; r++) {
			store_read(t, find_one(t, r, STORE_LOOK), r, STAR_FLOAT64, values);
			for (unsigned e = 0; e < COLUMNS; e++)
				if (!CHECK_NEAR(values[e], -plain[r] * factor, 1e-6 * plain[r]))
					break;
			CHECK_UINT(store_version(t, find_one(t, r, STORE_LOOK)), 2);
		}
		/* A short one is left as it is. */
		for (unsigned r = 0; r < ROWS; r++)
			memset(rows[r], 0, sizeof(rows[r]));
		store_push_begin(p);
		store_push_op(p, t, ROWS);
		CHECK_INT(add_keys(p, t, keys, ROWS, 4), 0);
		((float *)rows[3])[5] = 1.5f;
		CHECK_INT(look_at(p, t, rows, STAR_FLOAT32, sizeof(rows[0]), ROWS, slice), 0);
		store_read(t, find_one(t, 3, STORE_LOOK), 3, STAR_FLOAT64, values);
		factor = values[5];
		add_rows(p, t, rows, STAR_FLOAT32, sizeof(rows[0]), ROWS, slice, NULL);
		store_read(t, find_one(t, 3, STORE_LOOK), 3, STAR_FLOAT64, values);
		CHECK_NEAR(values[5], factor - 1.5, 1e-6);
		store_push_destroy(p);
		fixture_close(&f);
	}
}

/* A gradient that is looked at and then applied counts once. */
void clipped_gradients_count_once(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct object_spec spec = variable_spec(OPTIM_SGD, STAR_FLOAT32, "clip_global_norm=2, nonfinite=clip");
	struct store_table *t = table_from(&f, &spec);
	struct store_push *p = open_push(4, 4 * COLUMNS * 4);
	const uint64_t keys[4] = { 0, 1, 2, 1 };
	static float rows[4][COLUMNS];

	memset(rows, 0, sizeof(rows));
	rows[0][5] = rows[1][6] = rows[3][7] = NAN;
	store_push_begin(p);
	store_push_op(p, t, 4);
	CHECK_INT(add_keys(p, t, keys, 4, 4), 0);
	CHECK_INT(look_at(p, t, rows, STAR_FLOAT32, sizeof(rows[0]), 4, 3), 0);
	add_rows(p, t, rows, STAR_FLOAT32, sizeof(rows[0]), 4, 4, NULL);
	CHECK_UINT(store_table_stats(t)->nonfinite, 3);
	store_push_destroy(p);
	fixture_close(&f);
}

/* A variable worked on by the scalar kernels in plain arrays: of double, or of float. */
struct plain {
	struct optim optim;
	bool wide;
	double values[ROWS][COLUMNS], slots[ROWS][2 * COLUMNS];
};

static void plain_lamb(struct plain *m, const void *gradients, const struct optim_step *step, uint32_t updates)
{
	double norms[2] = { 0, 0 };

	for (unsigned i = 0; i < ROWS; i++)
		if (m->wide)
			optim_lamb_moments64(&m->optim, step, m->values[i], m->slots[i],
					     (const double *)gradients + i * COLUMNS, COLUMNS, updates, norms);
		else
			optim_lamb_moments(&m->optim, step, (float *)m->values[i], (float *)m->slots[i],
					   (const float *)gradients + i * COLUMNS, COLUMNS, updates, norms);
	for (unsigned i = 0; i < ROWS; i++)
		if (m->wide)
			optim_lamb_apply64(&m->optim, step, m->values[i], m->slots[i], COLUMNS, updates, norms);
		else
			optim_lamb_apply(&m->optim, step, (float *)m->values[i], (float *)m->slots[i], COLUMNS, updates,
					 norms);
}

/* LAMB in slices against the kernels called on plain arrays: the same bits. */
static void lamb_is_lamb(unsigned dtype, const char *options)
{
	struct fixture f = fixture_open(2 << 20);
	const struct object_spec spec = variable_spec(OPTIM_LAMB, dtype, options);
	struct store_table *t = table_from(&f, &spec);
	struct store_push *p = open_push(ROWS, ROWS * COLUMNS * 8);
	const bool wide = dtype == STAR_FLOAT64;
	const unsigned type = wide ? STAR_FLOAT64 : STAR_FLOAT32;
	const size_t width = wide ? sizeof(double) : sizeof(float);
	static struct plain m;
	static double gradients[ROWS * COLUMNS], got[COLUMNS];
	uint64_t keys[ROWS];
	float row[COLUMNS];
	struct prng r;

	prng_seed(&r, dtype);
	memset(&m, 0, sizeof(m));
	m.wide = wide;
	CHECK_INT(optim_init(&m.optim, &spec.optim, OPTIM_SCALAR), 0);
	for (uint64_t key = 0; key < ROWS; key++) {
		keys[key] = key;
		store_initial(t, key, row);
		tensor_convert_row(m.values[key], type, row, STAR_FLOAT32, COLUMNS, row);
	}
	for (unsigned push = 1; push <= 5; push++) {
		const struct optim_step step = { .rate = 0.1f, .scale = 1, .count = push };
		const unsigned slice = 1 + push % 4;
		unsigned calls = 1;

		for (unsigned i = 0; i < ROWS * COLUMNS; i++)
			if (wide)
				gradients[i] = 2 * prng_unit(&r) - 1;
			else
				((float *)gradients)[i] = (float)(2 * prng_unit(&r) - 1);
		plain_lamb(&m, gradients, &step, push);
		store_push_begin(p);
		store_push_op(p, t, ROWS);
		CHECK_INT(add_keys(p, t, keys, ROWS, slice), 0);
		CHECK_INT(look_at(p, t, gradients, type, COLUMNS * width, ROWS, slice), 0);
		store_push_step(p, t, &(struct store_push_step){ .has_rate = true, .rate = 0.1f });
		for (unsigned i = 0; i < ROWS; i++)
			store_push_rows(p, t, &(const void *){ (const char *)gradients + i * COLUMNS * width }, type,
					1);
		/* Nobody sees a value move before all moments are there; then a slice at a time does. */
		CHECK_UINT(store_version(t, find_one(t, 0, STORE_LOOK)), push);
		while (!store_push_finish(p, t, 2))
			calls++;
		CHECK_UINT(calls, (ROWS + 1) / 2);
		CHECK_UINT(store_version(t, find_one(t, ROWS - 1, STORE_LOOK)), push + 1);
		CHECK_UINT(store_table_stats(t)->pushes, push);
		for (uint64_t key = 0; key < ROWS; key++) {
			const store_row at = find_one(t, key, STORE_LOOK);

			store_read(t, at, key, type, got);
			CHECK_MEM(got, m.values[key], COLUMNS * width);
			CHECK_MEM(store_slots(t, at), m.slots[key], 2 * COLUMNS * width);
		}
	}
	store_push_destroy(p);
	fixture_close(&f);
}

void lamb_in_slices_is_lamb(void)
{
	lamb_is_lamb(STAR_FLOAT32, "");
	lamb_is_lamb(STAR_FLOAT32, "weight_decay=0.01, trust_max=0.9");
	lamb_is_lamb(STAR_FLOAT16, "master=1");
	lamb_is_lamb(STAR_FLOAT64, "");
}
