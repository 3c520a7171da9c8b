/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table's index, from 64-bit keys to rows, by extendible hashing (Fagin, Nievergelt, Pippenger, Strong, TODS 4,
 * 1979). The low bits of a key's hash select a segment from the directory. A segment is a page of 128 buckets, and a
 * bucket is a cache line with 12 entries, each an 8-bit tag of the hash and a row number. The key itself is in the row.
 * An entry is in its home bucket or, if that was full, in one other bucket of the segment, which follows from tag and
 * home. So a look-up reads one cache line, seldom two, and never more (cuckoo hashing with partial keys: Fan, Andersen,
 * Kaminsky, NSDI 2013). A segment that cannot place an entry, which happens when it is about 95 % full, splits in two;
 * only its own entries are moved. If deletions leave two sibling segments with less than three quarters of a segment
 * together, they are joined, and a page is freed.
 *
 * If all segments had equal shares of the keys, they would all become full, and split, at about the same time, again
 * and again. So the lowest bits of a hash are not random: they are one of 32 shares, whose sizes form a geometric
 * series from 1 to 2 (the idea of spiral storage: Martin, 1979). Then there are segments of every fill between half and
 * full at any time, splits are spread evenly over a table's growth, and the index always takes about the same number of
 * bytes for each row.
 *
 * A split reads no keys, because each entry has the bit that says to which half it goes. After a split a bucket does
 * not know the next such bits of its entries; it reads them from the rows when the next entry comes.
 *
 * The directory of twice the size is prepared in steps, one with each split. Before it is used, segments that would lag
 * too far behind are split; only chosen keys cause that. So with random keys one operation splits or joins one segment,
 * and writes a bounded part of the directory. Keys in the order of an index walk, as in exports, share all the bits
 * that distinguish the existing segments: now and then such a key makes one segment split once for each of these bits.
 *
 * This hash differs from the one that determines partitions (base/hash.h: hash_key), so a shard's keys spread over the
 * whole directory.
 *
 * More than 24 keys that share bucket, tag and all bits of the directory are refused, instead of splitting for ever;
 * only keys chosen for that do this. One thread, the store's.
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
	INDEX_PAGE_BITS = 25,		      /* of a directory entry, for a page number: 256 GiB */
	/* The lowest INDEX_SHARE_BITS bits of a hash say to which of 32 unequal shares it belongs. The share is
	 * computed from INDEX_SHARE_OF bits, from bit INDEX_SHARE_FROM on. */
	INDEX_SHARE_BITS = 5,
	INDEX_SHARE_FROM = 26,
	INDEX_SHARE_OF = 14,
};

struct index_bucket {
	uint8_t tags[INDEX_ENTRIES];   /* 0: free */
	uint32_t away : INDEX_ENTRIES; /* bit i: the home of entry i is its other bucket */
	uint32_t side : INDEX_ENTRIES; /* bit i, if `known`: the hash bit of entry i that decides the next split */
	uint32_t strayed : 7;	       /* how many entries whose home is here are in their other bucket */
	uint32_t known : 1;	       /* `side` is valid, for all entries */
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
	/* 2^depth entries: a segment's page in the arena, and above INDEX_PAGE_BITS its depth */
	uint32_t *directory;
	uint64_t mask; /* 2^depth - 1 */
	uint8_t depth;
	uint8_t row_shift; /* log2 of the unit of row numbers, in bytes */
	uint32_t segments;
	uint32_t splits;
	uint64_t split_entries; /* total of the entries that segments had when they split */
	/* The directory of twice the size, prepared in bounded steps before it is needed. NULL: not begun. */
	uint32_t *next;
	uint32_t copied; /* entries of `directory` that were copied to `next`, twice each */
	bool behind;	 /* the segment of the next entry has to split first */
	struct arena *arena;
	struct store_stats *stats;
};

/* A row's number is its offset from the arena's base in units of 2^row_shift bytes. Rows begin with their key. false:
 * the arena has no room. */
bool store_index_init(struct store_index *ix, struct arena *arena, unsigned row_shift, struct store_stats *stats);

/* The row of a key with this hash, or STORE_NO_ROW. */
store_row store_index_find(const struct store_index *ix, uint64_t key, uint64_t hash);

/* Adds an entry for a key that has none. false: there is no room. */
bool store_index_insert(struct store_index *ix, uint64_t hash, store_row row);

/* The same while nobody waits, as when loading: it may enlarge the directory at once. */
bool store_index_load(struct store_index *ix, uint64_t hash, store_row row);

/* Removes an entry, which must exist. */
void store_index_erase(struct store_index *ix, uint64_t hash, store_row row);

/* Returns an index's memory to the arena, this many segments at a time, from *at on, which begins as 0. Also for an
 * index whose init has failed. true: all of it was returned. */
bool store_index_drop(struct store_index *ix, uint64_t *at, unsigned segments);

/*
 * A walk over all entries, a segment at a time, in the order of reversed hash bits (as Redis's SCAN does). In that
 * order a split or a join changes nothing before or after itself, so an entry that exists throughout is visited,
 * whatever happens between two calls. Begins as { 0 }.
 */
struct index_walk {
	uint64_t at; /* reversed hash at which the next segment begins */
	bool over;
};

/* Writes the rows of the next segment, and returns their number, which may be 0. Do not call it when walk->over is
 * set. */
unsigned store_index_walk(struct store_index *ix, struct index_walk *walk, store_row rows[INDEX_SEGMENT_ENTRIES]);

/* The position of a hash in a walk: its bits in reverse order. Applying it twice gives the hash again. */
static inline uint64_t index_order(uint64_t hash)
{
	hash = __builtin_bswap64(hash);
	hash = (hash >> 4 & 0x0f0f0f0f0f0f0f0fu) | (hash & 0x0f0f0f0f0f0f0f0fu) << 4;
	hash = (hash >> 2 & 0x3333333333333333u) | (hash & 0x3333333333333333u) << 2;
	return (hash >> 1 & 0x5555555555555555u) | (hash & 0x5555555555555555u) << 1;
}

/*
 * The hash of a key. Directory: bits 0 to 25, of which the lowest five are the share; bucket: bits 40 to 46; tag: bits
 * 56 to 63. Share s of 32 gets about 2^(s / 32) / 46 of the keys. The logarithm is approximated by a parabola: s = 32
 * (u + 11/32 u (1 - u)), with u uniform in [0, 1).
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

/* The depth of a segment: how many low bits of the hash are the same for all its keys. */
static inline unsigned index_depth(const struct store_index *ix, uint64_t hash)
{
	return ix->directory[hash & ix->mask] >> INDEX_PAGE_BITS;
}

static inline struct index_bucket *index_home(const struct store_index *ix, uint64_t hash)
{
	return &index_segment_of(ix, hash)->buckets[(hash >> 40) % INDEX_BUCKETS];
}

/* The other bucket for a tag. It always differs from the bucket, and the other bucket of that one is the bucket
 * itself. */
static inline struct index_bucket *index_other(const struct index_bucket *bucket, uint8_t tag)
{
	const uintptr_t step = ((tag * (INDEX_BUCKETS - 1u)) >> 8) + 1;

	return (struct index_bucket *)((uintptr_t)bucket ^ step * sizeof(*bucket));
}

/* A bit for each entry with this tag; with tag 0 for each free entry. */
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

/* Call it before an entry is added: prefetches the rows of a bucket that has to read its entries' `side` bits. Always
 * inlined, for the reason given at table_prefetch. */
static inline __attribute__((always_inline)) void index_load_to_learn(const struct store_index *ix,
								      const struct index_bucket *bucket)
{
	for (uint32_t mask = bucket->known ? 0 : index_used(bucket); mask; mask &= mask - 1)
		__builtin_prefetch(index_record(ix, bucket->rows[__builtin_ctz(mask)]), 0, 2);
}

#endif
