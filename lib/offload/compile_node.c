/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts nodes to steps. */
#include <errno.h>
#include <string.h>

#include "compile_internal.h"
#include "graph/origin.h"
#include "offload/cut.h"

enum { DIM_MAX = 4096, DEPTH_MAX = 64, BLOCK_LEAST = 512 };

/* ---- what is supported ---- */

static const struct {
	const char *step;
	uint8_t moves; /* enum compile_moves */
} ops[] = {
#define X(OP, step, moves, rows, blocks) [GRAPH_##OP] = { step, COMPILE_MOVES_##moves },
	COMPILE_OPS(X)
#undef X
};
enum { OPS = sizeof(ops) / sizeof(ops[0]) };

const char *offload_compile_step_name(const struct graph_node *node)
{
	return (unsigned)node->op < OPS ? ops[node->op].step : NULL;
}

static bool is_float(const struct graph_type *type)
{
	return type->dtype == STAR_FLOAT32;
}

/* Whether a node works on a variable's values, by the first of its inputs that is not a constant, and that one's
 * inputs. */
static bool is_on_variable(const struct graph *graph, const struct graph_node *node)
{
	for (unsigned depth = 0; depth < DEPTH_MAX && node->op != GRAPH_READ; depth++) {
		uint32_t i = 0;

		while (i < node->inputs_count && graph->nodes[node->inputs[i].node]->op == GRAPH_CONST)
			i++;
		if (i == node->inputs_count)
			return false;
		node = graph->nodes[node->inputs[i].node];
	}
	return node->op == GRAPH_READ;
}

/* Whether all blocks fit into one run: each has 1,024 elements, or as many whole rows of the first dimension as fit. */
static bool is_one_run(const struct graph_shape *shape)
{
	return graph_elements(shape) <= (int64_t)COMPILE_KEYS_MAX * BLOCK_LEAST;
}

/* Staleness is counted by pulls and pushes. */
static bool has_programs(const struct graph *graph, const struct graph_node *node, enum graph_op kind)
{
	const struct graph_node *resource = graph_resource(graph, node->inputs[0]);

	return resource->op == kind && !graph_attr_int(resource, "staleness", 0);
}

bool offload_compile_may_move(const struct graph *graph, const struct graph_node *node)
{
	const struct graph_shape *shape = &node->outputs[0].shape;
	const unsigned moves = (unsigned)node->op < OPS ? ops[node->op].moves : COMPILE_MOVES_NEVER;

	if (moves == COMPILE_MOVES_NEVER)
		return false;
	if (node->op == GRAPH_APPLY_ROWS) /* it has no output */
		return has_programs(graph, node, GRAPH_TABLE);
	if (!is_float(&node->outputs[0]))
		return false;
	if (shape->ndim && shape->dims[shape->ndim - 1] > DIM_MAX && !is_on_variable(graph, node))
		return false;
	if (moves == COMPILE_MOVES_IF_VARIABLE)
		return is_one_run(shape) && has_programs(graph, node, GRAPH_VARIABLE);
	if (moves == COMPILE_MOVES_IF_TABLE)
		return has_programs(graph, node, GRAPH_TABLE);
	for (uint32_t i = 0; moves == COMPILE_MOVES_IF_FLOAT && i < node->inputs_count; i++)
		if (!is_float(graph_type(graph, node->inputs[i])))
			return false;
	return true;
}

/* ---- refusing ---- */

int offload_compile_not_done(const struct compile_build *b, const char *why)
{
	const char *origin = graph_origin(b->node);

	return origin ? star_error_set(b->err, -ENOTSUP,
				       "node \"%s\", for the gradient of \"%s\": PS tasks do not support %s%s: give "
				       "\"%s\" the device /job:worker",
				       b->node->name, origin, graph_op_name(b->node->op), why, origin)
		      : star_error_set(b->err, -ENOTSUP,
				       "node \"%s\": PS tasks do not support %s%s: give it the device /job:worker",
				       b->node->name, graph_op_name(b->node->op), why);
}

/* ---- values ---- */

const struct graph_shape *offload_compile_shape_of(const struct compile_build *b, struct graph_value value)
{
	return &graph_ps_type(b->plan, value)->shape;
}

static unsigned lead_of(const struct compile_build *b)
{
	return offload_compile_shape_of(b, b->ids)->ndim;
}

bool offload_compile_is_feed(const struct compile_build *b, struct graph_value value, uint32_t *feed)
{
	for (*feed = 0; *feed < b->part->feeds_count; ++*feed)
		if (graph_same(b->part->feeds[*feed], value))
			return true;
	return false;
}

bool offload_compile_find_source(const struct compile_build *b, struct graph_value value, struct compile_source *source)
{
	const struct graph_node *node = b->plan->graph->nodes[value.node];

	*source = (struct compile_source){ .feed = COMPILE_NO_FEED };
	if (offload_compile_is_feed(b, value, &source->feed))
		return true;
	source->feed = COMPILE_NO_FEED;
	if (node->op == GRAPH_CONST)
		source->constant = graph_attr(node, "value");
	return source->constant != NULL;
}

static bool same_source(const struct compile_source *a, const struct compile_source *b)
{
	return a->feed == b->feed && a->constant == b->constant &&
	       memcmp(&a->number, &b->number, sizeof(a->number)) == 0;
}

/* The step's number, or an error. */
int offload_compile_add_step(struct compile_build *b, struct compile_step step)
{
	if (b->c->steps_count == COMPILE_STEPS_MAX)
		return offload_compile_not_done(b, " with so many others");
	b->c->steps[b->c->steps_count] = step;
	return b->c->steps_count++;
}

uint64_t offload_compile_add_scratch(struct compile_build *b, uint64_t bytes)
{
	const uint64_t at = b->c->scratch_bytes;

	b->c->scratch_bytes += (bytes + 63) & ~UINT64_C(63);
	return at;
}

/* Adds the step of a feed, if there is none yet. */
int offload_compile_add_feed(struct compile_build *b, struct compile_feed feed, uint32_t *index)
{
	struct compiled *c = b->c;
	uint32_t f = 0;
	int step = 0;

	for (unsigned s = 0; s < c->steps_count; s++) {
		const struct compile_feed *have = &c->feeds[f];

		if (c->steps[s].kind > COMPILE_SEGMENT_ROWS)
			continue;
		if (have->kind == feed.kind && have->how == feed.how && have->dim == feed.dim &&
		    have->segments == feed.segments && have->kept == feed.kept && have->place == feed.place &&
		    same_source(&have->source, &feed.source)) {
			*index = f;
			return (int)s;
		}
		f++;
	}
	if (c->feeds_count == COMPILE_FEEDS_MAX)
		return offload_compile_not_done(b, " with so many others");
	step = offload_compile_add_step(b, (struct compile_step){ .kind = feed.kind,
								  .dim = feed.dim,
								  .most = feed.most,
								  .kept = feed.kept,
								  .place = feed.place });
	if (step < 0)
		return step;
	*index = c->feeds_count;
	c->feeds[c->feeds_count++] = feed;
	return step;
}

/* Elements of a row by key of that shape; 0: it is not such a shape. */
static uint32_t row_dim(const struct compile_build *b, const struct graph_shape *shape)
{
	const unsigned lead = lead_of(b);

	if (shape->ndim == lead)
		return 1;
	return shape->ndim == lead + 1 && shape->dims[lead] >= 1 && shape->dims[lead] <= DIM_MAX
		       ? (uint32_t)shape->dims[lead]
		       : 0;
}

/* How many elements a value that is the same for all keys has: 1 for a scalar, or those of a row; 0: it is not such a
 * value. */
static uint32_t shared_dim(const struct compile_build *b, const struct graph_shape *shape, unsigned ndim)
{
	const int64_t last = shape->ndim ? shape->dims[shape->ndim - 1] : 1;

	if (shape->ndim > ndim || graph_elements(shape) != last || last < 1 || last > DIM_MAX)
		return 0;
	return ndim == lead_of(b) && last != 1 ? 0 : (uint32_t)last;
}

/* ---- steps ---- */

/* An operand of an elementwise operation with an output of ndim dimensions. */
static int operand(struct compile_build *b, struct graph_value value, unsigned ndim)
{
	const struct graph_shape *shape = offload_compile_shape_of(b, value),
				 *ids = offload_compile_shape_of(b, b->ids);
	struct compile_feed feed = { .kind = COMPILE_SHARED };
	bool aligned = shape->ndim == ndim;
	uint32_t index = 0;

	if (b->step[value.node] != COMPILE_NOT_MADE)
		return aligned && row_dim(b, shape) ? b->step[value.node]
						    : offload_compile_not_done(b, " with this input");
	if (!is_float(graph_ps_type(b->plan, value)))
		return offload_compile_not_done(b, " with this input");
	if (!offload_compile_find_source(b, value, &feed.source))
		return aligned && row_dim(b, shape) ? offload_compile_take(b, value, row_dim(b, shape))
						    : offload_compile_not_done(b, " with this input");
	feed.dim = shared_dim(b, shape, ndim);
	if (feed.dim == 0) {
		for (unsigned i = 0; i < ids->ndim; i++)
			aligned = aligned && shape->dims[i] == ids->dims[i];
		feed.kind = COMPILE_ROWS;
		feed.dim = aligned && feed.source.feed != COMPILE_NO_FEED ? row_dim(b, shape) : 0;
	}
	return feed.dim ? offload_compile_add_feed(b, feed, &index)
			: offload_compile_not_done(b, " with an input of that shape");
}

static int rows_elementwise(struct compile_build *b)
{
	const struct graph_node *node = b->node;
	const unsigned ndim = offload_compile_shape_of(b, (struct graph_value){ node->id, 0 })->ndim;
	struct compile_step step = { .kind = node->inputs_count == 1 ? COMPILE_UNARY : COMPILE_BINARY,
				     .name = offload_compile_step_name(node) };

	for (uint32_t i = 0; i < node->inputs_count; i++) {
		const int of = operand(b, node->inputs[i], ndim);

		if (of < 0)
			return of;
		*(i ? &step.b : &step.a) = (uint8_t)of;
	}
	return offload_compile_add_step(b, step);
}

/* Adds the first two, then each of the others, as the worker does. */
static int rows_add_n(struct compile_build *b)
{
	const struct graph_node *node = b->node;
	const unsigned ndim = offload_compile_shape_of(b, (struct graph_value){ node->id, 0 })->ndim;
	int sum = operand(b, node->inputs[0], ndim);

	for (uint32_t i = 1; sum >= 0 && i < node->inputs_count; i++) {
		const int of = operand(b, node->inputs[i], ndim);

		sum = of < 0 ? of
			     : offload_compile_add_step(b, (struct compile_step){
								   .kind = COMPILE_BINARY,
								   .a = (uint8_t)sum,
								   .b = (uint8_t)of,
								   .name = offload_compile_step_name(node) });
	}
	return sum;
}

/* The dimensions that a sum or mean reduces, as bits; 0: all of them, or no list of them. */
static unsigned axes_of(const struct graph_node *node, unsigned ndim)
{
	const struct graph_attr *axes = graph_attr(node, "axes");
	unsigned bits = 0;

	for (uint32_t i = 0; axes && axes->kind == GRAPH_INTS && i < axes->ints_count; i++)
		bits |= 1U << (axes->ints[i] < 0 ? axes->ints[i] + ndim : axes->ints[i]);
	return bits;
}

/* For ids [n, k]: the last dimensions of the ids, whose rows are neighbours. Returns the first of these dimensions, or
 * 0. */
static unsigned neighbours(const struct compile_build *b, unsigned axes)
{
	const unsigned lead = lead_of(b);

	for (unsigned from = 1; from < lead; from++)
		if (axes == ((1U << lead) - (1U << from)))
			return from;
	return 0;
}

/* All bags of a component have the same number. */
static int set_bags(struct compile_build *b, struct compile_bags bags)
{
	struct compile_bags *have = &b->c->bags;

	if (have->lead && (have->lead != bags.lead || !same_source(&have->like, &bags.like)))
		return offload_compile_not_done(b, " with other bags");
	*have = bags;
	return 0;
}

int64_t offload_compile_most_bags(const struct compile_build *b)
{
	const struct compile_bags *bags = &b->c->bags;
	const struct compile_source *like = &bags->like;
	const struct graph_shape *ids = offload_compile_shape_of(b, b->ids);
	int64_t count = 1;

	if (like->constant)
		return like->constant->type.shape.dims[0];
	if (like->feed != COMPILE_NO_FEED)
		return offload_compile_shape_of(b, b->part->feeds[like->feed])->dims[0];
	for (unsigned i = 0; i < bags->lead; i++)
		count *= ids->dims[i];
	return count;
}

static int segments_feed(struct compile_build *b, struct compile_feed feed, uint32_t *index)
{
	const int64_t most = offload_compile_most_bags(b);

	feed.kind = COMPILE_SEGMENTS;
	feed.most = most >= 1 && most < COMPILE_SEGMENTS_MAX ? (uint32_t)most : COMPILE_SEGMENTS_MAX;
	if (feed.how != COMPILE_AS_IT_IS)
		feed.scratch =
			offload_compile_add_scratch(b, (uint64_t)graph_elements(offload_compile_shape_of(b, b->ids)) *
							       sizeof(uint32_t));
	return offload_compile_add_feed(b, feed, index);
}

static int neighbours_feed(struct compile_build *b, unsigned lead, uint32_t *index)
{
	const struct compile_source none = { .feed = COMPILE_NO_FEED };

	if (set_bags(b, (struct compile_bags){ .like = none, .lead = (uint8_t)lead }) < 0)
		return -ENOTSUP;
	return segments_feed(b, (struct compile_feed){ .source = none, .how = COMPILE_NEIGHBOURS }, index);
}

/* int32 segments, or int64 indices, of rows that are as many as those of `like`. */
static int given_segments(struct compile_build *b, struct graph_value value, struct graph_value like, uint32_t *index)
{
	struct compile_bags bags = { .lead = 1 };
	struct compile_feed feed = { .how = graph_ps_type(b->plan, value)->dtype == STAR_INT64 ? COMPILE_NARROWED
											       : COMPILE_AS_IT_IS };

	if (lead_of(b) != 1)
		return offload_compile_not_done(b, " with ids of several dimensions");
	if (!offload_compile_find_source(b, value, &feed.source) || !offload_compile_find_source(b, like, &bags.like))
		return offload_compile_not_done(b, " with segments that are computed there");
	if (set_bags(b, bags) < 0)
		return -ENOTSUP;
	return segments_feed(b, feed, index);
}

/* A sum over bags: it can only be returned. */
static int pool(struct compile_build *b, int rows, int segments, uint32_t index, uint8_t how)
{
	const struct graph_value value = { b->node->id, 0 };
	struct compiled *c = b->c;
	const int step = segments < 0 ? segments
				      : offload_compile_add_step(b, (struct compile_step){ .kind = COMPILE_POOL,
											   .a = (uint8_t)rows,
											   .b = (uint8_t)segments });
	uint32_t fetch = 0;
	int rc;

	if (step < 0)
		return step;
	while (fetch < b->part->fetches_count && !graph_same(b->part->fetches[fetch], value))
		fetch++;
	if (fetch == b->part->fetches_count || c->fetches_count == COMPILE_FETCHES_MAX)
		return offload_compile_not_done(b, " if other nodes there need it");
	rc = offload_compile_add_step(b, (struct compile_step){ .kind = COMPILE_FETCH, .a = (uint8_t)step });
	if (rc < 0)
		return rc;
	c->fetches[c->fetches_count] =
		(struct compile_fetch){ .fetch = fetch, .pooled = true, .how = how, .segments = index };
	if (how != COMPILE_AS_IT_IS)
		c->fetches[c->fetches_count].scratch =
			offload_compile_add_scratch(b, (uint64_t)offload_compile_most_bags(b) * sizeof(uint32_t));
	c->fetches_count++;
	return COMPILE_NOT_MADE;
}

/* Reductions of a row; sums and means also over neighbouring ids. */
static int rows_reduce(struct compile_build *b)
{
	const struct graph_node *node = b->node;
	const struct graph_shape *shape = offload_compile_shape_of(b, node->inputs[0]);
	const unsigned lead = lead_of(b), axes = axes_of(node, shape->ndim), from = neighbours(b, axes);
	const uint8_t how = node->op == GRAPH_MEAN ? COMPILE_DIVIDED : COMPILE_AS_IT_IS;
	const int rows = operand(b, node->inputs[0], shape->ndim);
	uint32_t index = 0;

	if (rows < 0)
		return rows;
	if (from && offload_is_sum_or_mean(node->op)) {
		const int segments = neighbours_feed(b, from, &index);

		return segments < 0 ? segments : pool(b, rows, segments, index, how);
	}
	if (axes != 1U << lead)
		return offload_compile_not_done(b, " over these axes");
	return offload_compile_add_step(b, (struct compile_step){ .kind = COMPILE_UNARY,
								  .a = (uint8_t)rows,
								  .name = offload_compile_step_name(node) });
}

static int rows_segment_pool(struct compile_build *b)
{
	const struct graph_node *node = b->node;
	const int rows = operand(b, node->inputs[0], offload_compile_shape_of(b, node->inputs[0])->ndim);
	uint32_t index = 0;
	int segments;

	if (rows < 0)
		return rows;
	segments = given_segments(b, node->inputs[1], node->inputs[2], &index);
	return pool(b, rows, segments, index,
		    node->op == GRAPH_SEGMENT_SUM    ? COMPILE_AS_IT_IS
		    : node->op == GRAPH_SEGMENT_MEAN ? COMPILE_DIVIDED
						     : COMPILE_DIVIDED_ROOT);
}

/* Gives each key the row of its bag. */
static int unpool(struct compile_build *b, struct graph_value rows, int segments, uint32_t index, uint8_t how)
{
	const struct graph_shape *shape = offload_compile_shape_of(b, rows);
	const int64_t count = graph_elements(shape), bags = segments < 0 ? 0 : offload_compile_most_bags(b);
	struct compile_feed feed = { .kind = COMPILE_SEGMENT_ROWS, .how = how, .segments = index };
	uint32_t of;
	int step;

	if (segments < 0)
		return segments;
	if (!is_float(graph_ps_type(b->plan, rows)) || !offload_compile_find_source(b, rows, &feed.source))
		return offload_compile_not_done(b, " with a value that is computed there");
	if (bags < 1 || count % bags || count / bags < 1 || count / bags > DIM_MAX)
		return offload_compile_not_done(b, " with rows of this size");
	feed.dim = (uint32_t)(count / bags);
	if (how != COMPILE_AS_IT_IS)
		feed.scratch = offload_compile_add_scratch(b, (uint64_t)count * sizeof(float) +
								      (uint64_t)bags * sizeof(uint32_t));
	else
		feed.segments = 0;
	step = offload_compile_add_feed(b, feed, &of);
	return step < 0 ? step
			: offload_compile_add_step(b, (struct compile_step){ .kind = COMPILE_UNPOOL,
									     .a = (uint8_t)step,
									     .b = (uint8_t)segments });
}

/* [n, 1, dim] to [n, k, dim]: neighbours. */
static int rows_expand(struct compile_build *b)
{
	const struct graph_value from = b->node->inputs[0];
	const struct graph_shape *ids = offload_compile_shape_of(b, b->ids), *shape = offload_compile_shape_of(b, from);
	const struct graph_shape *out = offload_compile_shape_of(b, (struct graph_value){ b->node->id, 0 });
	unsigned lead = ids->ndim;
	uint32_t index = 0;
	int segments;

	while (lead > 1 && shape->ndim == out->ndim && shape->dims[lead - 1] == 1)
		lead--;
	for (unsigned i = 0; i < lead && i < shape->ndim; i++)
		if (shape->ndim != out->ndim || shape->dims[i] != ids->dims[i])
			return offload_compile_not_done(b, " to this shape");
	if (lead == ids->ndim || !row_dim(b, out) || shape->ndim != out->ndim ||
	    (shape->ndim > ids->ndim && shape->dims[ids->ndim] != out->dims[ids->ndim]))
		return offload_compile_not_done(b, " to this shape");
	segments = neighbours_feed(b, lead, &index);
	return unpool(b, from, segments, index, COMPILE_AS_IT_IS);
}

/* Multiplies each key's number by its bag's row. Workers add products to 0, so -0 becomes 0. */
static int rows_outer(struct compile_build *b)
{
	const struct graph_node *node = b->node;
	const struct graph_shape *ids = offload_compile_shape_of(b, b->ids);
	struct compile_step step = { .kind = COMPILE_BINARY, .name = offload_compile_step_name(node) };
	int number, row;
	uint32_t index = 0;

	if (!offload_cut_is_outer(node, offload_compile_shape_of(b, node->inputs[0]),
				  offload_compile_shape_of(b, node->inputs[1]), ids))
		return offload_compile_not_done(b, ", except of a number for each id and a row for neighbouring ids");
	number = operand(b, node->inputs[0], ids->ndim + 1);
	if (number < 0)
		return number;
	row = neighbours_feed(b, ids->ndim - 1, &index);
	row = row < 0 ? row : unpool(b, node->inputs[1], row, index, COMPILE_AS_IT_IS);
	if (row < 0)
		return row;
	step.a = (uint8_t)number;
	step.b = (uint8_t)row;
	number = offload_compile_add_step(b, step);
	return number < 0 ? number
			  : offload_compile_add_step(b, (struct compile_step){ .kind = COMPILE_UNARY,
									       .a = (uint8_t)number,
									       .name = "offset" });
}

static int rows_spread(struct compile_build *b)
{
	const struct graph_node *node = b->node;
	const uint8_t how = node->op == GRAPH_GATHER		  ? COMPILE_AS_IT_IS
			    : node->op == GRAPH_SEGMENT_MEAN_GRAD ? COMPILE_DIVIDED
								  : COMPILE_DIVIDED_ROOT;
	uint32_t index = 0;
	const int segments = given_segments(b, node->inputs[1], node->inputs[0], &index);

	return unpool(b, node->inputs[0], segments, index, how);
}

static int rows_lookup(struct compile_build *b)
{
	for (unsigned s = 0; s < b->c->steps_count; s++)
		if (b->c->steps[s].kind == COMPILE_LOOKUP)
			return offload_compile_not_done(b, " twice for the same ids");
	if (!is_float(&b->node->outputs[0]))
		return offload_compile_not_done(b, " for computations in types other than float32");
	b->c->read_only = graph_attr_int(b->node, "read_only", 0);
	return offload_compile_add_step(b, (struct compile_step){ .kind = COMPILE_LOOKUP });
}

int offload_compile_add_apply(struct compile_build *b, int gradients)
{
	struct compiled *c = b->c;

	for (unsigned s = 0; s < c->steps_count; s++)
		if (c->steps[s].kind == COMPILE_APPLY)
			return offload_compile_not_done(b, c->blocks ? " twice" : " twice for the same ids");
	if (offload_template_rates(b->node, &c->applies, b->err) < 0)
		return b->err->code;
	return offload_compile_add_step(b, (struct compile_step){ .kind = COMPILE_APPLY, .b = (uint8_t)gradients });
}

static int rows_apply(struct compile_build *b)
{
	const struct graph_value rows = b->node->inputs[2];
	const int gradients = operand(b, rows, offload_compile_shape_of(b, rows)->ndim);

	return gradients < 0 ? gradients : offload_compile_add_apply(b, gradients);
}

/* For a gradient whose sizes are only known in a step: nothing has to be done if it has the sizes of the rows; if the
 * original had a single element for each row, the sum of the row is needed. */
static int rows_reduce_like(struct compile_build *b)
{
	const struct graph_value *inputs = b->node->inputs;
	const struct graph_shape *shape = offload_compile_shape_of(b, inputs[0]),
				 *like = offload_compile_shape_of(b, inputs[1]);
	const bool column = shape->ndim == like->ndim && shape->ndim == lead_of(b) + 1 && row_dim(b, like) == 1;
	const bool same = graph_shape_same(shape, like);
	int rows;

	if ((!same && !column) || b->step[inputs[0].node] == COMPILE_NOT_MADE)
		return offload_compile_not_done(b, " to another shape");
	rows = operand(b, inputs[0], shape->ndim);
	return rows < 0 || same
		       ? rows
		       : offload_compile_add_step(b,
						  (struct compile_step){ .kind = COMPILE_UNARY,
									 .a = (uint8_t)rows,
									 .name = offload_compile_step_name(b->node) });
}

static int rows_none(struct compile_build *b)
{
	return offload_compile_not_done(b, "");
}

int offload_compile_node(struct compile_build *b)
{
	static int (*const by_rows[])(struct compile_build * b) = {
#define X(OP, step, moves, rows, blocks) [GRAPH_##OP] = rows_##rows,
		COMPILE_OPS(X)
#undef X
	};

	if (b->c->blocks)
		return offload_compile_blocks_node(b);
	return (unsigned)b->node->op < OPS && by_rows[b->node->op] ? by_rows[b->node->op](b) : rows_none(b);
}
