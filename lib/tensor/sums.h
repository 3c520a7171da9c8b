/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of float32 in workers and PS tasks: computed in float64, in an order that depends on sizes alone, so that a sum
 * has the same bits wherever it is computed. Pure functions; any thread.
 */
#ifndef TENSOR_SUMS_H
#define TENSOR_SUMS_H

#include <stddef.h>
#include <stdint.h>

/* Largest number of elements of a block, of a long row or of a tensor that is summed as a whole. */
enum { SUMS_BLOCK = 1024 };

/*
 * The block size of a tensor with `elements` elements, whose rows (all dimensions but the first) have `row`: whole rows
 * if they fit. A variable is stored in these blocks (wire/object.h), so a shard can sum its own. At least 1.
 */
static inline uint32_t sums_block(uint64_t row, uint64_t elements)
{
	const uint64_t block = row == 0 || row > SUMS_BLOCK ? SUMS_BLOCK : SUMS_BLOCK / row * row;

	return (uint32_t)(elements && elements < block ? elements : block);
}

/* so_far plus the sums of the blocks of x, in order. A block is summed in eight lanes: element i is added to lane i %
 * 8, and the lanes are added pairwise. */
double tensor_sums_add(double so_far, const float *x, size_t n, size_t block);

/* The sum of a row. */
static inline double sums_row(const float *x, size_t n)
{
	return tensor_sums_add(0, x, n, SUMS_BLOCK);
}

#endif
