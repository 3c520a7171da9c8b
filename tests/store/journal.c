/* SPDX-License-Identifier: BSD-3-Clause */
/* A store's journal, applied to another store, makes it the same. */
#include "tests/store/snapshots.h"

#include <errno.h>
#include <stdio.h>

#include "store/journal.h"
#include "store/look.h"

static struct shots shots;
static struct image want, found;
/* Of a case that has many journals, one after the other: to find and clear their memory would take most of its time. */
static struct journal_ring *one_ring;

static void apply_record(const struct journal_record *record, struct store_table *const *tables, unsigned count)
{
	struct checkpoint_run run;
	const uint8_t *rows = (const uint8_t *)(record + 1) + sizeof(run);
	struct store_table *t = NULL;
	struct star_error err = { 0 };
	uint32_t object;

	memcpy(&object, record + 1, sizeof(object));
	for (unsigned i = 0; i < count; i++)
		if (object_wire_id(store_table_spec(tables[i])) == object)
			t = tables[i];
	if (record->kind != JOURNAL_MARK && !CHECK(t))
		return;
	if (record->kind == JOURNAL_CLEARED)
		store_load_cleared(t);
	memcpy(&run, record + 1, sizeof(run));
	run.object = object_id_of(run.object);
	for (uint32_t done = 0; record->kind == JOURNAL_RUN && done < run.count; done += STORE_LOAD_MAX) {
		const uint32_t left = run.count - done, n = left < STORE_LOAD_MAX ? left : STORE_LOAD_MAX;

		if (!CHECK_INT(store_load(t, &run, rows + (size_t)done * run.row_bytes, n, &err), 0))
			printf("# %s\n", err.text);
	}
}

/* Applies what the ring has to the tables that have those ids; forgets it. */
static void apply(struct journal_ring *ring, struct store_table *const *tables, unsigned count)
{
	while (ring->tail != ring->head) {
		const struct journal_record *record = (const struct journal_record *)journal_at(ring, ring->tail);

		apply_record(record, tables, count);
		ring->tail += record->bytes;
	}
}

static void compare(struct journal_ring *ring, struct store_table **tables)
{
	store_journal_tables(shots.store);
	journal_mark(ring);
	apply(ring, tables, SHOT_TABLES);
	image_take(&shots, shots.tables, &want);
	image_take(&shots, tables, &found);
	image_is(&shots, &want, &found);
	for (unsigned i = 0; i < SHOT_TABLES; i++) {
		CHECK_UINT(found.pushes[i], want.pushes[i]);
		CHECK_UINT(tables[i]->stats.rows, shots.tables[i]->stats.rows);
	}
}

/* Pushes, pulls, deletes and sweeps of tables of nine kinds, with rows that go while a push holds them. */
static void run_seed(uint64_t seed)
{
	struct store_table *tables[SHOT_TABLES];
	struct fixture f = shots_tables(tables);
	struct journal_ring *ring = one_ring;

	journal_ring_restart(ring);
	shots_open(&shots, seed, STORE_SNAPSHOT_COPIES_MIN, 1 << 20);
	store_journal_begin(shots.store, ring);
	for (unsigned round = 0; round < 8; round++) {
		for (unsigned i = 0; i < 40; i++)
			shots_operate(&shots);
		if (round == 3)
			shots_grow(&shots);
		if (round == 5)
			shots_shrink(&shots);
		compare(ring, tables);
	}
	CHECK(!ring->lost);
	shots_close(&shots);
	fixture_close(&f);
}

void a_journal_makes_the_same_store(void)
{
	one_ring = journal_ring_create(64 << 20, 1, NULL);
	unit_seeds(10, 300, run_seed);
	journal_ring_destroy(one_ring);
}

/* Of a table of dim elements: rows that a look-up makes and a push changes, wherever their memory was before. */
static void keep_some_rows(uint32_t dim, unsigned optimizer, unsigned dtype, const char *options)
{
	enum { KEYS = 5, BYTES = 128 };
	struct fixture f = fixture_open(8 << 20), g = fixture_open(8 << 20);
	struct store_table *a = table_with(&f, "t", dim, optimizer, dtype, options),
			   *b = table_with(&g, "t", dim, optimizer, dtype, options);
	struct journal_ring *ring = one_ring;
	struct store_push *push = store_push_create(KEYS, 1024, NULL);
	const float gradient[16] = { 0.5f, -0.25f };
	const void *gradients[KEYS] = { gradient, gradient, gradient, gradient, gradient };
	const uint64_t keys[KEYS] = { 0, 1, 2, 3, UINT64_MAX };
	store_row row;

	journal_ring_restart(ring);
	store_journal_begin(f.store, ring);
	for (unsigned i = 0; i < KEYS; i++)
		CHECK_UINT(store_find(a, &keys[i], 1, STORE_PULL, 0, &row), 0);
	if (optimizer != OPTIM_NONE) {
		store_push_begin(push);
		CHECK_INT(store_push_keys(push, a, keys, KEYS - 1, 0), 0);
		store_push_rows(push, a, gradients, STAR_FLOAT32, KEYS - 1);
		CHECK(store_push_finish(push, a, UINT32_MAX));
	}
	apply(ring, &b, 1);
	CHECK_UINT(b->stats.rows, KEYS);
	for (unsigned i = 0; i < KEYS; i++) {
		uint8_t want_bytes[BYTES] = { 0 }, found_bytes[BYTES] = { 0 };

		store_read(a, find_one(a, keys[i], STORE_LOOK), keys[i], dtype, want_bytes);
		store_read(b, find_one(b, keys[i], STORE_LOOK), keys[i], dtype, found_bytes);
		CHECK_MEM(found_bytes, want_bytes, BYTES);
	}
	store_push_destroy(push);
	fixture_close(&f);
	fixture_close(&g);
}

/* What lies between a row's values and its end, in memory that had something else before, is not in the journal: a node
 * that applies it accepts only zeros as padding. */
void rows_of_all_shapes_are_kept(void)
{
	static const struct {
		unsigned dtype;
		const char *options;
	} kinds[] = {
		{ STAR_FLOAT32, "versions=1" },
		{ STAR_FLOAT64, "versions=1" },
		{ STAR_FLOAT16, NULL },
		{ STAR_FLOAT16, "versions=1, stochastic=1" },
		{ STAR_BFLOAT16, "versions=1" },
		{ STAR_BFLOAT16, "steps_to_live=9, master=1" },
		{ STAR_SCALED_INT8, "versions=1" },
		{ STAR_INT8, NULL },
		{ STAR_INT8, "versions=1" },
		{ STAR_INT32, "versions=1" },
		{ STAR_INT64, "full=evict_lfu" },
	};
	static const unsigned optimizers[] = { OPTIM_SGD, OPTIM_ADAM, OPTIM_ADAGRAD_DECAY, OPTIM_MOMENTUM };

	one_ring = journal_ring_create(1, 1, NULL);
	for (unsigned kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++)
		for (uint32_t dim = 1; dim <= 16; dim++)
			for (unsigned o = 0; o < (dtype_is_real(kinds[kind].dtype) ? 4u : 1u); o++)
				keep_some_rows(dim, dtype_is_real(kinds[kind].dtype) ? optimizers[o] : OPTIM_NONE,
					       kinds[kind].dtype, kinds[kind].options);
	journal_ring_destroy(one_ring);
}

/* A push for which a table has no room changes no row, but when the rows that there are were used last. */
void what_a_refused_push_used_is_kept(void)
{
	struct fixture f = fixture_open(8 << 20), g = fixture_open(8 << 20);
	struct store_table *a = table_with(&f, "t", 2, OPTIM_SGD, STAR_FLOAT32, "steps_to_live=100, rows_max=2"),
			   *b = table_with(&g, "t", 2, OPTIM_SGD, STAR_FLOAT32, "steps_to_live=100, rows_max=2");
	struct journal_ring *ring = journal_ring_create(1, 1, NULL);
	struct store_push *push = store_push_create(4, 1024, NULL);
	const uint64_t keys[] = { 1, 2, 3 };
	uint64_t kept[8] = { 0 }, there[8] = { 0 };
	store_row rows[2];

	store_journal_begin(f.store, ring);
	CHECK_UINT(store_find(a, keys, 2, STORE_PULL, 5, rows), 0);
	store_push_begin(push);
	CHECK_INT(store_push_keys(push, a, keys + 1, 2, 90), -ENOSPC);
	store_push_begin(push);
	apply(ring, &b, 1);
	for (unsigned i = 0; i < 2; i++) {
		CHECK(store_look_row(a, keys[i], kept) && store_look_row(b, keys[i], there));
		CHECK_MEM(there, kept, store_row_record_bytes(a));
	}
	store_push_destroy(push);
	journal_ring_destroy(ring);
	fixture_close(&f);
	fixture_close(&g);
}

/* Keys that wait: after the journal they wait for as much longer; and after a table was emptied for all. */
void a_journal_counts_who_waits(void)
{
	static const char *const filters[] = { "filter=counter, filter_frequency=4",
					       "filter=bloom, filter_frequency=4, filter_keys=1000" };

	for (unsigned i = 0; i < 2; i++) {
		struct fixture f = fixture_open(8 << 20), g = fixture_open(8 << 20);
		struct store_table *a = table_with(&f, "t", 2, OPTIM_SGD, STAR_FLOAT32, filters[i]),
				   *b = table_with(&g, "t", 2, OPTIM_SGD, STAR_FLOAT32, filters[i]);
		struct journal_ring *ring = journal_ring_create(1, 1, NULL);
		store_row row;

		store_journal_begin(f.store, ring);
		for (uint64_t key = 0; key < 50; key++)
			for (uint64_t times = 0; times < key % 4; times++)
				store_find(a, &key, 1, STORE_PULL, 0, &row);
		apply(ring, &b, 1);
		for (uint64_t key = 0; key < 50; key++)
			for (uint64_t times = key % 4; times < 4; times++) {
				store_find(b, &key, 1, STORE_PULL, 0, &row);
				if (times < 3)
					CHECK_UINT(row, STORE_UNADMITTED);
				else
					CHECK(row < STORE_UNADMITTED);
			}
		store_empty_begin(a);
		while (store_sweep_left(a))
			store_sweep(f.store, 64);
		apply(ring, &b, 1);
		for (uint64_t key = 100; key < 103; key++) {
			store_find(b, &key, 1, STORE_PULL, 0, &row);
			CHECK_UINT(row, STORE_UNADMITTED);
		}
		for (uint64_t key = 3; key < 50; key += 4) { /* had come three times */
			store_delete(b, &key, 1);
			store_find(b, &key, 1, STORE_PULL, 0, &row);
			CHECK_UINT(row, STORE_UNADMITTED);
		}
		journal_ring_destroy(ring);
		fixture_close(&f);
		fixture_close(&g);
	}
}

/* A sweep takes a row that a push has found: what the push writes into its memory is no longer a row. */
void a_row_that_went_under_a_push_stays_away(void)
{
	struct fixture f = fixture_open(8 << 20), g = fixture_open(8 << 20);
	struct store_table *a = table_of(&f, "t", 4, OPTIM_SGD), *b = table_of(&g, "t", 4, OPTIM_SGD);
	struct journal_ring *ring = journal_ring_create(1, 1, NULL);
	struct store_push *push = store_push_create(8, 1024, NULL);
	const uint64_t keys[3] = { 5, 6, 7 };
	float gradient[4] = { 1, 1, 1, 1 };
	const void *gradients[3] = { gradient, gradient, gradient };

	store_journal_begin(f.store, ring);
	store_push_begin(push);
	CHECK_INT(store_push_keys(push, a, keys, 3, 0), 0);
	CHECK_UINT(store_delete(a, &keys[1], 1), 1);
	store_push_rows(push, a, gradients, STAR_FLOAT32, 3);
	store_push_finish(push, a, UINT32_MAX);
	apply(ring, &b, 1);
	CHECK_UINT(store_table_stats(a)->rows, 2);
	CHECK_UINT(store_table_stats(b)->rows, 2);
	for (unsigned i = 0; i < 3; i++) {
		store_row rows[2];

		store_find(a, &keys[i], 1, STORE_LOOK, 0, &rows[0]);
		store_find(b, &keys[i], 1, STORE_LOOK, 0, &rows[1]);
		CHECK_INT(rows[1] == STORE_NO_ROW, rows[0] == STORE_NO_ROW);
		if (rows[0] != STORE_NO_ROW)
			CHECK_MEM(store_values(b, rows[1], STAR_FLOAT32), store_values(a, rows[0], STAR_FLOAT32), 16);
	}
	store_push_destroy(push);
	journal_ring_destroy(ring);
	fixture_close(&f);
	fixture_close(&g);
}

/* Several runs are full then; of some keys there are two gradients; rows lie as they are, or with what a policy keeps
 * of them. */
void a_large_push_is_there_whole(void)
{
	enum { BATCH = 125, KEYS = 8 * BATCH, DIM = 16, TWICE = 7 };
	static const char *const options[] = { "", "steps_to_live=100" };

	for (unsigned i = 0; i < 2; i++) {
		struct fixture f = fixture_open(8 << 20), g = fixture_open(8 << 20);
		struct store_table *a = table_with(&f, "t", DIM, OPTIM_ADAGRAD, STAR_FLOAT32, options[i]),
				   *b = table_with(&g, "t", DIM, OPTIM_ADAGRAD, STAR_FLOAT32, options[i]);
		struct journal_ring *ring = journal_ring_create(1, 1, NULL);
		struct store_push *push = store_push_create(KEYS, 1 << 20, NULL);
		static float gradient[KEYS][DIM];
		static const void *gradients[KEYS];
		static uint64_t keys[KEYS];
		unsigned runs = 0;

		for (unsigned k = 0; k < KEYS; k++) {
			keys[k] = k % TWICE ? k : k / TWICE;
			gradient[k][k % DIM] = (float)k;
			gradients[k] = gradient[k];
		}
		store_journal_begin(f.store, ring);
		for (unsigned push_number = 0; push_number < 2; push_number++) {
			store_push_begin(push);
			for (unsigned at = 0; at < KEYS; at += BATCH)
				CHECK_INT(store_push_keys(push, a, keys + at, BATCH, 0), 0);
			for (unsigned at = 0; at < KEYS; at += BATCH)
				store_push_rows(push, a, gradients + at, STAR_FLOAT32, BATCH);
			CHECK(store_push_finish(push, a, UINT32_MAX));
		}
		for (uint64_t at = ring->tail; at != ring->head; runs++) {
			const struct journal_record *record = (const struct journal_record *)journal_at(ring, at);

			CHECK(record->bytes <= JOURNAL_RUN_BYTES + a->at.record);
			at += record->bytes;
		}
		CHECK(runs > 2 * KEYS * DIM * 2 * sizeof(float) / JOURNAL_RUN_BYTES);
		apply(ring, &b, 1);
		CHECK_UINT(store_table_stats(b)->rows, store_table_stats(a)->rows);
		for (unsigned k = 0; k < KEYS; k++) {
			const store_row mine = find_one(a, keys[k], STORE_LOOK),
					theirs = find_one(b, keys[k], STORE_LOOK);

			if (!CHECK(mine < STORE_UNADMITTED) || !CHECK(theirs < STORE_UNADMITTED))
				break;
			CHECK_UINT(store_version(b, theirs), store_version(a, mine));
			CHECK_MEM(store_values(b, theirs, STAR_FLOAT32), store_values(a, mine, STAR_FLOAT32),
				  DIM * sizeof(float));
		}
		store_push_destroy(push);
		journal_ring_destroy(ring);
		fixture_close(&f);
		fixture_close(&g);
	}
}

enum { LIVES = 60, LIFE_KEYS = 6, STORY_BYTES = 1 << 20, LIFE_END = UINT16_MAX };

/* What the journal of all lives so far has, and where one ends. */
static uint8_t story[STORY_BYTES] __attribute__((aligned(8)));
static size_t story_bytes;

static void story_add(const void *bytes, size_t n)
{
	if (!CHECK(n <= STORY_BYTES - story_bytes))
		return;
	memcpy(story + story_bytes, bytes, n);
	story_bytes += n;
}

static void story_apply(struct store_table *t)
{
	const struct journal_record *record;

	for (size_t at = 0; at < story_bytes; at += record->bytes) {
		record = (const struct journal_record *)(story + at);
		if (record->kind == LIFE_END)
			store_load_life_end(t, 1);
		else
			apply_record(record, &t, 1);
	}
}

static void push_keys(struct store_table *t, struct store_push *push, const uint64_t *keys, unsigned n, float value)
{
	const float gradient[2] = { value, value };
	const void *gradients[LIFE_KEYS];

	for (unsigned i = 0; i < n; i++)
		gradients[i] = gradient;
	store_push_begin(push);
	CHECK_INT(store_push_keys(push, t, keys, n, 0), 0);
	store_push_rows(push, t, gradients, STAR_FLOAT32, n);
	CHECK(store_push_finish(push, t, UINT32_MAX));
}

/* What some pushes, deletes and pulls of a life have shown. */
struct seen {
	uint32_t version;
	float value;
};
static struct seen seen[LIVES * 16][LIFE_KEYS];
static unsigned seen_count, seen_wrong;

static void look_at_rows(struct store_table *t, const uint64_t *keys)
{
	for (unsigned i = 0; i < LIFE_KEYS; i++) {
		const store_row row = find_one(t, keys[i], STORE_PULL);
		float values[2];

		store_read(t, row, keys[i], STAR_FLOAT32, values);
		seen[seen_count][i] = (struct seen){ store_version(t, row), values[0] };
		for (unsigned before = 0; before < seen_count; before++)
			seen_wrong += seen[before][i].version == seen[seen_count][i].version &&
				      seen[before][i].value != values[0];
	}
	seen_count++;
}

/* Rows change, go, and are made again; each time by another gradient. */
static void live_some(struct store_table *t, struct store_push *push, const uint64_t *keys, unsigned life, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		push_keys(t, push, keys + (life + i) % 4, 3, (float)(life * 16 + i));
		look_at_rows(t, keys);
		if ((life + i) % 3 == 0)
			store_delete(t, keys + i % LIFE_KEYS, 1);
	}
}

/*
 * Lives one after the other: the journal has the first part of each, and not the last moments; of some it has nothing.
 * A row never shows two values under the same version.
 */
void versions_of_lost_moments_never_come_again(void)
{
	struct store_push *push = store_push_create(LIFE_KEYS, 1024, NULL);
	struct journal_ring *ring = journal_ring_create(1, 1, NULL);
	const uint64_t keys[LIFE_KEYS] = { 1, 2, 3, 4, 5, 6 };

	for (unsigned life = 0; life < LIVES; life++) {
		const struct journal_record end = { .bytes = sizeof(end), .kind = LIFE_END };
		struct fixture f = fixture_open(8 << 20);
		struct store_table *t = table_with(&f, "t", 2, OPTIM_SGD, STAR_FLOAT32, "versions=1");

		story_apply(t);
		if (life)
			look_at_rows(t, keys);
		store_journal_begin(f.store, ring);
		live_some(t, push, keys, life, life % 4);
		store_journal_tables(f.store);
		story_add(journal_at(ring, ring->tail), ring->head - ring->tail);
		story_add(&end, sizeof(end));
		live_some(t, push, keys, life + LIVES, life * 7 % 6);
		journal_publish(ring);
		ring->tail = ring->head;
		fixture_close(&f);
	}
	CHECK_UINT(seen_wrong, 0);
	CHECK(seen_count > 3 * LIVES);
	journal_ring_destroy(ring);
	store_push_destroy(push);
}
