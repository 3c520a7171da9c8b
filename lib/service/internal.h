/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/service share. */
#ifndef SERVICE_INTERNAL_H
#define SERVICE_INTERNAL_H

#include <stdatomic.h>

#include "journal/ring.h"
#include "secure/rights.h"
#include "service/plan.h"
#include "service/service.h"
#include "store/push.h"
#include "wire/layout.h"
#include "wire/object.h"

enum {
	SLICE_KEYS = 256,	 /* keys of one slice, and ... */
	SLICE_BYTES = 64 * 1024, /* ... bytes of their rows: some tens of microseconds */
	SMALL_KEYS = 64,	 /* requests that are prepared first, up to this many keys, are executed in one slice */
};

/*
 * The operations of requests, an entry each. X(kind, the flags that it may have, how it is checked, prepared,
 * begun): the last three name a check_NAME of validate.c, a prepare_NAME of prepare.c and a begin_NAME of execute.c.
 * What its body and its result carry says wire/frame.h.
 */
#define SERVICE_OPS(X) \
	X(PULL, WIRE_READ_ONLY | WIRE_VERSIONS, unscaled, pull, pull) \
	X(PUSH, WIRE_ACCUMULATE | WIRE_RATE | WIRE_SCALE | WIRE_PULLED | WIRE_MORE, push, push, push) \
	X(PUSH_PULL, WIRE_RATE | WIRE_SCALE | WIRE_PULLED | WIRE_MORE, push, push, push) \
	X(DELETE, 0, delete, keys, delete) \
	X(ASSIGN, WIRE_MORE, unscaled, assign, push) \
	X(RUN, 0, run, run, run) \
	X(COMMIT, WIRE_OPEN | WIRE_RATE | WIRE_SCALE | WIRE_BY_ROW, commit, keys, commit)

enum task_phase {
	TASK_NEW,
	TASK_WAIT, /* for what it needs to be finished */
	/* rows are found or made, and gradients looked at, so that nothing can fail once a value has changed */
	TASK_PREPARE,
	TASK_RUN,
};

/* Where the current operation is. */
enum task_stage {
	STAGE_NEXT, /* there is none: the next one is taken */
	STAGE_LOOK, /* of a preparation: gradients once more (store_push_look_again) */
	STAGE_PUSH,
	STAGE_FINISH, /* all gradients were taken */
	STAGE_VERSIONS,
	STAGE_PULL,
	STAGE_DELETE,
	STAGE_RUN, /* of a program: struct run */
	STAGE_COMMIT,
};

/* A request's progress; lies in rpc_request->task. */
struct task {
	uint8_t phase;
	uint8_t stage;
	uint8_t prepared; /* it has pushes or pulls with versions, and so a phase TASK_PREPARE */
	uint8_t has_push;
	uint8_t large; /* it goes over several slices, with the large scratch to itself if it is a prepared one */
	/* it has begun to change rows in several slices without that scratch: no snapshot begins meanwhile */
	uint8_t changes;
	uint32_t redefined; /* service.redefined, when its objects were looked up */
	uint32_t ops, ops_left;
	uint32_t reply_bytes;	  /* at most */
	uint32_t versions_used;	  /* of the scratch, by the operations so far */
	uint64_t pools_used;	  /* the same, by runs */
	struct prepared *scratch; /* from TASK_PREPARE on */
	struct rpc_cursor at;	  /* the next operation */
	/* the current operation */
	struct wire_op op;
	struct store_table *table;
	const struct object_spec *spec;
	uint32_t batch;			    /* rows of a batch */
	uint32_t push_bytes, pull_bytes;    /* of a row in the request and in the reply */
	uint32_t row_cost;		    /* what a row costs of a slice's budget, in bytes */
	uint32_t blocks;		    /* of a variable; 0: a table */
	uint32_t done;			    /* keys */
	uint32_t deleted;		    /* rows */
	uint32_t owned;			    /* entries of what programs keep: kept.h */
	uint8_t look;			    /* its gradients are to be looked at before anything changes */
	struct rpc_cursor keys_begin, keys; /* at the first key, and at the first not done */
	struct rpc_cursor values;	    /* at its gradient, or the version that it was given */
	struct run run;			    /* of a program */
};

/* What the preparation of a request leaves behind for its run. */
struct prepared {
	struct store_push *push;
	/* of pulls with versions: for each key its version, and whether its row is sent; for each operation how many
	 * are */
	uint32_t *versions;
	uint8_t *sent;
	uint32_t sent_count[WIRE_OPS_MAX];
	/* of runs: rows by segment, and pools */
	uint8_t *pools;
};

/* What the fast path looks at of a table, in half a cache line. */
struct direct_table {
	struct store_table *table; /* NULL: its requests go the general way */
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

/* Of an object: gradients that are summed up until a commit. */
struct accumulator {
	struct store_table *sums; /* NULL: were never opened */
	uint64_t open;		  /* their tag */
	uint64_t committed;	  /* that of the last ones that were; 0: none */
	uint64_t next;		  /* emptying: the one that follows */
	bool next_by_row;	  /* emptying: whether that one counts, for each row, the pushes that add to it */
	bool emptying; /* in slices, by whatever commit comes: the one that began it may have been given up */
	bool applies;  /* emptying: not only thrown away */
	struct store_push_step step;
};

struct service {
	struct service_options options;
	void *memory; /* that it lies in */
	uint32_t epoch, first_partition, end_partition;
	struct store_table *tables[WIRE_OBJECTS_MAX + 1];	    /* by id */
	uint32_t tables_last;					    /* the highest id that a table has had */
	struct accumulator accumulators[WIRE_OBJECTS_MAX + 1];	    /* by id: commit.c */
	struct store *sums;					    /* the store of their tables */
	struct direct_table direct[OBJECT_IDS] __rte_cache_aligned; /* of whatever a request may name */
	/* Scratch of requests that are prepared. A large one goes over several slices, and has its scratch to itself
	 * meanwhile. */
	struct prepared small, large;
	uint32_t small_versions[SMALL_KEYS], large_versions[WIRE_KEYS_MAX];
	uint8_t small_sent[SMALL_KEYS], large_sent[WIRE_KEYS_MAX];
	const struct task *large_owner;
	uint32_t changing; /* tasks with `changes` */
	/* journal.c */
	struct journal_ring *journal;	     /* NULL: none */
	bool sums_opened;		     /* once, since the beginning */
	bool follows;			     /* a standby's: nothing is evicted but what its primary says */
	bool journal_holds;		     /* new large requests wait for a mark */
	uint64_t journal_marked_ns;	     /* when the last mark was made, or found nothing to do */
	uint64_t journal_instant;	     /* whose sessions are still to be written; 0: none */
	uint32_t redefined;		     /* how often objects were dropped */
	uint16_t dropping[WIRE_OBJECTS_MAX]; /* ids of those that wait to be: drop.c */
	uint32_t dropping_count;
	struct service_counters counters;
	/* programs: plan.c */
	struct plan *plans[WIRE_OBJECTS_MAX + 1]; /* by id */
	struct plan *plans_memory;
	bool plans_taken[PROGRAMS_MAX]; /* of that memory */
	uint32_t plans_used;
	uint64_t pools_max; /* bytes of the large scratch's */
	struct tile *tile;
	struct kept *kept;
	/* eviction: sweep.c */
	uint16_t evicting[WIRE_OBJECTS_MAX]; /* ids of tables whose rows have steps to live */
	uint32_t evicting_count, evicting_at;
	uint16_t asked[WIRE_OBJECTS_MAX]; /* ids of tables of which a pass was asked for */
	uint32_t asked_count;
	uint64_t asked_left[WIRE_OBJECTS_MAX +
			    1]; /* by id: rows that such a pass has still to look at; read by any thread */
	uint64_t swept_ns;	/* up to when time was given to sweeping */
	/* snapshots: snapshot.c */
	struct snapshot_turns {
		struct service_snapshot *snapshot; /* NULL: none */
		struct service_block *block;	   /* that is being filled, or NULL */
		struct service_block *empty[SERVICE_BLOCKS_MAX];
		unsigned empty_count;
		uint8_t kind;
		bool pending;	       /* its instant has still to come, ... */
		bool holds;	       /* ... and new large requests wait for it */
		bool written;	       /* its last block was given away */
		bool clearing;	       /* marks of the last one */
		bool waits;	       /* a request had no room since the last turn */
		uint64_t waits_ns;     /* since when they wait; 0: they don't */
		uint64_t pause_cycles; /* when busy, the next slice is not before */
	} snapshots;
	uint8_t records[STORE_SNAPSHOT_SLICE_MIN]
		__attribute__((aligned(RTE_CACHE_LINE_SIZE))); /* of a slice, on their way into a block */
	uint64_t now_ns;				       /* of the slice that is executed */
	/* scratch of one slice */
	uint64_t keys[STORE_BATCH];
	store_row rows[STORE_BATCH];
	const void *gradients[STORE_BATCH]; /* of a push; values of a pull */
	uint8_t values[SLICE_BYTES] __attribute__((aligned(RTE_CACHE_LINE_SIZE)));
};
_Static_assert(SLICE_BYTES >= WIRE_DIM_MAX * sizeof(double), "a slice holds at least one row");

/* An assignment is a push, but for what becomes of the rows that it carries. */
static inline bool op_pushes(const struct wire_op *op)
{
	return wire_op_brings_rows(op);
}

static inline bool op_pulls(const struct wire_op *op)
{
	return wire_op_returns_rows(op);
}

/* What an operation needs of rights to its table (not of runs). */
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

/* What service_lacks says beside rights. */
enum { LACKS_NEW_ROWS = 1 << 6, LACKS_MEMORY = 1 << 7 };

/* quota.c: whether a request may make rows, by its sender's quotas: 0, or one of these. */
uint8_t service_over_quota(const struct service *service, const struct rpc_request *request,
			   const _Atomic(uint8_t) *rights);
/* Before and after a slice: the rows that it makes are its sender's. */
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

/* What is missing of these rights to a table, or a quota; 0: nothing. */
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

/* validate.c: refuses what needs these. */
enum rpc_progress service_refuse_right(const struct service *service, struct rpc_request *request, const char *table,
				       uint8_t lacks);

/* How the keys of an operation are looked up for the first time; a delete counts as a push. */
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

/* The table that the operation names; task->table may be that of its sums. */
static inline struct store_table *operation_object(const struct service *service, const struct task *task)
{
	return service->tables[object_id_of(task->op.object)];
}

/* Where it is counted; not of runs. */
static inline struct store_stats *operation_stats(const struct service *service, const struct task *task)
{
	return store_table_counters(operation_object(service, task));
}

/* What a request means by an id, if that is there, in its generation; or NULL. */
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

/* What n rows cost of a slice's budget of SLICE_BYTES. */
static inline int64_t operation_cost(const struct task *task, unsigned n)
{
	return (int64_t)n * RTE_MAX(task->row_cost, (uint32_t)(SLICE_BYTES / SLICE_KEYS));
}

/* Whether a key of the table whose name has this hash is this shard's. */
static inline bool service_owns(const struct service *service, uint64_t name_hash, uint64_t key)
{
	uint32_t partition;

	if (service->end_partition - service->first_partition == service->options.partitions)
		return true; /* of a cluster of one reactor */
	partition = layout_partition(hash_key(name_hash, key), service->options.partitions);
	return partition - service->first_partition < service->end_partition - service->first_partition;
}

/* direct.c: a request that can take the fast path is answered; RPC_MORE: it is none, and nothing has changed but that
 * its rows may have been made. */
enum rpc_progress service_direct(void *ctx, struct rpc_request *request);
void service_prefetch(void *ctx, const void *payload, uint32_t bytes, bool imminent);
/* A table or a program was installed. */
void service_direct_note(struct service *service, uint32_t id);

/* drop.c: before an id becomes that of something else, what was left behind under it is dropped. -EBUSY: it cannot be
 * now. */
int service_drop_left_behind(struct service *service, const struct object_spec *spec, struct star_error *err);
/* Whether what has that id waits for its end. */
bool service_drop_is_due(const struct service *service, uint32_t id);
/* What waits is dropped if that is possible now. */
void service_drop_turn(struct service *service);
/* Whether large requests are to wait, so that those which have begun come to an end. */
static inline bool drop_waits(const struct service *service)
{
	return service->dropping_count != 0;
}
/* The same, for a mark of the journal. */
static inline bool journal_holds(const struct service *service)
{
	return service->journal_holds;
}

/* Whether all that a request works on, which was there when it was validated, still is. */
bool service_drop_spares(const struct service *service, const struct rpc_request *request);

/* validate.c: checks a new request whole, and fills its task. RPC_MORE: it may run; RPC_DONE: it was answered by an
 * error. */
/* Whether it is meant for the layout that is served now. RPC_DONE: refused. */
enum rpc_progress service_validate_layout(struct service *service, struct rpc_request *request);
enum rpc_progress service_validate(struct service *service, struct rpc_request *request);

/* execute.c */
enum rpc_progress service_execute(void *ctx, struct rpc_request *request, uint64_t now_ns);

/* journal.c: rpc_service.ended and .held_until; the instant of a checkpoint; sums were opened. */
void service_ended(void *ctx, const struct rpc_outcome *outcome);
uint64_t service_held_until(void *ctx, const struct rpc_request *request);
void service_journal_instant(struct service *service, uint64_t id);
void service_journal_sums(struct service *service);

/* operation.c: the operations of a request, one after the other. */
void service_operation_rewind(struct rpc_request *request);
/* Takes the next operation's header, and sets the cursors to its keys and to what follows them. */
void service_operation_next(struct service *service, struct task *task);
/* Back to the first of its keys and gradients. */
void service_operation_again(struct task *task);
/* Reads the keys of the operation's next batch; returns how many. */
unsigned service_operation_keys(struct service *service, struct task *task);
/* Their gradients, in place where they lie in one piece. */
void service_operation_gradients(struct service *service, struct task *task, unsigned n);
/* Whether the n keys are this shard's, and a variable's are keys of its blocks. RPC_DONE: refused. */
enum rpc_progress service_operation_check_keys(struct service *service, struct rpc_request *request, unsigned n);
enum rpc_progress service_operation_refuse_room(struct rpc_request *request, const struct store_table *table);

/* commit.c: whether a push may be added to the sums that it names, and a commit is one. RPC_DONE: refused. */
enum rpc_progress service_commit_check(struct rpc_request *request, const struct object_spec *spec,
				       const struct wire_op *op);
enum rpc_progress service_commit_check_push(struct service *service, struct rpc_request *request,
					    const struct wire_op *op);
/* Before a request changes rows in several slices, of which a snapshot is to have all or none. False: not now, a
 * snapshot is about to begin. From then on the request is finished whatever happens. */
bool service_snapshot_lets_change(struct service *service, struct rpc_request *request);
/* Works on the commit at hand, or ends it. RPC_DONE: refused. */
enum rpc_progress service_commit_slice(struct service *service, struct rpc_request *request, int64_t *budget);

/* sweep.c: a table was installed. */
void service_sweep_forget(struct service *service, uint32_t id);
void service_sweep_note(struct service *service, uint32_t id);

/* snapshot.c: what is under way is lost, for that reason. */
void service_snapshot_give_up(struct service *service, int status);
/* Whether there is room for copies of rows; else the request waits. */
bool service_snapshot_asks_room(struct service *service, uint64_t need);
uint64_t service_snapshot_need_small(struct service *service, struct rpc_request *request);

/* Before the next n keys of an operation are looked up in this mode, or deleted (STORE_PUSH). */
static inline bool snapshot_room(struct service *service, const struct store_table *table, unsigned n,
				 enum store_find_mode mode)
{
	return likely(!service->snapshots.snapshot) ||
	       service_snapshot_asks_room(service, store_snapshot_need(table, n, mode));
}

/* The same for all of a small request that is prepared, whose operations are gone through from the first. */
static inline bool snapshot_room_small(struct service *service, struct rpc_request *request)
{
	return likely(!service->snapshots.snapshot) ||
	       service_snapshot_asks_room(service, service_snapshot_need_small(service, request));
}

/* prepare.c: one slice of preparation, or all of it if the request is small; *ready when all operations are
 * prepared. */
enum rpc_progress service_prepare_slice(struct service *service, struct rpc_request *request, bool *ready);
/* The n keys at hand are pushed to, at that step. And: their gradients are looked at. RPC_DONE: refused. */
enum rpc_progress service_prepare_keys(struct service *service, struct rpc_request *request, unsigned n);
enum rpc_progress service_prepare_look(struct rpc_request *request, const void *const *gradients, unsigned dtype,
				       unsigned n);

#endif
