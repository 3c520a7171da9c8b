/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports about requests, from the reactors' records; no message is sent to a reactor. Threads: those of the control
 * plane. */
#ifndef NODE_OBSERVE_H
#define NODE_OBSERVE_H

#include "node/node.h"
#include "observe/observe_read.h"

/* A function of control_data_plane. */
int node_observed(void *ctx, const struct control_observed *which, json_t **result, struct star_error *err);

/* Returns the latencies of a reactor's requests, a new reference; NULL: it keeps no records. */
json_t *node_latency_summary(const struct shard *shard);
/* Returns the table, variable or program that has this id now, or NULL. */
const struct object_spec *node_observed_object(const struct node *node, uint32_t id);

#endif
