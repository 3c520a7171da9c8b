/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of growth, and what happens with keys that are chosen to attack it. */
#include "tests/store/cases.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/prng.h"
#include "store/table.h"

enum { SEGMENT = INDEX_BUCKETS * INDEX_ENTRIES };

void growth_is_bounded_in_moves_and_memory(void)
{
	enum { ROWS = 2000000, DIM = 4 };
	struct fixture f = fixture_open((size_t)100 << 20);
	struct store_table *t = table_of(&f, "t", DIM, OPTIM_SGD);
	const struct store_stats *stats = store_table_stats(t);
	uint64_t keys[STORE_BATCH];
	store_row rows[STORE_BATCH];
	double most = 0, least = 1000;

	for (uint64_t key = 0; key < ROWS; key += STORE_BATCH) {
		for (unsigned i = 0; i < STORE_BATCH; i++)
			keys[i] = key + i;
		if (!CHECK_UINT(store_find(t, keys, STORE_BATCH, STORE_PULL, 0, rows), 0))
			break;
		if (stats->rows > 100000) {
			const double extra = (double)stats->memory_bytes / (double)stats->rows - DIM * sizeof(float);

			most = extra > most ? extra : most;
			least = extra < least ? extra : least;
		}
	}
	/* Key included. Segments split one by one, so it is nearly the same at any moment, and less in one that is
	 * about to. */
	CHECK_NEAR(most, 16.5, 0.5);
	CHECK_NEAR(least, 15.5, 0.5);
	CHECK_NEAR(sizeof(uint64_t) +
			   sizeof(struct index_segment) * (double)t->index.splits / (double)t->index.split_entries,
		   13.5, 0.2);
	CHECK_UINT(stats->rows, ROWS);
	CHECK(stats->moved_max > SEGMENT / 3 && stats->moved_max <= SEGMENT);
	for (uint64_t key = 0; key < ROWS; key += STORE_BATCH) {
		for (unsigned i = 0; i < STORE_BATCH; i++)
			keys[i] = key + i;
		if (!CHECK_UINT(look_up(t, keys, STORE_BATCH, rows), 0))
			break;
		for (unsigned i = 0; i < STORE_BATCH; i++)
			keys[i] += ROWS;
		if (!CHECK_UINT(look_up(t, keys, STORE_BATCH, rows), STORE_BATCH))
			break;
	}
	fixture_close(&f);
}

/* Every entry is where its hash wants it, and the marks and counts of those that strayed agree; returns the entries and
 * adds up those that strayed. */
static unsigned check_segment(const struct store_index *ix, uint64_t pattern, unsigned *away_all)
{
	struct index_segment *segment = index_segment_of(ix, pattern);
	const unsigned depth = index_depth(ix, pattern);
	const uint64_t low_bits = (UINT64_C(1) << depth) - 1;
	unsigned strayed[INDEX_BUCKETS] = { 0 }, entries = 0;

	for (unsigned b = 0; b < INDEX_BUCKETS; b++) {
		const struct index_bucket *bucket = &segment->buckets[b];

		for (unsigned i = 0; i < INDEX_ENTRIES; i++) {
			const bool away = bucket->away >> i & 1;
			const struct index_bucket *home = away ? index_other(bucket, bucket->tags[i]) : bucket;
			uint64_t hash;

			if (!bucket->tags[i]) {
				CHECK(!away);
				continue;
			}
			hash = index_hash(index_key(ix, bucket->rows[i]));
			CHECK_UINT(index_tag(hash), bucket->tags[i]);
			CHECK_UINT(hash & low_bits, pattern & low_bits);
			if (bucket->known)
				CHECK_UINT(bucket->side >> i & 1, hash >> depth & 1);
			CHECK(index_home(ix, hash) == home);
			strayed[home - segment->buckets] += away;
			*away_all += away;
			entries++;
		}
	}
	for (unsigned b = 0; b < INDEX_BUCKETS; b++)
		CHECK_UINT(segment->buckets[b].strayed, strayed[b]);
	return entries;
}

/* Of the whole index; adds up segments and those that strayed, returns the entries. */
static unsigned check_index(const struct store_index *ix, unsigned *segments, unsigned *away)
{
	unsigned entries = 0;

	*segments = *away = 0;
	for (uint64_t i = 0; i <= ix->mask; i++)
		if (i >> index_depth(ix, i) == 0) {
			entries += check_segment(ix, i, away);
			++*segments;
		}
	return entries;
}

void index_counts_agree_at_any_fill(void)
{
	struct fixture f = fixture_open(8 << 20);
	struct store_table *t = table_of(&f, "t", 1, OPTIM_SGD);
	const struct store_index *ix = &t->index;
	struct prng p;

	prng_seed(&p, 11);
	for (unsigned keys = 1; keys <= 40000; keys++) {
		find_one(t, prng_next(&p), STORE_PULL);
		if (keys % 389 == 0 || keys % SEGMENT == SEGMENT - 5) {
			unsigned segments, away;
			const unsigned entries = check_index(ix, &segments, &away);

			CHECK_UINT(entries, keys);
			CHECK_UINT(segments, ix->segments);
			/* Segments are of every fill at any time, so few entries are away: the second line is seldom
			 * read. */
			if (segments > 32)
				CHECK(away <= entries / 20);
		}
	}
	fixture_close(&f);
}

/* Full to the brim, so that many stray, and emptied again, some times over. */
void index_counts_agree_under_deletion(void)
{
	enum { KEYS = 30000 };
	struct fixture f = fixture_open(8 << 20);
	struct store_table *t = table_of(&f, "t", 1, OPTIM_SGD);
	static bool there[KEYS];
	unsigned keys = 0, most_away = 0;
	struct prng p;

	prng_seed(&p, 12);
	memset(there, 0, sizeof(there));
	for (unsigned i = 1; i <= 400000; i++) {
		const uint64_t key = prng_below(&p, KEYS);
		const bool fall = i / 50000 % 2;

		if (!fall && !there[key]) {
			find_one(t, key, STORE_PULL);
			there[key] = true;
			keys++;
		} else if (fall && there[key]) {
			CHECK_UINT(store_delete(t, &key, 1), 1);
			there[key] = false;
			keys--;
		}
		if (i % 1999 == 0) {
			unsigned segments, away;

			if (!CHECK_UINT(check_index(&t->index, &segments, &away), keys) ||
			    !CHECK_UINT(segments, t->index.segments))
				break;
			most_away = away > most_away ? away : most_away;
		}
	}
	CHECK(most_away > 500);
	CHECK(store_table_stats(t)->moved_max <= SEGMENT);
	fixture_close(&f);
}

static int by_walk(const void *a, const void *b)
{
	const uint64_t x = index_order(index_hash(*(const uint64_t *)a)),
		       y = index_order(index_hash(*(const uint64_t *)b));

	return (x > y) - (x < y);
}

/* As exports have them: what one table gave is taken by another, forwards and backwards, and takes no more memory. */
void keys_in_the_order_of_a_walk_find_room(void)
{
	enum { ROWS = 1000000, SPLITS_MAX = 16 };
	uint64_t *keys = malloc(ROWS * sizeof(*keys)), memory[3];
	unsigned longest = 0;

	for (uint64_t i = 0; i < ROWS; i++)
		keys[i] = i;
	for (unsigned order = 0; CHECK(keys) && order < 3; order++) {
		struct fixture f = fixture_open((size_t)64 << 20);
		struct store_table *t = table_with(&f, "t", 1, OPTIM_SGD, STAR_FLOAT32, "full=evict_lru");
		unsigned segments, away;

		for (unsigned i = 0; i < ROWS; i++) {
			const uint32_t before = t->index.segments;

			find_one(t, keys[order == 2 ? ROWS - 1 - i : i], STORE_PULL);
			if (t->index.segments - before > longest)
				longest = t->index.segments - before;
		}
		CHECK_UINT(store_table_stats(t)->rows, ROWS);
		CHECK_UINT(store_table_stats(t)->refused, 0);
		CHECK_UINT(store_table_stats(t)->evicted, 0);
		CHECK_UINT(check_index(&t->index, &segments, &away), ROWS);
		memory[order] = store_table_stats(t)->memory_bytes;
		fixture_close(&f);
		if (order == 0)
			qsort(keys, ROWS, sizeof(*keys), by_walk);
	}
	CHECK(memory[1] < memory[0] + memory[0] / 4 && memory[2] < memory[0] + memory[0] / 4);
	CHECK(longest > 1 && longest <= SPLITS_MAX); /* in one row: a bit of the directory each */
	free(keys);
}

void rows_stay_where_they_are(void)
{
	enum { KEYS = 1000 };
	struct fixture f = fixture_open(8 << 20);
	struct store_table *t = table_of(&f, "t", 3, OPTIM_ADAGRAD);
	static const float *values[KEYS];
	const float gradient[3] = { 1, 2, 3 };
	float before[3];

	for (uint64_t key = 0; key < KEYS; key++) {
		values[key] = values_of(t, find_one(t, key, STORE_PULL));
		push_one(t, key, gradient, 0.5f);
	}
	memcpy(before, values[KEYS - 1], sizeof(before));
	for (uint64_t key = KEYS; key < 100 * KEYS; key++)
		CHECK(find_one(t, key, STORE_PULL) != STORE_NO_ROW);
	for (uint64_t key = 0; key < KEYS; key++)
		CHECK(values_of(t, find_one(t, key, STORE_LOOK)) == values[key]);
	CHECK_MEM(values[KEYS - 1], before, sizeof(before));
	fixture_close(&f);
}

#define ONE_HASH UINT64_C(0x4200420000000060)

/* Bits 47 to 55 of the hash pick nothing, and the lowest of those that make the share hardly anything: bits 26 to 32 as
 * zeros or ones give share 0. So all these keys want the same two buckets for ever. */
static uint64_t one_hash(uint64_t i)
{
	return key_of_hash((i & 0x7f) << 26 | (i >> 7 & 0x1ff) << 47 | ONE_HASH);
}

/* How many of the keys below `keys` get a row. */
static unsigned grow_calmly(struct store_table *t, uint64_t keys)
{
	unsigned made = 0;

	for (uint64_t key = 0; key < keys; key++)
		made += find_one(t, key, STORE_PULL) != STORE_NO_ROW;
	return made;
}

void crowd_with_one_hash_is_refused(void)
{
	enum { CROWD = 2000 };
	struct fixture f = fixture_open(16 << 20);
	struct store_table *t = table_of(&f, "t", 1, OPTIM_SGD);
	unsigned found = 0;

	CHECK_UINT(index_hash(one_hash(77)), UINT64_C(77) << 26 | ONE_HASH);
	CHECK_UINT(index_hash(one_hash(CROWD)) % (1 << INDEX_DEPTH_MAX), ONE_HASH % (1 << INDEX_DEPTH_MAX));
	for (uint64_t i = 0; i < CROWD; i++)
		find_one(t, one_hash(i), STORE_PULL);
	CHECK_UINT(store_table_stats(t)->rows, 2 * INDEX_ENTRIES);
	CHECK_UINT(store_table_stats(t)->refused, CROWD - 2 * INDEX_ENTRIES);
	/* All others are served, and the table grows as ever. */
	CHECK_UINT(grow_calmly(t, 20000), 20000);
	for (uint64_t i = 0; i < CROWD; i++)
		found += find_one(t, one_hash(i), STORE_PULL) != STORE_NO_ROW;
	CHECK_UINT(found, 2 * INDEX_ENTRIES);
	CHECK(store_table_stats(t)->moved_max <= SEGMENT);
	CHECK(store_table_stats(t)->memory_bytes < 1 << 20);
	fixture_close(&f);
}

/* Keys of one segment, however often it splits. */
static uint64_t one_segment(uint64_t i)
{
	return key_of_hash(i * 0x9e3779b1 << (INDEX_SHARE_FROM + INDEX_SHARE_OF) | 0x140);
}

void crowd_in_one_segment_is_refused(void)
{
	enum { CROWD = 30000 };
	struct fixture f = fixture_open(16 << 20);
	struct store_table *t = table_of(&f, "t", 1, OPTIM_SGD);
	unsigned found = 0, crowd, made;

	for (uint64_t i = 0; i < CROWD; i++)
		find_one(t, one_segment(i), STORE_PULL);
	crowd = (unsigned)store_table_stats(t)->rows;
	CHECK(crowd <= SEGMENT && crowd > SEGMENT / 2);
	CHECK(store_table_stats(t)->memory_bytes < 1 << 20);
	/* Only those are refused that the crowd's segment would hold. */
	made = grow_calmly(t, 20000);
	CHECK(made >= 20000 - 20000 / 500);
	for (uint64_t i = 0; i < CROWD; i++)
		found += find_one(t, one_segment(i), STORE_LOOK) != STORE_NO_ROW;
	CHECK_UINT(found, crowd);
	CHECK_UINT(store_table_stats(t)->rows, crowd + made);
	CHECK(store_table_stats(t)->moved_max <= SEGMENT);
	fixture_close(&f);
}

/* How many of the directory's entries are not those of a copy made before, with the same depth. */
static unsigned entries_changed(const struct store_index *ix, const uint32_t *before)
{
	unsigned changed = 0;

	for (uint64_t i = 0; i <= ix->mask; i++)
		changed += ix->directory[i] != before[i];
	return changed;
}

struct work {
	unsigned splits, written, copied;
	uint64_t taken;
};

/* Makes the row of a key and looks at what that took. `before`: room for the directory. */
static struct work work_of_a_row(struct store_table *t, uint64_t key, uint32_t *before)
{
	const struct store_index *ix = &t->index;
	const struct arena *arena = ix->arena;
	const uint32_t segments = ix->segments, copied = ix->copied;
	const uint64_t left = arena_free(arena);
	const unsigned depth = ix->depth;
	const bool prepared = ix->next;
	struct work work = { 0 };

	find_one(t, key, STORE_PULL);
	work.splits = ix->segments - segments;
	work.copied = (depth == ix->depth ? ix->copied : 1u << depth) - copied;
	work.taken = left - arena_free(arena);
	if (ix->next && !prepared) /* taken, but not touched */
		work.taken -= 2 * (ix->mask + 1) * sizeof(*ix->next);
	if (depth != ix->depth) {
		/* The old directory is given back. */
		work.taken += arena_rounded(sizeof(*before) << depth);
		/* The old entries twice. */
		memcpy(before + (UINT64_C(1) << depth), before, sizeof(*before) << depth);
	} else if (!work.splits) {
		return work;
	}
	work.written = entries_changed(ix, before);
	memcpy(before, ix->directory, (ix->mask + 1) * sizeof(*before));
	return work;
}

static struct work most_work(struct work a, struct work b)
{
	return (struct work){ a.splits > b.splits ? a.splits : b.splits, a.written > b.written ? a.written : b.written,
			      a.copied > b.copied ? a.copied : b.copied, a.taken > b.taken ? a.taken : b.taken };
}

/* Half of all hashes are kept out, so the segment that they belong to is left behind by the directory; then they
 * come. */
void one_row_is_bounded_work_whatever_the_keys(void)
{
	enum { ROWS = 1000000, LATE = 100000, ENTRIES_MAX = 1 << 13 };
	struct fixture f = fixture_open((size_t)64 << 20);
	struct store_table *t = table_of(&f, "t", 1, OPTIM_SGD);
	const struct store_index *ix = &t->index;
	static uint32_t before[ENTRIES_MAX];
	struct work most = { 0 };
	uint64_t key = 0;

	before[0] = ix->directory[0];
	for (unsigned rows = 0; rows < ROWS + LATE; key++) {
		if ((index_hash(key) & 1) != (rows >= ROWS))
			continue;
		most = most_work(most, work_of_a_row(t, key, before));
		rows++;
		if (!CHECK(ix->mask < ENTRIES_MAX / 2))
			break;
	}
	CHECK_UINT(store_table_stats(t)->rows, ROWS + LATE);
	CHECK(ix->mask + 1 >= 2048); /* of which half were one segment's */
	CHECK_UINT(most.splits, 2);  /* of the first row: one parts nothing */
	CHECK(store_table_stats(t)->moved_max <= SEGMENT);
	CHECK_UINT(most.written, 256);
	CHECK_UINT(most.copied, 1024);
	/* A slab of rows, two segments. */
	CHECK(most.taken <= 32768 + 2 * ARENA_PAGE);
	fixture_close(&f);
}
