/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads files of concatenated arrays in NumPy's .npy format, versions 1 and 2: a graph's batches and initial values. A
 * file is not trusted: every length is checked before it is used. One thread at a time.
 */
#ifndef STARTRAIN_ARRAYS_H
#define STARTRAIN_ARRAYS_H

#include "exec/exec.h"
#include "star_error.h"

struct arrays;

/* Maps the file. NULL with err. */
struct arrays *arrays_open(const char *path, struct star_error *err);
void arrays_close(struct arrays *arrays); /* may be NULL */

/*
 * Gets the next array. 1; 0 at the end of the file; -EINVAL: not an array that graphs accept (float32, float64, int32
 * or int64; little endian; row-major). Its data points into the mapped file, and may be unaligned.
 */
int arrays_next(struct arrays *arrays, struct graph_tensor *tensor, struct star_error *err);
void arrays_rewind(struct arrays *arrays);

/* The share of the file that has been read, from 0 to 1. */
double arrays_share(const struct arrays *arrays);

#endif
