/* SPDX-License-Identifier: BSD-3-Clause */
/* Which checkpoints of the directory are the cluster's own, and which one it has begun with. The control plane's
 * threads only; of a standby the one that follows its primary. */
#ifndef STARSERVER_LINEAGE_H
#define STARSERVER_LINEAGE_H

#include "ckpt/ckpt.h"
#include "config/config.h"

struct node_lineage {
	const struct config *config;
	uint64_t id;	       /* of those that the cluster writes; PS task 0's */
	uint64_t began, since; /* what it began with; the first that was written after that. 0: none */
	uint32_t since_count;  /* full ones that were written after that */
	uint32_t began_sum;    /* of the manifest that it began with */
	uint32_t began_part;   /* sum of the checksums of this node's files in that */
	int used;	       /* by which other processes know of it; -1: they do not */
};

/* A new one: until the cluster begins with a checkpoint, what others have written is not its own to prune. */
void node_lineage_init(struct node_lineage *lineage, const struct config *config);
void node_lineage_fini(struct node_lineage *lineage);

void node_lineage_begin(struct node_lineage *lineage, uint64_t began, uint64_t id,
			const struct ckpt_manifest *manifest);
void node_lineage_follow(struct node_lineage *lineage, uint64_t began, uint64_t id);
/* What it has begun with, a `starctl checkpoint prune` leaves from now on, as long as that may be needed again. Waits
 * for the disk. */
void node_lineage_use(struct node_lineage *lineage);
/* A checkpoint counts. */
void node_lineage_count(struct node_lineage *lineage, uint64_t written, bool full);

#endif
