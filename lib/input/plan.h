/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slices of a job's files, for a work queue: pieces of plain files, begun anywhere, and packed files as a whole.
 * A slice's examples are the lines that begin in it. All workers come to the same ones, if they have the same files.
 * Threads: plain data once it is made.
 */
#ifndef INPUT_PLAN_H
#define INPUT_PLAN_H

#include <stdint.h>

#include "star_error.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

enum { INPUT_SLICE_MIN = 4096, INPUT_SLICE_MAX = 1 << 30, INPUT_SLICES_MAX = 1 << 24, INPUT_PLAN_TEXT = 200 };

struct input_plan {
	uint64_t *first; /* of each file, and the end: its first slice */
	uint64_t *bytes; /* of each file; UINT64_MAX: it is packed, and one slice */
	uint32_t files;
	uint64_t slice_bytes;
	uint64_t slices;	    /* of an epoch */
	uint64_t seed;		    /* of their order; 0: the files' */
	uint64_t digest;	    /* of names without folders, sizes and slices */
	char text[INPUT_PLAN_TEXT]; /* for people */
};

/* What a slice is made of. */
struct input_piece {
	uint32_t file;
	uint64_t begin, end; /* bytes; end UINT64_MAX: the file's */
};

/*
 * slice_bytes 0: a thousandth of all, 64 KiB to 16 MiB. 0 with the plan, for input_plan_fini; -EINVAL: a file is none
 * that can be read twice; -E2BIG: there are more than INPUT_SLICES_MAX; or the errno of looking at a file.
 */
int input_plan_make(const char *const *paths, uint32_t paths_count, uint64_t slice_bytes, uint64_t seed,
		    struct input_plan *plan, struct star_error *err);
void input_plan_fini(struct input_plan *plan); /* also one of zeros */

/* A slice of an epoch, by its number below plan->slices: in the order of the seed, each epoch another one. */
struct input_piece input_plan_piece(const struct input_plan *plan, uint64_t number, uint32_t epoch);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
