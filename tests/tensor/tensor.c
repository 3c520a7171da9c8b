/* SPDX-License-Identifier: BSD-3-Clause */
/* Element types, random words and elementary functions. */
#include "tests/tensor/cases.h"

#include <stdio.h>

#include "base/prng.h"
#include "tensor/elementary.h"
#include "tensor/philox.h"

const struct converter *level(unsigned dtype, enum convert_simd simd)
{
	static const char *const names[] = { "scalar form", "AVX2", "AVX-512" };
	static bool said[3];
	const struct converter *c = tensor_convert_find(dtype, simd);

	if (!c && !said[simd]) {
		printf("# this machine has no %s: that level is not tested\n", names[simd]);
		said[simd] = true;
	}
	return c;
}

static const struct {
	unsigned dtype, bytes, alignment;
	bool real;
	const char *name;
} types[] = {
	{ STAR_FLOAT32, 4, 4, true, "float32" },   { STAR_FLOAT16, 2, 2, true, "float16" },
	{ STAR_BFLOAT16, 2, 2, true, "bfloat16" }, { STAR_FLOAT64, 8, 8, true, "float64" },
	{ STAR_INT8, 1, 1, false, "int8" },	   { STAR_INT32, 4, 4, false, "int32" },
	{ STAR_INT64, 8, 8, false, "int64" },	   { STAR_SCALED_INT8, 1, 4, true, "scaled_int8" },
};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

void types_are_as_documented(void)
{
	for (unsigned i = 0; i < TYPES; i++) {
		CHECK_UINT(types[i].dtype, i + 1); /* the protocol's numbers */
		CHECK_UINT(dtype_bytes(types[i].dtype), types[i].bytes);
		CHECK_UINT(dtype_alignment(types[i].dtype), types[i].alignment);
		CHECK_INT(dtype_is_real(types[i].dtype), types[i].real);
		CHECK_STR(dtype_name(types[i].dtype), types[i].name);
		CHECK_UINT(dtype_parse(types[i].name), types[i].dtype);
		CHECK_HAS(dtype_names(), types[i].name);
		for (unsigned j = 0; j < TYPES; j++)
			CHECK_INT(dtype_converts(types[i].dtype, types[j].dtype),
				  i == j || (types[i].real && types[j].real));
	}
	CHECK_STR(dtype_names(), "float32, float16, bfloat16, float64, int8, int32, int64, scaled_int8");
}

void unknown_types_have_no_properties(void)
{
	const unsigned unknown[] = { 0, TYPES + 1, 255, UINT32_MAX };

	for (unsigned i = 0; i < 4; i++) {
		CHECK_UINT(dtype_bytes(unknown[i]), 0);
		CHECK_UINT(dtype_alignment(unknown[i]), 0);
		CHECK_UINT(dtype_row_bytes(unknown[i], 100), 0);
		CHECK(!dtype_is_real(unknown[i]));
		CHECK(!dtype_name(unknown[i]));
		CHECK(!dtype_converts(unknown[i], unknown[i]));
		CHECK(!dtype_converts(STAR_FLOAT32, unknown[i]));
		CHECK(!dtype_converts(unknown[i], STAR_FLOAT32));
		CHECK(!tensor_convert_find(unknown[i], CONVERT_SCALAR));
	}
	CHECK_UINT(dtype_parse(""), 0);
	CHECK_UINT(dtype_parse("float"), 0);
	CHECK_UINT(dtype_parse("float320"), 0);
	CHECK_UINT(dtype_parse("FLOAT32"), 0);
}

void row_sizes(void)
{
	CHECK_UINT(dtype_row_bytes(STAR_FLOAT32, 3), 12);
	CHECK_UINT(dtype_row_bytes(STAR_FLOAT64, 3), 24);
	CHECK_UINT(dtype_row_bytes(STAR_FLOAT16, 3), 6);
	CHECK_UINT(dtype_row_bytes(STAR_INT8, 3), 3);
	CHECK_UINT(dtype_row_bytes(STAR_SCALED_INT8, 1), 8);
	CHECK_UINT(dtype_row_bytes(STAR_SCALED_INT8, 4), 8);
	CHECK_UINT(dtype_row_bytes(STAR_SCALED_INT8, 5), 12);
	CHECK_UINT(dtype_row_bytes(STAR_SCALED_INT8, 4096), 4100);
	CHECK_UINT(dtype_row_bytes(STAR_FLOAT64, UINT64_C(1) << 40), UINT64_C(1) << 43);
}

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
		philox(cases[i].counter, cases[i].key, words);
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

		CHECK_NEAR(tensor_elementary_log(x), log(x), 1e-13);
		CHECK_NEAR(tensor_elementary_log(1 / x), -log(x), 1e-13);
		tensor_elementary_sincos(turn, &sine, &cosine);
		CHECK_NEAR(sine, sin(turn * 0x1p-32 * 2 * M_PI), 1e-13);
		CHECK_NEAR(cosine, cos(turn * 0x1p-32 * 2 * M_PI), 1e-13);
	}
	CHECK_NEAR(tensor_elementary_log(1), 0, 0);
}

void exp_and_pow_are_near_the_libraries(void)
{
	struct prng p;

	prng_seed(&p, 6);
	for (unsigned i = 0; i < 200000; i++) {
		const double x = (2 * prng_unit(&p) - 1) * (i % 2 ? 1 : 700);
		const double base = ldexp(prng_unit(&p) + 0x1p-60, (int)prng_below(&p, 400) - 200);
		const double power = (2 * prng_unit(&p) - 1) * (i % 3 ? 1 : 5);
		const double expected = pow(base, power);

		CHECK_NEAR(tensor_elementary_exp(x), exp(x), 1e-13 * exp(x));
		/* The logarithm's error counts for as much as it is multiplied. */
		CHECK_NEAR(tensor_elementary_pow(base, power), expected,
			   expected * 1e-13 * (1 + fabs(power * log(base))));
	}
}

void elementary_functions_at_the_edges(void)
{
	CHECK_NEAR(tensor_elementary_log(0x1p-1074), log(0x1p-1074), 1e-12);
	CHECK_NEAR(tensor_elementary_log(0x1.8p-1030), log(0x1.8p-1030), 1e-12);
	CHECK_NEAR(tensor_elementary_log(0x1.fffffffffffffp1023), log(0x1.fffffffffffffp1023), 1e-12);
	CHECK_NEAR(tensor_elementary_exp(0), 1, 0);
	CHECK_NEAR(tensor_elementary_exp(-746), 0, 0);
	CHECK_NEAR(tensor_elementary_exp(-745.1), exp(-745.1), 0x1p-1074);
	CHECK_NEAR(tensor_elementary_exp(-720), exp(-720), 1e-12 * exp(-720));
	CHECK_NEAR(tensor_elementary_exp(709.7), exp(709.7), 1e-12 * exp(709.7));
	CHECK(isinf(tensor_elementary_exp(710)));
	CHECK(isinf(tensor_elementary_exp((double)INFINITY)));
	CHECK_NEAR(tensor_elementary_exp(-(double)INFINITY), 0, 0);
	CHECK(isnan(tensor_elementary_exp((double)NAN)));
	CHECK_NEAR(tensor_elementary_pow(0, 0.5), 0, 0);
	CHECK_NEAR(tensor_elementary_pow(0, 0), 1, 0);
	CHECK_NEAR(tensor_elementary_pow(7, 0), 1, 0);
	CHECK_NEAR(tensor_elementary_pow(1, 1e9), 1, 0);
	CHECK(isinf(tensor_elementary_pow((double)INFINITY, 0.25)));
	CHECK_NEAR(tensor_elementary_pow((double)INFINITY, -1), 0, 0);
	CHECK(isinf(tensor_elementary_pow(0, -1)));
	CHECK(isnan(tensor_elementary_pow((double)NAN, 0.25)));
	CHECK(isnan(tensor_elementary_pow(-1, 0.25)));
}

const char *const unit_suite = "tensor";
const struct unit_case unit_cases[] = {
#define X(name) { #name, name },
	TENSOR_CASES(X)
#undef X
		{ NULL, NULL },
};
