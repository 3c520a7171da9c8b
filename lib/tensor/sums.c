/* SPDX-License-Identifier: BSD-3-Clause */
#include "tensor/sums.h"

enum { LANES = 8 };

static double block_of(const float *x, size_t n)
{
	double lanes[LANES] = { 0 };
	size_t i = 0;

	for (; i + LANES <= n; i += LANES)
		for (unsigned k = 0; k < LANES; k++)
			lanes[k] += (double)x[i + k];
	for (unsigned k = 0; i < n; i++, k++)
		lanes[k] += (double)x[i];
	for (unsigned half = LANES / 2; half; half /= 2)
		for (unsigned k = 0; k < half; k++)
			lanes[k] += lanes[k + half];
	return lanes[0];
}

double tensor_sums_add(double so_far, const float *x, size_t n, size_t block)
{
	for (; n > block; x += block, n -= block)
		so_far += block_of(x, block);
	return so_far + block_of(x, n);
}
