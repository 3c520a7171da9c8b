/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of a journal or of a primary, into a node's reactors: each to the reactor that has its stream, or, where
 * another number of reactors wrote them, each row to the one that it is of here. Reactors load some batches while the
 * next is filled. One thread; requests are not served meanwhile.
 */
#ifndef STARSERVER_APPLY_H
#define STARSERVER_APPLY_H

#include "node/node.h"
#include "wire/checkpoint.h"
#include "wire/journal.h"

struct node_apply;

/* first_reactor of cluster_reactors: where the node's own are among those of the cluster. what: of errors, as in "the
 * journal". NULL with err. */
struct node_apply *node_apply_create(struct node *node, uint32_t first_reactor, uint32_t cluster_reactors,
				     const char *what, struct star_error *err);
/* Waits for what reactors still load. 0, or a negative errno of that. */
int node_apply_destroy(struct node_apply *apply, struct star_error *err);

/* Who wrote what comes now: its reactors, and where they were among those of its cluster; whether that is as here. */
bool node_apply_from(struct node_apply *apply, uint32_t reactors, uint32_t partitions, uint32_t first_reactor,
		     uint32_t cluster_reactors);

/* A record of a stream, which ends `behind`; it may be changed. outcome_only: of it nothing but how requests ended. */
int node_apply_record(struct node_apply *apply, uint32_t stream, struct journal_record *record, uint64_t behind,
		      bool outcome_only, struct star_error *err);
/*
 * Streams of other reactors that come one after the other are given twice: each reactor here has keys of several, and
 * its filters are to forget before any of their counts come. After the first of these, records of all streams are
 * looked through for that alone; after the second they come again, and all else is applied. Until node_apply_from.
 */
int node_apply_cleared_first(struct node_apply *apply, uint32_t streams, struct star_error *err);
void node_apply_cleared_known(struct node_apply *apply);
/* A run of a snapshot, of which the object is named by its id alone. */
int node_apply_run(struct node_apply *apply, uint32_t stream, const struct checkpoint_run *run, const void *rows,
		   struct star_error *err);
/* Behind a life: store_load_life_end. */
int node_apply_life_end(struct node_apply *apply, uint32_t lives, struct star_error *err);
/* All that was given so far is on its way to the reactors. */
int node_apply_send(struct node_apply *apply, struct star_error *err);
/* And loaded when it returns. */
int node_apply_flush(struct node_apply *apply, struct star_error *err);

uint64_t node_apply_rows(const struct node_apply *apply);

/* The shards of this node, from *first to before *end, that may be asked for keys which a block of a Bloom filter
 * counts; false: the filter has no such block. */
bool node_bloom_shards(const struct node *node, uint32_t first_reactor, uint32_t cluster_reactors,
		       const struct object_spec *spec, const void *block, uint32_t *first, uint32_t *end);

#endif
