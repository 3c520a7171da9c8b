/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/look.h"

#include <string.h>

#include "store/table.h"
#include "store/touch.h"

_Static_assert((int)STORE_LOOK_KEYS == (int)INDEX_SEGMENT_ENTRIES, "the keys of a segment");

const struct store_table *store_look_table(const struct store *store, uint32_t id, uint32_t generation)
{
	const struct store_table *t = store->tables;

	while (t && (t->spec.id != id || t->spec.generation != generation))
		t = t->next;
	return t;
}

unsigned store_look_keys(const struct store_table *t, uint64_t *at, uint64_t keys[static STORE_LOOK_KEYS])
{
	struct index_walk walk = { .at = *at };
	store_row rows[INDEX_SEGMENT_ENTRIES];
	/* Walking changes nothing; the cast is for callers that do. */
	const unsigned n = store_index_walk((struct store_index *)&t->index, &walk, rows);

	for (unsigned i = 0; i < n; i++)
		table_load_once(t, rows[i], 1);
	for (unsigned i = 0; i < n; i++)
		keys[i] = row_key(table_row(t, rows[i]));
	*at = walk.over ? 0 : walk.at;
	return n;
}

bool store_look_row(const struct store_table *t, uint64_t key, void *record)
{
	const store_row row = store_index_find(&t->index, key, index_hash(key));

	if (row == STORE_NO_ROW)
		return false;
	store_record_write(t, table_row(t, row), record, t->tick);
	return true;
}
