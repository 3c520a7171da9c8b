/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gradients of loops. The gradient of iterations 0 to n - 1 is a loop from n - 1 to 0. It carries its iteration, the
 * gradients of the carried values, and sums of the gradients of captures and variables. What an iteration computed is
 * recomputed from tapes of its carried values, and of what it read from PS tasks. The backward body is built twice: a
 * trial run in a separate graph shows which tapes and captures it needs, and which gradients exist.
 */
#include <stdlib.h>
#include <string.h>

#include "backward.h"
#include "internal.h"

/* The loop, and what its gradient needs. Values of the forward body are numbered as in backward.first. */
struct unrolling {
	struct backward *b;	       /* for the graph that the loop is in */
	const struct graph_node *node; /* in b->from */
	struct graph_node *loop;       /* in b->graph: the same, or its copy */
	const struct graph_value *g;
	const struct graph *body; /* of node */
	uint32_t carried, inputs, results, values;
	bool *tapes;			 /* for the body's values: whether a tape is needed */
	struct graph_value *tape;	 /* ... and which output of the loop it is */
	bool captures[GRAPH_INPUTS_MAX]; /* for the inputs: needed in the backward body */
	bool sums[GRAPH_INPUTS_MAX];	 /* for the inputs: captures with gradients */
	struct backward_object *objects; /* from the trial run: which have dense gradients */
	/* For the backward loop. */
	struct graph_value outside[GRAPH_INPUTS_MAX];
	uint32_t outside_count, backward_carried;
	bool overflow;
};

/* ---- what goes on tapes ---- */

static bool is_ps_value(const struct graph_node *node)
{
	return graph_op_info(node->op)->place == GRAPH_ON_PS && node->op != GRAPH_VARIABLE && node->op != GRAPH_TABLE;
}

/* Adds the necessary tapes to the forward loop: tape[number] is its output. */
static bool extend_loop(struct unrolling *u, const struct backward *inner)
{
	struct graph *body = u->loop->body;
	struct graph_value *results = calloc(body->results_count + u->values + 1, sizeof(*results));
	uint32_t count = body->results_count;

	if (!results) {
		graph_fail(u->b->graph, u->node->name, "out of memory");
		return false;
	}
	if (count)
		memcpy(results, body->results, count * sizeof(*results));
	for (uint32_t n = 0; n < inner->nodes_count; n++)
		for (uint32_t i = 0; i < u->body->nodes[n]->outputs_count; i++) {
			const uint32_t number = inner->first[n] + i;

			if (!u->tapes[number])
				continue;
			results[count] = (struct graph_value){ n, i };
			u->tape[number] = (struct graph_value){ u->loop->id, ++count };
		}
	graph_set_results(body, results, count);
	free(results);
	return graph_renew_outputs(u->b->graph, u->loop) == 0;
}

/* ---- the trial run ---- */

static bool float_input(const struct unrolling *u, uint32_t i)
{
	return graph_backward_is_float(graph_type(u->b->from, u->node->inputs[i]));
}

/* Walks from the gradients of the body's results, by number, to those of its inputs. */
static void walk_loop(struct unrolling *u, struct backward *inner, const struct graph_value *g)
{
	for (uint32_t r = 0; r < u->results; r++)
		graph_backward_add(inner, u->body->results[r], g[r]);
	for (uint32_t i = 0; i < u->inputs; i++)
		inner->wanted[i] =
			float_input(u, i) && (i < u->carried || graph_backward_wants(u->b, u->node->inputs[i]));
	graph_backward_mark(inner);
	graph_backward_walk(inner);
}

static struct graph_value feed_like(struct graph *body, const struct graph_type *type)
{
	return graph_feed(body, NULL, type->dtype, type->shape.dims, type->shape.ndim);
}

/* A body in which everything that may be on tapes, and all captures, are feeds. What the walk uses of them is
 * needed. */
static bool rehearse(struct unrolling *u)
{
	struct graph *body = graph_body_create(u->b->graph, NULL, 0);
	struct graph_value g[GRAPH_OUTPUTS_MAX];
	struct backward inner;

	if (!body || !graph_backward_init(&inner, body, u->body, true, u->b->asked))
		return false;
	for (uint32_t n = 0; n < inner.nodes_count; n++) {
		const struct graph_node *node = u->body->nodes[n];

		for (uint32_t i = 0; i < node->outputs_count; i++)
			if (node->op == GRAPH_FEED || is_ps_value(node))
				inner.map[inner.first[n] + i] = feed_like(body, &node->outputs[i]);
	}
	for (uint32_t r = 0; r < u->results; r++) {
		const struct graph_type *type = graph_type(u->body, u->body->results[r]);
		const bool some = r < u->carried || !graph_is_none(u->g[r + 1]);

		g[r] = some && graph_backward_is_float(type) ? feed_like(body, type) : GRAPH_NONE;
	}
	walk_loop(u, &inner, g);
	for (uint32_t n = 0; n < inner.nodes_count; n++) {
		const struct graph_node *node = u->body->nodes[n];
		const bool capture = node->op == GRAPH_FEED && n >= u->carried;

		for (uint32_t i = 0; i < node->outputs_count; i++)
			u->tapes[inner.first[n] + i] = !capture && (node->op == GRAPH_FEED || is_ps_value(node)) &&
						       inner.used[inner.first[n] + i];
		if (!capture)
			continue;
		u->captures[n] = inner.used[inner.first[n]];
		u->sums[n] = inner.wanted[n] && inner.terms[inner.first[n]];
	}
	u->objects = inner.objects;
	if (!u->b->graph->err.code)
		extend_loop(u, &inner);
	graph_backward_fini(&inner);
	return !u->b->graph->err.code;
}

/* ---- the backward body ---- */

/* Adds an input to the backward loop; returns its number. */
static uint32_t add_feed(struct unrolling *u, struct graph_value value)
{
	if (u->outside_count == GRAPH_INPUTS_MAX) {
		u->overflow = true;
		return 0;
	}
	u->outside[u->outside_count] = value;
	return u->outside_count++;
}

static struct graph_value zeros_or(struct unrolling *u, struct graph_value g, struct graph_value like)
{
	return graph_is_none(g) ? graph_backward_zeros_like(u->b->graph, like) : g;
}

/* The initial values of the backward loop: iteration, gradients of carried values, sums. */
static void bring_carried(struct unrolling *u)
{
	struct graph *graph = u->b->graph;
	const struct graph_value iterations = { u->loop->id, u->carried };

	add_feed(u, graph_minus(graph, iterations, graph_number(graph, STAR_INT64, 1)));
	for (uint32_t i = 0; i < u->carried; i++)
		if (float_input(u, i))
			add_feed(u, zeros_or(u, u->g[i], (struct graph_value){ u->loop->id, i }));
	for (uint32_t i = u->carried; i < u->inputs; i++)
		if (u->sums[i])
			add_feed(u, graph_backward_zeros_like(graph, backward_in(u->b, u->node, i)));
	for (const struct backward_object *o = u->objects; o; o = o->next)
		if (o->dense)
			add_feed(u, graph_backward_zeros(graph, o->element, &o->shape));
	u->backward_carried = u->outside_count;
}

/* Then the inputs that do not change: captures, tapes, gradients of the tapes that the model itself has. */
static void bring_captures(struct unrolling *u)
{
	for (uint32_t i = u->carried; i < u->inputs; i++)
		if (u->captures[i])
			add_feed(u, backward_in(u->b, u->node, i));
	for (uint32_t n = 0; n < u->values; n++)
		if (u->tapes[n])
			add_feed(u, u->tape[n]);
	for (uint32_t r = u->carried; r < u->results; r++)
		if (!graph_is_none(u->g[r + 1]))
			add_feed(u, u->g[r + 1]);
}

/* The same order in the backward body: sets the forward body's values, and walks. */
static void start_inner(struct unrolling *u, struct backward *inner, struct graph *body)
{
	const struct graph_value k = { 0, 0 };
	struct graph_value next = { u->backward_carried, 0 }, g[GRAPH_OUTPUTS_MAX];
	uint32_t gradient = 1;

	for (uint32_t i = u->carried; i < u->inputs; i++)
		if (u->captures[i]) {
			inner->map[inner->first[i]] = next;
			next.node++;
		}
	for (uint32_t n = 0; n < u->values; n++)
		if (u->tapes[n]) {
			inner->map[n] = graph_index(body, next, k);
			next.node++;
		}
	for (uint32_t r = 0; r < u->results; r++) {
		g[r] = GRAPH_NONE;
		if (r < u->carried && float_input(u, r)) {
			g[r] = (struct graph_value){ gradient++, 0 };
		} else if (r >= u->carried && !graph_is_none(u->g[r + 1])) {
			g[r] = graph_index(body, next, k);
			next.node++;
		}
	}
	walk_loop(u, inner, g);
}

/* Carries to the previous iteration: its number, gradients of carried values, sums. Returns the number of results. */
static uint32_t carry_gradients(struct unrolling *u, struct backward *inner, struct graph *body,
				struct graph_value *results)
{
	uint32_t count = 0;

	results[count++] = graph_minus(body, (struct graph_value){ 0, 0 }, graph_number(body, STAR_INT64, 1));
	for (uint32_t i = 0; i < u->carried; i++)
		if (float_input(u, i)) {
			const struct graph_value g = graph_backward_sum(inner, (struct graph_value){ i, 0 });

			results[count] = graph_is_none(g)
						 ? graph_backward_zeros_like(body, (struct graph_value){ count, 0 })
						 : g;
			count++;
		}
	for (uint32_t i = u->carried; i < u->inputs; i++)
		if (u->sums[i]) {
			results[count] = graph_plus(body, (struct graph_value){ count, 0 },
						    graph_backward_sum(inner, (struct graph_value){ i, 0 }));
			count++;
		}
	for (const struct backward_object *o = u->objects; o; o = o->next)
		for (struct backward_object *mine = inner->objects; o->dense && mine; mine = mine->next)
			if (strcmp(mine->name, o->name) == 0) {
				results[count] = graph_plus(body, (struct graph_value){ count, 0 },
							    graph_backward_sum_terms(body, &mine->dense));
				count++;
			}
	for (const struct backward_object *o = inner->objects; o; o = o->next)
		for (const struct backward_pair *pair = o->pairs; pair; pair = pair->next) {
			if (count + 2 >= GRAPH_OUTPUTS_MAX) {
				graph_fail(body, u->node->name, "its gradient would have more than %d outputs",
					   GRAPH_OUTPUTS_MAX);
				return 0;
			}
			results[count++] = pair->ids;
			results[count++] = pair->rows;
		}
	return count;
}

/* ---- after the loop ---- */

/* [most, n..., tail...] -> [iterations * n, tail...]: the part that was written. count: number of iterations. */
static struct graph_value flat_tape(struct graph *graph, struct graph_value tape, struct graph_value count,
				    unsigned tail)
{
	struct graph_value rows = graph_op2(graph, GRAPH_HEAD, tape, count);
	const struct graph_type *type = graph_type(graph, rows);
	int64_t dims[GRAPH_DIMS_MAX + 1] = { -1 };

	if (!type)
		return GRAPH_NONE;
	for (unsigned i = 0; i < tail; i++)
		dims[i + 1] = type->shape.dims[type->shape.ndim - tail + i];
	return graph_reshape(graph, rows, dims, tail + 1);
}

static struct backward_object *object_like(struct backward *b, const struct backward_object *o)
{
	const struct graph_node resource = { .name = o->name,
					     .outputs =
						     &(struct graph_type){ .shape = o->shape, .element = o->element } };

	return graph_backward_object(b, &resource);
}

/* Passes the gradients of the backward loop on to the graph that contains it. */
static void give_all(struct unrolling *u, const struct backward *inner, struct graph_value loop)
{
	struct graph *graph = u->b->graph;
	const struct graph_value count = graph_output(loop, u->backward_carried);
	uint32_t next = 1;

	for (uint32_t i = 0; i < u->carried; i++)
		if (float_input(u, i))
			graph_backward_give(u->b, u->node, i, graph_output(loop, next++));
	for (uint32_t i = u->carried; i < u->inputs; i++)
		if (u->sums[i])
			graph_backward_give(u->b, u->node, i, graph_output(loop, next++));
	for (const struct backward_object *o = u->objects; o; o = o->next)
		if (o->dense)
			graph_backward_add_dense(u->b, object_like(u->b, o), graph_output(loop, next++));
	next++; /* the number of iterations */
	for (const struct backward_object *o = inner->objects; o; o = o->next)
		for (const struct backward_pair *pair = o->pairs; pair; pair = pair->next, next += 2)
			graph_backward_add_pair(u->b, object_like(u->b, o),
						flat_tape(graph, graph_output(loop, next), count, 0),
						flat_tape(graph, graph_output(loop, next + 1), count,
							  o->shape.ndim - 1u));
}

/* Adds the backward loop. */
static struct graph_value add_loop(struct unrolling *u, struct graph *body, struct graph *cond)
{
	const struct graph_attr attrs[] = { GRAPH_ATTR_INT("carried", u->backward_carried),
					    GRAPH_ATTR_INT("most", graph_attr_int(u->node, "most", 1)) };
	struct graph_value more;

	more = graph_less(cond, graph_number(cond, STAR_INT64, -1), (struct graph_value){ 0, 0 });
	graph_set_results(cond, &more, 1);
	return graph_add(u->b->graph, &(struct graph_node_spec){ .op = GRAPH_WHILE,
								 .inputs = u->outside,
								 .inputs_count = u->outside_count,
								 .attrs = attrs,
								 .attrs_count = 2,
								 .body = body,
								 .cond = cond });
}

static void build_loop(struct unrolling *u)
{
	struct graph *graph = u->b->graph, *body, *cond;
	struct graph_type types[GRAPH_INPUTS_MAX];
	struct graph_value results[GRAPH_OUTPUTS_MAX], loop;
	struct backward inner;
	uint32_t count;

	bring_carried(u);
	bring_captures(u);
	if (u->overflow)
		graph_fail(graph, u->node->name, "its gradient would take more than %d values", GRAPH_INPUTS_MAX);
	if (graph->err.code)
		return;
	for (uint32_t i = 0; i < u->outside_count; i++)
		types[i] = *graph_type(graph, u->outside[i]);
	body = graph_body_create(graph, types, u->outside_count);
	cond = graph_body_create(graph, types, u->outside_count);
	if (!body || !cond || !graph_backward_init(&inner, body, u->body, true, u->b->asked))
		return;
	start_inner(u, &inner, body);
	count = graph->err.code ? 0 : carry_gradients(u, &inner, body, results);
	graph_set_results(body, results, count);
	loop = graph->err.code ? GRAPH_NONE : add_loop(u, body, cond);
	if (!graph_is_none(loop))
		give_all(u, &inner, loop);
	graph_backward_fini(&inner);
}

void graph_gradient_while(struct backward *b, const struct graph_node *node, const struct graph_value *g)
{
	const struct graph_value here = backward_out(b, node, 0);
	struct unrolling u = { .b = b,
			       .node = node,
			       .g = g,
			       .body = node->body,
			       .carried = (uint32_t)graph_attr_int(node, "carried", 0),
			       .inputs = node->inputs_count,
			       .results = node->body->results_count };

	if (graph_is_none(here))
		return;
	if (b->map && (graph_backward_touches(node->body, NULL) || graph_backward_touches(node->cond, NULL))) {
		graph_fail(b->graph, node->name,
			   "no gradient: a loop within a loop uses variables or tables; read them outside, and pass "
			   "the values in");
		return;
	}
	u.loop = b->graph->nodes[here.node];
	for (uint32_t n = 0; n < node->body->nodes_count; n++)
		u.values += node->body->nodes[n]->outputs_count;
	u.tapes = calloc(u.values + 1, sizeof(*u.tapes));
	u.tape = calloc(u.values + 1, sizeof(*u.tape));
	if (!u.tapes || !u.tape)
		graph_fail(b->graph, node->name, "out of memory");
	else if (rehearse(&u))
		build_loop(&u);
	free(u.tapes);
	free(u.tape);
}
