/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path of small requests: one operation on a few rows of a table, in one contiguous piece, with a reply that
 * fits into a packet, and without conversions. Such a request needs no task: it is checked and executed at once, and
 * its reply is written directly into the packet. Anything else, and any error, is left to the general path before
 * anything has changed. So both paths give the same replies, and refusals have their messages there.
 */
#include "service/internal.h"

#include <errno.h>
#include <rte_memcpy.h>

#include "tensor/dtype.h"

enum {
	DIRECT_KEYS = 32,  /* per pull */
	PREFETCH_KEYS = 2, /* whose rows are prefetched before a request's turn */
};

/* A request's only operation, and where its body is. */
struct direct {
	struct wire_op op;
	const uint8_t *body;
	const struct direct_table *table;
};

/* Remembers a program that does the same as a float32 pull. */
static void note_program(struct service *service, uint32_t id)
{
	const struct plan *plan = service->plans[id];
	struct store_table *table = service_plan_plain_table(plan);

	if (!table)
		return;
	service->direct[id] = (struct direct_table){
		.table = table,
		.name_hash = store_name_hash(table),
		.object = plan->object,
		.row_bytes = (uint32_t)dtype_row_bytes(STAR_FLOAT32, store_table_spec(table)->dim),
		.dtype = STAR_FLOAT32,
		.run = true,
		.flags = plan->keys[0].makes ? 0 : WIRE_READ_ONLY,
	};
}

void service_direct_note(struct service *service, uint32_t id)
{
	struct store_table *table = service->tables[id];
	const struct object_spec *spec;

	service->direct[id] = (struct direct_table){ 0 };
	if (service->plans[id]) {
		note_program(service, id);
		return;
	}
	spec = store_table_spec(table);
	if (spec->kind != OBJECT_TABLE)
		return;
	service->direct[id] = (struct direct_table){
		.table = table,
		.name_hash = store_name_hash(table),
		.object = object_wire_id(spec),
		.dim = spec->dim,
		.row_bytes = (uint32_t)dtype_row_bytes(spec->dtype, spec->dim),
		.dtype = spec->dtype,
		.pushes = store_pushes_few(table),
	};
}

static bool is_pull(const struct wire_op *op, const struct direct_table *t)
{
	return op->kind == WIRE_PULL && op->count <= DIRECT_KEYS && op->result_dtype == t->dtype && op->dtype == 0 &&
	       !(op->flags & ~WIRE_READ_ONLY) && op->rate == 0 && op->scale == 0 && op->version == 0;
}

static bool is_push(const struct wire_op *op, const struct direct_table *t)
{
	return op->kind == WIRE_PUSH && t->pushes && op->count <= STORE_FEW && op->dtype == STAR_FLOAT32 &&
	       op->result_dtype == 0 && !(op->flags & ~(WIRE_RATE | WIRE_SCALE | WIRE_PULLED)) &&
	       wire_op_step_is_good(op) && (op->version == 0 || op->flags & WIRE_PULLED);
}

/* Whether this is the usual pull, without any options: compares the words that the header consists of. */
static inline bool is_bare_pull(const struct wire_op *op, const struct direct_table *t)
{
	uint64_t words[sizeof(*op) / sizeof(uint64_t)];

	_Static_assert(sizeof(words) == sizeof(*op) && offsetof(struct wire_op, object) == 4 &&
			       offsetof(struct wire_op, rate) == 20 && offsetof(struct wire_op, version) == 32 &&
			       offsetof(struct wire_op, scale) == 40 && offsetof(struct wire_op, flags) == 44,
		       "words of an operation");
	memcpy(words, op, sizeof(words));
	return words[0] == (WIRE_PULL | (uint64_t)t->dtype << 16 | (uint64_t)t->object << 32) &&
	       (words[2] >> 32 | words[4] | (words[5] & ~((uint64_t)WIRE_READ_ONLY << 32))) == 0 && op->dim == t->dim &&
	       op->count - 1 < DIRECT_KEYS && !t->run;
}

/* Whether its only feed has as many keys as the header says. */
static bool is_run(const struct wire_op *op, const uint8_t *body, uint32_t left)
{
	uint32_t count;

	if (op->count > DIRECT_KEYS || left < sizeof(uint64_t) || op->dtype || op->result_dtype || op->flags ||
	    op->rate != 0 || op->scale != 0 || op->version)
		return false;
	memcpy(&count, body, sizeof(count));
	return count == op->count;
}

/* Only a run of a program that pulls is accepted. */
static bool may_do(const struct service *service, const struct rpc_request *request, const struct direct *d)
{
	const struct wire_op pull = { .kind = WIRE_PULL, .flags = d->op.flags };

	return !service_lacks(service, request, store_table_spec(d->table->table)->id,
			      op_needs(d->table->run ? &pull : &d->op));
}

/* Accepts what service_validate would accept, if it is simple enough. */
static bool take_plain_op(const struct service *service, const struct rpc_request *request, struct direct *d)
{
	const struct wire_frame *frame = &request->frame;
	const struct rpc_cursor *at = &request->payload;
	const uint8_t *payload;
	uint32_t body;

	if (!at->m || (uint64_t)at->offset + frame->payload_bytes > at->m->data_len ||
	    frame->payload_bytes < sizeof(d->op) || frame->incarnation != service->options.incarnation ||
	    frame->epoch != service->epoch || service->epoch == 0)
		return false;
	payload = rte_pktmbuf_mtod_offset(at->m, const uint8_t *, at->offset);
	memcpy(&d->op, payload, sizeof(d->op));
	d->body = payload + sizeof(d->op);
	d->table = &service->direct[object_id_of(d->op.object)];
	if (unlikely(!d->table->table))
		return false;
	body = d->op.count * (uint32_t)sizeof(uint64_t);
	if (likely(is_bare_pull(&d->op, d->table)))
		goto sized;
	if (d->op.object != d->table->object || d->op.dim != d->table->dim || d->op.reserved || d->op.count == 0 ||
	    (d->op.kind == WIRE_RUN) != d->table->run)
		return false;
	if (unlikely(d->table->run)) {
		if (!is_run(&d->op, d->body, frame->payload_bytes - (uint32_t)sizeof(d->op)))
			return false;
		d->op.flags = d->table->flags;
		d->body += sizeof(uint64_t);
		body += (uint32_t)sizeof(uint64_t);
	} else if (is_push(&d->op, d->table))
		body += d->op.count * d->table->row_bytes;
	else if (!is_pull(&d->op, d->table))
		return false;
sized:
	if (unlikely(service->options.rights) && !may_do(service, request, d))
		return false;
	return d->op.body_bytes == body && frame->payload_bytes == sizeof(d->op) + wire_padded(body);
}

/* Reads n keys, as many as the operation has. false: some are not this shard's. */
static inline bool take_keys(const struct service *service, const struct direct *d, uint64_t *keys, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		memcpy(&keys[i], d->body + i * sizeof(*keys), sizeof(*keys));
		if (!service_owns(service, d->table->name_hash, keys[i]))
			return false;
	}
	return true;
}

/* Writes the result's header; returns where the rows begin. */
static uint8_t *put_result(const struct direct *d, const struct store_stats *stats, uint8_t *reply, uint32_t body)
{
	const struct wire_result result = {
		.object = d->op.object,
		.count = d->op.count,
		.dim = d->op.dim,
		.body_bytes = body,
		.version = stats->pushes,
	};

	memcpy(reply, &result, sizeof(result));
	return reply + sizeof(result);
}

/* Counts a request whose result has this many bytes of rows. */
static inline void count_bytes(struct store_stats *stats, const struct rpc_request *request, uint32_t padded)
{
	stats->bytes_in += request->frame.payload_bytes;
	stats->bytes_out += sizeof(struct wire_result) + padded;
}

static enum rpc_progress refuse_room(struct rpc_request *request, const struct direct *d, struct store_stats *stats)
{
	stats->requests_refused++;
	return service_operation_refuse_room(request, d->table->table);
}

/* Most tables have rows of one cache line, which have a copy of fixed size. */
static inline void copy_row(uint8_t *to, const void *values, uint32_t bytes)
{
	if (bytes == RTE_CACHE_LINE_SIZE)
		rte_mov64(to, values);
	else
		rte_memcpy(to, values, bytes);
}

/* n: the operation's count; the compiler makes a version for one row. */
static inline __attribute__((always_inline)) enum rpc_progress pull_rows(struct service *service,
									 struct rpc_request *request,
									 const struct direct *d, const uint32_t n)
{
	const struct direct_table *t = d->table;
	struct store_stats *stats = store_table_counters(t->table);
	const uint32_t bytes = n * t->row_bytes, padded = wire_padded(bytes);
	const enum store_find_mode mode = d->op.flags & WIRE_READ_ONLY ? STORE_LOOK : STORE_PULL;
	uint64_t keys[DIRECT_KEYS];
	store_row rows[DIRECT_KEYS];
	uint8_t *to;

	if (!take_keys(service, d, keys, n) || !snapshot_room(service, t->table, n, mode))
		return RPC_MORE;
	to = rpc_reply_piece(request, (uint32_t)sizeof(struct wire_result) + padded);
	if (!to)
		return RPC_MORE;
	service->counters.pulls++;
	stats->pulls++;
	count_bytes(stats, request, padded);
	if (store_find(t->table, keys, n, mode, d->op.step, rows))
		return refuse_room(request, d, stats);
	to = put_result(d, stats, to, bytes);
	if (unlikely(padded > bytes))
		memset(to + bytes, 0, padded - bytes);
	for (uint32_t i = 0; i < n; i++, to += t->row_bytes) {
		const void *values = store_values(t->table, rows[i], t->dtype);

		if (unlikely(!values)) {
			stats->missed += mode == STORE_LOOK;
			store_read(t->table, rows[i], keys[i], t->dtype, service->values);
			values = service->values;
		}
		copy_row(to, values, t->row_bytes);
	}
	service->counters.rows_pulled += n;
	stats->rows_pulled += n;
	return RPC_DONE;
}

static enum rpc_progress pull(struct service *service, struct rpc_request *request, const struct direct *d)
{
	return d->op.count == 1 ? pull_rows(service, request, d, 1) : pull_rows(service, request, d, d->op.count);
}

static enum rpc_progress direct_push(struct service *service, struct rpc_request *request, const struct direct *d)
{
	const struct wire_op *op = &d->op;
	const struct store_push_step step = op_step(op);
	const uint8_t *gradients = d->body + op->count * sizeof(uint64_t);
	struct store_stats *stats = store_table_counters(d->table->table);
	uint64_t keys[STORE_FEW];
	uint8_t *to;
	int rc;

	if (!take_keys(service, d, keys, op->count) || !snapshot_room(service, d->table->table, op->count, STORE_PUSH))
		return RPC_MORE;
	to = rpc_reply_piece(request, sizeof(struct wire_result));
	if (!to)
		return RPC_MORE;
	if ((uintptr_t)gradients % _Alignof(float))
		gradients = memcpy(service->values, gradients, op->count * d->table->row_bytes);
	rc = store_push_few(d->table->table, keys, (const float *)gradients, op->count, &step);
	if (rc == -ENOSPC)
		return refuse_room(request, d, stats);
	if (rc < 0) {
		rpc_reply_unput(request);
		return RPC_MORE;
	}
	put_result(d, stats, to, 0);
	service->counters.pushes++;
	service->counters.rows_pushed += op->count;
	stats->rows_pushed += op->count;
	count_bytes(stats, request, 0);
	return RPC_DONE;
}

enum rpc_progress service_direct(void *ctx, struct rpc_request *request)
{
	struct service *service = ctx;
	struct journal_ring *journal = service->journal;
	enum rpc_progress progress;
	struct quota_count count;
	uint64_t changes = 0;
	struct direct d;

	if (!take_plain_op(service, request, &d))
		return RPC_MORE;
	if (unlikely(journal)) {
		if (!journal_is_easy(journal))
			return RPC_MORE;
		changes = journal->changes;
	}
	count = service_quota_begin(service, request);
	progress = d.op.kind == WIRE_PUSH ? direct_push(service, request, &d) : pull(service, request, &d);
	service_quota_end(service, &count);
	if (unlikely(journal))
		request->changed |= changes != journal->changes;
	service->counters.direct += progress == RPC_DONE;
	return progress;
}

/* Prefetches the first keys of the first operation, which has not been checked yet. A look-up of many keys has passes
 * of its own. */
void service_prefetch(void *ctx, const void *payload, uint32_t bytes, bool imminent)
{
	const struct service *service = ctx;
	const struct direct_table *t;
	struct wire_op op; /* perhaps only its beginning */
	enum store_find_mode mode;
	uint64_t key;

	if (bytes < sizeof(op) + sizeof(key))
		return;
	memcpy(&op, payload, offsetof(struct wire_op, dim));
	t = &service->direct[object_id_of(op.object)];
	if (!t->table)
		return;
	mode = op_pushes(&op) ? STORE_PUSH : STORE_PULL;
	for (uint32_t i = 0, at = sizeof(op) + (op.kind == WIRE_RUN ? sizeof(key) : 0);
	     i < op.count && i < PREFETCH_KEYS && at + sizeof(key) <= bytes; i++) {
		memcpy(&key, (const uint8_t *)payload + at, sizeof(key));
		at += (uint32_t)sizeof(key);
		store_prefetch_key(t->table, key, mode, imminent);
	}
}
