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
	int used;	       /* ckpt_use's descriptor, by which other processes know that it is in use; -1: none */
};

/* A new lineage: until the cluster starts from a checkpoint, it prunes nothing that others have written. */
void node_lineage_init(struct node_lineage *lineage, const struct config *config);
void node_lineage_fini(struct node_lineage *lineage);

/* The cluster starts from this checkpoint (0: from none), of lineage `id`. manifest: NULL if there is none. */
void node_lineage_begin(struct node_lineage *lineage, uint64_t began, uint64_t id,
			const struct ckpt_manifest *manifest);
/* A standby: its primary's cluster started from `began`, and its checkpoints are of lineage `id`. */
void node_lineage_follow(struct node_lineage *lineage, uint64_t began, uint64_t id);
/* From now on, `starctl checkpoint prune` keeps the checkpoint that the cluster started from, as long as it may be
 * needed again. Waits for the disk. */
void node_lineage_use(struct node_lineage *lineage);
/* A checkpoint was completed: its id, and whether it is a full one. */
void node_lineage_count(struct node_lineage *lineage, uint64_t written, bool full);

#endif
