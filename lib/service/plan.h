/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs on a shard. A plan is what a program becomes when it is installed: its steps by KEYS feed, and where in the
 * tile each one's rows lie. A run goes through the keys of one feed after the other, a tile of up to STORE_BATCH keys
 * at a time through all steps: rows are looked up, computed on, fetched, pooled, and last applied. Between tiles there
 * is nothing to keep but pools.
 */
#ifndef SERVICE_PLAN_H
#define SERVICE_PLAN_H

#include "rpc/cursor.h"
#include "rpc/rpc.h"
#include "service/kept.h"
#include "store/store.h"
#include "wire/program.h"

struct service;
struct task;

struct plan_step {
	uint8_t op, node, a, b;
	uint8_t kind; /* enum program_kind */
	bool look;    /* a gradient follows from it */
	float constant;
};

/* A KEYS feed's. Steps and nodes are those from one's first up to the next one's. */
struct plan_keys {
	struct store_table *table;
	uint32_t object; /* as requests name it */
	uint8_t steps, fetches, pools;
	uint8_t tile;  /* keys */
	bool makes;    /* its look-up makes rows */
	bool copies;   /* rows looked up are applied as they are: from a copy, since they are what changes */
	bool looks;    /* its gradients are to be looked at before anything changes, ... */
	bool looks_up; /* ... and follow from the rows looked up */
	uint32_t cost; /* of a slice's budget, for each key */
	uint32_t last; /* elements of a variable's last block, if it is short; else 0 */
};

struct plan {
	struct program program;
	struct program_shape shape;
	uint32_t object;				/* as requests name it, with its generation */
	uint32_t once;					/* steps with rows that there are once: the first ones */
	struct plan_step steps[PROGRAM_NODES_MAX];	/* elementwise ones and UNPOOL */
	uint8_t fetches[PROGRAM_NODES_MAX];		/* nodes that are fetched by key */
	uint8_t pools[PROGRAM_NODES_MAX];		/* POOL nodes, by the KEYS feed of what they pool */
	struct plan_keys keys[PROGRAM_KEYS_MAX + 1];	/* and the end */
	uint32_t at[PROGRAM_NODES_MAX];			/* in the tile, in elements */
	uint8_t slot[PROGRAM_NODES_MAX];		/* of a SEGMENTS feed */
	uint8_t keeps_count, keeps[PROGRAM_PLACES_MAX]; /* KEEP nodes with a place */
};

enum run_stage { RUN_HEAD, RUN_KEYS, RUN_TILES, RUN_POOLED };

/* Where a run is. */
struct run {
	const struct plan *plan;
	uint64_t pools; /* where its rows by segment begin in the scratch, then its pools */
	uint64_t at;	/* bytes done of them */
	uint32_t count; /* keys of the feed */
	uint32_t bytes; /* of them in the request, and of what goes with them */
	uint8_t stage;
	uint8_t keys;		  /* the feed */
	bool applies;		  /* what is to be applied is */
	bool alone;		  /* nothing is kept, nor taken from what was */
	bool again;		  /* its gradients are looked at for the second time */
	struct kept_entry *entry; /* of the feed; or NULL */
	struct kept_cursor kept_keys, kept[PROGRAM_ALIGNED_MAX];
	struct rpc_cursor counts, next;	   /* at the next feed's count, and at its keys */
	struct rpc_cursor count_at, begin; /* the same of this feed */
	struct rpc_cursor keys_at, aligned[PROGRAM_ALIGNED_MAX];
};

/* What runs add up to over the operations of a request. */
struct run_sums {
	uint64_t keys, push_keys, gradient_bytes, reply_bytes, work, pool_bytes;
	uint32_t push_ops;
	bool prepared;
};

/* The rows that a tile works on. One of a shard: nothing in it outlives a slice. */
struct tile {
	const struct task *once_of; /* whose rows of ONCE are there, and ... */
	uint32_t once_left;	    /* ... of which operation */
	const float *rows[PROGRAM_NODES_MAX][STORE_BATCH];
	uint32_t segments[PROGRAM_ALIGNED_MAX][STORE_BATCH];
	float values[PROGRAM_ELEMENTS_MAX] __attribute__((aligned(RTE_CACHE_LINE_SIZE)));
	float once[PROGRAM_ELEMENTS_MAX];
};

/* plan.c. Memory for all programs, on the control path. */
int service_plan_memory_create(struct service *service, struct star_error *err);
void service_plan_memory_destroy(struct service *service);
struct object_spec;
int service_plan_install(struct service *service, const struct object_spec *spec, struct star_error *err);
/* Whether the tables are still those that it was installed for. */
bool service_plan_is_bound(const struct service *service, const struct plan *plan);
/* The table of a program that does nothing but fetch its rows as they are; NULL: it is none. */
struct store_table *service_plan_plain_table(const struct plan *plan);

/* run_check.c: one run's header and the counts in its body, of which `left` bytes are there at `at`. RPC_DONE:
 * refused. */
enum rpc_progress service_run_check(struct service *service, struct rpc_request *request, const struct wire_op *op,
				    struct rpc_cursor at, uint32_t left, struct run_sums *sums);

/* run.c: the operation that was taken is a run. */
void service_run_next(const struct service *service, struct task *task);
void service_run_begin(struct service *service, struct rpc_request *request);
/* A tile, or as much work; the stage is STAGE_NEXT when the run is prepared, or done. RPC_DONE: refused. */
enum rpc_progress service_run_prepare(struct service *service, struct rpc_request *request, int64_t *budget,
				      bool *waits);
enum rpc_progress service_run_slice(struct service *service, struct rpc_request *request, int64_t *budget);
uint64_t service_run_snapshot_need(const struct task *task);

/* run_entry.c: the entry of the feed at hand, if it has one, and what the run keeps in it, is the request's until its
 * end. RPC_DONE: refused. */
enum rpc_progress service_run_entry_prepare(struct service *service, struct rpc_request *request);
/* Sets the feed's cursors to the entry, if it has one that was prepared. */
void service_run_entry_open(struct service *service, const struct rpc_request *request);

/* tile.c: the next n keys of a run's feed: takes what is aligned with them (rows: or segments only), ... */
void service_tile_take(struct service *service, struct task *task, unsigned n, bool rows);
/* ... computes all that follows (look: only what gradients follow from), from rows that were found, ... */
void service_tile_compute(struct service *service, struct task *task, unsigned n, bool look);
/* ... and gives away what is fetched and pooled. */
uint32_t service_tile_fetch(struct service *service, struct rpc_request *request, unsigned n);
void service_tile_pool(struct service *service, const struct task *task, unsigned n);
void service_tile_keep(struct service *service, const struct task *task, unsigned n);
/* A slice begins. */
void service_tile_forget(struct service *service);

#endif
