/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Admission: decides which keys may have rows. Every pull and push of a key without a row counts; when the count
 * reaches the filter's frequency, the key is admitted. As in DeepRec, there are two kinds:
 *
 * - counter: a record of 16 bytes for each waiting key, found by an index of its own, and freed when the key gets its
 *   row. If there is no memory for another one (an eighth of the arena is left for rows), the one with the lowest count
 *   in a bucket is replaced.
 * - bloom: a counting Bloom filter (Fan, Cao, Almeida, Broder, IEEE/ACM ToN 8, 2000) with conservative update (Estan,
 *   Varghese, SIGCOMM 2002): of a key's k counters only the smallest are incremented. It is sized for n keys and a
 *   share p of keys that are admitted early: n ln(1/p) / ln(2)^2 counters, k = ln(2) counters / n. All counters of a
 *   key are in one block of 4 KiB, that is, in one page, which is zeroed when it is first touched; counters never
 *   decrease. Counters have 1, 2 or 4 bytes, as the frequency requires.
 *
 * Blocks of a Bloom filter are numbered over all shards, by the hash that also gives the partitions
 * (wire/checkpoint.h), so counts move with their partitions when a checkpoint is restored on another number of shards.
 * A shard has as many slots for blocks as its share requires; block i is in slot i % slots, alone as long as the
 * shard's partitions are one range and no more than its share. If they are more, blocks that share a slot are counted
 * together.
 *
 * Threads: one.
 */
#ifndef STORE_FILTER_H
#define STORE_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "store/index.h"
#include "store/pool.h"
#include "wire/checkpoint.h"
#include "wire/object.h"

enum { FILTER_BLOCK = CHECKPOINT_BLOOM_BYTES, FILTER_HASHES_MAX = 32 };

struct filter_count {
	uint64_t key;
	uint32_t count;
	uint32_t seen; /* as in a row */
};
_Static_assert(sizeof(struct filter_count) == 16, "filter_count");

struct filter {
	uint8_t kind; /* enum object_filter */
	uint8_t hashes;
	uint8_t width; /* bytes of a Bloom counter */
	uint32_t frequency;
	/* counter */
	struct store_index index;
	struct pool pool;
	uint64_t keys; /* number of waiting keys */
	/* Bloom */
	uint64_t name_hash;
	uint8_t *blocks; /* one for each slot */
	uint8_t *memory; /* the memory that they are in */
	uint32_t *holds; /* for each slot: its block's number, or BLOOM_NONE; and BLOOM_SEVERAL */
	uint32_t slots;
	uint32_t blocks_count; /* of all shards */
};

/* The number of slots of a Bloom filter (0: it cannot have any), and the bytes of that many. */
uint32_t store_filter_bloom_slots(const struct object_spec *spec, double share);
uint64_t store_filter_bloom_bytes(uint32_t slots);

/* share: the part of the keys that this store gets. false: the arena has no room. */
bool store_filter_init(struct filter *f, const struct object_spec *spec, double share, struct arena *arena,
		       unsigned row_shift, struct store_stats *stats);

/* Frees its memory, as store_index_drop does; also after a failed store_filter_init. */
bool store_filter_give_back(struct filter *f, struct arena *arena, uint64_t *at, unsigned steps);

/* Prefetches what store_filter_count will read. hash is index_hash's. */
void store_filter_prefetch(const struct filter *f, uint64_t key, uint64_t hash);

/* Counts a key once; returns its count, which for a Bloom filter is at most the frequency. stamp: step_stamp, or 0. */
uint32_t store_filter_count(struct filter *f, uint64_t key, uint64_t hash, uint32_t stamp);

/* For filters with counters: sets a waiting key's count. false: no room. */
bool store_filter_restore(struct filter *f, uint64_t hash, const struct filter_count *count);

/* An admitted key has got its row: removes its count. */
void store_filter_forget(struct filter *f, uint64_t key, uint64_t hash);

/* Removes the count of a waiting key. */
void store_filter_drop(struct filter *f, store_row count);

/* Clears the counters of some slots of a Bloom filter from *slot on, which is advanced. True: that was the last one;
 * also for other filters. */
bool store_filter_bloom_clear(struct filter *f, uint32_t *slot, uint32_t slots);

/* A Bloom filter's count of a key. */
uint32_t store_filter_bloom_count(const struct filter *f, uint64_t key);

/* The counters of the first block in the slot whose number is at least *number, which is set to its number. NULL: there
 * is none. */
const uint8_t *store_filter_bloom_block(const struct filter *f, uint32_t slot, uint64_t *number);

/* Raises a key's count to at least this. */
void store_filter_bloom_raise(struct filter *f, uint64_t key, uint32_t count);

/* Restores the saved counters of a block (wire_checkpoint_bloom_possible): each becomes at least the saved one. */
void store_filter_bloom_restore(struct filter *f, const struct checkpoint_bloom *block);

#endif
