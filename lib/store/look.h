/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table's rows, looked at by an administrator while it is used: nothing of it changes, nothing counts as a pull, and
 * no snapshot is needed. Each call is bounded work. One thread, the store's.
 */
#ifndef STORE_LOOK_H
#define STORE_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

/* The table of that id and generation; NULL: there is none. */
const struct store_table *store_look_table(const struct store *store, uint32_t id, uint32_t generation);

/*
 * Keys of rows, a segment of the index at a time; returns how many, perhaps 0. *at begins as 0, says where to go on,
 * and is 0 again after the last. A row that is there from the first call to the last is told once, whatever happens in
 * between; one that is made or removed meanwhile perhaps.
 */
enum { STORE_LOOK_KEYS = 1536 };
unsigned store_look_keys(const struct store_table *table, uint64_t *at, uint64_t keys[STORE_LOOK_KEYS]);

/* The row of a key as a checkpoint has it, store_row_record_bytes(table) long, aligned to 8; false: it has none. */
bool store_look_row(const struct store_table *table, uint64_t key, void *record);

#endif
