/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A shard's parameters: tables of rows, in memory that the caller hands over once. One thread a store: the reactor. The
 * exceptions are store_create and store_destroy (the control plane, while no reactor uses the store) and the readers of
 * struct store_stats (plain counters with one writer). store_table_create takes from the arena, so once the reactor runs
 * it is the reactor that calls it, e.g. from its mailbox: it neither allocates nor waits.
 *
 * Nothing here allocates from the system: rows and index grow inside the arena, in bounded steps (one new row moves at
 * most one index segment of 1536 entries). Rows never move, so a handle stays valid until its row is deleted.
 *
 * A row lies in one piece: key, values, slots, padded to 8 bytes (to 16, 32 or 64 in an arena over 32, 64 or 128 GiB).
 * Beyond that the index takes 6 to 10.5 bytes a row, once a table is larger than some ten segments.
 *
 * A row's first value depends on (seed, table name, key, element) alone: Philox4x32-10 (Salmon et al., SC 2011) with the
 * key and the element's number as its counter (store/initial.h), so neither order nor core count changes it.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "star_error.h"
#include "wire/object.h"

enum { STORE_BATCH = 64 }; /* keys of one call */

/* A row: where it lies in the arena, in units of its alignment; what the index holds in 4 bytes. */
typedef uint32_t store_row;
#define STORE_NO_ROW UINT32_MAX

struct store_stats {
	uint64_t rows;
	uint64_t memory_bytes; /* of the arena, taken by rows and index */
	uint64_t created;
	uint64_t refused;   /* rows not created because the arena is full */
	uint64_t moved_max; /* most index entries one operation moved */
};

struct store;
struct store_table;

/* The arena must outlive the store; it need not be zeroed. NULL with err when it is too small (1 MiB at least) or over
 * 256 GiB. */
struct store *store_create(void *arena, size_t arena_bytes, struct star_error *err);
void store_destroy(struct store *store); /* tables included */

/* NULL with err, e.g. when the arena is full. That the name is new is the caller's to know. */
struct store_table *store_table_create(struct store *store, const struct object_spec *spec, struct star_error *err);
const struct object_spec *store_table_spec(const struct store_table *table);
const struct store_stats *store_table_stats(const struct store_table *table);
uint64_t store_name_hash(const struct store_table *table);

/*
 * Finds the rows of n <= STORE_BATCH keys and, with create, makes those that are missing. rows[i] is STORE_NO_ROW where
 * there is none (or no room). Works in passes: hash, prefetch, look up, prefetch the rows. Returns the number of keys
 * without a row.
 */
unsigned store_find(struct store_table *table, const uint64_t *keys, unsigned n, int create, store_row *rows);

/* The dim values of a row; rows that store_find prefetched are warm. 4-byte aligned. */
const float *store_values(const struct store_table *table, store_row row);

/* The optimizer's state of a row: dim floats a slot; NULL if it has none. */
const float *store_slots(const struct store_table *table, store_row row);

/* Copies the initial value that the row of a key has or would have. */
void store_initial(const struct store_table *table, uint64_t key, float *values);

/* Applies one gradient row of dim elements with the table's optimizer. rate 0: the table's own. */
void store_apply(struct store_table *table, store_row row, const float *gradient, float rate);

/* Starts loading a row, slots included, into the cache for store_apply. */
void store_prefetch(const struct store_table *table, store_row row);

#endif
