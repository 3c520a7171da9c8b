/* SPDX-License-Identifier: BSD-3-Clause */
#include "exec/team.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct team {
	pthread_mutex_t lock; /* protects everything below except next */
	pthread_cond_t begin, end;
	uint64_t round; /* incremented for each task */
	uint32_t busy;	/* threads that have not finished this round */
	bool over;
	void (*work)(void *context, uint64_t part);
	void *context;
	uint64_t parts;
	_Atomic uint64_t next; /* the next part that is not taken */
	uint32_t threads_count;
	pthread_t threads[];
};

static void take_parts(struct team *team)
{
	uint64_t part;

	while ((part = atomic_fetch_add(&team->next, 1)) < team->parts)
		team->work(team->context, part);
}

static void *member(void *context)
{
	struct team *team = context;
	uint64_t seen = 0;

	pthread_mutex_lock(&team->lock);
	for (;;) {
		while (team->round == seen && !team->over)
			pthread_cond_wait(&team->begin, &team->lock);
		if (team->over)
			break;
		seen = team->round;
		pthread_mutex_unlock(&team->lock);
		take_parts(team);
		pthread_mutex_lock(&team->lock);
		if (--team->busy == 0)
			pthread_cond_signal(&team->end);
	}
	pthread_mutex_unlock(&team->lock);
	return NULL;
}

struct team *exec_team_create(uint32_t threads, struct star_error *err)
{
	struct team *team;

	err->code = 0;
	if (threads <= 1)
		return NULL;
	if (threads > TEAM_THREADS_MAX) {
		star_error_set(err, -EINVAL, "at most %d threads are possible, not %u", TEAM_THREADS_MAX, threads);
		return NULL;
	}
	team = calloc(1, sizeof(*team) + (threads - 1) * sizeof(team->threads[0]));
	if (!team) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	pthread_mutex_init(&team->lock, NULL);
	pthread_cond_init(&team->begin, NULL);
	pthread_cond_init(&team->end, NULL);
	for (uint32_t i = 0; i < threads - 1; i++) {
		const int failed = pthread_create(&team->threads[i], NULL, member, team);

		if (failed) {
			star_error_set(err, -failed, "thread %u of %u cannot be started: %s", i + 2, threads,
				       strerror(failed));
			exec_team_destroy(team);
			return NULL;
		}
		team->threads_count++;
	}
	return team;
}

void exec_team_destroy(struct team *team)
{
	if (!team)
		return;
	pthread_mutex_lock(&team->lock);
	team->over = true;
	pthread_cond_broadcast(&team->begin);
	pthread_mutex_unlock(&team->lock);
	for (uint32_t i = 0; i < team->threads_count; i++)
		pthread_join(team->threads[i], NULL);
	pthread_cond_destroy(&team->begin);
	pthread_cond_destroy(&team->end);
	pthread_mutex_destroy(&team->lock);
	free(team);
}

void exec_team_run(struct team *team, uint64_t parts, void (*work)(void *context, uint64_t part), void *context)
{
	if (!team || parts <= 1) {
		for (uint64_t part = 0; part < parts; part++)
			work(context, part);
		return;
	}
	pthread_mutex_lock(&team->lock);
	team->work = work;
	team->context = context;
	team->parts = parts;
	atomic_store(&team->next, 0);
	team->busy = team->threads_count;
	team->round++;
	pthread_cond_broadcast(&team->begin);
	pthread_mutex_unlock(&team->lock);
	take_parts(team);
	pthread_mutex_lock(&team->lock);
	while (team->busy)
		pthread_cond_wait(&team->end, &team->lock);
	pthread_mutex_unlock(&team->lock);
}
