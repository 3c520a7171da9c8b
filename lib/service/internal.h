/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/service share. */
#ifndef SERVICE_INTERNAL_H
#define SERVICE_INTERNAL_H

#include "service/service.h"
#include "store/push.h"

enum {
	SLICE_KEYS = 256,	 /* keys of one slice, and ... */
	SLICE_BYTES = 64 * 1024, /* ... bytes of their rows: some tens of microseconds */
	SMALL_PUSH_KEYS = 64,	 /* requests with pushes, up to so many keys, are executed in one slice */
};

enum task_phase {
	TASK_NEW,
	TASK_WAIT,    /* for what it needs to be finished */
	TASK_PREPARE, /* rows are found or made, so that nothing can fail once a value has changed */
	TASK_RUN,
};

/* A request's progress; lies in rpc_request->task. */
struct task {
	uint8_t phase;
	uint8_t has_push;
	uint8_t large; /* its pushes go over several slices */
	uint8_t in_op; /* op is being executed */
	uint32_t ops, ops_left;
	uint32_t reply_bytes;
	struct store_push *push; /* from TASK_PREPARE on; NULL without pushes */
	struct rpc_cursor at;	 /* the next operation */
	/* the current operation */
	struct wire_op op;
	struct store_table *table;
	uint32_t done;		  /* keys */
	struct rpc_cursor keys;	  /* at the first key not done */
	struct rpc_cursor values; /* at its gradient */
};

struct service {
	struct service_options options;
	uint32_t epoch, first_partition, end_partition;
	struct store_table *tables[WIRE_OBJECTS_MAX + 1]; /* by id */
	/* Scratch of pushes. A large push goes over several slices, and has its scratch to itself meanwhile. */
	struct store_push *small_push, *large_push;
	const struct task *large_owner;
	struct service_counters counters;
	/* scratch of one slice */
	uint64_t keys[STORE_BATCH];
	store_row rows[STORE_BATCH];
	const float *gradients[STORE_BATCH];
	float values[SLICE_BYTES / sizeof(float)] __attribute__((aligned(RTE_CACHE_LINE_SIZE)));
};
_Static_assert(SLICE_BYTES >= WIRE_DIM_MAX * sizeof(float), "a slice holds at least one row");

/* validate.c: checks a new request whole, and fills its task. RPC_MORE: it may run; RPC_DONE: it was answered by an error. */
enum rpc_progress service_validate(struct service *service, struct rpc_request *request);

/* execute.c */
enum rpc_progress service_execute(void *ctx, struct rpc_request *request, uint64_t now_ns);

#endif
