/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "config/config.h"
#include "offload/compile.h"
#include "offload/cut.h"
#include "train/claim.h"
#include "train/internal.h"
#include "train/local.h"
#include "train/lost.h"
#include "train/narrow.h"
#include "train/remote.h"
#include "offload/traffic.h"

/* Creates variables and tables, and the plan with its memory layout. */
static int make_plan(struct session *s, struct star_error *err)
{
	const struct session_config *c = &s->config;
	const struct graph_plan_options options = {
		.feeds = s->model.feeds,
		.feeds_count = s->model.feeds_count,
		.ps = s->ps,
		.intra_op = c->intra_op_parallelism_threads,
		.inter_op = c->inter_op_parallelism_threads,
		.seed = c->seed,
	};

	s->plan = graph_compile(s->model.graph, s->cut, &options, err);
	if (!s->plan)
		return err->code;
	for (uint32_t i = 0; i < c->steps_in_flight; i++) {
		s->flights[i].run = graph_run_create(s->plan, err);
		if (!s->flights[i].run)
			return err->code;
	}
	return 0;
}

/* Prints what could not be merged, and why: once per job; not for an evaluation, and not if logging is off. */
void session_tell_warnings(const struct graph_cut *cut)
{
	for (uint32_t i = 0; i < cut->warnings_count; i++)
		fprintf(stderr, "warning: %s\n", cut->warnings[i]);
	for (uint32_t i = 0; i < cut->bodies_count; i++) {
		session_tell_warnings(cut->bodies[i].cond);
		session_tell_warnings(cut->bodies[i].body);
	}
}

/* The largest types of all values; NULL: only those of the graph are known. The caller frees it. */
static struct graph_type **most_of(const struct session *s)
{
	const struct graph *graph = s->model.graph;
	struct graph_type *feeds = calloc(graph->nodes_count + 1, sizeof(*feeds)), **types;
	struct star_error ignored;
	uint32_t count = 0;

	if (!feeds)
		return NULL;
	for (uint32_t v = 0; v < graph->nodes_count; v++) {
		if (graph->nodes[v]->op != GRAPH_FEED)
			continue;
		feeds[count] = graph->nodes[v]->outputs[0];
		for (uint32_t f = 0; f < s->model.feeds_count; f++)
			if (!strcmp(s->model.feeds[f].name, graph->nodes[v]->name))
				feeds[count] = s->model.feeds[f].type;
		count++;
	}
	types = graph_infer_most(graph, feeds, count, &ignored);
	free(feeds);
	return types;
}

int session_make_cut(struct session *s, enum session_moves moves, struct star_error *err)
{
	const struct session_config *c = &s->config;
	const uint32_t tasks = session_count_tasks(c->ps, err);
	struct graph_type **types = most_of(s);
	const struct graph_cut_options options = {
		.protocol = graph_protocol_parse(c->protocol, err),
		.fuse = c->tensor_fuse,
		.ps_tasks = tasks,
		.reactors = tasks ? (star_reactors(s->cluster) + tasks - 1) / tasks : 0,
		/* Nothing is moved to PS tasks in this process, because that saves no traffic; nor in a synchronous
		 * job, where PS tasks sum gradients as workers send them. */
		.no_offload = moves != SESSION_OFFLOADS || session_is_local(c) ||
			      session_consistency(c) == SESSION_SYNCHRONOUS,
		.worker_only = moves == SESSION_WORKER_ONLY || session_is_local(c),
		.may_move = offload_compile_may_move,
		.count = offload_traffic_count,
		.types = types,
	};

	graph_cut_destroy(s->cut);
	s->cut = NULL;
	if (options.ps_tasks == 0) {
		free(types);
		return err->code;
	}
	s->cut = graph_cut_create(s->model.graph, &options, err);
	free(types);
	return s->cut ? 0 : err->code;
}

static bool has_moved(const struct graph_cut *cut)
{
	bool moved = cut->moved_count > 0;

	for (uint32_t i = 0; i < cut->bodies_count && !moved; i++)
		moved = has_moved(cut->bodies[i].body) || has_moved(cut->bodies[i].cond);
	return moved;
}

static void drop_plan(struct session *s)
{
	for (uint32_t i = 0; i < SESSION_IN_FLIGHT_MAX; i++) {
		graph_run_destroy(s->flights[i].run);
		s->flights[i].run = NULL;
	}
	graph_plan_destroy(s->plan);
	s->plan = NULL;
}

/*
 * If what was moved is too large for one program, it stays in the worker after all; in the end, so does what the
 * graph's author has placed on PS tasks but they cannot execute.
 */
static int make_plan_somehow(struct session *s, struct star_error *err)
{
	/* What is worth moving depends on the number of reactors. */
	int rc = has_moved(s->cut) && star_reactors(s->cluster) != session_count_tasks(s->config.ps, err)
			 ? session_make_cut(s, SESSION_OFFLOADS, err)
			 : 0;

	if (rc == 0)
		rc = make_plan(s, err);
	while (rc == -ENOTSUP && !s->cut->worker_only) {
		const bool moved = has_moved(s->cut);

		fprintf(stderr, "warning: %s%s\n",
			moved ? "nothing is moved to PS tasks: " : "the worker computes all: ", err->text);
		drop_plan(s);
		rc = session_make_cut(s, moved ? SESSION_NO_OFFLOAD : SESSION_WORKER_ONLY, err);
		if (rc == 0)
			rc = make_plan(s, err);
	}
	return rc;
}

/* The counter that the graph increments; otherwise one that it reads under the same name. */
void session_find_counter(struct session *s)
{
	const struct graph *graph = s->model.graph;

	for (uint32_t i = 0; i < graph->nodes_count && !s->counter.adds; i++) {
		const struct graph_node *node = graph->nodes[i];

		s->counter.adds = node->op == GRAPH_STEP_ADD;
		while (node->op == GRAPH_STEP_ADD || node->op == GRAPH_IDENTITY)
			node = graph->nodes[node->inputs[0].node];
		if (node->op == GRAPH_VARIABLE && (s->counter.adds || !strcmp(node->name, SESSION_GLOBAL_STEP)))
			s->counter.name = node->name;
	}
}

/* The global step of the job: in this process, or on the PS tasks. */
static int read_counter(struct session *s, struct star_error *err)
{
	double value = 0;
	struct star_op op = { .kind = STAR_PULL, .flags = STAR_READ_ONLY, .dtype = "float64", .values = &value };
	int rc = 0;

	if (!s->counter.name)
		return 0;
	if (session_is_local(&s->config)) {
		value = train_local_scalar(s->counter.name);
	} else {
		op.table = star_lookup(s->cluster, s->counter.name, s->config.deadline_us, err);
		rc = op.table ? star_execute(s->cluster, &op, 1, s->config.deadline_us, err) : err->code;
	}
	if (rc == 0)
		train_flights_recount(s, value > 0 && value < 0x1p53 ? (uint64_t)value : 0);
	return rc;
}

void session_disconnect(struct session *s)
{
	train_peers_close(s->peers, false);
	drop_plan(s);
	if (session_is_local(&s->config))
		train_local_destroy(s->ps);
	else
		train_remote_destroy(s->ps);
	star_close(s->cluster);
	s->ps = NULL;
	s->cluster = NULL;
	s->peers = NULL;
}

/* The rates with which the leader of a synchronous job applies gradients. */
static void tell_rates(const struct remote_update *updates, uint32_t count, double settings[static PEERS_SETTINGS])
{
	uint64_t hash = 1;
	unsigned rates = 0;
	double sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t bits = 0;

		if (updates[i].has_rate)
			memcpy(&bits, &updates[i].rate, sizeof(bits));
		hash = hash_mix(hash ^ (bits + (uint64_t)updates[i].has_rate));
		sum += updates[i].has_rate ? (double)updates[i].rate : 0;
		rates += updates[i].has_rate;
	}
	settings[PEERS_RATE] = rates ? sum / rates : 0;
	settings[PEERS_RATES] = (double)((hash >> 12) + 1);
}

static int join_peers(struct session *s, struct star_error *err)
{
	const struct session_config *c = &s->config;
	const bool together = session_consistency(c) == SESSION_SYNCHRONOUS;
	struct peers_options options = {
		.cluster = s->cluster,
		.job = c->job,
		.index = c->task_index,
		.count = c->workers,
		.lease_us = c->lease_us,
		.deadline_us = c->deadline_us,
		.clock = s->clock,
		.again = s->had_peers,
		.settings = { [PEERS_CONSISTENCY] = together ? 3 : 2, [PEERS_WORKERS] = c->workers }
	};
	const struct remote_update *updates;
	uint32_t updates_count;

	if (session_consistency(c) == SESSION_ASYNCHRONOUS)
		return 0;
	updates_count = train_remote_updates(s->ps, &updates);
	if (together) {
		options.settings[PEERS_GRADS_TO_WAIT] = c->grads_to_wait;
		options.settings[PEERS_MEAN_BY_ROW] = c->mean_by_row ? 2 : 1;
		tell_rates(updates, updates_count, options.settings);
	}
	s->peers = train_peers_open(&options, err);
	if (!s->peers)
		return err->code;
	s->had_peers = true;
	if (!together)
		return 0;
	if (train_claim(&options, updates, updates_count, err) < 0)
		return err->code;
	return train_sync_attach(&s->sync, s->cluster, s->peers, updates, updates_count, err);
}

/*
 * Whether the environment sets the number of I/O threads, or their cores: then they are used. By default they are not:
 * the thread that executes a step receives replies itself, which saves two wake-ups per request. With a worker's file
 * ("dpdk:"), whose settings are not the environment's, one thread does it in any case.
 */
static bool wants_io_threads(const char *ps)
{
	struct config_worker worker = { 0 };
	struct star_error ignored;

	return strncmp(ps, "dpdk:", 5) != 0 && config_worker_environment(&worker, &ignored) == 0 &&
	       (worker.io_threads || worker.pin);
}

static int open_remote(struct session *s, uint64_t until_ns, struct star_error *err)
{
	const struct session_config *c = &s->config;
	const bool synchronous = session_consistency(c) == SESSION_SYNCHRONOUS;
	const uint64_t now_ns = clock_ns();

	s->cluster = star_open(c->ps, (until_ns > now_ns ? until_ns - now_ns : 0) / 1000 + 1, err);
	if (!s->cluster)
		return err->code;
	s->reached = true;
	s->ps = train_remote_create(&(struct remote_options){ .cluster = s->cluster,
							      .deadline_us = c->deadline_us,
							      .until_ns = until_ns,
							      .admit = synchronous ? train_sync_admit : NULL,
							      .refused = train_sync_refused,
							      .arg = &s->sync,
							      .mean_by_row = c->mean_by_row ? s->model.graph : NULL,
							      .wire = (unsigned)train_narrow_parse(c->wire, NULL),
							      .io_threads = wants_io_threads(c->ps),
							      .wait = !session_is_chief(c) });
	return s->ps ? 0 : star_error_set(err, -ENOMEM, "no memory for a session");
}

/* 1: the PS tasks have a table or variable of the graph other than the counter of steps, which all models have; 0:
 * none; or the error that prevented the check. */
static int holds_model(const struct session *s, bool *has_any, struct star_error *err)
{
	const struct graph *graph = s->model.graph;

	*has_any = false;
	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];

		if ((node->op != GRAPH_VARIABLE && node->op != GRAPH_TABLE) ||
		    (s->counter.name && !strcmp(node->name, s->counter.name)))
			continue;
		*has_any = true;
		if (star_lookup(s->cluster, node->name, s->config.deadline_us, err))
			return 1;
		if (err->code != -ENOENT)
			return err->code;
	}
	return 0;
}

/* Before anything is created, for a session that creates nothing. The counter is not checked, because all models have
 * it. */
static int check_exist(const struct session *s, struct star_error *err)
{
	const struct graph *graph = s->model.graph;

	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];
		const bool table = node->op == GRAPH_TABLE;

		if ((node->op != GRAPH_VARIABLE && !table) ||
		    star_lookup(s->cluster, node->name, s->config.deadline_us, err))
			continue;
		if (err->code != -ENOENT)
			return err->code;
		return star_error_set(
			err, -ENOTRECOVERABLE,
			"the PS tasks have no %s \"%.200s\": the model was not trained on them, or with other "
			"options, or they were restarted empty; train it first, or restore a checkpoint "
			"(starctl checkpoint restore)",
			table ? "table" : "variable", node->name);
	}
	return 0;
}

/* The counter's value on the PS tasks; 0: it does not exist. */
static int read_held_step(const struct session *s, uint64_t *step, struct star_error *err)
{
	double value = 0;
	struct star_op op = { .kind = STAR_PULL, .flags = STAR_READ_ONLY, .dtype = "float64", .values = &value };
	int rc;

	*step = 0;
	op.table = star_lookup(s->cluster, s->counter.name, s->config.deadline_us, err);
	if (!op.table)
		return err->code == -ENOENT ? 0 : err->code;
	rc = star_elements(op.table) == 1 ? star_execute(s->cluster, &op, 1, s->config.deadline_us, err) : 0;
	*step = value > 0 && value < 0x1p53 ? (uint64_t)value : 0;
	return rc;
}

/*
 * Detects a job that has trained, according to its summaries, but of which the PS tasks have nothing: they were
 * restarted empty, even if other models have counted steps there since. The job would start from scratch, and its next
 * checkpoints would replace those from which it could continue. So this is checked before anything is created. PS tasks
 * that were restored from an earlier checkpoint are a valid state to continue from.
 */
static int check_held(struct session *s, struct star_error *err)
{
	const uint64_t last = s->summary_step;
	uint64_t step = 0;
	bool has_any;
	int held;

	if (!last || !s->counter.name || !s->cluster)
		return 0;
	held = holds_model(s, &has_any, err);
	if (held >= 0 && read_held_step(s, &step, err) < 0)
		held = err->code;
	if (held < 0)
		return held;
	if (step == 0 || (has_any && !held))
		return star_error_set(
			err, -ENOTRECOVERABLE,
			"model_dir %.200s has summaries up to global step %" PRIu64
			", but the PS tasks have nothing of that job%s: to continue, restore a checkpoint (starctl "
			"checkpoint restore); to start from scratch, use another model_dir, or empty it",
			s->config.model_dir, last,
			step ? ", although others have counted steps there since" : ", not even a global step");
	if (step < last)
		fprintf(stderr,
			"model_dir %s has summaries up to global step %" PRIu64 ", but the PS tasks are at %" PRIu64
			", at an earlier checkpoint: training continues from there\n",
			s->config.model_dir, last, step);
	s->summary_step = 0;
	return 0;
}

enum { NAMED = 3 };

/* What the PS tasks have of the model, and the names of the first missing objects. */
struct held {
	uint32_t there, missing;
	char names[NAMED * 80];
};

static int look_what_is_held(const struct session *s, struct held *held, struct star_error *err)
{
	const struct graph *graph = s->model.graph;
	int used = 0;

	*held = (struct held){ 0 };
	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];

		if ((node->op != GRAPH_VARIABLE && node->op != GRAPH_TABLE) ||
		    (s->counter.name && !strcmp(node->name, s->counter.name)))
			continue;
		if (star_lookup(s->cluster, node->name, s->config.deadline_us, err)) {
			held->there++;
			continue;
		}
		if (err->code != -ENOENT)
			return err->code;
		if (held->missing++ < NAMED)
			used += snprintf(held->names + used, sizeof(held->names) - (size_t)used, "%s\"%.70s\"",
					 used ? ", " : "", node->name);
	}
	if (held->missing > NAMED)
		snprintf(held->names + used, sizeof(held->names) - (size_t)used, ", ...");
	return 0;
}

/* A job without summaries may be meant to train with what is left; a message says so. */
static int check_lost(const struct session *s, bool goes_on, struct star_error *err)
{
	const int rc = train_lost_check(s->cluster, s->model.graph, s->config.deadline_us, err);

	if (rc != -ENOTRECOVERABLE || goes_on)
		return rc;
	fprintf(stderr, "%s\n", err->text);
	return 0;
}

/*
 * A part of the model exists, the rest does not: it was trained with other options, or by another version of its code.
 * The missing objects would be created, and would start untrained beside trained ones, which nothing would show but the
 * loss. A job that continues according to its summaries is refused; otherwise it may be intended, for example for a
 * model that uses another one's tables.
 */
static int check_whole(const struct session *s, bool goes_on, struct star_error *err)
{
	struct held held;
	const int rc = look_what_is_held(s, &held, err);

	if (rc < 0 || !held.there)
		return rc;
	if (!held.missing)
		return check_lost(s, goes_on, err);
	if (goes_on)
		return star_error_set(err, -ENOTRECOVERABLE,
				      "model_dir %.200s has summaries of this job, but the PS tasks have only %" PRIu32
				      " of the model's %" PRIu32
				      " tables and variables, without %s: use the options that it was trained with; "
				      "to train another model with these, use another model_dir",
				      s->config.model_dir, held.there, held.there + held.missing, held.names);
	fprintf(stderr,
		"the PS tasks hold %" PRIu32 " of the model's %" PRIu32
		" tables and variables; these are new and untrained: %s. To continue training a model, use the "
		"options that it was trained with\n",
		held.there, held.there + held.missing, held.names);
	return 0;
}

/* An open cluster belongs to one incarnation of each node: after a restart it is opened again. */
int session_connect(struct session *s, uint64_t until_ns, struct star_error *err)
{
	const bool goes_on = s->summary_step != 0;
	int rc = 0;

	if (session_is_local(&s->config))
		s->ps = train_local_create(err);
	else
		rc = open_remote(s, until_ns, err);
	if (!s->ps)
		rc = err->code;
	if (rc == 0)
		rc = check_held(s, err);
	if (rc == 0 && s->cluster && s->config.must_exist)
		rc = check_exist(s, err) < 0 ? err->code
					     : train_lost_check(s->cluster, s->model.graph, s->config.deadline_us, err);
	else if (rc == 0 && s->cluster && session_is_chief(&s->config))
		rc = check_whole(s, goes_on, err);
	if (rc == 0)
		rc = make_plan_somehow(s, err);
	if (rc == 0)
		rc = read_counter(s, err);
	if (rc == 0 && s->cluster)
		rc = join_peers(s, err);
	if (rc < 0)
		session_disconnect(s);
	return rc;
}
