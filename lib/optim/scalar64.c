/* SPDX-License-Identifier: BSD-3-Clause */
/* scalar.c's kernels for rows of float64. */
#include <float.h>
#include <math.h>
#include <stdint.h>

#define real double
#define REAL_MAX DBL_MAX
#define square_root sqrt
#define KERNELS optim_kernels_scalar64
#include "optim/one_lane.inc"
