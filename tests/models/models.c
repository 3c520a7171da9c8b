/* SPDX-License-Identifier: BSD-3-Clause */
/* The first losses of each model against those of the same model in PyTorch: golden.inc, which golden.py writes. */
#include <stdio.h>

#include "exec/exec.h"
#include "offload/cut.h"
#include "train/local.h"
#include "tests/models/cases.h"
#include "tests/models/job.h"
#include "tests/unit.h"

enum { STEPS = 100 };

static const double TOLERANCE = 1e-4; /* relative */

static const struct {
	const char *model, *optimizer;
	double rate;
	const char *dense_optimizer;
	double dense_rate;
	float losses[STEPS];
} vectors[] = {
#include "tests/models/golden.inc"
};

enum { VECTORS = sizeof(vectors) / sizeof(vectors[0]) };

/* ---- training ---- */

/* The greatest relative difference. */
static double follow(struct job *j, unsigned v, struct graph_run *run)
{
	struct star_error err = { 0 };
	double greatest = 0;

	for (unsigned step = 0; step < STEPS; step++) {
		const double wanted = (double)vectors[v].losses[step];
		struct graph_tensor loss;
		double found, far;

		job_fill(j, step, false);
		if (graph_run_step(run, step + 1, j->tensors, &loss, &err) < 0) {
			unit_fail(__FILE__, __LINE__, "%s, step %u: %s", vectors[v].model, step, err.text);
			break;
		}
		found = (double)*(const float *)loss.data;
		far = fabs(found - wanted) / wanted;
		greatest = fmax(greatest, far);
		if (!(far <= TOLERANCE)) {
			unit_fail(__FILE__, __LINE__, "%s by %s, loss %u: %.9g, not %.9g", vectors[v].model,
				  vectors[v].optimizer, step, found, wanted);
			break;
		}
	}
	return greatest;
}

/* The same. */
static double train(unsigned v, enum graph_protocol protocol)
{
	const struct graph_cut_options how = { .protocol = protocol, .ps_tasks = 1, .no_offload = true };
	struct star_error err = { 0 };
	struct graph_ps *ps = train_local_create(&err);
	struct graph_plan_options options = { .ps = ps };
	struct graph_plan *plan = NULL;
	struct graph_run *run = NULL;
	struct graph_cut *cut;
	double greatest = 0;
	struct job job;

	job_build(&job,
		  &(struct zoo_options){ .model = zoo_model_find(vectors[v].model),
					 .optimizer = vectors[v].optimizer,
					 .rate = vectors[v].rate,
					 .dense_optimizer = vectors[v].dense_optimizer,
					 .dense_rate = vectors[v].dense_rate },
		  true);
	options.feeds = job.feeds;
	options.feeds_count = job.feeds_count;
	CHECK_INT(graph_error(job.graph, &err), 0);
	cut = graph_cut_create(job.graph, &how, &err);
	if (ps && cut)
		plan = graph_compile(job.graph, cut, &options, &err);
	if (plan)
		run = graph_run_create(plan, &err);
	if (run)
		greatest = follow(&job, v, run);
	else
		unit_fail(__FILE__, __LINE__, "%s: %s", vectors[v].model, err.text);
	graph_run_destroy(run);
	graph_plan_destroy(plan);
	graph_cut_destroy(cut);
	graph_destroy(job.graph);
	train_local_destroy(ps);
	train_local_forget();
	return greatest;
}

static void first_losses_are_those_of_pytorch(void)
{
	double greatest = 0;

	for (unsigned v = 0; v < VECTORS; v++)
		greatest = fmax(greatest, train(v, GRAPH_STAR_SERVER));
	printf("# at most %.2g from PyTorch's losses\n", greatest);
}

static void every_protocol_has_them(void)
{
	for (unsigned v = 0; v < VECTORS; v++)
		if (!strcmp(vectors[v].optimizer, "adam")) {
			train(v, GRAPH_GRPCPP);
			train(v, GRAPH_STAR_SERVER_LITE);
		}
}

static void every_model_has_vectors(void)
{
	for (const struct zoo_model *model = zoo_models; model->name; model++) {
		bool has = false;

		for (unsigned v = 0; v < VECTORS; v++)
			has |= !strcmp(vectors[v].model, model->name);
		if (!has)
			unit_fail(__FILE__, __LINE__, "golden.py lacks %s", model->name);
	}
}

const char *const unit_suite = "models";
const struct unit_case unit_cases[] = {
	{ "first losses are those of PyTorch", first_losses_are_those_of_pytorch },
	{ "every protocol has them", every_protocol_has_them },
	{ "every model has vectors", every_model_has_vectors },
	{ "windows follow one another", windows_follow_one_another },
	{ "workers share sentences", workers_share_sentences },
	{ "pairs are near each other", pairs_are_near_each_other },
	{ "a text without pairs is refused", a_text_without_pairs_is_refused },
	{ NULL, NULL },
};
