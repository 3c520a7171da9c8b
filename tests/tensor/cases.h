/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of the tensor library's test program, by file, and what they share. */
#ifndef TESTS_TENSOR_CASES_H
#define TESTS_TENSOR_CASES_H

#include "tensor/convert.h"
#include "tests/unit.h"

#define TENSOR_CASES(X) \
	/* tensor.c */ \
	X(types_are_as_documented) \
	X(unknown_types_have_no_properties) \
	X(row_sizes) \
	X(philox_known_answers) \
	X(log_and_sine_are_near_the_libraries) \
	X(exp_and_pow_are_near_the_libraries) \
	X(elementary_functions_at_the_edges) \
	/* narrow.c */ \
	X(every_float16_to_float32) \
	X(every_boundary_of_float16) \
	X(every_bfloat16_and_its_boundaries) \
	X(nan_and_infinity_stay) \
	X(float64_rounds_to_float32) \
	X(every_float32_at_every_level) \
	/* convert.c */ \
	X(levels_agree_on_random_rows) \
	X(scaled_rows_by_hand) \
	X(scaled_rows_keep_to_half_a_step) \
	X(stochastic_takes_its_words_from_philox) \
	X(stochastic_is_right_on_average) \
	X(stochastic_leaves_exact_numbers) \
	X(stochastic_at_a_random_zero) \
	X(rows_of_any_pair_of_types) \
	X(doubles_become_narrow_in_one_step) \
	X(what_is_not_converted)

#define X(name) void name(void);
TENSOR_CASES(X)
#undef X

/* The levels that this machine has; of those it lacks, NULL. */
const struct converter *level(unsigned dtype, enum convert_simd simd);

static inline float float_of(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static inline uint32_t bits_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

#endif
