/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slices that a reader has begun, until all batches with their rows were trained with. Threads: the reader's own,
 * but for what says otherwise.
 */
#ifndef INPUT_SLICES_H
#define INPUT_SLICES_H

#include <stdbool.h>

#include "input/input.h"

struct open_slice {
	struct input_slice slice;
	uint64_t batches; /* how many must be trained with: the last one with a row of it is among them */
	uint32_t rows;	  /* that were read, and are in no batch yet */
	bool read;	  /* to its end */
	bool used;
};

struct slices {
	struct open_slice *of;
	uint32_t room;
	/* those that only wait for their batches; under the reader's lock */
	struct open_slice *closed;
	uint32_t closed_count, closed_room;
};

/* Where the slice stands; -ENOMEM. */
int input_slices_add(struct slices *slices, const struct input_slice *slice);
/* Of those that were read, whose rows are all in batches: they are closed. Under the lock. 0 or -ENOMEM. */
int input_slices_close(struct slices *slices);
/* Closed ones that wait for no more than `batches` are done, and told. Under the lock; any thread. */
void input_slices_finish(struct slices *slices, const struct input_slices *queue, uint64_t batches);
void input_slices_fini(struct slices *slices);

#endif
