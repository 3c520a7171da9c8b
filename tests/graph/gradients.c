/* SPDX-License-Identifier: BSD-3-Clause */
/* The gradient of each operation, of models, loops and branches against central differences. */
#include "graph/backward.h"
#include "tests/graph/cases.h"
#include "tests/graph/models.h"
#include "tests/graph/numeric.h"
#include "tests/unit.h"

static struct graph_value in(struct numeric *n, const int64_t *dims, size_t ndim)
{
	return numeric_feed(n, STAR_FLOAT64, dims, ndim, -1, 1);
}

static struct graph_value positive(struct numeric *n, const int64_t *dims, size_t ndim)
{
	return numeric_feed(n, STAR_FLOAT64, dims, ndim, 0.5, 2);
}

static struct graph_value ids(struct numeric *n, const int64_t *dims, size_t ndim, double most)
{
	return numeric_feed(n, STAR_INT64, dims, ndim, 0, most);
}

static struct graph_value node(struct numeric *n, enum graph_op op, const struct graph_value *inputs, uint32_t count,
			       const struct graph_attr *attrs, uint32_t attrs_count)
{
	return graph_add(n->g, &(struct graph_node_spec){ .op = op,
							  .inputs = inputs,
							  .inputs_count = count,
							  .attrs = attrs,
							  .attrs_count = attrs_count });
}

static struct graph_value of_one(struct numeric *n, enum graph_op op)
{
	const bool root = op == GRAPH_LOG || op == GRAPH_SQRT;

	return graph_op1(n->g, op, root ? positive(n, GRAPH_DIMS(3, 4)) : in(n, GRAPH_DIMS(3, 4)));
}

/* With and without broadcasting. */
static struct graph_value of_two(struct numeric *n, enum graph_op op)
{
	struct graph_value a = in(n, GRAPH_DIMS(3, 1, 4));
	struct graph_value b = positive(n, GRAPH_DIMS(3, 5, 1)), c = positive(n, GRAPH_DIMS(4));

	return graph_op2(n->g, op, graph_op2(n->g, op, a, b), c);
}

static struct graph_value of_cast(struct numeric *n, enum graph_op op)
{
	(void)op;
	return graph_cast(n->g, graph_cast(n->g, in(n, GRAPH_DIMS(3)), STAR_FLOAT64), STAR_FLOAT64);
}

static struct graph_value of_select(struct numeric *n, enum graph_op op)
{
	return graph_op3(n->g, op, numeric_feed(n, STAR_INT32, GRAPH_DIMS(3, 4), 0, 2), in(n, GRAPH_DIMS(4)),
			 in(n, GRAPH_DIMS(3, 1)));
}

static struct graph_value of_add_n(struct numeric *n, enum graph_op op)
{
	const struct graph_value x = in(n, GRAPH_DIMS(3)), values[] = { x, in(n, GRAPH_DIMS(3)), x };

	return node(n, op, values, 3, NULL, 0);
}

static struct graph_value of_dropout(struct numeric *n, enum graph_op op)
{
	(void)op;
	return graph_dropout(n->g, in(n, GRAPH_DIMS(3, 4)), 0.4);
}

static struct graph_value of_reshape(struct numeric *n, enum graph_op op)
{
	(void)op;
	return graph_reshape(n->g, in(n, GRAPH_DIMS(4, 3)), GRAPH_DIMS(-1, 6));
}

static struct graph_value of_transpose(struct numeric *n, enum graph_op op)
{
	(void)op;
	return graph_matmul(n->g, graph_transpose(n->g, in(n, GRAPH_DIMS(2, 3, 4)), GRAPH_DIMS(2, 0, 1)),
			    in(n, GRAPH_DIMS(4, 3, 2)));
}

static struct graph_value of_concat(struct numeric *n, enum graph_op op)
{
	const struct graph_value values[] = { in(n, GRAPH_DIMS(3, 2)), in(n, GRAPH_DIMS(3, 1)),
					      in(n, GRAPH_DIMS(3, 4)) };

	(void)op;
	return graph_concat(n->g, values, 3, -1);
}

static struct graph_value of_split(struct numeric *n, enum graph_op op)
{
	struct graph_value parts = graph_split(n->g, in(n, GRAPH_DIMS(3, 6)), 1, GRAPH_DIMS(1, 3, 2));

	(void)op;
	return graph_times(n->g, graph_output(parts, 0), graph_output(parts, 2)); /* of part 1 there is none */
}

static struct graph_value of_slice(struct numeric *n, enum graph_op op)
{
	(void)op;
	return graph_slice(n->g, in(n, GRAPH_DIMS(4, 5)), (const int64_t[]){ 1, 2 }, (const int64_t[]){ -1, 2 }, 2);
}

static struct graph_value of_pad(struct numeric *n, enum graph_op op)
{
	const struct graph_value x = in(n, GRAPH_DIMS(4, 2));
	const struct graph_attr attrs[] = { GRAPH_ATTR_INTS("before", ((const int64_t[]){ 1, 2 }), 2),
					    GRAPH_ATTR_INTS("after", ((const int64_t[]){ 0, 1 }), 2) };

	return graph_plus(n->g, node(n, op, &x, 1, attrs, 2), graph_number(n->g, STAR_FLOAT64, 1));
}

static struct graph_value of_pad_like(struct numeric *n, enum graph_op op)
{
	/* Of the first all sizes are known: else there is no gradient. */
	const struct graph_value x =
		graph_slice(n->g, in(n, GRAPH_DIMS(4, 2)), (const int64_t[]){ 0, 0 }, (const int64_t[]){ 3, 2 }, 2);
	const struct graph_value inputs[] = { x, in(n, GRAPH_DIMS(5, 3)) };
	const int64_t begin[] = { 2, 1 };

	return graph_times(n->g, node(n, op, inputs, 2, &GRAPH_ATTR_INTS("begin", begin, 2), 1), inputs[1]);
}

static struct graph_value of_expand(struct numeric *n, enum graph_op op)
{
	struct graph_value like = in(n, GRAPH_DIMS(3, 4));

	return graph_times(n->g, like, graph_op2(n->g, op, in(n, GRAPH_DIMS(4)), like));
}

static struct graph_value of_reduce_like(struct numeric *n, enum graph_op op)
{
	struct graph_value like = in(n, GRAPH_DIMS(4));

	return graph_times(n->g, like, graph_op2(n->g, op, in(n, GRAPH_DIMS(3, 4)), like));
}

static struct graph_value of_index(struct numeric *n, enum graph_op op)
{
	return graph_op2(n->g, op, in(n, GRAPH_DIMS(3, 4)), ids(n, GRAPH_SCALAR, 3));
}

static struct graph_value of_index_grad(struct numeric *n, enum graph_op op)
{
	struct graph_value x = in(n, GRAPH_DIMS(3, 4));

	return graph_times(n->g, x, graph_op3(n->g, op, in(n, GRAPH_DIMS(4)), ids(n, GRAPH_SCALAR, 3), x));
}

static struct graph_value of_gather(struct numeric *n, enum graph_op op)
{
	return graph_op2(n->g, op, in(n, GRAPH_DIMS(3, 4)), ids(n, GRAPH_DIMS(2, 5), 3));
}

static struct graph_value of_columns(struct numeric *n, enum graph_op op)
{
	return graph_op2(n->g, op, in(n, GRAPH_DIMS(3, 4)), ids(n, GRAPH_DIMS(6), 4));
}

static struct graph_value of_columns_grad(struct numeric *n, enum graph_op op)
{
	struct graph_value x = in(n, GRAPH_DIMS(3, 4));

	return graph_times(n->g, x, graph_op3(n->g, op, in(n, GRAPH_DIMS(3, 6)), ids(n, GRAPH_DIMS(6), 4), x));
}

static struct graph_value of_scatter_add(struct numeric *n, enum graph_op op)
{
	struct graph_value x = in(n, GRAPH_DIMS(3, 4));

	return graph_times(n->g, x, graph_op3(n->g, op, in(n, GRAPH_DIMS(2, 5, 4)), ids(n, GRAPH_DIMS(2, 5), 3), x));
}

static struct graph_value of_head(struct numeric *n, enum graph_op op)
{
	struct graph_value y = graph_op2(n->g, op, in(n, GRAPH_DIMS(5, 2)), graph_number(n->g, STAR_INT64, 3));

	/* That there are 3: this is 3 times 2 ones. */
	return graph_times(n->g, y, graph_sum(n->g, graph_expand(n->g, graph_number(n->g, STAR_FLOAT64, 1), y)));
}

/* Along one axis, along two that are not neighbours, along all. */
static struct graph_value of_reduction(struct numeric *n, enum graph_op op)
{
	struct graph_value x = in(n, GRAPH_DIMS(2, 3, 4));
	const int64_t two[] = { 0, -1 };
	struct graph_value a = node(n, op, &x, 1, &GRAPH_ATTR_INTS("axes", two, 2), 1);
	const struct graph_attr keep[] = { GRAPH_ATTR_INTS("axes", two, 2), GRAPH_ATTR_INT("keep", 1) };
	struct graph_value b = node(n, op, &x, 1, keep, 2);
	struct graph_value c = graph_reduce(n->g, op, x, 1), d = graph_op1(n->g, op, x);

	a = graph_times(n->g, graph_sum(n->g, graph_square(n->g, a)), graph_sum(n->g, graph_square(n->g, b)));
	return graph_plus(n->g, graph_times(n->g, a, d), c);
}

static struct graph_value of_segments(struct numeric *n, enum graph_op op)
{
	struct graph_value rows = in(n, GRAPH_DIMS(7, 3)), like = in(n, GRAPH_DIMS(4, 1));

	return graph_op3(n->g, op, rows, numeric_feed(n, STAR_INT32, GRAPH_DIMS(7), 0, 4), like);
}

static struct graph_value of_matmul(struct numeric *n, enum graph_op op)
{
	struct graph_value sum = graph_number(n->g, STAR_FLOAT64, 0);

	for (int t = 0; t < 4; t++) {
		const int64_t ta = t & 1, tb = t >> 1;
		struct graph_value a = ta ? in(n, GRAPH_DIMS(2, 3, 5)) : in(n, GRAPH_DIMS(2, 5, 3));
		struct graph_value b = tb ? in(n, GRAPH_DIMS(2, 4, 3)) : in(n, GRAPH_DIMS(2, 3, 4));
		const struct graph_attr attrs[] = { GRAPH_ATTR_INT("transpose_a", ta),
						    GRAPH_ATTR_INT("transpose_b", tb) };

		sum = graph_plus(n->g, sum, node(n, op, (const struct graph_value[]){ a, b }, 2, attrs, 2));
	}
	return sum;
}

static struct graph_value of_norm(struct numeric *n, enum graph_op op)
{
	const struct graph_value inputs[] = { in(n, GRAPH_DIMS(5, 4)), positive(n, GRAPH_DIMS(4)),
					      in(n, GRAPH_DIMS(4)) };

	return node(n, op, inputs, 3, &GRAPH_ATTR_FLOAT("epsilon", 0.01), 1);
}

static struct graph_value of_attention(struct numeric *n, enum graph_op op)
{
	struct graph_value q = in(n, GRAPH_DIMS(2, 3, 4)), k = in(n, GRAPH_DIMS(2, 5, 4));
	const struct graph_value inputs[] = { q, k, in(n, GRAPH_DIMS(2, 5, 6)),
					      numeric_feed(n, STAR_INT32, GRAPH_DIMS(2, 5), 0, 2) };

	return graph_plus(n->g, node(n, op, inputs, 4, &GRAPH_ATTR_FLOAT("scale", 0.7), 1),
			  node(n, op, inputs, 3, NULL, 0));
}

static struct graph_value of_sigmoid_loss(struct numeric *n, enum graph_op op)
{
	return graph_op2(n->g, op, in(n, GRAPH_DIMS(6)), in(n, GRAPH_DIMS(6)));
}

static struct graph_value of_softmax_loss(struct numeric *n, enum graph_op op)
{
	return graph_op2(n->g, op, in(n, GRAPH_DIMS(6, 4)), ids(n, GRAPH_DIMS(6), 4));
}

static const struct graph_definition f64 = { .dtype = "float64" };

static struct graph_value of_read(struct numeric *n, enum graph_op op)
{
	struct graph_value v = graph_variable(n->g, "v", GRAPH_DIMS(3, 4), &f64);

	return graph_times(n->g, graph_op1(n->g, op, v), graph_read(n->g, graph_identity(n->g, v)));
}

/* Of a table twice, one after unique; of a variable that is read, too. */
static struct graph_value of_lookup(struct numeric *n, enum graph_op op)
{
	struct graph_value t = graph_table(n->g, "t", 4, &f64), v = graph_variable(n->g, "v", GRAPH_DIMS(6, 4), &f64);
	struct graph_value some = ids(n, GRAPH_DIMS(3, 2), 6), others = ids(n, GRAPH_DIMS(9), 6);
	struct graph_value unique = graph_unique(n->g, others), y = graph_op2(n->g, op, t, some);

	y = graph_times(n->g, y, graph_op2(n->g, op, v, some));
	y = graph_plus(n->g, y, graph_sum(n->g, graph_read(n->g, v)));
	return graph_plus(n->g, graph_sum(n->g, graph_square(n->g, y)),
			  graph_gather(n->g, graph_op2(n->g, op, t, unique), graph_output(unique, 1)));
}

static const struct {
	enum graph_op op;
	struct graph_value (*build)(struct numeric *n, enum graph_op op);
} rows[] = {
	{ GRAPH_NEG, of_one },
	{ GRAPH_EXP, of_one },
	{ GRAPH_LOG, of_one },
	{ GRAPH_SQRT, of_one },
	{ GRAPH_SQUARE, of_one },
	{ GRAPH_ABS, of_one },
	{ GRAPH_RELU, of_one },
	{ GRAPH_SIGMOID, of_one },
	{ GRAPH_TANH, of_one },
	{ GRAPH_CAST, of_cast },
	{ GRAPH_ADD, of_two },
	{ GRAPH_SUB, of_two },
	{ GRAPH_MUL, of_two },
	{ GRAPH_DIV, of_two },
	{ GRAPH_MAX, of_two },
	{ GRAPH_MIN, of_two },
	{ GRAPH_SELECT, of_select },
	{ GRAPH_ADD_N, of_add_n },
	{ GRAPH_DROPOUT, of_dropout },
	{ GRAPH_IDENTITY, of_one },
	{ GRAPH_RESHAPE, of_reshape },
	{ GRAPH_TRANSPOSE, of_transpose },
	{ GRAPH_CONCAT, of_concat },
	{ GRAPH_SPLIT, of_split },
	{ GRAPH_SLICE, of_slice },
	{ GRAPH_PAD, of_pad },
	{ GRAPH_PAD_LIKE, of_pad_like },
	{ GRAPH_EXPAND, of_expand },
	{ GRAPH_REDUCE_LIKE, of_reduce_like },
	{ GRAPH_INDEX, of_index },
	{ GRAPH_INDEX_GRAD, of_index_grad },
	{ GRAPH_GATHER, of_gather },
	{ GRAPH_COLUMNS, of_columns },
	{ GRAPH_COLUMNS_GRAD, of_columns_grad },
	{ GRAPH_SCATTER_ADD, of_scatter_add },
	{ GRAPH_HEAD, of_head },
	{ GRAPH_SUM, of_reduction },
	{ GRAPH_MEAN, of_reduction },
	{ GRAPH_REDUCE_MAX, of_reduction },
	{ GRAPH_SEGMENT_SUM, of_segments },
	{ GRAPH_SEGMENT_MEAN, of_segments },
	{ GRAPH_SEGMENT_SQRTN, of_segments },
	{ GRAPH_MATMUL, of_matmul },
	{ GRAPH_SOFTMAX, of_one },
	{ GRAPH_LAYER_NORM, of_norm },
	{ GRAPH_BATCH_NORM, of_norm },
	{ GRAPH_ATTENTION, of_attention },
	{ GRAPH_SIGMOID_LOSS, of_sigmoid_loss },
	{ GRAPH_SOFTMAX_LOSS, of_softmax_loss },
	{ GRAPH_READ, of_read },
	{ GRAPH_LOOKUP, of_lookup },
};

void gradients_of_operations(void)
{
	for (unsigned i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		struct graph_value y, shift;
		struct numeric n;

		numeric_init(&n, i + 1, i % 2);
		y = rows[i / 2].build(&n, rows[i / 2].op);
		shift = graph_number(n.g, STAR_FLOAT64, 0.3);
		numeric_check(&n, graph_op_name(rows[i / 2].op),
			      graph_sum(n.g, graph_square(n.g, graph_plus(n.g, y, shift))));
		numeric_fini(&n);
	}
}

/* Not what has no inputs, what PS tasks do, and most of what gradients themselves are made of. */
static bool wants_rule(enum graph_op op)
{
	const struct graph_op_info *info = graph_op_info(op);

	return graph_backward_passes(op) && info->inputs_max > 0 && info->place != GRAPH_ON_PS &&
	       !strstr(graph_op_name(op), "_grad");
}

void every_rule_is_compared(void)
{
	for (enum graph_op op = GRAPH_NO_OP + 1; op < GRAPH_OPS_END; op++) {
		bool compared = op == GRAPH_WHILE || op == GRAPH_COND; /* below */

		for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			compared = compared || rows[i].op == op;
		if (graph_backward_rule_of(op) && !compared)
			unit_fail(__FILE__, __LINE__,
				  "the gradient of %s is compared with nothing: add it to rows, with the function that "
				  "builds its graph",
				  graph_op_name(op));
		if (!graph_backward_rule_of(op) && (compared || wants_rule(op)))
			unit_fail(__FILE__, __LINE__,
				  "%s has no rule in lib/graph/gradient_rules.c, and is not in graph_backward_passes",
				  graph_op_name(op));
	}
}

void gradients_of_models(void)
{
	struct numeric n;
	struct graph_value loss;

	numeric_init(&n, 1, false);
	loss = model_wide_deep(n.g, STAR_FLOAT64);
	numeric_fill(&n, "dense", GRAPH_DIMS(3, 5), -1, 1);
	numeric_fill(&n, "ids", GRAPH_DIMS(8), 0, 5);
	numeric_fill(&n, "segments", GRAPH_DIMS(8), 0, 3);
	numeric_fill(&n, "labels", GRAPH_DIMS(3, 1), 0, 1);
	numeric_check(&n, "wide and deep", loss);
	numeric_fini(&n);
}

/* ---- loops ---- */

/* x = x * c + i, n times; also what i was at the end, on a tape. */
static struct graph_value plain_loop(struct numeric *n, struct graph *g, struct graph_value x, struct graph_value c,
				     struct graph_value count)
{
	const struct graph_value first[] = { graph_number(g, STAR_INT64, 0), x }, captures[] = { c, count };
	struct graph_loop loop = graph_loop_begin(g, first, 2, captures, 2);
	struct graph_value more = graph_less(loop.cond, loop.in[0], loop.in[3]);
	struct graph_value i = graph_plus(loop.body, loop.in[0], graph_number(loop.body, STAR_INT64, 1));
	struct graph_value y = graph_tanh(loop.body, graph_times(loop.body, loop.in[1], loop.in[2]));

	(void)n;
	y = graph_plus(loop.body, y, graph_cast(loop.body, loop.in[0], STAR_FLOAT64));
	return graph_loop_end(&loop, more, (struct graph_value[]){ i, y, graph_square(loop.body, y) }, 3, 6);
}

static struct graph_value loop_alone(struct numeric *n, double iterations)
{
	struct graph_value x = in(n, GRAPH_DIMS(2, 3)), c = in(n, GRAPH_DIMS(2, 3));
	struct graph_value end = plain_loop(n, n->g, x, c, graph_number(n->g, STAR_INT64, iterations));

	return graph_plus(n->g, graph_sum(n->g, graph_square(n->g, graph_output(end, 1))),
			  graph_sum(n->g, graph_output(end, 3)));
}

/* A loop whose body is that loop. */
static struct graph_value loop_in_loop(struct numeric *n, double iterations)
{
	struct graph_value x = in(n, GRAPH_DIMS(2)), c = in(n, GRAPH_DIMS(2)), i = graph_number(n->g, STAR_INT64, 0);
	struct graph_loop loop = graph_loop_begin(n->g, (struct graph_value[]){ i, x }, 2, &c, 1);
	struct graph_value three = graph_number(loop.cond, STAR_INT64, iterations);
	struct graph_value more = graph_less(loop.cond, loop.in[0], three), end;

	i = graph_plus(loop.body, loop.in[0], graph_number(loop.body, STAR_INT64, 1));
	end = plain_loop(n, loop.body, loop.in[1], loop.in[2], loop.in[0]);
	end = graph_times(loop.body, graph_output(end, 1), loop.in[2]);
	end = graph_loop_end(&loop, more, (struct graph_value[]){ i, end }, 2, 4);
	return graph_sum(n->g, graph_square(n->g, graph_output(end, 1)));
}

void gradients_through_loops(void)
{
	static const double iterations[] = { 0, 1, 3 };

	for (unsigned i = 0; i < 6; i++) {
		struct numeric n;
		struct graph_value loss;

		numeric_init(&n, i + 1, i % 2);
		numeric_check(&n, "a loop", loop_alone(&n, iterations[i / 2]));
		numeric_fini(&n);
		numeric_init(&n, i + 1, i % 2);
		numeric_check(&n, "a loop in a loop", loop_in_loop(&n, iterations[i / 2]));
		numeric_fini(&n);
		numeric_init(&n, i + 1, true);
		loss = model_recurrent(n.g, STAR_FLOAT64, 3, 5);
		numeric_fill(&n, "ids", GRAPH_DIMS(4, 2), 0, 4);
		numeric_fill(&n, "length", GRAPH_SCALAR, iterations[i / 2], iterations[i / 2] + 0.5);
		numeric_fill(&n, "state", GRAPH_DIMS(2, 3), -1, 1);
		numeric_check(&n, "a recurrent model", loss);
		numeric_fini(&n);
	}
}

/* ---- branches ---- */

/* One branch looks up and reads, the other one has a capture that the first has not. */
static struct graph_value branches(struct numeric *n, double taken)
{
	struct graph_value x = in(n, GRAPH_DIMS(5, 3)), y = in(n, GRAPH_DIMS(3)), some = ids(n, GRAPH_DIMS(5), 4);
	struct graph_branch b;
	struct graph_value yes, no;

	graph_table(n->g, "words", 3, &f64);
	graph_variable(n->g, "v", GRAPH_DIMS(3), &f64);
	b = graph_branch_begin(n->g, graph_number(n->g, STAR_INT32, taken), (struct graph_value[]){ x, y, some }, 3);
	yes = graph_times(b.yes, b.in[0], graph_lookup(b.yes, graph_use(b.yes, "words"), b.in[2]));
	yes = graph_times(b.yes, yes, graph_read(b.yes, graph_use(b.yes, "v")));
	no = graph_tanh(b.no, graph_times(b.no, b.in[0], b.in[1]));
	yes = graph_branch_end(&b, &yes, &no, 1);
	return graph_sum(n->g, graph_square(n->g, yes));
}

void gradients_through_branches(void)
{
	for (unsigned i = 0; i < 4; i++) {
		struct numeric n;

		numeric_init(&n, i + 1, i % 2);
		numeric_check(&n, i / 2 ? "a branch that is taken" : "a branch that is not", branches(&n, i / 2));
		numeric_fini(&n);
	}
}
