/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes a part's operations on the store of this process, as lib/service executes a request: if there are pushes,
 * all rows are first found or created, and gradients checked if the table requires it, before the first value changes;
 * then one operation after the other is executed.
 */
#include "train/local_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/dtype.h"

static bool local_op_pushes(const struct local_op *o)
{
	return o->op.kind != STAR_PULL;
}

static bool pulls(const struct local_op *o)
{
	return o->op.kind == STAR_PULL || o->op.kind == STAR_PUSH_PULL;
}

uint32_t train_local_element_bytes(unsigned dtype)
{
	return dtype == STAR_FLOAT64 || dtype == STAR_INT64 ? 8 : 4;
}

static uint64_t key_at(const struct local_op *o, uint64_t i)
{
	if (!o->keys)
		return i;
	if (o->keys == o->summed || !o->table->blocks)
		return o->keys[i];
	return o->rows_a_block > 1 ? o->keys[i] / o->rows_a_block
				   : o->keys[i / o->blocks_a_row] * o->blocks_a_row + i % o->blocks_a_row;
}

/* The next keys, when `done` are done. Returns their number. */
static unsigned keys_from(const struct local_op *o, uint64_t done, uint64_t keys[static STORE_BATCH])
{
	const unsigned n = o->count - done < STORE_BATCH ? (unsigned)(o->count - done) : STORE_BATCH;

	for (unsigned i = 0; i < n; i++)
		keys[i] = key_at(o, done + i);
	return n;
}

/* The elements of a block that exist: the last block may be shorter. */
static size_t block_bytes(const struct local_op *o, uint64_t block)
{
	const struct local_table *t = o->table;
	const uint64_t dim = t->spec->dim;

	return (!t->blocks || (block + 1) * dim <= t->elements ? dim : t->elements - block * dim) * o->bytes;
}

static int no_room(const struct local_op *o, struct star_error *err)
{
	return star_error_set(err, -ENOSPC, "\"%s\" cannot get new rows: %s is full", o->table->spec->name,
			      o->table->spec->rows_max ? "its rows_max, or the memory," : "the memory");
}

/* ---- gradients ---- */

static int by_number(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The blocks in which the rows are, in ascending order, without duplicates. */
static void list_blocks(struct local_op *o)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < o->op.count; i++)
		o->summed[i] = o->op.keys[i] / o->rows_a_block;
	qsort(o->summed, o->op.count, sizeof(*o->summed), by_number);
	for (uint32_t i = 0; i < o->op.count; i++)
		if (n == 0 || o->summed[i] != o->summed[n - 1])
			o->summed[n++] = o->summed[i];
	o->keys = o->summed;
	o->count = n;
}

/* Merges rows that share blocks into one gradient per block; those of a repeated row are summed in their order. */
static void sum_rows(struct local_op *o)
{
	const uint32_t dim = o->table->spec->dim, row = dim / o->rows_a_block;

	list_blocks(o);
	for (uint64_t i = 0; i < o->count; i++)
		memset(o->sums + o->summed[i] * dim * o->bytes, 0, (size_t)dim * o->bytes);
	for (uint32_t i = 0; i < o->op.count; i++) {
		const uint64_t to = o->op.keys[i] * row, from = (uint64_t)i * row;

		for (uint32_t e = 0; e < row; e++)
			if (o->dtype == STAR_FLOAT64)
				((double *)(void *)o->sums)[to + e] += ((const double *)o->op.values)[from + e];
			else
				((float *)(void *)o->sums)[to + e] += ((const float *)o->op.values)[from + e];
	}
}

/* The gradients of n keys, after the first `done`. */
static void find_gradients(struct local_scratch *scratch, const struct local_op *o, uint64_t done, unsigned n,
			   const void *gradients[static STORE_BATCH])
{
	const size_t bytes = (size_t)o->table->spec->dim * o->bytes;
	const uint8_t *base = o->keys && o->keys == o->summed ? o->sums : o->op.values;

	for (unsigned i = 0; i < n; i++) {
		const uint64_t at = base == o->sums ? o->summed[done + i] : done + i;
		const size_t real = o->keys ? bytes : block_bytes(o, at);

		gradients[i] = base + at * bytes;
		if (real == bytes)
			continue;
		memset(scratch->row, 0, bytes); /* the padding of the last block gets no gradient */
		memcpy(scratch->row, gradients[i], real);
		gradients[i] = scratch->row;
	}
}

/* ---- operations ---- */

/* Where the check of its gradients continues: after the last key it may start again. */
static uint64_t next_look(struct store_push *push, const struct local_op *o, uint64_t done)
{
	return done == o->count && store_push_look_again(push) ? 0 : done;
}

static int prepare_push(struct local_scratch *scratch, struct local_op *o, struct star_error *err)
{
	struct store_table *table = o->table->store;
	const bool look = store_push_needs_look(table);
	const void *gradients[STORE_BATCH];
	uint64_t keys[STORE_BATCH];
	unsigned n;
	int rc;

	if (o->op.kind == STAR_ASSIGN)
		store_push_assign(scratch->push, table, (uint32_t)o->count);
	else
		store_push_op(scratch->push, table, (uint32_t)o->count);
	for (uint64_t done = 0; done < o->count; done += n) {
		n = keys_from(o, done, keys);
		rc = store_push_keys(scratch->push, table, keys, n, o->op.step);
		if (rc == -ENOSPC)
			return no_room(o, err);
		if (rc < 0)
			return star_error_set(err, rc, "\"%s\": more gradients than were announced",
					      o->table->spec->name);
	}
	for (uint64_t done = 0; look && done < o->count; done = next_look(scratch->push, o, done + n)) {
		n = o->count - done < STORE_BATCH ? (unsigned)(o->count - done) : STORE_BATCH;
		find_gradients(scratch, o, done, n, gradients);
		rc = store_push_look(scratch->push, table, gradients, o->dtype, n);
		if (rc < 0)
			return star_error_set(err, -EDOM,
					      "%s for \"%s\" %s: nothing was applied; with nonfinite=clip or pass it "
					      "would be",
					      o->op.kind == STAR_ASSIGN ? "a value"
					      : rc == -ERANGE		? "gradients of one key"
									: "a gradient",
					      o->table->spec->name,
					      rc != -ERANGE		  ? "has NaN or infinities"
					      : o->op.kind == STAR_ASSIGN ? "is too large for its element type"
									  : "add up to infinities");
	}
	return 0;
}

static void local_push(struct local_scratch *scratch, const struct local_op *o)
{
	const struct store_push_step step = {
		.has_rate = o->op.flags & STAR_RATE,
		.has_scale = o->op.flags & STAR_SCALE,
		.has_version = o->table->pulled && o->op.kind != STAR_ASSIGN,
		.rate = o->op.rate,
		.scale = o->op.scale,
		.step = o->op.step,
		.version = o->table->seen,
	};
	const void *gradients[STORE_BATCH];
	unsigned n;

	store_push_step(scratch->push, o->table->store, &step);
	for (uint64_t done = 0; done < o->count; done += n) {
		n = o->count - done < STORE_BATCH ? (unsigned)(o->count - done) : STORE_BATCH;
		find_gradients(scratch, o, done, n, gradients);
		store_push_rows(scratch->push, o->table->store, gradients, o->dtype, n);
	}
	while (!store_push_finish(scratch->push, o->table->store, UINT32_MAX))
		;
}

/* Finds or creates rows; with `to`, reads them. */
static int pull(struct local_scratch *scratch, struct local_op *o, enum store_find_mode mode, uint8_t *to,
		struct star_error *err)
{
	const uint32_t row = o->table->spec->dim / o->rows_a_block;
	const size_t row_bytes = (size_t)row * o->bytes;
	struct store_table *table = o->table->store;
	store_row rows[STORE_BATCH];
	uint64_t keys[STORE_BATCH];
	unsigned n;

	for (uint64_t done = 0; done < o->count; done += n) {
		n = keys_from(o, done, keys);
		if (store_find(table, keys, n, mode, o->op.step, rows))
			return no_room(o, err);
		for (unsigned i = 0; to && i < n; i++) {
			const uint64_t skipped = o->rows_a_block > 1 ? o->keys[done + i] % o->rows_a_block : 0;
			const size_t bytes = o->rows_a_block > 1 ? row_bytes : block_bytes(o, keys[i]);
			const void *values = store_values(table, rows[i], o->dtype);

			if (!values) {
				store_read(table, rows[i], keys[i], o->dtype, scratch->row);
				values = scratch->row;
			}
			memcpy(to, (const uint8_t *)values + skipped * row_bytes, bytes);
			to += bytes;
		}
	}
	return 0;
}

static enum store_find_mode mode_of(const struct local_op *o)
{
	return o->op.flags & STAR_READ_ONLY ? STORE_LOOK : STORE_PULL;
}

static int run_op(struct local_scratch *scratch, struct local_op *o, bool prepared, struct star_error *err)
{
	const enum store_find_mode mode = prepared ? STORE_LOOK : mode_of(o);

	if (local_op_pushes(o))
		local_push(scratch, o);
	if (!pulls(o))
		return 0;
	o->table->seen = store_table_stats(o->table->store)->pushes;
	o->table->pulled = true;
	return pull(scratch, o, mode, o->op.kind == STAR_PULL ? o->op.values : o->op.results, err);
}

/* As many operations as a request may have. */
static int run_request(struct local_scratch *scratch, struct local_op **ops, uint32_t count, struct star_error *err)
{
	bool prepared = false;
	int rc = 0;

	for (uint32_t i = 0; i < count; i++)
		prepared |= local_op_pushes(ops[i]);
	if (prepared)
		store_push_begin(scratch->push);
	for (uint32_t i = 0; prepared && rc == 0 && i < count; i++) {
		if (local_op_pushes(ops[i]))
			rc = prepare_push(scratch, ops[i], err);
		else if (mode_of(ops[i]) == STORE_PULL)
			rc = pull(scratch, ops[i], STORE_PULL, NULL, err);
	}
	if (rc < 0)
		store_push_begin(scratch->push); /* it was refused: it holds no rows any more */
	for (uint32_t i = 0; rc == 0 && i < count; i++)
		rc = run_op(scratch, ops[i], prepared, err);
	return rc;
}

/* ---- a part ---- */

static int check_rows(const struct local_op *o, struct star_error *err)
{
	const struct object_spec *spec = o->table->spec;

	for (uint32_t i = 0; o->table->blocks && i < o->op.count; i++)
		if (o->op.keys[i] >= spec->shape[0])
			return star_error_set(err, -EINVAL,
					      "variable \"%s\" has %" PRIu64
					      " rows in its first dimension, row %" PRIu64 " was requested",
					      spec->name, spec->shape[0], o->op.keys[i]);
	return 0;
}

/* 1; 0: there is nothing to do. */
static int fill_local_op(struct local_op *o, const struct graph_ps_call *call, struct template_step *step,
			 struct star_error *err)
{
	int rc = offload_template_fill(&o->template, call, step, &o->op, err);

	if (rc <= 0)
		return rc;
	rc = check_rows(o, err);
	if (rc < 0)
		return rc;
	o->dtype = dtype_parse(o->op.dtype);
	o->bytes = train_local_element_bytes(o->dtype);
	o->keys = o->op.keys;
	o->count = o->keys ? (uint64_t)o->op.count * o->blocks_a_row : o->table->blocks;
	if (local_op_pushes(o) && o->rows_a_block > 1)
		sum_rows(o);
	return 1;
}

int train_local_run(struct local_scratch *scratch, struct local_part *part, const struct graph_ps_call *call,
		    struct star_error *err)
{
	uint32_t count = 0;
	int rc = 0;

	for (uint32_t i = 0; i < part->count; i++) {
		rc = fill_local_op(&part->ops[i], call, &part->step, err);
		if (rc < 0)
			return rc;
		if (rc > 0)
			part->now[count++] = &part->ops[i];
	}
	rc = 0;
	for (uint32_t i = 0; rc == 0 && i < count; i += WIRE_OPS_MAX)
		rc = run_request(scratch, &part->now[i], count - i < WIRE_OPS_MAX ? count - i : WIRE_OPS_MAX, err);
	return rc;
}
