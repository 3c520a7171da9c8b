/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/size.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "store/table.h"
#include "tensor/dtype.h"

enum {
	ROWS_MOST = 1 << 30, /* times 64: no store has memory for more, and products below could overflow */
	STORE_GIB_MAX = 256,
	SHIFT_MIN = 3,
	SHIFT_MAX = 6,
	/* For a small index: it may have some segments that were just split, and directories. */
	INDEX_FIRST_BYTES = 5 * ARENA_PAGE,
};

/* Segments are between half and 95 % full, evenly distributed (store/index.h); includes directories. */
static const double index_entry_bytes = 8.7;

static uint64_t index_bytes(uint64_t entries)
{
	return INDEX_FIRST_BYTES + (uint64_t)((double)entries * index_entry_bytes);
}

static uint32_t padded(uint32_t bytes, unsigned shift)
{
	return (bytes + (1u << shift) - 1) >> shift << shift;
}

static uint64_t filter_size(const struct store_table *t, double share, uint64_t waiting, unsigned shift,
			    uint64_t *record)
{
	const struct object_spec *spec = &t->spec;
	uint32_t blocks;

	*record = 0;
	if (spec->filter == FILTER_COUNTER) {
		*record = waiting * sizeof(struct checkpoint_count);
		return store_pool_bytes(padded(sizeof(struct filter_count), shift), waiting) + index_bytes(waiting);
	}
	if (spec->filter != FILTER_BLOOM)
		return 0;
	blocks = store_filter_bloom_slots(spec, share);
	*record = blocks * sizeof(struct checkpoint_bloom);
	return store_filter_bloom_bytes(blocks);
}

static void size_with_shift(const struct store_table *t, double share, uint64_t rows, uint64_t waiting, unsigned shift,
			    struct store_size *size)
{
	size->row_bytes = padded(t->at.bytes, shift);
	size->rows_bytes = store_pool_bytes(size->row_bytes, rows);
	size->index_bytes = index_bytes(rows);
	size->filter_bytes = filter_size(t, share, waiting, shift, &size->filter_record);
	size->total_bytes =
		size->rows_bytes + size->index_bytes + size->filter_bytes + arena_rounded(sizeof(struct store_table));
}

static int settle_size(struct store_table *t, double share, uint64_t rows, uint64_t waiting, struct store_size *size,
		       struct star_error *err)
{
	const struct object_spec *spec = &t->spec;
	unsigned shift = SHIFT_MIN;

	if (optim_init(&t->optim, &spec->optim, OPTIM_BEST) < 0)
		return star_error_set(err, -EINVAL, "the store has no optimizer %u", spec->optim.kind);
	store_table_settle(t, share);
	if (rows > t->rows_max)
		rows = t->rows_max;
	*size = (struct store_size){
		.head_bytes = t->at.record_head,
		.value_bytes = (uint32_t)dtype_row_bytes(spec->dtype, spec->dim),
		.master_bytes = spec->master ? spec->dim * (uint32_t)sizeof(float) : 0,
		.slot_bytes = t->optim.slots * spec->dim * (uint32_t)(t->wide ? sizeof(double) : sizeof(float)),
		.record_bytes = t->at.record,
	};
	/* A larger store counts its memory in larger units, to which rows are rounded. */
	size_with_shift(t, share, rows, waiting, shift, size);
	while (shift < SHIFT_MAX && size->total_bytes >> shift > STORE_UNADMITTED)
		size_with_shift(t, share, rows, waiting, ++shift, size);
	if (size->total_bytes >> 30 >= STORE_GIB_MAX)
		return star_error_set(err, -EINVAL,
				      "that is %llu GiB a reactor, and at most %d are possible: use more reactors, or "
				      "more nodes",
				      (unsigned long long)size->total_bytes >> 30, STORE_GIB_MAX);
	return 0;
}

int store_size(const struct object_spec *spec, double share, uint64_t rows, uint64_t waiting, struct store_size *size,
	       struct star_error *err)
{
	struct store_table *t;
	int rc;

	if (!(share > 0 && share <= 1))
		return star_error_set(err, -EINVAL, "a share of %g of the partitions", share);
	if (rows / 64 >= ROWS_MOST || waiting / 64 >= ROWS_MOST)
		return star_error_set(err, -EINVAL,
				      "%llu rows and %llu keys waiting are more than a reactor can have: use more "
				      "reactors, or more nodes",
				      (unsigned long long)rows, (unsigned long long)waiting);
	t = calloc(1, sizeof(*t));
	if (!t)
		return star_error_set(err, -ENOMEM, "no memory left");
	t->spec = *spec;
	rc = wire_object_spec_check(&t->spec, err);
	if (rc == 0)
		rc = settle_size(t, share, rows, waiting, size, err);
	free(t);
	return rc;
}
