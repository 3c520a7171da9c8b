/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table's index: 64-bit key to row, by extendible hashing (Fagin, Nievergelt, Pippenger, Strong, TODS 4, 1979). The
 * low bits of a key's hash pick a segment from the directory; a segment is a page of 128 buckets, a bucket a cache line
 * of 12 entries: an 8-bit tag of the hash and the row's number each. The key itself stands in the row. An entry lies in
 * its home bucket or, when that was full, in one other bucket of the segment, which tag and home determine; so a
 * look-up reads one line, seldom two, never more (cuckoo hashing with partial keys: Fan, Andersen, Kaminsky, NSDI
 * 2013). A segment that can't place an entry, at some 95 % full, splits in two, which moves the entries of that segment
 * only; two that deletions have left with less than three quarters of a segment together are joined again, and a page
 * comes back.
 *
 * With equal shares of the keys all segments would be full, and so split, at about the same time, over and over again.
 * So the lowest bits of a hash are none of a key's random bits, but one of 32 shares made from them, whose sizes are
 * those of a geometric series from 1 to 2 (the idea of spiral storage: Martin, 1979): at any time there are segments of
 * every fill between a half and full, as many split while a table grows by a tenth as while it grows by the next one,
 * and the index takes as many bytes a row at one moment as at another.
 *
 * A split reads no keys: each entry has the bit that tells its side. A bucket learns those of the entries that the last
 * split left in it when the next entry comes.
 *
 * The directory of twice the size is made ready a piece with each split. A segment that it would leave too far behind,
 * as only chosen keys can, splits before: so with random keys one operation splits or joins one segment, and writes a
 * bounded part of the directory. Keys in the order of a walk, which exports have, share all bits by which the segments
 * that there are could part them: now and then one of them has one segment split for each of these bits.
 *
 * The hash is not the one that partitions are cut by (base/hash.h: hash_key), so a shard's keys spread over the whole
 * directory.
 *
 * More than 24 keys that share bucket, tag and all bits of the directory, which nobody meets who does not look for
 * them, are refused instead of being split without end. One thread.
 */
#ifndef STORE_INDEX_H
#define STORE_INDEX_H

#include <emmintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "store/arena.h"
#include "store/store.h"

enum index_shape {
	INDEX_ENTRIES = 12,  /* of a bucket */
	INDEX_BUCKETS = 128, /* of a segment */
	INDEX_SEGMENT_ENTRIES = INDEX_BUCKETS * INDEX_ENTRIES,
	INDEX_DEPTH_MAX = 26,
	INDEX_AWAY_MAX = 127,
	INDEX_ALL = (1 << INDEX_ENTRIES) - 1, /* a bit for each entry of a bucket */
	INDEX_PAGE_BITS = 25,		      /* of a directory's entry: 256 GiB */
	/* The lowest bits of a hash say which of 32 unequal shares it belongs to, by this many bits from there on. */
	INDEX_SHARE_BITS = 5,
	INDEX_SHARE_FROM = 26,
	INDEX_SHARE_OF = 14,
};

struct index_bucket {
	uint8_t tags[INDEX_ENTRIES];   /* 0: free */
	uint32_t away : INDEX_ENTRIES; /* bit i: entry i is at home in the other bucket */
	uint32_t side : INDEX_ENTRIES; /* bit i: if known, the bit of its hash by which the next split goes */
	uint32_t strayed : 7;	       /* entries at home here that lie in another bucket */
	uint32_t known : 1;	       /* that of all entries in it */
	store_row rows[INDEX_ENTRIES];
};
_Static_assert(sizeof(struct index_bucket) == 64, "a bucket is a cache line");
_Static_assert(offsetof(struct index_bucket, rows) == 16, "the tags lie in one vector");

struct index_segment {
	struct index_bucket buckets[INDEX_BUCKETS];
};
_Static_assert(sizeof(struct index_segment) == ARENA_PAGE, "a bucket's address xor 64 i stays in its segment");

struct store_index {
	uint8_t *base; /* of the arena */
	/* 2^depth segments: page of the arena, and the low bits of the hash that all its keys share */
	uint32_t *directory;
	uint64_t mask; /* 2^depth - 1 */
	uint8_t depth;
	uint8_t row_shift; /* log2 of the bytes that a row number counts */
	uint32_t segments;
	uint32_t splits;
	uint64_t split_entries; /* that segments had when they split, all together */
	/* The directory of twice the size, made ready ahead of need in bounded steps. NULL: not begun. */
	uint32_t *next;
	uint32_t copied; /* entries of directory that stand in next, twice each */
	bool behind;	 /* the segment of the next one has to split first */
	struct arena *arena;
	struct store_stats *stats;
};

/* Rows are numbered by their distance from the arena's base in units of 2^row_shift bytes, and begin with their key.
 * false when the arena has no room. */
bool store_index_init(struct store_index *ix, struct arena *arena, unsigned row_shift, struct store_stats *stats);

/* The row of a key with this hash, or STORE_NO_ROW. */
store_row store_index_find(const struct store_index *ix, uint64_t key, uint64_t hash);

/* Adds an entry for a key that has none. false when there is no room for it. */
bool store_index_insert(struct store_index *ix, uint64_t hash, store_row row);

/* The same while nobody waits: with as large a directory as it takes. */
bool store_index_load(struct store_index *ix, uint64_t hash, store_row row);

/* Takes an entry out, which must be there. */
void store_index_erase(struct store_index *ix, uint64_t hash, store_row row);

/* Gives an index's memory back to the arena, some segments at a time, from *at (0) on; of one that could not be made,
 * too. true: that was the last of it. */
bool store_index_drop(struct store_index *ix, uint64_t *at, unsigned segments);

/*
 * A walk over all entries, a segment at a time, in the order of the segments' reversed hash bits (as Redis's SCAN
 * does): in it a split or a join changes nothing before or after itself, so an entry that stays is met, whatever
 * happens between two calls. Begins as { 0 }.
 */
struct index_walk {
	uint64_t at; /* reversed hash where the next segment begins */
	bool over;
};

/* The rows of the next segment; returns how many, perhaps 0. Not to be called when walk->over is set. */
unsigned store_index_walk(struct store_index *ix, struct index_walk *walk, store_row rows[INDEX_SEGMENT_ENTRIES]);

/* Where a walk meets an entry of this hash: its bits reversed; and the other way round. */
static inline uint64_t index_order(uint64_t hash)
{
	hash = __builtin_bswap64(hash);
	hash = (hash >> 4 & 0x0f0f0f0f0f0f0f0fu) | (hash & 0x0f0f0f0f0f0f0f0fu) << 4;
	hash = (hash >> 2 & 0x3333333333333333u) | (hash & 0x3333333333333333u) << 2;
	return (hash >> 1 & 0x5555555555555555u) | (hash & 0x5555555555555555u) << 1;
}

/*
 * Directory: bits 0 to 25, of which the share takes the lowest; bucket: bits 40 to 46; tag: bits 56 to 63. Share s of
 * 32 gets about 2^(s / 32) / 46 of the keys, the logarithm by a parabola: s = 32 (u + 11/32 u (1 - u)), u in [0, 1).
 */
static inline uint64_t index_hash(uint64_t key)
{
	const uint64_t hash = hash_mix(key + 0x9e3779b97f4a7c15u);
	const uint64_t one = 1 << INDEX_SHARE_OF, u = (hash >> INDEX_SHARE_FROM) & (one - 1);
	const uint64_t share = u * (43 * one - 11 * u) >> (5 + 2 * INDEX_SHARE_OF - INDEX_SHARE_BITS);

	return (hash & ~UINT64_C(0) << INDEX_SHARE_BITS) | share;
}
static inline uint8_t index_tag(uint64_t hash)
{
	const uint8_t tag = (uint8_t)(hash >> 56);

	return tag ? tag : 1;
}

static inline struct index_segment *index_segment_of(const struct store_index *ix, uint64_t hash)
{
	const uint32_t page = ix->directory[hash & ix->mask] & ((1u << INDEX_PAGE_BITS) - 1);

	return (struct index_segment *)(ix->base + (uint64_t)page * ARENA_PAGE);
}

/* How many low bits of their hash all keys of a segment share. */
static inline unsigned index_depth(const struct store_index *ix, uint64_t hash)
{
	return ix->directory[hash & ix->mask] >> INDEX_PAGE_BITS;
}

static inline struct index_bucket *index_home(const struct store_index *ix, uint64_t hash)
{
	return &index_segment_of(ix, hash)->buckets[(hash >> 40) % INDEX_BUCKETS];
}

/* The other bucket for a tag: its other's other is the bucket itself, and never the same. */
static inline struct index_bucket *index_other(const struct index_bucket *bucket, uint8_t tag)
{
	const uintptr_t step = ((tag * (INDEX_BUCKETS - 1u)) >> 8) + 1;

	return (struct index_bucket *)((uintptr_t)bucket ^ step * sizeof(*bucket));
}

/* A bit for each entry that has this tag; of tag 0: for each free entry. */
static inline uint32_t index_match(const struct index_bucket *bucket, uint8_t tag)
{
	const __m128i tags = _mm_load_si128((const __m128i *)bucket);

	return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag))) & INDEX_ALL;
}

/* A bit for each entry that is not free. */
static inline uint32_t index_used(const struct index_bucket *bucket)
{
	return ~index_match(bucket, 0) & INDEX_ALL;
}

static inline void *index_record(const struct store_index *ix, store_row row)
{
	return ix->base + ((uint64_t)row << ix->row_shift);
}

static inline uint64_t index_key(const struct store_index *ix, store_row row)
{
	return *(const uint64_t *)index_record(ix, row);
}

/* Before an entry is added: loads the rows of a bucket that has to learn its entries' sides. Inlined always, as
 * table_prefetch. */
static inline __attribute__((always_inline)) void index_load_to_learn(const struct store_index *ix,
								      const struct index_bucket *bucket)
{
	for (uint32_t mask = bucket->known ? 0 : index_used(bucket); mask; mask &= mask - 1)
		__builtin_prefetch(index_record(ix, bucket->rows[__builtin_ctz(mask)]), 0, 2);
}

#endif
