/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a call: checked and copied, split, passed to channels, and finished part by part. */
#include "client/attempt.h"
#include "client/blocks.h"
#include "client/client.h"
#include "client/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "wire/owner.h"

void *client_call_alloc_chunk(struct call *call, size_t bytes)
{
	const size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
	struct chunk *chunk = malloc(sizeof(*chunk) + size);

	if (!chunk)
		return NULL;
	chunk->next = call->chunks;
	call->chunks = chunk;
	call->at = chunk->bytes + bytes;
	call->end = chunk->bytes + size;
	return chunk->bytes;
}

void client_call_free(struct call *call)
{
	client_call_pool_give(&call->cluster->pool, call);
}

/* Takes a call without operations and without anything from its last use. */
static struct call *begin_call(struct star_cluster *cluster)
{
	struct call *call = client_call_pool_take(cluster);

	if (!call)
		return NULL;
	call->cluster = cluster;
	call->waiter = NULL;
	call->retries = 0;
	call->cancelled = 0;
	call->runs = call->waits = call->driven = call->async = false;
	atomic_store_explicit(&call->done, false, memory_order_relaxed);
	call->chunks = NULL;
	call->at = call->memory;
	call->end = call->memory + sizeof(call->memory);
	call->remaining = 0;
	call->small.part = NULL;
	call->callback = NULL;
	call->timer.link = NULL;
	call->error.code = 0;
	call->error.text[0] = 0;
	TAILQ_INIT(&call->parts);
	TAILQ_INIT(&call->stale);
	return call;
}

/*
 * A commit goes to every reactor that may have sums of the object, with a key that this reactor owns: the first one of
 * each; for a variable, to the reactors that have blocks. Each reactor owns a share of the partitions, and so of the
 * keys.
 */
static int fill_commit(struct call *call, struct call_op *op, struct star_error *err)
{
	const struct route *route = atomic_load_explicit(&call->cluster->route, memory_order_acquire);
	const struct star_table *t = op->table;
	const uint64_t end = t->blocks ? t->blocks : UINT64_MAX;
	uint64_t *keys = call_alloc(call, route->reactors * sizeof(*keys));
	bool *known = call_alloc(call, route->reactors * sizeof(*known));

	if (!keys || !known)
		return star_error_set(err, -ENOMEM, "out of memory for a call");
	memset(known, 0, route->reactors * sizeof(*known));
	op->count = 0;
	for (uint64_t key = 0; key < end && op->count < route->reactors; key++) {
		const uint32_t owner = wire_key_owner(route->partitions, route->reactors, &t->spec, t->name_hash, key);

		if (!known[owner])
			keys[op->count++] = key;
		known[owner] = true;
		if (t->spec.whole)
			break;
	}
	op->keys = keys;
	return 0;
}

static int fill_op(struct call *call, struct call_op *op, const struct star_op *from, struct star_error *err)
{
	struct star_table *table = from->table;
	const struct object_spec *spec = &table->spec;
	const unsigned dtype = from->dtype ? dtype_parse(from->dtype) : spec->dtype;
	const uint64_t row_bytes = from->dtype ? dtype_row_bytes(dtype, spec->dim) : table->row_bytes;

	/* Sets the fields one by one: see open_part in split.c. */
	op->table = table;
	op->keys = from->keys;
	op->pieces = NULL;
	op->gradients = from->values;
	op->results = from->kind == STAR_PUSH_PULL ? from->results : from->values;
	op->versions = from->versions;
	op->view = NULL;
	op->run = NULL;
	op->count = from->count ? from->count : table->blocks;
	op->step = from->step;
	op->tag = from->tag;
	op->rate = from->rate;
	op->scale = from->scale;
	op->row_bytes = op->last_bytes = (uint32_t)row_bytes;
	op->kind = (uint8_t)from->kind;
	op->at_once = from->flags & STAR_AT_ONCE;
	op->dtype = (uint8_t)dtype;
	op->flags =
		(uint16_t)((from->flags & STAR_READ_ONLY ? WIRE_READ_ONLY : 0) | (from->versions ? WIRE_VERSIONS : 0) |
			   (from->flags & STAR_ACCUMULATE ? WIRE_ACCUMULATE : 0) |
			   (from->flags & STAR_OPEN ? WIRE_OPEN : 0) | (from->flags & STAR_BY_ROW ? WIRE_BY_ROW : 0) |
			   op_step_flags(from));
	if (op->kind == STAR_COMMIT) {
		op->undivided = false;
		return fill_commit(call, op, err);
	}
	op->undivided = op_pushes(op) && op->kind != STAR_ASSIGN &&
			(spec->optim.kind == OPTIM_LAMB || spec->clip_global_norm > 0);
	if (!table->blocks)
		return 0;
	if (from->flags & CLIENT_BLOCKS)
		return 0;
	if (from->count)
		return client_rows_of_variable(call, op, from, err);
	op->last_bytes = (uint32_t)dtype_row_bytes(dtype, table->elements - (table->blocks - 1) * spec->dim);
	return 0;
}

struct call *client_call_create(struct star_cluster *cluster, const struct star_op *ops, uint32_t ops_count,
				uint64_t deadline_us, struct star_error *err)
{
	struct call *call;

	if (!ops || !ops_count) {
		star_error_set(err, -EINVAL, "a call needs at least one operation");
		return NULL;
	}
	if (ops_count > STAR_OPS_MAX) {
		star_error_set(err, -E2BIG, "a call of %u operations: at most %d are possible", ops_count,
			       STAR_OPS_MAX);
		return NULL;
	}
	for (uint32_t i = 0; i < ops_count; i++)
		if (client_check_op(cluster, &ops[i], i, err) < 0)
			return NULL;
	call = begin_call(cluster);
	if (!call) {
		star_error_set(err, -ENOMEM, "out of memory for a call");
		return NULL;
	}
	call->ops = call_alloc(call, ops_count * sizeof(*call->ops));
	if (!call->ops) {
		star_error_set(err, -ENOMEM, "out of memory for a call");
		client_call_free(call);
		return NULL;
	}
	call->start_ns = 0;
	call->deadline_ns = client_deadline_from(0, deadline_us);
	call->ops_count = ops_count;
	for (uint32_t i = 0; i < ops_count; i++)
		if ((ops[i].kind == STAR_RUN ? client_run_fill(call, &call->ops[i], &ops[i], err)
					     : fill_op(call, &call->ops[i], &ops[i], err)) < 0) {
			client_call_free(call);
			return NULL;
		}
	if (client_view_begin(call, ops, err) < 0) {
		client_call_free(call);
		return NULL;
	}
	return call;
}

void client_call_drop(struct call *call, struct waiter *self)
{
	struct waiter *k = call->waiter;

	if (--call->remaining)
		return;
	atomic_store(&call->finished, CALL_FINISHED);
	if (call->async)
		TAILQ_INSERT_TAIL(&k->finished, call, link);
	if (call->async || k != self) /* a thread that waits looks by itself */
		waiter_signal(k, self);
}

/* If only results were lost, everything is still applied; any other error is worse. */
static bool has_failed(const struct call *call)
{
	return call->error.code && call->error.code != -EREMOTEIO;
}

void client_call_fail(struct call *call, const struct star_error *err)
{
	if (err && !has_failed(call))
		call->error = *err;
}

bool client_call_goes_on(struct call *call)
{
	if (TAILQ_EMPTY(&call->stale) || has_failed(call))
		return false;
	/* It was cancelled while the last replies, whose copying had begun, were read. */
	if (call->cancelled)
		star_error_set(&call->error, call->cancelled,
			       "%s has refused a part of the call, because the layout has changed, and it ended before "
			       "that part was sent again",
			       TAILQ_FIRST(&call->stale)->channel->label);
	return !call->cancelled;
}

void client_part_finish(struct part *part, const struct star_error *err, struct waiter *self)
{
	struct call *call = part->call;
	struct waiter *k = call->waiter;

	pthread_mutex_lock(&k->lock);
	client_call_fail(call, err);
	client_call_drop(call, self);
	pthread_mutex_unlock(&k->lock);
}

void client_part_finish_stale(struct part *part, struct waiter *self)
{
	struct call *call = part->call;
	struct waiter *k = call->waiter;

	pthread_mutex_lock(&k->lock);
	TAILQ_INSERT_TAIL(&call->stale, part, link);
	client_call_drop(call, self);
	pthread_mutex_unlock(&k->lock);
}

int client_call_reroute(struct call *call)
{
	struct star_cluster *cluster = call->cluster;
	struct star_error err = { 0 };
	struct parts stale;
	uint32_t epoch;
	int rc;

	TAILQ_INIT(&stale);
	TAILQ_CONCAT(&stale, &call->stale, link); /* the call has no parts in flight, so no other thread uses it */
	TAILQ_INIT(&call->parts);
	epoch = TAILQ_FIRST(&stale)->epoch;
	rc = client_route_refresh(cluster, epoch, call->deadline_ns, &err);
	/* The node's layout is newer or older than the published one; in a moment they will be the same. */
	if (rc == 0 && (call->retries || atomic_load(&cluster->route)->epoch == epoch)) {
		struct prng prng;
		uint64_t now = clock_ns(), until;

		prng_seed(&prng, now ^ (uintptr_t)call);
		until = now + client_backoff_ns(&prng, call->retries);
		if (until >= call->deadline_ns)
			rc = star_error_set(
				&err, -ETIMEDOUT,
				"%s does not agree with the published layout (epoch %u), and the deadline is near",
				TAILQ_FIRST(&stale)->channel->label, epoch);
		else
			rc = client_cluster_pause(cluster, until, &err);
	}
	call->retries++;
	if (rc == 0)
		rc = client_split_stale(call, atomic_load(&cluster->route), &stale, &err);
	if (rc < 0) {
		TAILQ_INIT(&call->parts);
		call->error = err;
	}
	return rc;
}
