/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a graph is fed with: its feeds, and batches for them from files of arrays (arrays.h), an array for each feed, in
 * the graph's order. Threads: one at a time.
 */
#ifndef STARTRAIN_FEEDS_H
#define STARTRAIN_FEEDS_H

#include "app/startrain/graphfile/arrays.h"
#include "app/startrain/graphfile/graphfile.h"

struct feeds {
	const struct graph_node *nodes[GRAPHFILE_FEEDS_MAX];
	struct graph_plan_feed most[GRAPHFILE_FEEDS_MAX];
	struct graph_tensor tensors[GRAPHFILE_FEEDS_MAX]; /* of a step; memory for the greatest */
	uint32_t count;
	uint64_t batches; /* read of the file, or of all files since feeds_measure */
};

/* The graph's feeds, which it must outlive. -EINVAL: it has none; -E2BIG. `path`: the graph's file, for messages. */
int feeds_find(struct feeds *feeds, const struct graph *graph, const char *path, struct star_error *err);

/* Reads the files once, for the greatest size of each feed, and makes room for them. A batch that is no feed's is
 * -EINVAL, with its file and number. */
int feeds_measure(struct feeds *feeds, const char *const *paths, uint32_t count, struct star_error *err);

/* The next batch of a file, as it lies in it: 1; 0: the file has ended. */
int feeds_next(struct feeds *feeds, struct arrays *arrays, const char *path, struct graph_tensor *batch,
	       struct star_error *err);

/* Copies a batch to where a step takes it from. */
void feeds_fill(struct feeds *feeds, const struct graph_tensor *batch);

void feeds_fini(struct feeds *feeds);

#endif
