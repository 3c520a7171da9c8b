/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of tables and their gradients as they travel, where that is not as float32 (session_config.wire).
 * Threads: those of the call. */
#ifndef TRAIN_NARROW_H
#define TRAIN_NARROW_H

#include <stdint.h>

#include "offload/template.h"
#include "star_error.h"

/* float16, bfloat16 or scaled_int8; 0: float32, or NULL; or -EINVAL with what is possible. */
int train_narrow_parse(const char *name, struct star_error *err);

/* What an operation's rows are, where they travel in another type than they are computed with. */
struct narrow_rows {
	uint64_t bytes; /* at most, as they travel; 0: they do not */
	uint32_t dim;
	unsigned dtype;
};

/* wire: 0 is float32. Rows of tables travel so, of look-ups and updates; the template has its table. */
void train_narrow_set(struct narrow_rows *narrow, unsigned wire, const struct graph_ps_plan *plan,
		      const struct graph_part *from, const struct request_template *template);

/* An operation in flight. */
struct narrow_call {
	void *memory; /* of narrow_rows.bytes */
	float *rows;  /* what is pulled becomes these; NULL: nothing is pulled so */
	uint32_t count;
};

/* The operation with rows of that type, and what came of it as float32. */
void train_narrow_go(const struct narrow_rows *narrow, struct narrow_call *call, struct star_op *op);
void train_narrow_come(const struct narrow_rows *narrow, const struct narrow_call *call);

#endif
