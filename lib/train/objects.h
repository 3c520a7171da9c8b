/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates the variables and tables of a graph on the PS tasks of a cluster, from their nodes' attributes
 * (train/remote.h). Threads: that of the session. */
#ifndef TRAIN_OBJECTS_H
#define TRAIN_OBJECTS_H

#include "train/remote.h"

/* The table or variable of a VARIABLE or TABLE node. With options->wait it waits until somebody else has created it.
 * NULL with err: -ETIMEDOUT: nobody has; or an error of libstar. */
struct star_table *train_objects_make(const struct remote_options *options, const struct graph_node *node,
				      struct star_error *err);

#endif
