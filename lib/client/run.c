/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/run.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "wire/owner.h"

/* The position of a feed in the run, by the number of its KEYS feed. */
static const struct star_feed *keys_feed(const struct star_program *p, const struct star_feed *feeds, unsigned k)
{
	return &feeds[p->feed_of[p->shape.keys[k].node]];
}

/* Checks what is aligned with keys: their segments, and the blocks of a variable. */
static int check_run_keys(const struct star_run *run, unsigned k, uint32_t i, struct star_error *err)
{
	const struct star_program *p = run->program;
	const struct program_keys *keys = &p->shape.keys[k];
	const struct star_feed *feed = keys_feed(p, run->feeds, k);
	const uint64_t *ids = feed->data, blocks = p->tables[k]->blocks;

	for (uint32_t n = 0; blocks && n < feed->count; n++)
		if (ids[n] >= blocks)
			return star_error_set(err, -EINVAL,
					      "operation %u: variable \"%s\" has %llu blocks, the run names %llu", i,
					      p->tables[k]->spec.name, (unsigned long long)blocks,
					      (unsigned long long)ids[n]);
	for (unsigned f = 0; f < keys->aligned_count; f++) {
		const unsigned node = keys->aligned[f];
		const uint32_t *segments = run->feeds[p->feed_of[node]].data;

		if (!program_segment_bytes(p->object->spec.program.nodes[node].op) || !segments)
			continue;
		for (uint32_t n = 0; n < feed->count; n++)
			if (segments[n] >= run->segments)
				return star_error_set(err, -EINVAL,
						      "operation %u: the run has %u segments, one of its keys names %u",
						      i, run->segments, segments[n]);
	}
	return 0;
}

static bool is_kept(const struct star_program *p, unsigned f)
{
	return p->object->spec.program.nodes[p->feeds[f]].flags & PROGRAM_KEPT;
}

static int check_feeds(const struct star_run *run, uint32_t i, struct star_error *err)
{
	const struct star_program *p = run->program;
	const struct program *program = &p->object->spec.program;
	uint64_t keys = 0;

	for (unsigned f = 0; f < p->feeds_count; f++) {
		const unsigned op = program->nodes[p->feeds[f]].op;
		const bool aligned = wire_program_op(op)->uses & PROGRAM_USES_A;
		const unsigned of = aligned ? program->nodes[p->feeds[f]].a : p->feeds[f];
		const bool empty = program->nodes[of].op == PROGRAM_KEYS && run->feeds[p->feed_of[of]].count == 0;

		if (!run->feeds[f].data && !empty && (op == PROGRAM_KEYS || !is_kept(p, f)))
			return star_error_set(err, -EINVAL, "operation %u: feed %u of the run, %s, is NULL", i, f,
					      wire_program_op(op)->name);
		keys += op == PROGRAM_KEYS ? run->feeds[f].count : 0;
	}
	if (keys == 0 || keys > UINT32_MAX)
		return star_error_set(err, keys ? -E2BIG : -EINVAL, "operation %u: the run names %llu keys", i,
				      (unsigned long long)keys);
	for (unsigned k = 0; k < p->shape.keys_count; k++)
		if (check_run_keys(run, k, i, err) < 0)
			return -EINVAL;
	return 0;
}

static bool has_few_segments(const struct star_program *p)
{
	for (unsigned f = 0; f < p->feeds_count; f++)
		if (p->object->spec.program.nodes[p->feeds[f]].op == PROGRAM_SEGMENTS8)
			return true;
	return false;
}

static int check_numbers(const struct star_op *op, uint32_t i, struct star_error *err)
{
	const struct program_shape *shape = &op->run->program->shape;
	const uint32_t segments = op->run->segments;

	if (shape->segments ? segments < 1 || segments > PROGRAM_SEGMENTS_MAX : segments != 0)
		return star_error_set(err, -EINVAL, "operation %u: the run has %u segments: %s", i, segments,
				      shape->segments ? "1 to 65536 are possible" : "its program has none");
	if (segments > 256 && has_few_segments(op->run->program))
		return star_error_set(err, -EINVAL,
				      "operation %u: the run has %u segments, and its program was made for 256 at most",
				      i, segments);
	if (program_has_entry(shape) ? op->run->tag == 0 : op->run->tag != 0)
		return star_error_set(err, -EINVAL, "operation %u: the run's tag is %llu, and its program %s", i,
				      (unsigned long long)op->run->tag,
				      op->run->tag ? "keeps nothing" : "keeps something, or takes what was kept");
	if (op->run->last > (program_has_entry(shape) && !shape->begins))
		return star_error_set(err, -EINVAL, "operation %u: the run is the last to take what was kept: %s", i,
				      op->run->last > 1 ? "0 and 1 are possible" : "its program takes nothing");
	if (!shape->applies && (op->flags || op->rate != 0 || op->scale != 0))
		return star_error_set(err, -EINVAL,
				      "operation %u: the run has a learning rate or a scale, and its program applies "
				      "nothing",
				      i);
	return client_check_step(op, i, op->run->program->object->spec.name, err);
}

int client_run_check_op(const struct star_cluster *cluster, const struct star_op *op, uint32_t i,
			struct star_error *err)
{
	const struct star_run *run = op->run;
	const struct star_program *p = run ? run->program : NULL;

	if (!p)
		return star_error_set(err, -EINVAL, "operation %u: %s is NULL", i, run ? "the run's program" : "run");
	if (p->object->cluster != cluster)
		return star_error_set(err, -EINVAL, "operation %u: its program belongs to another cluster handle", i);
	if (op->flags & ~(uint32_t)(STAR_RATE | STAR_SCALE) || op->table || op->keys || op->count || op->values ||
	    op->dtype || op->results || op->versions || op->view)
		return star_error_set(err, -EINVAL,
				      "operation %u is a run: everything but run, rate, scale and step must be 0", i);
	if (run->feeds_count != p->feeds_count || run->fetches_count != p->fetches_count)
		return star_error_set(err, -EINVAL,
				      "operation %u: the run has %u feeds and %u fetches, its program %u and %u", i,
				      run->feeds_count, run->fetches_count, p->feeds_count, p->fetches_count);
	for (unsigned f = 0; f < p->fetches_count; f++)
		if (!run->fetches[f])
			return star_error_set(err, -EINVAL, "operation %u: fetch %u of the run is NULL", i, f);
	if (check_numbers(op, i, err) < 0)
		return -EINVAL;
	return check_feeds(run, i, err);
}

int client_run_fill(struct call *call, struct call_op *op, const struct star_op *from, struct star_error *err)
{
	const struct star_run *given = from->run;
	struct call_run *run = call_alloc(call, sizeof(*run));
	struct star_feed *feeds = call_alloc(call, given->feeds_count * sizeof(*feeds));
	float **fetches = call_alloc(call, given->fetches_count * sizeof(*fetches));

	if (!run || !feeds || !fetches)
		return star_error_set(err, -ENOMEM, "out of memory for a call");
	memcpy(feeds, given->feeds, given->feeds_count * sizeof(*feeds));
	if (given->fetches_count)
		memcpy(fetches, given->fetches, given->fetches_count * sizeof(*fetches));
	*run = (struct call_run){
		.program = given->program,
		.feeds = feeds,
		.fetches = fetches,
		.segments = given->segments,
		.tag = given->tag,
		.frees = given->last,
		.may_bring = given->program->carries_all,
	};
	for (unsigned f = 0; f < given->feeds_count; f++)
		run->may_bring &= feeds[f].data || !is_kept(given->program, f);
	*op = (struct call_op){
		.table = given->program->object,
		.run = run,
		.step = from->step,
		.rate = from->rate,
		.scale = from->scale,
		.flags = op_step_flags(from),
		.kind = STAR_RUN,
	};
	for (unsigned k = 0; k < given->program->shape.keys_count; k++)
		op->count += keys_feed(given->program, feeds, k)->count;
	call->runs = true;
	return 0;
}

uint32_t client_run_pushes(const struct call_op *op)
{
	const struct program_shape *shape = &op->run->program->shape;
	uint32_t pushes = 0;

	for (unsigned k = 0; k < shape->keys_count; k++)
		pushes += shape->keys[k].apply != PROGRAM_NONE;
	return pushes;
}

static int by_position(const void *a, const void *b)
{
	const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

	return i < j ? -1 : i > j;
}

/* The positions of a KEYS feed in parts of this run, *n of them, in the order that every run has. NULL: out of
 * memory. */
static uint32_t *positions_of(struct call *call, uint32_t op, unsigned k, const struct parts *from, uint32_t *n)
{
	const struct part *part;
	uint32_t *positions, at = 0;

	*n = 0;
	TAILQ_FOREACH(part, from, link)
	for (const struct slice *slice = part->slices; slice; slice = slice->next)
		*n += slice->op == op ? slice->share->counts[k] : 0;
	positions = call_alloc(call, (size_t)*n * sizeof(*positions));
	if (!positions)
		return NULL;
	TAILQ_FOREACH(part, from, link)
	for (const struct slice *slice = part->slices; slice; slice = slice->next)
		for (uint32_t i = 0; slice->op == op && i < slice->share->counts[k]; i++)
			positions[at++] = slice->share->orders[k] ? slice->share->orders[k][i] : i;
	qsort(positions, *n, sizeof(*positions), by_position);
	return positions;
}

static struct run_share *share_of(struct call *call, struct run_share **shares, uint32_t reactor)
{
	if (!shares[reactor]) {
		shares[reactor] = call_alloc(call, sizeof(**shares));
		if (shares[reactor])
			memset(shares[reactor], 0, sizeof(**shares));
	}
	return shares[reactor];
}

static uint32_t run_key_owner(const struct route *route, const struct star_table *table, uint64_t key)
{
	return wire_key_owner(route->partitions, route->reactors, &table->spec, table->name_hash, key);
}

/* Divides one KEYS feed: n positions (NULL: all), by reactor, in order. starts: where each reactor's begin, and the
 * end. */
static bool cut_keys(struct call *call, const struct route *route, struct run_share **shares, unsigned k,
		     const struct star_table *table, const uint64_t *keys, const uint32_t *positions, uint32_t n,
		     uint32_t *starts)
{
	uint32_t *owners = call_alloc(call, (size_t)n * sizeof(*owners));
	uint32_t *order = call_alloc(call, (size_t)n * sizeof(*order));

	if (!owners || !order)
		return false;
	memset(starts, 0, (route->reactors + 1) * sizeof(*starts));
	for (uint32_t i = 0; i < n; i++) {
		owners[i] = run_key_owner(route, table, keys[positions ? positions[i] : i]);
		starts[owners[i] + 1]++;
	}
	for (uint32_t r = 0; r < route->reactors; r++) {
		const uint32_t count = starts[r + 1];
		struct run_share *share;

		starts[r + 1] += starts[r];
		if (!count)
			continue;
		share = share_of(call, shares, r);
		if (!share)
			return false;
		share->counts[k] = count;
		share->orders[k] = order + starts[r];
		share->keys += count;
	}
	for (uint32_t i = 0; i < n; i++)
		order[starts[owners[i]]++] = positions ? positions[i] : i;
	return true;
}

/* There is only one reactor: it gets everything, in place. */
static bool cut_one(struct call *call, const struct call_run *run, struct run_share **shares)
{
	struct run_share *share = share_of(call, shares, 0);

	for (unsigned k = 0; share && k < run->program->shape.keys_count; k++) {
		share->counts[k] = keys_feed(run->program, run->feeds, k)->count;
		share->keys += share->counts[k];
	}
	return share != NULL;
}

static bool cut(struct call *call, const struct route *route, uint32_t op, const struct parts *from,
		struct run_share **shares)
{
	const struct call_run *run = call->ops[op].run;
	uint32_t *starts;

	if (!from && route->reactors == 1)
		return cut_one(call, run, shares);
	starts = call_alloc(call, (route->reactors + 1) * sizeof(*starts));
	for (unsigned k = 0; starts && k < run->program->shape.keys_count; k++) {
		const struct star_feed *feed = keys_feed(run->program, run->feeds, k);
		uint32_t n = feed->count, *positions = from ? positions_of(call, op, k, from, &n) : NULL;

		if ((from && !positions) ||
		    (n && !cut_keys(call, route, shares, k, run->program->tables[k], feed->data, positions, n, starts)))
			return false;
	}
	return starts != NULL;
}

struct run_share **client_run_cut(struct call *call, const struct route *route, uint32_t op, const struct parts *from)
{
	struct call_run *run = call->ops[op].run;
	const struct program *program = run_program(&call->ops[op]);
	const struct program_shape *shape = &run->program->shape;
	struct run_share **shares = call_alloc(call, route->reactors * sizeof(*shares));
	const uint64_t pools = wire_program_segment_bytes(program, shape, PROGRAM_POOL, run->segments);

	if (!shares)
		return NULL;
	memset(shares, 0, route->reactors * sizeof(*shares));
	if (!cut(call, route, op, from, shares))
		return NULL;
	for (uint32_t r = 0; r < route->reactors; r++) {
		struct run_share *share = shares[r];
		uint64_t request, alone, reply;

		if (!share)
			continue;
		request = wire_program_request_bytes(program, shape, share->counts, run->segments, false);
		alone = wire_program_request_bytes(program, shape, share->counts, run->segments, true);
		reply = wire_program_reply_bytes(program, shape, share->counts, run->segments);
		/* If it exceeds a request by far, the caller refuses it. */
		share->request_bytes = request < WIRE_PAYLOAD_MAX ? (uint32_t)request : WIRE_PAYLOAD_MAX;
		share->alone_bytes = alone < WIRE_PAYLOAD_MAX ? (uint32_t)alone : WIRE_PAYLOAD_MAX;
		share->reply_bytes = reply < WIRE_PAYLOAD_MAX ? (uint32_t)reply : WIRE_PAYLOAD_MAX;
		share->pools = pools && reply < WIRE_PAYLOAD_MAX ? call_alloc(call, pools) : NULL;
		if (pools && reply < WIRE_PAYLOAD_MAX && !share->pools)
			return NULL;
		if (run->last)
			run->last->next = share;
		else
			run->first = share;
		run->last = share;
	}
	return shares;
}

int client_run_too_large(const struct call_op *op, const struct run_share *share, uint32_t payload_max,
			 struct star_error *err)
{
	return star_error_set(
		err, -E2BIG,
		"a run of \"%s\" has %u keys, %u bytes of feeds and %u of fetches for one reactor, in one "
		"request: %d keys and %u MiB (limits.request_mib) are possible; make several runs",
		op->table->spec.name, share->keys, share->alone_bytes, share->reply_bytes, WIRE_KEYS_MAX,
		payload_max >> 20);
}

/* Adds up one pool, by reactor. at: where it begins in each. */
static void add_up(const struct call_run *run, uint64_t at, uint64_t elements, float *to)
{
	memset(to, 0, elements * sizeof(*to));
	for (const struct run_share *share = run->first; share; share = share->next)
		for (uint64_t i = 0; share->came && i < elements; i++)
			to[i] += ((const float *)(share->pools + at))[i];
}

static void gather(const struct call_op *op)
{
	const struct star_program *p = op->run->program;
	const struct program *program = run_program(op);

	for (unsigned f = 0; f < p->fetches_count; f++) {
		uint64_t at = 0;

		if (program->nodes[p->fetches[f]].op != PROGRAM_POOL)
			continue;
		for (unsigned i = 0; i < p->fetches[f]; i++)
			if (program->nodes[i].op == PROGRAM_POOL)
				at += program_padded((uint64_t)op->run->segments * p->shape.values[i].dim *
						     sizeof(float));
		add_up(op->run, at, (uint64_t)op->run->segments * p->shape.values[p->fetches[f]].dim,
		       op->run->fetches[f]);
	}
}

void client_run_gather(struct call *call)
{
	if (!call->runs || call->error.code)
		return;
	for (uint32_t i = 0; i < call->ops_count; i++)
		if (call->ops[i].run)
			gather(&call->ops[i]);
}
