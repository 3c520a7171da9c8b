/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows and tables in the format of checkpoints (wire/checkpoint.h). */
#include <errno.h>
#include <string.h>

#include "store/snapshot.h"
#include "store/touch.h"
#include "tensor/dtype.h"
#include "wire/checkpoint.h"

uint32_t store_row_record_bytes(const struct store_table *table)
{
	return table->at.record;
}

static uint32_t masters_bytes(const struct store_table *t)
{
	return t->at.master ? t->dim * (uint32_t)sizeof(float) : 0;
}

static uint32_t slots_bytes(const struct store_table *t)
{
	return t->optim.slots * t->dim * (uint32_t)(t->wide ? sizeof(double) : sizeof(float));
}

static void *append_bytes(uint8_t *to, const void *from, uint32_t bytes)
{
	memcpy(to, from, bytes);
	return to + bytes;
}

void store_record_write(const struct store_table *t, const uint8_t *row, uint8_t *to, uint32_t tick)
{
	uint8_t *const end = to + t->at.record;
	uint32_t used;

	memset(end - sizeof(uint64_t), 0, sizeof(uint64_t)); /* the padding is part of it */
	memcpy(to, row, t->at.record_head);
	if (t->at.used) {
		memcpy(&used, to + t->at.used, sizeof(used));
		used = (tick - used + 1) / TABLE_TICK;
		memcpy(to + t->at.used, &used, sizeof(used));
	}
	to = append_bytes(to + t->at.record_head, row + t->at.values, (uint32_t)dtype_row_bytes(t->spec.dtype, t->dim));
	to = append_bytes(to, row + t->at.master, masters_bytes(t));
	append_bytes(to, row + t->at.slots, slots_bytes(t));
}

static void record_read(const struct store_table *t, uint8_t *row, const uint8_t *from)
{
	const uint32_t values_bytes = (uint32_t)dtype_row_bytes(t->spec.dtype, t->dim);

	memcpy(row, from, t->at.record_head);
	if (t->at.used)
		*row_word(row, t->at.used) = t->tick - TABLE_TICK * *row_word(row, t->at.used);
	from += t->at.record_head;
	memcpy(row + t->at.values, from, values_bytes);
	from += values_bytes;
	memcpy(row + t->at.master, from, masters_bytes(t));
	from += masters_bytes(t);
	memcpy(row + t->at.slots, from, slots_bytes(t));
}

static bool is_beyond(const struct store_table *t, uint64_t key)
{
	return t->spec.kind == OBJECT_VARIABLE && key >= wire_object_blocks(&t->spec);
}

/* What is wrong with a row's record; NULL: nothing. */
static const char *row_fault(const struct store_table *t, const uint8_t *record)
{
	const uint32_t bytes = t->at.record_head + (uint32_t)dtype_row_bytes(t->spec.dtype, t->dim) + masters_bytes(t) +
			       slots_bytes(t);
	uint8_t padding = 0;
	uint32_t word;

	for (uint32_t i = bytes; i < t->at.record; i++) /* up to 7 */
		padding |= record[i];
	if (is_beyond(t, row_key(record)))
		return "a block beyond the variable's last";
	memcpy(&word, record + t->at.version, sizeof(word));
	if (t->at.version && word == 0)
		return "a row of version 0";
	memcpy(&word, record + t->at.used, sizeof(word));
	if (t->at.used && word > INT32_MAX)
		return "a row that was last used more look-ups ago than are counted";
	if (padding)
		return "padding that is not 0";
	return NULL;
}

static const char *table_fault(const struct checkpoint_table *table, unsigned n)
{
	return n > 1			  ? "more than one record of the table"
	       : table->reserved	  ? "a reserved field that is not 0"
	       : table->looks > INT32_MAX ? "more look-ups than are counted"
					  : NULL;
}

static const char *counts_fault(const struct checkpoint_count *counts, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (counts[i].count == 0)
			return "a key that waits for admission, with a count of 0";
	return NULL;
}

/* Deletions in a variable's record mean that it was emptied. */
static const char *deleted_fault(const struct store_table *t, const uint64_t *keys, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (is_beyond(t, keys[i]))
			return "a deleted block beyond the variable's last";
	return NULL;
}

static const char *bloom_fault(const struct store_table *t, const struct checkpoint_bloom *blocks, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (!wire_checkpoint_bloom_possible(&t->spec, &blocks[i]))
			return "a block that the filter does not have";
	return NULL;
}

/* Checks a run and n of its records. */
static const char *find_fault(const struct store_table *t, const struct checkpoint_run *run, const void *records,
			      unsigned n)
{
	const uint32_t widths[] = { [CHECKPOINT_ROWS] = t->at.record,
				    [CHECKPOINT_DELETED] = sizeof(uint64_t),
				    [CHECKPOINT_COUNTS] = sizeof(struct checkpoint_count),
				    [CHECKPOINT_TABLE] = sizeof(struct checkpoint_table),
				    [CHECKPOINT_BLOOM] = sizeof(struct checkpoint_bloom) };
	const char *fault = NULL;

	if (run->kind < CHECKPOINT_ROWS || run->kind > CHECKPOINT_BLOOM)
		return "an unknown kind";
	if (run->object != t->spec.id)
		return "another object's id";
	if (run->reserved)
		return "a reserved field that is not 0";
	if (run->row_bytes != widths[run->kind])
		return "records of another size";
	if (n > run->count || n > STORE_LOAD_MAX)
		return "fewer records than are to be loaded";
	if (n == 0)
		return NULL;
	switch (run->kind) {
	case CHECKPOINT_TABLE:
		return table_fault(records, n);
	case CHECKPOINT_COUNTS:
		return t->filtered ? counts_fault(records, n) : "counts, and it has no filter";
	case CHECKPOINT_BLOOM:
		return t->spec.filter == FILTER_BLOOM ? bloom_fault(t, records, n) : "counters for another filter";
	case CHECKPOINT_DELETED:
		return deleted_fault(t, records, n);
	}
	for (unsigned i = 0; i < n && !fault; i++)
		fault = row_fault(t, (const uint8_t *)records + (size_t)i * t->at.record);
	return fault;
}

static void load_table(struct store_table *t, const struct checkpoint_table *from)
{
	const uint32_t tick = from->looks * TABLE_TICK;

	if (from->step > t->step)
		t->step = from->step;
	if (from->pushes > t->stats.pushes)
		t->stats.pushes = from->pushes;
	if (from->removed > t->removed_before)
		t->removed_before = from->removed;
	/* Which of two ticks is later; the clock may have wrapped around. */
	if (t->stats.rows == 0 || (int32_t)(tick - t->tick) > 0)
		t->tick = tick;
}

/* A stamp must not be later than the table's step: the row would seem to be unused for 2^32 steps. */
static bool is_later(const struct store_table *t, uint32_t stamp)
{
	return t->step <= UINT32_MAX && stamp > t->step;
}

static bool load_row(struct store_table *t, const uint8_t *record)
{
	const uint64_t key = row_key(record), hash = index_hash(key);
	store_row row = store_index_find(&t->index, key, hash);

	if (row == STORE_NO_ROW) {
		/* No limit by share: keys that filled it on other shards may be distributed unevenly over these. */
		row = store_table_place(t, hash, UINT64_MAX, store_index_load);
		if (row == STORE_NO_ROW)
			return false;
	} else if (t->store->snapshot.touching) {
		snapshot_touch(t, hash, row);
	}
	record_read(t, table_row(t, row), record);
	if (t->at.seen && is_later(t, *row_word(table_row(t, row), t->at.seen))) /* an export may have them */
		t->step = *row_word(table_row(t, row), t->at.seen);
	if (t->filtered)
		store_filter_forget(&t->filter, key, hash);
	return true;
}

/* Counts are written a little after the table's step. Without memory the key is forgotten, as it is in a running node:
 * it waits longer for admission, but no row is refused for it. */
static void load_count(struct store_table *t, const struct checkpoint_count *from)
{
	const uint64_t hash = index_hash(from->key);

	if (t->spec.filter == FILTER_BLOOM)
		store_filter_bloom_raise(&t->filter, from->key, from->count);
	else if (store_index_find(&t->index, from->key, hash) == STORE_NO_ROW)
		store_filter_restore(&t->filter, hash,
				     &(struct filter_count){ .key = from->key,
							     .count = from->count,
							     .seen = is_later(t, from->seen) ? (uint32_t)t->step
											     : from->seen });
}

/* A deleted key had a row before, so its count in the full checkpoint no longer matters, even if row and deletion lie
 * between the same two checkpoints. */
static void load_deleted(struct store_table *t, const uint64_t *keys, unsigned n)
{
	store_delete(t, keys, n);
	for (unsigned i = 0; t->filtered && i < n; i++)
		store_filter_forget(&t->filter, keys[i], index_hash(keys[i]));
}

static void load_blooms(struct store_table *t, const struct checkpoint_bloom *blocks, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		store_filter_bloom_restore(&t->filter, &blocks[i]);
}

/* Returns how many records found memory. */
static unsigned load_records(struct store_table *t, const struct checkpoint_run *run, const uint8_t *records,
			     unsigned n)
{
	unsigned loaded = 0;

	for (unsigned i = 0; i < n; i++)
		table_prefetch(index_home(&t->index, index_hash(row_key(records + (size_t)i * run->row_bytes))));
	for (; loaded < n; loaded++) {
		const uint8_t *record = records + (size_t)loaded * run->row_bytes;

		if (run->kind == CHECKPOINT_COUNTS)
			load_count(t, (const struct checkpoint_count *)record);
		else if (!load_row(t, record))
			break;
	}
	return loaded;
}

int store_load(struct store_table *table, const struct checkpoint_run *run, const void *records, unsigned n,
	       struct star_error *err)
{
	struct arena *memory = table->store->memory;
	const char *fault = find_fault(table, run, records, n);
	const uint64_t kept = memory->kept;
	unsigned loaded = n;

	if (fault)
		return star_error_set(err, -EINVAL, "\"%s\": the file has records that do not fit: %s",
				      table->spec.name, fault);
	if (n == 0)
		return 0;
	memory->kept = 0; /* reserved for this */
	if (run->kind == CHECKPOINT_TABLE)
		load_table(table, records);
	else if (run->kind == CHECKPOINT_DELETED)
		load_deleted(table, records, n);
	else if (run->kind == CHECKPOINT_BLOOM)
		load_blooms(table, records, n);
	else
		loaded = load_records(table, run, records, n);
	memory->kept = kept;
	if (loaded < n)
		return star_error_set(
			err, -ENOSPC,
			"\"%s\": no room for the rows to be loaded: the parameter memory of a shard is full; raise "
			"memory.parameter_mib",
			table->spec.name);
	return 0;
}
