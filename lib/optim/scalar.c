/* SPDX-License-Identifier: BSD-3-Clause */
/* One float at a time: what runs everywhere, and the tests' reference for the other levels. */
#include <math.h>
#include <stdint.h>

#define LANES 1
#define vec float
#define load(address) (*(address))
#define store(address, v) ((void)(*(address) = (v)))
/* A vector of one lane has no part. */
#define load_part(address, count) (*(address))
#define store_part(address, v, count) ((void)(*(address) = (v)))
#define square_root sqrtf
#define KERNELS optim_kernels_scalar

#include "optim/kernels.inc"
