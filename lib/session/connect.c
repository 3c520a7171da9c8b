/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "session/compile.h"
#include "session/internal.h"
#include "session/local.h"
#include "session/remote.h"
#include "session/sent.h"

/* Variables and tables exist, and memory is laid out. */
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

/* What could not be merged, and why: told once for a job, not for an evaluation, nor where nothing is told. */
void session_tell_warnings(const struct graph_cut *cut)
{
	for (uint32_t i = 0; i < cut->warnings_count; i++)
		fprintf(stderr, "warning: %s\n", cut->warnings[i]);
	for (uint32_t i = 0; i < cut->bodies_count; i++) {
		session_tell_warnings(cut->bodies[i].cond);
		session_tell_warnings(cut->bodies[i].body);
	}
}

/* The greatest types of all values; NULL: the graph's own have to do. To be freed. */
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
		/* Where PS tasks are in this process nothing is saved, nor computed elsewhere; and what they sum for many workers
		 * comes as it is. */
		.stay = moves != SESSION_MOVES || session_is_local(c) || session_consistency(c) == SESSION_SYNCHRONOUS,
		.home = moves == SESSION_COMES_HOME || session_is_local(c),
		.may_move = compile_may_move,
		.count = sent_count,
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
 * What has moved and is too large for one program stays in the worker after all; and so does, in the end, what the graph's author has put on
 * PS tasks and they do not compute.
 */
static int make_plan_somehow(struct session *s, struct star_error *err)
{
	/* What is worth moving depends on how many reactors there are. */
	int rc = has_moved(s->cut) && star_reactors(s->cluster) != session_count_tasks(s->config.ps, err)
			 ? session_make_cut(s, SESSION_MOVES, err)
			 : 0;

	if (rc == 0)
		rc = make_plan(s, err);
	while (rc == -ENOTSUP && !s->cut->home) {
		const bool moved = has_moved(s->cut);

		fprintf(stderr, "warning: %s%s\n",
			moved ? "nothing is moved to PS tasks: " : "the worker computes all: ", err->text);
		drop_plan(s);
		rc = session_make_cut(s, moved ? SESSION_STAYS : SESSION_COMES_HOME, err);
		if (rc == 0)
			rc = make_plan(s, err);
	}
	return rc;
}

void session_disconnect(struct session *s)
{
	peers_close(s->peers, false);
	drop_plan(s);
	if (session_is_local(&s->config))
		local_destroy(s->ps);
	else
		remote_destroy(s->ps);
	star_close(s->cluster);
	s->ps = NULL;
	s->cluster = NULL;
	s->peers = NULL;
}

static int join_peers(struct session *s, struct star_error *err)
{
	const struct session_config *c = &s->config;
	const struct remote_update *updates;
	uint32_t updates_count;

	if (session_consistency(c) == SESSION_ASYNCHRONOUS)
		return 0;
	s->peers = peers_open(&(struct peers_options){ .cluster = s->cluster,
						       .job = c->job,
						       .index = c->task_index,
						       .count = c->workers,
						       .lease_us = c->lease_us,
						       .deadline_us = c->deadline_us,
						       .clock = s->clock },
			      err);
	if (!s->peers)
		return err->code;
	if (session_consistency(c) != SESSION_SYNCHRONOUS)
		return 0;
	updates_count = remote_updates(s->ps, &updates);
	return sync_attach(&s->sync, s->cluster, s->peers, updates, updates_count, err);
}

static int open_remote(struct session *s, uint64_t until_ns, struct star_error *err)
{
	const struct session_config *c = &s->config;
	const bool synchronous = session_consistency(c) == SESSION_SYNCHRONOUS;
	const uint64_t now_ns = clock_ns();

	s->cluster = star_open(c->ps, (until_ns > now_ns ? until_ns - now_ns : 0) / 1000 + 1, err);
	if (!s->cluster)
		return err->code;
	s->ps = remote_create(&(struct remote_options){ .cluster = s->cluster,
							.deadline_us = c->deadline_us,
							.until_ns = until_ns,
							.admit = synchronous ? sync_admit : NULL,
							.refused = sync_refused,
							.arg = &s->sync,
							.wait = !session_is_chief(c) });
	return s->ps ? 0 : star_error_set(err, -ENOMEM, "no memory for a session");
}

/* A cluster that is open is that of one incarnation of each node: after a restart it is opened anew. */
int session_connect(struct session *s, uint64_t until_ns, struct star_error *err)
{
	int rc = 0;

	if (session_is_local(&s->config))
		s->ps = local_create(err);
	else
		rc = open_remote(s, until_ns, err);
	if (!s->ps)
		rc = err->code;
	if (rc == 0)
		rc = make_plan_somehow(s, err);
	if (rc == 0 && s->cluster)
		rc = join_peers(s, err);
	if (rc < 0)
		session_disconnect(s);
	return rc;
}
