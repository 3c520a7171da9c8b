/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/index.h"

#include <assert.h>
#include <string.h>
#include <tmmintrin.h>

enum {
	/* If a segment cannot place an entry while it is less than half full, somebody has chosen the keys: random
	 * hashes never fill a bucket pair and all buckets that could relieve it so early. */
	SPLIT_MIN = INDEX_SEGMENT_ENTRIES / 2,
	/* Entries that each split copies to the next directory. This takes less than a microsecond, and completes the
	 * copy long before all segments have split once, which is when it is needed. */
	COPY_STEP = 1024,
	/* With random hashes the directory has at most about four entries per segment. It has more if keys come in the
	 * order of a walk, as from exports and checkpoints, which fill one end of the directory after the other, or if
	 * somebody has chosen the keys. Small directories may have more; larger ones only while they, and the segments
	 * that must not lag too far behind, take a small part of the memory that is left. What is refused then is about
	 * as rare as entries in an overfull segment. */
	SPARSE_MAX = 8,
	SPARSE_ENTRIES = 1024,
	/* 256 KiB of directory, enough for a hundred million rows in a shard: inserting one row takes a fraction of a
	 * millisecond at most. */
	INSERT_ENTRIES = 1 << 16,
	INSERT_BYTES = 4096, /* of memory that is left, per entry */
	/* Nobody waits while a checkpoint is loaded: 4 MiB, enough for a billion rows. */
	LOAD_ENTRIES = 1 << 20,
	LOAD_BYTES = 512,
	/* How many buckets ahead a split prefetches rows, if it needs them. */
	SPLIT_AHEAD = 4,
	/* Two segments are merged if they have no more entries than this together: far enough from full that the next
	 * few rows do not split them again. */
	JOIN_MAX = INDEX_SEGMENT_ENTRIES * 3 / 4,
	/* The directory may be at most this many bits ahead of a segment: 256 entries, which is what one split or merge
	 * writes. Only chosen keys leave a segment so far behind; it is then split before the directory doubles, even
	 * if it is nearly empty. So an index that was large once keeps some pages. */
	LAG_MAX = 8,
	/* Checking whether segments can be merged reads both. So an erased entry triggers it only if it leaves at most
	 * this many in its bucket, and only for one tag in this many. */
	JOIN_BUCKET_MAX = 4,
	JOIN_TAGS = 8,
};

static uint32_t *take_directory(struct store_index *ix, uint64_t entries)
{
	uint32_t *directory = store_arena_take(ix->arena, entries * sizeof(*directory));

	if (directory)
		ix->stats->memory_bytes += arena_rounded(entries * sizeof(*directory));
	return directory;
}

static void give_directory(struct store_index *ix, uint32_t *directory, uint64_t entries)
{
	if (!directory)
		return;
	store_arena_give(ix->arena, directory, entries * sizeof(*directory));
	ix->stats->memory_bytes -= arena_rounded(entries * sizeof(*directory));
}

/* Not zeroed. */
static struct index_segment *take_segment(struct store_index *ix)
{
	struct index_segment *segment = store_arena_take_page(ix->arena);

	if (!segment)
		return NULL;
	ix->segments++;
	ix->stats->memory_bytes += sizeof(*segment);
	return segment;
}

static uint32_t page_number(const struct store_index *ix, const struct index_segment *segment)
{
	return (uint32_t)((uint64_t)((const uint8_t *)segment - ix->base) / ARENA_PAGE);
}

bool store_index_init(struct store_index *ix, struct arena *arena, unsigned row_shift, struct store_stats *stats)
{
	struct index_segment *segment;

	*ix = (struct store_index){
		.base = arena->base, .row_shift = (uint8_t)row_shift, .arena = arena, .stats = stats
	};
	ix->directory = take_directory(ix, 1);
	if (!ix->directory)
		return false;
	segment = take_segment(ix);
	if (!segment)
		return false;
	memset(segment, 0, sizeof(*segment));
	ix->directory[0] = page_number(ix, segment);
	return true;
}

static store_row find_in(const struct store_index *ix, const struct index_bucket *bucket, uint64_t key, uint8_t tag)
{
	for (uint32_t mask = index_match(bucket, tag); mask; mask &= mask - 1) {
		const store_row row = bucket->rows[__builtin_ctz(mask)];

		if (index_key(ix, row) == key)
			return row;
	}
	return STORE_NO_ROW;
}

store_row store_index_find(const struct store_index *ix, uint64_t key, uint64_t hash)
{
	const struct index_bucket *home = index_home(ix, hash);
	const uint8_t tag = index_tag(hash);
	store_row row = find_in(ix, home, key, tag);

	if (row == STORE_NO_ROW && home->strayed)
		row = find_in(ix, index_other(home, tag), key, tag);
	return row;
}

/* An entry on its way to another bucket. */
struct entry {
	store_row row;
	uint8_t tag;
	bool side;
};

static uint32_t with_bit(uint32_t mask, unsigned i, bool set)
{
	return ((mask & ~(1u << i)) | (uint32_t)set << i) & INDEX_ALL;
}

static void put_entry(struct index_bucket *bucket, unsigned i, struct entry e, bool away)
{
	bucket->tags[i] = e.tag;
	bucket->rows[i] = e.row;
	bucket->away = with_bit(bucket->away, i, away);
	bucket->side = with_bit(bucket->side, i, e.side);
}

static void clear(struct index_bucket *bucket, unsigned i)
{
	bucket->tags[i] = 0;
	bucket->away = with_bit(bucket->away, i, false);
}

/* Moves entry i to its other bucket, if there is room in that bucket and in the count of strayed entries. */
static bool move_over(struct index_bucket *bucket, unsigned i)
{
	const struct entry e = { bucket->rows[i], bucket->tags[i], bucket->side >> i & 1 };
	struct index_bucket *other = index_other(bucket, e.tag);
	const uint32_t room = index_match(other, 0);
	const bool home_coming = bucket->away >> i & 1;

	if (!room || (!home_coming && bucket->strayed == INDEX_AWAY_MAX))
		return false;
	put_entry(other, (unsigned)__builtin_ctz(room), e, !home_coming);
	other->known &= bucket->known;
	if (home_coming)
		other->strayed--;
	else
		bucket->strayed++;
	clear(bucket, i);
	return true;
}

/* Makes room in a full bucket by moving an entry to its other bucket. Moving a second one for the first would fill
 * segments by 3 % more, but cost as much as all the rest of a split. */
static bool relieve(struct index_bucket *bucket)
{
	for (unsigned i = 0; i < INDEX_ENTRIES; i++)
		if (move_over(bucket, i))
			return true;
	return false;
}

static bool put_into(struct index_bucket *bucket, struct entry e, bool away, bool relieving)
{
	uint32_t room;

	if (relieving && !relieve(bucket))
		return false;
	room = index_match(bucket, 0);
	if (!room)
		return false;
	put_entry(bucket, (unsigned)__builtin_ctz(room), e, away);
	return true;
}

/* Places an entry in its home, or in its other bucket, or in the place of an entry that can move. */
static bool place_entry(struct index_bucket *home, struct entry e)
{
	struct index_bucket *other = index_other(home, e.tag);

	for (int relieving = 0; relieving < 2; relieving++) {
		if (put_into(home, e, false, relieving))
			return true;
		/* Relieving may have let more of home's entries stray. */
		if (home->strayed + INDEX_ENTRIES < INDEX_AWAY_MAX && put_into(other, e, true, relieving)) {
			home->strayed++;
			return true;
		}
	}
	return false;
}

/* The first of the directory's entries from..to whose segment lags too far behind for a directory of twice the size, or
 * `to`. */
static uint32_t first_behind(const struct store_index *ix, uint32_t from, uint32_t to)
{
	while (from < to && (ix->directory[from] >> INDEX_PAGE_BITS) + LAG_MAX > ix->depth)
		from++;
	return from;
}

static bool may_double(const struct store_index *ix, bool loading)
{
	const uint64_t entries = UINT64_C(1) << ix->depth;

	if (ix->depth == INDEX_DEPTH_MAX)
		return false;
	if (entries <= SPARSE_ENTRIES || entries <= (uint64_t)SPARSE_MAX * ix->segments)
		return true;
	return entries <= (loading ? LOAD_ENTRIES : INSERT_ENTRIES) &&
	       entries * (loading ? LOAD_BYTES : INSERT_BYTES) <= arena_free(ix->arena);
}

/* One step in preparing the next directory, up to a segment that must be split first; nothing if it is complete. */
static void prepare_directory(struct store_index *ix, bool loading)
{
	const uint32_t entries = 1u << ix->depth;
	uint32_t step = entries - ix->copied;

	if (!ix->next) {
		if (!may_double(ix, loading))
			return;
		ix->next = take_directory(ix, 2 * (uint64_t)entries);
		if (!ix->next)
			return;
	}
	if (step > COPY_STEP)
		step = COPY_STEP;
	step = first_behind(ix, ix->copied, ix->copied + step) - ix->copied;
	ix->behind = step == 0 && ix->copied < entries;
	memcpy(ix->next + ix->copied, ix->directory + ix->copied, step * sizeof(*ix->next));
	memcpy(ix->next + entries + ix->copied, ix->directory + ix->copied, step * sizeof(*ix->next));
	ix->copied += step;
}

static bool double_directory(struct store_index *ix)
{
	if (!ix->next || ix->copied < 1u << ix->depth)
		return false;
	give_directory(ix, ix->directory, UINT64_C(1) << ix->depth);
	ix->directory = ix->next;
	ix->depth++;
	ix->mask = (UINT64_C(1) << ix->depth) - 1;
	ix->next = NULL;
	ix->copied = 0;
	return true;
}

/* Assigns the hashes whose low `depth` bits equal pattern to a segment. */
static void enter_segment(struct store_index *ix, const struct index_segment *segment, uint64_t pattern, unsigned depth)
{
	const uint32_t number = page_number(ix, segment) | depth << INDEX_PAGE_BITS, entries = 1u << ix->depth;

	for (uint32_t i = (uint32_t)pattern; i < entries; i += 1u << depth) {
		ix->directory[i] = number;
		if (i < ix->copied)
			ix->next[i] = ix->next[entries + i] = number;
	}
}

/* The sides of a bucket's entries, computed from their keys. */
static uint32_t sides_of(const struct store_index *ix, const struct index_bucket *bucket, unsigned depth)
{
	uint32_t side = 0;

	for (uint32_t mask = index_used(bucket); mask; mask &= mask - 1) {
		const unsigned i = (unsigned)__builtin_ctz(mask);

		side |= (uint32_t)(index_hash(index_key(ix, bucket->rows[i])) >> depth & 1) << i;
	}
	return side & INDEX_ALL;
}

/* A byte of ones for each bit that is set. */
static __m128i spread_bits(uint32_t bits)
{
	const __m128i each = _mm_set1_epi64x((long long)0x8040201008040201u),
		      halves = _mm_set_epi64x(0x0101010101010101, 0);
	const __m128i of = _mm_and_si128(_mm_shuffle_epi8(_mm_cvtsi32_si128((int)bits), halves), each);

	return _mm_cmpeq_epi8(of, each);
}

/* Moves those entries of a bucket that have a side to the same positions in another bucket, which is rewritten. */
static unsigned sort_bucket(const struct store_index *ix, struct index_bucket *from, struct index_bucket *to,
			    unsigned bit)
{
	const uint32_t side = (from->known ? from->side : sides_of(ix, from, bit)) & index_used(from),
		       away = from->away, strayed = from->strayed;
	const __m128i tags = _mm_load_si128((const __m128i *)from), go = spread_bits(side);

	memcpy(to->rows, from->rows, sizeof(to->rows));
	_mm_store_si128((__m128i *)to, _mm_and_si128(tags, go));
	_mm_store_si128((__m128i *)from, _mm_andnot_si128(go, tags));
	to->away = away & side;
	to->side = to->strayed = to->known = 0;
	from->away = away & ~side & INDEX_ALL;
	from->strayed = strayed & INDEX_AWAY_MAX;
	from->side = from->known = 0;
	return (unsigned)__builtin_popcount(side);
}

/* Moves the entries whose hash has `bit` to the same positions in a new segment; returns their number. */
static unsigned sort_out(const struct store_index *ix, struct index_segment *from, struct index_segment *to,
			 unsigned bit)
{
	unsigned moved = 0;

	for (unsigned b = 0; b < SPLIT_AHEAD; b++)
		index_load_to_learn(ix, &from->buckets[b]);
	for (unsigned b = 0; b < INDEX_BUCKETS; b++) {
		if (b + SPLIT_AHEAD < INDEX_BUCKETS) {
			index_load_to_learn(ix, &from->buckets[b + SPLIT_AHEAD]);
			__builtin_prefetch(&to->buckets[b + SPLIT_AHEAD], 1);
		}
		moved += sort_bucket(ix, &from->buckets[b], &to->buckets[b], bit);
	}
	for (unsigned b = 0; b < INDEX_BUCKETS; b++)
		for (uint32_t away = to->buckets[b].away; away; away &= away - 1) {
			const uint8_t tag = to->buckets[b].tags[__builtin_ctz(away)];

			index_other(&from->buckets[b], tag)->strayed--;
			index_other(&to->buckets[b], tag)->strayed++;
		}
	return moved;
}

/* Returns strayed entries to their homes if there is room again; returns their number. */
static unsigned settle_segment(struct index_segment *segment)
{
	unsigned moved = 0;

	for (unsigned b = 0; b < INDEX_BUCKETS; b++)
		for (uint32_t away = segment->buckets[b].away; away; away &= away - 1)
			moved += move_over(&segment->buckets[b], (unsigned)__builtin_ctz(away));
	return moved;
}

static unsigned count_entries(const struct index_segment *segment)
{
	unsigned count = 0;

	for (unsigned b = 0; b < INDEX_BUCKETS; b++)
		count += INDEX_ENTRIES - (unsigned)__builtin_popcount(index_match(&segment->buckets[b], 0));
	return count;
}

/* Splits the segment of a hash in two; the directory has room for both. */
static bool split_segment(struct store_index *ix, uint64_t hash)
{
	struct index_segment *old = index_segment_of(ix, hash), *new = take_segment(ix);
	const unsigned depth = index_depth(ix, hash);
	const uint64_t bit = UINT64_C(1) << depth;
	unsigned moved;

	if (!new)
		return false;
	moved = sort_out(ix, old, new, depth);
	enter_segment(ix, old, hash & (bit - 1), depth + 1);
	enter_segment(ix, new, (hash & (bit - 1)) | bit, depth + 1);
	moved += settle_segment(old);
	settle_segment(new); /* these have already moved */
	if (ix->stats->moved_max < moved)
		ix->stats->moved_max = moved;
	return true;
}

/* Splits the segment that keeps the next directory from being completed, and continues with that. */
static bool catch_up(struct store_index *ix, bool loading)
{
	ix->behind = false;
	/* It may have been split since, because it was full. */
	if (first_behind(ix, ix->copied, ix->copied + 1) == ix->copied && !split_segment(ix, ix->copied))
		return false;
	prepare_directory(ix, loading);
	return true;
}

/* With random keys the next directory is always complete before it is needed; with keys in the order of a walk it may
 * not be. */
static bool complete_directory(struct store_index *ix, bool loading)
{
	while (ix->next && ix->copied < 1u << ix->depth) {
		prepare_directory(ix, loading);
		if (ix->behind && !catch_up(ix, loading))
			return false;
	}
	return double_directory(ix);
}

static bool split_crowded(struct store_index *ix, uint64_t hash, bool loading)
{
	const unsigned depth = index_depth(ix, hash), entries = count_entries(index_segment_of(ix, hash));

	if (entries < SPLIT_MIN)
		return false;
	prepare_directory(ix, loading);
	if (depth == ix->depth && !double_directory(ix) && !complete_directory(ix, loading))
		return false;
	if (!split_segment(ix, hash))
		return false;
	ix->splits++;
	ix->split_entries += entries;
	return true;
}

/* Places an entry in its home or elsewhere in its segment, and records that in its home. */
static bool enter(const struct store_index *ix, uint64_t hash, store_row row)
{
	struct index_bucket *home = index_home(ix, hash);
	const unsigned depth = index_depth(ix, hash);

	if (!home->known) {
		home->side = sides_of(ix, home, depth) & INDEX_ALL;
		home->known = 1;
	}
	return place_entry(home, (struct entry){ row, index_tag(hash), hash >> depth & 1 });
}

/* With random hashes there is room after one split. In the order of a walk all entries of a segment have many more bits
 * in common than the segment's depth, so several splits may separate nothing; after that none is needed for as many
 * rows as there are segments. */
static bool split_and_enter(struct store_index *ix, uint64_t hash, store_row row, bool loading)
{
	for (unsigned splits = 0; splits < INDEX_DEPTH_MAX; splits++) {
		if (!split_crowded(ix, hash, loading))
			return false;
		if (enter(ix, hash, row))
			return true;
	}
	return false;
}

bool store_index_insert(struct store_index *ix, uint64_t hash, store_row row)
{
	if (!enter(ix, hash, row))
		return split_and_enter(ix, hash, row, false);
	/* The split of another segment is done by a row that needs none itself. */
	if (ix->behind)
		catch_up(ix, false);
	return true;
}

bool store_index_load(struct store_index *ix, uint64_t hash, store_row row)
{
	return enter(ix, hash, row) || split_and_enter(ix, hash, row, true);
}

static bool take_from(struct index_bucket *bucket, uint8_t tag, store_row row)
{
	for (uint32_t mask = index_match(bucket, tag); mask; mask &= mask - 1) {
		const unsigned i = (unsigned)__builtin_ctz(mask);

		if (bucket->rows[i] == row) {
			clear(bucket, i);
			return true;
		}
	}
	return false;
}

static void take_out_entry(struct index_bucket *home, uint8_t tag, store_row row)
{
	if (!take_from(home, tag, row)) {
		const bool taken = take_from(index_other(home, tag), tag, row);

		assert(taken && home->strayed > 0);
		if (taken)
			home->strayed--;
	}
}

/* Copies the entries of one segment, all of one side, into another segment in which their keys have the same homes;
 * stops before `limit` entries. Returns how many found a place. */
static unsigned pour(const struct index_segment *from, struct index_segment *to, unsigned limit, bool side, bool back)
{
	unsigned moved = 0;

	for (unsigned b = 0; b < INDEX_BUCKETS; b++) {
		const struct index_bucket *bucket = &from->buckets[b];

		for (uint32_t mask = index_used(bucket); mask; mask &= mask - 1) {
			const unsigned i = (unsigned)__builtin_ctz(mask);
			const uint8_t tag = bucket->tags[i];
			const struct index_bucket *home = bucket->away >> i & 1 ? index_other(bucket, tag) : bucket;
			struct index_bucket *new_home = &to->buckets[home - from->buckets];

			if (moved == limit)
				return moved;
			if (back)
				take_out_entry(new_home, tag, bucket->rows[i]);
			else if (!place_entry(new_home, (struct entry){ bucket->rows[i], tag, side }))
				return moved;
			moved++;
		}
	}
	return moved;
}

/* Records that all entries of a segment have one side, or that the sides are not known. */
static void set_sides(struct index_segment *segment, bool known, bool side)
{
	for (unsigned b = 0; b < INDEX_BUCKETS; b++) {
		segment->buckets[b].known = known;
		segment->buckets[b].side = side ? INDEX_ALL : 0;
	}
}

/* Merges the segment of a hash with the one that differs in its last bit. */
static bool join_segment(struct store_index *ix, uint64_t hash)
{
	struct index_segment *to = index_segment_of(ix, hash), *from, *swap;
	const unsigned depth = index_depth(ix, hash);
	const uint64_t bit = depth ? UINT64_C(1) << (depth - 1) : 0;
	bool side = !(hash & bit); /* of the copied entries */
	unsigned count, moved;

	if (depth == 0 || ix->depth + (ix->next ? 1u : 0u) - (depth - 1) > LAG_MAX)
		return false;
	from = index_segment_of(ix, hash ^ bit);
	if (index_depth(ix, hash ^ bit) != depth)
		return false;
	count = count_entries(from);
	moved = count_entries(to);
	if (count + moved > JOIN_MAX)
		return false;
	if (moved < count) {
		swap = from;
		from = to;
		to = swap;
		count = moved;
		side = !side;
	}
	set_sides(to, true, !side);
	moved = pour(from, to, count, side, false);
	if (moved < count) { /* undone; random hashes never get here */
		pour(from, to, moved, side, true);
		set_sides(to, false, false);
		return false;
	}
	enter_segment(ix, to, hash & (bit - 1), depth - 1);
	store_arena_give(ix->arena, from, sizeof(*from));
	ix->segments--;
	ix->stats->memory_bytes -= sizeof(*from);
	if (ix->stats->moved_max < moved)
		ix->stats->moved_max = moved;
	return true;
}

void store_index_erase(struct store_index *ix, uint64_t hash, store_row row)
{
	struct index_bucket *home = index_home(ix, hash);
	const uint8_t tag = index_tag(hash);

	take_out_entry(home, tag, row);
	if (tag % JOIN_TAGS == 0 && INDEX_ENTRIES - __builtin_popcount(index_match(home, 0)) <= JOIN_BUCKET_MAX)
		join_segment(ix, hash);
}

/* The end of a segment, by reversed hash: 0 after the last one. */
static uint64_t segment_end(uint64_t at, unsigned depth)
{
	const uint64_t span = depth ? UINT64_C(1) << (64 - depth) : 0;

	return (at & ~(span - 1)) + span;
}

unsigned store_index_walk(struct store_index *ix, struct index_walk *w, store_row rows[INDEX_SEGMENT_ENTRIES])
{
	const struct index_segment *segment = index_segment_of(ix, index_order(w->at));
	unsigned n = 0;

	for (unsigned b = 0; b < INDEX_BUCKETS; b++)
		for (uint32_t mask = index_used(&segment->buckets[b]); mask; mask &= mask - 1)
			rows[n++] = segment->buckets[b].rows[__builtin_ctz(mask)];
	w->at = segment_end(w->at, index_depth(ix, index_order(w->at)));
	w->over = w->at == 0;
	return n;
}

bool store_index_drop(struct store_index *ix, uint64_t *at, unsigned segments)
{
	for (; ix->segments && segments; segments--) {
		const uint64_t hash = index_order(*at);

		store_arena_give(ix->arena, index_segment_of(ix, hash), sizeof(struct index_segment));
		*at = segment_end(*at, index_depth(ix, hash));
		ix->segments--;
	}
	if (ix->segments)
		return false;
	give_directory(ix, ix->directory, UINT64_C(1) << ix->depth);
	give_directory(ix, ix->next, UINT64_C(2) << ix->depth);
	ix->directory = ix->next = NULL;
	return true;
}
