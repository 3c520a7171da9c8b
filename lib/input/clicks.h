/* SPDX-License-Identifier: BSD-3-Clause */
/* The click histories of a batch's rows, in a buffer that grows. One thread. */
#ifndef INPUT_CLICKS_H
#define INPUT_CLICKS_H

#include "input/input.h"
#include "input/row.h"

/* rows: the largest number of rows in a batch. 0 or a negative errno. */
int input_clicks_init(struct input_clicks *clicks, uint32_t rows, struct star_error *err);
void input_clicks_fini(struct input_clicks *clicks);

/*
 * Adds the history of the batch's row `number`: the ids of `row` after its first `fields`, which are pairs of item and
 * category; the latest `most` pairs (0: all). *room: capacity of the buffer in clicks. 0 or a negative errno.
 */
int input_clicks_add(struct input_clicks *clicks, uint32_t *room, uint32_t number, const struct row *row,
		     uint32_t fields, uint32_t most, struct star_error *err);

#endif
