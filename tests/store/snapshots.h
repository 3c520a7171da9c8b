/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of snapshots share: a store with tables of many kinds, random operations on it, plain copies of all
 * its rows (images), and what slices wrote (captures).
 */
#ifndef TESTS_STORE_SNAPSHOTS_H
#define TESTS_STORE_SNAPSHOTS_H

#include "base/prng.h"
#include "store/snapshot.h"
#include "store/table.h"
#include "tests/store/cases.h"
#include "wire/checkpoint.h"

enum { SHOT_KEYS = 6000, SHOT_TABLES = 9, SHOT_DIM = 6, SHOT_ROW_MAX = 256, SHOT_BATCH = 300 };

/* A row as it lies in memory; `used` as look-ups since. */
struct image_row {
	bool there;
	uint8_t bytes[SHOT_ROW_MAX] __attribute__((aligned(8)));
};

/* Of all keys of all tables. */
struct image {
	struct image_row rows[SHOT_TABLES][SHOT_KEYS];
	uint64_t step[SHOT_TABLES], pushes[SHOT_TABLES];
	uint64_t counts; /* keys that wait for admission */
};

struct capture {
	uint8_t *bytes;
	size_t n, room;
	uint64_t rows, deleted, counts;
	bool over;
};

struct shots {
	struct fixture f;
	void *marks, *copies;
	struct store *store;
	struct store_table *tables[SHOT_TABLES];
	uint64_t keys[SHOT_KEYS];
	struct store_push *push;
	struct prng prng;
	uint64_t step;
	/* of the snapshot that is under way */
	struct capture *capture; /* NULL: none */
	unsigned slice_rows;	 /* at most, of a random slice */
	/* Keys that operations named since the last instant. */
	bool touched[SHOT_TABLES][SHOT_KEYS];
	uint64_t waits; /* for room */
};

/* copies_bytes, log_bytes: what is really used of them may be less than store_snapshot_init takes. */
void shots_open(struct shots *s, uint64_t seed, size_t copies_bytes, size_t log_bytes);
void shots_close(struct shots *s);
/* The same tables in a store of its own, without marks. */
struct fixture shots_tables(struct store_table *tables[SHOT_TABLES]);

/* A random operation, within which slices are taken. */
void shots_operate(struct shots *s);
/* Many keys are pulled, or deleted. */
void shots_grow(struct shots *s);
void shots_shrink(struct shots *s);

/* Clears marks until it is ready; begins; false: not possible. */
bool shots_begin(struct shots *s, enum store_snapshot_kind kind, struct capture *capture);
/* A slice of a random size; all of them. */
void shots_slice(struct shots *s);
bool shots_finish(struct shots *s);

void image_take(const struct shots *s, struct store_table *const tables[SHOT_TABLES], struct image *image);
/* All rows of a, in tables that may lie in several stores (tables[shard * SHOT_TABLES + i], by partition), are those of
 * image. */
bool image_is(const struct shots *s, const struct image *image, const struct image *found);

/* The next run of a capture, from *at = 0 on; NULL at the end. */
const struct checkpoint_run *capture_next(const struct capture *c, size_t *at, const uint8_t **records);
/* Loads all of it into the tables of shards, which rows are cut over by their keys' partitions. */
void capture_load(const struct shots *s, const struct capture *c, struct store_table *(*tables)[SHOT_TABLES],
		  unsigned shards);
unsigned capture_shard(const struct store_table *table, uint64_t key, unsigned shards);
void capture_free(struct capture *c);

#endif
