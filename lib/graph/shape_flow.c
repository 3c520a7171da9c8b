/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and shapes of loops and branches: their bodies are inferred again from the types of their inputs. */
#include <errno.h>
#include <stdlib.h>

#include "graph/shape.h"

/* The types of all nodes' outputs, by node; in one allocation. */
static struct graph_type **create_types(const struct graph *graph)
{
	size_t outputs = 0;
	struct graph_type **types, *next;

	for (uint32_t i = 0; i < graph->nodes_count; i++)
		outputs += graph->nodes[i]->outputs_count;
	types = malloc(graph->nodes_count * sizeof(*types) + outputs * sizeof(**types));
	if (!types)
		return NULL;
	next = (struct graph_type *)(types + graph->nodes_count);
	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		types[i] = next;
		next += graph->nodes[i]->outputs_count;
	}
	return types;
}

static int infer_node(const struct graph_node *node, struct graph_type **types, struct star_error *err)
{
	struct graph_type inputs[GRAPH_INPUTS_MAX], outputs[GRAPH_OUTPUTS_MAX];
	struct star_error why;
	uint32_t count;

	for (uint32_t i = 0; i < node->inputs_count; i++)
		inputs[i] = types[node->inputs[i].node][node->inputs[i].output];
	if (graph_infer(node, inputs, outputs, &count, &why) < 0)
		return star_error_set(err, -EINVAL, "node \"%s\": %s", node->name, why.text);
	for (uint32_t i = 0; i < count && i < node->outputs_count; i++)
		types[node->id][i] = outputs[i];
	return 0;
}

/* most: sizes that are known only in a step are set to their maximum. */
static struct graph_type **infer_all(const struct graph *graph, const struct graph_type *feeds, uint32_t feeds_count,
				     bool most, struct star_error *err)
{
	struct graph_type **types = create_types(graph);
	uint32_t fed = 0;

	if (!types) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];

		if (infer_node(node, types, err) < 0)
			goto fail;
		if (most && graph_is_open(node) && types[i]->shape.dims[0] < 0)
			types[i]->shape.dims[0] = types[node->inputs[0].node][node->inputs[0].output].shape.dims[0];
		if (node->op == GRAPH_FEED && fed < feeds_count) {
			char declared[GRAPH_SHAPE_TEXT], given[GRAPH_SHAPE_TEXT];

			graph_shape_text(&types[i]->shape, declared);
			if (types[i]->dtype != feeds[fed].dtype ||
			    !shape_unify_all(&types[i]->shape, &feeds[fed].shape)) {
				star_error_set(err, -EINVAL, "feed \"%s\" is %s %s, but is given %s %s", node->name,
					       dtype_name(node->outputs->dtype), declared, dtype_name(feeds[fed].dtype),
					       graph_shape_text(&feeds[fed].shape, given));
				goto fail;
			}
			fed++;
		}
	}
	return types;
fail:
	free(types);
	return NULL;
}

struct graph_type **graph_infer_all(const struct graph *graph, const struct graph_type *feeds, uint32_t feeds_count,
				    struct star_error *err)
{
	return infer_all(graph, feeds, feeds_count, false, err);
}

struct graph_type **graph_infer_most(const struct graph *graph, const struct graph_type *feeds, uint32_t feeds_count,
				     struct star_error *err)
{
	return infer_all(graph, feeds, feeds_count, true, err);
}

/*
 * Infers a body or condition from the types of its inputs; returns the types of its results, for which there is room.
 */
static int infer_body(const struct graph_inference *in, const struct graph *body, const char *what,
		      const struct graph_type *feeds, uint32_t feeds_count, struct graph_type *results)
{
	struct graph_type **types;
	struct star_error why;
	uint32_t there = 0;

	for (uint32_t i = 0; i < body->nodes_count; i++)
		there += body->nodes[i]->op == GRAPH_FEED;
	if (there != feeds_count)
		return shape_bad(in, "its %s has %u feeds, but gets %u values", what, there, feeds_count);
	types = graph_infer_all(body, feeds, feeds_count, &why);
	if (!types)
		return shape_bad(in, "its %s: %s", what, why.text);
	for (uint32_t i = 0; i < body->results_count; i++)
		results[i] = types[body->results[i].node][body->results[i].output];
	free(types);
	return 0;
}

/* A carried value must have the same type in all iterations. */
static int carry_type(const struct graph_inference *in, uint32_t i, const struct graph_type *result,
		      struct graph_type *type)
{
	char before[GRAPH_SHAPE_TEXT], after[GRAPH_SHAPE_TEXT];

	graph_shape_text(&type->shape, before);
	if (type->dtype == result->dtype && shape_unify_all(&type->shape, &result->shape))
		return 0;
	return shape_bad(in, "carried value %u is %s %s before an iteration, but %s %s after it", i,
			 dtype_name(type->dtype), before, dtype_name(result->dtype),
			 graph_shape_text(&result->shape, after));
}

int shape_of_while(struct graph_inference *in)
{
	const struct graph *body = in->node->body, *cond = in->node->cond;
	const int64_t carried = graph_attr_int(in->node, "carried", 0), most = graph_attr_int(in->node, "most", 0);
	struct graph_type results[GRAPH_OUTPUTS_MAX], inputs[GRAPH_INPUTS_MAX], goes_on;
	int rc;

	if (carried < 1 || carried > in->in_count)
		return shape_bad(in, "carried is %lld; it must be from 1 to the number of inputs, %u",
				 (long long)carried, in->in_count);
	if (most < 1 || most > INT32_MAX)
		return shape_bad(in, "most is %lld; the maximum number of iterations must be from 1 to 2^31 - 1",
				 (long long)most);
	if (body->results_count < carried || body->results_count >= GRAPH_OUTPUTS_MAX)
		return shape_bad(
			in, "its body has %u results; it must have at least the %lld carried values, and at most %d",
			body->results_count, (long long)carried, GRAPH_OUTPUTS_MAX - 1);
	if (cond->results_count != 1)
		return shape_bad(in, "its condition has %u results, but must have one", cond->results_count);
	for (uint32_t i = 0; i < in->in_count; i++)
		inputs[i] = in->in[i];
	rc = infer_body(in, body, "body", inputs, in->in_count, results);
	for (uint32_t i = 0; rc == 0 && i < carried; i++) {
		rc = carry_type(in, i, &results[i], &inputs[i]);
		if (rc == 0)
			shape_out(in, inputs[i].dtype, &inputs[i].shape);
	}
	if (rc == 0)
		rc = infer_body(in, cond, "condition", inputs, in->in_count, &goes_on);
	if (rc < 0)
		return rc;
	if (goes_on.dtype != STAR_INT32 || goes_on.shape.ndim != 0)
		return shape_bad(in, "its condition must be an int32 scalar");
	shape_out(in, STAR_INT64, &(struct graph_shape){ 0 });
	for (uint32_t i = (uint32_t)carried; i < body->results_count; i++) {
		struct graph_shape tape = { .ndim = 1, .dims = { most } };

		if (results[i].shape.ndim == GRAPH_DIMS_MAX)
			return shape_bad(in, "a tape would have more than %d dimensions", GRAPH_DIMS_MAX);
		for (unsigned k = 0; k < results[i].shape.ndim; k++)
			tape.dims[tape.ndim++] = results[i].shape.dims[k];
		shape_out(in, results[i].dtype, &tape);
	}
	return 0;
}

/* What is known of a value that is one or the other. */
static bool either(struct graph_type *a, const struct graph_type *b)
{
	if (a->dtype != b->dtype || a->shape.ndim != b->shape.ndim)
		return false;
	for (unsigned i = 0; i < a->shape.ndim; i++) {
		if (a->shape.dims[i] >= 0 && b->shape.dims[i] >= 0 && a->shape.dims[i] != b->shape.dims[i])
			return false;
		if (b->shape.dims[i] < 0)
			a->shape.dims[i] = -1;
	}
	return true;
}

int shape_of_cond(struct graph_inference *in)
{
	const struct graph *yes = in->node->body, *no = in->node->cond;
	struct graph_type results[GRAPH_OUTPUTS_MAX], others[GRAPH_OUTPUTS_MAX];
	char one[GRAPH_SHAPE_TEXT], other[GRAPH_SHAPE_TEXT];
	int rc = shape_want_dtype(in, 0, STAR_INT32);

	if (rc == 0)
		rc = shape_want_ndim(in, 0, 0, 0);
	if (rc < 0)
		return rc;
	if (yes->results_count != no->results_count || yes->results_count > GRAPH_OUTPUTS_MAX)
		return shape_bad(in,
				 "its branches have %u and %u results; both must have the same number, and at most %d",
				 yes->results_count, no->results_count, GRAPH_OUTPUTS_MAX);
	rc = infer_body(in, yes, "first branch", in->in + 1, in->in_count - 1, results);
	if (rc == 0)
		rc = infer_body(in, no, "second branch", in->in + 1, in->in_count - 1, others);
	for (uint32_t i = 0; rc == 0 && i < yes->results_count; i++) {
		graph_shape_text(&results[i].shape, one);
		if (!either(&results[i], &others[i]))
			return shape_bad(in, "result %u is %s %s in one branch, but %s %s in the other", i,
					 dtype_name(results[i].dtype), one, dtype_name(others[i].dtype),
					 graph_shape_text(&others[i].shape, other));
		shape_out(in, results[i].dtype, &results[i].shape);
	}
	return rc;
}
