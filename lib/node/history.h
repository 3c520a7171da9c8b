/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node's metrics of the last hour, one sample per ten seconds: work done, latencies of requests, sizes of memory and
 * tables. It takes a fixed amount of memory, and some KiB per table. The watch's thread writes it; any thread reads it.
 */
#ifndef NODE_HISTORY_H
#define NODE_HISTORY_H

#include "node/node.h"

struct node_history *node_history_create(struct star_error *err);
void node_history_destroy(struct node_history *history);

/* Takes a sample if one is due; call it about once per second. */
void node_history_watch(struct node *node);

/* Returns the last `seconds`, as docs/control.rst describes them: a new reference; NULL: out of memory. */
json_t *node_history_json(struct node *node, uint32_t seconds);

#endif
