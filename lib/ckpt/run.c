/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of a block's payload, and the shape of a row in them. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "ckpt/internal.h"
#include "ckpt/row.h"
#include "optim/optim.h"
#include "tensor/dtype.h"

static uint32_t take_range(uint32_t *end, bool wanted, uint32_t bytes)
{
	const uint32_t at = *end;

	if (!wanted)
		return 0;
	*end += bytes;
	return at;
}

int ckpt_row_shape(const struct object_spec *spec, struct ckpt_row_shape *shape)
{
	const uint64_t values = dtype_row_bytes(spec->dtype, spec->dim);
	uint32_t end = sizeof(uint64_t);

	*shape = (struct ckpt_row_shape){ 0 };
	if (spec->dim < 1 || spec->dim > WIRE_DIM_MAX || !values || optim_state(&spec->optim, &shape->optim) < 0)
		return -EINVAL;
	shape->slot_width = spec->dtype == STAR_FLOAT64 ? sizeof(double) : sizeof(float);
	shape->version = take_range(&end, spec->versions || spec->kind == OBJECT_VARIABLE, sizeof(uint32_t));
	shape->rounds = take_range(&end, spec->stochastic, sizeof(uint32_t));
	shape->frequency = take_range(&end, spec->full == FULL_EVICT_LFU, sizeof(uint32_t));
	shape->used = take_range(&end, spec->full != FULL_REFUSE, sizeof(uint32_t));
	shape->seen = take_range(&end, spec->steps_to_live != 0, sizeof(uint32_t));
	shape->words = take_range(&end, shape->optim.words, shape->optim.words * (uint32_t)sizeof(uint32_t));
	shape->values = take_range(&end, true, (uint32_t)values);
	shape->masters = take_range(&end, spec->master, spec->dim * (uint32_t)sizeof(float));
	shape->slots = take_range(&end, shape->optim.slots, shape->optim.slots * spec->dim * shape->slot_width);
	shape->end = end;
	shape->bytes = (end + 7) & ~UINT32_C(7);
	return 0;
}

uint32_t ckpt_row_bytes(const struct object_spec *spec)
{
	struct ckpt_row_shape shape;

	return ckpt_row_shape(spec, &shape) == 0 ? shape.bytes : 0;
}

/* The size of the run's records; 0: there can be none of this kind. */
static uint32_t record_bytes(const struct ckpt_manifest *manifest, const struct object_spec *spec, unsigned kind)
{
	switch (kind) {
	case CHECKPOINT_ROWS:
		return ckpt_row_bytes(spec);
	case CHECKPOINT_DELETED:
		return manifest->parent ? sizeof(uint64_t) : 0;
	case CHECKPOINT_COUNTS:
		return spec->filter == FILTER_COUNTER && !manifest->parent ? sizeof(struct checkpoint_count) : 0;
	case CHECKPOINT_BLOOM:
		return spec->filter == FILTER_BLOOM && !manifest->parent ? sizeof(struct checkpoint_bloom) : 0;
	case CHECKPOINT_TABLE:
		return sizeof(struct checkpoint_table);
	default:
		return 0;
	}
}

static int refuse_run(struct star_error *err, const struct checkpoint_run *run, uint32_t at, const char *why)
{
	return star_error_set(err, -EBADMSG, "the run of kind %u of object %u at byte %u of the block: %s", run->kind,
			      run->object, at, why);
}

static bool blooms_possible(const struct object_spec *spec, const uint8_t *blocks, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!wire_checkpoint_bloom_possible(spec, blocks + (size_t)i * sizeof(struct checkpoint_bloom)))
			return false;
	return true;
}

int ckpt_run_next(const uint8_t *payload, uint32_t bytes, uint32_t *at, const struct ckpt_manifest *manifest,
		  struct checkpoint_run *run, const void **records, struct star_error *err)
{
	const uint32_t begin = *at, left = bytes - begin;
	const struct object_spec *spec;
	uint32_t each;
	uint64_t all;

	if (begin >= bytes)
		return 0;
	if (left < sizeof(*run))
		return star_error_set(err, -EBADMSG, "%u bytes are left of a block: no run has so few", left);
	memcpy(run, payload + begin, sizeof(*run));
	spec = ckpt_manifest_object(manifest, run->object);
	if (!spec)
		return refuse_run(err, run, begin, "the manifest does not list this object");
	each = record_bytes(manifest, spec, run->kind);
	if (!each || run->reserved)
		return refuse_run(err, run, begin, "this kind is unknown, or has no place there");
	if (each != run->row_bytes)
		return star_error_set(err, -EBADMSG, "a run of \"%s\" has records of %u bytes; %u are possible",
				      spec->name, run->row_bytes, each);
	all = ((uint64_t)run->count * each + 7) & ~UINT64_C(7);
	if (run->count == 0 || (run->kind == CHECKPOINT_TABLE && run->count != 1) || all > left - sizeof(*run))
		return refuse_run(err, run, begin, "its number of records is not possible");
	if (run->kind == CHECKPOINT_BLOOM && !blooms_possible(spec, payload + begin + sizeof(*run), run->count))
		return refuse_run(err, run, begin, "the table's filter has no such block");
	*records = payload + begin + sizeof(*run);
	*at = begin + (uint32_t)sizeof(*run) + (uint32_t)all;
	return 1;
}

static uint32_t word_at(const uint8_t *record, uint32_t at)
{
	uint32_t word;

	memcpy(&word, record + at, sizeof(word));
	return word;
}

static bool is_beyond(const struct object_spec *spec, const uint8_t *record)
{
	uint64_t key;

	memcpy(&key, record, sizeof(key));
	return spec->kind == OBJECT_VARIABLE && key >= wire_object_blocks(spec);
}

static const char *row_fault(const struct ckpt_row_shape *shape, const uint8_t *record)
{
	if (shape->version && word_at(record, shape->version) == 0)
		return "a row of version 0";
	if (shape->used && word_at(record, shape->used) > INT32_MAX)
		return "a row that was last used more look-ups ago than are counted";
	for (uint32_t i = shape->end; i < shape->bytes; i++)
		if (record[i])
			return "padding that is not 0";
	return NULL;
}

static const char *table_fault(const struct checkpoint_table *table)
{
	return table->reserved		  ? "a reserved field that is not 0"
	       : table->looks > INT32_MAX ? "more look-ups than are counted"
					  : NULL;
}

int ckpt_run_check(const struct ckpt_manifest *manifest, const struct checkpoint_run *run, const void *records,
		   struct star_error *err)
{
	const struct object_spec *spec = ckpt_manifest_object(manifest, run->object);
	struct ckpt_row_shape shape = { 0 };
	const char *fault = NULL;

	if (!spec || ckpt_row_shape(spec, &shape) < 0)
		return refuse_run(err, run, 0, "the manifest does not list this object");
	if (run->kind == CHECKPOINT_TABLE)
		fault = table_fault(records);
	for (uint32_t i = 0; i < run->count && !fault; i++) {
		const uint8_t *record = (const uint8_t *)records + (size_t)i * run->row_bytes;

		/* Deletions in a variable's run mean that it was emptied. */
		if ((run->kind == CHECKPOINT_ROWS || run->kind == CHECKPOINT_DELETED) && is_beyond(spec, record))
			fault = "a block beyond the variable's last";
		else if (run->kind == CHECKPOINT_ROWS)
			fault = row_fault(&shape, record);
		else if (run->kind == CHECKPOINT_COUNTS &&
			 word_at(record, offsetof(struct checkpoint_count, count)) == 0)
			fault = "a key that waits for admission, with a count of 0";
	}
	return fault ? star_error_set(err, -EBADMSG, "a run of \"%s\" has what no node loads: %s", spec->name, fault)
		     : 0;
}
