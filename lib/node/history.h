/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node's figures of the last hour, every ten seconds: what it did, how long requests took, what memory and tables
 * have grown by. In memory of fixed size, and of each table some KiB. Written by the watch's thread, read by others.
 */
#ifndef NODE_HISTORY_H
#define NODE_HISTORY_H

#include "node/node.h"

struct node_history *node_history_create(struct star_error *err);
void node_history_destroy(struct node_history *history);

/* Once a second or so. */
void node_history_watch(struct node *node);

/* Of the last seconds, as docs/control.rst says; a new reference, or NULL: no memory. */
json_t *node_history_json(struct node *node, uint32_t seconds);

#endif
