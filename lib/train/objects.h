/* SPDX-License-Identifier: BSD-3-Clause */
/* Variables and tables of a graph on the PS tasks of a cluster, made from their nodes' attributes
 * (train/remote.h). */
#ifndef TRAIN_OBJECTS_H
#define TRAIN_OBJECTS_H

#include "train/remote.h"

/* What a VARIABLE or TABLE node stands for. A session that waits gets it when somebody else has made it. NULL, with
 * err: -ETIMEDOUT, when nobody has, or what libstar says. */
struct star_table *train_objects_make(const struct remote_options *options, const struct graph_node *node,
				      struct star_error *err);

#endif
