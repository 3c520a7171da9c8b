/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading nodes: operations, attributes, devices, types. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

static const struct graph_op_info ops[GRAPH_OPS_END] = {
#define X(op, text, least, most, out, where, what) \
	[GRAPH_##op] = { .name = (text), \
			 .inputs_min = (least), \
			 .inputs_max = (most), \
			 .outputs = (out), \
			 .place = (where), \
			 .flags = (what) },
	GRAPH_OP_LIST(X)
#undef X
};

const struct graph_op_info *graph_op_info(enum graph_op op)
{
	return &ops[op];
}

const char *graph_op_name(enum graph_op op)
{
	return ops[op].name;
}

enum graph_op graph_op_parse(const char *name)
{
	for (enum graph_op op = GRAPH_NO_OP + 1; op < GRAPH_OPS_END; op++)
		if (!strcmp(ops[op].name, name))
			return op;
	return GRAPH_NO_OP;
}

const struct graph_type *graph_type(const struct graph *graph, struct graph_value value)
{
	if (value.node >= graph->nodes_count || value.output >= graph->nodes[value.node]->outputs_count)
		return NULL;
	return &graph->nodes[value.node]->outputs[value.output];
}

const struct graph_attr *graph_attr(const struct graph_node *node, const char *name)
{
	for (uint32_t i = 0; i < node->attrs_count; i++)
		if (!strcmp(node->attrs[i].name, name))
			return &node->attrs[i];
	return NULL;
}

int64_t graph_attr_int(const struct graph_node *node, const char *name, int64_t otherwise)
{
	const struct graph_attr *attr = graph_attr(node, name);

	return attr && attr->kind == GRAPH_INT ? attr->i : otherwise;
}

double graph_attr_float(const struct graph_node *node, const char *name, double otherwise)
{
	const struct graph_attr *attr = graph_attr(node, name);

	if (!attr || (attr->kind != GRAPH_FLOAT && attr->kind != GRAPH_INT))
		return otherwise;
	return attr->kind == GRAPH_FLOAT ? attr->f : (double)attr->i;
}

const char *graph_attr_string(const struct graph_node *node, const char *name, const char *otherwise)
{
	const struct graph_attr *attr = graph_attr(node, name);

	return attr && attr->kind == GRAPH_STRING ? attr->s : otherwise;
}

const struct graph_node *graph_resource(const struct graph *graph, struct graph_value value)
{
	const struct graph_node *node = graph->nodes[value.node];

	while (node->op == GRAPH_IDENTITY)
		node = graph->nodes[node->inputs[0].node];
	return node->op == GRAPH_VARIABLE || node->op == GRAPH_TABLE ? node : NULL;
}

int graph_device_parse(const char *text, struct graph_device *device, struct star_error *err)
{
	static const char task[] = "/job:ps/task:";

	*device = (struct graph_device){ .job = GRAPH_UNPLACED, .task = -1 };
	if (!text || !*text)
		return 0;
	if (!strcmp(text, "/job:worker")) {
		device->job = GRAPH_WORKER;
		return 0;
	}
	if (!strcmp(text, "/job:ps")) {
		device->job = GRAPH_PS;
		return 0;
	}
	if (!strncmp(text, task, sizeof(task) - 1)) {
		const char *digits = text + sizeof(task) - 1;
		const size_t n = strspn(digits, "0123456789");

		device->job = GRAPH_PS;
		device->task = n > 0 && n <= 4 ? atoi(digits) : GRAPH_TASKS_MAX;
		if (!digits[n] && device->task < GRAPH_TASKS_MAX)
			return 0;
	}
	return star_error_set(err, -EINVAL,
			      "a device must be \"/job:worker\", \"/job:ps\" (all tasks) or \"/job:ps/task:N\" with N "
			      "below %d, not \"%.100s\"",
			      GRAPH_TASKS_MAX, text);
}

const char *graph_device_text(struct graph_device device, char text[static GRAPH_DEVICE_TEXT])
{
	if (device.job == GRAPH_PS && device.task >= 0)
		snprintf(text, GRAPH_DEVICE_TEXT, "/job:ps/task:%d", device.task);
	else
		snprintf(text, GRAPH_DEVICE_TEXT, "%s",
			 device.job == GRAPH_PS	      ? "/job:ps"
			 : device.job == GRAPH_WORKER ? "/job:worker"
						      : "");
	return text;
}

int64_t graph_elements(const struct graph_shape *shape)
{
	int64_t n = 1;

	for (unsigned i = 0; i < shape->ndim; i++) {
		if (shape->dims[i] < 0)
			return -1;
		n *= shape->dims[i];
	}
	return n;
}

uint64_t graph_type_bytes(const struct graph_type *type)
{
	const int64_t n = graph_elements(&type->shape);

	return n < 0 ? 0 : (uint64_t)n * dtype_bytes(type->dtype);
}

bool graph_shape_same(const struct graph_shape *a, const struct graph_shape *b)
{
	return a->ndim == b->ndim && !memcmp(a->dims, b->dims, a->ndim * sizeof(a->dims[0]));
}

const char *graph_shape_text(const struct graph_shape *shape, char text[static GRAPH_SHAPE_TEXT])
{
	int at = snprintf(text, GRAPH_SHAPE_TEXT, "[");

	for (unsigned i = 0; i < shape->ndim; i++)
		at += shape->dims[i] < 0 ? snprintf(text + at, GRAPH_SHAPE_TEXT - (size_t)at, i ? ", ?" : "?")
					 : snprintf(text + at, GRAPH_SHAPE_TEXT - (size_t)at, i ? ", %lld" : "%lld",
						    (long long)shape->dims[i]);
	snprintf(text + at, GRAPH_SHAPE_TEXT - (size_t)at, "]");
	return text;
}

bool graph_reads(const struct graph_node *node, uint32_t input)
{
	switch (node->op) {
	case GRAPH_RANDOM:
		return false;
	case GRAPH_RESHAPE:
	case GRAPH_EXPAND:
	case GRAPH_REDUCE_LIKE:
	case GRAPH_PAD_LIKE:
		return input != 1;
	case GRAPH_SEGMENT_SUM:
	case GRAPH_SEGMENT_MEAN:
	case GRAPH_SEGMENT_SQRTN:
	case GRAPH_SEGMENT_MEAN_GRAD:
	case GRAPH_SEGMENT_SQRTN_GRAD:
	case GRAPH_SCATTER_ADD:
	case GRAPH_INDEX_GRAD:
		return input != 2;
	default:
		return true;
	}
}
