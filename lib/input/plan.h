/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Divides a job's files into slices for a work queue: pieces of plain files, which may begin anywhere, and compressed
 * files as a whole. The examples of a slice are the lines that begin in it. All workers get the same slices if they
 * have the same files. Threads: plain data after its creation.
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
	uint64_t *first; /* for each file, and for the end: its first slice */
	uint64_t *bytes; /* for each file; UINT64_MAX: it is compressed, and one slice */
	uint32_t files;
	uint64_t slice_bytes;
	uint64_t slices;	    /* per epoch */
	uint64_t seed;		    /* for their order; 0: that of the files */
	uint64_t digest;	    /* of file names without directories, sizes and slices */
	char text[INPUT_PLAN_TEXT]; /* for people */
};

/* The contents of a slice. */
struct input_piece {
	uint32_t file;
	uint64_t begin, end; /* bytes; end UINT64_MAX: that of the file */
};

/*
 * slice_bytes 0: a thousandth of the total, 64 KiB to 16 MiB. 0 with the plan, to be freed by input_plan_fini; -EINVAL:
 * a file cannot be read twice; -E2BIG: there are more than INPUT_SLICES_MAX; or the errno of examining a file.
 */
int input_plan_make(const char *const *paths, uint32_t paths_count, uint64_t slice_bytes, uint64_t seed,
		    struct input_plan *plan, struct star_error *err);
void input_plan_fini(struct input_plan *plan); /* also one of zeros */

/* The slice of an epoch with this number (below plan->slices), in an order that depends on seed and epoch. */
struct input_piece input_plan_piece(const struct input_plan *plan, uint64_t number, uint32_t epoch);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
