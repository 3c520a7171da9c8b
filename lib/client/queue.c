/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work queues. Each request to PS task 0 contains everything that this worker has. Requests are sent by the caller that
 * wants the next slice, and by a thread that renews the leases. So a request whose answer was lost is simply repeated.
 */
#include "client/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "jsonrpc/member.h"

#define WAIT_MAX_US UINT64_C(3600000000)

enum { HELD_MAX = 1024, LEASE_DEFAULT_MS = 10000, PAUSE_MAX_MS = 1000, RENEWALS = 3 /* per lease */ };

/* A slice that was handed out to this worker. */
struct held {
	uint64_t number, handle;
	bool done; /* not reported yet */
	bool sent; /* in the request that is on its way, as done or not */
	bool told_done;
};

struct star_queue {
	struct star_cluster *cluster;
	char *name, *text;
	uint64_t digest, slices, worker, deadline_us;
	uint32_t epochs, lease_ms;
	pthread_t thread;
	pthread_mutex_t asking; /* one request at a time; taken before lock */
	json_int_t incarnation; /* of the PS task 0 at which it was opened; only used under asking */
	pthread_mutex_t lock;	/* protects what follows */
	pthread_cond_t changed;
	struct held held[HELD_MAX];
	uint32_t count;
	uint64_t handles, lost;
	uint64_t renew_ns; /* when the leases must be renewed */
	bool news;	   /* something is done that has not been reported */
	bool stop;
};

/* The answer of PS task 0. */
struct answer {
	bool slice, over;
	uint64_t number, handle;
	uint32_t wait_ms;
};

static json_t *open_question(const struct star_queue *q)
{
	return json_pack("{s:s, s:s, s:o, s:I, s:I, s:I}", "name", q->name, "text", q->text, "digest",
			 jsonrpc_member_from_u64(q->digest), "slices", (json_int_t)q->slices, "epochs",
			 (json_int_t)q->epochs, "lease_ms", (json_int_t)q->lease_ms);
}

static int open_queue(struct star_queue *q, uint64_t deadline_ns, struct star_error *err)
{
	json_t *params = open_question(q), *result;

	if (!params)
		return star_error_set(err, -EINVAL, "the queue's name or text is not UTF-8");
	result = client_catalogue_call(q->cluster, "queue_open", params, deadline_ns, err);
	json_decref(params);
	if (!result)
		return err->code;
	q->incarnation = json_integer_value(json_object_get(result, "incarnation"));
	json_decref(result);
	return 0;
}

/* Names all slices that this worker has. */
static json_t *make_question(struct star_queue *q, bool wants)
{
	json_t *has = json_array(), *done = json_array();

	pthread_mutex_lock(&q->lock);
	for (uint32_t i = 0; i < q->count; i++) {
		struct held *h = &q->held[i];

		h->sent = true;
		h->told_done = h->done;
		json_array_append_new(h->done ? done : has, jsonrpc_member_from_u64(h->number));
	}
	q->news = false;
	q->renew_ns = clock_ns() + q->lease_ms * UINT64_C(1000000) / RENEWALS;
	pthread_mutex_unlock(&q->lock);
	return json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:b}", "name", q->name, "incarnation", q->incarnation,
			 "digest", jsonrpc_member_from_u64(q->digest), "worker", jsonrpc_member_from_u64(q->worker),
			 "has", has, "done", done, "wants", wants);
}

/* Under lock. Forgets slices that a request named: all, those that were done, or one. */
static void forget_slices(struct star_queue *q, bool all, const uint64_t *number)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < q->count; i++) {
		const struct held *h = &q->held[i];
		const bool gone = h->sent && (number ? h->number == *number : all || h->told_done);

		q->lost += gone && (all || number);
		if (!gone)
			q->held[kept++] = *h;
	}
	q->count = kept;
}

static void note_answer(struct star_queue *q, const json_t *json, struct answer *answer)
{
	const json_t *number;
	size_t i;

	pthread_mutex_lock(&q->lock);
	json_array_foreach(json_object_get(json, "lost"), i, number)
	{
		uint64_t lost;

		if (jsonrpc_member_to_u64(number, &lost))
			forget_slices(q, false, &lost);
	}
	forget_slices(q, false, NULL);
	answer->slice = json_is_integer(json_object_get(json, "slice")) && q->count < HELD_MAX;
	answer->over = json_is_true(json_object_get(json, "over"));
	answer->number = (uint64_t)json_integer_value(json_object_get(json, "slice"));
	answer->wait_ms = (uint32_t)json_integer_value(json_object_get(json, "wait_ms"));
	answer->handle = ++q->handles;
	if (answer->slice)
		q->held[q->count++] = (struct held){ .number = answer->number, .handle = answer->handle };
	pthread_mutex_unlock(&q->lock);
}

/* If PS task 0 has restarted, everything that it had is lost, and so is the training since the checkpoint. A queue that
 * is gone, because of that or because it was dropped, begins again. */
static int ask(struct star_queue *q, bool wants, uint64_t deadline_ns, struct answer *answer, struct star_error *err)
{
	json_t *params, *result;
	int rc;

	*answer = (struct answer){ .slice = false };
	pthread_mutex_lock(&q->asking);
	params = make_question(q, wants);
	result = params ? client_catalogue_call(q->cluster, "queue_work", params, deadline_ns, err) : NULL;
	json_decref(params);
	if (!params)
		rc = star_error_set(err, -ENOMEM, "no memory for a question");
	else
		rc = result ? 0 : err->code;
	if (rc == 0)
		note_answer(q, result, answer);
	if (rc == -ENOENT || rc == -ESTALE) {
		pthread_mutex_lock(&q->lock);
		forget_slices(q, true, NULL);
		pthread_mutex_unlock(&q->lock);
		rc = open_queue(q, deadline_ns, err);
	}
	json_decref(result);
	pthread_mutex_unlock(&q->asking);
	return rc;
}

/* Renews leases, and reports what is done. Errors are left to the caller that wants the next slice. */
static void *renew_leases(void *arg)
{
	struct star_queue *q = arg;
	struct answer answer;
	struct star_error err;

	pthread_mutex_lock(&q->lock);
	while (!q->stop) {
		const struct timespec until = clock_timespec(q->renew_ns);

		if (!q->news && clock_ns() < q->renew_ns) {
			pthread_cond_timedwait(&q->changed, &q->lock, &until);
			continue;
		}
		q->renew_ns = clock_ns() + q->lease_ms * UINT64_C(1000000) / RENEWALS;
		if (!q->count) {
			q->news = false; /* for slices that were lost meanwhile */
			continue;
		}
		pthread_mutex_unlock(&q->lock);
		ask(q, false, clock_ns() + q->lease_ms * UINT64_C(1000000) / RENEWALS, &answer, &err);
		pthread_mutex_lock(&q->lock);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

static int check_spec(const struct star_queue_spec *spec, struct star_error *err)
{
	if (!spec || !spec->name || !*spec->name || strlen(spec->name) > STAR_QUEUE_NAME_MAX)
		return star_error_set(err, -EINVAL, "a queue has a name of 1 to %d bytes", STAR_QUEUE_NAME_MAX);
	if (!spec->slices || spec->slices > STAR_QUEUE_SLICES_MAX)
		return star_error_set(err, -EINVAL, "a queue has 1 to %d slices", STAR_QUEUE_SLICES_MAX);
	return 0;
}

static struct star_queue *make_queue(struct star_cluster *cluster, const struct star_queue_spec *spec,
				     struct star_error *err)
{
	struct star_queue *q = calloc(1, sizeof(*q));
	struct prng prng;

	if (q) {
		q->name = strdup(spec->name);
		q->text = strdup(spec->text && *spec->text ? spec->text : "slices without a description");
	}
	if (!q || !q->name || !q->text) {
		if (q) {
			free(q->name);
			free(q->text);
		}
		free(q);
		star_error_set(err, -ENOMEM, "no memory for a queue");
		return NULL;
	}
	prng_seed(&prng, clock_ns() ^ (uintptr_t)q ^ (uint64_t)getpid() << 32);
	q->cluster = cluster;
	q->digest = spec->digest;
	q->slices = spec->slices;
	q->epochs = spec->epochs ? spec->epochs : 1;
	q->lease_ms = spec->lease_us ? (uint32_t)(spec->lease_us / 1000) : LEASE_DEFAULT_MS;
	q->deadline_us = spec->deadline_us;
	q->worker = prng_next(&prng) | 1;
	q->renew_ns = clock_ns() + q->lease_ms * UINT64_C(1000000) / RENEWALS;
	pthread_mutex_init(&q->asking, NULL);
	pthread_mutex_init(&q->lock, NULL);
	clock_condition_init(&q->changed);
	return q;
}

static void free_queue(struct star_queue *q)
{
	pthread_cond_destroy(&q->changed);
	pthread_mutex_destroy(&q->lock);
	pthread_mutex_destroy(&q->asking);
	free(q->name);
	free(q->text);
	free(q);
}

struct star_queue *star_queue_open(struct star_cluster *cluster, const struct star_queue_spec *spec,
				   struct star_error *err)
{
	struct star_error ignored;
	struct star_queue *q;
	int rc;

	err = err ? err : &ignored;
	if (check_spec(spec, err) < 0 || client_cluster_enter(cluster, true, err) < 0)
		return NULL;
	q = make_queue(cluster, spec, err);
	rc = q ? open_queue(q, client_deadline_from(clock_ns(), spec->deadline_us), err) : err->code;
	if (rc == 0) {
		rc = -pthread_create(&q->thread, NULL, renew_leases, q);
		if (rc < 0)
			star_error_set(err, rc, "cannot start a thread: %s", strerror(-rc));
	}
	if (rc < 0 && q)
		free_queue(q);
	client_cluster_leave(cluster);
	return rc == 0 ? q : NULL;
}

static int take_slice(struct star_queue *q, struct star_slice *slice, uint64_t deadline_ns, struct star_error *err)
{
	for (;;) {
		struct answer answer;
		const int rc = ask(q, true, client_deadline_from(clock_ns(), q->deadline_us), &answer, err);
		uint64_t until_ns = clock_ns();

		if (rc < 0)
			return rc;
		if (answer.over)
			return 0;
		if (answer.slice) {
			*slice = (struct star_slice){ .number = answer.number % q->slices,
						      .epoch = (uint32_t)(answer.number / q->slices),
						      .handle = answer.handle };
			return 1;
		}
		if (until_ns >= deadline_ns)
			return star_error_set(err, -EAGAIN, "other workers have the last slices of the queue \"%s\"",
					      q->name);
		until_ns += (answer.wait_ms < PAUSE_MAX_MS ? answer.wait_ms : PAUSE_MAX_MS) * UINT64_C(1000000);
		if (client_cluster_pause(q->cluster, until_ns < deadline_ns ? until_ns : deadline_ns, err) < 0)
			return err->code;
	}
}

int star_queue_take(struct star_queue *queue, struct star_slice *slice, uint64_t wait_us, struct star_error *err)
{
	struct star_error ignored;
	int rc;

	err = err ? err : &ignored;
	if (client_cluster_enter(queue->cluster, true, err) < 0)
		return err->code;
	rc = take_slice(queue, slice, clock_ns() + (wait_us < WAIT_MAX_US ? wait_us : WAIT_MAX_US) * 1000, err);
	client_cluster_leave(queue->cluster);
	return rc;
}

int star_queue_done(struct star_queue *q, const struct star_slice *slice)
{
	int rc = -ESTALE;

	pthread_mutex_lock(&q->lock);
	for (uint32_t i = 0; i < q->count; i++)
		if (q->held[i].handle == slice->handle) {
			q->held[i].done = true;
			q->news = true;
			rc = 0;
		}
	pthread_cond_signal(&q->changed);
	pthread_mutex_unlock(&q->lock);
	return rc;
}

uint64_t star_queue_lost(struct star_queue *q)
{
	uint64_t lost;

	pthread_mutex_lock(&q->lock);
	lost = q->lost;
	pthread_mutex_unlock(&q->lock);
	return lost;
}

/* Returns slices that have been begun, which others get at once, and reports those that are done. */
static int return_slices(struct star_queue *q, struct star_error *err)
{
	struct answer answer;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < q->count; i++)
		if (q->held[i].done)
			q->held[kept++] = q->held[i];
	if (q->count == 0)
		return 0;
	q->count = kept;
	return ask(q, false, client_deadline_from(clock_ns(), q->deadline_us), &answer, err);
}

int star_queue_close(struct star_queue *q, struct star_error *err)
{
	struct star_error ignored;
	int rc;

	err = err ? err : &ignored;
	if (!q)
		return 0;
	pthread_mutex_lock(&q->lock);
	q->stop = true;
	pthread_cond_signal(&q->changed);
	pthread_mutex_unlock(&q->lock);
	pthread_join(q->thread, NULL);
	rc = client_cluster_enter(q->cluster, true, err);
	if (rc == 0) {
		rc = return_slices(q, err);
		client_cluster_leave(q->cluster);
	}
	free_queue(q);
	return rc;
}
