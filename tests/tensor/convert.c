/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows: SIMD levels, scaled rows, stochastic rounding, pairs of types. */
#include "tests/tensor/cases.h"

#include "base/prng.h"
#include "tensor/philox.h"

enum { MOST = 300, GUARD = 64, ROOM = MOST * 8 + 2 * GUARD };

static const unsigned reals[] = { STAR_FLOAT32, STAR_FLOAT16, STAR_BFLOAT16, STAR_FLOAT64, STAR_SCALED_INT8 };

/* Any float, and now and then what a SIMD unit might treat in its own way. */
static float awkward(struct prng *p)
{
	static const float special[] = { 0,	-0.0f,	   INFINITY, -INFINITY, NAN,   0x1p-149f, -0x1p-130f,
					 65520, 65519.99f, 0x1p-14f, 0x1p-25f,	3e38f, -1,	  0x1.004p-15f };
	const uint32_t draw = prng_below(p, 40);

	if (draw == 0)
		return special[prng_below(p, sizeof(special) / sizeof(special[0]))];
	if (draw == 1)
		return float_of((uint32_t)prng_next(p));
	if (draw < 20)
		return (float)(2 * prng_unit(p) - 1);
	return (float)ldexp(2 * prng_unit(p) - 1, (int)prng_below(p, 60) - 40);
}

/* One conversion of both ways and its stochastic form, at a level, into memory with guards. */
static void run_all(const struct converter *c, uint8_t out[3][ROOM], const float *row, const uint8_t *narrow,
		    unsigned n, const uint32_t key[2], uint64_t counter)
{
	memset(out, 0xa5, 3 * ROOM);
	c->to_float((float *)(out[0] + GUARD), narrow, n);
	c->from_float(out[1] + GUARD, row, n);
	if (c->from_float_stochastic)
		c->from_float_stochastic(out[2] + GUARD, row, n, key, counter);
}

/* Equal, but that the sign and payload of a NaN that a multiplication made may differ. */
static bool same_floats(const uint8_t *a, const uint8_t *b)
{
	float x, y;

	for (unsigned i = 0; i < ROOM; i += sizeof(x)) {
		memcpy(&x, a + i, sizeof(x));
		memcpy(&y, b + i, sizeof(y));
		if (bits_of(x) != bits_of(y) && !(isnan(x) && isnan(y)))
			return unit_fail(__FILE__, __LINE__, "float at byte %u: %a, not %a", i, x, y);
	}
	return true;
}

static void compare_levels(unsigned dtype, unsigned n, struct prng *p)
{
	static uint8_t expected[3][ROOM], actual[3][ROOM], bytes[ROOM];
	static float floats[ROOM / 4];
	const uint32_t key[2] = { (uint32_t)prng_next(p), (uint32_t)prng_next(p) };
	const uint64_t counter = prng_next(p);
	const unsigned shift = prng_below(p, 4); /* rows are aligned as elements are, no better */
	const unsigned end = GUARD + (unsigned)dtype_row_bytes(dtype, n);
	uint8_t *narrow = bytes + shift * dtype_alignment(dtype);
	const float *row = floats + shift;

	for (unsigned i = 0; i < ROOM / 4; i++)
		floats[i] = awkward(p);
	for (unsigned i = 0; i < ROOM; i++)
		bytes[i] = (uint8_t)prng_next(p);
	if (prng_below(p, 2)) /* a row without NaN and infinity */
		for (unsigned i = 0; i < ROOM / 4; i++)
			floats[i] = isfinite(floats[i]) ? floats[i] : 1;
	run_all(tensor_convert_find(dtype, CONVERT_SCALAR), expected, row, narrow, n, key, counter);
	for (enum convert_simd simd = CONVERT_AVX2; simd <= CONVERT_BEST; simd++) {
		if (simd < CONVERT_BEST && !level(dtype, simd))
			continue;
		run_all(tensor_convert_find(dtype, simd), actual, row, narrow, n, key, counter);
		same_floats(actual[0], expected[0]);
		CHECK_MEM(actual[1], expected[1], ROOM);
		CHECK_MEM(actual[2], expected[2], ROOM);
	}
	for (unsigned i = 0; i < 3; i++) { /* nothing is written before and beyond */
		const unsigned first = i ? end : GUARD + n * 4;

		for (unsigned j = 0; j < ROOM; j = j == GUARD - 1 ? first : j + 1)
			if (expected[i][j] != 0xa5)
				unit_fail(__FILE__, __LINE__, "type %u, n %u: byte %u of %u was written", dtype, n, j,
					  end);
	}
}

void levels_agree_on_random_rows(void)
{
	struct prng p;

	prng_seed(&p, 7);
	for (unsigned t = 0; t < 5; t++)
		for (unsigned n = 0; n <= 70; n++)
			for (unsigned round = 0; round < 12; round++)
				compare_levels(reals[t], n < 70 ? n : MOST, &p);
}

static const struct converter *scaled(void)
{
	return tensor_convert_find(STAR_SCALED_INT8, CONVERT_BEST);
}

void scaled_rows_by_hand(void)
{
	struct {
		float scale;
		int8_t q[8];
	} row;
	float back[5];

	memset(&row, 0x55, sizeof(row));
	scaled()->from_float(&row, (const float[]){ 254, -254, 1, 2.98f, 3.02f }, 5);
	CHECK_NEAR(row.scale, 2, 0);
	CHECK_MEM(row.q, ((const int8_t[]){ 127, -127, 0, 1, 2, 0, 0, 0 }), 8); /* 0.5 is a tie: to the even 0 */
	scaled()->to_float(back, &row, 5);
	CHECK_MEM(back, ((const float[]){ 254, -254, 0, 2, 4 }), sizeof(back));

	scaled()->from_float(&row, (const float[]){ 0, -0.0f }, 2);
	CHECK_NEAR(row.scale, 0, 0);
	CHECK_MEM(row.q, ((const int8_t[]){ 0, 0, 0, 0 }), 4);

	scaled()->from_float(&row, (const float[]){ 1, -INFINITY, -2 }, 3);
	CHECK(isinf(row.scale));
	scaled()->to_float(back, &row, 3);
	CHECK_MEM(back, ((const float[]){ INFINITY, -INFINITY, -INFINITY }), 12);

	scaled()->from_float(&row, (const float[]){ INFINITY, 1, NAN }, 3);
	CHECK_UINT(bits_of(row.scale), 0x7fc00000);
	scaled()->to_float(back, &row, 3);
	CHECK(isnan(back[0]) && isnan(back[1]) && isnan(back[2]));

	/* The scale of the least magnitudes is 0, and of those a little greater one step of 2^-149. */
	scaled()->from_float(&row, (const float[]){ 0x1p-149f, 0 }, 2);
	CHECK_NEAR(row.scale, 0, 0);
	CHECK_MEM(row.q, ((const int8_t[]){ 0, 0 }), 2);
	scaled()->from_float(&row, (const float[]){ 180 * 0x1p-149f, -100 * 0x1p-149f }, 2);
	CHECK_NEAR(row.scale, 0x1p-149, 0);
	CHECK_MEM(row.q, ((const int8_t[]){ 127, -100 }), 2);
}

void scaled_rows_keep_to_half_a_step(void)
{
	float row[64], back[64];
	uint32_t narrow[17];
	struct prng p;

	prng_seed(&p, 8);
	for (unsigned round = 0; round < 2000; round++) {
		float most = 0, scale;

		for (unsigned i = 0; i < 64; i++) {
			row[i] = (float)ldexp(2 * prng_unit(&p) - 1, (int)(round % 80) - 40);
			most = fabsf(row[i]) > most ? fabsf(row[i]) : most;
		}
		scaled()->from_float(narrow, row, 64);
		scaled()->to_float(back, narrow, 64);
		memcpy(&scale, narrow, sizeof(scale));
		CHECK_NEAR(scale, most / 127, 0);
		for (unsigned i = 0; i < 64; i++)
			CHECK_NEAR(back[i], row[i], 0.50001 * (double)scale);
	}
}

/* Of bfloat16 the cut off bits plus the word's upper half either carry or not. */
void stochastic_takes_its_words_from_philox(void)
{
	const uint32_t key[2] = { 0x12345678, 0x9abcdef0 };
	const uint64_t counter = UINT64_C(0xfedcba9876543210);
	uint32_t words[4];
	uint16_t out[100];
	float row[100];
	struct prng p;

	prng_seed(&p, 9);
	for (unsigned i = 0; i < 100; i++)
		row[i] = (float)(4 * prng_unit(&p) - 2);
	for (enum convert_simd simd = CONVERT_SCALAR; simd <= CONVERT_BEST; simd++) {
		if (simd < CONVERT_BEST && !level(STAR_BFLOAT16, simd))
			continue;
		tensor_convert_find(STAR_BFLOAT16, simd)->from_float_stochastic(out, row, 100, key, counter);
		for (uint32_t i = 0; i < 100; i++) {
			const uint32_t bits = bits_of(row[i]);

			philox((const uint32_t[]){ 0x76543210, 0xfedcba98, i / 4, 0 }, key, words);
			CHECK_UINT(out[i], (bits >> 16) + ((bits & 0xffff) + (words[i % 4] >> 16) > 0xffff));
		}
	}
}

/* The value that an element of the type has, out of a row of 64 equal ones but for the first, which sets the scale. */
static double mean_of(unsigned dtype, float x, unsigned draws)
{
	float row[64], back[64], low, high;
	uint64_t narrow[64];
	double sum = 0;

	for (unsigned i = 0; i < 64; i++)
		row[i] = x;
	row[0] = 100 * x;
	low = INFINITY;
	high = -INFINITY;
	for (unsigned d = 0; d < draws; d++) {
		const uint32_t key[2] = { 77, dtype };

		tensor_convert_find(dtype, CONVERT_BEST)->from_float_stochastic(narrow, row, 64, key, d);
		tensor_convert_find(dtype, CONVERT_BEST)->to_float(back, narrow, 64);
		for (unsigned i = 1; i < 64; i++) {
			sum += (double)back[i];
			low = back[i] < low ? back[i] : low;
			high = back[i] > high ? back[i] : high;
		}
	}
	/* Only the two neighbours. */
	CHECK(low <= x && x <= high);
	return (sum / (63.0 * draws) - (double)x) / ((double)high - (double)low);
}

void stochastic_is_right_on_average(void)
{
	const unsigned types[] = { STAR_FLOAT16, STAR_BFLOAT16, STAR_SCALED_INT8 };
	const float xs[] = { 1.00037f, -1.00037f, 3.14159f, 1e-6f, 0.3f, -0x1.2345p-20f };
	enum { DRAWS = 20000 };

	for (unsigned t = 0; t < 3; t++)
		for (unsigned i = 0; i < 6; i++) /* five standard deviations at most, of 63 * DRAWS draws */
			CHECK_NEAR(mean_of(types[t], xs[i], DRAWS), 0, 5 * 0.5 / sqrt(63.0 * DRAWS));
}

void stochastic_leaves_exact_numbers(void)
{
	const uint32_t key[2] = { 1, 2 };
	uint16_t exact[32], out[32];
	float row[32];
	struct prng p;

	prng_seed(&p, 10);
	for (unsigned round = 0; round < 4000; round++)
		for (unsigned dtype = STAR_FLOAT16; dtype <= STAR_BFLOAT16; dtype++) {
			for (unsigned i = 0; i < 32; i++) {
				exact[i] = (uint16_t)prng_next(&p);
				if ((exact[i] & 0x7c00) == 0x7c00)
					exact[i] &= 0x83ff;
			}
			tensor_convert_find(dtype, CONVERT_BEST)->to_float(row, exact, 32);
			tensor_convert_find(dtype, CONVERT_BEST)->from_float_stochastic(out, row, 32, key, round);
			CHECK_MEM(out, exact, sizeof(out));
		}
}

/* The least of random numbers, 0, rounds no exact value up. */
void stochastic_at_a_random_zero(void)
{
	const uint32_t key[2] = { 1, 2 };
	const uint64_t counter = 4779392; /* found by search: the upper 24 bits of its first word are 0 */
	const float rows[2][4] = { { 3, 127, -127, 3 },
				   { 3 * 0x1p-24f, 127 * 0x1p-24f, -127 * 0x1p-24f, 0x1p-24f } }; /* subnormal halves */
	uint32_t words[4];

	philox((const uint32_t[]){ (uint32_t)counter, 0, 0, 0 }, key, words);
	CHECK_UINT(words[0] >> 8, 0);
	for (unsigned dtype = STAR_FLOAT16; dtype <= STAR_SCALED_INT8; dtype++)
		for (enum convert_simd simd = CONVERT_SCALAR; simd < CONVERT_BEST; simd++) {
			float back[4], narrow[4];

			if (!dtype_is_real(dtype) || dtype == STAR_FLOAT64 || !level(dtype, simd))
				continue;
			for (unsigned i = 0; i < 2; i++) {
				level(dtype, simd)->from_float_stochastic(narrow, rows[i], 4, key, counter);
				level(dtype, simd)->to_float(back, narrow, 4);
				CHECK_MEM(back, rows[i], sizeof(back));
			}
		}
}

void rows_of_any_pair_of_types(void)
{
	uint64_t from[64], to[64], expected[64];
	float row[37], scratch[37], back[37];
	struct prng p;

	prng_seed(&p, 11);
	for (unsigned i = 0; i < 37; i++)
		row[i] = (float)(2 * prng_unit(&p) - 1);
	for (unsigned f = 0; f < 5; f++)
		for (unsigned t = 0; t < 5; t++) {
			const unsigned bytes = (unsigned)dtype_row_bytes(reals[t], 37);

			memset(to, 0x33, sizeof(to));
			tensor_convert_find(reals[f], CONVERT_SCALAR)->from_float(from, row, 37);
			tensor_convert_find(reals[f], CONVERT_SCALAR)->to_float(back, from, 37);
			if (f == t)
				memcpy(expected, from, bytes);
			else
				tensor_convert_find(reals[t], CONVERT_SCALAR)->from_float(expected, back, 37);
			tensor_convert_row(to, reals[t], from, reals[f], 37, scratch);
			CHECK_MEM(to, expected, bytes);
			CHECK_UINT(((uint8_t *)to)[bytes], 0x33);
		}
	tensor_convert_row(to, STAR_INT64, from, STAR_INT64, 37, scratch);
	CHECK_MEM(to, from, 37 * 8);
	/* float64 to itself does not go by way of float32. */
	*(double *)from = 0.1;
	tensor_convert_row(to, STAR_FLOAT64, from, STAR_FLOAT64, 1, scratch);
	CHECK_NEAR(*(double *)to, 0.1, 0);
}

/* Of the two numbers around it the nearer one, and between both the even one: by doubles, which hold all of them. */
static bool round_once(unsigned dtype, double number)
{
	const struct converter *c = tensor_convert_find(dtype, CONVERT_SCALAR);
	uint16_t found = 0, bits;
	float near, scratch;

	tensor_convert_row(&found, dtype, &number, STAR_FLOAT64, 1, &scratch);
	c->to_float(&near, &found, 1);
	for (int step = -1; step <= 1; step += 2) {
		float other;

		bits = (uint16_t)(found + step);
		if ((bits ^ found) & 0x8000)
			continue; /* beyond zero */
		c->to_float(&other, &bits, 1);
		if (!isfinite(near) || !isfinite(other))
			continue;
		if (fabs(number - (double)other) < fabs(number - (double)near) ||
		    (fabs(number - (double)other) == fabs(number - (double)near) && (found & 1)))
			return unit_fail(__FILE__, __LINE__, "%s of %a is %a, and %a is nearer", dtype_name(dtype),
					 number, (double)near, (double)other);
	}
	return true;
}

void doubles_become_narrow_in_one_step(void)
{
	static const double more[] = { 0, 0x1p-50, -0x1p-50, 0x1p-40, -0x1p-40 };
	const unsigned types[] = { STAR_FLOAT16, STAR_BFLOAT16 };
	uint16_t found;
	float scratch;

	for (unsigned t = 0; t < 2; t++) {
		bool good = true;

		for (uint32_t bits = 0; bits < 0xffff && good; bits++) {
			const uint16_t pair[2] = { (uint16_t)bits, (uint16_t)(bits + 1) };
			float ends[2];
			double middle;

			tensor_convert_find(types[t], CONVERT_SCALAR)->to_float(ends, pair, 2);
			if (!isfinite(ends[0]) || !isfinite(ends[1]))
				continue;
			middle = ((double)ends[0] + (double)ends[1]) / 2;
			for (unsigned i = 0; i < 5 && good; i++)
				good = round_once(types[t], middle * (1 + more[i]));
		}
	}
	/* Beyond the greatest number, from the middle to what would be the next one. */
	for (unsigned i = 0; i < 5; i++) {
		const double last = 65520 * (1 + more[i]);

		tensor_convert_row(&found, STAR_FLOAT16, &last, STAR_FLOAT64, 1, &scratch);
		CHECK_UINT(found, more[i] < 0 ? 0x7bff : 0x7c00);
	}
	for (unsigned i = 0; i < 3; i++) {
		const double beyond[] = { 1e300, -INFINITY, 0x1.ffp127 * (1 + 0x1p-50) };

		tensor_convert_row(&found, STAR_BFLOAT16, &beyond[i], STAR_FLOAT64, 1, &scratch);
		CHECK_UINT(found, i == 1 ? 0xff80 : 0x7f80);
	}
}

void what_is_not_converted(void)
{
	const unsigned others[] = { 0, STAR_INT8, STAR_INT32, STAR_INT64, STAR_SCALED_INT8 + 1, 1000 };

	for (unsigned i = 0; i < 6; i++)
		for (enum convert_simd simd = CONVERT_SCALAR; simd <= CONVERT_BEST; simd++)
			CHECK(!tensor_convert_find(others[i], simd));
	CHECK(!tensor_convert_find(STAR_FLOAT32, CONVERT_BEST)->from_float_stochastic);
	CHECK(!tensor_convert_find(STAR_FLOAT64, CONVERT_BEST)->from_float_stochastic);
}
