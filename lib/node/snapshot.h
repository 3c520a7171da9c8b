/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A snapshot of a shard, as far as another thread than the reactor's has to do with it: blocks that the reactor fills,
 * and that are given back to it. One such thread.
 */
#ifndef STARSERVER_SNAPSHOT_H
#define STARSERVER_SNAPSHOT_H

#include "node/node.h"
#include "store/snapshot.h"

enum { NODE_SNAPSHOT_BLOCKS = 4 };

struct node_snapshot {
	struct service_snapshot snapshot;
	/* A block, and the message that gives it back to its reactor: it is there again when that was run. */
	struct node_block {
		struct service_block block;
		struct reactor_message message;
	} blocks[NODE_SNAPSHOT_BLOCKS];
};

/* name: whose it is. node_snapshot_free after both. */
int node_snapshot_make(struct node_snapshot *snapshot, const char *name, unsigned reactor, struct star_error *err);
void node_snapshot_free(struct node_snapshot *snapshot);

/* Asks the reactor for one; -EBUSY: another one is under way. */
int node_snapshot_begin(struct shard *shard, struct node_snapshot *snapshot, enum store_snapshot_kind kind, uint64_t id,
			struct star_error *err);
/* A block that is full; NULL: there is none just now. */
struct service_block *node_snapshot_take(struct node_snapshot *snapshot);
/* It is to be filled again. goes_on is asked while the reactor takes no messages. */
int node_snapshot_give(struct shard *shard, struct service_block *block, bool (*goes_on)(void *ctx), void *ctx,
		       struct star_error *err);
/* It is over, or given up. */
void node_snapshot_end(struct shard *shard, struct node_snapshot *snapshot, bool kept);

#endif
