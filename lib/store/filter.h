/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Admission: which keys may have rows. Every pull and push of a key without a row counts; at the filter's frequency the
 * key is admitted. As DeepRec has it, there are two kinds:
 *
 * counter: a record of 16 bytes for each key that waits, found by an index of its own and given back when the key gets
 * its
 *   row. When there is no memory for another one (an eighth of the arena is left for rows), the least counted of a
 *   bucket
 *   makes room. Bloom: a counting Bloom filter (Fan, Cao, Almeida, Broder, IEEE/ACM ToN 8, 2000) with conservative
 *   update (Estan, Varghese,
 *   SIGCOMM 2002): of a key's k counters only the smallest go up. Laid out for n keys and a share p of keys admitted
 *   early:
 *   n ln(1/p) / ln(2)^2 counters, k = ln(2) counters / n. All counters of a key lie in one block of 4 KiB, that is in
 *   one
 *   page, which is zeroed when it is first touched; its counters never go down. Counters have 1, 2 or 4 bytes, as the
 *   frequency needs. Blocks are numbered over all shards, by the hash that partitions are cut by (wire/checkpoint.h),
 *   so that
 *   counts go with their partitions when a checkpoint is restored on another number of shards. A shard has as many
 *   slots for blocks
 *   as its share asks for; block i lies in slot i % slots, which is nobody else's as long as the shard's partitions are
 *   one
 *   range and no more than its share. If they are more, blocks that meet in a slot are counted together.
 *
 * One thread.
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
	uint64_t keys; /* that wait */
	/* Bloom */
	uint64_t name_hash;
	uint8_t *blocks; /* one for each slot */
	uint8_t *memory; /* that they lie in */
	uint32_t *holds; /* for each slot: its block's number, or BLOOM_NONE; and BLOOM_SEVERAL */
	uint32_t slots;
	uint32_t blocks_count; /* of all shards */
};

/* The slots of a Bloom filter (0: it could have none), and the bytes of that many. */
uint32_t store_filter_bloom_slots(const struct object_spec *spec, double share);
uint64_t store_filter_bloom_bytes(uint32_t slots);

/* share: the part of the keys that this store gets. false when the arena has no room. */
bool store_filter_init(struct filter *f, const struct object_spec *spec, double share, struct arena *arena,
		       unsigned row_shift, struct store_stats *stats);

/* Gives its memory back, as store_index_drop does; of one that could not be made, too. */
bool store_filter_give_back(struct filter *f, struct arena *arena, uint64_t *at, unsigned steps);

/* Starts loading what store_filter_count will read. hash is index_hash's. */
void store_filter_prefetch(const struct filter *f, uint64_t key, uint64_t hash);

/* Counts a key once; returns its count, which is the frequency at most for a Bloom filter. stamp: step_stamp, or 0. */
uint32_t store_filter_count(struct filter *f, uint64_t key, uint64_t hash, uint32_t stamp);

/* A key waits with this count from now on: of filters with counters. false: no room. */
bool store_filter_restore(struct filter *f, uint64_t hash, const struct filter_count *count);

/* An admitted key has its row. */
void store_filter_forget(struct filter *f, uint64_t key, uint64_t hash);

/* Forgets one that waits. */
void store_filter_drop(struct filter *f, store_row count);

/* Forgets what some slots of a Bloom filter have counted, from *slot on, which it moves on. True: that was the last;
 * also for other filters. */
bool store_filter_bloom_clear(struct filter *f, uint32_t *slot, uint32_t slots);

/* How often a Bloom filter takes a key to have come. */
uint32_t store_filter_bloom_count(const struct filter *f, uint64_t key);

/* The counters of the first block that the slot has the counts of, and whose number is *number at least; its number is
 * written. NULL: there is none. */
const uint8_t *store_filter_bloom_block(const struct filter *f, uint32_t slot, uint64_t *number);

/* The key counts as having come so often at least. */
void store_filter_bloom_raise(struct filter *f, uint64_t key, uint32_t count);

/* Counters of a block that were saved (wire_checkpoint_bloom_possible): each counts as many from now on at least. */
void store_filter_bloom_restore(struct filter *f, const struct checkpoint_bloom *block);

#endif
