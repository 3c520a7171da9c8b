/* SPDX-License-Identifier: BSD-3-Clause */
/* What store_load accepts, and what it refuses; slices of long rows. */
#include <inttypes.h>
#include <stdio.h>

#include "tests/store/snapshots.h"

#include <errno.h>
#include <stdlib.h>

#include "store/look.h"
#include "store/touch.h"

static struct shots shots;

void snapshot_memory_is_checked(void)
{
	struct star_error err = { 0 };
	struct fixture f = fixture_open(4 << 20);
	struct store_snapshot_options options = { .marks = &f, .copies_bytes = STORE_SNAPSHOT_COPIES_MIN };

	CHECK_INT(store_snapshot_init(f.store, &options, &err), -EINVAL);
	options.copies = &f;
	options.copies_bytes--;
	CHECK_INT(store_snapshot_init(f.store, &options, &err), -EINVAL);
	CHECK_HAS(err.text, "1048576 beside these at least");
	options.log_bytes = options.copies_bytes + 1;
	CHECK_INT(store_snapshot_init(f.store, &options, &err), -EINVAL);
	options.marks = NULL;
	CHECK_INT(store_snapshot_init(f.store, &options, &err), 0);
	CHECK(!store_snapshot_ready(f.store));
	CHECK(!store_snapshot_begin(f.store, STORE_SNAPSHOT_FULL));
	store_snapshot_end(f.store, true);
	CHECK(!store_snapshot_delta_possible(f.store));
	fixture_close(&f);
}

/* A row of table 0, in a run as it should be. */
struct sample {
	struct checkpoint_run run;
	uint64_t record[SHOT_ROW_MAX / 8];
};

static struct sample sample_of(const struct store_table *t)
{
	struct sample s = { .run = { .object = t->spec.id,
				     .kind = CHECKPOINT_ROWS,
				     .count = 1,
				     .row_bytes = store_row_record_bytes(t) } };

	CHECK(t->at.record <= SHOT_ROW_MAX);
	s.record[0] = 77;
	if (t->at.version)
		*row_word((uint8_t *)s.record, t->at.version) = 5;
	return s;
}

static int load(struct store_table *t, const struct sample *s, unsigned n)
{
	struct star_error err = { 0 };
	const int rc = store_load(t, &s->run, s->record, n, &err);

	CHECK((rc == 0) == (err.text[0] == 0));
	return rc;
}

void runs_that_do_not_fit_are_refused(void)
{
	struct store_table *tables[SHOT_TABLES];
	struct fixture f = shots_tables(tables);
	struct store_table *t = tables[0];
	struct sample s = sample_of(t), bad;

	CHECK_INT(load(t, &s, 1), 0);
	CHECK_UINT(store_version(t, find_one(t, 77, STORE_LOOK)), 5);
	CHECK_INT(load(t, &s, 2), -EINVAL);
	CHECK_INT(load(t, &s, 0), 0);
#define BAD(change) \
	do { \
		bad = s; \
		change; \
		CHECK_INT(load(t, &bad, 1), -EINVAL); \
	} while (0)
	BAD(bad.run.object = 0);
	BAD(bad.run.object = 2);
	BAD(bad.run.kind = 0);
	BAD(bad.run.kind = CHECKPOINT_BLOOM);
	BAD(bad.run.kind = CHECKPOINT_BLOOM + 1);
	BAD(bad.run.kind = UINT16_MAX);
	BAD(bad.run.reserved = 1);
	BAD(bad.run.count = 0);
	BAD(bad.run.row_bytes -= 8);
	BAD(bad.run.row_bytes += 8);
	BAD(bad.run.row_bytes = 0);
	BAD(*row_word((uint8_t *)bad.record, t->at.version) = 0);
	BAD(bad.run.kind = CHECKPOINT_DELETED);
	BAD((bad.run.kind = CHECKPOINT_COUNTS, bad.run.row_bytes = 16, bad.record[1] = 1));
	BAD((bad.run.kind = CHECKPOINT_TABLE, bad.run.row_bytes = 32, bad.record[3] = 1ull << 32));
	BAD((bad.run.kind = CHECKPOINT_TABLE, bad.run.row_bytes = 32, bad.record[3] = 1ull << 31));
	bad = s;
	bad.run.count = STORE_LOAD_MAX + 1;
	CHECK_INT(store_load(t, &bad.run, bad.record, STORE_LOAD_MAX + 1, NULL), -EINVAL);
	/* The last of several: nothing is taken. */
	{
		static uint64_t records[2][SHOT_ROW_MAX / 8];
		const uint32_t words = s.run.row_bytes / 8;
		uint64_t *const both = records[0];

		memcpy(both, s.record, s.run.row_bytes);
		memcpy(both + words, s.record, s.run.row_bytes);
		both[0] = 78;
		*row_word((uint8_t *)(both + words), t->at.version) = 0;
		bad = s;
		bad.run.count = 2;
		CHECK_INT(store_load(t, &bad.run, both, 2, NULL), -EINVAL);
		CHECK_UINT(find_one(t, 78, STORE_LOOK), STORE_NO_ROW);
	}
	fixture_close(&f);
}

void records_that_no_row_can_be_are_refused(void)
{
	struct store_table *tables[SHOT_TABLES];
	struct fixture f = shots_tables(tables);
	struct store_table *t = tables[3];
	struct sample s, bad;

	/* A last use that no clock counts. */
	s = sample_of(t);
	CHECK_INT(load(t, &s, 1), 0);
	BAD(*row_word((uint8_t *)bad.record, t->at.used) = 0x80000000);
	t = tables[2];
	s = sample_of(t);
	CHECK_UINT(s.run.row_bytes, 8 + 4 + 12 + 24);
	t = tables[1];
	s = sample_of(t);
	CHECK_INT(load(t, &s, 1), 0);
	CHECK(s.run.row_bytes > t->at.record_head + SHOT_DIM);
	for (uint32_t at = 0; at < s.run.row_bytes; at++) {
		/* Only the padding must be what it is. */
		const bool padding = at >= t->at.record_head + dtype_row_bytes(STAR_SCALED_INT8, SHOT_DIM) +
						   3 * SHOT_DIM * sizeof(float);

		bad = s;
		((uint8_t *)bad.record)[at] ^= 0x10;
		CHECK_INT(load(t, &bad, 1), padding ? -EINVAL : 0);
	}
#undef BAD
	fixture_close(&f);
}

void variables_are_loaded_by_block(void)
{
	struct fixture f = fixture_open(4 << 20);
	struct object_spec spec = spec_of("variable", 0, OPTIM_LAMB);
	struct store_table *t;
	struct star_error err = { 0 };
	struct checkpoint_run run = { .kind = CHECKPOINT_ROWS, .count = 1 };
	uint64_t *record;

	spec.kind = OBJECT_VARIABLE;
	spec.whole = 1;
	spec.ndim = 2;
	spec.shape[0] = 100;
	spec.shape[1] = 64;
	t = store_table_create(f.store, &spec, 1, &err);
	if (!CHECK(t != NULL))
		return;
	run.row_bytes = store_row_record_bytes(t);
	record = calloc(1, run.row_bytes);
	record[0] = wire_object_blocks(store_table_spec(t)) - 1;
	record[1] = 9;
	CHECK_INT(store_load(t, &run, record, 1, &err), 0);
	record[0]++;
	CHECK_INT(store_load(t, &run, record, 1, &err), -EINVAL);
	run.kind = CHECKPOINT_DELETED;
	run.row_bytes = 8;
	CHECK_INT(store_load(t, &run, record, 1, &err), -EINVAL);
	CHECK(find_one(t, record[0] - 1, STORE_LOOK) != STORE_NO_ROW);
	record[0]--;
	CHECK_INT(store_load(t, &run, record, 1, &err), 0);
	CHECK_UINT(find_one(t, record[0], STORE_LOOK), STORE_NO_ROW);
	free(record);
	fixture_close(&f);
}

void loading_into_a_full_store_is_refused(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", 64, OPTIM_ADAM);
	struct checkpoint_run run = { .kind = CHECKPOINT_ROWS, .count = 1, .row_bytes = store_row_record_bytes(t) };
	uint64_t record[1024] = { 0 };
	int rc = 0;

	CHECK(run.row_bytes <= sizeof(record));
	for (record[0] = 0; rc == 0 && CHECK(record[0] < 10000); record[0]++)
		rc = store_load(t, &run, record, 1, NULL);
	CHECK_INT(rc, -ENOSPC);
	CHECK(store_table_stats(t)->rows > 1000);
	fixture_close(&f);
}

/* Rows that come and go until there is no room for more: of tables with rows of several sizes. */
static void fill_tables(struct store_table **tables, unsigned n, struct prng *prng)
{
	enum { KEYS = 1 << 20, REFUSED = 2000, DELETED = 100, ROUNDS_MAX = 2000000 };
	uint64_t refused = 0, keys[DELETED];

	for (unsigned round = 0; round < ROUNDS_MAX && refused < REFUSED; round++) {
		struct store_table *t = tables[prng_below(prng, n)];
		const uint64_t before = t->stats.refused + t->stats.evicted;

		find_one(t, prng_below(prng, KEYS), STORE_PULL);
		refused += t->stats.refused + t->stats.evicted - before;
		for (unsigned i = 0; i < DELETED && round % 2000 == 0; i++)
			keys[i] = prng_below(prng, KEYS);
		if (round % 2000 == 0)
			store_delete(t, keys, DELETED);
	}
	CHECK(refused >= REFUSED);
}

/* All rows of a table, in the order of a walk; returns the first error. */
static int load_all(struct store_table *to, struct store_table *from)
{
	const struct checkpoint_run run = {
		.object = to->spec.id, .kind = CHECKPOINT_ROWS, .count = 1, .row_bytes = store_row_record_bytes(to)
	};
	uint64_t *record = calloc(1, run.row_bytes);
	store_row rows[INDEX_SEGMENT_ENTRIES];
	struct index_walk walk = { 0 };
	int rc = 0;

	while (rc == 0 && !walk.over) {
		const unsigned n = store_index_walk(&from->index, &walk, rows);

		for (unsigned i = 0; rc == 0 && i < n; i++) {
			store_record_write(from, table_row(from, rows[i]), (uint8_t *)record, from->tick);
			rc = store_load(to, &run, record, 1, NULL);
		}
	}
	free(record);
	return rc;
}

/* A store that was full comes back in as much memory, whatever the order was in which its rows came, and nothing is
 * evicted for it. */
void what_fills_a_store_fits_again(void)
{
	static const size_t sizes[] = { 1 << 20, 2 << 20, 5 << 20, 9 << 20 };
	static const uint32_t dims[] = { 1, 16, 64, 900 };
	static const char *const fulls[] = { "full=refuse", "full=evict_lru", "full=evict_lfu, versions=1" };
	enum { SEEDS = 24, TABLES_MAX = 3 };

	for (unsigned seed = 0; seed < SEEDS; seed++) {
		const size_t bytes = sizes[seed % 4];
		const unsigned n = 1 + seed % TABLES_MAX;
		struct fixture full = fixture_open(bytes), again = fixture_open(bytes);
		struct store_table *tables[TABLES_MAX], *others[TABLES_MAX];
		struct prng prng;

		prng_seed(&prng, seed);
		for (unsigned i = 0; i < n; i++) {
			const uint32_t dim = dims[prng_below(&prng, 4)];
			const char *options = fulls[prng_below(&prng, 3)];
			const char name[] = { (char)('a' + i), 0 };

			tables[i] = table_with(&full, name, dim, OPTIM_ADAGRAD, STAR_FLOAT32, options);
			others[i] = table_with(&again, name, dim, OPTIM_ADAGRAD, STAR_FLOAT32, options);
		}
		fill_tables(tables, n, &prng);
		for (unsigned i = n; i-- > 0;) {
			CHECK_INT(load_all(others[i], tables[i]), 0);
			CHECK_UINT(others[i]->stats.evicted, 0);
			CHECK_UINT(others[i]->stats.rows, tables[i]->stats.rows);
		}
		fixture_close(&full);
		fixture_close(&again);
	}
}

/* Loads rows of n keys, each used as many look-ups ago as its key says. */
static int load_keys(struct store_table *t, unsigned n)
{
	const struct checkpoint_table clock = { .looks = 1000 };
	struct sample s = sample_of(t);
	const struct checkpoint_run run = {
		.object = t->spec.id, .kind = CHECKPOINT_TABLE, .count = 1, .row_bytes = sizeof(clock)
	};
	int rc = store_load(t, &run, &clock, 1, NULL);

	for (unsigned i = 0; rc == 0 && i < n; i++) {
		s.record[0] = i;
		if (t->at.used)
			*row_word((uint8_t *)s.record, t->at.used) = i;
		rc = load(t, &s, 1);
	}
	return rc;
}

/* A table that was full on another number of shards: none of its rows is lost on the way, and what is over goes by the
 * policy. */
void shares_do_not_bind_what_is_loaded(void)
{
	static const uint8_t fulls[] = { FULL_REFUSE, FULL_EVICT_LRU, FULL_EVICT_LFU };

	for (unsigned i = 0; i < sizeof(fulls); i++) {
		struct fixture f = fixture_open(4 << 20);
		struct object_spec spec = spec_of("t", 4, OPTIM_ADAM);
		const bool evicts = fulls[i] != FULL_REFUSE;
		struct store_table *t;
		unsigned old = 0;

		spec.full = fulls[i];
		spec.rows_max = 1000;
		t = store_table_create(f.store, &spec, 0.5, NULL);
		if (!CHECK(t != NULL))
			return;
		CHECK_INT(load_keys(t, 800), 0);
		CHECK_UINT(t->stats.rows, 800);
		CHECK_UINT(t->stats.evicted, 0);
		CHECK_UINT(store_trim(t, 100), evicts ? 100 : 0);
		CHECK_UINT(store_trim(t, 1000), evicts ? 200 : 0);
		CHECK_UINT(store_trim(t, 1000), 0);
		CHECK_UINT(t->stats.rows, evicts ? 500 : 800);
		CHECK_UINT(t->stats.evicted, evicts ? 300 : 0);
		for (unsigned key = 0; key < 800; key++)
			old += key >= 400 && find_one(t, key, STORE_LOOK) != STORE_NO_ROW;
		if (evicts) /* of the 400 that were used last nearly all are there; it is a sampled choice */
			CHECK(old < 200);
		/* A new row finds the table full, as ever. */
		CHECK((find_one(t, 5000, STORE_PULL) == STORE_NO_ROW) == !evicts);
		CHECK_UINT(t->stats.rows, evicts ? 500 : 800);
		fixture_close(&f);
	}
}

/* All rows were used by the last look-up: still, what is over goes. */
void rows_of_the_last_look_up_are_trimmed(void)
{
	struct fixture f = fixture_open(4 << 20);
	struct object_spec spec = spec_of("t", 4, OPTIM_SGD);
	struct store_table *t;
	struct sample s;

	spec.full = FULL_EVICT_LRU;
	spec.rows_max = 10;
	t = table_from(&f, &spec);
	s = sample_of(t);
	for (s.record[0] = 0; s.record[0] < 100; s.record[0]++)
		CHECK_INT(load(t, &s, 1), 0);
	CHECK_UINT(store_trim(t, 1000), 90);
	CHECK_UINT(t->stats.rows, 10);
	fixture_close(&f);
}

/* They came in the order of a walk, of which only the beginning is there, as from an import that was larger than the
 * table: nearly all segments have none. Those go that were used longest ago, wherever they stand. */
void rows_at_one_end_of_the_walk_are_trimmed_and_give_way(void)
{
	enum { KEYS = 400000, ROWS_MAX = 2000, USED_EACH = 4 };
	const struct checkpoint_table clock = { .looks = 1000 };
	struct fixture f = fixture_open(16 << 20);
	struct object_spec spec = spec_of("t", 4, OPTIM_SGD);
	uint64_t rows = 0, used = 0, kept = 0;
	struct store_table *t;
	struct sample s;

	spec.full = FULL_EVICT_LRU;
	spec.rows_max = ROWS_MAX;
	t = table_from(&f, &spec);
	s = sample_of(t);
	CHECK_INT(store_load(t,
			     &(struct checkpoint_run){ .object = t->spec.id,
						       .kind = CHECKPOINT_TABLE,
						       .count = 1,
						       .row_bytes = sizeof(clock) },
			     &clock, 1, NULL),
		  0);
	for (uint64_t key = 0; key < KEYS; key++) {
		if (index_order(index_hash(key)) >> 58)
			continue;
		s.record[0] = key;
		*row_word((uint8_t *)s.record, t->at.used) = key % USED_EACH ? 900 : 1; /* look-ups ago */
		used += key % USED_EACH == 0;
		rows += load(t, &s, 1) == 0;
	}
	CHECK(rows > KEYS / 100 && used > ROWS_MAX / 2 && t->index.segments > 4);
	CHECK_UINT(t->stats.rows, rows);
	CHECK_UINT(store_trim(t, KEYS), rows - ROWS_MAX);
	CHECK_UINT(t->stats.rows, ROWS_MAX);
	for (uint64_t key = 0; key < KEYS; key += USED_EACH)
		kept += index_order(index_hash(key)) >> 58 == 0 && find_one(t, key, STORE_LOOK) != STORE_NO_ROW;
	printf("# %" PRIu64 " of %" PRIu64 " that were used lately are kept\n", kept, used);
	CHECK(kept > used * 9 / 10);
	for (uint64_t key = KEYS; key < KEYS + 1000; key++)
		CHECK(find_one(t, key, STORE_PULL) != STORE_NO_ROW);
	CHECK_UINT(t->stats.rows, ROWS_MAX);
	CHECK_UINT(t->stats.refused, 0);
	fixture_close(&f);
}

/* Memory that rows have filled has none for keys that wait: they are forgotten, as they are when they come then, and
 * the rows are restored. */
void counts_without_room_are_forgotten(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct object_spec spec = spec_of("t", 64, OPTIM_ADAM);
	const struct checkpoint_count count = { .key = 1 << 20, .count = 1 };
	struct checkpoint_run run = { .kind = CHECKPOINT_COUNTS, .count = 1, .row_bytes = sizeof(count) };
	struct store_table *t;
	struct sample s;
	int rc = 0;

	spec.filter = FILTER_COUNTER;
	spec.filter_frequency = 2;
	t = table_from(&f, &spec);
	s = (struct sample){ .run = { .kind = CHECKPOINT_ROWS, .count = 1, .row_bytes = store_row_record_bytes(t) } };
	{
		uint64_t record[1024] = { 0 };

		CHECK(s.run.row_bytes <= sizeof(record));
		for (; rc == 0 && CHECK(record[0] < 10000); record[0]++)
			rc = store_load(t, &s.run, record, 1, NULL);
	}
	CHECK_INT(rc, -ENOSPC);
	CHECK_INT(store_load(t, &run, &count, 1, NULL), 0);
	CHECK(t->filter.keys <= 1);
	fixture_close(&f);
}

/* The counts of an exact filter: what waits goes on waiting, if nothing comes meanwhile. */
void counts_are_restored(void)
{
	struct store_table *tables[1][SHOT_TABLES];
	struct fixture f = shots_tables(tables[0]);
	struct capture c;
	store_row rows[STORE_BATCH];

	shots_open(&shots, 70, STORE_SNAPSHOT_COPIES_MIN, 0);
	for (unsigned k = 0; k + STORE_BATCH <= SHOT_KEYS; k += STORE_BATCH)
		store_find(shots.tables[5], shots.keys + k, STORE_BATCH, STORE_PULL, 0, rows);
	/* One gets a row, one has come twice. */
	for (unsigned i = 0; i < 2; i++)
		store_find(shots.tables[5], shots.keys, 1, STORE_PULL, 0, rows);
	store_find(shots.tables[5], shots.keys + 1, 1, STORE_PULL, 0, rows);
	CHECK(shots_begin(&shots, STORE_SNAPSHOT_FULL, &c));
	shots_finish(&shots);
	capture_load(&shots, &c, tables, 1);
	CHECK_UINT(tables[0][5]->filter.keys, shots.tables[5]->filter.keys);
	CHECK_UINT(tables[0][5]->stats.rows, 1);
	store_find(tables[0][5], shots.keys, 3, STORE_PULL, 0, rows);
	CHECK(rows[0] < STORE_UNADMITTED && rows[1] < STORE_UNADMITTED);
	CHECK_UINT(rows[2], STORE_UNADMITTED);
	capture_free(&c);
	shots_close(&shots);
	fixture_close(&f);
}

/* A key had its row and lost it between a full checkpoint, where it waited, and a delta: it counts from 0, as it would
 * have without the restart. */
void deleted_keys_no_longer_wait(void)
{
	struct fixture f = fixture_open(4 << 20);
	struct object_spec spec = spec_of("t", 4, OPTIM_SGD);
	const struct checkpoint_count counts[] = { { .key = 7, .count = 2 }, { .key = 8, .count = 2 } };
	struct checkpoint_run run = { .kind = CHECKPOINT_COUNTS, .count = 2, .row_bytes = sizeof(counts[0]) };
	struct store_table *t;

	spec.filter = FILTER_COUNTER;
	spec.filter_frequency = 3;
	t = table_from(&f, &spec);
	CHECK_INT(store_load(t, &run, counts, 2, NULL), 0);
	run = (struct checkpoint_run){ .kind = CHECKPOINT_DELETED, .count = 1, .row_bytes = sizeof(uint64_t) };
	CHECK_INT(store_load(t, &run, &counts[0].key, 1, NULL), 0);
	CHECK_UINT(t->filter.keys, 1);
	for (unsigned i = 0; i < 2; i++)
		CHECK_UINT(find_one(t, 7, STORE_PULL), STORE_UNADMITTED);
	CHECK(find_one(t, 7, STORE_PULL) < STORE_UNADMITTED);
	CHECK(find_one(t, 8, STORE_PULL) < STORE_UNADMITTED);
	fixture_close(&f);
}

/* Versions of rows that come after go on above those of rows that went before. */
void versions_rise_over_a_restore(void)
{
	struct store_table *tables[1][SHOT_TABLES];
	struct fixture f = shots_tables(tables[0]);
	const float gradient[SHOT_DIM] = { 1 };
	struct capture c;
	uint32_t version;

	shots_open(&shots, 80, STORE_SNAPSHOT_COPIES_MIN, 0);
	for (unsigned i = 0; i < 10; i++)
		push_one(shots.tables[0], 5, gradient, 0);
	version = store_version(shots.tables[0], find_one(shots.tables[0], 5, STORE_LOOK));
	CHECK_UINT(version, 11);
	store_delete(shots.tables[0], &(uint64_t){ 5 }, 1);
	CHECK(shots_begin(&shots, STORE_SNAPSHOT_FULL, &c));
	shots_finish(&shots);
	capture_load(&shots, &c, tables, 1);
	CHECK(store_version(tables[0][0], find_one(tables[0][0], 5, STORE_PULL)) > version);
	capture_free(&c);
	shots_close(&shots);
	fixture_close(&f);
}

/* After so many rows removed that the count of 32 bits starts over: 0 is the version of no row, and no checkpoint may
 * have it. */
void no_row_starts_with_version_0(void)
{
	static const uint64_t removed[] = { UINT32_MAX, UINT64_MAX };

	for (unsigned i = 0; i < 2; i++) {
		struct store_table *tables[SHOT_TABLES];
		struct fixture f = shots_tables(tables);
		const struct checkpoint_table table = { .removed = removed[i] };
		const struct checkpoint_run run = {
			.object = tables[0]->spec.id, .kind = CHECKPOINT_TABLE, .count = 1, .row_bytes = sizeof(table)
		};

		CHECK_INT(store_load(tables[0], &run, &table, 1, NULL), 0);
		CHECK_UINT(store_version(tables[0], find_one(tables[0], 5, STORE_PULL)), 1);
		fixture_close(&f);
	}
}

static void sweep_whole(struct store *store, struct store_table *t)
{
	store_sweep_begin(t);
	while (store_sweep_left(t))
		store_sweep(store, 64);
}

/* Rows of later steps than the table's, as `tables export` has them, are no older than the last of them; waiting keys,
 * which are written after the table's step, are as of that. */
void what_is_later_than_its_table_is_not_old(void)
{
	enum { ROWS = 100, LIVE = 50 };
	struct fixture f = fixture_open(8 << 20), g = fixture_open(8 << 20);
	struct store_table *from = table_with(&f, "t", 2, OPTIM_SGD, STAR_FLOAT32, "steps_to_live=50"),
			   *t = table_with(&f, "u", 2, OPTIM_SGD, STAR_FLOAT32, "steps_to_live=50"),
			   *waits = table_with(&g, "w", 2, OPTIM_SGD, STAR_FLOAT32,
					       "steps_to_live=50, filter=counter, filter_frequency=3");
	struct checkpoint_run run = { .object = store_table_spec(t)->id,
				      .kind = CHECKPOINT_ROWS,
				      .count = 1,
				      .row_bytes = store_row_record_bytes(t) };
	struct checkpoint_count count = { .key = 7, .count = 2, .seen = 500 };
	uint64_t record[8], key;
	store_row row;

	CHECK(run.row_bytes <= sizeof(record));
	for (key = 0; key < ROWS; key++) {
		CHECK_UINT(store_find(from, &key, 1, STORE_PULL, 450 + key, &row), 0);
		CHECK(store_look_row(from, key, record));
		CHECK_INT(store_load(t, &run, record, 1, NULL), 0);
	}
	sweep_whole(f.store, t);
	CHECK_UINT(t->stats.rows, LIVE + 1); /* of steps 499 to 549 */
	key = ROWS - 1;
	store_find(t, &key, 1, STORE_PULL, 1, &row); /* a job that begins again */
	sweep_whole(f.store, t);
	CHECK_UINT(t->stats.rows, LIVE + 1);

	run = (struct checkpoint_run){
		.object = store_table_spec(waits)->id, .kind = CHECKPOINT_COUNTS, .count = 1, .row_bytes = sizeof(count)
	};
	CHECK_INT(store_load(waits, &run, &count, 1, NULL), 0);
	sweep_whole(g.store, waits);
	CHECK_UINT(store_find(waits, &count.key, 1, STORE_PULL, 0, &row), 0);
	CHECK(row < STORE_UNADMITTED);
	fixture_close(&f);
	fixture_close(&g);
}

/* The longest rows there are, in slices as small as they may be. */
void slices_of_long_rows_are_bounded(void)
{
	static uint64_t out[STORE_SNAPSHOT_SLICE_MIN / 8];
	struct fixture f = fixture_open(16 << 20);
	struct object_spec spec = spec_of("long", WIRE_DIM_MAX, OPTIM_AMSGRAD);
	void *marks = calloc(1, store_snapshot_memory(16 << 20)),
	     *copies = aligned_alloc(64, STORE_SNAPSHOT_COPIES_MIN);
	const struct store_snapshot_options options = { .marks = marks,
							.copies = copies,
							.copies_bytes = STORE_SNAPSHOT_COPIES_MIN };
	struct store_table *t;
	unsigned rows = 0;
	bool over = false;

	CHECK_INT(store_snapshot_init(f.store, &options, NULL), 0);
	spec.dtype = STAR_FLOAT64;
	spec.versions = 1;
	spec.full = FULL_EVICT_LFU;
	spec.steps_to_live = 10;
	t = table_from(&f, &spec);
	for (uint64_t key = 0; key < 40; key++)
		CHECK_UINT(store_find(t, &key, 1, STORE_PULL, 1, (store_row[1]){ 0 }), 0);
	CHECK(store_row_record_bytes(t) + sizeof(struct checkpoint_run) <= STORE_SNAPSHOT_SLICE_MIN);
	while (!store_snapshot_ready(f.store))
		continue;
	CHECK(store_snapshot_begin(f.store, STORE_SNAPSHOT_FULL));
	for (unsigned slices = 0; !over && CHECK(slices < 500); slices++) {
		const size_t n = store_snapshot_slice(f.store, out, sizeof(out), 1 + slices % 50, &over);
		const struct checkpoint_run *run = (const struct checkpoint_run *)out;

		if (n && run->kind == CHECKPOINT_ROWS) {
			CHECK_UINT(run->count, 1);
			CHECK_UINT(n, sizeof(*run) + run->row_bytes);
			rows++;
		}
	}
	CHECK_UINT(rows, 40);
	store_snapshot_end(f.store, true);
	fixture_close(&f);
	free(marks);
	free(copies);
}
