/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints on disk: directories of data files under a manifest (wire/checkpoint.h, docs/checkpoints.rst). Written so
 * that a crash at any moment leaves either the whole of a checkpoint or nothing that counts: into "<id>.partial", files
 * synced, then the manifest written, synced and renamed, then the directory renamed to "<id>" and its parent synced.
 * Read so that nothing is believed: lengths are bounded, every block's checksum is checked, and whatever is refused is
 * refused with file, block and reason.
 *
 * Threads: one object, one thread at a time; different ones are independent. All of it may wait for disks: never on a
 * reactor.
 */
#ifndef CKPT_CKPT_H
#define CKPT_CKPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "star_error.h"
#include "wire/checkpoint.h"
#include "wire/object.h"

/* ---- what a manifest says ---- */

enum ckpt_limits {
	CKPT_FILE_NAME_MAX = 63,
	CKPT_FILES_MAX = WIRE_NODES_MAX * WIRE_REACTORS_MAX,
	CKPT_MANIFEST_BYTES_MAX = 64 << 20,
	CKPT_PATH_MAX = 4096,
};

struct ckpt_file {
	char name[CKPT_FILE_NAME_MAX +
		  1]; /* "node0-reactor3.star": letters, digits, '.', '_' and '-', the first none of these */
	uint32_t task, reactor;
	uint64_t bytes, rows, deleted;
	/* CRC-32 of the checksums of its header and all its blocks: this file, and no other of the same id */
	uint32_t checksum;
};

struct ckpt_manifest {
	/* from 1, one more for each checkpoint of a directory; the directory's name is "%08lu-full" or "-delta" */
	uint64_t id;
	uint64_t parent;  /* of a delta; 0: a full one */
	uint64_t time_ms; /* since 1970 */
	uint32_t partitions;
	uint32_t tasks, reactors; /* of the whole cluster that wrote it */
	uint64_t step;		  /* the latest training step of any table */
	/* Drawn by a cluster that begins with nothing, and kept by one that begins with a checkpoint: whose checkpoints
	 * it may prune. 0: it was written before there were any. */
	uint64_t lineage;
	/* CRC-32 of its text, as its last member says: of one that was read, or committed. And that of its parent's, of
	 * a delta: another one under the parent's id is not what it goes on from. Not named: it was written before
	 * there were any. */
	uint32_t sum, parent_sum;
	bool parent_named;
	uint32_t objects_count, files_count;
	struct object_spec *objects; /* in ascending order of their ids */
	struct ckpt_file *files;
	char *queues; /* the cluster's work queues, JSON as lib/control has it; NULL: none */
};
void ckpt_manifest_free(struct ckpt_manifest *manifest);

/* Reads and checks one; path is the checkpoint's directory. -ENOENT: there is no manifest (it was never finished). */
int ckpt_manifest_read(const char *path, struct ckpt_manifest *manifest, struct star_error *err);

/* ---- whose manifests are believed ---- */

/*
 * A key file (secure/keys.h) of one principal, or NULL: none. From now on each manifest of this process gets an
 * HMAC-SHA256 under its current key, in a file beside it, and none is read whose HMAC is missing, or of neither its
 * current nor its next key: such a checkpoint counts as damaged, with a message that says what to do. Data files are
 * bound to their manifest by CRC-32s, which find damage and no forgery. Before all other calls, and alone.
 */
int ckpt_use_keys(const char *path, struct star_error *err);
bool ckpt_has_keys(void);
/* A checkpoint that has no HMAC gets one: its manifest is in order, and its files have their sizes. 1: done; 0: it has
 * one that is right; -EBADMSG: one that is wrong, or something else is. */
int ckpt_adopt(const char *path, struct star_error *err);

/* ---- writing ---- */

/*
 * A directory that one cluster writes its checkpoints to. init notes whether it is a mount, where it is there; take is
 * to be called before each save: -ENODEV: it was a mount and is none any more, so that the disk below would be filled;
 * -EBUSY: another cluster has taken it, by a lock on the folder that ends with the process or by fini, where the file
 * system has such locks.
 */
struct ckpt_claim {
	int folder; /* that is locked; -1: none yet */
	int saves;  /* the file by which write holds off prunes; -1: not now */
	bool mounted;
};
void ckpt_claim_init(struct ckpt_claim *claim, const char *directory);
int ckpt_claim_take(struct ckpt_claim *claim, const char *directory, struct star_error *err);
void ckpt_claim_fini(struct ckpt_claim *claim);
/*
 * From before a checkpoint is begun until it counts or is abandoned: what it goes on from is not pruned. -EBUSY:
 * somebody has been removing checkpoints there for wait_us. Once is enough; written gives it back, if it was taken.
 */
enum { CKPT_WAIT_US = 10000000 };
int ckpt_claim_write(struct ckpt_claim *claim, const char *directory, uint64_t wait_us, struct star_error *err);
void ckpt_claim_written(struct ckpt_claim *claim);
/* The process of this machine that has taken it; 0: none, or it cannot be known. */
pid_t ckpt_claim_holder(const char *directory);

/* Makes "<directory>/<id>-kind.partial" and writes its path; what is left of an earlier one of this id is removed. */
int ckpt_begin(const char *directory, uint64_t id, uint64_t parent, char path[static CKPT_PATH_MAX],
	       struct star_error *err);
/* Checks that every file is there with its size, writes the manifest, and renames: the checkpoint is there from now on.
 * What could not be restored is refused: -EAGAIN: a delta that what it goes on from is gone of, or not whole, or whose
 * chain is too long; a full one is possible. A delta's manifest names its parent: what is there under its id, or fails
 * where parent_named says otherwise. */
int ckpt_commit(const char *path, struct ckpt_manifest *manifest, struct star_error *err);
/* Removes a partial checkpoint, whatever is in it. */
void ckpt_abandon(const char *path);

struct ckpt_writer;

/* A data file. buffered: through the page cache, for file systems that take nothing else; otherwise past it where that
 * is possible. limit_mib_s: bytes are written no faster than that; 0: as fast as it goes. */
struct ckpt_writer_options {
	struct checkpoint_header header; /* magic, version and checksum are filled in */
	bool buffered;
	uint32_t limit_mib_s;
};
struct ckpt_writer *ckpt_writer_create(const char *path, const char *name, const struct ckpt_writer_options *options,
				       struct star_error *err);
/* A block: CHECKPOINT_BLOCK_MAX bytes aligned to CHECKPOINT_ALIGN, whose payload lies behind room for the header, which
 * is filled in here, and the padding. rows, deleted: in it. */
int ckpt_writer_block(struct ckpt_writer *writer, void *block, uint32_t payload_bytes, uint64_t rows, uint64_t deleted,
		      struct star_error *err);
/* The last, empty block; syncs; says what the manifest is to say. */
int ckpt_writer_finish(struct ckpt_writer *writer, struct ckpt_file *file, struct star_error *err);
void ckpt_writer_destroy(struct ckpt_writer *writer); /* at any time */

/*
 * "dropped.json" in a directory of checkpoints: of a lineage and each id under which it dropped something the next
 * generation that the id is given. What a manifest of that lineage has under an earlier one was dropped since: it is
 * not restored by itself. Other lineages count their ids for themselves. Written by PS task 0, so that a crash leaves
 * the old file or the new one; without a file nothing was dropped.
 */
int ckpt_dropped_read(const char *directory, uint64_t lineage, uint32_t generations[static WIRE_OBJECTS_MAX + 1],
		      struct star_error *err);
/* Of other lineages it keeps what the file has, as long as the directory has a checkpoint of theirs. */
int ckpt_dropped_write(const char *directory, uint64_t lineage, const uint32_t generations[static WIRE_OBJECTS_MAX + 1],
		       struct star_error *err);
/*
 * The same, for who drops one after the other: what is new is added to the file that this wrote last, if that is what
 * is still there, so that thousands take no longer each than the first. last: all zeroes at first.
 */
struct ckpt_dropped {
	bool known; /* what follows */
	uint64_t lineage;
	dev_t device;
	ino_t inode;
	size_t whole, bytes; /* of the file: as it was written as a whole, and with what was added */
	uint32_t generations[WIRE_OBJECTS_MAX + 1];
};
int ckpt_dropped_add(struct ckpt_dropped *last, const char *directory, uint64_t lineage,
		     const uint32_t generations[static WIRE_OBJECTS_MAX + 1], struct star_error *err);
/* Takes away what is left of one whose writer ended in the middle: for who has taken the directory. */
void ckpt_dropped_clean(const char *directory);
/* lineage NULL: all of them. */
int ckpt_dropped_remove(const char *directory, const uint64_t *lineage, struct star_error *err);
/* What stands in the file of a lineage. */
int ckpt_dropped_parse(const char *text, size_t bytes, uint64_t lineage,
		       uint32_t generations[static WIRE_OBJECTS_MAX + 1], struct star_error *err);

/* ---- reading ---- */

struct ckpt_reader;

/* Opens a data file of a checkpoint, and checks its header against the manifest. */
struct ckpt_reader *ckpt_reader_create(const char *path, const struct ckpt_manifest *manifest,
				       const struct ckpt_file *file, struct star_error *err);
/* The next block's payload, checked: *payload until the next call. 1, 0 after the last (whose totals were checked), or
 * a negative errno with file, block and reason. */
int ckpt_reader_next(struct ckpt_reader *reader, const uint8_t **payload, uint32_t *bytes, struct star_error *err);
void ckpt_reader_destroy(struct ckpt_reader *reader);

/* The runs of a payload: *at from 0. 1 with *run and *records, 0 at the end, or -EBADMSG: bounds, kinds and sizes are
 * checked, and that the manifest knows the object; of the records those of Bloom filters alone. */
int ckpt_run_next(const uint8_t *payload, uint32_t bytes, uint32_t *at, const struct ckpt_manifest *manifest,
		  struct checkpoint_run *run, const void **records, struct star_error *err);

/* And the records themselves, as far as their table's definition says what there can be: what a node refuses to load. 0
 * or -EBADMSG. */
int ckpt_run_check(const struct ckpt_manifest *manifest, const struct checkpoint_run *run, const void *records,
		   struct star_error *err);

/* Bytes of a row of this object in a run, from its definition alone. */
uint32_t ckpt_row_bytes(const struct object_spec *spec);

/* ---- a directory of checkpoints ---- */

struct ckpt_entry {
	uint64_t id, parent, time_ms, step, lineage, bytes, rows,
		deleted; /* all but id as the manifest says; 0 without */
	uint32_t partitions, sum, parent_sum;
	bool parent_named, delta;
	bool partial;  /* was never finished: it does not count */
	bool complete; /* has a manifest in order. Neither: what exists of it is damaged */
	/* complete, and its data files are there with the sizes that the manifest says: they are not read */
	bool whole;
	char name[CHECKPOINT_ID_MAX];
};
/* All of them, in ascending order of their ids, to be freed with free(). */
int ckpt_list(const char *directory, struct ckpt_entry **entries, uint32_t *count, struct star_error *err);

/*
 * The id of the next one: above all that count. Damaged ones count here, so that no id comes twice; unfinished ones
 * where `partial` says so: of others the next ckpt_begin removes the one of its id. What is not whole and has a number
 * far beyond all that are (anybody can make such a folder) is passed over. -EOVERFLOW: there is no number above them;
 * which has the greatest, and what to do.
 */
struct ckpt_next {
	uint64_t id;
	char strange[CHECKPOINT_ID_MAX]; /* the last one that was passed over; "": none */
};
int ckpt_next_id(const char *directory, bool partial, struct ckpt_next *next, struct star_error *err);

/* The chain that restores `id` (0: the newest that is complete, with all its parents): a full one, then its deltas; in
 * *chain paths, however many. -ENOENT with a message: which is missing. */
int ckpt_chain(const char *directory, uint64_t id, char ***chain, uint32_t *count, struct star_error *err);
void ckpt_chain_free(char **chain, uint32_t count);

/* How many checkpoints restore that one of n partitions. -EAGAIN with a message: one of them is missing, damaged, or
 * of another number of partitions. */
int ckpt_chain_length(const char *directory, uint64_t id, uint32_t partitions, struct star_error *err);

/* Whether a delta may go on from its parent (0: it is a full one), as the last of a chain of `most` checkpoints: all of
 * them are there, with files of their sizes, and each is the one that the next was written on. Of child lineage,
 * partitions and what concerns its parent counts; where that was not named it is named now. 0, or -EAGAIN with a
 * message: write a full one. Each checkpoint of a chain costs a restore time, and one that is damaged all that go on
 * from it. */
enum { CKPT_CHAIN_MAX = 1024 };
int ckpt_chain_check(const char *directory, struct ckpt_entry *child, uint32_t most, struct star_error *err);

/* Is told bytes done and in all; false: it is given up, with -ECANCELED. */
typedef bool ckpt_progress(void *ctx, uint64_t done, uint64_t total);

/* Reads all of a checkpoint, and checks it: every block, every run, every record. progress may be NULL. */
int ckpt_verify(const char *path, ckpt_progress *progress, void *ctx, struct star_error *err);

/* The newest chain that is in order to the last byte: all of it is read, as by ckpt_verify. refused is told of each
 * checkpoint that something is wrong with, and what. -ENOENT: there is none. */
struct ckpt_search {
	uint64_t newest;	 /* none younger than that; 0: any */
	uint32_t partitions;	 /* it has this many; 0: any number */
	ckpt_progress *progress; /* of each that is read; may be NULL */
	void (*refused)(void *ctx, const char *name, const char *why);
	void *ctx;
};
int ckpt_chain_good(const char *directory, const struct ckpt_search *search, char ***chain, uint32_t *count,
		    struct star_error *err);

/*
 * Looks through all of a directory, or through the checkpoint `id` and what it goes on from, as ckpt_chain_good does:
 * told of each that counts what is wrong with it, NULL: nothing, a node would begin with it; of unfinished ones NULL
 * too. How many are wrong, or a negative errno. Of search it takes progress, partitions and ctx.
 */
typedef void ckpt_told(void *ctx, const struct ckpt_entry *entry, const char *why);
int ckpt_check(const char *directory, uint64_t id, const struct ckpt_search *search, ckpt_told *told,
	       struct star_error *err);

/*
 * Removes all but the newest `keep` full checkpoints that are whole and what belongs to them, and partial ones older
 * than the newest; nothing but partial ones while there are fewer than that. How many were removed, or a negative
 * errno. -EBUSY: a checkpoint has been written there for wait_us (ckpt_claim_write), and nothing is removed. What comes
 * while those that are kept are read stays, with what it goes on from.
 */
struct ckpt_pruning {
	uint32_t keep;
	const uint64_t *lineage; /* only those of this one are counted and removed; NULL: all are */
	uint64_t began;		 /* stays, with what it goes on from, until `keep` whole full ones count ... */
	uint64_t since;		 /* ... that have this id or one above. 0: none has */
	/* What is counted is read to its end, as by ckpt_verify, where refused is not NULL, which is told of each that
	 * does not count. */
	void (*refused)(void *ctx, const char *name, const char *why);
	ckpt_progress *progress; /* may be NULL */
	void *ctx;
	uint64_t wait_us;
};
int ckpt_prune(const char *directory, const struct ckpt_pruning *pruning, struct star_error *err);

#endif
