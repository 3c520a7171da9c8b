/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and shapes: tables of operations with what goes in, and what comes out or why it is refused. */
#include <stdio.h>
#include <stdlib.h>

#include "graph/graph.h"
#include "graph/shape.h"
#include "tests/graph/cases.h"
#include "tests/unit.h"

/* "f[8,?]": float32; d, i, l: float64, int32, int64; h: a handle of float32. Inputs and outputs stand one after the
 * other. */
static const char *read_type(const char *text, struct graph_type *type)
{
	static const struct {
		char letter;
		uint8_t dtype, element;
	} types[] = { { 'h', 0, STAR_FLOAT32 }, { 'H', 0, STAR_FLOAT64 }, { 'n', 0, STAR_INT64 },
		      { 'f', STAR_FLOAT32, 0 }, { 'd', STAR_FLOAT64, 0 }, { 'i', STAR_INT32, 0 },
		      { 'l', STAR_INT64, 0 } };

	*type = (struct graph_type){ 0 };
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i].letter == *text) {
			type->dtype = types[i].dtype;
			type->element = types[i].element;
		}
	for (text += 2; *text != ']'; text += *text == ',') {
		char *end = (char *)(uintptr_t)(text + 1);

		type->shape.dims[type->shape.ndim++] = *text == '?' ? -1 : strtoll(text, &end, 10);
		text = end;
	}
	text++;
	return text + (*text == ' ');
}

static void write_types(const struct graph_type *types, uint32_t count, char *text, size_t bytes)
{
	size_t at = 0;

	text[0] = 0;
	for (uint32_t i = 0; i < count; i++) {
		at += (size_t)snprintf(text + at, bytes - at, "%s%c[", i ? " " : "",
				       "hf__d_il"[types[i].dtype < 8 ? types[i].dtype : 0]);
		for (unsigned k = 0; k < types[i].shape.ndim; k++)
			at += types[i].shape.dims[k] < 0
				      ? (size_t)snprintf(text + at, bytes - at, "%s?", k ? "," : "")
				      : (size_t)snprintf(text + at, bytes - at, "%s%lld", k ? "," : "",
							 (long long)types[i].shape.dims[k]);
		at += (size_t)snprintf(text + at, bytes - at, "]");
	}
}

/* "axis=1 sizes=1,2, dtype='float32' rate=0.5": what has a comma is a list, what has a point a float. */
struct attrs {
	struct graph_attr list[8];
	uint32_t count;
	char names[8][24], strings[8][24];
	int64_t ints[8][GRAPH_DIMS_MAX + 1];
};

static void read_attrs(const char *text, struct attrs *attrs)
{
	attrs->count = 0;
	while (*text) {
		const uint32_t n = attrs->count++;
		struct graph_attr *attr = &attrs->list[n];
		const size_t name = strcspn(text, "="), value = strcspn(text + name + 1, " ");
		const char *v = text + name + 1;

		snprintf(attrs->names[n], sizeof(attrs->names[n]), "%.*s", (int)name, text);
		*attr = (struct graph_attr){ .name = attrs->names[n], .kind = GRAPH_INT, .i = strtoll(v, NULL, 10) };
		if (*v == '\'') {
			snprintf(attrs->strings[n], sizeof(attrs->strings[n]), "%.*s", (int)value - 2, v + 1);
			*attr = GRAPH_ATTR_STRING(attrs->names[n], attrs->strings[n]);
		} else if (memchr(v, ',', value)) {
			uint32_t count = 0;

			for (const char *at = v; at < v + value && *at != ','; at++)
				attrs->ints[n][count++] = strtoll(at, (char **)(uintptr_t)&at, 10);
			*attr = GRAPH_ATTR_INTS(attrs->names[n], attrs->ints[n], count);
		} else if (memchr(v, '.', value)) {
			*attr = GRAPH_ATTR_FLOAT(attrs->names[n], strtod(v, NULL));
		}
		text = v + value + (v[value] == ' ');
	}
}

struct row {
	const char *op, *attrs, *inputs, *outputs;
};

static int run(const struct row *row, char *text, size_t bytes, struct star_error *err)
{
	struct graph_type inputs[GRAPH_INPUTS_MAX], outputs[GRAPH_OUTPUTS_MAX];
	struct graph_node node = { .op = graph_op_parse(row->op) };
	struct attrs attrs;
	uint32_t count = 0;
	int rc;

	if (!node.op) {
		unit_fail(__FILE__, __LINE__, "no operation %s", row->op);
		return 0;
	}
	for (const char *at = row->inputs; *at;)
		at = read_type(at, &inputs[node.inputs_count++]);
	read_attrs(row->attrs, &attrs);
	node.attrs = attrs.list;
	node.attrs_count = attrs.count;
	rc = graph_infer(&node, inputs, outputs, &count, err);
	write_types(outputs, rc < 0 ? 0 : count, text, bytes);
	return rc;
}

static const struct row accepted[] = {
	{ "feed", "dtype='float32' shape=-1,4,", "", "f[?,4]" },
	{ "random", "seed=1 dtype='float64' shape=2,", "", "d[2]" },
	{ "random", "seed=1", "f[?]", "f[?]" },
	{ "variable", "dtype='bfloat16' shape=3,4, optimizer='adam' rate=0.1", "", "h[3,4]" },
	{ "variable", "dtype='float64' shape=,", "", "h[]" },
	{ "table", "dtype='float32' dim=8 seed=7", "", "h[?,8]" },
	{ "read", "", "h[3,4]", "f[3,4]" },
	{ "read", "", "H[3,4]", "d[3,4]" },
	{ "read", "", "n[3]", "l[3]" },
	{ "lookup", "", "h[?,8] l[?,5]", "f[?,5,8]" },
	{ "lookup", "read_only=1", "H[100,8] l[]", "d[8]" },
	{ "apply", "rate=0.5", "h[3,4] f[3,?]", "" },
	{ "apply_rows", "", "h[?,8] l[?,5] f[6,5,8]", "" },
	{ "assign", "", "n[3] l[3]", "" },
	{ "step_add", "", "H[]", "d[]" },
	{ "neg", "", "i[2]", "i[2]" },
	{ "exp", "", "d[?]", "d[?]" },
	{ "cast", "dtype='int64'", "f[2,?]", "l[2,?]" },
	{ "add", "", "f[8,1,3] f[5,1]", "f[8,5,3]" },
	{ "add", "", "f[?,3] f[1,3]", "f[?,3]" },
	{ "add", "", "f[?] f[7]", "f[7]" },
	{ "add", "", "f[?] f[?]", "f[?]" },
	{ "mul", "", "l[0,3] l[]", "l[0,3]" },
	{ "less", "", "d[2] d[1]", "i[2]" },
	{ "select", "", "i[2,1] f[3] f[]", "f[2,3]" },
	{ "add_n", "", "f[?,3] f[2,?] f[?,?]", "f[2,3]" },
	{ "dropout", "rate=0.5 seed=1", "f[2]", "f[2]" },
	{ "identity", "", "h[?,8]", "h[?,8]" },
	{ "reshape", "shape=-1,6,", "f[2,3,4]", "f[4,6]" },
	{ "reshape", "shape=-1,6,", "f[?,3,4]", "f[?,6]" },
	{ "reshape", "shape=,", "f[1,1]", "f[]" },
	{ "reshape", "shape=0,3,", "f[7,0]", "f[0,3]" },
	{ "reshape", "", "f[?,12] f[?,3,4]", "f[?,3,4]" },
	{ "transpose", "perm=2,0,1,", "f[2,?,4]", "f[4,2,?]" },
	{ "concat", "axis=-1", "f[?,3] f[2,4]", "f[2,7]" },
	{ "concat", "axis=0", "f[?,3] f[2,3]", "f[?,3]" },
	{ "split", "axis=1 sizes=1,2,", "f[?,3]", "f[?,1] f[?,2]" },
	{ "split", "axis=0 sizes=1,2,", "f[?]", "f[1] f[2]" },
	{ "slice", "begin=1,0, size=-1,2,", "f[?,3]", "f[?,2]" },
	{ "slice", "begin=1, size=-1,", "f[4]", "f[3]" },
	{ "pad", "before=1,0, after=2,0,", "f[4,?]", "f[7,?]" },
	{ "pad_like", "begin=1,", "f[3] f[?]", "f[?]" },
	{ "expand", "", "f[3] f[?,3]", "f[?,3]" },
	{ "reduce_like", "", "f[?,3] f[3]", "f[3]" },
	{ "index", "", "f[?,3] l[]", "f[3]" },
	{ "index_grad", "", "f[3] l[] f[?,3]", "f[?,3]" },
	{ "gather", "", "f[9,3] l[?,2]", "f[?,2,3]" },
	{ "scatter_add", "", "f[?,2,3] l[4,2] f[9,3]", "f[9,3]" },
	{ "columns", "", "f[?,9] l[4]", "f[?,4]" },
	{ "columns_grad", "", "f[?,4] l[4] f[7,9]", "f[7,9]" },
	{ "head", "", "f[7,3] l[]", "f[?,3]" },
	{ "sum", "", "f[2,?]", "f[]" },
	{ "mean", "axes=-1, keep=1", "f[2,?]", "f[2,1]" },
	{ "reduce_max", "axes=0,2,", "i[2,?,4]", "i[?]" },
	{ "sum", "axes=,", "f[2]", "f[2]" },
	{ "segment_sum", "", "f[?,8] i[40] f[16,3]", "f[16,8]" },
	{ "segment_mean_grad", "", "f[16,8] i[40] f[?,8]", "f[40,8]" },
	{ "unique", "", "l[40]", "l[?] l[40]" },
	{ "hash_cross", "buckets=1000", "l[?] l[8]", "l[8]" },
	{ "matmul", "", "f[?,3] f[3,5]", "f[?,5]" },
	{ "matmul", "transpose_a=1", "f[3,?] f[3,5]", "f[?,5]" },
	{ "matmul", "transpose_b=1", "d[7,?,3] d[?,5,3]", "d[7,?,5]" },
	{ "softmax", "", "f[?,3]", "f[?,3]" },
	{ "softmax_grad", "", "f[?,3] f[2,3]", "f[2,3]" },
	{ "layer_norm", "epsilon=0.1", "f[2,?,3] f[3] f[?]", "f[2,?,3] f[2,?] f[2,?]" },
	{ "layer_norm_grad", "", "f[2,3] f[?,3] f[3] f[2] f[2]", "f[2,3] f[3] f[3]" },
	{ "batch_norm", "", "f[?,?] f[3] f[3]", "f[?,3] f[3] f[3]" },
	{ "batch_norm_grad", "", "f[?,3] f[8,3] f[3] f[3] f[3]", "f[8,3] f[3] f[3]" },
	{ "attention", "", "f[?,2,8] f[4,9,8] f[4,9,5]", "f[4,2,5] f[4,2,9]" },
	{ "attention", "scale=0.5", "f[?,2,8] f[?,?,8] f[?,?,5] i[4,9]", "f[4,2,5] f[4,2,9]" },
	{ "attention_grad", "", "f[4,2,5] f[4,2,8] f[4,9,8] f[4,9,5] f[4,2,9]", "f[4,2,8] f[4,9,8] f[4,9,5]" },
	{ "sigmoid_loss", "", "f[?] f[8]", "f[8]" },
	{ "sigmoid_loss_grad", "", "f[8] f[?] f[?]", "f[8]" },
	{ "softmax_loss", "", "f[?,10] l[8]", "f[8] f[8,10]" },
	{ "softmax_loss_grad", "", "f[8] f[?,10] l[8]", "f[8,10]" },
};

void shapes_of_operations(void)
{
	for (enum graph_op op = GRAPH_NO_OP + 1; op < GRAPH_OPS_END; op++)
		if (!graph_rule(op)->infer)
			unit_fail(__FILE__, __LINE__, "%s has no rule in lib/graph/shape.c", graph_op_name(op));
	for (unsigned i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
		struct star_error err = { 0 };
		char text[400];

		if (run(&accepted[i], text, sizeof(text), &err) < 0 || strcmp(text, accepted[i].outputs) != 0)
			unit_fail(__FILE__, __LINE__, "%s %s %s: \"%s\", not \"%s\" (%s)", accepted[i].op,
				  accepted[i].attrs, accepted[i].inputs, text, accepted[i].outputs, err.text);
	}
}

static void check_refused(const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct star_error err = { 0 };
		char text[400];
		const int rc = run(&rows[i], text, sizeof(text), &err);

		if (rc != -22 || !strstr(err.text, rows[i].outputs))
			unit_fail(__FILE__, __LINE__, "%s %s %s: %d \"%s\" without \"%s\"", rows[i].op, rows[i].attrs,
				  rows[i].inputs, rc, err.text, rows[i].outputs);
	}
}

void wrong_inputs_are_refused(void)
{
	static const struct row rows[] = {
		{ "add", "", "f[2] f[3]",
		  "add: input 0 is [2], input 1 is [3]: their shapes cannot be broadcast together" },
		{ "add", "", "f[2] d[2]", "input 0 is float32, but input 1 is float64" },
		{ "exp", "", "i[2]", "must be float32 or float64, but is int32" },
		{ "div", "", "i[2] i[2]", "must be float" },
		{ "add_n", "", "f[2,3] f[3,2]", "input 0 is [2, 3], input 1 is [3, 2]" },
		{ "add", "", "f[16777216,1] f[33554432]", "more than 2^48 elements" },
		{ "select", "", "f[] f[2] f[2]", "input 0 must be int32" },
		{ "matmul", "", "f[2,3] f[2,3]", "inner dimensions differ" },
		{ "matmul", "", "f[2,2,3] f[3,3,3]", "leading dimensions must be equal" },
		{ "matmul", "", "f[3] f[3,3]", "2 dimensions or more" },
		{ "matmul", "", "f[1,3,3] f[3,3]", "equal leading dimensions" },
		{ "lookup", "", "h[?,8] i[3]", "input 1 must be int64" },
		{ "lookup", "", "h[] l[3]", "1 dimensions or more" },
		{ "read", "", "h[?,8]", "is a table" },
		{ "apply", "", "h[3,4] f[4,3]", "their shapes must be equal" },
		{ "apply", "", "H[3] f[3]", "must be float64" },
		{ "apply", "", "n[3] l[3]", "only floats have gradients" },
		{ "apply_rows", "", "h[?,8] l[3] f[3,9]", "gradients of these ids must be [3, 8], not [3, 9]" },
		{ "step_add", "", "h[]", "float64" },
		{ "concat", "axis=0", "f[2,3] f[2,4]", "differ along axis only" },
		{ "index", "", "f[2] i[]", "must be int64" },
		{ "gather", "", "f[] l[2]", "1 dimensions" },
		{ "columns", "", "f[3] l[2]", "2 dimensions" },
		{ "columns_grad", "", "f[3,5] l[4] f[3,9]", "the first must be [n, m]" },
		{ "scatter_add", "", "f[2,3] l[3] f[9,3]", "[m..., ...]" },
		{ "expand", "", "f[4] f[2,3]", "cannot be broadcast" },
		{ "reduce_like", "", "f[3] f[2,3]", "cannot be broadcast" },
		{ "pad_like", "begin=2,", "f[3] f[4]", "does not fit in" },
		{ "reshape", "", "f[2,3] f[5]", "number of elements" },
		{ "segment_sum", "", "f[4,8] i[5] f[2]", "each row needs one segment" },
		{ "segment_sum", "", "f[4,8] l[4] f[2]", "must be int32" },
		{ "unique", "", "l[2,2]", "must have 1 dimensions" },
		{ "layer_norm", "", "f[2,3] f[2] f[3]", "the last dimensions must be equal" },
		{ "batch_norm_grad", "", "f[4,3] f[4,3] f[3] f[4] f[3]", "the last dimensions" },
		{ "attention", "", "f[1,2,3] f[1,2,4] f[1,2,3]", "queries must be [b, m, k]" },
		{ "attention", "", "f[1,2,3] f[1,2,3] f[1,2,3] i[1,3]", "the mask [b, n]" },
		{ "softmax_loss", "", "f[4,3] l[3]", "one class" },
		{ "sigmoid_loss", "", "f[4,1] f[4]", "shapes must be equal" },
	};

	check_refused(rows, sizeof(rows) / sizeof(rows[0]));
}

void wrong_attributes_are_refused(void)
{
	static const struct row rows[] = {
		{ "feed", "dtype='float32'", "", "attribute shape is missing" },
		{ "feed", "dtype='float16' shape=1,", "", "not \"float16\"" },
		{ "feed", "dtype='float32' shape=-2,", "", "it must be at least -1" },
		{ "feed", "dtype='float32' shape=281474976710657,", "", "2^48" },
		{ "feed", "dtype='float32' shape=16777216,0,16777217,", "", "2^48" },
		{ "feed", "dtype='float32' shape=1,1,1,1,1,1,1,1,1,", "", "at most 8 are allowed" },
		{ "sum", "axis=1", "f[2]", "no attribute \"axis\"; its attributes: axes, keep" },
		{ "neg", "x=1", "f[2]", "its attributes: none" },
		{ "sum", "axes=1", "f[2]", "attribute axes must be a list of integers" },
		{ "dropout", "rate=1 seed=1", "f[2]", "[0, 1)" },
		{ "dropout", "rate='a' seed=1", "f[2]", "attribute rate must be a number" },
		{ "sum", "axes=1,", "f[2]", "axis is 1, but there are 1" },
		{ "sum", "axes=0,-1,", "f[2]", "twice" },
		{ "variable", "dtype='float32' shape=0,", "", "it must be at least 1" },
		{ "variable", "dtype='int8' shape=2,", "", "not \"int8\"" },
		{ "variable", "dtype='float32' shape=2, rates=1,", "", "option rates" },
		{ "table", "dtype='float32' dim=0", "", "at least 1" },
		{ "random", "seed=1", "", "needs dtype and shape" },
		{ "random", "seed=1 dtype='float32' shape=-1,", "", "must be fully known" },
		{ "random", "seed=1 shape=2,", "f[2]", "remove the attributes" },
		{ "reshape", "", "f[2]", "attribute shape is missing" },
		{ "reshape", "shape=-1,-1,", "f[2]", "only one dimension" },
		{ "reshape", "shape=-1,0,", "f[0]", "none may be -1" },
		{ "reshape", "shape=-1,3,", "f[4]", "differ in their number of elements" },
		{ "reshape", "shape=281474976710656,281474976710656,", "f[?]", "2^48" },
		{ "transpose", "perm=0,0,", "f[2,3]", "perm must have each of 0 to 1 once" },
		{ "transpose", "perm=0,", "f[2,3]", "perm" },
		{ "concat", "axis=2", "f[2,3]", "axis is 2, but there are 2" },
		{ "concat", "axis=0", "f[]", "axis is 0" },
		{ "split", "axis=0 sizes=1,1,", "f[3]", "the sum of sizes is 2" },
		{ "split", "axis=0 sizes=-1,4,", "f[3]", "size 0 is -1" },
		{ "slice", "begin=2, size=2,", "f[3]", "outside dimension 0 of [3]" },
		{ "slice", "begin=4, size=-1,", "f[3]", "outside dimension" },
		{ "slice", "begin=0,0, size=1,", "f[3]", "begin has 2 numbers" },
		{ "pad", "before=-1, after=0,", "f[3]", "number 0 of before is out of range: -1" },
		{ "hash_cross", "buckets=0", "l[2]", "at least 1" },
	};

	check_refused(rows, sizeof(rows) / sizeof(rows[0]));
}

/* ---- whole graphs ---- */

static struct graph_value add(struct graph *graph, enum graph_op op, const char *attrs_text,
			      const struct graph_value *inputs, uint32_t count)
{
	struct attrs attrs;

	read_attrs(attrs_text, &attrs);
	return graph_add(graph, &(struct graph_node_spec){ .op = op,
							   .inputs = inputs,
							   .inputs_count = count,
							   .attrs = attrs.list,
							   .attrs_count = attrs.count });
}

static void check_type(const struct graph *graph, struct graph_value value, const char *expected)
{
	const struct graph_type *type = graph_type(graph, value);
	char text[100] = "none";

	if (type)
		write_types(type, 1, text, sizeof(text));
	CHECK_STR(text, expected);
}

void handles_have_their_shapes(void)
{
	struct graph *graph = graph_create();
	struct star_error err = { 0 };
	struct graph_value table, ids, rows;

	table = graph_add(graph, &(struct graph_node_spec){
					 .op = GRAPH_TABLE,
					 .name = "words",
					 .device = "/job:ps",
					 .attrs = (struct graph_attr[]){ GRAPH_ATTR_STRING("dtype", "float16"),
									 GRAPH_ATTR_INT("dim", 8) },
					 .attrs_count = 2 });
	ids = add(graph, GRAPH_FEED, "dtype='int64' shape=-1,", NULL, 0);
	rows = add(graph, GRAPH_LOOKUP, "", (struct graph_value[]){ table, ids }, 2);
	check_type(graph, rows, "f[?,8]");
	CHECK_INT(graph_error(graph, NULL), 0);
	rows = add(graph, GRAPH_LOOKUP, "", (struct graph_value[]){ table, rows }, 2);
	CHECK(graph_is_none(rows));
	CHECK_INT(graph_error(graph, &err), -22);
	CHECK_HAS(err.text, "node \"lookup_1\": lookup: input 1 must be int64, but is float32");
	graph_destroy(graph);
}

/* while i < n: i = i + 1; x = x * c. Results: what is carried, and x on a tape. */
static struct graph_value loop(struct graph *graph, const char *x_type, const char *c_type, int64_t most)
{
	struct graph_type types[3];
	struct graph *body, *cond;
	struct graph_value in[3], i, x, c;
	static const char *const fed[] = { "dtype='float32' shape=-1,4,", "dtype='float32' shape=-1,1,",
					   "dtype='float32' shape=8,4,", "dtype='float32' shape=8,5," };
	const struct graph_value first = { 0, 0 }, second = { 1, 0 }, third = { 2, 0 };
	const struct graph_attr attrs[] = { GRAPH_ATTR_INT("carried", 2), GRAPH_ATTR_INT("most", most) };

	i = add(graph, GRAPH_FEED, "dtype='float32' shape=,", NULL, 0);
	x = add(graph, GRAPH_FEED, fed[x_type[0] - '0'], NULL, 0);
	c = add(graph, GRAPH_FEED, fed[c_type[0] - '0'], NULL, 0);
	in[0] = i;
	in[1] = x;
	in[2] = c;
	for (unsigned k = 0; k < 3; k++)
		types[k] = *graph_type(graph, in[k]);
	if (types[1].shape.dims[0] == 8)
		types[1].shape.dims[0] = -1; /* the body knows less than there is to know */
	body = graph_body_create(graph, types, 3);
	cond = graph_body_create(graph, types, 3);
	x = add(body, GRAPH_MUL, "", (struct graph_value[]){ second, third }, 2);
	i = add(body, GRAPH_EXP, "", &first, 1);
	graph_set_results(body, (struct graph_value[]){ i, x, x }, 3);
	i = add(cond, GRAPH_LESS, "", (struct graph_value[]){ first, first }, 2);
	graph_set_results(cond, &i, 1);
	return graph_add(graph, &(struct graph_node_spec){ .op = GRAPH_WHILE,
							   .inputs = in,
							   .inputs_count = 3,
							   .attrs = attrs,
							   .attrs_count = 2,
							   .body = body,
							   .cond = cond });
}

void loops_have_the_shapes_of_their_bodies(void)
{
	static const struct {
		const char *x, *c;
		int64_t most;
		const char *outputs[4], *sentence;
	} rows[] = {
		{ "0", "1", 10, { "f[]", "f[?,4]", "l[]", "f[10,?,4]" }, NULL },
		{ "2", "1", 10, { "f[]", "f[8,4]", "l[]", "f[10,8,4]" }, NULL },
		{ "1", "0", 10, { 0 }, "carried value 1 is float32 [?, 1] before an iteration, but float32 [?, 4]" },
		{ "0", "3", 10, { 0 }, "their shapes cannot be broadcast together" },
		{ "0", "1", 0, { 0 }, "most is 0" },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct graph *graph = graph_create();
		struct graph_value value = loop(graph, rows[i].x, rows[i].c, rows[i].most);
		struct star_error err = { 0 };

		if (rows[i].sentence) {
			CHECK_INT(graph_error(graph, &err), -22);
			CHECK_HAS(err.text, rows[i].sentence);
		}
		for (value.output = 0; !rows[i].sentence && value.output < 4; value.output++)
			check_type(graph, value, rows[i].outputs[value.output]);
		graph_destroy(graph);
	}
}

void branches_have_one_shape(void)
{
	static const struct {
		const char *other, *output, *sentence;
	} rows[] = {
		{ "dtype='float32' shape=3,4,", "f[?,4]", NULL },
		{ "dtype='float32' shape=3,5,", NULL, "result 0 is float32 [?, 4] in one branch, but float32 [3, 5]" },
		{ "dtype='float64' shape=3,4,", NULL, "float64" },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct graph *graph = graph_create(), *bodies[2];
		struct graph_value in[3], result;
		struct graph_type types[2];
		struct star_error err = { 0 };

		in[0] = add(graph, GRAPH_FEED, "dtype='int32' shape=,", NULL, 0);
		in[1] = add(graph, GRAPH_FEED, "dtype='float32' shape=-1,4,", NULL, 0);
		in[2] = add(graph, GRAPH_FEED, rows[i].other, NULL, 0);
		types[0] = *graph_type(graph, in[1]);
		types[1] = *graph_type(graph, in[2]);
		for (unsigned k = 0; k < 2; k++) {
			bodies[k] = graph_body_create(graph, types, 2);
			graph_set_results(bodies[k], &(struct graph_value){ k, 0 }, 1);
		}
		result = graph_add(graph, &(struct graph_node_spec){ .op = GRAPH_COND,
								     .inputs = in,
								     .inputs_count = 3,
								     .body = bodies[0],
								     .cond = bodies[1] });
		if (rows[i].output)
			check_type(graph, result, rows[i].output);
		CHECK_INT(graph_error(graph, &err), rows[i].sentence ? -22 : 0);
		if (rows[i].sentence)
			CHECK_HAS(err.text, rows[i].sentence);
		graph_destroy(graph);
	}
}

/* ---- docs/graph.rst ---- */

/* "``op`` dtype shape [trainable]" */
static void operation_line(enum graph_op op, char *line, size_t bytes)
{
	size_t at = (size_t)snprintf(line, bytes, "``%s``", graph_op_name(op));

	for (const struct graph_attr_rule *attr = graph_rule(op)->attrs; attr->name; attr++)
		at += (size_t)snprintf(line + at, bytes - at, attr->required ? " %s" : " [%s]", attr->name);
	snprintf(line + at, bytes - at, "\n");
}

void operations_are_as_documented(void)
{
	FILE *file = fopen("docs/graph.rst", "r"); /* tests run in the project's folder */
	bool found[GRAPH_OPS_END] = { false };
	char line[256] = "", next[256], wanted[256];
	bool in_list = false;

	if (!CHECK(file))
		return;
	for (; fgets(next, sizeof(next), file); strcpy(line, next)) {
		enum graph_op op = GRAPH_NO_OP + 1;

		if (strcmp(line, "Operations\n") == 0 || strcmp(line, "Gradients\n") == 0)
			in_list = !in_list;
		/* An entry is a line that an indented one follows. */
		if (!in_list || strncmp(line, "``", 2) != 0 || next[0] != ' ')
			continue;
		for (; op < GRAPH_OPS_END; op++) {
			operation_line(op, wanted, sizeof(wanted));
			if (strcmp(line, wanted) == 0)
				break;
		}
		if (op == GRAPH_OPS_END)
			unit_fail(__FILE__, __LINE__, "docs/graph.rst has an entry of no operation: %s", line);
		else
			found[op] = true;
	}
	fclose(file);
	for (enum graph_op op = GRAPH_NO_OP + 1; op < GRAPH_OPS_END; op++)
		if (!found[op]) {
			operation_line(op, wanted, sizeof(wanted));
			unit_fail(__FILE__, __LINE__, "docs/graph.rst has no line: %s", wanted);
		}
}
