/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether PS tasks have lost a part of a model. A node that comes back without a checkpoint has none of the blocks and
 * rows that were on it, while the others keep theirs: all tables and variables exist, and what is gone reads as its
 * initial values. Of a variable that a graph reads as a whole, each step updates all blocks. So where some blocks have
 * been updated and others never have, these were lost. Rows of tables do not show it.
 */
#ifndef TRAIN_LOST_H
#define TRAIN_LOST_H

#include <stdint.h>

#include "graph/graph.h"

struct star_cluster;
struct star_error;

/* -ENOTRECOVERABLE: a variable of the graph is lost in part. One that was never updated, while others were, may be one
 * that is never trained: standard error says so. Changes nothing on PS tasks. */
int train_lost_check(struct star_cluster *cluster, const struct graph *graph, uint64_t deadline_us,
		     struct star_error *err);

#endif
