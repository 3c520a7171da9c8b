/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies nodes and bodies from graph to graph. */
#include <stdlib.h>

#include "internal.h"

static struct graph *copy_body(struct graph *outer, const struct graph *from);

struct graph_value graph_copy_node(struct graph *graph, const struct graph_node *node, const struct graph_value *inputs)
{
	char device[GRAPH_DEVICE_TEXT];
	struct graph_node_spec spec = { .op = node->op,
					.name = graph_find(graph, node->name) ? NULL : node->name,
					.device = graph_device_text(node->device, device),
					.inputs = inputs,
					.inputs_count = node->inputs_count,
					.attrs = node->attrs,
					.attrs_count = node->attrs_count };

	if (node->body) {
		spec.body = copy_body(graph, node->body);
		spec.cond = copy_body(graph, node->cond);
	}
	return graph_add(graph, &spec);
}

/* Copies all nodes of a body into a new one of another outer graph; the numbers stay the same. */
static struct graph *copy_body(struct graph *outer, const struct graph *from)
{
	struct graph *body = graph_body_create(outer, NULL, 0);

	for (uint32_t n = 0; body && n < from->nodes_count; n++) {
		const struct graph_node *node = from->nodes[n];

		graph_copy_node(body, node, node->inputs);
		for (uint32_t i = 0; i < node->controls_count; i++)
			graph_add_control(body, node->controls[i], n);
	}
	if (body)
		graph_set_results(body, from->results, from->results_count);
	return body;
}
