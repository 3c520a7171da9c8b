/* SPDX-License-Identifier: BSD-3-Clause */
/* The lists of a batch's rows, in a buffer that grows. One thread. */
#ifndef INPUT_LISTS_H
#define INPUT_LISTS_H

#include "input/input.h"
#include "input/row.h"

/* rows: the largest number of rows in a batch; count: lists per row. 0 or -ENOMEM. */
int input_lists_init(struct input_lists *lists, uint32_t rows, uint32_t count);
void input_lists_fini(struct input_lists *lists);

/* Adds the lists of the batch's row `number`. *room: capacity of the buffer in ids. 0 or a negative errno. */
int input_lists_add(struct input_lists *lists, uint32_t *room, uint32_t number, const struct row *row,
		    const struct input_shape *shape, struct star_error *err);

#endif
