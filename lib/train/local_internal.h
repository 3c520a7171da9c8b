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
	uint64_t seen;		   /* its number of pushes when it was last pulled (if `pulled`) */
	bool pulled;
};

/* An operation of a part, and its state in a step. The store's keys are a table's ids, or the numbers of a variable's
 * blocks. */
struct local_op {
	struct request_template template;
	struct local_table *table;
	/* For rows of a variable: how many blocks a row has, or how many rows a block has; else both are 1. */
	uint32_t blocks_a_row, rows_a_block;
	/* For pushes of rows that share blocks: a gradient for each block, and bits for the blocks that have any. */
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
	struct local_op **now; /* the operations that have something to do in this step */
	struct template_step step;
};

/* Memory that a request needs, and a row for conversion or padding. */
struct local_scratch {
	struct store_push *push;
	double row[WIRE_DIM_MAX];
};

/* Executes a part and writes its fetches. */
int train_local_run(struct local_scratch *scratch, struct local_part *part, const struct graph_ps_call *call,
		    struct star_error *err);

/* Bytes of an element of a graph's tensors. */
uint32_t train_local_element_bytes(unsigned dtype);

#endif
