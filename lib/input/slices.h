/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slices that a reader has begun, until all batches with their rows were used for training. Threads: the reader's,
 * unless stated otherwise.
 */
#ifndef INPUT_SLICES_H
#define INPUT_SLICES_H

#include <stdbool.h>

#include "input/input.h"

struct open_slice {
	struct input_slice slice;
	uint64_t batches; /* batches that must be finished: up to the last one with a row of this slice */
	uint32_t rows;	  /* read, but not in a batch yet */
	bool read;	  /* completely */
	bool used;
};

struct slices {
	struct open_slice *of;
	uint32_t room;
	/* slices that only wait for their batches; protected by the reader's lock */
	struct open_slice *closed;
	uint32_t closed_count, closed_room;
};

/* Adds a slice. Returns its index in `of`; -ENOMEM. */
int input_slices_add(struct slices *slices, const struct input_slice *slice);
/* Closes slices that were read completely, and whose rows are all in batches. Call it with the lock. 0 or -ENOMEM. */
int input_slices_close(struct slices *slices);
/* Reports closed slices whose batches are among the first `batches` as done. Call it with the lock; any thread. */
void input_slices_finish(struct slices *slices, const struct input_slices *queue, uint64_t batches);
void input_slices_fini(struct slices *slices);

#endif
