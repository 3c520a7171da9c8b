/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A graph's feeds, and batches for them from files of arrays (arrays.h): an array for each feed, in the graph's order.
 * One thread at a time.
 */
#ifndef STARTRAIN_FEEDS_H
#define STARTRAIN_FEEDS_H

#include "app/startrain/graphfile/arrays.h"
#include "app/startrain/graphfile/graphfile.h"

struct feeds {
	const struct graph_node *nodes[GRAPHFILE_FEEDS_MAX];
	struct graph_plan_feed most[GRAPHFILE_FEEDS_MAX];
	struct graph_tensor tensors[GRAPHFILE_FEEDS_MAX]; /* of a step; with memory for the largest */
	uint32_t count;
	uint64_t batches; /* read from the file, or from all files since feeds_measure */
};

/* Finds the graph's feeds; the graph must outlive them. path: the graph's file, for messages. -EINVAL: it has none;
 * -E2BIG: it has more than GRAPHFILE_FEEDS_MAX. */
int feeds_find(struct feeds *feeds, const struct graph *graph, const char *path, struct star_error *err);

/* Reads the files once to find the largest size of each feed, and allocates memory for it. -EINVAL with file and number
 * of a batch that does not match the feeds. */
int feeds_measure(struct feeds *feeds, const char *const *paths, uint32_t count, struct star_error *err);

/* Gets the next batch of a file; its data points into the file. 1; 0: end of file; or -EINVAL. */
int feeds_next(struct feeds *feeds, struct arrays *arrays, const char *path, struct graph_tensor *batch,
	       struct star_error *err);

/* Copies a batch into the tensors that a step uses. */
void feeds_fill(struct feeds *feeds, const struct graph_tensor *batch);

void feeds_fini(struct feeds *feeds);

#endif
