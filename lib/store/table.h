/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of this library know of a table. */
#ifndef STORE_TABLE_H
#define STORE_TABLE_H

#include "optim/optim.h"
#include "store/index.h"
#include "store/initial.h"

struct store_table {
	/* What every look-up reads. */
	struct store_index index;
	uint32_t dim;
	uint16_t find_lines; /* cache lines to prefetch for the values of a row */
	uint16_t row_lines;  /* and with its slots */
	struct optim optim;

	/* What new rows need. */
	struct initial initial;
	uint32_t row_units;  /* of 2^index.row_shift bytes */
	uint32_t slab_rows;  /* left in the slab that rows are taken from */
	store_row slab_next; /* the first of them */

	struct store_stats stats;
	uint64_t name_hash;
	struct object_spec spec;
};

struct table_row {
	uint64_t key;
	float elements[]; /* dim values, then dim elements of each slot */
};

static inline struct table_row *table_row(const struct store_table *t, store_row row)
{
	return index_record(&t->index, row);
}

#endif
