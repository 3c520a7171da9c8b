/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A snapshot of a shard, seen from the thread that consumes it: the reactor fills blocks, and the thread returns them
 * to be filled again. One such thread.
 */
#ifndef NODE_SNAPSHOT_H
#define NODE_SNAPSHOT_H

#include "node/node.h"
#include "store/snapshot.h"

enum { NODE_SNAPSHOT_BLOCKS = 4 };

struct node_snapshot {
	struct service_snapshot snapshot;
	/* A block, and the message that returns it to its reactor. */
	struct node_block {
		struct service_block block;
		struct reactor_message message;
	} blocks[NODE_SNAPSHOT_BLOCKS];
};

/* Allocates the blocks. name: for the name of its ring. 0 or a negative errno; node_snapshot_free in any case. */
int node_snapshot_make(struct node_snapshot *snapshot, const char *name, unsigned reactor, struct star_error *err);
void node_snapshot_free(struct node_snapshot *snapshot);

/* Has the reactor begin a snapshot. 0; -EBUSY: another one is in progress. */
int node_snapshot_begin(struct shard *shard, struct node_snapshot *snapshot, enum store_snapshot_kind kind, uint64_t id,
			struct star_error *err);
/* Returns the next full block; NULL: there is none at the moment. */
struct service_block *node_snapshot_take(struct node_snapshot *snapshot);
/* Returns a block to the reactor. While the reactor's mailbox is full, goes_on decides whether to wait on. */
int node_snapshot_give(struct shard *shard, struct service_block *block, bool (*goes_on)(void *ctx), void *ctx,
		       struct star_error *err);
/* Ends the snapshot, whether complete or abandoned. */
void node_snapshot_end(struct shard *shard, struct node_snapshot *snapshot, bool kept);

#endif
