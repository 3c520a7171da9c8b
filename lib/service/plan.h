/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs on a shard. When a program is installed it is compiled to a plan: its steps, ordered by KEYS feed, and the
 * place of each step's rows in the tile. A run processes the keys of one feed after the other, in tiles of up to
 * STORE_BATCH keys. A tile goes through all steps: its rows are looked up, computed on, fetched, pooled, and finally
 * applied. Only pools are kept between tiles. On the reactor's thread.
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
	bool look;    /* a gradient depends on it */
	float constant;
};

/* A KEYS feed. `steps`, `fetches` and `pools` are its first indices in the plan's lists; the next feed's are where they
 * end. */
struct plan_keys {
	struct store_table *table;
	uint32_t object; /* as requests name it */
	uint8_t steps, fetches, pools;
	uint8_t tile;  /* keys */
	bool makes;    /* its look-up creates rows */
	bool copies;   /* rows looked up are applied unchanged: from a copy, because applying changes them */
	bool looks;    /* its gradients must be checked before anything changes */
	bool looks_up; /* its gradients depend on the rows looked up */
	uint32_t cost; /* of each key, in a slice's budget */
	uint32_t last; /* elements of a variable's last block, if that is short; else 0 */
};

struct plan {
	struct program program;
	struct program_shape shape;
	uint32_t object; /* as requests name it, with its generation */
	uint32_t once;	 /* number of steps whose rows exist once per run, and not per key: the first ones */
	struct plan_step steps[PROGRAM_NODES_MAX];	/* elementwise ones and UNPOOL */
	uint8_t fetches[PROGRAM_NODES_MAX];		/* nodes that are fetched by key */
	uint8_t pools[PROGRAM_NODES_MAX];		/* POOL nodes, by the KEYS feed of what they pool */
	struct plan_keys keys[PROGRAM_KEYS_MAX + 1];	/* and one more, for the end */
	uint32_t at[PROGRAM_NODES_MAX];			/* offset of a node's rows in the tile, in elements */
	uint8_t slot[PROGRAM_NODES_MAX];		/* index of a SEGMENTS feed */
	uint8_t keeps_count, keeps[PROGRAM_PLACES_MAX]; /* KEEP nodes with a place */
};

enum run_stage { RUN_HEAD, RUN_KEYS, RUN_TILES, RUN_POOLED };

/* The progress of a run. */
struct run {
	const struct plan *plan;
	uint64_t pools; /* offset in the scratch of its rows by segment, which its pools follow */
	uint64_t at;	/* bytes of them that are done */
	uint32_t count; /* keys of the feed */
	uint32_t bytes; /* of its keys in the request, and of what is aligned with them */
	uint8_t stage;
	uint8_t keys;		  /* the feed */
	bool applies;		  /* its APPLY nodes are executed */
	bool alone;		  /* it neither keeps anything nor uses what was kept */
	bool again;		  /* its gradients are being checked for the second time */
	struct kept_entry *entry; /* the feed's kept entry, or NULL */
	struct kept_cursor kept_keys, kept[PROGRAM_ALIGNED_MAX];
	struct rpc_cursor counts, next;	   /* at the next feed's count and keys */
	struct rpc_cursor count_at, begin; /* at this feed's count and keys */
	struct rpc_cursor keys_at, aligned[PROGRAM_ALIGNED_MAX];
};

/* Totals of the runs in a request. */
struct run_sums {
	uint64_t keys, push_keys, gradient_bytes, reply_bytes, work, pool_bytes;
	uint32_t push_ops;
	bool prepared;
};

/* The rows of the current tile. A shard has one, because nothing in it outlives a slice. */
struct tile {
	const struct task *once_of; /* the task whose rows are in `once` */
	uint32_t once_left;	    /* and its operation, by task.ops_left */
	const float *rows[PROGRAM_NODES_MAX][STORE_BATCH];
	uint32_t segments[PROGRAM_ALIGNED_MAX][STORE_BATCH];
	float values[PROGRAM_ELEMENTS_MAX] __attribute__((aligned(RTE_CACHE_LINE_SIZE)));
	float once[PROGRAM_ELEMENTS_MAX];
};

/* plan.c: memory for all programs. On the control path. */
int service_plan_memory_create(struct service *service, struct star_error *err);
void service_plan_memory_destroy(struct service *service);
struct object_spec;
int service_plan_install(struct service *service, const struct object_spec *spec, struct star_error *err);
/* Whether its tables are still the ones for which it was installed. */
bool service_plan_is_bound(const struct service *service, const struct plan *plan);
/* The table of a program that only fetches rows unchanged; NULL: it does something else. */
struct store_table *service_plan_plain_table(const struct plan *plan);

/* run_check.c: checks a run's header and the counts in its body, which has `left` bytes at `at`; adds to *sums.
 * RPC_DONE: refused. */
enum rpc_progress service_run_check(struct service *service, struct rpc_request *request, const struct wire_op *op,
				    struct rpc_cursor at, uint32_t left, struct run_sums *sums);

/* run.c: the current operation is a run. */
void service_run_next(const struct service *service, struct task *task);
void service_run_begin(struct service *service, struct rpc_request *request);
/* Prepare or execute one tile, or as much work. The stage is STAGE_NEXT when the run is prepared, or done. RPC_DONE:
 * refused. */
enum rpc_progress service_run_prepare(struct service *service, struct rpc_request *request, int64_t *budget,
				      bool *waits);
enum rpc_progress service_run_slice(struct service *service, struct rpc_request *request, int64_t *budget);
uint64_t service_run_snapshot_need(const struct task *task);

/* run_entry.c: if the current feed has a kept entry, the request owns it from now on. RPC_DONE: refused. */
enum rpc_progress service_run_entry_prepare(struct service *service, struct rpc_request *request);
/* Sets the feed's cursors to its entry, if one was prepared. */
void service_run_entry_open(struct service *service, const struct rpc_request *request);

/* tile.c, for the next n keys of a run's feed. Reads what is aligned with them from the request (rows: all of it; else
 * segments only). */
void service_tile_take(struct service *service, struct task *task, unsigned n, bool rows);
/* Computes the steps, from rows that were found (look: only those on which gradients depend). */
void service_tile_compute(struct service *service, struct task *task, unsigned n, bool look);
/* Write what is fetched into the reply, add to pools, and append to kept entries. */
uint32_t service_tile_fetch(struct service *service, struct rpc_request *request, unsigned n);
void service_tile_pool(struct service *service, const struct task *task, unsigned n);
void service_tile_keep(struct service *service, const struct task *task, unsigned n);
/* A slice begins: nothing in the tile is valid. */
void service_tile_forget(struct service *service);

#endif
