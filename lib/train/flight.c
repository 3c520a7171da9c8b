/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps in flight: a ring of flights, each with a run and, if there are several, its own thread. The session's caller
 * adds to the ring and takes from it; the threads execute the steps. Steps start in the order of the ring; none starts
 * while a failed one is in the ring, because all others would fail for the same reason (a PS task is gone).
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/signals.h"
#include "train/internal.h"

/* ---- under the lock ---- */

static uint32_t count(struct session *s, enum flight_state state)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->in_flight; i++)
		n += flights_at(s, i)->state == state;
	return n;
}

static void start_flights(struct session *s)
{
	uint32_t room = s->at_once - count(s, FLIGHT_RUNS);

	if (s->threads == 0 || count(s, FLIGHT_FAILED))
		return;
	for (uint32_t i = 0; i < s->in_flight && room; i++) {
		struct flight *f = flights_at(s, i);

		if (f->state != FLIGHT_WAITS)
			continue;
		f->state = FLIGHT_RUNS;
		pthread_cond_signal(&f->go);
		room--;
	}
}

static void wait_all_ended(struct session *s)
{
	while (count(s, FLIGHT_RUNS))
		pthread_cond_wait(&s->ended, &s->lock);
}

static struct flight *take_flight(struct session *s)
{
	struct flight *f = flights_at(s, 0);

	f->state = FLIGHT_FREE;
	s->oldest = (s->oldest + 1) % s->config.steps_in_flight;
	s->in_flight--;
	return f;
}

/* ---- threads ---- */

static void *execute_steps(void *arg)
{
	struct flight *f = arg;
	struct session *s = f->session;

	pthread_mutex_lock(&s->lock);
	while (!s->over) {
		int rc;

		if (f->state != FLIGHT_RUNS) {
			pthread_cond_wait(&f->go, &s->lock);
			continue;
		}
		pthread_mutex_unlock(&s->lock);
		rc = session_make_step(s, f, UINT64_MAX, &f->err);
		pthread_mutex_lock(&s->lock);
		f->state = rc < 0 ? FLIGHT_FAILED : FLIGHT_DONE;
		start_flights(s);
		pthread_cond_signal(&s->ended); /* for the session's caller, the only waiter */
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int train_flights_init(struct session *s, struct star_error *err)
{
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->ended, NULL);
	s->at_once = s->config.steps_in_flight;
	for (uint32_t i = 0; i < SESSION_IN_FLIGHT_MAX; i++)
		pthread_cond_init(&s->flights[i].go, NULL);
	for (uint32_t i = 0; i < s->config.steps_in_flight && i < SESSION_IN_FLIGHT_MAX; i++) {
		struct flight *f = &s->flights[i];

		f->session = s;
		f->feeds = calloc(s->model.feeds_count + UINT64_C(1), sizeof(*f->feeds));
		f->results = calloc(s->model.graph->results_count + UINT64_C(1), sizeof(*f->results));
		if (!f->feeds || !f->results)
			return star_error_set(err, -ENOMEM, "no memory for a session");
	}
	return 0;
}

int train_flights_start(struct session *s, struct star_error *err)
{
	sigset_t all, before;
	int rc = 0;

	if (s->config.steps_in_flight == 1)
		return 0;
	base_signals_of_others(&all); /* the program's signals are for its own threads */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (uint32_t i = 0; rc == 0 && i < s->config.steps_in_flight; i++) {
		rc = pthread_create(&s->flights[i].thread, NULL, execute_steps, &s->flights[i]);
		s->threads += rc == 0;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc ? star_error_set(err, -rc, "cannot start threads for %u steps in flight: %s; see ulimit -u",
				   s->config.steps_in_flight, strerrordesc_np(rc))
		  : 0;
}

void train_flights_fini(struct session *s)
{
	pthread_mutex_lock(&s->lock);
	s->over = true;
	for (uint32_t i = 0; i < s->threads; i++)
		pthread_cond_signal(&s->flights[i].go);
	pthread_mutex_unlock(&s->lock);
	for (uint32_t i = 0; i < s->threads; i++)
		pthread_join(s->flights[i].thread, NULL);
	for (uint32_t i = 0; i < SESSION_IN_FLIGHT_MAX; i++) {
		struct flight *f = &s->flights[i];

		free(f->feeds);
		free(f->results);
		free(f->kept);
		pthread_cond_destroy(&f->go);
	}
	pthread_cond_destroy(&s->ended);
	pthread_mutex_destroy(&s->lock);
}

/* ---- the caller ---- */

void train_flights_add(struct session *s, const struct graph_tensor *feeds)
{
	struct flight *f = flights_at(s, s->in_flight);

	free(f->kept);
	f->kept = NULL;
	if (s->model.feeds_count)
		memcpy(f->feeds, feeds, s->model.feeds_count * sizeof(*feeds));
	pthread_mutex_lock(&s->lock);
	s->in_flight++;
	f->number = s->local_step + s->in_flight;
	f->step = session_count_steps(s, f->number);
	f->state = FLIGHT_WAITS;
	pthread_mutex_unlock(&s->lock);
}

void train_flights_recount(struct session *s, uint64_t value)
{
	uint64_t next;

	s->counter.value = value;
	s->counter.local = s->local_step;
	for (uint32_t i = 0; i < s->in_flight; i++)
		s->counter.local += flights_at(s, i)->state == FLIGHT_DONE;
	next = s->counter.local;
	for (uint32_t i = 0; i < s->in_flight; i++)
		if (flights_at(s, i)->state != FLIGHT_DONE)
			flights_at(s, i)->step = session_count_steps(s, ++next);
}

void train_flights_go(struct session *s)
{
	pthread_mutex_lock(&s->lock);
	start_flights(s);
	pthread_mutex_unlock(&s->lock);
}

static void set_state(struct session *s, struct flight *f, enum flight_state state)
{
	pthread_mutex_lock(&s->lock);
	f->state = state;
	pthread_mutex_unlock(&s->lock);
}

/* Executes it in the calling thread: no other thread has it. */
static void make_here(struct session *s, struct flight *f, uint64_t until_ns)
{
	int rc;

	set_state(s, f, FLIGHT_HERE);
	rc = session_make_step(s, f, until_ns, &f->err);
	set_state(s, f, rc < 0 ? FLIGHT_FAILED : FLIGHT_DONE);
}

int train_flights_await(struct session *s, uint64_t until_ns, struct star_error *err)
{
	struct flight *f = flights_at(s, 0);

	pthread_mutex_lock(&s->lock);
	while (f->state == FLIGHT_RUNS)
		pthread_cond_wait(&s->ended, &s->lock);
	pthread_mutex_unlock(&s->lock);
	if (f->state == FLIGHT_WAITS)
		make_here(s, f, until_ns);
	if (f->state == FLIGHT_DONE)
		return 0;
	*err = f->err;
	return err->code;
}

void train_flights_settle(struct session *s)
{
	pthread_mutex_lock(&s->lock);
	wait_all_ended(s);
	pthread_mutex_unlock(&s->lock);
}

bool train_flights_have_failed(struct session *s)
{
	bool failed;

	pthread_mutex_lock(&s->lock);
	failed = count(s, FLIGHT_FAILED) > 0;
	pthread_mutex_unlock(&s->lock);
	return failed;
}

/* Aligned in the same way as a run's tensors. */
static uint64_t room_of(const struct graph_tensor *tensor)
{
	return (graph_type_bytes(&tensor->type) + 63) / 64 * 64;
}

int train_flights_keep(struct session *s, struct star_error *err)
{
	for (uint32_t i = 0; i < s->in_flight; i++) {
		struct flight *f = flights_at(s, i);
		uint64_t bytes = 64;
		uint8_t *to;

		if (f->state != FLIGHT_DONE || f->kept)
			continue;
		for (uint32_t r = 0; r < s->model.graph->results_count; r++)
			bytes += room_of(&f->results[r]);
		f->kept = to = aligned_alloc(64, bytes);
		if (!to)
			return star_error_set(err, -ENOMEM, "no memory for a step's results");
		for (uint32_t r = 0; r < s->model.graph->results_count; to += room_of(&f->results[r++])) {
			if (f->results[r].data)
				memcpy(to, f->results[r].data, graph_type_bytes(&f->results[r].type));
			f->results[r].data = to;
		}
	}
	return 0;
}

void train_flights_again(struct session *s, uint64_t until_ns)
{
	for (uint32_t i = 0; i < s->in_flight; i++) {
		struct flight *f = flights_at(s, i);

		if (f->state == FLIGHT_FAILED && session_may_come_back(f->err.code))
			make_here(s, f, until_ns);
		if (f->state == FLIGHT_FAILED)
			return;
	}
}

struct flight *train_flights_take(struct session *s)
{
	struct flight *f;

	pthread_mutex_lock(&s->lock);
	f = take_flight(s);
	pthread_mutex_unlock(&s->lock);
	return f;
}

int train_flights_drop(struct session *s, struct star_error *err)
{
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	for (uint32_t i = 0; i < s->in_flight; i++)
		if (flights_at(s, i)->state == FLIGHT_WAITS)
			flights_at(s, i)->state = FLIGHT_FREE;
	wait_all_ended(s);
	while (s->in_flight) {
		const struct flight *f = flights_at(s, 0);

		if (f->state == FLIGHT_FAILED && rc == 0) {
			*err = f->err;
			rc = err->code;
		}
		take_flight(s);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}
