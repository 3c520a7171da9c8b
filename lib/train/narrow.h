/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion of tables' rows and gradients that are sent in a narrower type than float32 (session_config.wire).
 * Threads: any; each call has its own state. */
#ifndef TRAIN_NARROW_H
#define TRAIN_NARROW_H

#include <stdint.h>

#include "offload/template.h"
#include "star_error.h"

/* Parses float16, bfloat16 or scaled_int8, and returns the type. 0: name is float32 or NULL; -EINVAL with err, which
 * lists the possible names. */
int train_narrow_parse(const char *name, struct star_error *err);

/* How an operation's rows are sent, if that is in another type than they are computed in. */
struct narrow_rows {
	uint64_t bytes; /* at most, in the narrow type; 0: they are not converted */
	uint32_t dim;
	unsigned dtype;
};

/* Sets *narrow for an operation. wire: the type, 0 for float32. Only rows of tables, in look-ups and updates, are sent
 * in that type. The template must have its table. */
void train_narrow_set(struct narrow_rows *narrow, unsigned wire, const struct graph_ps_plan *plan,
		      const struct graph_part *from, const struct request_template *template);

/* An operation in flight. */
struct narrow_call {
	void *memory; /* of narrow_rows.bytes */
	float *rows;  /* where pulled rows are converted to; NULL: the operation pulls none */
	uint32_t count;
};

/* Before a call: converts the operation's rows to the narrow type. After it: converts pulled rows to float32. */
void train_narrow_to_wire(const struct narrow_rows *narrow, struct narrow_call *call, struct star_op *op);
void train_narrow_from_wire(const struct narrow_rows *narrow, const struct narrow_call *call);

#endif
