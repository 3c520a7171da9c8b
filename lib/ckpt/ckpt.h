/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints on disk: directories of data files with a manifest (wire/checkpoint.h, docs/checkpoints.rst). They are
 * written so that a crash at any moment leaves either a whole checkpoint or nothing that counts: into "<id>.partial",
 * files synced, then the manifest written, synced and renamed, then the directory renamed to "<id>" and its parent
 * synced. They are read without trust: lengths are bounded, every block's checksum is checked, and an error gives file,
 * block and reason.
 *
 * Threads: an object is used by one thread at a time; different ones are independent. All functions may wait for disks:
 * never call them on a reactor.
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

/* ---- the contents of a manifest ---- */

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
	/* CRC-32 of the checksums of its header and all its blocks: identifies this file among all with the same id */
	uint32_t checksum;
};

struct ckpt_manifest {
	/* from 1, incremented for each checkpoint of a directory; the directory's name is "%08lu-full" or "-delta" */
	uint64_t id;
	uint64_t parent;  /* for a delta; 0: a full one */
	uint64_t time_ms; /* since 1970 */
	uint32_t partitions;
	uint32_t tasks, reactors; /* of the whole cluster that wrote it */
	uint64_t step;		  /* the latest training step of any table */
	/* Chosen at random by a cluster that starts empty, and kept by one that starts from a checkpoint: says whose
	 * checkpoints a save may prune. 0: written before lineages existed. */
	uint64_t lineage;
	/* sum: the CRC-32 of its text, its last member, after it was read or committed. parent_sum: for a delta that of
	 * its parent; another checkpoint with the parent's id is not the one that it is based on. Without parent_named:
	 * written before this member existed. */
	uint32_t sum, parent_sum;
	bool parent_named;
	uint32_t objects_count, files_count;
	struct object_spec *objects; /* in ascending order of ids */
	struct ckpt_file *files;
	char *queues; /* the cluster's work queues, as JSON of lib/control; NULL: none */
};
void ckpt_manifest_free(struct ckpt_manifest *manifest);

/* Reads and checks a manifest; path is the checkpoint's directory. -ENOENT: there is no manifest (the checkpoint was
 * never completed). */
int ckpt_manifest_read(const char *path, struct ckpt_manifest *manifest, struct star_error *err);

/* ---- which manifests are trusted ---- */

/*
 * Sets a key file (secure/keys.h) of one principal, or NULL: none. From now on each manifest that this process writes
 * gets an HMAC-SHA256 with its current key, in a file next to it, and no manifest is read whose HMAC is missing, or of
 * neither its current nor its next key: such a checkpoint counts as damaged, with a message that says what to do. Data
 * files are bound to their manifest by CRC-32s, which detect damage but not forgery. Call it before all other
 * functions, from one thread.
 */
int ckpt_use_keys(const char *path, struct star_error *err);
bool ckpt_has_keys(void);
/* Adds an HMAC to a checkpoint that has none, after checking its manifest and the sizes of its files. 1: done; 0: it
 * has a correct one; -EBADMSG: it has a wrong one, or something else is wrong. */
int ckpt_adopt(const char *path, struct star_error *err);

/* ---- writing ---- */

/*
 * A directory to which one cluster writes its checkpoints. init records whether it is a mount, if it exists; call take
 * before each save: -ENODEV: it was a mount and no longer is, so the disk below would be filled; -EBUSY: another
 * cluster has taken it, by a lock on the directory that ends with the process or by fini, if the file system supports
 * such locks.
 */
struct ckpt_claim {
	int folder; /* the locked directory; -1: none yet */
	int saves;  /* the file with which write holds off prunes; -1: not now */
	bool mounted;
};
void ckpt_claim_init(struct ckpt_claim *claim, const char *directory);
int ckpt_claim_take(struct ckpt_claim *claim, const char *directory, struct star_error *err);
void ckpt_claim_leave(struct ckpt_claim *claim);
void ckpt_claim_fini(struct ckpt_claim *claim);
/*
 * Call write before a checkpoint begins, and written when it counts or is abandoned: in between, what it is based on is
 * not pruned. -EBUSY: another process has been removing checkpoints there for wait_us. Calling write again has no
 * effect; written undoes it, if it was called.
 */
enum { CKPT_WAIT_US = 10000000 };
int ckpt_claim_write(struct ckpt_claim *claim, const char *directory, uint64_t wait_us, struct star_error *err);
void ckpt_claim_written(struct ckpt_claim *claim);
/* The process on this machine that has taken it; 0: none, or unknown. */
pid_t ckpt_claim_holder(const char *directory);

/* Creates "<directory>/<id>-kind.partial" and sets path; what an earlier one with this id has left is removed. */
int ckpt_begin(const char *directory, uint64_t id, uint64_t parent, char path[static CKPT_PATH_MAX],
	       struct star_error *err);
/* Checks that every file exists with its size, writes the manifest, and renames: from then on the checkpoint counts. A
 * checkpoint that could not be restored is refused: -EAGAIN: it is a delta, and a checkpoint that it is based on is
 * missing or incomplete, or the chain is too long; a full one is possible. A delta's manifest names its parent: the
 * checkpoint with that id, or it fails if parent_named says otherwise. */
int ckpt_commit(const char *path, struct ckpt_manifest *manifest, struct star_error *err);
/* Removes a partial checkpoint with all its contents. */
void ckpt_abandon(const char *path);

struct ckpt_writer;

/* A data file. buffered: through the page cache, for file systems that accept nothing else; otherwise bypassing it if
 * possible. limit_mib_s: maximum write rate; 0: none. */
struct ckpt_writer_options {
	struct checkpoint_header header; /* magic, version and checksum are filled in */
	bool buffered;
	uint32_t limit_mib_s;
};
struct ckpt_writer *ckpt_writer_create(const char *path, const char *name, const struct ckpt_writer_options *options,
				       struct star_error *err);
/* Writes a block: CHECKPOINT_BLOCK_MAX bytes aligned to CHECKPOINT_ALIGN, with room for the header before the payload.
 * Header and padding are filled in here. rows, deleted: their numbers in the block. */
int ckpt_writer_block(struct ckpt_writer *writer, void *block, uint32_t payload_bytes, uint64_t rows, uint64_t deleted,
		      struct star_error *err);
/* Writes the last, empty block, syncs, and sets the manifest's entry. */
int ckpt_writer_finish(struct ckpt_writer *writer, struct ckpt_file *file, struct star_error *err);
void ckpt_writer_destroy(struct ckpt_writer *writer); /* at any time */

/*
 * "dropped.json" in a directory of checkpoints: for a lineage, and each id under which it has dropped something, the
 * next generation of that id. Objects of an earlier generation in a manifest of that lineage were dropped since, and
 * are not restored by default. Other lineages count their ids separately. PS task 0 writes it so that a crash leaves
 * the old file or the new one; without a file nothing was dropped.
 */
int ckpt_dropped_read(const char *directory, uint64_t lineage, uint32_t generations[static WIRE_OBJECTS_MAX + 1],
		      struct star_error *err);
/* Keeps the file's entries of other lineages, as long as the directory has a checkpoint of theirs. */
int ckpt_dropped_write(const char *directory, uint64_t lineage, const uint32_t generations[static WIRE_OBJECTS_MAX + 1],
		       struct star_error *err);
/*
 * The same for a series of drops: if the file is still the one that this function wrote last, only new entries are
 * appended, so that each of thousands takes no longer than the first. last: all zeros at first.
 */
struct ckpt_dropped {
	bool known; /* what follows is valid */
	uint64_t lineage;
	dev_t device;
	ino_t inode;
	size_t whole, bytes; /* sizes of the file: as it was written as a whole, and with what was appended */
	uint32_t generations[WIRE_OBJECTS_MAX + 1];
};
int ckpt_dropped_add(struct ckpt_dropped *last, const char *directory, uint64_t lineage,
		     const uint32_t generations[static WIRE_OBJECTS_MAX + 1], struct star_error *err);
/* Removes what is left of a file whose writer ended in the middle: for the cluster that has taken the directory. */
void ckpt_dropped_clean(const char *directory);
/* Removes a lineage's entries; NULL: all of them. */
int ckpt_dropped_remove(const char *directory, const uint64_t *lineage, struct star_error *err);
/* Parses a lineage's entries of the file. */
int ckpt_dropped_parse(const char *text, size_t bytes, uint64_t lineage,
		       uint32_t generations[static WIRE_OBJECTS_MAX + 1], struct star_error *err);

/* ---- reading ---- */

struct ckpt_reader;

/* Opens a data file of a checkpoint, and checks its header against the manifest. */
struct ckpt_reader *ckpt_reader_create(const char *path, const struct ckpt_manifest *manifest,
				       const struct ckpt_file *file, struct star_error *err);
/* Gets the next block's payload, checked; *payload is valid until the next call. 1; 0 after the last block (whose
 * totals were checked); or a negative errno with file, block and reason. */
int ckpt_reader_next(struct ckpt_reader *reader, const uint8_t **payload, uint32_t *bytes, struct star_error *err);
void ckpt_reader_destroy(struct ckpt_reader *reader);

/* Iterates over the runs of a payload: *at starts as 0. 1 with *run and *records; 0 at the end; or -EBADMSG. Bounds,
 * kinds and sizes are checked, and that the manifest has the object; of the records themselves only those of Bloom
 * filters. */
int ckpt_run_next(const uint8_t *payload, uint32_t bytes, uint32_t *at, const struct ckpt_manifest *manifest,
		  struct checkpoint_run *run, const void **records, struct star_error *err);

/* Checks the records themselves against their table's definition, as a node does when it loads them. 0 or -EBADMSG. */
int ckpt_run_check(const struct ckpt_manifest *manifest, const struct checkpoint_run *run, const void *records,
		   struct star_error *err);

/* Bytes of a row of this object in a run, by its definition. */
uint32_t ckpt_row_bytes(const struct object_spec *spec);

/* ---- a directory of checkpoints ---- */

struct ckpt_entry {
	uint64_t id, parent, time_ms, step, lineage, bytes, rows,
		deleted; /* all but id are from the manifest; 0 without one */
	uint32_t partitions, sum, parent_sum;
	bool parent_named, delta;
	bool partial;  /* was never completed: it does not count */
	bool complete; /* has a valid manifest. If neither is set, what exists of it is damaged */
	/* complete, and its data files exist with the sizes in the manifest; they were not read */
	bool whole;
	char name[CHECKPOINT_ID_MAX];
};
/* Lists all checkpoints in ascending order of ids; free the result with free(). */
int ckpt_list(const char *directory, struct ckpt_entry **entries, uint32_t *count, struct star_error *err);

/*
 * The id of the next checkpoint: above all that count. Damaged ones count here, so that no id is used twice; unfinished
 * ones if `partial` is set (otherwise the next ckpt_begin removes the one with its id). An incomplete one with a number
 * far above all complete ones (anybody can create such a directory) is skipped. -EOVERFLOW: there is no higher number;
 * err says which checkpoint has the highest, and what to do.
 */
struct ckpt_next {
	uint64_t id;
	char strange[CHECKPOINT_ID_MAX]; /* the last one that was skipped; "": none */
};
int ckpt_next_id(const char *directory, bool partial, struct ckpt_next *next, struct star_error *err);

/* The chain that restores `id` (0: the newest that is complete with all its parents): a full one, then its deltas;
 * *chain gets any number of paths. -ENOENT with a message: which one is missing. */
int ckpt_chain(const char *directory, uint64_t id, char ***chain, uint32_t *count, struct star_error *err);
void ckpt_chain_free(char **chain, uint32_t count);

/* The number of checkpoints that are needed to restore `id`, with n partitions. -EAGAIN with a message: one of them is
 * missing, damaged, or has another number of partitions. */
int ckpt_chain_length(const char *directory, uint64_t id, uint32_t partitions, struct star_error *err);

/* Whether a delta may be based on its parent (0: it is a full one), as the last of a chain of at most `most`
 * checkpoints: all of them must exist, with files of the right sizes, and each must be the one on which the next was
 * based. Uses lineage, partitions and the parent's members of child; sets the parent's checksum if it was missing. 0,
 * or -EAGAIN with a message: write a full one. Each checkpoint in a chain makes restores slower, and a damaged one
 * affects all that are based on it. */
enum { CKPT_CHAIN_MAX = 1024 };
int ckpt_chain_check(const char *directory, struct ckpt_entry *child, uint32_t most, struct star_error *err);

/* Gets the number of bytes done and in total; false: stop, with -ECANCELED. */
typedef bool ckpt_progress(void *ctx, uint64_t done, uint64_t total);

/* Reads a whole checkpoint and checks every block, run and record. progress may be NULL. */
int ckpt_verify(const char *path, ckpt_progress *progress, void *ctx, struct star_error *err);

/* Finds the newest chain that is intact to the last byte: reads all of it, as ckpt_verify does. refused is called with
 * each checkpoint that has an error, and the error. -ENOENT: there is none. */
struct ckpt_search {
	uint64_t newest;	 /* no newer one than this; 0: any */
	uint32_t partitions;	 /* required number of partitions; 0: any */
	ckpt_progress *progress; /* for each checkpoint that is read; may be NULL */
	void (*refused)(void *ctx, const char *name, const char *why);
	void *ctx;
};
int ckpt_chain_good(const char *directory, const struct ckpt_search *search, char ***chain, uint32_t *count,
		    struct star_error *err);

/*
 * Checks all checkpoints of a directory, or the checkpoint `id` and those that it is based on, as ckpt_chain_good does.
 * `told` is called for each that counts with its error, or NULL if a node would start from it; for unfinished ones also
 * with NULL. The number of those with errors, or a negative errno. Of search it uses progress, partitions and ctx.
 */
typedef void ckpt_told(void *ctx, const struct ckpt_entry *entry, const char *why);
int ckpt_check(const char *directory, uint64_t id, const struct ckpt_search *search, ckpt_told *told,
	       struct star_error *err);

/*
 * The checkpoint is in use: a prune for any lineage, of another process, leaves it until the descriptor that this
 * returns is closed, as far as the file system has locks. A negative errno: it cannot be opened.
 */
int ckpt_use(const char *directory, uint64_t id);

/*
 * Removes all but the newest `keep` complete full checkpoints and what belongs to them, and partial ones older than the
 * newest; only partial ones while there are fewer than `keep`. The number of removed ones, or a negative errno. -EBUSY:
 * a checkpoint has been written there for wait_us (ckpt_claim_write), and nothing is removed. A checkpoint that is
 * completed while the kept ones are read stays, with what it is based on.
 */
struct ckpt_pruning {
	uint32_t keep;
	/* only those of this lineage, which is the caller's, are counted and removed; NULL: all but what is in use */
	const uint64_t *lineage;
	/* told of each that would go, and stays because it is in use; may be NULL */
	void (*in_use)(void *ctx, const char *name, pid_t holder);
	/* this one stays, with what it is based on, until `keep` complete full ones count ... */
	uint64_t began;
	uint64_t since; /* ... that have at least this id. 0: no such one */
	/* If refused is not NULL, checkpoints that are counted are read to their ends, as by ckpt_verify, and refused
	 * is called with each that does not count. */
	void (*refused)(void *ctx, const char *name, const char *why);
	ckpt_progress *progress; /* may be NULL */
	void *ctx;
	uint64_t wait_us;
};
int ckpt_prune(const char *directory, const struct ckpt_pruning *pruning, struct star_error *err);

#endif
