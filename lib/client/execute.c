/* SPDX-License-Identifier: BSD-3-Clause */
/* Pulls and pushes: the public calls. A struct star_request is a struct call. */
#include "client/client.h"
#include "client/run.h"
#include "client/small.h"

#include <errno.h>

int client_call_finish(struct waiter *k, struct call *call, struct star_error *err)
{
	for (;;) {
		call->cluster->transport->wait(k, call);
		if (!client_call_goes_on(call) || client_call_reroute(call) < 0)
			break;
		call_submit(call, k);
	}
	client_run_gather(call);
	if (call->error.code && err)
		*err = call->error;
	return call->error.code;
}

/* Also waits for it. */
static int run_call(struct call *call, struct waiter *k, struct star_error *err)
{
	call->waits = true;
	call->waiter = k;
	call_submit(call, k);
	return client_call_finish(k, call, err);
}

struct call *client_call_make(struct star_cluster *cluster, const struct star_op *ops, uint32_t ops_count,
			      uint64_t deadline_us, struct star_error *err)
{
	struct call *call = client_call_create(cluster, ops, ops_count, deadline_us, err);

	if (!call || client_split_call(call, atomic_load_explicit(&cluster->route, memory_order_acquire), err) == 0)
		return call;
	client_call_free(call);
	return NULL;
}

static int execute_ops(struct star_cluster *cluster, const struct star_op *ops, uint32_t ops_count,
		       uint64_t deadline_us, struct star_error *err)
{
	struct star_error ignored;
	struct waiter *k = NULL;
	struct call *call;
	int rc;

	if (!err)
		err = &ignored;
	rc = client_cluster_enter(cluster, true, err);
	if (rc < 0)
		return rc;
	call = client_call_make(cluster, ops, ops_count, deadline_us, err);
	if (call && !cluster->transport->unattended)
		k = client_waiter_get(cluster, err);
	rc = call && (k || cluster->transport->unattended) ? run_call(call, k, err) : err->code;
	if (call)
		client_call_free(call);
	if (k)
		client_waiter_put(k);
	client_cluster_leave(cluster);
	return rc;
}

/* Whether it is a small call; if so, *small describes it. */
static inline bool is_small(const struct star_cluster *cluster, const struct star_op *op, struct small_op *small)
{
	if (!op->table || op->table->cluster != cluster || op->count != 1 || op->dtype || op->results || op->versions ||
	    op->view || op->tag)
		return false;
	*small = (struct small_op){ .table = op->table,
				    .keys = op->keys,
				    .values = op->values,
				    .step = op->step,
				    .rate = op->rate,
				    .scale = op->scale,
				    .flags = op->flags,
				    .kind = op->kind };
	return small_is(small);
}

int star_execute(struct star_cluster *cluster, struct star_op *ops, uint32_t ops_count, uint64_t deadline_us,
		 struct star_error *err)
{
	struct small_op small;

	if (ops && ops_count == 1 && is_small(cluster, ops, &small))
		return client_small_execute(&small, deadline_us, err);
	return execute_ops(cluster, ops, ops_count, deadline_us, err);
}

struct star_request *star_execute_async(struct star_cluster *cluster, const struct star_op *ops, uint32_t ops_count,
					uint64_t deadline_us, star_done *done, void *arg, struct star_error *err)
{
	struct small_op small;
	struct call *call = NULL;

	if (client_cluster_enter(cluster, false, err) < 0)
		return NULL;
	if (cluster->transport->unattended && !done && ops && ops_count == 1 && is_small(cluster, ops, &small))
		call = client_small_begin(&small, deadline_us);
	if (!call)
		call = client_call_make(cluster, ops, ops_count, deadline_us, err);
	if (call) {
		call->async = done || !cluster->transport->unattended;
		call->callback = done;
		call->arg = arg;
		call->waiter = TAILQ_FIRST(&call->parts)->channel->io;
		call_submit(call, client_io_self(cluster));
	}
	client_cluster_leave(cluster);
	return (struct star_request *)call;
}

int star_request_wait(struct star_request *request, struct star_error *err)
{
	struct call *call = (struct call *)request;
	struct star_cluster *cluster;
	int rc;

	if (!call)
		return star_error_set(err, -EINVAL, "the request is NULL");
	cluster = call->cluster;
	rc = client_cluster_enter(cluster, true, err);
	if (rc < 0)
		return rc;
	if (call->async)
		client_io_await(call->waiter, call);
	else
		client_call_finish(NULL, call, NULL);
	rc = call->error.code;
	if (rc && err)
		*err = call->error;
	if (call->small.part)
		client_small_end(call);
	else
		client_call_free(call);
	client_cluster_leave(cluster);
	return rc;
}

static int execute_one(const struct star_op *op, uint64_t deadline_us, struct star_error *err)
{
	if (!op->table)
		return star_error_set(err, -EINVAL, "the table is NULL");
	return execute_ops(op->table->cluster, op, 1, deadline_us, err);
}

int star_pull(struct star_table *table, const uint64_t *keys, uint32_t count, void *values, uint32_t flags,
	      uint64_t deadline_us, struct star_error *err)
{
	const struct small_op small = {
		.table = table, .keys = keys, .values = values, .flags = flags, .kind = STAR_PULL
	};
	struct star_op op;

	if (count == 1 && table && small_is(&small))
		return client_small_execute(&small, deadline_us, err);
	op = star_op_pull(table, keys, count, values);
	op.flags = flags;
	return execute_one(&op, deadline_us, err);
}

int star_push(struct star_table *table, const uint64_t *keys, uint32_t count, const void *gradients,
	      uint64_t deadline_us, struct star_error *err)
{
	struct star_op op = star_op_push(table, keys, count, gradients);
	const struct small_op small = { .table = table, .keys = keys, .values = op.values, .kind = STAR_PUSH };

	if (count == 1 && table && small_is(&small))
		return client_small_execute(&small, deadline_us, err);
	return execute_one(&op, deadline_us, err);
}

int star_variable_pull(struct star_table *variable, void *values, uint64_t deadline_us, struct star_error *err)
{
	return star_pull(variable, NULL, 0, values, 0, deadline_us, err);
}

int star_variable_push(struct star_table *variable, const void *gradients, uint64_t deadline_us, struct star_error *err)
{
	return star_push(variable, NULL, 0, gradients, deadline_us, err);
}
