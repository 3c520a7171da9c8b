/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of this library. A service and its tasks belong to one reactor's thread; any thread may read the
 * figures for the control plane. */
#ifndef SERVICE_INTERNAL_H
#define SERVICE_INTERNAL_H

#include <stdatomic.h>

#include "journal/ring.h"
#include "secure/rights.h"
#include "service/request_ops.h"
#include "service/plan.h"
#include "service/service.h"
#include "store/push.h"
#include "wire/layout.h"
#include "wire/object.h"

enum {
	SLICE_KEYS = 256,	 /* keys of one slice, and ... */
	SLICE_BYTES = 64 * 1024, /* ... bytes of their rows: some tens of microseconds */
	SMALL_KEYS = 64, /* requests that need preparation, with up to this many keys, are executed in one slice */
};

enum task_phase {
	TASK_NEW,
	TASK_WAIT, /* waits until it can get what it needs, such as the large scratch */
	/* rows are found or created, and gradients checked, so that nothing can fail once a value has changed */
	TASK_PREPARE,
	TASK_RUN,
};

/* The stage of the current operation. */
enum task_stage {
	STAGE_NEXT, /* there is no current operation: the next one begins */
	STAGE_LOOK, /* in preparation: gradients are checked once more (store_push_look_again) */
	STAGE_PUSH,
	STAGE_FINISH, /* all gradients were passed to the store */
	STAGE_VERSIONS,
	STAGE_PULL,
	STAGE_DELETE,
	STAGE_RUN, /* of a program: see struct run */
	STAGE_COMMIT,
};

/* A request's progress, in rpc_request->task. */
struct task {
	uint8_t phase;
	uint8_t stage;
	uint8_t prepared; /* it has pushes, or pulls with versions, and so the phase TASK_PREPARE */
	uint8_t has_push;
	uint8_t large; /* it takes several slices; if it is prepared it owns the large scratch */
	/* it is changing rows in several slices without that scratch: no snapshot may begin meanwhile */
	uint8_t changes;
	uint32_t redefined; /* service.redefined when its objects were looked up */
	uint32_t ops, ops_left;
	uint32_t reply_bytes;	  /* at most */
	uint32_t versions_used;	  /* entries of the scratch used by the operations so far */
	uint64_t pools_used;	  /* bytes of scratch.pools used by runs so far */
	struct prepared *scratch; /* from TASK_PREPARE on */
	struct rpc_cursor at;	  /* the next operation */
	/* the current operation */
	struct wire_op op;
	struct store_table *table;
	const struct object_spec *spec;
	uint32_t batch;			    /* rows of a batch */
	uint32_t push_bytes, pull_bytes;    /* of a row, in the request and in the reply */
	uint32_t row_cost;		    /* cost of a row in a slice's budget, in bytes */
	uint32_t blocks;		    /* of a variable; 0: a table */
	uint32_t done;			    /* keys */
	uint32_t deleted;		    /* rows */
	uint32_t owned;			    /* its first kept entry (kept.h), or KEPT_NONE */
	uint8_t look;			    /* its gradients must be checked before anything changes */
	struct rpc_cursor keys_begin, keys; /* at the first key, and at the first not done */
	struct rpc_cursor values;	    /* at its gradient, or the version that the client has */
	struct run run;			    /* of a program */
};

/* Results of a request's preparation, for its execution. */
struct prepared {
	struct store_push *push;
	/* of pulls with versions: each key's version and whether its row is sent, and how many rows each operation
	 * sends */
	uint32_t *versions;
	uint8_t *sent;
	uint32_t sent_count[WIRE_OPS_MAX];
	/* of runs: rows by segment, and pools */
	uint8_t *pools;
};

/* What the fast path needs of a table, in half a cache line. */
struct direct_table {
	struct store_table *table; /* NULL: its requests take the general path */
	uint64_t name_hash;
	uint32_t object; /* as requests name it, with its generation */
	uint32_t dim;
	uint32_t row_bytes;
	uint8_t dtype;
	bool pushes;
	bool run;      /* it is a program that only looks up rows of the table, ... */
	uint8_t flags; /* ... with these, of enum wire_op_flags */
};
_Static_assert(sizeof(struct direct_table) == 32, "half a cache line");

/* The open sum of an object's gradients, which a commit applies. */
struct accumulator {
	struct store_table *sums; /* NULL: no sum was ever opened */
	uint64_t open;		  /* tag of the open sum */
	uint64_t committed;	  /* tag of the last sum that was committed; 0: none */
	uint64_t next;		  /* emptying: tag of the sum that follows */
	bool next_by_row;	  /* emptying: whether the next sum counts the pushes to each row */
	/* the sum is being emptied, in slices, by any commit that comes: the one that began may have been given up */
	bool emptying;
	bool applies; /* emptying: the sum is applied, and not dropped */
	struct store_push_step step;
};

struct service {
	struct service_options options;
	void *memory; /* this struct's allocation */
	uint32_t epoch, first_partition, end_partition;
	struct store_table *tables[WIRE_OBJECTS_MAX + 1];	    /* by id */
	uint32_t tables_last;					    /* the highest id that any table has had */
	struct accumulator accumulators[WIRE_OBJECTS_MAX + 1];	    /* by id; see commit.c */
	struct store *sums;					    /* the store of the tables of sums */
	struct direct_table direct[OBJECT_IDS] __rte_cache_aligned; /* by any id that a request may name */
	/* Scratch of requests that are prepared. A large one takes several slices, and owns its scratch meanwhile. */
	struct prepared small, large;
	uint32_t small_versions[SMALL_KEYS], large_versions[WIRE_KEYS_MAX];
	uint8_t small_sent[SMALL_KEYS], large_sent[WIRE_KEYS_MAX];
	const struct task *large_owner;
	uint32_t changing; /* number of tasks with `changes` */
	/* journal.c */
	struct journal_ring *journal;	     /* NULL: none */
	bool sums_opened;		     /* a sum was opened since the start */
	bool follows;			     /* it is a standby's: only what its primary evicts is evicted */
	bool journal_holds;		     /* new large requests wait for a mark */
	uint64_t journal_marked_ns;	     /* when the last mark was written, or was not needed */
	uint64_t journal_instant;	     /* instant for which sessions have still to be written; 0: none */
	uint32_t redefined;		     /* counts objects that were dropped */
	uint16_t dropping[WIRE_OBJECTS_MAX]; /* ids of objects that wait to be dropped: drop.c */
	uint32_t dropping_count;
	struct service_counters counters;
	/* programs: plan.c */
	struct plan *plans[WIRE_OBJECTS_MAX + 1]; /* by id */
	struct plan *plans_memory;
	bool plans_taken[PROGRAMS_MAX]; /* which parts of that memory are in use */
	uint32_t plans_used;
	uint64_t pools_max; /* bytes of the large scratch's pools */
	struct tile *tile;
	struct kept *kept;
	/* eviction: sweep.c */
	uint16_t evicting[WIRE_OBJECTS_MAX]; /* ids of tables whose rows expire after some steps */
	uint32_t evicting_count, evicting_at;
	uint16_t asked[WIRE_OBJECTS_MAX]; /* ids of tables for which a pass was requested */
	uint32_t asked_count;
	uint64_t asked_left[WIRE_OBJECTS_MAX +
			    1]; /* by id: rows that such a pass has still to visit; read by any thread */
	uint64_t swept_ns;	/* time up to which sweeping has had its turns */
	/* snapshots: snapshot.c */
	struct snapshot_turns {
		struct service_snapshot *snapshot; /* NULL: none */
		struct service_block *block;	   /* the block being filled, or NULL */
		struct service_block *empty[SERVICE_BLOCKS_MAX];
		unsigned empty_count;
		uint8_t kind;
		bool pending;	       /* its instant has not been taken yet */
		bool holds;	       /* new large requests wait for its instant */
		bool written;	       /* its last block was handed over */
		bool clearing;	       /* marks of the last one are being cleared */
		bool waits;	       /* a request had no room since the last turn */
		uint64_t waits_ns;     /* since when large requests wait; 0: they do not */
		uint64_t pause_cycles; /* if busy, the earliest time of the next slice */
	} snapshots;
	uint8_t records[STORE_SNAPSHOT_SLICE_MIN]
		__attribute__((aligned(RTE_CACHE_LINE_SIZE))); /* records of a slice, before they go into a block */
	uint64_t now_ns;				       /* time of the slice that is being executed */
	/* scratch of one slice */
	uint64_t keys[STORE_BATCH];
	store_row rows[STORE_BATCH];
	const void *gradients[STORE_BATCH]; /* of a push; or values of a pull */
	uint8_t values[SLICE_BYTES] __attribute__((aligned(RTE_CACHE_LINE_SIZE)));
};
_Static_assert(SLICE_BYTES >= WIRE_DIM_MAX * sizeof(double), "a slice holds at least one row");

/* An assignment counts as a push: it only treats the rows in the request differently. */
static inline bool op_pushes(const struct wire_op *op)
{
	return wire_op_brings_rows(op);
}

static inline bool op_pulls(const struct wire_op *op)
{
	return wire_op_returns_rows(op);
}

/* The rights to its table that an operation needs. Not for runs. */
static inline uint8_t op_needs(const struct wire_op *op)
{
	switch (op->kind) {
	case WIRE_PULL:
		return op->flags & WIRE_READ_ONLY ? SECURE_PULL : SECURE_PULL | SECURE_CREATE;
	case WIRE_PUSH:
		return SECURE_PUSH | SECURE_CREATE;
	case WIRE_PUSH_PULL:
		return SECURE_PUSH | SECURE_PULL | SECURE_CREATE;
	case WIRE_DELETE:
		return SECURE_DELETE;
	case WIRE_ASSIGN:
		return SECURE_ASSIGN | SECURE_CREATE;
	default:
		return SECURE_COMMIT;
	}
}

/* What service_lacks returns besides rights. */
enum { LACKS_NEW_ROWS = 1 << 6, LACKS_MEMORY = 1 << 7 };

/* quota.c: whether its sender's quotas allow a request to create rows: 0, or one of these. */
uint8_t service_over_quota(const struct service *service, const struct rpc_request *request,
			   const _Atomic(uint8_t) *rights);
/* Call them before and after a slice: the rows that it creates are charged to its sender. */
struct quota_count {
	struct secure_account *account; /* NULL: they are not counted */
	uint64_t made;
};
struct quota_count service_quota_count(const struct service *service, const struct rpc_request *request);
void service_quota_charge(const struct service *service, const struct quota_count *count);
static inline struct quota_count service_quota_begin(const struct service *service, const struct rpc_request *request)
{
	return unlikely(service->options.account != NULL) ? service_quota_count(service, request)
							  : (struct quota_count){ NULL, 0 };
}
static inline void service_quota_end(const struct service *service, const struct quota_count *count)
{
	if (unlikely(count->account != NULL))
		service_quota_charge(service, count);
}

/* Which of these rights to a table are missing, or which quota is used up; 0: nothing is missing. */
static inline uint8_t service_lacks(const struct service *service, const struct rpc_request *request, uint32_t id,
				    uint8_t needs)
{
	const _Atomic(uint8_t) *rights;
	uint8_t lacks;

	if (likely(!service->options.rights))
		return 0;
	rights = service->options.rights(request);
	lacks = rights ? needs & (uint8_t)~atomic_load_explicit(&rights[id], memory_order_relaxed) : 0;
	if (lacks || !(needs & SECURE_CREATE))
		return lacks;
	return service_over_quota(service, request, rights);
}

/* validate.c: refuses a request for missing rights or a quota. */
enum rpc_progress service_refuse_right(const struct service *service, struct rpc_request *request, const char *table,
				       uint8_t lacks);

/* The mode in which the keys of an operation are first looked up. A delete counts as a push. */
static inline enum store_find_mode op_mode(const struct wire_op *op)
{
	return op->kind != WIRE_PULL ? STORE_PUSH : op->flags & WIRE_READ_ONLY ? STORE_LOOK : STORE_PULL;
}

static inline struct store_push_step op_step(const struct wire_op *op)
{
	return (struct store_push_step){
		.has_rate = op->flags & WIRE_RATE,
		.has_scale = op->flags & WIRE_SCALE,
		.has_version = op->flags & WIRE_PULLED,
		.by_row = op->flags & WIRE_BY_ROW,
		.more = op->flags & WIRE_MORE,
		.rate = op->rate,
		.scale = op->scale,
		.step = op->step,
		.version = op->version,
	};
}

/* The table that the operation names. (task->table may be that of its sums.) */
static inline struct store_table *operation_object(const struct service *service, const struct task *task)
{
	return service->tables[object_id_of(task->op.object)];
}

/* The statistics in which the operation is counted. Not for runs. */
static inline struct store_stats *operation_stats(const struct service *service, const struct task *task)
{
	return store_table_counters(operation_object(service, task));
}

/* The table, or the plan, that a request names by id and generation. NULL: there is none. */
static inline struct store_table *service_table(const struct service *service, uint32_t object)
{
	const uint32_t id = object_id_of(object);
	struct store_table *table = id <= WIRE_OBJECTS_MAX ? service->tables[id] : NULL;

	return table && object_wire_id(store_table_spec(table)) == object ? table : NULL;
}
static inline const struct plan *service_plan(const struct service *service, uint32_t object)
{
	const uint32_t id = object_id_of(object);
	const struct plan *plan = id <= WIRE_OBJECTS_MAX ? service->plans[id] : NULL;

	return plan && plan->object == object ? plan : NULL;
}

/* The cost of n rows in a slice's budget of SLICE_BYTES. */
static inline int64_t operation_cost(const struct task *task, unsigned n)
{
	return (int64_t)n * RTE_MAX(task->row_cost, (uint32_t)(SLICE_BYTES / SLICE_KEYS));
}

/* Whether a key belongs to this shard. name_hash: of its table's name. */
static inline bool service_owns(const struct service *service, uint64_t name_hash, uint64_t key)
{
	uint32_t partition;

	if (service->end_partition - service->first_partition == service->options.partitions)
		return true; /* the cluster has one reactor */
	partition = layout_partition(hash_key(name_hash, key), service->options.partitions);
	return partition - service->first_partition < service->end_partition - service->first_partition;
}

/* direct.c: executes a request that can take the fast path. RPC_MORE: it cannot; nothing has changed, except that its
 * rows may have been created. */
enum rpc_progress service_direct(void *ctx, struct rpc_request *request);
void service_prefetch(void *ctx, const void *payload, uint32_t bytes, bool imminent);
/* A table or a program was installed. */
void service_direct_note(struct service *service, uint32_t id);

/* drop.c: drops what is left of an id's previous object, before the id is reused. -EBUSY: not possible now. */
int service_drop_left_behind(struct service *service, const struct object_spec *spec, struct star_error *err);
/* Whether the object with that id waits to be dropped. */
bool service_drop_is_due(const struct service *service, uint32_t id);
/* Drops the objects that wait for it, if that is possible now. */
void service_drop_turn(struct service *service);
/* Whether new large requests must wait, so that those which have begun can end. */
static inline bool drop_waits(const struct service *service)
{
	return service->dropping_count != 0;
}
/* The same, so that the journal can write a mark. */
static inline bool journal_holds(const struct service *service)
{
	return service->journal_holds;
}

/* Whether all objects of a request still exist as they did when it was validated. */
bool service_drop_spares(const struct service *service, const struct rpc_request *request);

/* validate.c. Whether a request was made for the current layout. RPC_DONE: it was refused. */
enum rpc_progress service_validate_layout(struct service *service, struct rpc_request *request);
/* Checks a new request completely, and fills its task. RPC_MORE: it may be executed; RPC_DONE: it was answered with an
 * error. */
enum rpc_progress service_validate(struct service *service, struct rpc_request *request);

/* execute.c */
enum rpc_progress service_execute(void *ctx, struct rpc_request *request, uint64_t now_ns);

/* journal.c: rpc_service.ended and .held_until; a checkpoint's instant was taken; a sum was opened. */
void service_ended(void *ctx, const struct rpc_outcome *outcome);
uint64_t service_held_until(void *ctx, const struct rpc_request *request);
void service_journal_instant(struct service *service, uint64_t id);
void service_journal_sums(struct service *service);

/* operation.c: goes through the operations of a request. service_operation_rewind: back to the first one. */
void service_operation_rewind(struct rpc_request *request);
/* Reads the next operation's header, and sets the cursors to its keys and to what follows them. */
void service_operation_next(struct service *service, struct task *task);
/* Sets the cursors back to its first key and gradient. */
void service_operation_again(struct task *task);
/* Reads the keys of the operation's next batch into service->keys. Returns their number. */
unsigned service_operation_keys(struct service *service, struct task *task);
/* Sets service->gradients for that batch: in place where a row is contiguous and aligned, else copied. */
void service_operation_gradients(struct service *service, struct task *task, unsigned n);
/* Checks that the n keys belong to this shard, and those of a variable to its blocks. RPC_DONE: refused. */
enum rpc_progress service_operation_check_keys(struct service *service, struct rpc_request *request, unsigned n);
enum rpc_progress service_operation_refuse_room(struct rpc_request *request, const struct store_table *table);

/* commit.c: checks a commit; and whether a push may be added to the sum that it names. RPC_DONE: refused. */
enum rpc_progress service_commit_check(struct rpc_request *request, const struct object_spec *spec,
				       const struct wire_op *op);
enum rpc_progress service_commit_check_push(struct service *service, struct rpc_request *request,
					    const struct wire_op *op);
/* Call it before a request changes rows in several slices, because a snapshot must have all changes of a request or
 * none. false: a snapshot is about to begin, try later. true: the request must be finished whatever happens. */
bool service_snapshot_lets_change(struct service *service, struct rpc_request *request);
/* Executes a slice of the current commit. RPC_DONE: refused. */
enum rpc_progress service_commit_slice(struct service *service, struct rpc_request *request, int64_t *budget);

/* sweep.c: a table is gone; a table was installed. */
void service_sweep_forget(struct service *service, uint32_t id);
void service_sweep_note(struct service *service, uint32_t id);

/* snapshot.c: gives up the snapshot under way, for that reason. */
void service_snapshot_give_up(struct service *service, int status);
/* Whether there is room for copies of rows, in bytes. false: the request has to wait. */
bool service_snapshot_asks_room(struct service *service, uint64_t need);
uint64_t service_snapshot_need_small(struct service *service, struct rpc_request *request);

/* Call it before the next n keys of an operation are looked up in this mode, or deleted (STORE_PUSH). false: the
 * request has to wait. */
static inline bool snapshot_room(struct service *service, const struct store_table *table, unsigned n,
				 enum store_find_mode mode)
{
	return likely(!service->snapshots.snapshot) ||
	       service_snapshot_asks_room(service, store_snapshot_need(table, n, mode));
}

/* The same for all operations of a small request that is prepared. */
static inline bool snapshot_room_small(struct service *service, struct rpc_request *request)
{
	return likely(!service->snapshots.snapshot) ||
	       service_snapshot_asks_room(service, service_snapshot_need_small(service, request));
}

/* prepare.c: executes one slice of preparation, or all of it if the request is small. *ready is set when all operations
 * are prepared. */
enum rpc_progress service_prepare_slice(struct service *service, struct rpc_request *request, bool *ready);
/* Prepares a push to the n keys in service->keys; and checks their gradients. RPC_DONE: refused. */
enum rpc_progress service_prepare_keys(struct service *service, struct rpc_request *request, unsigned n);
enum rpc_progress service_prepare_look(struct rpc_request *request, const void *const *gradients, unsigned dtype,
				       unsigned n);

#endif
