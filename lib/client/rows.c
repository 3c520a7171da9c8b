/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows along a variable's first dimension, as the blocks that contain them. A row that is longer than a block consists
 * of whole blocks, if its length allows it: their keys are consecutive, and so are the bytes. Several shorter rows are
 * in one block. A pull then gets each block once, and extracts its rows. A push sends, for each block, a gradient that
 * is zero except for its rows. A row that occurs again is in another such gradient of the same block, and the node sums
 * these, in the order of occurrence.
 */
#include "client/client.h"

#include <errno.h>
#include <stdlib.h>

struct entry {
	uint64_t row;
	uint32_t position;
	uint32_t round; /* in which of the block's gradients it is */
};

static int rows_no_memory(struct star_error *err)
{
	return star_error_set(err, -ENOMEM, "out of memory for the rows of a variable");
}

/* Each row is `blocks` whole blocks. */
static int whole_blocks(struct call *call, struct call_op *op, const struct star_op *from, uint64_t blocks,
			struct star_error *err)
{
	const uint64_t count = blocks * from->count;
	uint64_t *keys;

	if (count > UINT32_MAX)
		return star_error_set(err, -E2BIG,
				      "%llu blocks of variable \"%s\" in one operation: at most 2^32 - 1 are possible",
				      (unsigned long long)count, op->table->spec.name);
	keys = call_alloc(call, count * sizeof(*keys));
	if (!keys)
		return rows_no_memory(err);
	for (uint64_t i = 0; i < count; i++)
		keys[i] = from->keys[i / blocks] * blocks + i % blocks;
	op->keys = keys;
	op->count = count;
	return 0;
}

static int by_row(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	return x->position < y->position ? -1 : x->position > y->position;
}

static int by_block_and_round(const void *a, const void *b, void *rows_of_a_block)
{
	const struct entry *x = a, *y = b;
	const uint64_t rows = *(const uint64_t *)rows_of_a_block;

	if (x->row / rows != y->row / rows)
		return x->row < y->row ? -1 : 1;
	if (x->round != y->round)
		return x->round < y->round ? -1 : 1;
	return by_row(a, b);
}

/* Gives each entry its round: a row that occurs again goes to the next one; rows with a scale of their own have one
 * round each. */
static void number_rounds(struct entry *entries, uint32_t count, const struct call_op *op, uint64_t rows)
{
	const bool alone = op->dtype == STAR_SCALED_INT8;

	qsort(entries, count, sizeof(*entries), by_row);
	for (uint32_t i = 1; i < count && op_pushes(op); i++)
		if (entries[i].row == entries[i - 1].row ||
		    (alone && entries[i].row / rows == entries[i - 1].row / rows))
			entries[i].round = entries[i - 1].round + 1;
	qsort_r(entries, count, sizeof(*entries), by_block_and_round, &rows);
}

/* A block contains `rows` rows. */
static int inside_blocks(struct call *call, struct call_op *op, const struct star_op *from, uint64_t rows,
			 struct star_error *err)
{
	const uint32_t count = from->count, elements = (uint32_t)(op->table->elements / op->table->spec.shape[0]);
	struct entry *entries = call_alloc(call, count * sizeof(*entries));
	struct piece *pieces = call_alloc(call, count * sizeof(*pieces));
	uint64_t *keys = call_alloc(call, count * sizeof(*keys));
	uint32_t *first = call_alloc(call, ((size_t)count + 1) * sizeof(*first));
	struct pieces *of = call_alloc(call, sizeof(*of));
	uint32_t blocks = 0;

	if (!entries || !pieces || !keys || !first || !of)
		return rows_no_memory(err);
	for (uint32_t i = 0; i < count; i++)
		entries[i] = (struct entry){ .row = from->keys[i], .position = i };
	number_rounds(entries, count, op, rows);
	for (uint32_t i = 0; i < count; i++) {
		const struct entry *e = &entries[i];

		if (i == 0 || e->row / rows != keys[blocks - 1] || e->round != e[-1].round) {
			first[blocks] = i;
			keys[blocks++] = e->row / rows;
		}
		pieces[i] = (struct piece){ .position = e->position, .offset = (uint32_t)(e->row % rows) * elements };
	}
	first[blocks] = count;
	*of = (struct pieces){ .first = first,
			       .of = pieces,
			       .elements = elements,
			       .bytes = (uint32_t)dtype_row_bytes(op->dtype, elements) };
	op->pieces = of;
	op->keys = keys;
	op->count = blocks;
	return 0;
}

int client_rows_of_variable(struct call *call, struct call_op *op, const struct star_op *from, struct star_error *err)
{
	const struct object_spec *spec = &op->table->spec;
	const uint64_t row = op->table->elements / spec->shape[0];

	if (row >= spec->dim && row % spec->dim == 0)
		return whole_blocks(call, op, from, row / spec->dim, err);
	if (row < spec->dim && spec->dim % row == 0 && op->kind == STAR_ASSIGN)
		return star_error_set(err, -EINVAL,
				      "the rows of variable \"%s\" share blocks of %u elements: assign all of it",
				      spec->name, spec->dim);
	if (row < spec->dim && spec->dim % row == 0)
		return inside_blocks(call, op, from, spec->dim / row, err);
	return star_error_set(
		err, -EINVAL,
		"variable \"%s\" has rows of %llu elements, which are cut across its blocks of %u: pull and "
		"push all of it, or make the row's length a multiple of %u",
		spec->name, (unsigned long long)row, spec->dim, spec->dim);
}
