/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints of a node: writing its part of one, and what it starts from. Threads: those of the control plane. */
#ifndef NODE_CHECKPOINT_H
#define NODE_CHECKPOINT_H

#include "ckpt/ckpt.h"
#include "node/node.h"

struct node_checkpoint;

/* checkpoint.c. NULL with err. */
struct node_checkpoint *node_checkpoint_create(struct node *node, struct star_error *err);
/* Abandons a checkpoint that is being written. Reactors must still run. checkpoint may be NULL. */
void node_checkpoint_destroy(struct node_checkpoint *checkpoint);

/* checkpoint_files.c: parses what all nodes reported about their data files, into a manifest. 0 or -EINVAL. */
int node_checkpoint_read_files(const json_t *json, struct ckpt_manifest *m, struct star_error *err);

/* The cluster starts from this checkpoint of this lineage (0: from none, without a manifest). Its own checkpoints
 * continue it, and it is kept until `keep` full ones written after it count. checkpoint may be NULL. */
void node_checkpoint_begins(struct node_checkpoint *checkpoint, uint64_t id, uint64_t lineage,
			    const struct ckpt_manifest *manifest);
/* The same for a task other than 0, which reads the manifest itself; id 0: from none. 0 or a negative errno. */
int node_checkpoint_look(struct node *node, uint64_t id, uint64_t lineage, struct star_error *err);
/* On a standby: the primary's cluster started from this checkpoint (0: from none) of this lineage. So a standby that
 * takes over prunes what the primary has written in time, remembers its drops, and gives none of its
 * checkpoints a number of the primary's, whichever directory it writes to. */
void node_checkpoint_follows(struct node_checkpoint *checkpoint, const struct control_lineage *lineage);
/* What a standby is told of that. */
struct control_lineage node_checkpoint_lineage(const struct node_checkpoint *checkpoint);
/* The checkpoint from which the cluster started; 0: none. */
uint64_t node_checkpoint_began(const struct node_checkpoint *checkpoint);
/* From now on the cluster's checkpoints belong to this lineage. */
void node_checkpoint_goes_with(struct node_checkpoint *checkpoint, uint64_t lineage);
/* The lineage of the checkpoints that it writes. */
uint64_t node_checkpoint_own_lineage(const struct node_checkpoint *checkpoint);
/* The contents of its file of dropped tables, for dropped.c. */
struct ckpt_dropped *node_checkpoint_dropped(struct node_checkpoint *checkpoint);
/* The checksum of the manifest from which the cluster started. */
uint32_t node_checkpoint_own_sum(const struct node_checkpoint *checkpoint);
/* The checksum of this node's files in that manifest. */
uint32_t node_checkpoint_own_part(const struct node_checkpoint *checkpoint);

/* Prepares a shard's store for snapshots, before its first table. */
int node_shard_add_snapshots(struct shard *shard, struct star_error *err);
void node_shard_remove_snapshots(struct shard *shard); /* after its store is gone */

/* Functions of control_data_plane, which describes each. */
int node_checkpoint_new(void *ctx, struct control_checkpoint *checkpoint, struct star_error *err);
int node_checkpoint_begin(void *ctx, const struct control_checkpoint *checkpoint, struct star_error *err);
json_t *node_checkpoint_state(void *ctx);
void node_checkpoint_end(void *ctx, uint64_t id, bool kept, uint32_t sum);
int node_checkpoint_commit(void *ctx, struct control_checkpoint *checkpoint, uint32_t cluster_reactors,
			   const struct object_spec *const *specs, uint32_t count, const json_t *files,
			   const json_t *queues, struct star_error *err);
void node_checkpoint_abandon(void *ctx, const struct control_checkpoint *checkpoint);

/* dropped.c: the same, for the lineage that the cluster continues. Without a checkpoint directory these do nothing. */
int node_dropped_write(void *ctx, const uint32_t *generations, struct star_error *err);
int node_dropped_read(void *ctx, uint32_t *generations, struct star_error *err);
int node_bring_back(void *ctx, uint64_t id, struct star_error *err);

/* Gets the id of the next checkpoint (ckpt_next_id); a skipped one is logged once. */
int node_checkpoint_next(struct node_checkpoint *checkpoint, bool partial, uint64_t *id, struct star_error *err);
/* The next checkpoint cannot be a delta; why: for the log. Thread-safe. checkpoint may be NULL. */
void node_checkpoint_no_delta(struct node_checkpoint *checkpoint, const char *why);
/* Claims the directory for this cluster, as before each save. */
int node_checkpoint_claim(struct node_checkpoint *checkpoint, struct star_error *err);
/* Releases the claim: the node serves nobody, and has nothing to save. No effect while a checkpoint is being written.
 * checkpoint may be NULL. */
void node_checkpoint_leave(struct node_checkpoint *checkpoint);
/* Claims the directory early, so that nobody imports into it, and cleans up after a writer that ended in the middle.
 * Errors are left to the next save. checkpoint may be NULL. */
void node_checkpoint_own(struct node_checkpoint *checkpoint);

/* restore.c: node_restore loads the node's share of a checkpoint before its first layout is served; the others are
 * functions of control_data_plane. */
/* Evicts rows of tables beyond a shard's share, by each table's policy. */
int node_trim_tables(struct node *node, struct star_error *err);
int node_restore(struct node *node, const struct control_layout *layout, struct star_error *err);
int node_checkpoint_check(void *ctx, uint64_t *id, struct star_error *err);
int node_restored(void *ctx, uint64_t *id, struct object_spec **specs, uint32_t *count, struct star_error *err);
int node_checkpoint_newest(void *ctx, uint64_t lineage, uint64_t *id, struct star_error *err);
int node_restored_queues(void *ctx, uint64_t id, json_t **queues, struct star_error *err);

#endif
