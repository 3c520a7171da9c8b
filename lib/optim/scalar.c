/* SPDX-License-Identifier: BSD-3-Clause */
/* One float at a time: runs on every machine, and is the reference for tests of the other levels. */
#include <float.h>
#include <math.h>
#include <stdint.h>

#define real float
#define REAL_MAX FLT_MAX
#define square_root sqrtf
#define KERNELS optim_kernels_scalar
#include "optim/one_lane.inc"
