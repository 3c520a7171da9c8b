/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A dataflow graph: nodes with an operation (ops.h), inputs, attributes, control edges and a device. A node comes after
 * its inputs, so nodes are in topological order in the order in which they were added. Loops and branches are nodes
 * with graphs of their own (bodies), which access the outside only through their inputs.
 *
 * Building: graph_add and the calls of build.h check their arguments (number and types of inputs, shapes, attributes)
 * and infer the types and shapes of the outputs. The first error is kept; its message names the node. After it, all
 * calls add nothing and return GRAPH_NONE. So a model can be written without a check after each call, and checked once
 * (graph_error).
 *
 * Names are unique in a graph; nodes without a given name are called "matmul", "matmul_1" and so on. Devices:
 * "/job:worker", "/job:ps/task:N" (where the home partitions of a variable or table are), "/job:ps" (all PS tasks, by
 * partitions) or none.
 *
 * Thread rule: a graph belongs to one thread while it is changed; an unchanging graph may be read by many. Memory:
 * graph_destroy frees a graph and all its bodies; strings and arrays that are passed in are copied. Control path only.
 */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/ops.h"
#include "star_error.h"
#include "tensor/dtype.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

enum graph_limits {
	GRAPH_DIMS_MAX = 8,
	GRAPH_NODES_MAX = 1 << 16, /* of one graph */
	GRAPH_DEPTH_MAX = 8,	   /* nested bodies */
	GRAPH_ATTRS_MAX = 32,
	GRAPH_NAME_MAX = 127, /* bytes; letters, digits and _ . / - */
	GRAPH_TASKS_MAX = 1024,
	GRAPH_CONST_MAX = 64 << 20, /* bytes */
};

/* Sizes; -1: known only in a step. */
struct graph_shape {
	uint8_t ndim; /* 0: a scalar */
	int64_t dims[GRAPH_DIMS_MAX];
};

/* The type of a value. float32, float64, int32, int64; 0: a handle of a variable or table. */
struct graph_type {
	uint8_t dtype;
	/* of a handle: the type of values that are read, float32 also if they are stored in a narrower type */
	uint8_t element;
	struct graph_shape shape; /* of a handle: that of the variable, or [-1, dim] of a table */
};

/* An output of a node. */
struct graph_value {
	uint32_t node;
	uint32_t output;
};
#define GRAPH_NONE ((struct graph_value){ UINT32_MAX, 0 })

static inline bool graph_is_none(struct graph_value value)
{
	return value.node == UINT32_MAX;
}

static inline bool graph_same(struct graph_value a, struct graph_value b)
{
	return a.node == b.node && a.output == b.output;
}

enum graph_attr_kind { GRAPH_INT = 1, GRAPH_FLOAT, GRAPH_STRING, GRAPH_INTS, GRAPH_TENSOR };

struct graph_attr {
	const char *name;
	enum graph_attr_kind kind;
	union {
		int64_t i;
		double f;
		const char *s;
		struct {
			const int64_t *ints;
			uint32_t ints_count;
		};
		struct {
			struct graph_type type; /* all sizes are known */
			const void *data;
		};
	};
};
#define GRAPH_ATTR_INT(n, v) ((struct graph_attr){ .name = (n), .kind = GRAPH_INT, .i = (v) })
#define GRAPH_ATTR_FLOAT(n, v) ((struct graph_attr){ .name = (n), .kind = GRAPH_FLOAT, .f = (v) })
#define GRAPH_ATTR_STRING(n, v) ((struct graph_attr){ .name = (n), .kind = GRAPH_STRING, .s = (v) })
#define GRAPH_ATTR_INTS(n, v, c) \
	((struct graph_attr){ .name = (n), .kind = GRAPH_INTS, .ints = (v), .ints_count = (c) })

enum graph_job { GRAPH_UNPLACED, GRAPH_WORKER, GRAPH_PS };

struct graph_device {
	uint8_t job;  /* enum graph_job */
	int32_t task; /* of a PS; -1: all of them, by partitions */
};

struct graph_node {
	uint32_t id; /* its index in graph->nodes */
	enum graph_op op;
	const char *name;
	struct graph_device device;
	uint32_t inputs_count, outputs_count, controls_count, attrs_count;
	struct graph_value *inputs;
	struct graph_type *outputs;
	uint32_t *controls; /* nodes to execute before it in a step */
	struct graph_attr *attrs;
	struct graph *body, *cond; /* of while and cond; else NULL */
};

struct graph {
	struct graph_node **nodes; /* in topological order */
	uint32_t nodes_count;
	struct graph_value *results; /* the outputs of a body; of a whole graph, the values that are fetched by name */
	uint32_t results_count;
	struct graph *outer; /* for a body; its inputs are its first nodes, feeds, in order */
	struct graph_arena *memory;
	struct star_error err; /* the first error, or code 0 */
};

struct graph *graph_create(void); /* NULL: no memory */
/* Frees a whole graph with its bodies; not for a body alone. NULL is allowed. */
void graph_destroy(struct graph *graph);

/* 0, or the first error of building the graph or a body: -EINVAL (the message names the node) or -ENOMEM. err may be
 * NULL, here and in all calls that take one. */
int graph_error(const struct graph *graph, struct star_error *err);

/* Records an error that names the node, unless there is one already; returns GRAPH_NONE, for callers to return. */
struct graph_value graph_fail(struct graph *graph, const char *node, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The arguments of graph_add. Attributes may be in any order. */
struct graph_node_spec {
	enum graph_op op;
	const char *name;   /* NULL: made from the operation's */
	const char *device; /* NULL: unplaced (for GRAPH_ON_PS: the device of its variable or table) */
	const struct graph_value *inputs;
	uint32_t inputs_count;
	const uint32_t *controls;
	uint32_t controls_count;
	const struct graph_attr *attrs;
	uint32_t attrs_count;
	struct graph *body, *cond; /* created by graph_body_create with this graph */
};

/* Adds a node; returns its first output (output 0 even if the node has no outputs; it must not be read then), or
 * GRAPH_NONE after an error of the graph. A name that exists, or an attribute that is given twice, is an error. */
struct graph_value graph_add(struct graph *graph, const struct graph_node_spec *spec);

/* Creates a graph for a body or condition, with a feed for each type; it belongs to outer. NULL: no memory, or nested
 * too deeply; outer has the error. */
struct graph *graph_body_create(struct graph *outer, const struct graph_type *inputs, uint32_t inputs_count);

/* Sets the results of the graph, in order; a value may occur several times. Replaces earlier ones. 0 or the graph's
 * error. */
int graph_set_results(struct graph *graph, const struct graph_value *results, uint32_t count);

/* Makes all look-ups of the graph, and of the bodies in it, read-only (build.h). 0 or the graph's error. */
int graph_make_read_only(struct graph *graph);

/* Makes `node` execute before `before`, which must come after it. Adding an edge twice is harmless. 0 or the graph's
 * error. */
int graph_add_control(struct graph *graph, uint32_t node, uint32_t before);

/* ---- looking ---- */

const char *graph_op_name(enum graph_op op); /* for valid operations only */
/* GRAPH_NO_OP: unknown. */
enum graph_op graph_op_parse(const char *name);

struct graph_op_info {
	const char *name;
	uint8_t inputs_min, inputs_max, outputs, place, flags;
};
const struct graph_op_info *graph_op_info(enum graph_op op);

struct graph_node *graph_find(const struct graph *graph, const char *name);		  /* NULL: none */
const struct graph_type *graph_type(const struct graph *graph, struct graph_value value); /* NULL: no such value */
const struct graph_attr *graph_attr(const struct graph_node *node, const char *name);	  /* NULL: not given */
int64_t graph_attr_int(const struct graph_node *node, const char *name, int64_t otherwise);
double graph_attr_float(const struct graph_node *node, const char *name, double otherwise); /* an integer too */
const char *graph_attr_string(const struct graph_node *node, const char *name, const char *otherwise);

/* Whether an operation reads the elements of an input; of other inputs it only uses the shape ("like"). */
bool graph_reads(const struct graph_node *node, uint32_t input);

/* The node of the variable or table that a handle refers to, through identities; NULL: not a handle. */
const struct graph_node *graph_resource(const struct graph *graph, struct graph_value value);

/* "/job:worker", "/job:ps", "/job:ps/task:N"; 0 or -EINVAL. */
int graph_device_parse(const char *text, struct graph_device *device, struct star_error *err);
enum { GRAPH_DEVICE_TEXT = 32 };
/* Writes it to text, which it returns. */
const char *graph_device_text(struct graph_device device, char text[GRAPH_DEVICE_TEXT]);

/* ---- types and shapes ---- */

/* The number of elements; -1: a size is unknown. The product cannot overflow, because more than 2^48 elements are an
 * error of inference. */
int64_t graph_elements(const struct graph_shape *shape);
uint64_t graph_type_bytes(const struct graph_type *type); /* 0: unknown, or a handle */
bool graph_shape_same(const struct graph_shape *a, const struct graph_shape *b);

enum { GRAPH_SHAPE_TEXT = 160 };
/* Writes "[8, ?, 3]" to text, which it returns. */
const char *graph_shape_text(const struct graph_shape *shape, char text[GRAPH_SHAPE_TEXT]);

/*
 * Infers the types of an operation's outputs from its attributes and the types of its inputs (shape.c). Used when a
 * node is added, when a plan is laid out (with the largest sizes), and by kernels (with those of a step). All
 * operations are monotone: larger inputs never give smaller outputs. outputs has room for GRAPH_OUTPUTS_MAX. 0, or
 * -EINVAL with a message (without the node's name).
 */
int graph_infer(const struct graph_node *node, const struct graph_type *inputs, struct graph_type *outputs,
		uint32_t *outputs_count, struct star_error *err);

/*
 * Infers the types of all outputs of a graph whose feeds have the given types (in order; further feeds as declared).
 * The result is indexed by node and output, in one block of memory that the caller frees. NULL with a message that
 * names the node, if some size does not fit. Sizes that only a step decides (those of unique) stay unknown.
 */
struct graph_type **graph_infer_all(const struct graph *graph, const struct graph_type *feeds, uint32_t feeds_count,
				    struct star_error *err);
/* The same, with the largest possible values for those sizes. */
struct graph_type **graph_infer_most(const struct graph *graph, const struct graph_type *feeds, uint32_t feeds_count,
				     struct star_error *err);

/* Whether the number of rows of a node's first output is known only after its execution. */
static inline bool graph_is_open(const struct graph_node *node)
{
	return node->op == GRAPH_UNIQUE || node->op == GRAPH_HEAD;
}

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
