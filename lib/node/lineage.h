/* SPDX-License-Identifier: BSD-3-Clause */
/* Which checkpoints in the directory belong to this cluster (its lineage), and which one it started from. Threads:
 * those of the control plane; on a standby, the thread that follows its primary. */
#ifndef NODE_LINEAGE_H
#define NODE_LINEAGE_H

#include "ckpt/ckpt.h"
#include "config/config.h"

struct node_lineage {
	const struct config *config;
	uint64_t id;	       /* of the checkpoints that the cluster writes; set by PS task 0 */
	uint64_t began, since; /* the checkpoint that it started from; the first one written after that. 0: none */
	uint32_t since_count;  /* full checkpoints written after that */
	uint32_t began_sum;    /* checksum of the manifest that it started from */
	uint32_t began_part;   /* sum of the checksums of this node's files in that checkpoint */
	/* Of a pair: the highest number that its primary had given to a checkpoint, and the highest that a node of the
	 * pair has. Any thread's. */
	uint64_t before, newest;
	int used; /* ckpt_use's descriptor, by which other processes know that it is in use; -1: none */
	char strange[CHECKPOINT_ID_MAX]; /* what was skipped last, as no complete checkpoint; the checkpointer's */
};

/* A new lineage: until the cluster starts from a checkpoint, it prunes nothing that others have written. */
void node_lineage_init(struct node_lineage *lineage, const struct config *config);
void node_lineage_fini(struct node_lineage *lineage);

/* The cluster starts from this checkpoint (0: from none), of lineage `id`. manifest: NULL if there is none. */
void node_lineage_begin(struct node_lineage *lineage, uint64_t began, uint64_t id,
			const struct ckpt_manifest *manifest);
/* A standby: its primary's cluster started from `began`, its checkpoints are of lineage `id`, and `newest` is the
 * highest number of one. */
void node_lineage_follow(struct node_lineage *lineage, uint64_t began, uint64_t id, uint64_t newest);
/* The id of the next checkpoint, as the directory says (ckpt_next_id); a skipped one is logged once. */
int node_lineage_next(struct node_lineage *lineage, bool partial, uint64_t *id, struct star_error *err);
/* The id that a new checkpoint gets: also above those of the primary that the node has replaced. */
int node_lineage_give(struct node_lineage *lineage, uint64_t *id, struct star_error *err);
/* A primary notes which ids there are in its directory, to tell its standby. Waits for the disk. */
void node_lineage_look(struct node_lineage *lineage);
uint64_t node_lineage_newest(const struct node_lineage *lineage);
/* From now on, `starctl checkpoint prune` keeps the checkpoint that the cluster started from, as long as it may be
 * needed again. Waits for the disk. */
void node_lineage_use(struct node_lineage *lineage);
/* A checkpoint was completed: its id, and whether it is a full one. */
void node_lineage_count(struct node_lineage *lineage, uint64_t written, bool full);

#endif
