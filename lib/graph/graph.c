/* SPDX-License-Identifier: BSD-3-Clause */
/* The graph itself: memory, nodes, names. */
#include "graph/graph.h"

#include <errno.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "origin.h"

enum { CHUNK_BYTES = 64 * 1024 };

struct chunk {
	struct chunk *next;
	size_t used, bytes;
	_Alignas(64) uint8_t data[];
};

/* A node, with a member that only this file uses: libstartrain's programs know the size of struct graph_node. */
struct whole_node {
	struct graph_node node;
	const char *origin;
};

/* A graph, with members that only this file uses. */
struct whole {
	struct graph graph;
	struct whole *next;	      /* list of the graphs that share the memory */
	void *names;		      /* tsearch's tree of nodes */
	uint32_t made[GRAPH_OPS_END]; /* generated names so far, by operation */
};

struct graph_arena {
	struct chunk *chunks;
	struct whole *graphs;
	void *resources; /* tsearch's tree of variables and tables, also of bodies: first node of each name */
};

static struct whole *whole_of(const struct graph *graph)
{
	return (struct whole *)(uintptr_t)graph;
}

const char *graph_origin(const struct graph_node *node)
{
	return ((const struct whole_node *)node)->origin;
}

void graph_set_origin(struct graph_node *node, const char *name)
{
	((struct whole_node *)node)->origin = name;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct graph_node *)a)->name, ((const struct graph_node *)b)->name);
}

void *graph_memory(struct graph *graph, size_t bytes)
{
	struct graph_arena *arena = graph->memory;
	struct chunk *chunk = arena->chunks;
	void *memory;

	bytes = (bytes + 63) & ~(size_t)63;
	if (!chunk || chunk->bytes - chunk->used < bytes) {
		const size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;

		chunk = aligned_alloc(64, sizeof(*chunk) + size);
		if (!chunk) {
			graph_fail(graph, NULL, "out of memory");
			return NULL;
		}
		*chunk = (struct chunk){ .next = arena->chunks, .bytes = size };
		arena->chunks = chunk;
	}
	memory = chunk->data + chunk->used;
	chunk->used += bytes;
	return memset(memory, 0, bytes);
}

/* Copies into the graph's memory; bytes may be 0. */
static void *copy(struct graph *graph, const void *from, size_t bytes)
{
	void *to = graph_memory(graph, bytes);

	if (to && bytes)
		memcpy(to, from, bytes);
	return to;
}

static struct graph *new_graph(struct graph_arena *arena, struct graph *outer)
{
	struct whole *whole = calloc(1, sizeof(*whole));

	if (!whole)
		return NULL;
	whole->graph.memory = arena;
	whole->graph.outer = outer;
	whole->next = arena->graphs;
	arena->graphs = whole;
	return &whole->graph;
}

struct graph *graph_create(void)
{
	struct graph_arena *arena = calloc(1, sizeof(*arena));
	struct graph *graph = arena ? new_graph(arena, NULL) : NULL;

	if (!graph)
		free(arena);
	return graph;
}

static void keep_node(void *node)
{
	(void)node; /* it is in the graph's memory */
}

void graph_destroy(struct graph *graph)
{
	struct graph_arena *arena;

	if (!graph)
		return;
	arena = graph->memory;
	tdestroy(arena->resources, keep_node);
	for (struct whole *whole = arena->graphs, *next; whole; whole = next) {
		next = whole->next;
		tdestroy(whole->names, keep_node);
		free(whole);
	}
	for (struct chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	free(arena);
}

int graph_error(const struct graph *graph, struct star_error *err)
{
	if (err && graph->err.code)
		*err = graph->err;
	return graph->err.code;
}

struct graph_value graph_fail(struct graph *graph, const char *node, const char *format, ...)
{
	char text[400];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (; graph; graph = graph->outer)
		if (!graph->err.code)
			star_error_set(&graph->err, -EINVAL, "%s%s%s%s", node ? "node \"" : "", node ? node : "",
				       node ? "\": " : "", text);
	return GRAPH_NONE;
}

/* ---- names ---- */

struct graph_node *graph_find(const struct graph *graph, const char *name)
{
	const struct graph_node key = { .name = name };
	struct graph_node *const *found = tfind(&key, &whole_of(graph)->names, by_name);

	return found ? *found : NULL;
}

static bool good_name(const char *name)
{
	const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-");

	return length > 0 && length <= GRAPH_NAME_MAX && !name[length];
}

/* The node's name: the given one if it is valid and free, or a generated one. */
static const char *name_of(struct graph *graph, const struct graph_node_spec *spec)
{
	const char *base = graph_op_name(spec->op);
	char text[GRAPH_NAME_MAX + 1];

	if (spec->name) {
		if (!good_name(spec->name)) {
			graph_fail(graph, NULL,
				   "a node's name must be 1 to %d letters, digits and _ . / -, not \"%.140s\"",
				   GRAPH_NAME_MAX, spec->name);
			return NULL;
		}
		if (graph_find(graph, spec->name)) {
			graph_fail(graph, spec->name, "another node already has this name");
			return NULL;
		}
		return copy(graph, spec->name, strlen(spec->name) + 1);
	}
	do {
		const uint32_t number = whole_of(graph)->made[spec->op]++;

		if (number)
			snprintf(text, sizeof(text), "%s_%u", base, number);
		else
			snprintf(text, sizeof(text), "%s", base);
	} while (graph_find(graph, text));
	return copy(graph, text, strlen(text) + 1);
}

/* ---- nodes ---- */

/* Checks a tensor's size before its data is read. */
static bool good_tensor(struct graph *graph, const char *node, const struct graph_type *type)
{
	const unsigned bytes = type->dtype == STAR_FLOAT32 || type->dtype == STAR_FLOAT64 ||
					       type->dtype == STAR_INT32 || type->dtype == STAR_INT64
				       ? dtype_bytes(type->dtype)
				       : 0;
	uint64_t n = bytes;

	if (!bytes || type->shape.ndim > GRAPH_DIMS_MAX) {
		graph_fail(graph, node, "a tensor must be float32, float64, int32 or int64");
		return false;
	}
	for (unsigned i = 0; i < type->shape.ndim; i++) {
		if (type->shape.dims[i] < 0 || type->shape.dims[i] > GRAPH_CONST_MAX ||
		    n * (uint64_t)type->shape.dims[i] > GRAPH_CONST_MAX) {
			graph_fail(graph, node, "a tensor attribute must have a known shape and at most %d MiB",
				   GRAPH_CONST_MAX >> 20);
			return false;
		}
		n *= (uint64_t)type->shape.dims[i];
	}
	return true;
}

static bool copy_attrs(struct graph *graph, struct graph_node *node, const struct graph_node_spec *spec)
{
	node->attrs_count = spec->attrs_count;
	node->attrs = copy(graph, spec->attrs, spec->attrs_count * sizeof(*node->attrs));
	for (uint32_t i = 0; node->attrs && i < spec->attrs_count; i++) {
		struct graph_attr *attr = &node->attrs[i];

		for (uint32_t k = 0; k < i; k++)
			if (!strcmp(node->attrs[k].name, attr->name)) {
				graph_fail(graph, node->name, "attribute %s is given twice", attr->name);
				return false;
			}
		if (attr->kind == GRAPH_TENSOR && !good_tensor(graph, node->name, &attr->type))
			return false;
		attr->name = copy(graph, attr->name, strlen(attr->name) + 1);
		if (attr->kind == GRAPH_STRING)
			attr->s = copy(graph, attr->s, strlen(attr->s) + 1);
		else if (attr->kind == GRAPH_INTS)
			attr->ints = copy(graph, attr->ints, attr->ints_count * sizeof(*attr->ints));
		else if (attr->kind == GRAPH_TENSOR)
			attr->data = copy(graph, attr->data, graph_type_bytes(&attr->type));
		if (graph->err.code)
			return false;
	}
	return node->attrs;
}

static int make_read_only(struct graph *graph, struct graph_node *node)
{
	struct graph_attr attr = GRAPH_ATTR_INT("read_only", 1);
	struct graph_attr *attrs = graph_memory(graph, (node->attrs_count + UINT64_C(1)) * sizeof(*attrs));

	attr.name = copy(graph, attr.name, strlen(attr.name) + 1);
	if (!attrs || !attr.name)
		return graph->err.code;
	for (uint32_t i = 0; i < node->attrs_count; i++) /* an attribute may say that it is not */
		attrs[i] = strcmp(node->attrs[i].name, attr.name) ? node->attrs[i] : attr;
	if (!graph_attr(node, attr.name))
		attrs[node->attrs_count++] = attr;
	node->attrs = attrs;
	return 0;
}

int graph_make_read_only(struct graph *graph)
{
	for (uint32_t i = 0; i < graph->nodes_count && !graph->err.code; i++) {
		struct graph_node *node = graph->nodes[i];

		if (node->op == GRAPH_LOOKUP && !graph_attr_int(node, "read_only", 0))
			make_read_only(graph, node);
		if (node->body && (graph_make_read_only(node->body) < 0 || graph_make_read_only(node->cond) < 0))
			graph->err = node->body->err.code ? node->body->err : node->cond->err;
	}
	return graph->err.code;
}

/* Places the node: as the spec says, or where its variable or table is. */
static bool place_node(struct graph *graph, struct graph_node *node, const char *device)
{
	const struct graph_op_info *info = graph_op_info(node->op);
	const struct graph_node *resource = NULL;
	char here[GRAPH_DEVICE_TEXT], there[GRAPH_DEVICE_TEXT];
	struct star_error err;

	if (graph_device_parse(device, &node->device, &err) < 0) {
		graph_fail(graph, node->name, "%s", err.text);
		return false;
	}
	if (info->place == GRAPH_ON_WORKER && node->device.job == GRAPH_PS) {
		graph_fail(graph, node->name, "%s runs in workers only: remove %s", info->name, device);
		return false;
	}
	if (node->inputs_count && graph_type(graph, node->inputs[0])->dtype == 0)
		resource = graph_resource(graph, node->inputs[0]);
	if ((info->place == GRAPH_ON_PS || resource) && node->device.job == GRAPH_UNPLACED)
		node->device = resource ? resource->device : (struct graph_device){ GRAPH_PS, -1 };
	if (info->place == GRAPH_ON_PS && node->device.job != GRAPH_PS) {
		graph_fail(graph, node->name, "%s runs on PS tasks only, not on %s", info->name, device);
		return false;
	}
	if (resource && (resource->device.job != node->device.job || resource->device.task != node->device.task)) {
		graph_fail(graph, node->name, "it is on %s, but %s is on %s", graph_device_text(node->device, here),
			   resource->name, graph_device_text(resource->device, there));
		return false;
	}
	return true;
}

static bool check_inputs(struct graph *graph, struct graph_node *node, const struct graph_node_spec *spec)
{
	const struct graph_op_info *info = graph_op_info(spec->op);
	const bool takes_handle = info->place == GRAPH_ON_PS || spec->op == GRAPH_IDENTITY;

	if (spec->inputs_count < info->inputs_min || spec->inputs_count > info->inputs_max) {
		graph_fail(graph, node->name, "%s takes %u to %u inputs, not %u", info->name, info->inputs_min,
			   info->inputs_max, spec->inputs_count);
		return false;
	}
	for (uint32_t i = 0; i < spec->inputs_count; i++) {
		const struct graph_type *type = graph_type(graph, spec->inputs[i]);

		if (!type) {
			graph_fail(graph, node->name, "its input %u is not a value of this graph", i);
			return false;
		}
		if (type->dtype == 0 && !(takes_handle && i == 0)) {
			graph_fail(graph, node->name,
				   "its input %u is a variable or table: use the result of a read or a lookup", i);
			return false;
		}
		if (info->place == GRAPH_ON_PS && i == 0 && type->dtype != 0) {
			graph_fail(graph, node->name, "its first input must be a variable or table");
			return false;
		}
	}
	for (uint32_t i = 0; i < spec->controls_count; i++)
		if (spec->controls[i] >= graph->nodes_count) {
			graph_fail(graph, node->name, "its control input %u is not a node of this graph",
				   spec->controls[i]);
			return false;
		}
	node->inputs_count = spec->inputs_count;
	node->controls_count = spec->controls_count;
	node->inputs = copy(graph, spec->inputs, spec->inputs_count * sizeof(*node->inputs));
	node->controls = copy(graph, spec->controls, spec->controls_count * sizeof(*node->controls));
	return node->inputs && node->controls;
}

static bool check_bodies(struct graph *graph, struct graph_node *node, const struct graph_node_spec *spec)
{
	const bool wants = spec->op == GRAPH_WHILE || spec->op == GRAPH_COND;

	if (wants != (spec->body != NULL) || wants != (spec->cond != NULL)) {
		graph_fail(graph, node->name, wants ? "%s needs two bodies" : "%s takes no bodies",
			   graph_op_name(spec->op));
		return false;
	}
	if (wants && (spec->body->outer != graph || spec->cond->outer != graph)) {
		graph_fail(graph, node->name, "its bodies were not created by graph_body_create of this graph");
		return false;
	}
	node->body = spec->body;
	node->cond = spec->cond;
	return true;
}

/* For a head with a constant count, the number of rows is known. */
static bool count_rows(struct graph *graph, struct graph_node *node)
{
	const struct graph_node *count = graph->nodes[node->inputs[1].node];
	const int64_t n = graph_type(graph, node->inputs[0])->shape.dims[0];
	int64_t rows;

	if (count->op != GRAPH_CONST)
		return true;
	memcpy(&rows, graph_attr(count, "value")->data, sizeof(rows));
	if (rows < 0 || (n >= 0 && rows > n)) {
		graph_fail(graph, node->name, "head: its input has %lld rows, but its count is %lld", (long long)n,
			   (long long)rows);
		return false;
	}
	node->outputs[0].shape.dims[0] = rows;
	return true;
}

static bool infer(struct graph *graph, struct graph_node *node)
{
	struct graph_type inputs[GRAPH_INPUTS_MAX], outputs[GRAPH_OUTPUTS_MAX];
	struct star_error err;

	for (uint32_t i = 0; i < node->inputs_count; i++)
		inputs[i] = *graph_type(graph, node->inputs[i]);
	if (graph_infer(node, inputs, outputs, &node->outputs_count, &err) < 0) {
		graph_fail(graph, node->name, "%s", err.text);
		return false;
	}
	node->outputs = copy(graph, outputs, node->outputs_count * sizeof(*outputs));
	return node->outputs && (node->op != GRAPH_HEAD || count_rows(graph, node));
}

static bool same_value(const struct graph_attr *a, const struct graph_attr *b)
{
	if (!b || a->kind != b->kind)
		return false;
	return a->kind == GRAPH_INT	? a->i == b->i
	       : a->kind == GRAPH_FLOAT ? a->f == b->f
	       : a->kind == GRAPH_STRING
		       ? !strcmp(a->s, b->s)
		       : a->ints_count == b->ints_count && !memcmp(a->ints, b->ints, a->ints_count * sizeof(*a->ints));
}

/* A name refers to the same variable or table in every body, so it must have one definition. */
static bool check_resource(struct graph *graph, const struct graph_node *node)
{
	const struct graph_node *const *found = tsearch(node, &graph->memory->resources, by_name), *other;

	if (!found) {
		graph_fail(graph, NULL, "out of memory");
		return false;
	}
	other = *found;
	for (uint32_t i = 0; other->op == node->op && i < node->attrs_count; i++)
		if (!same_value(&node->attrs[i], graph_attr(other, node->attrs[i].name))) {
			graph_fail(graph, node->name, "its %s differs from its definition in another body of the graph",
				   node->attrs[i].name);
			return false;
		}
	if (other->op != node->op || other->attrs_count != node->attrs_count) {
		graph_fail(graph, node->name, "it is defined differently in another body of the graph");
		return false;
	}
	return true;
}

int graph_renew_outputs(struct graph *graph, struct graph_node *node)
{
	return graph->err.code == 0 && infer(graph, node) ? 0 : graph->err.code;
}

/* Makes room for one more in the list of nodes. */
static bool node_room(struct graph *graph)
{
	const uint32_t n = graph->nodes_count;
	struct graph_node **more;

	if (n >= GRAPH_NODES_MAX) {
		graph_fail(graph, NULL, "a graph may have at most %d nodes", GRAPH_NODES_MAX);
		return false;
	}
	if (n & (n - 1) || n == 1)
		return true;
	more = graph_memory(graph, (n ? 2 * (size_t)n : 2) * sizeof(*more));
	if (!more)
		return false;
	if (n)
		memcpy(more, graph->nodes, n * sizeof(*more));
	graph->nodes = more;
	return true;
}

struct graph_value graph_add(struct graph *graph, const struct graph_node_spec *spec)
{
	struct graph_node *node;

	if (graph->err.code)
		return GRAPH_NONE;
	if (spec->op <= GRAPH_NO_OP || spec->op >= GRAPH_OPS_END)
		return graph_fail(graph, spec->name, "there is no operation %d", spec->op);
	if (spec->attrs_count > GRAPH_ATTRS_MAX)
		return graph_fail(graph, spec->name, "a node may have at most %d attributes", GRAPH_ATTRS_MAX);
	node = node_room(graph) ? graph_memory(graph, sizeof(struct whole_node)) : NULL;
	if (!node)
		return GRAPH_NONE;
	node->op = spec->op;
	node->id = graph->nodes_count;
	node->name = name_of(graph, spec);
	if (!node->name || !check_inputs(graph, node, spec) || !check_bodies(graph, node, spec) ||
	    !copy_attrs(graph, node, spec) || !place_node(graph, node, spec->device) || !infer(graph, node))
		return GRAPH_NONE;
	if ((node->op == GRAPH_VARIABLE || node->op == GRAPH_TABLE) && !check_resource(graph, node))
		return GRAPH_NONE;
	if (!tsearch(node, &whole_of(graph)->names, by_name))
		return graph_fail(graph, NULL, "out of memory");
	graph->nodes[graph->nodes_count++] = node;
	return (struct graph_value){ .node = node->id };
}

struct graph *graph_body_create(struct graph *outer, const struct graph_type *inputs, uint32_t inputs_count)
{
	unsigned depth = 1;
	struct graph *body;

	for (const struct graph *g = outer->outer; g; g = g->outer)
		depth++;
	if (depth > GRAPH_DEPTH_MAX) {
		graph_fail(outer, NULL, "bodies are nested more than %d deep", GRAPH_DEPTH_MAX);
		return NULL;
	}
	body = new_graph(outer->memory, outer);
	if (!body) {
		graph_fail(outer, NULL, "out of memory");
		return NULL;
	}
	body->err = outer->err; /* so that nothing is added to either of them */
	for (uint32_t i = 0; i < inputs_count; i++) {
		const struct graph_attr attrs[] = {
			GRAPH_ATTR_STRING("dtype", dtype_name(inputs[i].dtype)),
			GRAPH_ATTR_INTS("shape", inputs[i].shape.dims, inputs[i].shape.ndim),
		};

		graph_add(body, &(struct graph_node_spec){ .op = GRAPH_FEED, .attrs = attrs, .attrs_count = 2 });
	}
	return body;
}

int graph_set_results(struct graph *graph, const struct graph_value *results, uint32_t count)
{
	if (graph->err.code)
		return graph->err.code;
	for (uint32_t i = 0; i < count; i++)
		if (!graph_type(graph, results[i]) || graph_type(graph, results[i])->dtype == 0) {
			graph_fail(graph, NULL, "result %u is not a value of the graph", i);
			return graph->err.code;
		}
	graph->results = copy(graph, results, count * sizeof(*results));
	graph->results_count = graph->results ? count : 0;
	return graph->err.code;
}

int graph_add_control(struct graph *graph, uint32_t node, uint32_t before)
{
	struct graph_node *later;
	uint32_t *controls;

	if (graph->err.code)
		return graph->err.code;
	if (node >= before || before >= graph->nodes_count) {
		graph_fail(graph, NULL, "a control edge must go from a node to a later one, not from %u to %u", node,
			   before);
		return graph->err.code;
	}
	later = graph->nodes[before];
	controls = graph_memory(graph, (later->controls_count + 1) * sizeof(*controls));
	if (!controls)
		return graph->err.code;
	if (later->controls_count)
		memcpy(controls, later->controls, later->controls_count * sizeof(*controls));
	controls[later->controls_count++] = node;
	later->controls = controls;
	return 0;
}
