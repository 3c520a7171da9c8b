/* SPDX-License-Identifier: BSD-3-Clause */
/* Every kernel against its definition, on random shapes; with one thread and with three. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec.h"
#include "exec/kernel.h"
#include "tests/graph/cases.h"
#include "tests/graph/trial.h"
#include "tests/unit.h"

enum { TRIALS = 15, TRIALS_LONG = 60 };

static double tolerance(enum graph_op op, unsigned dtype)
{
	const bool differences = op == GRAPH_LAYER_NORM_GRAD || op == GRAPH_BATCH_NORM_GRAD ||
				 op == GRAPH_ATTENTION_GRAD || op == GRAPH_SIGMOID_LOSS_GRAD;

	if (dtype == STAR_FLOAT32)
		return differences ? 3e-4 : 2e-5;
	return differences ? 1e-6 : 1e-11;
}

/* Executes with n threads, into fetches. */
static struct graph_run *execute(struct trial *t, uint32_t threads, struct graph_plan **plan,
				 struct graph_tensor *fetches)
{
	struct graph_plan_feed feeds[TRIAL_INPUTS];
	struct graph_tensor given[TRIAL_INPUTS];
	char names[TRIAL_INPUTS][16];
	struct star_error err = { 0 };
	struct graph_plan_options options = { .feeds = feeds, .feeds_count = t->count, .intra_op = threads };
	struct graph_run *run = NULL;

	for (uint32_t i = 0; i < t->count; i++) {
		snprintf(names[i], sizeof(names[i]), "x%u", i);
		feeds[i] = (struct graph_plan_feed){ names[i], t->types[i] };
		given[i] = (struct graph_tensor){ t->types[i], t->data[i] };
	}
	*plan = graph_compile(t->graph, NULL, &options, &err);
	if (*plan)
		run = graph_run_create(*plan, &err);
	if (!run || graph_run_step(run, 1, given, fetches, &err) < 0) {
		unit_fail(__FILE__, __LINE__, "%s", err.text);
		graph_run_destroy(run);
		return NULL;
	}
	return run;
}

static bool compare(const struct graph_node *node, uint32_t o, const struct graph_tensor *got,
		    const struct reference_tensor *wanted, uint64_t seed)
{
	for (int64_t i = 0; i < graph_elements(&wanted->type.shape); i++) {
		const double x = trial_load(got->type.dtype, got->data, i), y = wanted->values[i];

		if (x == y || fabs(x - y) <= tolerance(node->op, got->type.dtype) * (1 + fabs(y)))
			continue;
		return unit_fail(__FILE__, __LINE__, "%s, seed %llu: output %u, element %lld is %.17g, not %.17g",
				 graph_op_name(node->op), (unsigned long long)seed, o, (long long)i, x, y);
	}
	return true;
}

static bool check(struct trial *t, const struct graph_node *node, uint64_t seed)
{
	static double values[GRAPH_DIMS_MAX][2 * REFERENCE_ELEMENTS];
	struct reference_tensor in[TRIAL_INPUTS], wanted[8];
	struct graph_tensor one[8], three[8];
	struct graph_plan *plan, *plan_three;
	struct graph_run *run = execute(t, 1, &plan, one), *run_three = execute(t, 3, &plan_three, three);
	bool good = run && run_three;

	for (uint32_t i = 0; i < t->count; i++)
		in[i] = (struct reference_tensor){ .type = t->types[i], .values = t->values[i] };
	for (uint32_t o = 0; good && o < node->outputs_count; o++) {
		wanted[o] = (struct reference_tensor){ .type = one[o].type, .values = values[o] };
		good = CHECK_MEM(three[o].data, one[o].data, graph_type_bytes(&one[o].type));
	}
	good = good && CHECK(reference_run(node, in, wanted));
	for (uint32_t o = 0; good && o < node->outputs_count; o++)
		good = compare(node, o, &one[o], &wanted[o], seed);
	graph_run_destroy(run);
	graph_run_destroy(run_three);
	graph_plan_destroy(plan);
	graph_plan_destroy(plan_three);
	return good;
}

static bool try(enum graph_op op, void (*inputs)(struct trial *t, enum graph_op op), bool zero, uint64_t seed)
{
	struct trial *t = calloc(1, sizeof(*t));
	struct star_error err;
	struct graph_value value;
	bool good = false;

	prng_seed(&t->prng, seed);
	t->graph = graph_create();
	t->real = prng_below(&t->prng, 2) ? STAR_FLOAT32 : STAR_FLOAT64;
	t->zero = zero;
	inputs(t, op);
	value = graph_add(t->graph, &(struct graph_node_spec){ .op = op,
							       .inputs = t->inputs,
							       .inputs_count = t->count,
							       .attrs = t->attrs,
							       .attrs_count = t->attrs_count });
	if (graph_error(t->graph, &err) < 0) {
		unit_fail(__FILE__, __LINE__, "%s, seed %llu: %s", graph_op_name(op), (unsigned long long)seed,
			  err.text);
	} else {
		const struct graph_node *node = t->graph->nodes[value.node];
		struct graph_value results[8];

		for (uint32_t o = 0; o < node->outputs_count; o++)
			results[o] = (struct graph_value){ value.node, o };
		graph_set_results(t->graph, results, node->outputs_count);
		good = check(t, node, seed);
	}
	graph_destroy(t->graph);
	free(t);
	return good;
}

void kernels_do_what_is_defined(void)
{
	const char *given = getenv("SEED");
	const uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
	const unsigned trials = getenv("STAR_SOAK") ? TRIALS_LONG : TRIALS;

	for (unsigned i = 0; i < trial_makers_count; i++)
		for (unsigned k = 0; k < trials; k++)
			if (!try(trial_makers[i].op, trial_makers[i].inputs, trial_makers[i].zero,
				 seed * 1000000 + i * 1000 + k))
				break;
}

/* By PS tasks, or by what executes graphs. */
static bool is_done_elsewhere(enum graph_op op)
{
	return graph_op_info(op)->place == GRAPH_ON_PS || op == GRAPH_FEED || op == GRAPH_WHILE || op == GRAPH_COND;
}

/* Every operation is in the table above, or has a case of its own, or is done elsewhere. */
void every_kernel_is_compared(void)
{
	for (enum graph_op op = GRAPH_NO_OP + 1; op < GRAPH_OPS_END; op++) {
		bool compared = op == GRAPH_CONST || op == GRAPH_RANDOM || op == GRAPH_DROPOUT || op == GRAPH_UNIQUE ||
				op == GRAPH_HASH_CROSS || op == GRAPH_HEAD; /* gradients.c */

		for (unsigned i = 0; i < trial_makers_count; i++)
			compared = compared || trial_makers[i].op == op;
		if (kernel_exists(op) && !compared)
			unit_fail(
				__FILE__, __LINE__,
				"the kernel of %s is compared with nothing: add it to trial_makers (trial.c), and its "
				"formula to reference.c",
				graph_op_name(op));
		if (!kernel_exists(op) && (compared || !is_done_elsewhere(op)))
			unit_fail(__FILE__, __LINE__, "%s has no kernel in lib/exec/kernel.c", graph_op_name(op));
	}
}
