/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libstar: the worker's side of StarServer. A worker opens a cluster by the control addresses of its PS tasks, creates
 * or looks up tables and variables, pulls rows and pushes gradients.
 *
 * Threads: every call may be made from any thread, except that star_close must be the last one. Completion callbacks
 * run on one of libstar's I/O threads and must not block; calls that wait (those without _async, star_request_wait) are
 * refused there with -EDEADLK.
 *
 * Order: first in, first out for each pair of (cluster handle, reactor): a pull that is started after a push sees the
 * push.
 *
 * Time: each call has a deadline in microseconds from now; 0 means STAR_DEADLINE_DEFAULT_US, and more than a
 * year is a year. When it passes, the call fails with -ETIMEDOUT; nothing waits for ever.
 *
 * Keys: any 64-bit values, in any order, and several times: a pull returns the row for each, a push sums the gradients
 * of a key before it applies them once, an assign leaves the last values, a delete passes over what is gone.
 *
 * Errors are negative errno values; err (which may be NULL) then has the same code, and a message that names the node.
 * After a success it says nothing. Any call may fail with these, and has its own besides where it says so:
 *   -EINVAL                  the call makes no sense (NULL, sizes, types, flags): nothing was sent, or the node has
 *                            refused it and applied nothing
 *   -ENOENT                  no such table or variable, or it was dropped
 *   -EEXIST                  it exists with another definition
 *   -EDOM                    a gradient has NaN or infinities, which its table refuses
 *   -EALREADY                the sums with that tag are closed, or not open yet (STAR_ACCUMULATE)
 *   -ENODATA, -ENOBUFS       what a run of a program has kept is gone, or finds no room (star_program.h): make the step
 *                            again
 *   -E2BIG                   over a limit of the protocol
 *   -ENOSPC                  the parameter memory of a node is full
 *   -ETIMEDOUT               the deadline passed
 *   -ECONNREFUSED, -ECONNRESET, -EHOSTUNREACH
 *                            the node cannot be reached, or was lost in the middle of the call and not reached again
 *   -ESTALE                  a node was restarted and has lost what it held: close the cluster, and open it again
 *   -EBUSY                   a node has refused requests until the deadline, as it is overloaded: the message has its
 *                            words
 *   -EDQUOT                  a quota of the key's principal was used up until the deadline; the message says which
 *   -EREMOTEIO               a push was applied, and its results are lost (STAR_AT_ONCE)
 *   -EPROTO, -EBADMSG        a node does not keep to the protocol, or a checksum does not match; its connection was
 *                            closed
 *   -ECANCELED               the cluster is being closed
 *   -EDEADLK                 a callback must not wait
 *   -EACCES                  the control plane wants a key, or does not take this one
 *   -EPERM                   others may read the key file, or its role may not do this
 *   -EINTR                   the thread's star_interrupted has said so
 *   -ENOMEM                  this process is out of memory
 * and with others that come from connecting. After a failed push or assign it is unknown which of its rows were applied
 * (never half a row), except for -EINVAL.
 */
#ifndef STAR_H
#define STAR_H

#include <stdint.h>
#include <string.h>

#include "star_error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct star_cluster;
struct star_table;   /* a table or a variable of an open cluster */
struct star_request; /* an asynchronous call in flight */
struct star_view;    /* pulled rows, where they lie */
struct star_run;     /* a program and what a run of it is given: star_program.h */

#define STAR_DEADLINE_DEFAULT_US UINT64_C(30000000)

enum { STAR_OPS_MAX = 4096 }; /* operations of one call */

/*
 * Opens a cluster. Waits until every PS task has joined the layout. ps:
 *   "tcp:host:port,host:port,..." (the prefix may be left out): the control addresses of the PS tasks in task order, of
 *     a task that is a pair of nodes both, as in "host:port|host:port".
 *     I/O threads, polling and pinning come from the environment (NETWORK_WORKER_CORE_NUMBER, WORKER_ENABLE_POLLING,
 *     WORKER_DISABLE_PIN_CORES, NETWORK_MAX_CONNECTION_TIMEOUT).
 *   "dpdk:FILE": a worker's file (docs/libstar.rst), with those addresses and a network port of the worker's own.
 * Where the cluster's control plane has keys (docs/security.rst), the environment's STAR_KEY names the worker's key
 * file. It is read again for each request to the control plane, and nothing goes there in clear then. Where the data
 * network wants tickets, libstar gets them with that key.
 *
 * NULL with err: -EINVAL (an address, the file, or a variable of the environment), -E2BIG (more than 1024 PS tasks),
 * -ETIMEDOUT (not all have joined), -ENOENT or -EPROTO ("dpdk:" without libstar-dpdk.so, or with another release's), or
 * as above. ps is copied.
 */
STAR_API struct star_cluster *star_open(const char *ps, uint64_t deadline_us, struct star_error *err);

/*
 * Where nodes have `retained` durability (docs/availability.rst), pushes are answered before they are durable, and kept
 * in this process until they are. Waits until every push that was answered is durable. 0; -ETIMEDOUT: some are not yet;
 * -EREMOTEIO: some are lost, which is said once. With any other durability it returns at once. Not from a callback.
 */
STAR_API int star_settle(struct star_cluster *cluster, uint64_t deadline_us, struct star_error *err);

/*
 * Waits as star_settle does, for some seconds at most; then fails what is in flight with -ECANCELED (callbacks still
 * run), and frees the cluster, its tables, and the requests that were not waited for. To know whether all is
 * durable, call star_settle before. NULL is allowed. Not from a callback.
 */
STAR_API void star_close(struct star_cluster *cluster);

/* Reactors of all its PS tasks together, by the layout that libstar knows now: this many have a part of a table's rows.
 * Does not wait. */
STAR_API uint32_t star_reactors(const struct star_cluster *cluster);

/* What a table or variable is. Zero in a field means the default in brackets. */
struct star_spec {
	const char *name;	 /* 1 to 127 bytes, no control characters */
	const char *dtype;	 /* as stored: "float32", "float16", "bfloat16", "float64", "scaled_int8"; without
				    optimizer also "int8", "int32", "int64" [float32] */
	uint32_t dim;		 /* tables: elements of a row, 1 to 4096 */
	uint32_t ndim;		 /* variables: dimensions, 1 to 8 */
	const uint64_t *shape;	 /* variables: ndim sizes */
	const char *initializer; /* "zeros", "ones", "constant", "uniform", "normal", "truncated_normal",
				    "glorot_uniform", "glorot_normal", "he_uniform", "he_normal" [zeros] */
	float scale;		 /* constant: the value; uniform: [-scale, scale); normal: standard deviation */
	uint64_t seed;		 /* of the initializer */
	const char *optimizer;	 /* "sgd", "adagrad", "adam", ...: docs/optimizers.rst [sgd] */
	float rate;		 /* learning rate [0.01; adam's family 0.001]; a rate of 0 is the option "rate=0" */
	/* Everything else by name: "beta1=0.8, schedule=cosine, schedule_steps=100000, filter=counter,
	 * filter_frequency=3". `starctl tables options` lists names, bounds and defaults; so does docs/optimizers.rst.
	 * NULL: all defaults. */
	const char *options;
};

/*
 * Creates a table (or variable), or finds it when it exists with the same definition: any number of workers may do so
 * at the same moment, and a worker again, which gets the same handle. The handle lives as long as the cluster; spec is
 * copied. NULL with err: -EEXIST (it exists with another definition; the message says what differs), -EINVAL (the
 * definition makes no sense, and why), -ENOSPC (there are too many objects), or as above.
 */
STAR_API struct star_table *star_table_create(struct star_cluster *cluster, const struct star_spec *spec,
					      uint64_t deadline_us, struct star_error *err);
STAR_API struct star_table *star_variable_create(struct star_cluster *cluster, const struct star_spec *spec,
						 uint64_t deadline_us, struct star_error *err);

/* Finds a table or variable by its name, as the cluster has it now. NULL with err: -ENOENT (there is none), -EINVAL (no
 * name of 1 to 127 bytes), or as above. */
STAR_API struct star_table *star_lookup(struct star_cluster *cluster, const char *name, uint64_t deadline_us,
					struct star_error *err);

/*
 * Deletes all rows of a table or variable on all nodes, with their optimizer state and what its admission filter has
 * counted, and waits until it is done. The handle stays valid, and rows begin again at their initial values. Rows that
 * are made meanwhile may be deleted, too. A checkpoint is asked for afterwards, where checkpoint.directory is set.
 * -ESTALE: a PS task was restarted meanwhile; -ETIMEDOUT: the nodes go on; -EHOSTUNREACH ("cannot be emptied:"):
 * nothing was heard of a PS task for 5 s, and nothing was deleted. Of one that fell silent later that is not known:
 * then the error says which PS tasks empty it. It may be called again after any failure. 0, or as above.
 */
STAR_API int star_table_empty(struct star_table *table, uint64_t deadline_us, struct star_error *err);

/*
 * Drops a table or variable on all nodes: its rows, their optimizer state, and sums and programs of it are gone, their
 * memory is given back, and the name may be created again at once, with any definition. Calls with this handle, or with
 * another one of the same table, fail with -ENOENT from then on, those in flight too unless they came first; they never
 * meet a table that is created under the name later. The handle's memory is freed with the cluster. -EHOSTUNREACH:
 * nothing was heard of a PS task for 5 s, and nothing was dropped; one that fell silent later drops it when it is back.
 * -ENOENT: the table was dropped before; also by this very call, if its answer was lost with the connection. A
 * checkpoint is asked for afterwards, where checkpoint.directory is set; one that is older brings the table back only
 * if the cluster is told to roll back to it. 0, or as above.
 */
STAR_API int star_table_drop(struct star_table *table, uint64_t deadline_us, struct star_error *err);

/*
 * Calls a method of a node's control plane (docs/control.rst has them) at "host:port". params is the text of a JSON
 * object, or NULL; a member that is given twice is refused. The result is JSON text of any length, for free(). NULL
 * with err: -EINVAL (params is no JSON object), a code of above, or the node's own, as the page says for each method.
 * Needs no cluster. Where STAR_KEY is set the call goes by TLS, with the key of that file.
 */
STAR_API char *star_ask(const char *address, const char *method, const char *params, uint64_t deadline_us,
			struct star_error *err);

/*
 * The key of the row that stands for a text in a column of examples, as startrain and libstartrain's readers make it
 * from their files (docs/training.rst, "Rows by their names"): a hash, so that all columns may share a table. Columns
 * count from 0, in the file's order. It stays the same for ever, and is below 2^63. text may have any length, and ends
 * with a zero; it must not be NULL.
 */
STAR_API uint64_t star_key(uint32_t column, const char *text);

/* Elements of a table's row, or of a whole variable; 0 of NULL. */
STAR_API uint64_t star_elements(const struct star_table *table);

/* A variable's blocks: how many versions a pull of all of it takes, and what programs name by keys. 0 for a table and
 * NULL. */
STAR_API uint64_t star_blocks(const struct star_table *table);

/* What a buffer needs: bytes of a row (of a whole variable) as elements of dtype, NULL for the stored type. 0 for an
 * unknown type, and for a table of NULL. A scaled_int8 row is a float32 scale and its int8s, padded with zeros to 4
 * bytes; a variable of them is such a row for each block. */
STAR_API uint64_t star_bytes(const struct star_table *table, const char *dtype);

enum star_flags {
	/* pull: create nothing, count nothing; a row that is not there reads as its initial value */
	STAR_READ_ONLY = 1 << 0,
	/* push: is not applied but added, row by row, to the sums with that tag, which a commit applies; they must be
	 * open, else -EALREADY */
	STAR_ACCUMULATE = 1 << 1,
	/* commit: throws away what has been summed up, and opens sums with that tag, which must not be less than those
	 * that are open */
	STAR_OPEN = 1 << 2,
	/* push-pull: the rows are those that this push has left. Without, they may be later ones, if the connection was
	 * lost with the reply; with it, such a call fails with -EREMOTEIO: the push was applied, and what the rows were
	 * then is not known */
	STAR_AT_ONCE = 1 << 3,
	/* push, push_pull, commit, run of a program that applies: `rate` is the learning rate, and 0 is a rate of 0;
	 * without it the table's own, and `rate` must be 0 */
	STAR_RATE = 1 << 4,
	/* the same: each gradient is multiplied by `scale`, which may be 0; without it they are taken as they are, and
	 * `scale` must be 0 */
	STAR_SCALE = 1 << 5,
	/* commit that opens sums: for each row it is counted how many pushes add to it, until sums are opened without
	 * this; commit: each row's sum is divided by that number (of a variable: each block's). -EINVAL: the sums were
	 * opened without it */
	STAR_BY_ROW = 1 << 6,
};

enum star_op_kind {
	STAR_PULL = 1,
	STAR_PUSH = 2,
	STAR_PUSH_PULL = 3,
	STAR_DELETE = 4,
	STAR_ASSIGN = 5,
	STAR_RUN = 6, /* of a program: star_program.h */
	STAR_COMMIT = 7,
};

/*
 * One operation.
 *
 * What it is on. A table: `count` keys (any 64-bit values; duplicates are allowed). A variable: all of it, with count 0
 * and keys NULL; or, with keys, those rows of its first dimension, if rows are whole numbers of blocks or blocks hold
 * whole rows. A block is pushed as a whole then: its other rows get gradients of 0. Most optimizers leave such rows
 * alone; momentum, Adam and the like change them (docs/libstar.rst).
 *
 * PULL        writes `count` rows to values, in the keys' order: one for each key, also where a key comes twice.
 * PUSH        reads as many gradients from values. Those of one key are summed up first, and applied once.
 * PUSH_PULL   reads gradients from values, and writes the rows as they are after the push to results.
 * ASSIGN      gives rows new values, of any type, with or without an optimizer, whose slots stay as they are. Of a key
 *             that comes twice the last values count. It is sent, retried and counted as a push is. Rows of a variable
 *             must be whole blocks.
 * DELETE      removes rows of a table; values is NULL.
 * COMMIT      applies the sums with `tag` on all reactors, by the optimizer, once for each row (a mean: scale is
 *             1 / n), and opens those with tag + 1; no keys, values NULL. So gradients of many workers for one step,
 *             pushed with STAR_ACCUMULATE, become one update. The same commit may be asked for again, by any worker: it
 *             is done once. -EALREADY: other sums are open, and these were thrown away, or never were. Nodes hold sums
 *             in memory: a restart loses them, and checkpoints do not have them. Not for optimizer lamb, nor with
 *             clip_global_norm.
 * RUN         of a program: star_program.h.
 *
 * Layout of values and results: rows of star_bytes(table, dtype) bytes, one directly behind the other. Of a variable
 * without keys: all its elements, the last dimension counting fastest, star_bytes(variable, dtype) bytes in all; with
 * keys: its rows in the same way. They must be aligned as an element of dtype is (scaled_int8: to 4 bytes), keys and
 * versions as theirs are. What a failed pull has written is undefined. -EINVAL: values is NULL where it is needed, or
 * is not where it has no use; or dtype is unknown, or not converted from or to what is stored. The memory must stay as
 * it is until the call has completed.
 *
 * Fields that a kind has no use for must be 0: the constructors below (star_op_pull and so on) set what each kind
 * needs, and the caller adds flags, step, dtype and the like.
 */
struct star_op {
	enum star_op_kind kind;
	uint32_t flags;
	struct star_table *table;
	const uint64_t *keys;
	uint32_t count;
	float rate; /* STAR_RATE */
	void *values;
	/* the training step, from 1: the job's or the worker's, whichever the caller counts; 0: it counts none */
	uint64_t step;
	const char *dtype; /* of values: NULL for the stored type */
	void *results;	   /* push_pull: as values, of the same type */
	/* pull of a table with versions=1, or of all of a variable: count (star_blocks) versions. Only rows (blocks)
	 * that have another version now are written, and their new versions here: begin with zeros. NULL: all rows. */
	uint32_t *versions;
	float scale; /* STAR_SCALE */
	/* pull without versions: values is NULL, and *view, which begins as NULL, is set by the call that starts it to
	 * a view of the rows. It may be read once the call has succeeded, and must be released when the call has
	 * completed, also if it has failed. */
	struct star_view **view;
	/* run: all else but rate, scale, their flags, and step is 0. Copied, with its arrays; what they point at is
	 * not. */
	const struct star_run *run;
	uint64_t tag; /* of sums, from 1: commit, and push with STAR_ACCUMULATE; else 0 */
};

/* An operation of each kind, with what it cannot do without. keys NULL and count 0: all of a variable. Nothing is
 * checked here. */
static inline struct star_op star_op_of(enum star_op_kind kind, struct star_table *table, const uint64_t *keys,
					uint32_t count)
{
	struct star_op op;

	memset(&op, 0, sizeof(op));
	op.kind = kind;
	op.table = table;
	op.keys = keys;
	op.count = count;
	return op;
}

static inline struct star_op star_op_pull(struct star_table *table, const uint64_t *keys, uint32_t count, void *values)
{
	struct star_op op = star_op_of(STAR_PULL, table, keys, count);

	op.values = values;
	return op;
}

/* *view is NULL until the call that starts it. */
static inline struct star_op star_op_pull_view(struct star_table *table, const uint64_t *keys, uint32_t count,
					       struct star_view **view)
{
	struct star_op op = star_op_of(STAR_PULL, table, keys, count);

	op.view = view;
	return op;
}

static inline struct star_op star_op_push(struct star_table *table, const uint64_t *keys, uint32_t count,
					  const void *gradients)
{
	struct star_op op = star_op_of(STAR_PUSH, table, keys, count);

	op.values = (void *)(uintptr_t)gradients; /* which are only read */
	return op;
}

/* A push that is added to the sums with that tag. */
static inline struct star_op star_op_accumulate(struct star_table *table, const uint64_t *keys, uint32_t count,
						const void *gradients, uint64_t tag)
{
	struct star_op op = star_op_push(table, keys, count, gradients);

	op.flags = STAR_ACCUMULATE;
	op.tag = tag;
	return op;
}

static inline struct star_op star_op_push_pull(struct star_table *table, const uint64_t *keys, uint32_t count,
					       const void *gradients, void *results)
{
	struct star_op op = star_op_push(table, keys, count, gradients);

	op.kind = STAR_PUSH_PULL;
	op.results = results;
	return op;
}

static inline struct star_op star_op_delete(struct star_table *table, const uint64_t *keys, uint32_t count)
{
	return star_op_of(STAR_DELETE, table, keys, count);
}

static inline struct star_op star_op_assign(struct star_table *table, const uint64_t *keys, uint32_t count,
					    const void *values)
{
	struct star_op op = star_op_push(table, keys, count, values);

	op.kind = STAR_ASSIGN;
	return op;
}

/* Applies the sums with that tag; with the flag STAR_OPEN opens them. */
static inline struct star_op star_op_commit(struct star_table *table, uint64_t tag)
{
	struct star_op op = star_op_of(STAR_COMMIT, table, NULL, 0);

	op.tag = tag;
	return op;
}

static inline struct star_op star_op_run(const struct star_run *run)
{
	struct star_op op = star_op_of(STAR_RUN, NULL, NULL, 0);

	op.run = run;
	return op;
}

/*
 * Asks the cluster for a checkpoint of all nodes (checkpoint.directory), and waits until it counts; training may go on
 * meanwhile. kind: "full", or NULL for what fits: a delta where that is possible. 0, or: -EINVAL: another kind, or no
 * directory is configured; -EBUSY: one is being written; -EIO: it was not written, and why; -ESTALE: PS task 0 was
 * restarted meanwhile; -ETIMEDOUT: it is still being written.
 */
STAR_API int star_checkpoint(struct star_cluster *cluster, const char *kind, uint64_t deadline_us,
			     struct star_error *err);

/*
 * The same, and as many full checkpoints are kept from now on, those before included; never fewer than checkpoint.keep,
 * and until PS task 0 ends. 0: as many as it keeps anyway. -EINVAL: more than checkpoint.keep_max.
 */
STAR_API int star_checkpoint_keep(struct star_cluster *cluster, const char *kind, uint32_t keep, uint64_t deadline_us,
				  struct star_error *err);

/*
 * Work queues, after DeepRec's WorkQueue: the slices of a job's examples, which PS task 0 hands out one after the other
 * to whichever worker asks, through all epochs. What a slice is, the workers know: its number in its epoch says it. A
 * slice is a worker's for a lease, which libstar renews as long as the process runs. When it ends before the slice is
 * done, the slice goes to another worker. So a worker that comes later gets its share, each slice is done at least
 * once, and without failures exactly once an epoch. Of several epochs the next begins while the last slices of the one
 * before are at work. Checkpoints have the queues as they were when the checkpoint began: what is done there is in the
 * parameters.
 */
enum { STAR_QUEUE_NAME_MAX = 64, STAR_QUEUE_SLICES_MAX = 1 << 24 };

struct star_queue;

struct star_queue_spec {
	const char *name;
	const char *text;     /* what its slices are, for people: up to 255 bytes; NULL: nothing is said */
	uint64_t digest;      /* the same in a number: a worker with another one is refused */
	uint64_t slices;      /* of an epoch */
	uint32_t epochs;      /* [1] */
	uint64_t lease_us;    /* how long a worker that is not heard of keeps its slices [10 s] */
	uint64_t deadline_us; /* of each question to PS task 0 [STAR_DEADLINE_DEFAULT_US] */
};

/*
 * Makes the queue, or finds it; more epochs than it has are added. NULL with err: -EEXIST (it has other slices, or is
 * of more epochs), -ENOSPC (there are 64), -EINVAL, or as above. Close it before the cluster.
 */
STAR_API struct star_queue *star_queue_open(struct star_cluster *cluster, const struct star_queue_spec *spec,
					    struct star_error *err);

struct star_slice {
	uint64_t number; /* in its epoch, from 0 */
	uint32_t epoch;	 /* from 0 */
	uint64_t handle; /* libstar's */
};

/*
 * The next slice: 1; 0: all is done. -EAGAIN: for wait_us (an hour at most) others had the last slices, and one may
 * come back: ask again; or as above. A worker finishes its own slices before it waits for more: others may be waiting
 * for those. A queue that is gone, since PS task 0 was restarted without a checkpoint of it, begins again.
 */
STAR_API int star_queue_take(struct star_queue *queue, struct star_slice *slice, uint64_t wait_us,
			     struct star_error *err);

/* All that the slice has was pushed: PS task 0 is told soon, with the next take or close at the latest. Does not wait.
 * 0; -ESTALE: its lease had ended, and another worker does it. */
STAR_API int star_queue_done(struct star_queue *queue, const struct star_slice *slice);

/* How many of its slices went to others. */
STAR_API uint64_t star_queue_lost(struct star_queue *queue);

/* Slices that are not done go to other workers at once. Errors are those of telling that; all is freed in any case.
 * NULL is allowed. */
STAR_API int star_queue_close(struct star_queue *queue, struct star_error *err);

/*
 * Executes 1 to STAR_OPS_MAX operations as one call: one round trip to each reactor concerned, in parallel. Each
 * reactor executes them in their order, so that of a key that several operations name a pull sees the pushes that
 * stand before it; two operations may be on the same table, and write to memory that must not overlap. The ops are not
 * changed. 0, or as above: -EINVAL, also of a single operation, before anything was sent (the message has its number,
 * from 0); -E2BIG: more operations, or gradients of one key that fit into no request (docs/libstar.rst). Of several
 * errors of a call it is the one that came first; of the other operations it is unknown what became of them.
 */
STAR_API int star_execute(struct star_cluster *cluster, struct star_op *ops, uint32_t ops_count, uint64_t deadline_us,
			  struct star_error *err);

/*
 * The same without waiting, from callbacks, too. done (may be NULL) is called once, with 0 or a negative errno; err is
 * valid during the call. Returns NULL with err when nothing was started: then done is not called. Each request must be
 * given to star_request_wait, once, which waits, returns the outcome as star_execute would, and frees it; it may be
 * called before or after done, but not in a callback (-EDEADLK, and the request is still there). The ops array is
 * copied; keys, versions and what values, results and view point at must stay until then.
 */
typedef void star_done(void *arg, int status, const struct star_error *err);
STAR_API struct star_request *star_execute_async(struct star_cluster *cluster, const struct star_op *ops,
						 uint32_t ops_count, uint64_t deadline_us, star_done *done, void *arg,
						 struct star_error *err);
STAR_API int star_request_wait(struct star_request *request, struct star_error *err);

/*
 * For programs that must react to signals while a thread of theirs waits, as Python does to Ctrl-C. In star_execute
 * over kernel TCP the calling thread calls `interrupted` every 20 ms; when it returns nonzero the call ends with
 * -EINTR, as it does at its deadline. Each thread has its own; NULL, as at the beginning: none. It must not call
 * libstar.
 */
typedef int star_interrupted(void *arg);
STAR_API void star_set_interrupted(star_interrupted *interrupted, void *arg);

/*
 * One operation, with values of the stored type: count rows of star_bytes(table, NULL) bytes each (of a variable with
 * keys, rows of its first dimension), or of a whole variable star_bytes(variable, NULL) bytes. A table needs at least
 * one key; NULL and 0 stand for all of a variable. flags of a pull: STAR_READ_ONLY or 0; a push has none. Of a key
 * that is given several times a pull writes the row as often, and a push sums the gradients and applies them once.
 * Errors are those of star_execute; what a failed pull has written to values is undefined.
 */
STAR_API int star_pull(struct star_table *table, const uint64_t *keys, uint32_t count, void *values, uint32_t flags,
		       uint64_t deadline_us, struct star_error *err);
STAR_API int star_push(struct star_table *table, const uint64_t *keys, uint32_t count, const void *gradients,
		       uint64_t deadline_us, struct star_error *err);
STAR_API int star_variable_pull(struct star_table *variable, void *values, uint64_t deadline_us,
				struct star_error *err);
STAR_API int star_variable_push(struct star_table *variable, const void *gradients, uint64_t deadline_us,
				struct star_error *err);

/*
 * Pulled rows where they lie: over DPDK in the packet buffers that they came in, so that nothing is copied; over TCP,
 * and beyond three eighths of the worker's packet buffers (memory.mbufs) in all views together, in memory of the view's
 * own. The rows, in the keys' order and without gaps, are one sequence of bytes, cut into parts: a part begins and ends
 * anywhere, also inside of a row or of an element, with any alignment. Made for rows of a kilobyte and more, which are
 * read once.
 *
 * A view is used by one thread at a time, any one. It holds packet buffers until it is released. Release it soon, since
 * large replies need them; any thread may do so, a callback too, also after star_close. The memory may not be written,
 * nor read after the release.
 */
struct star_view_part {
	uint64_t offset;  /* of its first byte in the sequence: row i of a table begins at i * star_bytes(table) */
	const void *data; /* valid until the release */
	uint64_t bytes;
};

/* As star_pull, with its flags, repeated keys and errors; the view has star_bytes bytes for each key, in their order.
 * *view is NULL if it fails. */
STAR_API int star_pull_view(struct star_table *table, const uint64_t *keys, uint32_t count, uint32_t flags,
			    uint64_t deadline_us, struct star_view **view, struct star_error *err);

/* *parts is set to the parts, in order and without gaps, after the call has succeeded; returns how many, at least 1, or
 * 0 when there is no memory to list them. The list, as what it points at, is valid until the release. */
STAR_API uint32_t star_view_parts(struct star_view *view, const struct star_view_part **parts);

/* Copies so many bytes from offset on: a row that is cut, in one piece. `to` has room for them, with any alignment. 0,
 * -EINVAL (beyond the end: nothing was copied) or -ENOMEM. */
STAR_API int star_view_copy(struct star_view *view, uint64_t offset, uint64_t bytes, void *to);

/* Gives the packet buffers back, and frees it. NULL is allowed. */
STAR_API void star_view_release(struct star_view *view);

/*
 * The L2 norm of the gradients of all push operations together, those of one id summed first and each with its
 * operation's scale, into *norm (which may be NULL); and, if it is above max_norm, the operations' scales multiplied by
 * max_norm / norm, with STAR_SCALE: clipping by the whole gradient's norm, before star_execute. The push operations
 * must have float32 values; others are left alone, and so are all when the norm is not finite. Allocates for operations
 * with keys. max_norm is finite and above 0. 0; -EINVAL: as star_execute would refuse an operation, or max_norm;
 * -ENOMEM. After an error no operation has changed.
 */
STAR_API int star_clip_global_norm(struct star_op *ops, uint32_t ops_count, float max_norm, double *norm,
				   struct star_error *err);

#ifdef __cplusplus
}
#endif
#endif
