/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/service/cases.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/arena.h"
#include "tensor/dtype.h"

struct shard shard;

#define SGD "rate=0.5, nonfinite=pass"
static const struct {
	uint32_t id;
	const char *name;
	uint32_t dim; /* 0: a variable of 100 x 64 */
	unsigned dtype, optimizer;
	const char *options;
} list[] = {
	{ WORDS, "words", 16, STAR_FLOAT32, OPTIM_SGD, SGD ", initializer=uniform, scale=1" },
	{ COUNTS, "counts", 1, STAR_FLOAT32, OPTIM_SGD, SGD },
	{ WIDE, "wide", WIRE_DIM_MAX, STAR_FLOAT32, OPTIM_SGD, SGD ", initializer=normal, scale=1" },
	{ ADAGRAD, "adagrad", 7, STAR_FLOAT32, OPTIM_ADAGRAD,
	  "rate=0.5, epsilon=1e-6, initial_accumulator=0.25, initializer=uniform, scale=1" },
	{ EIGHTS, "eights", 8, STAR_FLOAT32, OPTIM_SGD, SGD },
	{ VARIABLE, "weights", 0, STAR_FLOAT32, OPTIM_SGD, SGD ", initializer=constant, scale=3" },
	{ HALVES, "halves", 4, STAR_FLOAT16, OPTIM_SGD, "rate=0.5, initializer=uniform, scale=1, versions=1" },
	{ LAMB, "lamb", 0, STAR_FLOAT32, OPTIM_LAMB, "whole=1, initializer=constant, scale=2" },
	{ CLIPPED, "clipped", 0, STAR_FLOAT32, OPTIM_SGD, "rate=1, whole=1, clip_global_norm=2" },
	{ FILTERED, "filtered", 2, STAR_FLOAT32, OPTIM_SGD,
	  "rate=1, filter=counter, filter_frequency=3, filter_value=0.5, initializer=ones" },
	{ LIVING, "living", 2, STAR_FLOAT32, OPTIM_SGD, "rate=1, steps_to_live=10" },
	{ NUMBERS, "numbers", 2, STAR_INT32, OPTIM_NONE, "initializer=constant, scale=-7" },
};
static struct object_spec spec_list[RTE_DIM(list)];
const struct object_spec *specs[OBJECTS + 1];

static void make_specs(void)
{
	struct star_error err = { 0 };

	for (unsigned i = 0; i < RTE_DIM(list); i++) {
		struct object_spec *spec = &spec_list[i];

		*spec = (struct object_spec){ .id = list[i].id,
					      .kind = list[i].dim ? OBJECT_TABLE : OBJECT_VARIABLE,
					      .dtype = (uint8_t)list[i].dtype,
					      .dim = list[i].dim,
					      .ndim = list[i].dim ? 0 : 2 };
		if (!list[i].dim)
			memcpy(spec->shape, (uint64_t[]){ 100, 64 }, 2 * sizeof(uint64_t));
		snprintf(spec->name, sizeof(spec->name), "%s", list[i].name);
		wire_object_spec_defaults(spec, list[i].optimizer);
		spec->seed = 42;
		if (wire_object_spec_options(spec, list[i].options, &err) < 0 || wire_object_spec_check(spec, &err) < 0)
			unit_fail(__FILE__, __LINE__, "%s", err.text);
		specs[spec->id] = spec;
	}
}

enum { TWIN_BYTES = 4 << 20, ARENA_BYTES = 64 << 20, LOG_BYTES = 4 << 20 };

static void add_snapshots(size_t arena_bytes)
{
	struct store_snapshot_options options = { .copies_bytes = STORE_SNAPSHOT_COPIES_MIN + LOG_BYTES,
						  .log_bytes = LOG_BYTES };

	shard.marks = options.marks = calloc(1, store_snapshot_memory(arena_bytes));
	shard.copies = options.copies = calloc(1, options.copies_bytes);
	CHECK_INT(store_snapshot_init(shard.store, &options, NULL), 0);
}

void shard_init(uint64_t seed, unsigned server_mbufs)
{
	memset(&shard, 0, sizeof(shard));
	make_specs();
	rig_init(&shard.rig, seed, server_mbufs);
}

void shard_start(size_t arena_bytes)
{
	struct star_error err = { 0 };
	struct rpc_service rpc;

	arena_bytes = arena_bytes ? arena_bytes : ARENA_BYTES;
	/* On a page of it: how much fits must not depend on where the allocator puts it. */
	shard.arena = aligned_alloc(ARENA_PAGE, arena_bytes + TWIN_BYTES);
	if (!shard.arena)
		exit(EXIT_FAILURE);
	shard.store = store_create(shard.arena, arena_bytes, &err);
	shard.twin_store = store_create((char *)shard.arena + arena_bytes, TWIN_BYTES, &err);
	shard.service = service_create(&(struct service_options){ .rights = shard.rights,
								  .account = shard.account,
								  .over_quota = shard.over_quota,
								  .incarnation = RIG_INCARNATION,
								  .partitions = PARTITIONS,
								  .store = shard.store,
								  .payload_max = WIRE_PAYLOAD_DEFAULT,
								  .kept_bytes = KEPT_BYTES,
								  .kept_lease_ns = KEPT_LEASE_S * RIG_S,
								  .share = 1 },
				       &err);
	if (!shard.store || !shard.twin_store || !shard.service) {
		unit_fail(__FILE__, __LINE__, "no shard: %s", err.text);
		exit(EXIT_FAILURE);
	}
	add_snapshots(arena_bytes);
	for (unsigned i = 0; i < RTE_DIM(spec_list); i++) {
		if (!CHECK_INT(service_install(shard.service, &spec_list[i], &err), 0))
			printf("# %s\n", err.text);
		shard.twins[spec_list[i].id] = store_table_create(shard.twin_store, &spec_list[i], 1, &err);
	}
	service_set_layout(shard.service, RIG_EPOCH, 0, PARTITIONS);
	rpc = service_rpc(shard.service);
	if (shard.general) {
		rpc.direct = NULL;
		rpc.prefetch = NULL;
	}
	rig_start(&shard.rig, &rpc);
}

void shard_stop(void)
{
	rig_stop(&shard.rig);
	service_destroy(shard.service);
	store_destroy(shard.store);
	store_destroy(shard.twin_store);
	free(shard.arena);
	free(shard.marks);
	free(shard.copies);
}

struct peer *shard_simple(uint64_t seed)
{
	shard_init(seed, 0);
	shard_start(0);
	return rig_peer(&shard.rig, 0);
}

uint64_t shard_rows(void)
{
	return service_store_stats(shard.service).rows;
}

void request_free(struct request *r)
{
	free(r->bytes);
	*r = (struct request){ 0 };
}

void request_append(struct request *r, const void *bytes, size_t n)
{
	if (r->n + n > r->room) {
		r->room = (uint32_t)(2 * (r->n + n));
		r->bytes = realloc(r->bytes, r->room);
		if (!r->bytes)
			exit(EXIT_FAILURE);
	}
	if (n)
		memcpy(r->bytes + r->n, bytes, n);
	r->n += (uint32_t)n;
}

void request_op(struct request *r, struct wire_op op, const void *keys, const void *rest)
{
	static const char zeros[8];

	request_append(r, &op, sizeof(op));
	request_append(r, keys, keys ? op.count * sizeof(uint64_t) : 0);
	request_append(r, rest, rest ? op.body_bytes - op.count * sizeof(uint64_t) : 0);
	request_append(r, zeros, wire_padded(r->n) - r->n);
}

void request_zeros(struct request *r, uint32_t n)
{
	static const uint8_t zeros[512];

	request_append(r, zeros, RTE_MIN(n, (uint32_t)sizeof(zeros)));
}

struct wire_op pull_op(unsigned object, uint32_t count, unsigned flags)
{
	struct wire_op op = { .kind = WIRE_PULL,
			      .result_dtype = STAR_FLOAT32,
			      .flags = flags,
			      .object = object,
			      .count = count,
			      .dim = specs[object]->dim,
			      .step = 1 };

	op.body_bytes = (uint32_t)wire_op_bytes(&op);
	return op;
}

struct wire_op push_op(unsigned object, uint32_t count, float rate)
{
	struct wire_op op = { .kind = WIRE_PUSH,
			      .dtype = STAR_FLOAT32,
			      .object = object,
			      .count = count,
			      .dim = specs[object]->dim,
			      .rate = rate,
			      .flags = rate != 0 ? WIRE_RATE : 0,
			      .step = 1 };

	op.body_bytes = (uint32_t)wire_op_bytes(&op);
	return op;
}

void request_pull(struct request *r, unsigned object, const uint64_t *keys, uint32_t count, unsigned flags)
{
	request_op(r, pull_op(object, count, flags), keys, NULL);
}

void request_push(struct request *r, unsigned object, const uint64_t *keys, const float *gradients, uint32_t count,
		  float rate)
{
	request_op(r, push_op(object, count, rate), keys, gradients);
}

void request_send(struct request *r, struct peer *peer)
{
	peer_send(peer, peer_frame(peer, WIRE_EXECUTE), r->bytes, r->n);
	request_free(r);
}

struct reply request_run(struct request *r, struct peer *peer)
{
	struct reply reply;

	request_send(r, peer);
	peer_await(peer, &reply);
	CHECK_UINT(reply.frame.sequence, peer->sequence);
	return reply;
}

void request_refused(struct request *r, struct peer *peer, enum wire_status status, const char *part)
{
	const struct reply reply = request_run(r, peer);

	CHECK_STATUS(reply, status, part);
}

void request_good(struct request *r, struct peer *peer)
{
	const struct reply reply = request_run(r, peer);

	if (!CHECK_UINT(reply.frame.status, WIRE_OK))
		printf("# %s\n", reply.text);
}

const uint8_t *result_of(const struct reply *reply, unsigned i, struct wire_result *result)
{
	const uint8_t *at = reply->payload, *end = at + reply->frame.payload_bytes;

	*result = (struct wire_result){ 0 };
	if (!CHECK_UINT(reply->frame.status, WIRE_OK)) {
		printf("# %s\n", reply->text);
		return NULL;
	}
	for (;; i--) {
		if (!CHECK(end - at >= (ptrdiff_t)sizeof(*result)))
			return NULL;
		memcpy(result, at, sizeof(*result));
		at += sizeof(*result);
		if (!CHECK(end - at >= (ptrdiff_t)wire_padded(result->body_bytes)))
			return NULL;
		if (i == 0)
			return at;
		at += wire_padded(result->body_bytes);
	}
}

const float *result_rows(const struct reply *reply, unsigned i, unsigned object, uint32_t count)
{
	static float rows[WIRE_PAYLOAD_DEFAULT / sizeof(float)];
	struct wire_result result;
	const uint8_t *at = result_of(reply, i, &result);

	if (!at)
		return rows;
	CHECK_UINT(result.object, object);
	CHECK_UINT(result.count, count);
	CHECK_UINT(result.dim, specs[object]->dim);
	memcpy(rows, at, result.body_bytes);
	return rows;
}

void pull(struct peer *peer, unsigned object, const uint64_t *keys, uint32_t count, unsigned flags, float *rows)
{
	struct request r = { 0 };
	struct reply reply;

	request_pull(&r, object, keys, count, flags);
	reply = request_run(&r, peer);
	memcpy(rows, result_rows(&reply, 0, object, count), (size_t)count * specs[object]->dim * sizeof(float));
	CHECK_UINT(reply.frame.payload_bytes,
		   wire_padded((uint32_t)sizeof(struct wire_result) + count * specs[object]->dim * 4));
}

void push(struct peer *peer, unsigned object, const uint64_t *keys, const float *gradients, uint32_t count)
{
	struct request r = { 0 };

	request_push(&r, object, keys, gradients, count, 0);
	request_good(&r, peer);
}

float pull_one(struct peer *peer, unsigned object, uint64_t key)
{
	float row[WIRE_DIM_MAX];

	pull(peer, object, &key, 1, WIRE_READ_ONLY, row);
	return row[0];
}

void initial(unsigned object, uint64_t key, float *row)
{
	store_initial(shard.twins[object], key, row);
}

void fill_keys(uint64_t *keys, uint32_t count, uint64_t first)
{
	for (uint32_t i = 0; i < count; i++)
		keys[i] = first + i;
}

void fill_floats(float *to, size_t n, float value)
{
	for (size_t i = 0; i < n; i++)
		to[i] = value;
}

#define X(name) { #name, name },
const char *const unit_suite = "service";
const struct unit_case unit_cases[] = { SERVICE_CASES(X){ NULL, NULL } };
