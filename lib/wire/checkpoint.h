/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a checkpoint (docs/checkpoints.rst says what they mean). Little endian, fixed width, naturally aligned.
 * Pure data and functions.
 *
 * A checkpoint is a directory: one data file for each reactor that wrote, and a manifest (JSON) that names them, is
 * written last, and without which nothing in the directory counts. A data file is a header, then blocks, the last of
 * which says so. A block's payload is a sequence of runs: rows of one table, or keys that were deleted from it.
 */
#ifndef WIRE_CHECKPOINT_H
#define WIRE_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum checkpoint_constants {
	CHECKPOINT_VERSION = 1,
	CHECKPOINT_ALIGN = 4096,	/* of blocks in a file: it can be written past the page cache */
	CHECKPOINT_BLOCK_MAX = 1 << 20, /* bytes of a block, header and padding included */
	CHECKPOINT_ID_MAX = 64,		/* characters of a checkpoint's name */
};
#define CHECKPOINT_MAGIC UINT64_C(0x54504b4352415453) /* "STARCKPT" */
#define CHECKPOINT_BLOCK_MAGIC 0x4b4c4253u	      /* "SBLK" */

/* The first CHECKPOINT_ALIGN bytes of a data file; the rest of them is 0. */
struct checkpoint_header {
	uint64_t magic;
	uint32_t version;
	uint32_t checksum; /* CRC-32 of this struct, in which this field counts as 0 */
	uint64_t id;	   /* of the checkpoint: all its files and its manifest have the same */
	uint64_t parent;   /* of a delta: the id of the checkpoint that it goes on from; 0: a full one */
	uint32_t task;	   /* the node that wrote it, and ... */
	uint32_t reactor;  /* ... its reactor */
	uint32_t partitions;
	uint32_t reserved;
};
_Static_assert(sizeof(struct checkpoint_header) == 48, "checkpoint_header");

enum checkpoint_block_flags { CHECKPOINT_LAST = 1 << 0 };

/* A block begins at a multiple of CHECKPOINT_ALIGN, and takes a multiple of it: zeros follow the payload. */
struct checkpoint_block {
	uint32_t magic;
	uint32_t checksum; /* CRC-32 of header (in which this field counts as 0) and payload */
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
	/* n rows, one after the other, each of row_bytes. */
	CHECKPOINT_ROWS = 1,
	/* n keys of 8 bytes: rows that were deleted or evicted since the parent. To be applied before the file's rows.
	 * row_bytes 8. */
	CHECKPOINT_DELETED = 2,
	/* n entries of an admission filter that counts by key (checkpoint_count). In full checkpoints only, as they are
	 * when they are written: a key may have come a few times more since the instant. */
	CHECKPOINT_COUNTS = 3,
	/* One: what a shard knows of a table as a whole (checkpoint_table). Before all rows and deleted keys of the
	 * file. */
	CHECKPOINT_TABLE = 4,
	/* n blocks of a counting Bloom filter (checkpoint_bloom). As CHECKPOINT_COUNTS. */
	CHECKPOINT_BLOOM = 5,
};

/* 8 byte aligned; the rows follow it, padded to 8 bytes as a whole. */
struct checkpoint_run {
	uint32_t object; /* the catalogue's id, as the manifest has it */
	uint16_t kind;
	uint16_t reserved;
	uint32_t count;
	uint32_t row_bytes;
};
_Static_assert(sizeof(struct checkpoint_run) == 16, "checkpoint_run");

/* Of a shard's table, since its beginning, at the snapshot's instant: in full checkpoints and in deltas. Where several
 * are restored into one, be it those of a chain or those of other shards, the greatest of each counts. */
struct checkpoint_table {
	uint64_t step;	  /* the latest training step that came */
	uint64_t pushes;  /* store_stats.pushes */
	uint64_t removed; /* rows deleted and evicted, and what lost moments count for (store/journal.h): what
			   * versions of new rows begin above */
	uint32_t looks;	  /* evict_lru and evict_lfu: look-ups, of 31 bits; `used` of rows counts back from it */
	uint32_t reserved;
};
_Static_assert(sizeof(struct checkpoint_table) == 32, "checkpoint_table");

struct checkpoint_count {
	uint64_t key;
	uint32_t count;
	uint32_t seen; /* as in a row; 0: no step came */
};
_Static_assert(sizeof(struct checkpoint_count) == 16, "checkpoint_count");

/*
 * A table's filter=bloom has b blocks in all, however many shards it is cut over: block i has the counters of those
 * keys whose hash (hash_key), of which the highest bits are the partition, is h with floor((h >> 32) * b / 2^32) = i.
 * So blocks follow the partitions in order; one at the edge of a shard may be in the files of two. Restored into one,
 * of each counter the greatest counts: no key's count is then lower than it was.
 */
enum { CHECKPOINT_BLOOM_BYTES = 4096, CHECKPOINT_BLOOM_BLOCKS_MAX = INT32_MAX - 1 };
struct checkpoint_bloom {
	uint64_t number;			  /* of the block */
	uint8_t counters[CHECKPOINT_BLOOM_BYTES]; /* of checkpoint_bloom_width bytes each, none above the frequency */
};
_Static_assert(sizeof(struct checkpoint_bloom) == 8 + CHECKPOINT_BLOOM_BYTES, "checkpoint_bloom");

/* As few bytes as filter_frequency takes. */
static inline unsigned checkpoint_bloom_width(uint32_t filter_frequency)
{
	return filter_frequency <= UINT8_MAX ? 1 : filter_frequency <= UINT16_MAX ? 2 : 4;
}
uint32_t wire_checkpoint_bloom_counter(const uint8_t *counter, unsigned width);

/* b; 0: the table has no such filter, or one of more than CHECKPOINT_BLOOM_BLOCKS_MAX blocks. */
struct object_spec;
uint32_t wire_checkpoint_bloom_blocks(const struct object_spec *spec);

/* The hashes of the keys that the block counts: from *first to *last. It is to be loaded wherever one of their
 * partitions is. False: the filter has no such block. */
bool wire_checkpoint_bloom_hashes(const struct object_spec *spec, uint64_t number, uint64_t *first, uint64_t *last);

/* block: a struct checkpoint_bloom, wherever it lies. Whether the filter has one of this number, and counts as far. */
bool wire_checkpoint_bloom_possible(const struct object_spec *spec, const void *block);

/*
 * A row in a run, without padding between its members; each is there or not as the table's definition (struct
 * object_spec) says:
 *   uint64 key
 *   uint32 version	 versions, and all variables
 *   uint32 rounds	 stochastic rounding
 *   uint32 frequency	 full = evict_lfu
 *   uint32 used	 full = evict_lru and evict_lfu: look-ups of the table since the row was last used
 *   uint32 seen	 steps_to_live: the low half of the last training step; 0: none came
 *   uint32 words[]	 the optimizer's counts
 *   values		 dim elements of the stored type
 *   float32 masters[]	 master = 1: dim of them
 *   slots		 the optimizer's, dim float32 each (float64 for rows of float64)
 * padded with zeros to 8 bytes.
 */

#endif
