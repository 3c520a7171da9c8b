/* SPDX-License-Identifier: BSD-3-Clause */
/* What local.c (the store, plans) and local_run.c (operations) share. One thread. */
#ifndef TRAIN_LOCAL_INTERNAL_H
#define TRAIN_LOCAL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "offload/template.h"
#include "train/local.h"
#include "store/push.h"
#include "wire/object.h"

struct local_table {
	struct local_table *next;
	struct store_table *store;
	const struct object_spec *spec;
	uint64_t elements, blocks; /* of a variable */
	uint64_t seen;		   /* pushes that it had when it was last pulled, if it was */
	bool pulled;
};

/* An operation of a part, and what it is in a step. Keys of the store are a table's ids, or a variable's blocks. */
struct local_op {
	struct request_template template;
	struct local_table *table;
	/* Of rows of a variable: a row is this many blocks, or this many rows are a block; else both are 1. */
	uint32_t blocks_a_row, rows_a_block;
	/* For pushes of rows that share blocks: a gradient for each block, and which ones have any. */
	uint8_t *sums;
	uint64_t *summed;

	/* In a step. */
	struct star_op op;
	const uint64_t *keys; /* NULL: all blocks */
	uint64_t count;	      /* keys of the store */
	unsigned dtype;
	uint32_t bytes; /* of an element */
};

struct local_part {
	struct local_op *ops;
	uint32_t count;
	struct local_op **now; /* those of a step that have something to do */
	struct template_step step;
};

/* What a request needs, and a row that is converted or padded. */
struct local_scratch {
	struct store_push *push;
	double row[WIRE_DIM_MAX];
};

/* Executes a part; fetches are written. */
int train_local_run(struct local_scratch *scratch, struct local_part *part, const struct graph_ps_call *call,
		    struct star_error *err);

/* Of what goes along a graph's edges. */
uint32_t train_local_element_bytes(unsigned dtype);

#endif
