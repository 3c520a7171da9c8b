/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/node that tell of requests share: no reactor is asked. Threads: those of the control plane. */
#ifndef NODE_OBSERVE_H
#define NODE_OBSERVE_H

#include "node/node.h"
#include "observe/observe_read.h"

/* For control_data_plane. */
int node_observed(void *ctx, const struct control_observed *which, json_t **result, struct star_error *err);

/* How long all requests of a reactor took; NULL: it does not remember. A new reference. */
json_t *node_latency_summary(const struct shard *shard);
/* What has that id now, or NULL. */
const struct object_spec *node_observed_object(const struct node *node, uint32_t id);

#endif
