/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of float32, as workers and PS tasks both make them: in float64, in an order that depends on sizes alone, so that
 * a sum has the same bits wherever it is made. Pure functions; any thread.
 */
#ifndef TENSOR_SUMS_H
#define TENSOR_SUMS_H

#include <stddef.h>
#include <stdint.h>

/* Elements of a block at most: of a long row, and of a tensor that is summed whole. */
enum { SUMS_BLOCK = 1024 };

/*
 * The block of a tensor whose rows (all but its first dimension) have n elements: whole rows where they fit, so that no
 * row is cut. A variable is stored in these blocks (wire/object.h), so a shard can sum its own. At least 1.
 */
static inline uint32_t sums_block(uint64_t row, uint64_t elements)
{
	const uint64_t block = row == 0 || row > SUMS_BLOCK ? SUMS_BLOCK : SUMS_BLOCK / row * row;

	return (uint32_t)(elements && elements < block ? elements : block);
}

/* so_far, and the sums of blocks of x, one after the other. Within a block there are eight lanes: element i is added to
 * lane i % 8, and the lanes are added by halves. */
double tensor_sums_add(double so_far, const float *x, size_t n, size_t block);

/* The sum of a row. */
static inline double sums_row(const float *x, size_t n)
{
	return tensor_sums_add(0, x, n, SUMS_BLOCK);
}

#endif
