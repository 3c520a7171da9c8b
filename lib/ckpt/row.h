/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout of a row in a record run (wire/checkpoint.h), from the table's definition. Pure functions. */
#ifndef CKPT_ROW_H
#define CKPT_ROW_H

#include <stdint.h>

#include "optim/optim.h"
#include "wire/object.h"

/* Offsets in bytes from the beginning of the row, which is its key; 0: the row has no such member. */
struct ckpt_row_shape {
	uint32_t version, rounds, frequency, used, seen, words; /* uint32_t each; `words` has optim.words of them */
	uint32_t values, masters, slots;
	uint32_t end;	     /* of the last member; zeros follow */
	uint32_t bytes;	     /* of the whole row */
	uint32_t slot_width; /* bytes of a slot's element */
	struct optim_state optim;
};

/* 0, or -EINVAL for an invalid definition. */
int ckpt_row_shape(const struct object_spec *spec, struct ckpt_row_shape *shape);

#endif
