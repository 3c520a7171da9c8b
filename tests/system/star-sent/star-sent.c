/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a session sends: star-sent PS MODEL PROTOCOL FILE [fuse] [apart] makes some steps of a model of the zoo, with
 * batches of tests/models/job.h's sizes, or of the graph in a file, and prints how many bytes of values all operations
 * of a step have brought to PS tasks and returned, as the library is given them. FILE gets the graph that was executed,
 * for `starctl graph explain`. fuse: with tensor_fuse; apart: a table for each column. Feeds of a graph in a file have
 * known sizes; ids are 0, 1, ..., numbers ITERATIONS, all else is 0.
 *
 * Repeated ids go as often as they come (train_dedup_find finds nothing here): how many do is the data's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec.h"
#include "client/client.h"
#include "client/run.h"
#include "graph/build.h"
#include "graph/gradient.h"
#include "graph/text.h"
#include "train/dedup.h"
#include "train/session.h"
#include "tests/models/job.h"

enum { STEPS = 4, ITERATIONS = 5 };

static struct {
	uint64_t to_ps, from_ps;
} sent;

/* ---- counting ---- */

/* Of a run's feed or fetch. */
static uint64_t rows_of(const struct star_run *run, const struct program_value *value, uint32_t keys)
{
	const uint64_t reactors = star_reactors(run->program->object->cluster);

	switch (value->axis) {
	case PROGRAM_BY_KEY:
		return keys;
	case PROGRAM_ONCE:
		return reactors;
	default: /* by segment, or pooled */
		return reactors * run->segments;
	}
}

static void count_run(const struct star_run *run)
{
	const struct star_program *p = run->program;
	const struct program *program = &p->object->spec.program;

	for (unsigned f = 0; f < p->feeds_count; f++) {
		const struct program_node *node = &program->nodes[p->feeds[f]];
		const uint32_t keys = run->feeds[node->op == PROGRAM_KEYS ? f : p->feed_of[node->a]].count;

		if (node->flags & PROGRAM_KEPT)
			continue;
		if (node->op == PROGRAM_KEYS)
			sent.to_ps += keys * sizeof(uint64_t);
		else if (program_segment_bytes(node->op))
			sent.to_ps += keys * program_segment_bytes(node->op);
		else
			sent.to_ps += rows_of(run, &p->shape.values[p->feeds[f]], keys) * node->dim * sizeof(float);
	}
	for (unsigned f = 0; f < p->fetches_count; f++) {
		const struct program_value *value = &p->shape.values[p->fetches[f]];

		const uint32_t keys = run->feeds[p->feed_of[p->shape.keys[value->keys].node]].count;

		sent.from_ps += rows_of(run, value, keys) * value->dim * sizeof(float);
	}
}

static void count(const struct star_op *ops, uint32_t ops_count)
{
	for (uint32_t i = 0; i < ops_count; i++) {
		const struct star_op *op = &ops[i];
		uint64_t bytes;

		if (op->kind == STAR_RUN) {
			count_run(op->run);
			continue;
		}
		bytes = star_bytes(op->table, op->dtype) * (op->keys ? op->count : 1);
		sent.to_ps += op->keys ? op->count * sizeof(uint64_t) : 0;
		sent.to_ps += op->kind == STAR_PULL ? 0 : bytes;
		sent.from_ps += op->kind == STAR_PULL || op->kind == STAR_PUSH_PULL ? bytes : 0;
	}
}

int __real_star_execute(struct star_cluster *cluster, struct star_op *ops, uint32_t count, uint64_t deadline_us,
			struct star_error *err);
struct star_request *__real_star_execute_async(struct star_cluster *cluster, const struct star_op *ops, uint32_t count,
					       uint64_t deadline_us, star_done *done, void *arg,
					       struct star_error *err);
int __wrap_star_execute(struct star_cluster *cluster, struct star_op *ops, uint32_t ops_count, uint64_t deadline_us,
			struct star_error *err);
struct star_request *__wrap_star_execute_async(struct star_cluster *cluster, const struct star_op *ops,
					       uint32_t ops_count, uint64_t deadline_us, star_done *done, void *arg,
					       struct star_error *err);
bool __wrap_train_dedup_find(struct dedup *dedup, const uint64_t *ids, uint32_t n);

int __wrap_star_execute(struct star_cluster *cluster, struct star_op *ops, uint32_t ops_count, uint64_t deadline_us,
			struct star_error *err)
{
	count(ops, ops_count);
	return __real_star_execute(cluster, ops, ops_count, deadline_us, err);
}

struct star_request *__wrap_star_execute_async(struct star_cluster *cluster, const struct star_op *ops,
					       uint32_t ops_count, uint64_t deadline_us, star_done *done, void *arg,
					       struct star_error *err)
{
	count(ops, ops_count);
	return __real_star_execute_async(cluster, ops, ops_count, deadline_us, done, arg, err);
}

bool __wrap_train_dedup_find(struct dedup *dedup, const uint64_t *ids, uint32_t n)
{
	return false;
}

/* ---- training ---- */

static int write_graph(const struct graph *graph, const char *path, struct star_error *err)
{
	char *text = graph_print(graph);
	FILE *file = text ? fopen(path, "w") : NULL;
	const bool good = file && fputs(text, file) >= 0;

	if ((file && fclose(file) != 0) || !good)
		star_error_set(err, -EIO, "%s cannot be written", path);
	free(text);
	return good ? 0 : err->code;
}

static int train(struct job *job, const struct session_config *config, struct star_error *err)
{
	static const char *const names[] = { SESSION_LOSS, SESSION_GLOBAL_STEP };
	const struct session_model model = { job->graph, names, job->feeds, job->feeds_count };
	struct session *session = session_create(config, &model, NULL, 0, err);
	const struct graph_tensor *results;
	int rc = session ? 0 : err->code;

	for (unsigned step = 0; rc == 0 && step < STEPS; step++) {
		const uint64_t to_ps = sent.to_ps, from_ps = sent.from_ps;

		if (job->options.model)
			job_fill(job, step, true);
		rc = session_run(session, job->tensors, &results, err);
		if (rc == 0)
			printf("%llu %llu\n", (unsigned long long)(sent.to_ps - to_ps),
			       (unsigned long long)(sent.from_ps - from_ps));
	}
	session_close(session, NULL);
	return rc;
}

static int add_feed(struct job *job, const struct graph_node *node, struct star_error *err)
{
	const struct graph_type *type = &node->outputs[0];
	const int64_t elements = graph_elements(&type->shape);
	void *data = elements >= 0 && job->feeds_count < FEEDS ? calloc(1, graph_type_bytes(type) + 1) : NULL;

	if (!data)
		return star_error_set(err, -EINVAL, "a graph has up to %d feeds of known sizes", FEEDS);
	for (int64_t i = 0; type->dtype == STAR_INT64 && i < elements; i++)
		((int64_t *)data)[i] = type->shape.ndim ? i : ITERATIONS;
	job->feeds[job->feeds_count] = (struct graph_plan_feed){ node->name, *type };
	job->tensors[job->feeds_count++] = (struct graph_tensor){ *type, data };
	return 0;
}

/* A graph with something trainable is trained, if it does not do so itself. */
static int load(struct job *job, const char *path, struct star_error *err)
{
	bool trains = false, trainable = false;
	int rc = 0;

	job->graph = graph_load(path, err);
	for (uint32_t v = 0; job->graph && rc == 0 && v < job->graph->nodes_count; v++) {
		trains |= job->graph->nodes[v]->op == GRAPH_APPLY_ROWS;
		trainable |= graph_attr_int(job->graph->nodes[v], "trainable", 0) != 0;
		if (job->graph->nodes[v]->op == GRAPH_FEED)
			rc = add_feed(job, job->graph->nodes[v], err);
	}
	if (job->graph && rc == 0 && trainable && !trains)
		graph_train(job->graph, job->graph->results[0], NULL, NULL);
	return job->graph ? rc : err->code;
}

/* The job of that name, with a counter of steps, as an estimator has it. */
static int make(struct job *job, const char *model, bool apart, struct star_error *err)
{
	const struct zoo_options options = { .model = zoo_model_find(model),
					     .apart = apart,
					     .optimizer = "adagrad",
					     .rate = 0.01,
					     .dense_optimizer = "adagrad",
					     .dense_rate = 0.01 };
	int rc = 0;

	if (options.model)
		job_build(job, &options, false);
	else
		rc = load(job, model, err);
	if (rc == 0)
		graph_set_results(job->graph,
				  (struct graph_value[]){ job->graph->results[0], graph_global_step(job->graph) }, 2);
	return rc == 0 ? graph_error(job->graph, err) : rc;
}

int main(int argc, char **argv)
{
	struct star_error err = { .text = "usage: star-sent PS MODEL PROTOCOL FILE [fuse] [apart]" };
	struct session_config config = { .log_step_count_steps = 1000000, .deadline_us = 20000000 };
	struct job job = { 0 };
	bool apart = false;
	int rc = -EINVAL;

	for (int i = 5; i < argc; i++) {
		config.tensor_fuse |= !strcmp(argv[i], "fuse");
		apart |= !strcmp(argv[i], "apart");
	}
	if (argc >= 5) {
		config.ps = argv[1];
		config.protocol = argv[3];
		rc = make(&job, argv[2], apart, &err);
	}
	if (rc == 0)
		rc = write_graph(job.graph, argv[4], &err);
	if (rc == 0)
		rc = train(&job, &config, &err);
	for (uint32_t i = 0; !job.options.model && i < job.feeds_count; i++)
		free(job.tensors[i].data);
	graph_destroy(job.graph);
	if (rc == 0)
		return EXIT_SUCCESS;
	fprintf(stderr, "star-sent: %s\n", err.text);
	return EXIT_FAILURE;
}
