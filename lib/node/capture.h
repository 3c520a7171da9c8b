/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet capture: copies of the node's frames from its reactors, for an administrator. Threads: those of the control
 * plane. */
#ifndef NODE_CAPTURE_H
#define NODE_CAPTURE_H

#include "node/node.h"

struct node_capture *node_capture_create(struct star_error *err);
/* The reactors must have stopped. capture may be NULL. */
void node_capture_destroy(struct node_capture *capture);

/* Functions of control_data_plane. */
int node_capture(void *ctx, const json_t *params, json_t **result, struct star_error *err);
int node_capture_take(void *ctx, const json_t *params, json_t **result, struct star_error *err);

/* Ends a capture whose frames nobody fetches; call it once per second. */
void node_capture_watch(struct node *node);

#endif
