/* SPDX-License-Identifier: BSD-3-Clause */
/* First values. */
#include "tests/store/cases.h"

#include <stdlib.h>

#include "store/initial.h"

static struct store_table *initialized(struct fixture *f, const char *name, uint32_t dim, unsigned initializer,
				       float scale, uint64_t seed)
{
	struct object_spec spec = spec_of(name, dim, OPTIM_ADAGRAD);

	spec.initializer = (uint8_t)initializer;
	spec.scale = scale;
	spec.seed = seed;
	return table_from(f, &spec);
}

/* Frozen: a later version that computes others would mix two initializations in one model. */
void initial_values_are_golden(void)
{
	const struct {
		unsigned initializer;
		uint64_t seed, key;
		float values[6];
	} cases[] = {
		{ OBJECT_UNIFORM,
		  0,
		  0,
		  { 0x1.ba4f14p-6f, -0x1.2cc66ep-5f, -0x1.7e4fb4p-5f, -0x1.6ee0cp-7f, 0x1.2c1d4ep-6f, 0x1.7c478p-8f } },
		{ OBJECT_UNIFORM,
		  UINT64_MAX,
		  UINT64_C(0x8000000000000001),
		  { 0x1.30d4d4p-5f, -0x1.74173ap-5f, -0x1.d0cdd4p-6f, 0x1.8fe716p-5f, -0x1.060faap-5f,
		    -0x1.1116cp-7f } },
		{ OBJECT_NORMAL,
		  0,
		  0,
		  { 0x1.8db434p-6f, 0x1.b6f7ap-6f, -0x1.9760b6p-4f, 0x1.598f56p-4f, -0x1.4e0cf4p-5f,
		    -0x1.fdf644p-7f } },
		{ OBJECT_NORMAL,
		  7,
		  UINT64_MAX,
		  { -0x1.0f6e5cp-4f, -0x1.bb0b5ap-9f, 0x1.50f01cp-5f, 0x1.a4c6a4p-5f, -0x1.afe5eep-5f,
		    -0x1.69629p-5f } },
	};
	float values[6];

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture f = fixture_open(1 << 20);
		struct store_table *t = initialized(&f, "golden", 6, cases[i].initializer, 0.05f, cases[i].seed);

		store_initial(t, cases[i].key, values);
		for (unsigned e = 0; e < 6; e++)
			if (values[e] != cases[i].values[e])
				unit_fail(__FILE__, __LINE__, "case %u: element %u is %a, not %a", i, e, values[e],
					  cases[i].values[e]);
		CHECK_MEM(values_of(t, find_one(t, cases[i].key, STORE_PULL)), values, sizeof(values));
		fixture_close(&f);
	}
}

void initial_values_do_not_depend_on_order(void)
{
	enum { KEYS = 3000, DIM = 7 };
	struct fixture a = fixture_open(4 << 20), b = fixture_open(4 << 20);
	struct store_table *other, *ta, *tb;
	uint64_t keys[STORE_BATCH];
	store_row rows[STORE_BATCH];

	ta = initialized(&a, "t", DIM, OBJECT_NORMAL, 1, 9);
	other = initialized(&b, "other", DIM, OBJECT_NORMAL, 1, 9);
	tb = initialized(&b, "t", DIM, OBJECT_NORMAL, 1, 9);
	for (uint64_t key = 0; key < KEYS; key++)
		find_one(ta, key, STORE_PULL);
	for (uint64_t key = 0; key < KEYS; key += 60) {
		for (unsigned i = 0; i < 60; i++)
			keys[i] = KEYS - 1 - key - i;
		store_find(other, keys, 60, STORE_PULL, 0, rows);
		store_find(tb, keys, 60, STORE_PULL, 0, rows);
	}
	for (uint64_t key = 0; key < KEYS; key++)
		CHECK_MEM(values_of(ta, find_one(ta, key, STORE_LOOK)), values_of(tb, find_one(tb, key, STORE_LOOK)),
			  DIM * sizeof(float));
	fixture_close(&a);
	fixture_close(&b);
}

void initial_values_differ_by_everything(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *tables[3] = { initialized(&f, "a", 8, OBJECT_UNIFORM, 1, 1),
					  initialized(&f, "b", 8, OBJECT_UNIFORM, 1, 1),
					  initialized(&f, "a2", 8, OBJECT_UNIFORM, 1, 2) };
	const uint64_t keys[] = { 0, 1, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX };
	float values[15][8];

	for (unsigned i = 0; i < 15; i++) {
		store_initial(tables[i / 5], keys[i % 5], values[i]);
		for (unsigned e = 0; e < 8; e++) {
			CHECK(values[i][e] >= -1 && values[i][e] < 1);
			for (unsigned j = 0; j < i; j++)
				CHECK(values[j][e] != values[i][e]);
			for (unsigned j = 0; j < e; j++)
				CHECK(values[i][j] != values[i][e]);
		}
	}
	fixture_close(&f);
}

void moments_of_uniform_and_normal(void)
{
	enum { KEYS = 20000, DIM = 10 };
	const double n = (double)KEYS * DIM;
	float values[DIM];

	for (unsigned k = OBJECT_UNIFORM; k <= OBJECT_NORMAL; k++) {
		struct fixture f = fixture_open(1 << 20);
		struct store_table *t = initialized(&f, "t", DIM, k, 2, 4);
		double m1 = 0, m2 = 0, m3 = 0, m4 = 0, neighbours = 0;

		for (uint64_t key = 0; key < KEYS; key++) {
			store_initial(t, key, values);
			for (unsigned e = 0; e < DIM; e++) {
				const double x = values[e] / 2.0;

				CHECK(isfinite(values[e]));
				if (k == OBJECT_UNIFORM)
					CHECK(x >= -1 && x < 1);
				m1 += x / n;
				m2 += x * x / n;
				m3 += x * x * x / n;
				m4 += x * x * x * x / n;
				neighbours += e ? x * values[e - 1] / 2.0 / n : 0;
			}
		}
		/* Five standard deviations of the estimates, and more. */
		CHECK_NEAR(m1, 0, 0.012);
		CHECK_NEAR(m2, k == OBJECT_UNIFORM ? 1.0 / 3 : 1, 0.02);
		CHECK_NEAR(m3, 0, 0.05);
		CHECK_NEAR(m4, k == OBJECT_UNIFORM ? 1.0 / 5 : 3, 0.12);
		CHECK_NEAR(neighbours, 0, 0.012);
		fixture_close(&f);
	}
}

void slots_have_their_own_first_value(void)
{
	const unsigned kinds[] = { OBJECT_ZEROS, OBJECT_CONSTANT, OBJECT_UNIFORM, OBJECT_NORMAL };

	for (unsigned k = 0; k < 4; k++) {
		struct fixture f = fixture_open(1 << 20);
		struct store_table *t = initialized(&f, "t", 5, kinds[k], k ? -3 : 0, 0);
		const store_row row = find_one(t, 42, STORE_PULL);

		for (unsigned e = 0; e < 5; e++) {
			CHECK_NEAR(slots_of(t, row)[e], 0.125, 0);
			if (k < 2)
				CHECK_NEAR(values_of(t, row)[e], k ? -3 : 0, 0);
		}
		CHECK(slots_of(table_of(&f, "plain", 5, OPTIM_SGD), 0) == NULL);
		fixture_close(&f);
	}
}

/* The moments of each kind, as its name has them. */
void truncated_and_scaled_initializers(void)
{
	enum { KEYS = 4000, DIM = 30 };
	static const struct {
		unsigned initializer;
		double scale, mean, deviation, most;
	} kinds[] = {
		{ OBJECT_ONES, 0, 1, 0, 0 },
		{ OBJECT_UNIFORM, 0.5, 2, 0.288675, 0.5 },
		{ OBJECT_NORMAL, 0.5, -2, 0.5, 3 },
		{ OBJECT_TRUNCATED_NORMAL, 0.5, 0.25, 0.439813, 1 },
		{ OBJECT_GLOROT_UNIFORM, 0, 0, 0.254000, 0.439941 }, /* sqrt(6 / 31) */
		{ OBJECT_GLOROT_NORMAL, 0, 0, 0.254000, 0.577520 },  /* two of sqrt(2 / 31) / 0.87963 */
		{ OBJECT_HE_UNIFORM, 0, 0, 1.414214, 2.449490 },
		{ OBJECT_HE_NORMAL, 0, 0, 1.414214, 3.215489 },
	};
	const double n = (double)KEYS * DIM;

	for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		struct fixture f = fixture_open(1 << 20);
		struct object_spec spec = spec_of("t", DIM, OPTIM_SGD);
		double sum = 0, squares = 0, most = 0;
		struct store_table *t;

		spec.initializer = (uint8_t)kinds[k].initializer;
		spec.scale = (float)kinds[k].scale;
		spec.mean = kinds[k].scale > 0 ? (float)kinds[k].mean : 0;
		t = table_from(&f, &spec);
		for (uint64_t key = 0; key < KEYS; key++) {
			float values[DIM];

			store_initial(t, key, values);
			for (unsigned e = 0; e < DIM; e++) {
				const double x = (double)values[e] - kinds[k].mean;

				sum += x / n;
				squares += x * x / n;
				most = fmax(most, fabs(x));
			}
		}
		CHECK_NEAR(sum, 0, 5 * kinds[k].deviation / sqrt(n));
		CHECK_NEAR(sqrt(squares), kinds[k].deviation, 0.01 * kinds[k].deviation);
		CHECK(most <= kinds[k].most * 1.000001);
		CHECK(kinds[k].initializer == OBJECT_NORMAL || most >= 0.999 * kinds[k].most);
		fixture_close(&f);
	}
}

/* Fans of variables, and elements beyond the last. */
void variables_end_with_zeros(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct object_spec spec = spec_of("v", 0, OPTIM_SGD);
	float values[WIRE_DIM_MAX];
	struct store_table *t;
	double most = 0;

	spec.kind = OBJECT_VARIABLE;
	spec.ndim = 3;
	spec.shape[0] = 5;
	spec.shape[1] = 30;
	spec.shape[2] = 70;
	spec.initializer = OBJECT_GLOROT_UNIFORM;
	spec.scale = 0;
	t = table_from(&f, &spec);
	for (uint64_t block = 0; block < wire_object_blocks(store_table_spec(t)) + 2; block++) {
		const uint32_t dim = store_table_spec(t)->dim;
		const store_row row = find_one(t, block, STORE_PULL);

		store_read(t, row, block, STAR_FLOAT32, values);
		CHECK_UINT(store_version(t, row), 1);
		for (uint32_t e = 0; e < dim; e++) {
			CHECK((values[e] == 0) == (block * dim + e >= 5 * 30 * 70));
			most = fmax(most, fabs((double)values[e]));
		}
	}
	CHECK_NEAR(most, sqrt(6.0 / (5 * 30 + 5 * 70)), 1e-4);
	fixture_close(&f);
}
