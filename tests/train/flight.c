/* SPDX-License-Identifier: BSD-3-Clause */
/* Several steps of a session at once, on a double of PS nodes that holds its answers, refuses and counts what was
 * pushed. */
#include <errno.h>
#include <stdlib.h>

#include "exec/exec.h"
#include "graph/build.h"
#include "graph/gradient.h"
#include "train/internal.h"
#include "tests/client/peer.h"
#include "tests/train/cases.h"
#include "tests/unit.h"

enum { NODES = 2, REACTORS = 2, AT_ONCE = NODES * REACTORS, DIM = 2, TABLE = 1, STEPS_MAX = 64 };

/* A session whose steps look one row up, show it, and push x for it; x and the row's id are those of the step. */
struct job {
	struct peer *peer;
	struct graph *graph;
	struct session *session;
	uint64_t ids[AT_ONCE]; /* of reactor 0, 1, ... one each */
	int64_t id[SESSION_IN_FLIGHT_MAX];
	float x[DIM];
	uint64_t local_steps[STEPS_MAX]; /* that the hook was told */
	uint32_t hooked, ended;
	struct graph_plan_feed feeds[2];
	uint64_t refused; /* the local step at which the hook gives up */
};

static int after_step(void *arg, struct session *session, const struct session_step *step, struct star_error *err)
{
	struct job *job = arg;

	(void)session;
	if (CHECK(job->hooked < STEPS_MAX))
		job->local_steps[job->hooked++] = step->local_step;
	return step->local_step == job->refused ? star_error_set(err, -ECANCELED, "the hook has had enough") : 0;
}

static int end(void *arg, struct session *session, struct star_error *err)
{
	struct job *job = arg;

	(void)session, (void)err;
	job->ended++;
	return 0;
}

static struct graph_type type_of(unsigned dtype, unsigned ndim, int64_t rows, int64_t columns)
{
	return (struct graph_type){ .dtype = (uint8_t)dtype,
				    .shape = { .ndim = (uint8_t)ndim, .dims = { rows, columns } } };
}

static void create(struct job *job, uint32_t at_once, uint64_t last_step)
{
	static const char *const results[] = { "row" };
	const struct graph_definition definition = { .optimizer = "sgd", .rate = 1, .initializer = "zeros" };
	const struct session_hook hook = { job, NULL, after_step, end };
	const struct session_config config = { .ps = job->peer->address,
					       .steps_in_flight = at_once,
					       .last_step = last_step,
					       .log_step_count_steps = UINT32_MAX };
	struct graph *g = job->graph = graph_create();
	const struct graph_value ids = graph_feed(g, "ids", STAR_INT64, GRAPH_DIMS(1));
	const struct graph_value x = graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(DIM));
	const struct graph_value rows = graph_lookup(g, graph_table(g, "t", DIM, &definition), ids);
	const struct session_model model = { .graph = g, .results = results, .feeds = job->feeds, .feeds_count = 2 };
	struct star_error err = { .text = "" };

	job->feeds[0] = (struct graph_plan_feed){ "ids", type_of(STAR_INT64, 1, 1, 0) };
	job->feeds[1] = (struct graph_plan_feed){ "x", type_of(STAR_FLOAT32, 1, DIM, 0) };
	graph_train(g, graph_sum(g, graph_times(g, rows, x)), NULL, NULL);
	graph_set_results(g, &rows, 1);
	CHECK_INT(graph_error(g, &err), 0);
	job->session = session_create(&config, &model, &hook, 1, &err);
	if (!job->session)
		unit_fail(__FILE__, __LINE__, "no session: %s", err.text);
}

/* The rows have other owners on other numbers of reactors: looked for. */
static bool begin(struct job *job, uint32_t at_once, uint64_t last_step)
{
	struct object_spec spec = { .name = "t", .id = TABLE, .dim = DIM };

	*job = (struct job){ .peer = peer_start(NODES, REACTORS), .x = { 1, 2 } };
	if (!CHECK(job->peer))
		return false;
	for (uint64_t id = 1, found = 0; found != (1 << AT_ONCE) - 1; id++) {
		const uint32_t owner = peer_owner(job->peer, &spec, id);

		if (!(found >> owner & 1))
			job->ids[owner] = id;
		found |= UINT64_C(1) << owner;
	}
	create(job, at_once, last_step);
	return job->session != NULL;
}

static void finish(struct job *job)
{
	struct star_error err = { .text = "" };

	if (job->session && session_close(job->session, &err) < 0)
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	graph_destroy(job->graph);
	peer_stop(job->peer);
}

/* A step on a reactor's row; slot: of the memory that its feeds are in. */
static int submit(struct job *job, uint32_t slot, uint32_t reactor, struct star_error *err)
{
	const struct graph_tensor feeds[] = { { type_of(STAR_INT64, 1, 1, 0), &job->id[slot] },
					      { type_of(STAR_FLOAT32, 1, DIM, 0), job->x } };

	job->id[slot] = (int64_t)job->ids[reactor];
	return session_submit(job->session, feeds, err);
}

static void hold_next(struct job *job)
{
	peer_misbehave(job->peer, FAULT_HOLD, 0, AT_ONCE);
	pthread_mutex_lock(&job->peer->lock);
	job->peer->fault_reactor = -1;
	pthread_mutex_unlock(&job->peer->lock);
}

/* Steps on all reactors, the answers to whose first requests the nodes hold. */
static bool hold_all(struct job *job)
{
	struct star_error err = { .text = "" };

	hold_next(job);
	for (uint32_t i = 0; i < AT_ONCE; i++)
		if (!CHECK_INT(submit(job, i, i, &err), 0))
			return false;
	return peer_wait_held(job->peer, AT_ONCE);
}

/* The gate opens, and the next requests to a reactor are refused. */
static void refuse_next(struct job *job, uint32_t reactor, uint32_t times, unsigned status)
{
	pthread_mutex_lock(&job->peer->lock);
	job->peer->fault = FAULT_STATUS;
	job->peer->fault_reactor = (int)reactor;
	job->peer->fault_count = times;
	job->peer->status = status;
	job->peer->sentence = "refused by the test";
	pthread_mutex_unlock(&job->peer->lock);
	peer_open_gate(job->peer);
}

static void row_is(const struct graph_tensor *results, float first)
{
	if (CHECK_INT(results[0].type.shape.ndim, 2))
		CHECK_NEAR(((const float *)results[0].data)[0], first, 0);
}

static void was_applied(struct job *job, uint32_t reactor, uint32_t times)
{
	const float initial = peer_initial(TABLE, job->ids[reactor], 0);
	uint32_t applied = 0;
	float first = initial;

	peer_find(job->peer, TABLE, job->ids[reactor], &applied, &first);
	CHECK_UINT(applied, times);
	CHECK_NEAR(first, initial - (float)times, 0);
}

static void hooked_in_order(const struct job *job, uint32_t steps)
{
	CHECK_UINT(job->hooked, steps);
	for (uint32_t i = 0; i < job->hooked; i++)
		CHECK_UINT(job->local_steps[i], i + 1);
}

void as_many_steps_are_in_flight_as_are_asked_for(void)
{
	const struct graph_tensor *results;
	struct star_error err = { .text = "" };
	struct job job;

	if (begin(&job, AT_ONCE, 0) && hold_all(&job)) {
		CHECK_UINT(session_in_flight(job.session), AT_ONCE);
		CHECK_INT(submit(&job, AT_ONCE, 0, &err), -EAGAIN);
		CHECK_HAS(err.text, "4 steps are in flight");
		CHECK_INT(session_run(job.session, NULL, &results, &err), -EBUSY);
		CHECK_HAS(err.text, "session_take");
		CHECK_UINT(job.hooked, 0);
		peer_open_gate(job.peer);
		for (uint32_t i = 0; i < AT_ONCE; i++) {
			if (CHECK_INT(session_take(job.session, &results, &err), 0))
				row_is(results, peer_initial(TABLE, job.ids[i], 0));
			CHECK_UINT(session_in_flight(job.session), AT_ONCE - 1 - i);
		}
		CHECK_INT(session_take(job.session, &results, &err), -EINVAL);
		CHECK_HAS(err.text, "no step is in flight");
		hooked_in_order(&job, AT_ONCE);
		for (uint32_t i = 0; i < AT_ONCE; i++)
			was_applied(&job, i, 1);
	}
	finish(&job);
	CHECK_UINT(job.ended, 1);
}

/* Steps on all rows, of which some are in flight together; each shows the row as it was when no more steps before it
 * were in flight. */
void each_step_in_flight_is_applied_once(void)
{
	const struct graph_tensor *results;
	struct star_error err = { .text = "" };
	struct job job;
	uint32_t begun = 0, ended = 0;

	if (begin(&job, AT_ONCE, 0)) {
		while (ended < STEPS_MAX) {
			for (; begun < STEPS_MAX && session_in_flight(job.session) < AT_ONCE; begun++)
				CHECK_INT(submit(&job, begun % AT_ONCE, begun % AT_ONCE, &err), 0);
			if (!CHECK_INT(session_take(job.session, &results, &err), 0))
				break;
			row_is(results, peer_initial(TABLE, job.ids[ended % AT_ONCE], 0) - (float)(ended / AT_ONCE));
			ended++;
		}
		hooked_in_order(&job, STEPS_MAX);
		for (uint32_t i = 0; i < AT_ONCE; i++)
			was_applied(&job, i, STEPS_MAX / AT_ONCE);
	}
	finish(&job);
}

/* A node is restarted before their pushes arrive: the first two fail, and what the others have shown stays. The session
 * goes there again, once. */
void steps_that_failed_are_made_again_and_others_are_not(void)
{
	const struct graph_tensor *results;
	struct star_error err = { .text = "" };
	struct job job;

	if (begin(&job, AT_ONCE, 0) && hold_all(&job)) {
		peer_restart_node(job.peer, 0);
		CHECK_UINT(peer_connections(job.peer), AT_ONCE);
		peer_open_gate(job.peer);
		for (uint32_t i = 0; i < AT_ONCE; i++) {
			if (CHECK_INT(session_take(job.session, &results, &err), 0))
				row_is(results, peer_initial(TABLE, job.ids[i], 0));
			else
				unit_fail(__FILE__, __LINE__, "%s", err.text);
		}
		hooked_in_order(&job, AT_ONCE);
		for (uint32_t i = 0; i < AT_ONCE; i++)
			was_applied(&job, i, 1);
		CHECK_UINT(peer_connections(job.peer), AT_ONCE + REACTORS);
	}
	finish(&job);
	CHECK_UINT(job.ended, 1);
}

/* The second of four is refused for good. */
void an_error_ends_what_is_in_flight_behind_it(void)
{
	const struct graph_tensor *results;
	struct star_error err = { .text = "" };
	uint32_t requests;
	struct job job;

	if (begin(&job, AT_ONCE, 0) && hold_all(&job)) {
		refuse_next(&job, 1, 1, WIRE_NO_MEMORY);
		CHECK_INT(session_take(job.session, &results, &err), 0);
		/* While one that has failed is in flight no other begins. */
		train_flights_settle(job.session);
		requests = peer_requests(job.peer);
		CHECK_INT(submit(&job, 0, 0, &err), 0);
		train_flights_settle(job.session);
		CHECK_UINT(peer_requests(job.peer), requests);
		CHECK_INT(session_take(job.session, &results, &err), -ENOSPC);
		CHECK_HAS(err.text, "refused by the test");
		CHECK_UINT(session_in_flight(job.session), 0);
		hooked_in_order(&job, 1);
		for (uint32_t i = 0; i < AT_ONCE; i++)
			was_applied(&job, i, i != 1);
		/* It goes on, if its caller does. */
		for (uint32_t i = 0; i < 2; i++)
			CHECK_INT(submit(&job, i, i, &err), 0);
		for (uint32_t i = 0; i < 2; i++)
			CHECK_INT(session_take(job.session, &results, &err), 0);
		hooked_in_order(&job, 3);
		was_applied(&job, 0, 2);
		was_applied(&job, 1, 1);
	}
	finish(&job);
	CHECK_UINT(job.ended, 1);
}

/* A node has no room for what a step was to leave there: from then on half as many are made at once, and others wait
 * for their turns. */
void fewer_steps_are_in_flight_when_nodes_have_no_room(void)
{
	struct star_error err = { .text = "" };
	uint32_t waiting = 0;
	struct job job;

	if (begin(&job, AT_ONCE, 0) && hold_all(&job)) {
		refuse_next(&job, 0, 2, WIRE_NOT_KEPT); /* libstar tries once more */
		for (uint32_t i = 0; i < AT_ONCE; i++)
			CHECK_INT(session_take(job.session, NULL, &err), 0);
		hold_next(&job);
		for (uint32_t i = 0; i < AT_ONCE; i++)
			CHECK_INT(submit(&job, i, i, &err), 0);
		pthread_mutex_lock(&job.session->lock);
		for (uint32_t i = 0; i < AT_ONCE; i++)
			waiting += flights_at(job.session, i)->state == FLIGHT_WAITS;
		pthread_mutex_unlock(&job.session->lock);
		CHECK_UINT(waiting, AT_ONCE / 2);
		if (peer_wait_held(job.peer, AT_ONCE / 2))
			peer_open_gate(job.peer);
		for (uint32_t i = 0; i < AT_ONCE; i++)
			CHECK_INT(session_take(job.session, NULL, &err), 0);
		hooked_in_order(&job, 2 * AT_ONCE);
		for (uint32_t i = 0; i < AT_ONCE; i++)
			was_applied(&job, i, 2);
	}
	finish(&job);
}

void a_hooks_error_ends_what_is_in_flight_behind_it(void)
{
	const struct graph_tensor *results;
	struct star_error err = { .text = "" };
	struct job job;

	if (begin(&job, AT_ONCE, 0) && hold_all(&job)) {
		job.refused = 2;
		peer_open_gate(job.peer);
		CHECK_INT(session_take(job.session, &results, &err), 0);
		CHECK_INT(session_take(job.session, &results, &err), -ECANCELED);
		CHECK_UINT(session_in_flight(job.session), 0);
		hooked_in_order(&job, 2);
		for (uint32_t i = 0; i < AT_ONCE; i++)
			was_applied(&job, i, 1);
	}
	finish(&job);
	CHECK_UINT(job.ended, 0);
}

void steps_in_flight_are_ended_when_the_session_is_closed(void)
{
	struct star_error err = { .text = "" };
	struct job job;

	if (begin(&job, AT_ONCE, 0) && hold_all(&job)) {
		peer_open_gate(job.peer);
		CHECK_INT(session_close(job.session, &err), 0);
		CHECK_UINT(job.hooked, 0);
		CHECK_UINT(job.ended, 1);
		for (uint32_t i = 0; i < AT_ONCE; i++)
			was_applied(&job, i, 1);
		job.session = NULL;
	}
	finish(&job);
	/* One of them has failed. */
	if (begin(&job, AT_ONCE, 0) && hold_all(&job)) {
		refuse_next(&job, 2, 1, WIRE_NO_MEMORY);
		CHECK_INT(session_close(job.session, &err), -ENOSPC);
		CHECK_UINT(job.ended, 0);
		job.session = NULL;
	}
	finish(&job);
}

/* By the caller's thread, when it is taken. */
void a_session_of_one_step_at_a_time_is_submitted_to_as_well(void)
{
	const struct graph_tensor *results;
	struct star_error err = { .text = "" };
	struct job job;

	if (begin(&job, 0, 0)) {
		const uint32_t requests = peer_requests(job.peer);
		const unsigned threads = unit_entries("/proc/self/task");

		CHECK_INT(submit(&job, 0, 3, &err), 0);
		CHECK_INT(submit(&job, 1, 2, &err), -EAGAIN);
		CHECK_UINT(peer_requests(job.peer), requests);
		CHECK_UINT(unit_entries("/proc/self/task"), threads);
		if (CHECK_INT(session_take(job.session, &results, &err), 0))
			row_is(results, peer_initial(TABLE, job.ids[3], 0));
		hooked_in_order(&job, 1);
		was_applied(&job, 3, 1);
	}
	finish(&job);
}

/* Without a count on PS tasks, this session's steps. */
void nothing_is_submitted_beyond_the_last_step(void)
{
	enum { LAST = 10 };
	struct star_error err = { .text = "" };
	uint32_t begun = 0;
	struct job job;

	if (begin(&job, AT_ONCE, LAST)) {
		do {
			for (; session_in_flight(job.session) < AT_ONCE && !session_should_stop(job.session); begun++)
				if (!CHECK_INT(submit(&job, begun % AT_ONCE, begun % AT_ONCE, &err), 0))
					break;
			CHECK_INT(session_take(job.session, NULL, &err), 0);
		} while (session_in_flight(job.session));
		CHECK_UINT(begun, LAST);
		CHECK(session_should_stop(job.session));
		hooked_in_order(&job, LAST);
	}
	finish(&job);
}
