/* SPDX-License-Identifier: BSD-3-Clause */
/* What the reactors capture of the node's frames, for an administrator. */
#ifndef NODE_CAPTURE_H
#define NODE_CAPTURE_H

#include "node/node.h"

struct node_capture *node_capture_create(struct star_error *err);
/* When the reactors have stopped. NULL: nothing. */
void node_capture_destroy(struct node_capture *capture);

/* For control_data_plane. */
int node_capture(void *ctx, const json_t *params, json_t **result, struct star_error *err);
int node_capture_take(void *ctx, const json_t *params, json_t **result, struct star_error *err);

/* Once a second: ends one that nobody takes anything of. */
void node_capture_watch(struct node *node);

#endif
