/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of tables and their gradients as they travel, where that is not as float32 (session_config.wire). Pure. */
#ifndef TRAIN_NARROW_H
#define TRAIN_NARROW_H

#include <stdint.h>

#include "star_error.h"

/* float16, bfloat16 or scaled_int8; 0: float32, or NULL; or -EINVAL with what is possible. */
int train_narrow_parse(const char *name, struct star_error *err);

void train_narrow_pack(void *to, unsigned dtype, const float *rows, uint32_t count, uint32_t dim);
void train_narrow_unpack(float *rows, const void *from, unsigned dtype, uint32_t count, uint32_t dim);

#endif
