/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints on a node: its part of one that is written, and what it begins with. The control plane's threads only. */
#ifndef STARSERVER_CHECKPOINT_H
#define STARSERVER_CHECKPOINT_H

#include "ckpt/ckpt.h"
#include "node/node.h"

struct node_checkpoint;

/* checkpoint.c. NULL with err. */
struct node_checkpoint *node_checkpoint_create(struct node *node, struct star_error *err);
/* Gives up what is under way. While reactors run. NULL is allowed. */
void node_checkpoint_destroy(struct node_checkpoint *checkpoint);

/* checkpoint_files.c: what all nodes told of what they wrote, into a manifest. */
int node_checkpoint_read_files(const json_t *json, struct ckpt_manifest *m, struct star_error *err);

/* The cluster begins with that checkpoint (0: with none, and without a manifest) of this lineage: those that it writes
 * go on with it, and it stays until `keep` full ones that were written after that count. NULL is allowed. */
void node_checkpoint_begins(struct node_checkpoint *checkpoint, uint64_t id, uint64_t lineage,
			    const struct ckpt_manifest *manifest);
/* The same for another task than 0, which looks at its manifest; id 0: with none. */
int node_checkpoint_look(struct node *node, uint64_t id, uint64_t lineage, struct star_error *err);
/* A standby: its primary's cluster has begun with that checkpoint (0: with none), and is of this lineage. So what that
 * one has written is pruned in time by whoever takes its place, and its drops are not forgotten. */
void node_checkpoint_follows(struct node_checkpoint *checkpoint, uint64_t began, uint64_t lineage);
uint64_t node_checkpoint_began(const struct node_checkpoint *checkpoint);
/* Those that the cluster writes are of this lineage from now on. */
void node_checkpoint_goes_with(struct node_checkpoint *checkpoint, uint64_t lineage);
/* Of those that it writes. */
uint64_t node_checkpoint_own_lineage(const struct node_checkpoint *checkpoint);
/* What its file of dropped tables has: node/dropped.c's. */
struct ckpt_dropped *node_checkpoint_dropped(struct node_checkpoint *checkpoint);
/* Of the manifest that the cluster began with. */
uint32_t node_checkpoint_own_sum(const struct node_checkpoint *checkpoint);
/* Of this node's files in that one. */
uint32_t node_checkpoint_own_part(const struct node_checkpoint *checkpoint);

/* Gives a shard's store what it needs for snapshots, before its first table. */
int node_shard_add_snapshots(struct shard *shard, struct star_error *err);
void node_shard_remove_snapshots(struct shard *shard); /* after its store is gone */

/* What the control plane calls: control_data_plane says what each does. */
int node_checkpoint_new(void *ctx, struct control_checkpoint *checkpoint, struct star_error *err);
int node_checkpoint_begin(void *ctx, const struct control_checkpoint *checkpoint, struct star_error *err);
json_t *node_checkpoint_state(void *ctx);
void node_checkpoint_end(void *ctx, uint64_t id, bool kept, uint32_t sum);
int node_checkpoint_commit(void *ctx, struct control_checkpoint *checkpoint, uint32_t cluster_reactors,
			   const struct object_spec *const *specs, uint32_t count, const json_t *files,
			   const json_t *queues, struct star_error *err);
void node_checkpoint_abandon(void *ctx, const struct control_checkpoint *checkpoint);

/* dropped.c: the same, of the lineage that the cluster goes on with. Without a directory of checkpoints nothing is
 * written, and nothing read. */
int node_dropped_write(void *ctx, const uint32_t *generations, struct star_error *err);
int node_dropped_read(void *ctx, uint32_t *generations, struct star_error *err);
int node_bring_back(void *ctx, uint64_t id, struct star_error *err);

/* The id of the next one (ckpt_next_id); what is passed over is logged, once. */
int node_checkpoint_next(struct node_checkpoint *checkpoint, bool partial, uint64_t *id, struct star_error *err);
/* No delta follows, and why: for its log. Holders of the plane; NULL: there are no checkpoints. */
void node_checkpoint_no_delta(struct node_checkpoint *checkpoint, const char *why);
/* Takes the directory for this cluster, as before each save. */
int node_checkpoint_claim(struct node_checkpoint *checkpoint, struct star_error *err);
/* The other way round: the node serves nobody, and has nothing to save. While a save is under way it stays. NULL:
 * nothing. */
void node_checkpoint_leave(struct node_checkpoint *checkpoint);
/* As soon as the node directs. NULL: nothing. */
void node_checkpoint_own(struct node_checkpoint *checkpoint);

/* restore.c: loads the node's share of a checkpoint, before its first layout is served; and what control_data_plane
 * says. */
/* What tables have beyond a shard's share goes, as each one's policy says. */
int node_trim_tables(struct node *node, struct star_error *err);
int node_restore(struct node *node, const struct control_layout *layout, struct star_error *err);
int node_checkpoint_check(void *ctx, uint64_t *id, struct star_error *err);
int node_restored(void *ctx, uint64_t *id, struct object_spec **specs, uint32_t *count, struct star_error *err);
int node_checkpoint_newest(void *ctx, uint64_t lineage, uint64_t *id, struct star_error *err);
int node_restored_queues(void *ctx, uint64_t id, json_t **queues, struct star_error *err);

#endif
