/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays in a file, one behind the other, each as numpy.save() writes it (the .npy format, versions 1 and 2): so are
 * batches and first values of a graph given. A file is not trusted: every length is checked before it is used. Threads:
 * one at a time.
 */
#ifndef STARTRAIN_ARRAYS_H
#define STARTRAIN_ARRAYS_H

#include "exec/exec.h"
#include "star_error.h"

struct arrays;

/* Maps the file. NULL with err. */
struct arrays *arrays_open(const char *path, struct star_error *err);
void arrays_close(struct arrays *arrays); /* NULL is allowed */

/*
 * The next array: 1; 0: the file has ended; -EINVAL: it is none that a graph takes (float32, float64, int32, int64;
 * little endian, in C's order). Its data is the file's, and not aligned.
 */
int arrays_next(struct arrays *arrays, struct graph_tensor *tensor, struct star_error *err);
void arrays_rewind(struct arrays *arrays);

/* How far it has been read, from 0 to 1. */
double arrays_share(const struct arrays *arrays);

#endif
