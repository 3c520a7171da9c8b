/* SPDX-License-Identifier: BSD-3-Clause */
#include "exec/exec.h"
#include "tests/graph/numeric.h"

#include <stdio.h>
#include <stdlib.h>

#include "graph/gradient.h"
#include "tests/graph/support.h"
#include "tests/unit.h"

enum { OF_MOST = 24, RESULTS_MOST = 64, SAMPLES = 12 };

void numeric_init(struct numeric *n, uint64_t seed, bool unknown)
{
	*n = (struct numeric){ .g = graph_create(), .unknown = unknown };
	prng_seed(&n->p, seed);
	plain_ps_init(&n->ps);
}

void numeric_fini(struct numeric *n)
{
	for (uint32_t i = 0; i < n->count; i++)
		free(n->tensors[i].data);
	plain_ps_fini(&n->ps);
	graph_destroy(n->g);
}

static void put(struct graph_tensor *t, int64_t i, double x)
{
	switch (t->type.dtype) {
	case STAR_FLOAT64:
		((double *)t->data)[i] = x;
		break;
	case STAR_INT32:
		((int32_t *)t->data)[i] = (int32_t)floor(x);
		break;
	default:
		((int64_t *)t->data)[i] = (int64_t)floor(x);
	}
}

void numeric_fill(struct numeric *n, const char *name, const int64_t *dims, size_t ndim, double least, double most)
{
	const struct graph_node *node = graph_find(n->g, name);
	struct graph_plan_feed *feed = &n->feeds[n->count];
	struct graph_tensor *t = &n->tensors[n->count];

	if (!CHECK(node && n->count < NUMERIC_FEEDS))
		return;
	n->values[n->count++] = (struct graph_value){ node->id, 0 };
	feed->name = node->name;
	feed->type = node->outputs[0];
	for (size_t i = 0; i < ndim; i++)
		feed->type.shape.dims[i] = dims[i];
	t->type = feed->type;
	t->data = malloc(graph_type_bytes(&t->type) + 1);
	for (int64_t i = 0; i < graph_elements(&t->type.shape); i++)
		put(t, i, least + (most - least) * prng_unit(&n->p));
}

struct graph_value numeric_feed(struct numeric *n, unsigned dtype, const int64_t *dims, size_t ndim, double least,
				double most)
{
	int64_t known[GRAPH_DIMS_MAX];
	char name[16];
	struct graph_value value;

	for (size_t i = 0; i < ndim; i++)
		known[i] = i == 0 && n->unknown ? -1 : dims[i];
	snprintf(name, sizeof(name), "in%u", n->count);
	value = graph_feed(n->g, name, dtype, known, ndim);
	numeric_fill(n, name, dims, ndim, least, most);
	return value;
}

/* What is compared: where the numbers are, and the gradient that was computed. */
struct compared {
	const char *name;
	double *values;
	int64_t count;
	double *gradient;
};

static double step(struct numeric *n, struct stepper *s, struct graph_tensor *fetches)
{
	if (graph_run_step(s->run, 1, n->tensors, fetches, &s->err) < 0) {
		unit_fail(__FILE__, __LINE__, "%s", s->err.text);
		return 0;
	}
	return *(const double *)fetches[0].data;
}

static void compare(struct numeric *n, struct stepper *s, const char *what, struct compared *c)
{
	const double h = 1e-5;
	struct graph_tensor fetches[RESULTS_MOST];

	for (int64_t k = 0; k < SAMPLES && k < c->count; k++) {
		const int64_t i = c->count <= SAMPLES ? k : prng_below(&n->p, (uint32_t)c->count);
		const double old = c->values[i];
		double more, less, slope;

		c->values[i] = old + h;
		more = step(n, s, fetches);
		c->values[i] = old - h;
		less = step(n, s, fetches);
		c->values[i] = old;
		slope = (more - less) / (2 * h);
		if (!(fabs(slope - c->gradient[i]) <= 1e-6 * (1 + fabs(slope))))
			unit_fail(__FILE__, __LINE__, "%s: gradient of %s at %lld is %.9g, by differences %.9g", what,
				  c->name, (long long)i, c->gradient[i], slope);
	}
}

/* Adds what the fetches say of one value to its gradient; returns how many fetches it took. */
static uint32_t take(const struct graph_gradient *g, const struct graph_tensor *fetches, struct compared *c,
		     int64_t width)
{
	uint32_t taken = 0;

	if (!graph_is_none(g->dense)) {
		const struct graph_tensor *t = &fetches[taken++];

		CHECK_INT(graph_elements(&t->type.shape), c->count);
		for (int64_t i = 0; i < c->count && i < graph_elements(&t->type.shape); i++)
			c->gradient[i] += ((const double *)t->data)[i];
	}
	for (uint32_t p = 0; p < g->pairs_count; p++) {
		const struct graph_tensor *ids = &fetches[taken++], *rows = &fetches[taken++];
		const int64_t count = graph_elements(&ids->type.shape);

		CHECK_INT(graph_elements(&rows->type.shape), count * width);
		for (int64_t i = 0; i < count; i++)
			for (int64_t k = 0; k < width; k++)
				c->gradient[((const int64_t *)ids->data)[i] * width + k] +=
					((const double *)rows->data)[i * width + k];
	}
	return taken;
}

/* What is asked for: float64 feeds, variables and tables. Their numbers are there after a first step. */
static uint32_t find(struct numeric *n, struct graph_value *of)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n->count; i++)
		if (n->tensors[i].type.dtype == STAR_FLOAT64)
			of[count++] = n->values[i];
	for (uint32_t i = 0; i < n->g->nodes_count && count < OF_MOST; i++)
		if (n->g->nodes[i]->op == GRAPH_VARIABLE || n->g->nodes[i]->op == GRAPH_TABLE)
			of[count++] = (struct graph_value){ i, 0 };
	return count;
}

static void find_numbers(struct numeric *n, struct graph_value of, struct compared *c, int64_t *width)
{
	c->name = n->g->nodes[of.node]->name;
	*width = 1;
	for (uint32_t i = 0; i < n->count; i++)
		if (graph_same(n->values[i], of)) {
			c->values = n->tensors[i].data;
			c->count = graph_elements(&n->tensors[i].type.shape);
		}
	for (uint32_t i = 0; i < n->ps.count; i++)
		if (!strcmp(n->ps.variables[i].name, c->name)) {
			c->values = n->ps.variables[i].values;
			*width = n->ps.variables[i].width;
			c->count = n->ps.variables[i].rows * *width;
		}
	c->gradient = calloc((size_t)c->count + 1, sizeof(*c->gradient));
}

void numeric_check(struct numeric *n, const char *what, struct graph_value loss)
{
	struct graph_plan_options options = { .feeds = n->feeds, .feeds_count = n->count, .ps = &n->ps.ps, .seed = 3 };
	struct graph_value of[OF_MOST], results[RESULTS_MOST] = { loss };
	struct graph_gradient gradients[OF_MOST];
	struct graph_tensor fetches[RESULTS_MOST];
	struct compared compared[OF_MOST] = { 0 };
	uint32_t count = find(n, of), results_count = 1, next = 1;
	struct stepper s;

	if (graph_gradients(n->g, loss, of, count, gradients) < 0) {
		unit_fail(__FILE__, __LINE__, "%s: %s", what, n->g->err.text);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (!graph_is_none(gradients[i].dense))
			results[results_count++] = gradients[i].dense;
		for (uint32_t p = 0; p < gradients[i].pairs_count; p++) {
			results[results_count++] = gradients[i].pairs[p].ids;
			results[results_count++] = gradients[i].pairs[p].rows;
		}
	}
	graph_set_results(n->g, results, results_count);
	if (!stepper_begin(&s, n->g, NULL, &options)) {
		unit_fail(__FILE__, __LINE__, "%s: %s", what, s.err.text);
	} else {
		step(n, &s, fetches);
		for (uint32_t i = 0; i < count && !s.err.code; i++) {
			int64_t width;

			find_numbers(n, of[i], &compared[i], &width);
			next += take(&gradients[i], fetches + next, &compared[i], width);
		}
		for (uint32_t i = 0; i < count && !s.err.code; i++)
			compare(n, &s, what, &compared[i]);
	}
	for (uint32_t i = 0; i < count; i++)
		free(compared[i].gradient);
	stepper_end(&s);
}
