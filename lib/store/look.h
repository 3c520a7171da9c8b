/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a table's rows for an administrator, while the table is in use. Nothing changes, nothing counts as a pull, and
 * no snapshot is needed. Each call does a bounded amount of work. One thread, the store's.
 */
#ifndef STORE_LOOK_H
#define STORE_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

/* The table with that id and generation. NULL: there is none. */
const struct store_table *store_look_table(const struct store *store, uint32_t id, uint32_t generation);

/*
 * Writes the keys of the next segment of the index, and returns their number, which may be 0. *at begins as 0, and is 0
 * again after the last segment. A row that exists from the first call to the last is listed once, whatever happens in
 * between; one that is created or removed meanwhile may be.
 */
enum { STORE_LOOK_KEYS = 1536 };
unsigned store_look_keys(const struct store_table *table, uint64_t *at, uint64_t keys[STORE_LOOK_KEYS]);

/* Writes the row of a key as in a checkpoint: store_row_record_bytes(table) bytes, aligned to 8. false: there is
 * none. */
bool store_look_row(const struct store_table *table, uint64_t key, void *record);

#endif
