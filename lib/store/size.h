/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes how much of a store's memory a table with n rows would take, from the layout of its rows. Pure functions.
 */
#ifndef STORE_SIZE_H
#define STORE_SIZE_H

#include <stdint.h>

#include "star_error.h"
#include "wire/object.h"

/* In bytes. The parts of a row: */
struct store_size {
	uint32_t head_bytes;   /* key, and what policies and the optimizer count */
	uint32_t value_bytes;  /* as stored */
	uint32_t master_bytes; /* float32 beside narrow values */
	uint32_t slot_bytes;   /* the optimizer's state */
	uint32_t row_bytes;    /* all of these, with padding */
	uint32_t record_bytes; /* of a row in a checkpoint */
	/* Of the whole table: */
	uint64_t rows_bytes;	/* in slabs */
	uint64_t index_bytes;	/* an upper estimate, because it varies while a table grows */
	uint64_t filter_bytes;	/* of the admission filter */
	uint64_t total_bytes;	/* of all three: an upper bound of store_stats.memory_bytes */
	uint64_t filter_record; /* of the filter in a checkpoint */
};

/*
 * For a table with `rows` rows in a store that has `share` of its partitions, in (0, 1]. waiting: keys that
 * filter=counter has counted and not yet admitted. Rows beyond the share of rows_max are not counted. 0, or -EINVAL
 * with err, for example if it is more than a store can have.
 */
int store_size(const struct object_spec *spec, double share, uint64_t rows, uint64_t waiting, struct store_size *size,
	       struct star_error *err);

#endif
