/* SPDX-License-Identifier: BSD-3-Clause */
/* Where in a row of a run what lies (wire/checkpoint.h), from the table's definition alone. Pure functions. */
#ifndef CKPT_ROW_H
#define CKPT_ROW_H

#include <stdint.h>

#include "optim/optim.h"
#include "wire/object.h"

/* In bytes from the row's beginning, where its key is; 0: the row has it not. */
struct ckpt_row_shape {
	uint32_t version, rounds, frequency, used, seen, words; /* uint32_t each; optim.words words */
	uint32_t values, masters, slots;
	uint32_t end;	     /* of the last of them: zeros follow */
	uint32_t bytes;	     /* of the whole */
	uint32_t slot_width; /* bytes of a slot's element */
	struct optim_state optim;
};

/* 0, or -EINVAL for a definition that does not hold. */
int ckpt_row_shape(const struct object_spec *spec, struct ckpt_row_shape *shape);

#endif
