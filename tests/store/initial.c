/* SPDX-License-Identifier: BSD-3-Clause */
/* First values. */
#include "tests/store/cases.h"

#include <stdlib.h>

#include "base/prng.h"
#include "store/initial.h"

/* From the authors' Random123 library, kat_vectors. */
void philox_known_answers(void)
{
	const struct {
		uint32_t counter[4], key[2], words[4];
	} cases[] = {
		{ { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
		{ { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
		  { 0xffffffff, 0xffffffff },
		  { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
		{ { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
		  { 0xa4093822, 0x299f31d0 },
		  { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
	};
	uint32_t words[4];

	for (unsigned i = 0; i < 3; i++) {
		initial_philox(cases[i].counter, cases[i].key, words);
		CHECK_MEM(words, cases[i].words, sizeof(words));
	}
}

void log_and_sine_are_near_the_libraries(void)
{
	const uint32_t corners[] = {
		0, 1, 1u << 29, (1u << 29) - 1, 1u << 30, 3u << 29, 1u << 31, 7u << 29, UINT32_MAX
	};
	double sine, cosine;
	struct prng p;

	prng_seed(&p, 5);
	for (unsigned i = 0; i < 200000; i++) {
		const uint32_t turn = i < 9 ? corners[i] : (uint32_t)prng_next(&p);
		const double x = ((double)(i % 2 ? turn : turn >> (i % 32)) + 1) * 0x1p-32;

		CHECK_NEAR(initial_log(x), log(x), 1e-13);
		initial_sincos(turn, &sine, &cosine);
		CHECK_NEAR(sine, sin(turn * 0x1p-32 * 2 * M_PI), 1e-13);
		CHECK_NEAR(cosine, cos(turn * 0x1p-32 * 2 * M_PI), 1e-13);
	}
	CHECK_NEAR(initial_log(1), 0, 0);
}

static struct store_table *initialized(struct fixture *f, const char *name, uint32_t dim, unsigned initializer,
				       float scale, uint64_t seed)
{
	struct object_spec spec = spec_of(name, dim, OBJECT_ADAGRAD);
	struct star_error err = { 0 };
	struct store_table *t;

	spec.initializer = (uint8_t)initializer;
	spec.scale = scale;
	spec.seed = seed;
	t = store_table_create(f->store, &spec, &err);
	if (!t)
		unit_fail(__FILE__, __LINE__, "no table: %s", err.text);
	return t;
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
		CHECK_MEM(store_values(t, find_one(t, cases[i].key, 1)), values, sizeof(values));
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
		find_one(ta, key, 1);
	for (uint64_t key = 0; key < KEYS; key += 60) {
		for (unsigned i = 0; i < 60; i++)
			keys[i] = KEYS - 1 - key - i;
		store_find(other, keys, 60, 1, rows);
		store_find(tb, keys, 60, 1, rows);
	}
	for (uint64_t key = 0; key < KEYS; key++)
		CHECK_MEM(store_values(ta, find_one(ta, key, 0)), store_values(tb, find_one(tb, key, 0)),
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
		struct store_table *t = initialized(&f, "t", 5, kinds[k], -3, 0);
		const store_row row = find_one(t, 42, 1);

		for (unsigned e = 0; e < 5; e++) {
			CHECK_NEAR(store_slots(t, row)[e], 0.125, 0);
			if (k < 2)
				CHECK_NEAR(store_values(t, row)[e], k ? -3 : 0, 0);
		}
		CHECK(store_slots(table_of(&f, "plain", 5, OBJECT_SGD), 0) == NULL);
		fixture_close(&f);
	}
}
