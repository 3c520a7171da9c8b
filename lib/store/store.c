/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "store/table.h"

enum {
	ARENA_BYTES_MIN = 1 << 20,
	ROW_SHIFT_MIN = 3, /* rows begin with a uint64_t */
	ROW_SHIFT_MAX = 6, /* slabs are aligned to ARENA_ALIGN */
	/* Rows are taken from the arena by slabs: small ones first, so that a small table stays small, and never so
	 * big that a slab not yet used up counts. */
	SLAB_BYTES_MIN = 4096,
	SLAB_BYTES_MAX = 32768,
	SLAB_SHARE = 64, /* of a table's rows */
	/* Beyond so many lines of a row the hardware's own stream prefetcher does better. */
	PREFETCH_LINES_MAX = 8,
	LINE_BYTES = 64,
};
_Static_assert(1 << ROW_SHIFT_MAX == ARENA_ALIGN, "a slab begins at a row's alignment");

struct store {
	struct arena arena;
	unsigned row_shift;
};

struct store *store_create(void *arena, size_t arena_bytes, struct star_error *err)
{
	const uintptr_t begin = ((uintptr_t)arena + ARENA_PAGE - 1) & ~(uintptr_t)(ARENA_PAGE - 1);
	const uintptr_t end = ((uintptr_t)arena + arena_bytes) & ~(uintptr_t)(ARENA_PAGE - 1);
	unsigned shift = ROW_SHIFT_MIN;
	struct store *store;

	if (arena_bytes < ARENA_BYTES_MIN) {
		star_error_set(err, -EINVAL, "the parameter memory of a shard is %zu bytes: give it at least %d",
			       arena_bytes, ARENA_BYTES_MIN);
		return NULL;
	}
	/* STORE_NO_ROW must stay beyond the last row. */
	while (shift < ROW_SHIFT_MAX && (end - begin) >> shift > STORE_NO_ROW)
		shift++;
	if ((end - begin) >> shift > STORE_NO_ROW) {
		star_error_set(err, -EINVAL,
			       "the parameter memory of a shard is %zu bytes: at most 256 GiB are possible, use more "
			       "reactors",
			       arena_bytes);
		return NULL;
	}
	store = malloc(sizeof(*store));
	if (!store) {
		star_error_set(err, -ENOMEM, "no memory left to create a store");
		return NULL;
	}
	*store = (struct store){ .arena = { .base = (uint8_t *)begin, .high = end - begin }, .row_shift = shift };
	return store;
}

void store_destroy(struct store *store)
{
	free(store);
}

/* The cache lines that a record may touch, wherever it begins. */
static uint16_t lines(uint32_t bytes)
{
	const uint32_t touched = (LINE_BYTES - (1u << ROW_SHIFT_MIN) + bytes - 1) / LINE_BYTES + 1;

	return (uint16_t)(touched < PREFETCH_LINES_MAX ? touched : PREFETCH_LINES_MAX);
}

struct store_table *store_table_create(struct store *store, const struct object_spec *spec, struct star_error *err)
{
	struct object_spec checked = *spec;
	const struct arena before = store->arena;
	const uint32_t unit = 1u << store->row_shift;
	struct store_table *t;
	uint32_t bytes;

	if (object_spec_check(&checked, err) < 0)
		return NULL;
	t = arena_take(&store->arena, sizeof(*t));
	if (!t)
		goto full;
	*t = (struct store_table){ .dim = checked.dim, .name_hash = hash_name(checked.name), .spec = checked };
	t->stats.memory_bytes = store->arena.low - before.low;
	if (optim_init(&t->optim, checked.optimizer, checked.rate, checked.epsilon, checked.initial_accumulator,
		       OPTIM_BEST) < 0) {
		star_error_set(err, -EINVAL, "\"%s\": the store has no optimizer %u", checked.name, checked.optimizer);
		store->arena = before;
		return NULL;
	}
	if (!index_init(&t->index, &store->arena, store->row_shift, &t->stats))
		goto full;
	initial_init(&t->initial, &checked);
	bytes = (uint32_t)sizeof(struct table_row) + t->dim * (uint32_t)sizeof(float);
	t->find_lines = lines(bytes);
	bytes += t->dim * t->optim.slots * (uint32_t)sizeof(float);
	t->row_lines = lines(bytes);
	t->row_units = (bytes + unit - 1) / unit;
	return t;
full:
	store->arena = before;
	star_error_set(err, -ENOMEM,
		       "no parameter memory left for \"%s\": %llu bytes of this shard's are free; give it more memory",
		       checked.name, (unsigned long long)arena_left(&store->arena));
	return NULL;
}

const struct object_spec *store_table_spec(const struct store_table *table)
{
	return &table->spec;
}

const struct store_stats *store_table_stats(const struct store_table *table)
{
	return &table->stats;
}

uint64_t store_name_hash(const struct store_table *table)
{
	return table->name_hash;
}

const float *store_values(const struct store_table *table, store_row row)
{
	return table_row(table, row)->elements;
}

const float *store_slots(const struct store_table *table, store_row row)
{
	return table->optim.slots ? table_row(table, row)->elements + table->dim : NULL;
}

void store_initial(const struct store_table *table, uint64_t key, float *values)
{
	initial_values(&table->initial, key, values, table->dim);
}

void store_apply(struct store_table *table, store_row row, const float *gradient, float rate)
{
	float *elements = table_row(table, row)->elements;

	table->optim.apply(&table->optim, rate == 0 ? table->optim.rate : rate, elements, elements + table->dim,
			   gradient, table->dim);
}

static inline void prefetch(const struct store_table *t, store_row row, unsigned count)
{
	const char *record = index_record(&t->index, row);

	for (unsigned i = 0; i < count; i++)
		__builtin_prefetch(record + (size_t)i * LINE_BYTES);
}

void store_prefetch(const struct store_table *table, store_row row)
{
	prefetch(table, row, table->row_lines);
}

static bool take_slab(struct store_table *t)
{
	struct arena *arena = t->index.arena;
	const uint64_t before = arena->low, row_bytes = (uint64_t)t->row_units << t->index.row_shift;
	uint64_t bytes = t->stats.rows / SLAB_SHARE * row_bytes;
	void *slab;

	if (bytes < SLAB_BYTES_MIN)
		bytes = SLAB_BYTES_MIN;
	if (bytes > SLAB_BYTES_MAX)
		bytes = SLAB_BYTES_MAX;
	if (bytes > arena_left(arena))
		bytes = arena_left(arena);
	if (bytes < row_bytes)
		bytes = row_bytes;
	bytes -= bytes % row_bytes;
	slab = arena_take(arena, bytes);
	if (!slab)
		return false;
	t->stats.memory_bytes += arena->low - before;
	t->slab_next = (store_row)(before >> t->index.row_shift);
	t->slab_rows = (uint32_t)(bytes / row_bytes);
	return true;
}

static store_row make_row(struct store_table *t, uint64_t key, uint64_t hash)
{
	struct table_row *record;
	store_row row;

	if (!t->slab_rows && !take_slab(t))
		return STORE_NO_ROW;
	row = t->slab_next;
	if (!index_insert(&t->index, hash, row))
		return STORE_NO_ROW;
	t->slab_next += t->row_units;
	t->slab_rows--;
	record = table_row(t, row);
	record->key = key;
	initial_values(&t->initial, key, record->elements, t->dim);
	/* Not the initializer's values: Adagrad's root of a negative sum is no number. */
	for (uint32_t i = 0; i < t->dim * t->optim.slots; i++)
		record->elements[t->dim + i] = t->optim.initial_slot;
	t->stats.rows++;
	t->stats.created++;
	return row;
}

/* The first row in the bucket that may be the key's, or STORE_NO_ROW. All that may be are loaded: two are rare. */
static inline store_row candidate(const struct store_table *t, const struct index_bucket *bucket, uint8_t tag)
{
	uint32_t mask = index_match(bucket, tag);
	store_row row;

	if (!mask)
		return STORE_NO_ROW;
	row = bucket->rows[__builtin_ctz(mask)];
	prefetch(t, row, t->find_lines);
	while (mask &= mask - 1)
		prefetch(t, bucket->rows[__builtin_ctz(mask)], t->find_lines);
	return row;
}

/* The rare cases: the candidate was another key's, or there was none. */
static store_row find_or_make(struct store_table *t, uint64_t key, uint64_t hash, int create)
{
	/* The same key may have been made by an earlier place of this batch. */
	store_row row = index_find(&t->index, key, hash);

	if (row == STORE_NO_ROW && create) {
		row = make_row(t, key, hash);
		t->stats.refused += row == STORE_NO_ROW;
	}
	return row;
}

unsigned store_find(struct store_table *table, const uint64_t *keys, unsigned n, int create, store_row *rows)
{
	const struct index_bucket *homes[STORE_BATCH], *others[STORE_BATCH];
	uint64_t hashes[STORE_BATCH];
	uint8_t away[STORE_BATCH];
	unsigned aways = 0, missing = 0;

	assert(n <= STORE_BATCH);
	for (unsigned i = 0; i < n; i++) {
		hashes[i] = index_hash(keys[i]);
		homes[i] = index_home(&table->index, hashes[i]);
		__builtin_prefetch(homes[i]);
	}
	for (unsigned i = 0; i < n; i++) {
		const uint8_t tag = index_tag(hashes[i]);

		rows[i] = candidate(table, homes[i], tag);
		if (rows[i] == STORE_NO_ROW && homes[i]->strayed) {
			others[aways] = index_other(homes[i], tag);
			__builtin_prefetch(others[aways]);
			away[aways++] = (uint8_t)i;
		}
	}
	for (unsigned i = 0; i < aways; i++)
		rows[away[i]] = candidate(table, others[i], index_tag(hashes[away[i]]));
	for (unsigned i = 0; i < n; i++) {
		const bool known = rows[i] != STORE_NO_ROW ? index_key(&table->index, rows[i]) == keys[i] : !create;

		if (!known)
			rows[i] = find_or_make(table, keys[i], hashes[i], create);
		missing += rows[i] == STORE_NO_ROW;
	}
	return missing;
}
