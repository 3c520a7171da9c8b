/* SPDX-License-Identifier: BSD-3-Clause */
/* Pulls and pushes: the public calls. A struct star_request is a struct call. */
#include "client/client.h"

#include <errno.h>

/* Of a call that was submitted. */
static int finish(struct keeper *k, struct call *call, struct star_error *err)
{
	for (;;) {
		call->cluster->transport->wait(k, call);
		if (TAILQ_EMPTY(&call->stale) || call->error.code || call->cancelled || call_reroute(call) < 0)
			break;
		call_submit(call, k);
	}
	if (call->error.code && err)
		*err = call->error;
	return call->error.code;
}

static int run(struct keeper *k, struct call *call, struct star_error *err)
{
	int rc = split_call(call, atomic_load(&call->cluster->route), NULL, err);

	if (rc < 0)
		return rc;
	call->keeper = k;
	call_submit(call, k);
	return finish(k, call, err);
}

int star_execute(struct star_cluster *cluster, struct star_op *ops, uint32_t ops_count, uint64_t deadline_us,
		 struct star_error *err)
{
	struct star_error ignored;
	struct call *call;
	struct keeper *k;
	int rc;

	if (!err)
		err = &ignored;
	k = waiter_enter(cluster, err);
	if (!k)
		return err->code;
	call = call_create(cluster, ops, ops_count, deadline_us, &k->spare, err);
	rc = call ? run(k, call, err) : err->code;
	if (call)
		call_recycle(call, &k->spare);
	waiter_leave(k);
	return rc;
}

struct star_request *star_execute_async(struct star_cluster *cluster, const struct star_op *ops, uint32_t ops_count,
					uint64_t deadline_us, star_done *done, void *arg, struct star_error *err)
{
	struct call *call = NULL;
	struct keeper *k;

	if (cluster_enter(cluster, false, err) < 0)
		return NULL;
	call = call_create(cluster, ops, ops_count, deadline_us, NULL, err);
	if (call && split_call(call, atomic_load(&cluster->route), NULL, err) < 0) {
		call_free(call);
		call = NULL;
	}
	if (call) {
		call->async = done || !cluster->transport->unattended;
		call->callback = done;
		call->arg = arg;
		call->keeper = k = TAILQ_FIRST(&call->parts)->channel->io;
		pthread_mutex_lock(&k->lock);
		TAILQ_INSERT_TAIL(&k->requests, call, request);
		pthread_mutex_unlock(&k->lock);
		call_submit(call, NULL);
	}
	cluster_leave(cluster);
	return (struct star_request *)call;
}

int star_request_wait(struct star_request *request, struct star_error *err)
{
	struct call *call = (struct call *)request;
	struct star_cluster *cluster;
	struct keeper *k;
	int rc;

	if (!call)
		return star_error_set(err, -EINVAL, "the request is NULL");
	cluster = call->cluster;
	k = call->keeper;
	rc = cluster_enter(cluster, true, err);
	if (rc < 0)
		return rc;
	if (!call->async)
		finish(NULL, call, NULL);
	pthread_mutex_lock(&k->lock);
	while (call->async && !call->done) /* it has a deadline, and its I/O thread ends it then at the latest */
		pthread_cond_wait(&k->done, &k->lock);
	TAILQ_REMOVE(&k->requests, call, request);
	pthread_mutex_unlock(&k->lock);
	rc = call->error.code;
	if (rc && err)
		*err = call->error;
	call_free(call);
	cluster_leave(cluster);
	return rc;
}

static int one(struct star_op *op, uint64_t deadline_us, struct star_error *err)
{
	if (!op->table)
		return star_error_set(err, -EINVAL, "the table is NULL");
	return star_execute(op->table->cluster, op, 1, deadline_us, err);
}

int star_pull(struct star_table *table, const uint64_t *keys, uint32_t count, void *values, uint32_t flags,
	      uint64_t deadline_us, struct star_error *err)
{
	struct star_op op = {
		.kind = STAR_PULL,
		.flags = flags,
		.table = table,
		.keys = keys,
		.count = count,
		.values = values,
	};

	return one(&op, deadline_us, err);
}

int star_push(struct star_table *table, const uint64_t *keys, uint32_t count, const void *gradients,
	      uint64_t deadline_us, struct star_error *err)
{
	struct star_op op = {
		.kind = STAR_PUSH,
		.table = table,
		.keys = keys,
		.count = count,
		.values = (void *)(uintptr_t)gradients, /* a push only reads them */
	};

	return one(&op, deadline_us, err);
}

int star_variable_pull(struct star_table *variable, void *values, uint64_t deadline_us, struct star_error *err)
{
	return star_pull(variable, NULL, 0, values, 0, deadline_us, err);
}

int star_variable_push(struct star_table *variable, const void *gradients, uint64_t deadline_us, struct star_error *err)
{
	return star_push(variable, NULL, 0, gradients, deadline_us, err);
}
