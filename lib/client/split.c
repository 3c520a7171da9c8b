/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cuts a call's operations into parts: by the reactor that owns each key, keeping the keys' order, and by what one
 * frame may hold.
 *
 * A push promises that the gradients of duplicate keys are summed before they are applied. The node keeps that promise
 * within one request; so a reactor's share of a push that needs several requests is ordered by key first (stably: the
 * order in which gradients of one key are summed stays), and never cut between duplicates.
 *
 * A pull needs no such care, and goes in requests of the transport's pull_bytes of rows: the first ones are on their
 * way, and copied by this side, while the node looks for the next. Not so one with versions, of which most rows may
 * stay behind.
 *
 * A dense push goes in requests of DENSE_BYTES, since the node goes through each of them twice: it looks at all its
 * gradients before it applies the first one. The second time it finds those of such a request in its second-level
 * cache. What is not large goes in smaller ones still: the node executes the first while the next are on their way,
 * which is a fifth of a step of DLRM.
 *
 * A push that is cut is one push all the same: all its requests but a reactor's last one say that more of it follows
 * (WIRE_MORE).
 */
#include "client/codec.h"
#include "client/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/owner.h"

struct split {
	struct call *call;
	const struct route *route;
	struct part **open; /* by reactor: its last part, still with room */
	uint32_t *counts;   /* by reactor */
	struct star_error *err;
};

static int split_no_memory(struct split *s)
{
	return star_error_set(s->err, -ENOMEM, "out of memory for a call");
}

static struct part *open_part(const struct split *s, uint32_t reactor)
{
	struct part *part = call_alloc(s->call, sizeof(*part));

	if (!part)
		return NULL;
	/* Field by field: a compound literal of this size becomes a rep stos, which takes longer than all the rest. */
	part->call = s->call;
	part->channel = s->route->channels[reactor];
	part->slices = part->last = NULL;
	part->slices_count = part->more_pushes = part->keys = 0;
	part->request_bytes = part->reply_bytes = part->alone_more = 0;
	part->alone = part->applied = part->pushes = part->deletes = part->apart = false;
	part->epoch = s->route->epoch;
	part->busy = 0;
	part->again = false;
	part->state = PART_NEW;
	TAILQ_INSERT_TAIL(&s->call->parts, part, in_call);
	return part;
}

/* Whether it must not be in a request with pushes (wire/frame.h). */
static bool goes_apart(const struct call_op *op)
{
	return op->versions || op->kind == STAR_DELETE || op->kind == STAR_COMMIT;
}

static uint32_t fewer(uint32_t keys, uint32_t bytes, uint32_t key_bytes)
{
	return (uint64_t)keys * key_bytes <= bytes ? keys : bytes / key_bytes;
}

static uint32_t dense_bytes(const struct call_op *op)
{
	const uint64_t all = (uint64_t)op->count * op_request_key_bytes(op);

	return all < DENSE_LARGE_BYTES ? DENSE_FEW_BYTES : DENSE_BYTES;
}

static uint32_t left(uint32_t most, uint32_t used)
{
	return used < most ? most - used : 0;
}

/* How many of these keys of the operation still fit into the part. */
static uint32_t room_for_keys(const struct split *s, const struct part *part, const struct call_op *op, uint32_t keys)
{
	const uint32_t most = s->route->payload_max;
	const uint32_t request_used = part->request_bytes + part->alone_more + (uint32_t)sizeof(struct wire_op);
	const uint32_t reply_used = part->reply_bytes + (uint32_t)sizeof(struct wire_result);

	if (part->slices_count + part->more_pushes >= WIRE_OPS_MAX || request_used > most || reply_used > most ||
	    (part->pushes && goes_apart(op)) || (part->apart && op_pushes(op)))
		return 0;
	if (keys > WIRE_KEYS_MAX - part->keys)
		keys = WIRE_KEYS_MAX - part->keys;
	keys = fewer(keys, most - request_used, op_request_key_bytes(op));
	keys = fewer(keys, most - reply_used, op_reply_key_bytes(op));
	/* Versions and bodies are padded, by less than a key. */
	while (keys && (wire_padded(op_request_bytes(op, keys)) > most - request_used ||
			wire_padded(op_reply_bytes(op, keys)) > most - reply_used))
		keys--;
	if (op->kind == STAR_PULL && !op->versions && !part->pushes)
		keys = fewer(keys, left(s->call->cluster->pull_bytes, part->reply_bytes), op_reply_key_bytes(op));
	else if (op_pushes(op) && !op->keys && !op->undivided)
		keys = fewer(keys, left(dense_bytes(op), part->request_bytes), op_request_key_bytes(op));
	else
		return keys;
	/* A row may be too long: then it has a request to itself. */
	return keys == 0 && part->slices_count == 0 ? 1 : keys;
}

static void append_slice(struct part *part, struct slice *slice)
{
	if (part->last)
		part->last->next = slice;
	else
		part->slices = slice;
	part->last = slice;
	part->slices_count++;
	part->keys += slice->count;
}

static int add_slice(struct split *s, struct part *part, uint32_t op, const uint32_t *order, uint64_t first,
		     uint32_t count, uint32_t left)
{
	const struct call_op *o = &s->call->ops[op];
	struct slice *slice = call_alloc(s->call, sizeof(*slice));

	if (!slice)
		return split_no_memory(s);
	*slice = (struct slice){
		.op = op, .count = count, .order = order, .first = first, .goes_on = first > 0, .more = left > 0
	};
	append_slice(part, slice);
	part->request_bytes += (uint32_t)sizeof(struct wire_op) + wire_padded(op_request_bytes(o, count));
	part->reply_bytes += (uint32_t)sizeof(struct wire_result) + wire_padded(op_reply_bytes(o, count));
	part->pushes |= op_pushes(o);
	part->deletes |= o->kind == STAR_DELETE || o->kind == STAR_COMMIT;
	part->apart |= goes_apart(o);
	return 0;
}

int client_split_by_key(const void *a, const void *b, void *keys_of)
{
	const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	const uint64_t *keys = keys_of;

	if (keys[i] != keys[j])
		return keys[i] < keys[j] ? -1 : 1;
	return i < j ? -1 : i > j;
}

static const uint32_t *order_by_key(struct split *s, const struct call_op *op, const uint32_t *order, uint32_t n)
{
	uint32_t *sorted = call_alloc(s->call, (size_t)n * sizeof(*sorted));

	if (!sorted)
		return NULL;
	for (uint32_t i = 0; i < n; i++)
		sorted[i] = order ? order[i] : i;
	qsort_r(sorted, n, sizeof(*sorted), client_split_by_key, (void *)(uintptr_t)op->keys);
	return sorted;
}

/* Fewer than `take` keys, such that no duplicate of them is left. 0: they are all the same. */
static uint32_t uncut(const uint64_t *keys, const uint32_t *order, uint32_t take)
{
	while (take && keys[order[take - 1]] == keys[order[take]])
		take--;
	return take;
}

static int too_many(struct split *s, const struct call_op *o, uint64_t key, uint32_t fit)
{
	return star_error_set(
		s->err, -E2BIG,
		"key %llu occurs more than %u times in one push to \"%s\", and all its gradients must fit "
		"into one request: sum them first, or make several pushes",
		(unsigned long long)key, fit, o->table->spec.name);
}

static int too_large(struct split *s, const struct call_op *o)
{
	return star_error_set(s->err, -E2BIG,
			      "a push to \"%s\" must go in one request of %u MiB, for its %s: push it as another type "
			      "(bfloat16, scaled_int8), or have all nodes take larger ones (limits.request_mib, and "
			      "memory.mbufs of a worker with DPDK)",
			      o->table->spec.name, s->route->payload_max >> 20,
			      o->table->spec.optim.kind == OPTIM_LAMB ? "optimizer lamb" : "clip_global_norm");
}

/* Gives a reactor its n keys of an operation: order, or the positions 0 to n - 1. open: the reactor's last part. */
static int emit(struct split *s, struct part **open, uint32_t reactor, uint32_t op, const uint32_t *order, uint32_t n)
{
	const struct call_op *o = &s->call->ops[op];
	const bool together = op_pushes(o) && (o->keys || o->undivided);
	bool sorted = false;
	uint32_t at = 0;

	while (at < n) {
		struct part *part = *open;
		uint32_t fit = part ? room_for_keys(s, part, o, n - at) : 0, take;
		int rc;

		if (fit == 0 || (together && fit < n - at && part->slices_count)) {
			*open = part = open_part(s, reactor);
			if (!part)
				return split_no_memory(s);
			fit = room_for_keys(s, part, o, n - at);
		}
		take = fit < n - at ? fit : n - at;
		if (take < n - at && o->undivided)
			return too_large(s, o);
		if (together && take < n - at && !sorted) {
			order = order_by_key(s, o, order, n);
			if (!order)
				return split_no_memory(s);
			sorted = true;
		}
		if (together && take < n - at)
			take = uncut(o->keys, order + at, take);
		if (!take)
			return too_many(s, o, o->keys[order[at]], fit);
		rc = add_slice(s, part, op, order ? order + at : NULL, at, take, n - at - take);
		if (rc < 0)
			return rc;
		at += take;
	}
	return 0;
}

static uint32_t key_owner(const struct split *s, const struct call_op *o, uint64_t key)
{
	return wire_key_owner(s->route->partitions, s->route->reactors, &o->table->spec, o->table->name_hash, key);
}

/* Whether all keys of an operation, this many, belong to one reactor. */
static bool is_one_reactors(const struct split *s, const struct call_op *o, uint64_t n)
{
	return n == 1 || s->route->reactors == 1 || o->table->spec.whole;
}

/* The reactor that owns them. */
static uint32_t reactor_of(const struct split *s, const struct call_op *o, const uint32_t *positions)
{
	const uint64_t at = positions ? positions[0] : 0;

	return s->route->reactors == 1 ? 0 : key_owner(s, o, o->keys ? o->keys[at] : at);
}

/* Divides positions of an operation: the n given ones, or all. */
static int split_op(struct split *s, uint32_t op, const uint32_t *positions, uint32_t n)
{
	const struct call_op *o = &s->call->ops[op];
	const struct route *route = s->route;
	uint32_t *owners, *order, begin = 0, next = 0;

	if (is_one_reactors(s, o, n)) {
		const uint32_t r = reactor_of(s, o, positions);

		return emit(s, &s->open[r], r, op, positions, n);
	}
	owners = call_alloc(s->call, (size_t)n * sizeof(*owners));
	order = call_alloc(s->call, (size_t)n * sizeof(*order));
	if (!owners || !order)
		return split_no_memory(s);
	memset(s->counts, 0, route->reactors * sizeof(*s->counts));
	for (uint32_t i = 0; i < n; i++) {
		const uint64_t at = positions ? positions[i] : i;

		owners[i] = key_owner(s, o, o->keys ? o->keys[at] : at);
		s->counts[owners[i]]++;
	}
	for (uint32_t r = 0; r < route->reactors; r++) {
		const uint32_t count = s->counts[r];

		s->counts[r] = next;
		next += count;
	}
	for (uint32_t i = 0; i < n; i++)
		order[s->counts[owners[i]]++] = positions ? positions[i] : i;
	for (uint32_t r = 0; r < route->reactors; r++) {
		const uint32_t end = s->counts[r]; /* the fill has moved each start to its end */

		if (end > begin) {
			const int rc = emit(s, &s->open[r], r, op, order + begin, end - begin);

			if (rc < 0)
				return rc;
		}
		begin = end;
	}
	return 0;
}

/* Divides the keys of an operation that are in these parts. */
static int split_again(struct split *s, uint32_t op, const struct parts *from)
{
	const struct part *part;
	uint32_t *positions, n = 0, at = 0;

	TAILQ_FOREACH(part, from, link)
	for (const struct slice *slice = part->slices; slice; slice = slice->next)
		n += slice->op == op ? slice->count : 0;
	if (!n)
		return 0;
	positions = call_alloc(s->call, (size_t)n * sizeof(*positions));
	if (!positions)
		return split_no_memory(s);
	TAILQ_FOREACH(part, from, link)
	for (const struct slice *slice = part->slices; slice; slice = slice->next)
		for (uint32_t i = 0; slice->op == op && i < slice->count; i++)
			positions[at++] = slice->order ? slice->order[i] : (uint32_t)(slice->first + i);
	return split_op(s, op, positions, n);
}

/* Whether a reactor's share of a run fits into that part. */
static bool run_fits(const struct split *s, const struct part *part, const struct run_share *share, uint32_t pushes)
{
	const uint64_t request = sizeof(struct wire_op) + (uint64_t)wire_padded(share->alone_bytes) + part->alone_more;
	const uint64_t reply = sizeof(struct wire_result) + (uint64_t)wire_padded(share->reply_bytes);

	return part->slices_count + part->more_pushes + (pushes ? pushes : 1) <= WIRE_OPS_MAX &&
	       !(pushes && part->apart) && share->keys <= WIRE_KEYS_MAX - part->keys &&
	       part->request_bytes + request <= s->route->payload_max &&
	       part->reply_bytes + reply <= s->route->payload_max;
}

/* A run goes to each reactor in one piece, so that the reactor sums gradients and pools over all its keys. */
static int split_run(struct split *s, uint32_t op, const struct parts *from)
{
	const struct call_op *o = &s->call->ops[op];
	const uint32_t pushes = client_run_pushes(o);
	struct run_share **shares = client_run_cut(s->call, s->route, op, from);

	if (!shares)
		return split_no_memory(s);
	for (uint32_t r = 0; r < s->route->reactors; r++) {
		struct part **open = &s->open[r];
		struct slice *slice;

		if (!shares[r])
			continue;
		if (!*open || !run_fits(s, *open, shares[r], pushes))
			*open = open_part(s, r);
		slice = call_alloc(s->call, sizeof(*slice));
		if (!*open || !slice)
			return split_no_memory(s);
		if (!run_fits(s, *open, shares[r], pushes))
			return client_run_too_large(o, shares[r], s->route->payload_max, s->err);
		*slice = (struct slice){ .op = op, .count = shares[r]->keys, .share = shares[r] };
		append_slice(*open, slice);
		(*open)->more_pushes += pushes ? pushes - 1 : 0;
		(*open)->request_bytes += (uint32_t)sizeof(struct wire_op) + wire_padded(shares[r]->request_bytes);
		(*open)->alone_more += wire_padded(shares[r]->alone_bytes) - wire_padded(shares[r]->request_bytes);
		(*open)->reply_bytes += (uint32_t)sizeof(struct wire_result) + wire_padded(shares[r]->reply_bytes);
		(*open)->pushes |= pushes > 0;
	}
	return 0;
}

static int split_ops(struct split *s, const struct parts *from)
{
	struct call *call = s->call;
	int rc = 0;

	s->open = call_alloc(call, s->route->reactors * sizeof(*s->open));
	s->counts = call_alloc(call, s->route->reactors * sizeof(*s->counts));
	if (!s->open || !s->counts)
		return split_no_memory(s);
	memset(s->open, 0, s->route->reactors * sizeof(*s->open));
	for (uint32_t op = 0; op < call->ops_count && rc == 0; op++)
		rc = call->ops[op].run ? split_run(s, op, from)
		     : from	       ? split_again(s, op, from)
				       : split_op(s, op, NULL, (uint32_t)call->ops[op].count);
	return rc;
}

int client_split_call(struct call *call, const struct route *route, struct star_error *err)
{
	struct split s = { .call = call, .route = route, .err = err };
	const struct call_op *first = &call->ops[0];

	if (call->ops_count == 1 && !first->run && is_one_reactors(&s, first, first->count)) {
		struct part *open = NULL;

		return emit(&s, &open, reactor_of(&s, first, NULL), 0, NULL, (uint32_t)first->count);
	}
	return split_ops(&s, NULL);
}

/* What was applied when it was sent before must not be applied again, whoever owns its rows now. */
int client_split_stale(struct call *call, const struct route *route, struct parts *stale, struct star_error *err)
{
	struct split s = { .call = call, .route = route, .err = err };
	struct parts applied;
	struct part *part, *next;
	int rc = 0;

	TAILQ_INIT(&applied);
	for (part = TAILQ_FIRST(stale); part; part = next) {
		next = TAILQ_NEXT(part, link);
		if (!part->applied)
			continue;
		TAILQ_REMOVE(stale, part, link);
		TAILQ_INSERT_TAIL(&applied, part, link);
	}
	if (!TAILQ_EMPTY(&applied))
		rc = split_ops(&s, &applied);
	TAILQ_FOREACH(part, &call->parts, in_call)
	client_codec_leave_pulls(part);
	return rc == 0 && !TAILQ_EMPTY(stale) ? split_ops(&s, stale) : rc;
}
