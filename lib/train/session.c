/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/session.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "offload/cut.h"
#include "train/internal.h"

enum {
	RETRY_MIN_MS = 100,
	TOLD_NS = 1000000000, /* an attempt that had this long reports its own error */
	RETRY_MAX_MS = 2000,
	QUIET_US = 5000000, /* how long it waits for PS tasks before it prints a message */
};

static uint32_t result_named(const struct session_model *model, const char *name)
{
	for (uint32_t i = 0; i < model->graph->results_count; i++)
		if (!strcmp(model->results[i], name))
			return i;
	return SESSION_NOT_THERE;
}

/* ---- what comes after a step ---- */

static int stop_at_nan(const struct session_step *step, struct star_error *err)
{
	if (step->results && isnan(step->loss))
		return star_error_set(err, -EDOM,
				      "the loss is not a number at global step %" PRIu64
				      ": the model has diverged: try a lower rate, or clip gradients",
				      step->global_step);
	return 0;
}

/* Steps since the mark. 0 if unknown: before the session's first step, or after the cluster rolled back to a
 * checkpoint. */
static uint64_t steps_since(const struct session_step *step, struct mark *mark)
{
	if (step->local_step == 1 || step->global_step < mark->step)
		mark->step = step->global_step - (step->global_step > 0);
	return step->global_step - mark->step;
}

static double rate_since(uint64_t steps, const struct mark *mark, uint64_t now_ns)
{
	return (double)steps * 1e9 / (double)(now_ns > mark->ns ? now_ns - mark->ns : 1);
}

static void log_step(struct session *s, const struct session_step *step, uint64_t now_ns)
{
	const uint64_t steps = steps_since(step, &s->logged);

	if (s->config.log_step_count_steps == UINT32_MAX || steps < s->config.log_step_count_steps)
		return;
	fprintf(stderr, "step %" PRIu64 ": ", step->global_step);
	if (s->loss_result != SESSION_NOT_THERE)
		fprintf(stderr, "loss %.5f, ", step->loss);
	fprintf(stderr, "%.1f steps/s\n", rate_since(steps, &s->logged, now_ns));
	s->logged = (struct mark){ step->global_step, now_ns };
}

/* If summaries cannot be written (a disk is full), training continues: the error is reported once, and writing is tried
 * again with the next summary. */
static void write_summary(struct session *s, const struct session_step *step, uint32_t every, uint64_t now_ns)
{
	const uint64_t steps = steps_since(step, &s->summarized);
	struct summary_scalar scalars[] = { { "global_step/sec", rate_since(steps, &s->summarized, now_ns) },
					    { SESSION_LOSS, step->loss } };
	struct star_error err;
	bool failed;

	if (!s->summary || steps < every)
		return;
	s->summarized = (struct mark){ step->global_step, now_ns };
	failed = summary_write(s->summary, step->global_step, scalars, s->loss_result != SESSION_NOT_THERE ? 2 : 1,
			       &err) < 0;
	if (failed && !s->no_summaries)
		fprintf(stderr, "cannot write the summary of step %" PRIu64 ": %s\n", step->global_step, err.text);
	s->no_summaries = failed;
}

static bool save_is_due(struct session *s, const struct session_step *step)
{
	const struct session_config *c = &s->config;

	if (c->save_checkpoints_secs)
		return clock_ns() - s->saved.ns >= c->save_checkpoints_secs * UINT64_C(1000000000);
	return c->save_checkpoints_steps && steps_since(step, &s->saved) >= c->save_checkpoints_steps;
}

/* A failed checkpoint is reported, and tried again after the same number of steps or seconds: training continues. */
static void save_checkpoint(struct session *s, const struct session_step *step)
{
	struct star_error err;

	if (!save_is_due(s, step))
		return;
	train_flights_settle(s);
	if (train_flights_have_failed(
		    s)) /* parts of these steps were pushed: after they were repeated, it is tried again */
		return;
	s->saved = (struct mark){ step->global_step, clock_ns() };
	if (star_checkpoint_keep(s->cluster, "full", s->config.keep_checkpoint_max, s->config.recovery_us, &err) < 0)
		fprintf(stderr, "no checkpoint at step %" PRIu64 ": %s\n", step->global_step, err.text);
}

/* In a synchronous job the leader does it, between two steps. */
static void save_boundary(void *arg, uint64_t global_step)
{
	struct session *s = arg;

	save_checkpoint(s, &(struct session_step){ .global_step = global_step, .local_step = s->local_step + 1 });
}

static int after_step(struct session *s, const struct session_step *step, struct star_error *err)
{
	const uint64_t now_ns = clock_ns();
	int rc = s->loss_result != SESSION_NOT_THERE ? stop_at_nan(step, err) : 0;

	s->last = *step;
	if (rc == 0)
		write_summary(s, step, s->config.save_summary_steps, now_ns);
	for (uint32_t i = 0; rc == 0 && i < s->hooks_count; i++)
		if (s->hooks[i].after_step)
			rc = s->hooks[i].after_step(s->hooks[i].arg, s, step, err);
	log_step(s, step, now_ns);
	if (rc == 0 && session_is_chief(&s->config) && session_consistency(&s->config) != SESSION_SYNCHRONOUS)
		save_checkpoint(s, step);
	s->stop |= s->config.last_step && step->global_step >= s->config.last_step;
	return rc;
}

/* ---- steps ---- */

bool session_may_come_back(int code)
{
	switch (-code) {
	case ESTALE:
	case ECONNREFUSED:
	case ECONNRESET:
	case EHOSTUNREACH:
	case ETIMEDOUT:
	case ENOENT: /* a restarted cluster has lost its catalogue */
	case EBUSY:
	case ENODATA: /* what the step had kept on a PS task is gone, ... */
	case ENOBUFS: /* ... or there is no memory for it */
		return true;
	default:
		return false;
	}
}

/* Waits until PS tasks are available and have what the graph needs, or until the time is over. No step is running. */
static int recover(struct session *s, uint64_t until_ns, unsigned *pause_ms, struct star_error *err)
{
	const uint64_t now_ns = clock_ns();
	struct star_error told = *err;

	session_disconnect(s);
	if (now_ns >= until_ns)
		return err->code;
	fprintf(stderr, "%s: waiting until it can continue, for %" PRIu64 " s at most\n", err->text,
		(until_ns - now_ns + 999999999) / 1000000000);
	do {
		const struct timespec pause = { *pause_ms / 1000, (long)(*pause_ms % 1000) * 1000000 };

		uint64_t begun_ns = clock_ns();

		if (begun_ns >= until_ns)
			break;
		nanosleep(&pause, NULL);
		*pause_ms = *pause_ms * 2 < RETRY_MAX_MS ? *pause_ms * 2 : RETRY_MAX_MS;
		begun_ns = clock_ns();
		if (session_connect(s, until_ns, err) == 0)
			return 0;
		/* A last attempt that had little time says nothing about the cause. */
		if (err->code != -ETIMEDOUT || begun_ns + TOLD_NS < until_ns)
			told = *err;
	} while (session_may_come_back(err->code));
	*err = told;
	return err->code;
}

/* A job that continues uses other random numbers than in its first steps. */
static int run_step(const struct session *s, struct flight *f, struct star_error *err)
{
	return graph_run_counted(f->run, s->counter.adds ? f->step : f->number, f->step, f->feeds, f->results, err);
}

/* Repeats the step until all workers have made it, or it fails. */
static int run_together(struct session *s, struct flight *f, uint64_t until_ns, struct star_error *err)
{
	int rc;

	do {
		rc = train_sync_begin(&s->sync, until_ns, err);
		if (rc < 0)
			return rc;
		f->step = train_sync_step(&s->sync);
		rc = run_step(s, f, err);
		if (rc == 0)
			rc = train_sync_end(&s->sync, until_ns, err);
	} while (rc == 0);
	if (rc < 0)
		train_sync_failed(&s->sync);
	return rc < 0 ? rc : 0;
}

int session_make_step(struct session *s, struct flight *f, uint64_t until_ns, struct star_error *err)
{
	int rc;

	if (!f->run)
		return star_error_set(err, -ESTALE, "the PS tasks did not come back in time earlier");
	if (session_consistency(&s->config) == SESSION_SYNCHRONOUS)
		return run_together(s, f, until_ns, err);
	rc = s->peers ? train_peers_join(s->peers, until_ns, err) : 0;
	if (rc < 0)
		return rc;
	rc = s->peers ? train_peers_await(s->peers, s->config.staleness, &s->clock, until_ns, err) : 0;
	if (rc < 0)
		return rc;
	return run_step(s, f, err);
}

/* What steps keep on PS tasks until their last request takes too much memory: fewer steps at once need less. */
static void run_fewer(struct session *s)
{
	if (s->at_once <= 1)
		return;
	s->at_once /= 2;
	fprintf(stderr, "PS tasks have no memory for what this many steps keep there: from now on %u steps at once\n",
		s->at_once);
}

/* Waits until the oldest step has ended. */
static int end_oldest(struct session *s, struct star_error *err)
{
	const uint64_t until_ns = clock_ns() + s->config.recovery_us * 1000;
	unsigned pause_ms = RETRY_MIN_MS;
	int rc;

	while ((rc = train_flights_await(s, until_ns, err)) < 0) {
		if (!session_may_come_back(rc))
			return rc;
		train_flights_settle(s);
		if (train_flights_keep(s, err) < 0)
			return err->code;
		if (rc == -ENOBUFS)
			run_fewer(s);
		if (recover(s, until_ns, &pause_ms, err) < 0)
			return err->code;
		train_flights_again(s, until_ns);
		train_flights_go(s);
	}
	return 0;
}

static double scalar(const struct graph_tensor *tensor)
{
	return tensor->type.dtype == STAR_FLOAT64 ? *(const double *)tensor->data : *(const float *)tensor->data;
}

/*
 * A step's own count may be lower than that of the step before, if both were in flight at once. The count of a step
 * that was submitted later is higher, unless PS tasks have rolled back.
 */
static void set_global_step(struct session *s, const struct flight *f)
{
	const uint64_t step = s->step_result != SESSION_NOT_THERE
				      ? (uint64_t)fmax(0, scalar(&f->results[s->step_result]))
				      : f->number;

	if (step < s->global_step && f->number < s->counted + s->config.steps_in_flight)
		return;
	s->global_step = step;
	s->counted = f->number;
	if (s->step_result == SESSION_NOT_THERE)
		return;
	s->counter.value = step;
	s->counter.local = f->number;
}

/* The oldest step has succeeded. */
static int land_step(struct session *s, const struct graph_tensor **results, struct star_error *err)
{
	const struct flight *f = train_flights_take(s);
	struct session_step step = { .loss = NAN, .results = f->results };

	const uint64_t before = s->global_step;

	s->local_step++;
	s->clock++;
	/* If this fails, the next step fails too, and reports the number of steps in flight. */
	if (s->peers && session_consistency(&s->config) == SESSION_BOUNDED)
		train_peers_set_clock(s->peers, s->clock, &(struct star_error){ 0 });
	set_global_step(s, f);
	/* A late step has counted from its beginning; the others have moved on. */
	if (s->step_result != SESSION_NOT_THERE && s->sync.round.global_step)
		s->global_step = s->sync.round.global_step;
	if (s->global_step < before)
		fprintf(stderr,
			"the PS tasks' global step went back from %" PRIu64
			": they rolled back to a checkpoint, have lost all, or other workers have yet to push again "
			"what a fail-over has taken; training continues from step %" PRIu64 "\n",
			before, s->global_step);
	step.global_step = s->global_step;
	step.local_step = s->local_step;
	if (s->loss_result != SESSION_NOT_THERE)
		step.loss = scalar(&f->results[s->loss_result]);
	if (results)
		*results = f->results;
	return after_step(s, &step, err);
}

int session_submit(struct session *s, const struct graph_tensor *feeds, struct star_error *err)
{
	if (s->in_flight == s->config.steps_in_flight)
		return star_error_set(err, -EAGAIN,
				      "%u steps are in flight, which is steps_in_flight: session_take is next",
				      s->in_flight);
	train_flights_add(s, feeds);
	train_flights_go(s);
	return 0;
}

int session_take(struct session *s, const struct graph_tensor **results, struct star_error *err)
{
	struct star_error ignored;
	int rc;

	err = err ? err : &ignored;
	if (!s->in_flight)
		return star_error_set(err, -EINVAL, "no step is in flight: session_submit starts one");
	rc = end_oldest(s, err);
	if (rc == 0)
		rc = land_step(s, results, err);
	s->failed = rc < 0;
	if (rc < 0)
		train_flights_drop(s, &(struct star_error){ 0 });
	return rc;
}

int session_run(struct session *s, const struct graph_tensor *feeds, const struct graph_tensor **results,
		struct star_error *err)
{
	if (s->in_flight)
		return star_error_set(err, -EBUSY, "%u steps are in flight: session_take ends them", s->in_flight);
	train_flights_add(s, feeds); /* without starting it: this thread executes it */
	return session_take(s, results, err);
}

uint32_t session_in_flight(const struct session *s)
{
	return s->in_flight;
}

bool session_should_stop(const struct session *s)
{
	const uint64_t last = s->config.last_step, told = s->counter.adds ? s->counter.value : 0;
	/* The state before the first step. */
	const uint64_t reached = s->global_step > told ? s->global_step : told;

	return s->stop || (last && reached + s->in_flight >= last);
}

void session_request_stop(struct session *s)
{
	s->stop = true;
}

uint64_t session_global_step(const struct session *s)
{
	return s->global_step;
}

uint64_t session_clock(const struct session *s)
{
	return s->clock;
}

uint64_t session_dropped(const struct session *s)
{
	return s->sync.dropped;
}

const struct graph_cut *session_cut(const struct session *s)
{
	return s->cut;
}

/* ---- opening and closing ---- */

static int check_results(struct session *s, struct star_error *err)
{
	const struct graph *graph = s->model.graph;

	s->step_result = result_named(&s->model, SESSION_GLOBAL_STEP);
	s->loss_result = result_named(&s->model, SESSION_LOSS);
	for (unsigned i = 0; i < 2; i++) {
		const uint32_t result = i ? s->loss_result : s->step_result;
		const struct graph_type *type;

		if (result == SESSION_NOT_THERE)
			continue;
		type = graph_type(graph, graph->results[result]);
		if (graph_elements(&type->shape) != 1 || (type->dtype != STAR_FLOAT32 && type->dtype != STAR_FLOAT64))
			return star_error_set(err, -EINVAL, "the result \"%s\" must be a single float",
					      s->model.results[result]);
	}
	return 0;
}

/* PS tasks may start later than workers, and the chief later than others: a message reports a wait that is not
 * short. */
static int connect_first(struct session *s, struct star_error *err)
{
	const uint64_t begin_ns = clock_ns(), until_ns = begin_ns + s->config.recovery_us * 1000;
	const uint64_t first_until_ns = begin_ns + s->config.connect_us * 1000;
	const uint64_t quiet_until_ns = begin_ns + QUIET_US * UINT64_C(1000);
	unsigned pause_ms = RETRY_MIN_MS;
	int rc = session_connect(s, quiet_until_ns < first_until_ns ? quiet_until_ns : first_until_ns, err);

	if (rc < 0 && !s->reached && session_may_come_back(rc))
		rc = recover(s, first_until_ns, &pause_ms, err);
	/* They have answered, so the wait is for something else, such as the chief. */
	if (rc < 0 && s->reached && session_may_come_back(rc))
		rc = recover(s, until_ns, &pause_ms, err);
	return rc;
}

static int open_session(struct session *s, struct star_error *err)
{
	int rc = graph_error(s->model.graph, err);

	if (rc == 0)
		rc = session_config_check(&s->config, err);
	if (rc == 0)
		rc = check_results(s, err);
	if (rc == 0 && s->config.model_dir && session_is_chief(&s->config)) {
		s->summary_step = summary_last_step(s->config.model_dir);
		s->summary = summary_create(s->config.model_dir, err);
		rc = s->summary ? 0 : err->code;
	}
	if (rc == 0)
		session_find_counter(s);
	if (rc == 0)
		rc = session_make_cut(s, SESSION_OFFLOADS, err);
	if (rc == 0 && session_is_chief(&s->config) && s->config.log_step_count_steps != UINT32_MAX)
		session_tell_warnings(s->cut);
	if (rc == 0)
		rc = connect_first(s, err);
	if (rc == 0)
		rc = train_flights_start(s, err);
	s->logged.ns = s->summarized.ns = s->saved.ns = clock_ns();
	for (uint32_t i = 0; rc == 0 && i < s->hooks_count; i++)
		if (s->hooks[i].begin)
			rc = s->hooks[i].begin(s->hooks[i].arg, s, err);
	return rc;
}

static void release_session(struct session *s)
{
	session_disconnect(s);
	train_flights_fini(s);
	train_sync_fini(&s->sync);
	graph_cut_destroy(s->cut);
	summary_destroy(s->summary);
	free(s);
}

struct session *session_create(const struct session_config *config, const struct session_model *model,
			       const struct session_hook *hooks, uint32_t hooks_count, struct star_error *err)
{
	struct session *s = calloc(1, sizeof(*s));
	struct star_error ignored;

	err = err ? err : &ignored;
	if (!s) {
		star_error_set(err, -ENOMEM, "no memory for a session");
		return NULL;
	}
	s->config = *config;
	session_set_defaults(&s->config);
	train_sync_init(&s->sync, &(struct sync_options){ .job = s->config.job,
							  .index = s->config.task_index,
							  .workers = s->config.workers,
							  .wait_for = s->config.grads_to_wait,
							  .lease_us = s->config.lease_us,
							  .deadline_us = s->config.deadline_us,
							  .by_row = s->config.mean_by_row,
							  .boundary = save_boundary,
							  .arg = s });
	s->model = *model;
	s->hooks_count = hooks_count;
	if (hooks_count > SESSION_HOOKS_MAX) {
		star_error_set(err, -E2BIG, "a session has at most %d hooks, not %u", SESSION_HOOKS_MAX, hooks_count);
		s->hooks_count = 0;
	} else if (hooks_count) {
		memcpy(s->hooks, hooks, hooks_count * sizeof(*hooks));
	}
	if (train_flights_init(s, err) < 0 || hooks_count > SESSION_HOOKS_MAX || open_session(s, err) < 0) {
		release_session(s);
		return NULL;
	}
	return s;
}

int session_close(struct session *s, struct star_error *err)
{
	struct star_error ignored;
	int rc;

	if (!s)
		return 0;
	err = err ? err : &ignored;
	rc = train_flights_drop(s, err);
	s->failed |= rc < 0;
	for (uint32_t i = 0; !s->failed && i < s->hooks_count; i++)
		if (rc == 0 && s->hooks[i].end)
			rc = s->hooks[i].end(s->hooks[i].arg, s, err);
	train_peers_close(s->peers, !s->failed);
	s->peers = NULL;
	/* In a short job it is the only one, from which a later run learns what PS tasks should have. */
	if (s->last.local_step && s->summarized.step != s->last.global_step)
		write_summary(s, &s->last, 1, clock_ns());
	release_session(s);
	return rc;
}
