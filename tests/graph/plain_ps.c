/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/graph/plain_ps.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "exec/kernel.h"
#include "tests/unit.h"

/* Of a plan: for each run the tensors of all values, and a kernel's scratch. */
struct prepared {
	const struct graph_ps_plan *plan;
	uint32_t values;
	struct graph_tensor *tensors[PLAIN_RUNS];
	void *scratch[PLAIN_RUNS];
};

void plain_ps_fini(struct plain_ps *plain)
{
	for (uint32_t i = 0; i < plain->count; i++)
		free(plain->variables[i].values);
	CHECK_INT(plain->in_flight, 0);
	CHECK_INT(plain->prepared, 0);
}

struct plain_variable *plain_ps_variable(struct plain_ps *plain, const char *name, int64_t rows, int64_t width)
{
	struct plain_variable *v = plain->variables;

	for (; v < plain->variables + plain->count; v++)
		if (!strcmp(v->name, name))
			return v;
	plain->count++;
	strcpy(v->name, name);
	v->rows = rows;
	v->width = width;
	v->values = malloc((size_t)(rows * width) * sizeof(*v->values));
	for (int64_t i = 0; i < rows * width; i++)
		v->values[i] = (double)(float)((double)(hash_mix(hash_name(name) + (uint64_t)i) >> 40) * 0x1p-24 - 0.5);
	return v;
}

static struct plain_variable *variable_of(struct plain_ps *plain, const struct graph_node *resource)
{
	const struct graph_shape *shape = &resource->outputs[0].shape;
	int64_t width = 1;

	for (unsigned i = 1; i < shape->ndim; i++)
		width *= shape->dims[i];
	return plain_ps_variable(plain, resource->name,
				 resource->op == GRAPH_TABLE ? PLAIN_ROWS
				 : shape->ndim		     ? shape->dims[0]
							     : 1,
				 width);
}

static double get(const struct graph_tensor *t, int64_t i)
{
	return t->type.dtype == STAR_FLOAT32   ? (double)((const float *)t->data)[i]
	       : t->type.dtype == STAR_FLOAT64 ? ((const double *)t->data)[i]
	       : t->type.dtype == STAR_INT32   ? (double)((const int32_t *)t->data)[i]
					       : (double)((const int64_t *)t->data)[i];
}

static void put(struct graph_tensor *t, int64_t i, double x)
{
	if (t->type.dtype == STAR_FLOAT32)
		((float *)t->data)[i] = (float)x;
	else
		((double *)t->data)[i] = x;
}

/* ---- nodes ---- */

static int64_t row_of(const struct plain_variable *v, const struct graph_tensor *ids, int64_t i)
{
	return (int64_t)((uint64_t)((const int64_t *)ids->data)[i] % (uint64_t)v->rows);
}

static void run_stateful(struct plain_ps *plain, const struct graph *graph, const struct graph_node *node,
			 const struct graph_tensor *const *in, struct graph_tensor *out)
{
	const struct graph_node *resource = graph_resource(graph, node->inputs[0]);
	struct plain_variable *v = variable_of(plain, resource);
	const double rate = graph_attr_float(node, "rate", 0.125) * graph_attr_float(node, "scale", 1);
	const int64_t n = v->rows * v->width;

	if (node->op == GRAPH_STEP_ADD)
		v->values[0]++;
	if (node->op == GRAPH_READ || node->op == GRAPH_STEP_ADD)
		for (int64_t i = 0; i < n; i++)
			put(out, i, v->values[i]);
	for (int64_t i = 0; i < n && node->op == GRAPH_ASSIGN; i++)
		v->values[i] = get(in[1], i);
	for (int64_t i = 0; i < n && node->op == GRAPH_APPLY; i++)
		v->values[i] = (double)(float)(v->values[i] - rate * get(in[1], i));
	if (node->op != GRAPH_LOOKUP && node->op != GRAPH_APPLY_ROWS)
		return;
	for (int64_t i = 0; i < graph_elements(&in[1]->type.shape); i++)
		for (int64_t k = 0; k < v->width; k++) {
			double *x = &v->values[row_of(v, in[1], i) * v->width + k];

			if (node->op == GRAPH_LOOKUP)
				put(out, i * v->width + k, *x);
			else
				*x = (double)(float)(*x - rate * get(in[2], i * v->width + k));
		}
}

static bool is_handle(const struct graph_node *node)
{
	return node->outputs_count == 1 && node->outputs[0].dtype == 0;
}

static int run_node(struct plain_ps *plain, const struct prepared *p, const struct graph_ps_call *call,
		    const struct graph_node *node, struct star_error *err)
{
	struct graph_tensor *tensors = p->tensors[call->run], *out[GRAPH_OUTPUTS_MAX];
	const struct graph_tensor *in[GRAPH_INPUTS_MAX];
	struct graph_type types[GRAPH_INPUTS_MAX], made[GRAPH_OUTPUTS_MAX];
	uint32_t made_count;

	for (uint32_t i = 0; i < node->inputs_count; i++) {
		in[i] = &tensors[p->plan->first[node->inputs[i].node] + node->inputs[i].output];
		types[i] = in[i]->type;
	}
	if (graph_infer(node, types, made, &made_count, err) < 0)
		return -EINVAL;
	for (uint32_t o = 0; o < node->outputs_count; o++) {
		out[o] = &tensors[p->plan->first[node->id] + o];
		out[o]->type = made[o];
	}
	if (is_handle(node))
		return 0;
	if (graph_op_info(node->op)->place != GRAPH_ON_PS)
		return kernel_run(&(struct kernel_call){
			.node = node, .in = in, .out = out, .scratch = p->scratch[call->run], .err = err });
	run_stateful(plain, call->plan->graph, node, in, out[0]);
	return 0;
}

/* ---- the interface ---- */

static int prepare(void *ctx, const struct graph_ps_plan *plan, void **prepared, struct star_error *err)
{
	struct plain_ps *plain = ctx;
	struct prepared *p = calloc(1, sizeof(*p));

	p->plan = plan;
	for (uint32_t n = 0; n < plan->graph->nodes_count; n++) {
		p->values = plan->first[n] + plan->graph->nodes[n]->outputs_count;
		if (plan->graph->nodes[n]->op == GRAPH_VARIABLE || plan->graph->nodes[n]->op == GRAPH_TABLE)
			variable_of(plain, plan->graph->nodes[n]);
	}
	for (uint32_t r = 0; r < PLAIN_RUNS; r++) {
		p->tensors[r] = calloc(p->values + 1, sizeof(*p->tensors[r]));
		p->scratch[r] = calloc(1, 1 << 16);
		for (uint32_t i = 0; i < p->values; i++) {
			p->tensors[r][i].type = plan->types[i];
			p->tensors[r][i].data = malloc(graph_type_bytes(&plan->types[i]) + 1);
		}
	}
	plain->prepared++;
	*prepared = p;
	return 0;
}

static void release(void *ctx, void *prepared)
{
	struct plain_ps *plain = ctx;
	struct prepared *p = prepared;

	for (uint32_t r = 0; r < PLAIN_RUNS; r++) {
		for (uint32_t i = 0; i < p->values; i++)
			free(p->tensors[r][i].data);
		free(p->tensors[r]);
		free(p->scratch[r]);
	}
	free(p);
	plain->prepared--;
}

static uint64_t sum_of_feeds(const struct graph_ps_call *call)
{
	const struct graph_part *part = &call->plan->parts[call->part];
	uint64_t sum = call->step;

	for (uint32_t i = 0; i < part->feeds_count; i++)
		for (uint64_t b = 0; b < graph_type_bytes(&call->feeds[i].type); b++)
			sum = hash_mix(sum ^ ((const uint8_t *)call->feeds[i].data)[b]);
	return sum;
}

static bool fails(struct plain_ps *plain, bool start)
{
	if (plain->fail_after < 0 || plain->fail_start != start)
		return false;
	return plain->fail_after-- == 0;
}

static void note(struct plain_ps *plain, const struct graph_ps_call *call, bool is_wait)
{
	if (plain->events_count == PLAIN_EVENTS)
		return;
	plain->events[plain->events_count].call = call;
	plain->events[plain->events_count++].is_wait = is_wait;
}

static int start(void *ctx, const struct graph_ps_call *call, void **token, struct star_error *err)
{
	struct plain_ps *plain = ctx;

	if (fails(plain, true))
		return star_error_set(err, -ECONNREFUSED, "nobody listens");
	plain->in_flight++;
	note(plain, call, false);
	*token = (void *)(uintptr_t)sum_of_feeds(call);
	return 0;
}

/* Whether it has sizes that only its execution knows. */
static bool is_open(const struct graph_ps_call *call)
{
	const struct graph_part *part = &call->plan->parts[call->part];
	bool open = false;

	for (uint32_t i = 0; i < part->nodes_count; i++)
		open = open || call->plan->graph->nodes[part->nodes[i]]->op == GRAPH_HEAD;
	return open;
}

static int wait(void *ctx, const struct graph_ps_call *call, void *token, struct star_error *err)
{
	struct plain_ps *plain = ctx;
	const struct prepared *p = call->prepared;
	const struct graph_part *part = &call->plan->parts[call->part];
	struct graph_tensor *tensors = p->tensors[call->run];

	plain->in_flight--;
	note(plain, call, true);
	if (fails(plain, false))
		return star_error_set(err, -ECONNRESET, "it is gone");
	if (sum_of_feeds(call) != (uintptr_t)token)
		return star_error_set(err, -EINVAL, "feeds changed while the call was in flight");
	for (uint32_t i = 0; i < part->feeds_count; i++) {
		struct graph_tensor *mine = &tensors[call->plan->first[part->feeds[i].node] + part->feeds[i].output];

		mine->type = call->feeds[i].type;
		memcpy(mine->data, call->feeds[i].data, graph_type_bytes(&mine->type));
	}
	/* Handles may be in other parts, or in none. */
	for (uint32_t n = 0; n < call->plan->graph->nodes_count; n++)
		if (is_handle(call->plan->graph->nodes[n]))
			tensors[call->plan->first[n]].type = call->plan->types[call->plan->first[n]];
	for (uint32_t i = 0; i < part->nodes_count; i++)
		if (run_node(plain, p, call, call->plan->graph->nodes[part->nodes[i]], err) < 0)
			return -EINVAL;
	for (uint32_t i = 0; i < part->fetches_count; i++) {
		const struct graph_tensor *made =
			&tensors[call->plan->first[part->fetches[i].node] + part->fetches[i].output];

		if (graph_type_bytes(&made->type) > graph_type_bytes(&call->fetches[i].type) ||
		    (!is_open(call) && !graph_shape_same(&made->type.shape, &call->fetches[i].type.shape)))
			return star_error_set(err, -EINVAL, "a fetch is of another size than it was said to be");
		call->fetches[i].type = made->type;
		memcpy(call->fetches[i].data, made->data, graph_type_bytes(&made->type));
	}
	return 0;
}

void plain_ps_init(struct plain_ps *plain)
{
	*plain = (struct plain_ps){
		.ps = { .ctx = plain, .prepare = prepare, .release = release, .start = start, .wait = wait },
		.fail_after = -1,
	};
}
