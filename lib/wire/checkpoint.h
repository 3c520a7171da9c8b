/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a checkpoint (docs/checkpoints.rst says what they mean). Little endian, fixed width, naturally aligned.
 * Pure data and functions.
 *
 * A checkpoint is a directory with a data file for each reactor, and a manifest (JSON) that lists them. The manifest is
 * written last; without it, nothing in the directory counts. A data file is a header, then blocks, the last of which is
 * flagged CHECKPOINT_LAST. A block's payload is a sequence of record runs: rows of one table, or keys deleted from it.
 */
#ifndef WIRE_CHECKPOINT_H
#define WIRE_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum checkpoint_constants {
	CHECKPOINT_VERSION = 1,
	CHECKPOINT_ALIGN = 4096,	/* of blocks in a file, so that it can be written with O_DIRECT */
	CHECKPOINT_BLOCK_MAX = 1 << 20, /* bytes of a block, header and padding included */
	CHECKPOINT_ID_MAX = 64,		/* characters of a checkpoint's name */
};
#define CHECKPOINT_MAGIC UINT64_C(0x54504b4352415453) /* "STARCKPT" */
#define CHECKPOINT_BLOCK_MAGIC 0x4b4c4253u	      /* "SBLK" */

/* At the beginning of a data file, padded with zeros to CHECKPOINT_ALIGN bytes. */
struct checkpoint_header {
	uint64_t magic;
	uint32_t version;
	uint32_t checksum; /* CRC-32 of this struct, with 0 in this field */
	uint64_t id;	   /* of the checkpoint: all its files and its manifest have the same */
	uint64_t parent;   /* of a delta: the id of the checkpoint that it is based on; 0: a full one */
	uint32_t task;	   /* the node that wrote it, and ... */
	uint32_t reactor;  /* ... its reactor */
	uint32_t partitions;
	uint32_t reserved;
};
_Static_assert(sizeof(struct checkpoint_header) == 48, "checkpoint_header");

enum checkpoint_block_flags { CHECKPOINT_LAST = 1 << 0 };

/* Offset and size of a block are multiples of CHECKPOINT_ALIGN; zeros follow the payload. */
struct checkpoint_block {
	uint32_t magic;
	uint32_t checksum; /* CRC-32 of header (with 0 in this field) and payload */
	uint64_t id;	   /* the checkpoint's */
	uint32_t number;   /* from 0, in the order of the file */
	uint32_t bytes;	   /* of payload */
	uint32_t flags;
	uint32_t reserved;
	uint64_t rows; /* LAST: rows and deleted keys in the file, for a final check; else 0 */
	uint64_t reserved2;
};
_Static_assert(sizeof(struct checkpoint_block) == 48, "checkpoint_block");
enum { CHECKPOINT_PAYLOAD_MAX = CHECKPOINT_BLOCK_MAX - (int)sizeof(struct checkpoint_block) };

enum checkpoint_run_kind {
	/* n rows of row_bytes each. */
	CHECKPOINT_ROWS = 1,
	/* n keys of 8 bytes (row_bytes is 8): rows that were deleted or evicted since the parent. They are applied
	 * before the file's rows. */
	CHECKPOINT_DELETED = 2,
	/* n entries of an admission filter that counts by key (checkpoint_count). In full checkpoints only. They are
	 * read when they are written, so a count may include a few uses after the snapshot's instant. */
	CHECKPOINT_COUNTS = 3,
	/* One checkpoint_table: a shard's state of the table as a whole. Before all rows and deleted keys of the file.
	 */
	CHECKPOINT_TABLE = 4,
	/* n blocks of a counting Bloom filter (checkpoint_bloom). As CHECKPOINT_COUNTS. */
	CHECKPOINT_BLOOM = 5,
};

/* The header of a record run, aligned to 8 bytes; the records follow it, padded to 8 bytes as a whole. */
struct checkpoint_run {
	uint32_t object; /* the catalogue's id, as in the manifest */
	uint16_t kind;
	uint16_t reserved;
	uint32_t count;
	uint32_t row_bytes;
};
_Static_assert(sizeof(struct checkpoint_run) == 16, "checkpoint_run");

/* Counters of a shard's table since its creation, at the snapshot's instant; in full checkpoints and in deltas. If
 * several are merged, of a chain or of several shards, the maximum of each member counts. */
struct checkpoint_table {
	uint64_t step;	  /* the latest training step of a push */
	uint64_t pushes;  /* store_stats.pushes */
	uint64_t removed; /* rows deleted and evicted, plus an allowance for lost ones (store/journal.h): versions
			   * of new rows start above it */
	uint32_t looks;	  /* evict_lru and evict_lfu: look-ups, of 31 bits; `used` of rows counts back from it */
	uint32_t reserved;
};
_Static_assert(sizeof(struct checkpoint_table) == 32, "checkpoint_table");

struct checkpoint_count {
	uint64_t key;
	uint32_t count;
	uint32_t seen; /* as in a row; 0: no step known */
};
_Static_assert(sizeof(struct checkpoint_count) == 16, "checkpoint_count");

/*
 * A table's filter=bloom has b blocks in total, for any number of shards. Block i has the counters of the keys with
 * hash h (hash_key, whose highest bits are the partition) for which floor((h >> 32) * b / 2^32) = i. So blocks are in
 * the order of partitions; a block at the boundary of two shards may be in the files of both. When they are merged, the
 * maximum of each counter counts, so no key's count becomes lower.
 */
enum { CHECKPOINT_BLOOM_BYTES = 4096, CHECKPOINT_BLOOM_BLOCKS_MAX = INT32_MAX - 1 };
struct checkpoint_bloom {
	uint64_t number;			  /* of the block */
	uint8_t counters[CHECKPOINT_BLOOM_BYTES]; /* of checkpoint_bloom_width bytes each, at most filter_frequency */
};
_Static_assert(sizeof(struct checkpoint_bloom) == 8 + CHECKPOINT_BLOOM_BYTES, "checkpoint_bloom");

/* Bytes of a counter: as few as filter_frequency needs. */
static inline unsigned checkpoint_bloom_width(uint32_t filter_frequency)
{
	return filter_frequency <= UINT8_MAX ? 1 : filter_frequency <= UINT16_MAX ? 2 : 4;
}
/* Reads a counter of `width` bytes. */
uint32_t wire_checkpoint_bloom_counter(const uint8_t *counter, unsigned width);

/* Returns b; 0: the table has no such filter, or one with more than CHECKPOINT_BLOOM_BLOCKS_MAX blocks. */
struct object_spec;
uint32_t wire_checkpoint_bloom_blocks(const struct object_spec *spec);

/* Gets the range of hashes of the block's keys: *first to *last, inclusive. Every shard with one of their partitions
 * must load it. False: the filter has no such block. */
bool wire_checkpoint_bloom_hashes(const struct object_spec *spec, uint64_t number, uint64_t *first, uint64_t *last);

/* block: a struct checkpoint_bloom, of any alignment. Whether the filter has a block of this number, and all counters
 * are in range. */
bool wire_checkpoint_bloom_possible(const struct object_spec *spec, const void *block);

/*
 * A row in a record run, without padding between its members. Which members it has follows from the table's definition
 * (struct object_spec):
 *   uint64 key
 *   uint32 version	 versions, and all variables
 *   uint32 rounds	 stochastic rounding
 *   uint32 frequency	 full = evict_lfu
 *   uint32 used	 full = evict_lru and evict_lfu: look-ups of the table since the row was last used
 *   uint32 seen	 steps_to_live: the low half of the last training step; 0: none
 *   uint32 words[]	 the optimizer's counts
 *   values		 dim elements of the stored type
 *   float32 masters[]	 master = 1: dim of them
 *   slots		 the optimizer's, dim float32 each (float64 for rows of float64)
 * padded with zeros to 8 bytes.
 */

#endif
