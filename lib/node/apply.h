/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applies records from a journal or a primary to a node's reactors: each record on the reactor of its stream; or, if
 * another number of reactors wrote them, each row on the reactor that owns it here. Reactors load some batches while
 * the next one is filled. One thread; no requests are served meanwhile.
 */
#ifndef NODE_APPLY_H
#define NODE_APPLY_H

#include "node/node.h"
#include "wire/checkpoint.h"
#include "wire/journal.h"

struct node_apply;

/* first_reactor: the cluster-wide number of the node's first reactor, of cluster_reactors. what: the source, for
 * errors: "the journal". NULL with err. */
struct node_apply *node_apply_create(struct node *node, uint32_t first_reactor, uint32_t cluster_reactors,
				     const char *what, struct star_error *err);
/* Waits until reactors have loaded everything, and frees. 0, or a negative errno if that failed. */
int node_apply_destroy(struct node_apply *apply, struct star_error *err);

/* Describes the writer of the following records: the number of its reactors, and their place in its cluster. Returns
 * whether that is the same as here. */
bool node_apply_from(struct node_apply *apply, uint32_t reactors, uint32_t partitions, uint32_t first_reactor,
		     uint32_t cluster_reactors);

/* Applies a record of a stream, which ends at position `behind`; the record may be modified. outcome_only: only the
 * outcomes of requests. */
int node_apply_record(struct node_apply *apply, uint32_t stream, struct journal_record *record, uint64_t behind,
		      bool outcome_only, struct star_error *err);
/*
 * If another number of reactors wrote the streams, and they arrive one after the other, they are passed twice, because
 * each reactor here owns keys of several streams, and its admission filters must be cleared before any count is loaded.
 * After node_apply_cleared_first, records are only searched for such clears; after node_apply_cleared_known, they come
 * again, and everything else is applied. In effect until node_apply_from.
 */
int node_apply_cleared_first(struct node_apply *apply, uint32_t streams, struct star_error *err);
void node_apply_cleared_known(struct node_apply *apply);
/* Applies a record run of a snapshot, which names its object only by id. */
int node_apply_run(struct node_apply *apply, uint32_t stream, const struct checkpoint_run *run, const void *rows,
		   struct star_error *err);
/* After each life of the writer's process: as store_load_life_end. */
int node_apply_life_end(struct node_apply *apply, uint32_t lives, struct star_error *err);
/* Sends all that was passed so far to the reactors. */
int node_apply_send(struct node_apply *apply, struct star_error *err);
/* The same, and waits until they have loaded it. */
int node_apply_flush(struct node_apply *apply, struct star_error *err);

/* Rows applied so far. */
uint64_t node_apply_rows(const struct node_apply *apply);

/* The shards [*first, *end) of this node that own keys which a block of a Bloom filter counts. False: the filter has no
 * such block. */
bool node_bloom_shards(const struct node *node, uint32_t first_reactor, uint32_t cluster_reactors,
		       const struct object_spec *spec, const void *block, uint32_t *first, uint32_t *end);

#endif
