/* SPDX-License-Identifier: BSD-3-Clause */
/* The histories of a batch's rows, in memory that grows. One thread. */
#ifndef INPUT_CLICKS_H
#define INPUT_CLICKS_H

#include "input/input.h"
#include "input/row.h"

/* 0 or a negative errno. rows: of a batch, at most. */
int input_clicks_init(struct input_clicks *clicks, uint32_t rows, struct star_error *err);
void input_clicks_fini(struct input_clicks *clicks);

/*
 * Adds what follows the first `fields` ids of a row, pairs of item and category, as the history of the batch's row
 * `number`: the latest `most` of them (0: all). *room: clicks that there is memory for. 0 or a negative errno.
 */
int input_clicks_add(struct input_clicks *clicks, uint32_t *room, uint32_t number, const struct row *row,
		     uint32_t fields, uint32_t most, struct star_error *err);

#endif
