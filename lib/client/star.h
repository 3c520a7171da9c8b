/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libstar: the worker's side of StarServer. A worker opens a cluster by the control addresses of its PS tasks, creates
 * or looks up tables and variables, pulls rows and pushes gradients.
 *
 * Threads: every call may be made from any thread, except that star_close must be the last one. Completion callbacks
 * run on one of libstar's I/O threads and must not block. Blocking calls (those without _async, and star_request_wait)
 * fail there with -EDEADLK.
 *
 * Order: first in, first out for each pair of (cluster handle, reactor). A pull that is started after a push sees the
 * push.
 *
 * Time: each call has a deadline in microseconds from now. 0 means STAR_DEADLINE_DEFAULT_US; more than a year counts as
 * a year. When the deadline passes, the call fails with -ETIMEDOUT. Nothing waits for ever.
 *
 * Keys: any 64-bit values, in any order, repeated or not. Of a repeated key, a pull returns the row each time; a push
 * sums the gradients and applies the sum once; an assign keeps the last values; a delete ignores rows that are gone.
 *
 * Errors are negative errno values. err, which may be NULL, then has the same code and a message that names the node;
 * after a success its message is empty. Any call may fail with these codes; what else a call returns stands with it:
 *   -EINVAL                  an argument is invalid (NULL, sizes, types, flags): nothing was sent, or the node refused
 *                            it and applied nothing
 *   -ENOENT                  there is no such table or variable, or it was dropped
 *   -EEXIST                  it exists with another definition
 *   -EDOM                    a gradient has NaN or infinities, which its table refuses: the requests of the call
 *                            that have such ones changed no value, the others (to other reactors) may be applied
 *   -EALREADY                the sums with that tag are closed, or not open yet (STAR_ACCUMULATE)
 *   -ENODATA, -ENOBUFS       what a program kept on a node is gone, or there is no room for it (star_program.h): repeat
 *                            the step
 *   -E2BIG                   over a limit of the protocol
 *   -ENOSPC                  the parameter memory of a node is full
 *   -ETIMEDOUT               the deadline passed
 *   -ECONNREFUSED, -ECONNRESET, -EHOSTUNREACH
 *                            the node cannot be reached, or was lost during the call and did not come back
 *   -ESTALE                  a node was restarted and has lost its state: close the cluster and open it again
 *   -EBUSY                   a node refused requests until the deadline because it is overloaded; the message says why
 *   -EDQUOT                  a quota of the key's principal was exhausted until the deadline; the message says which
 *   -EREMOTEIO               a push was applied, but its results are lost (STAR_AT_ONCE)
 *   -EPROTO, -EBADMSG        a node violated the protocol, or a checksum does not match; its connection was closed
 *   -ECANCELED               the cluster is being closed
 *   -EDEADLK                 a blocking call was made in a callback
 *   -EACCES                  the control plane requires a key, or rejects this one
 *   -EPERM                   others may read the key file, or its role does not permit the call
 *   -EINTR                   the thread's star_interrupted asked for it
 *   -ENOMEM                  this process is out of memory
 * and with others that come from connecting. After a failed push or assign it is unknown which of its rows were applied
 * (a row is never applied by half), except after -EINVAL, when none was.
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
struct star_view;    /* pulled rows, in the buffers that they arrived in */
struct star_run;     /* a program and the inputs of one run of it: star_program.h */

#define STAR_DEADLINE_DEFAULT_US UINT64_C(30000000)

enum { STAR_OPS_MAX = 4096 }; /* operations per call */

/*
 * Opens a cluster. Waits until every PS task has joined the layout. ps:
 *   "tcp:host:port,host:port,..." (the prefix is optional): the control addresses of the PS tasks, in task order. For
 *     a task that is a pair of nodes give both, as in "host:port|host:port". I/O threads, polling and pinning come from
 *     the environment (NETWORK_WORKER_CORE_NUMBER, WORKER_ENABLE_POLLING, WORKER_DISABLE_PIN_CORES,
 *     NETWORK_MAX_CONNECTION_TIMEOUT).
 *   "dpdk:FILE": a worker's configuration file (docs/libstar.rst) with those addresses and the worker's own network
 *     port.
 * If the cluster's control plane has keys (docs/security.rst), the environment variable STAR_KEY names the worker's key
 * file. The file is read for each request to the control plane, and all traffic to the control plane is then encrypted.
 * If the data network requires tickets, libstar gets them with that key.
 *
 * NULL with err: -EINVAL (an address, the file, or a variable of the environment), -E2BIG (more than 1024 PS tasks),
 * -ETIMEDOUT (not all have joined), -ENOENT or -EPROTO ("dpdk:" without libstar-dpdk.so, or with that of another
 * release), or as above. ps is copied.
 */
STAR_API struct star_cluster *star_open(const char *ps, uint64_t deadline_us, struct star_error *err);

/*
 * Waits until every push that was answered is durable. It matters with `retained` durability (docs/availability.rst),
 * where nodes answer pushes before they are durable, and this process keeps them until they are. With any other
 * durability it returns at once. 0; -ETIMEDOUT: some are not durable yet; -EREMOTEIO: some are lost, which is reported
 * once. Not from a callback.
 */
STAR_API int star_settle(struct star_cluster *cluster, uint64_t deadline_us, struct star_error *err);

/*
 * Waits as star_settle does, but for a few seconds at most; then fails all calls in flight with -ECANCELED (callbacks
 * still run), and frees the cluster, its tables, and the requests that were not waited for. To know whether everything
 * is durable, call star_settle first. NULL is allowed. Not from a callback.
 */
STAR_API void star_close(struct star_cluster *cluster);

/* The number of reactors of all PS tasks, by the layout that libstar knows now: the rows of a table are spread over
 * this many. Does not wait. */
STAR_API uint32_t star_reactors(const struct star_cluster *cluster);

/* The definition of a table or variable. Zero in a field means the default in brackets. */
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
 * Creates a table (or variable), or finds it if it exists with the same definition. Any number of workers may do so at
 * the same time. A worker that repeats the call gets the same handle. The handle lives as long as the cluster; spec is
 * copied. NULL with err: -EEXIST (it exists with another definition; the message says what differs), -EINVAL (the
 * definition is invalid; the message says why), -ENOSPC (there are too many objects), or as above.
 */
STAR_API struct star_table *star_table_create(struct star_cluster *cluster, const struct star_spec *spec,
					      uint64_t deadline_us, struct star_error *err);
STAR_API struct star_table *star_variable_create(struct star_cluster *cluster, const struct star_spec *spec,
						 uint64_t deadline_us, struct star_error *err);

/* Finds a table or variable by name, as the cluster has it now. NULL with err: -ENOENT (there is none), -EINVAL (the
 * name is not 1 to 127 bytes long), or as above. */
STAR_API struct star_table *star_lookup(struct star_cluster *cluster, const char *name, uint64_t deadline_us,
					struct star_error *err);

/*
 * Deletes all rows of a table or variable on all nodes, with their optimizer state and the counts of its admission
 * filter, and waits until that is done. The handle stays valid, and rows start again from their initial values. Rows
 * that are created meanwhile may be deleted too. Afterwards a checkpoint is requested, if checkpoint.directory is set.
 * -ESTALE: a PS task was restarted meanwhile; -ETIMEDOUT: the nodes are still at it; -EHOSTUNREACH ("cannot be
 * emptied:"): a PS task had been silent for 5 s, and nothing was deleted. If one falls silent later, its outcome is
 * unknown, and the error says which PS tasks empty the table. It may be called again after any failure. 0, or as above.
 */
STAR_API int star_table_empty(struct star_table *table, uint64_t deadline_us, struct star_error *err);

/*
 * Drops a table or variable on all nodes: its rows, their optimizer state, and its sums and programs are removed, their
 * memory is freed, and the name may be created again at once, with any definition. From then on calls with this or
 * another handle of the same table fail with -ENOENT, also those in flight that were not executed before; they never
 * reach a table that is created later under the same name. The handle's memory is freed with the cluster.
 * -EHOSTUNREACH: a PS task had been silent for 5 s, and nothing was dropped. A PS task that falls silent later drops
 * the table when it is back. -ENOENT: the table was dropped before, or by this very call if its reply was lost with the
 * connection. Afterwards a checkpoint is requested, if checkpoint.directory is set. An older checkpoint brings the
 * table back only if the cluster is told to roll back to it. 0, or as above.
 */
STAR_API int star_table_drop(struct star_table *table, uint64_t deadline_us, struct star_error *err);

/*
 * Calls a method of a node's control plane (docs/control.rst lists them) at "host:port". params is the text of a JSON
 * object, or NULL; a repeated member is refused. Returns JSON text of any length, which the caller frees with free().
 * NULL with err: -EINVAL (params is not a JSON object), one of the codes above, or the node's own, as the page says for
 * each method. Needs no cluster. If STAR_KEY is set, the call uses TLS with the key in that file.
 */
STAR_API char *star_ask(const char *address, const char *method, const char *params, uint64_t deadline_us,
			struct star_error *err);

/*
 * The row key of a text in a column of examples, as startrain and libstartrain's readers compute it from their files
 * (docs/training.rst, "Rows by their names"): a hash of both, so that all columns may share a table. Columns count from
 * 0, in the file's order. The hash will never change, and is below 2^63. text is zero-terminated, of any length, and
 * must not be NULL.
 */
STAR_API uint64_t star_key(uint32_t column, const char *text);

/* Elements of a table's row, or of a whole variable; 0 for NULL. */
STAR_API uint64_t star_elements(const struct star_table *table);

/* A variable's blocks: the number of versions in a pull of all of it; programs use block numbers as keys. 0 for a table
 * and for NULL. */
STAR_API uint64_t star_blocks(const struct star_table *table);

/* The buffer size in bytes for a row (or a whole variable) with elements of dtype; NULL means the stored type. 0 for an
 * unknown type, and for a table of NULL. A scaled_int8 row is a float32 scale and its int8s, zero-padded to a multiple
 * of 4 bytes; a scaled_int8 variable has one such row per block. */
STAR_API uint64_t star_bytes(const struct star_table *table, const char *dtype);

enum star_flags {
	/* pull: do not create rows, and do not count the access; a missing row reads as its initial value */
	STAR_READ_ONLY = 1 << 0,
	/* push: do not apply the gradients, but add them, row by row, to the sums with that tag, which a commit
	 * applies. These must be open, else -EALREADY */
	STAR_ACCUMULATE = 1 << 1,
	/* commit: discard what has been summed up, and open sums with that tag, which must not be less than that of
	 * the open ones */
	STAR_OPEN = 1 << 2,
	/* push-pull: return the rows exactly as this push left them. Without the flag they may be newer, if the
	 * connection was lost before the reply arrived; with it, such a call fails with -EREMOTEIO: the push was
	 * applied, but the rows as they were then are unknown */
	STAR_AT_ONCE = 1 << 3,
	/* push, push_pull, commit, run of a program that applies gradients: use `rate`, which may be 0, as the learning
	 * rate. Without the flag the table's own is used, and `rate` must be 0 */
	STAR_RATE = 1 << 4,
	/* the same kinds: multiply each gradient by `scale`, which may be 0. Without the flag gradients are used as
	 * they are, and `scale` must be 0 */
	STAR_SCALE = 1 << 5,
	/* commit that opens sums: count for each row how many pushes add to it, until sums are opened without this
	 * flag. Other commits: divide each row's sum by that number (of a variable: each block's). -EINVAL: the sums
	 * were opened without the flag */
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
 * What it works on. A table: `count` keys (any 64-bit values; duplicates are allowed). A variable: all of it, with
 * count 0 and keys NULL; or, with keys, those rows of its first dimension, if each row consists of whole blocks, or
 * each block of whole rows. Blocks are always pushed as a whole: other rows of the same block get gradients of 0. Most
 * optimizers leave such rows unchanged; momentum, Adam and the like change them (docs/libstar.rst).
 *
 * PULL        writes `count` rows to values, in the order of the keys: one for each key, repeated keys included.
 * PUSH        reads `count` gradients from values. The gradients of a repeated key are summed first, and applied once.
 * PUSH_PULL   reads gradients from values, and writes the rows as they are after the push to results.
 * ASSIGN      sets rows to new values, of any type, with or without an optimizer, whose slots do not change. The last
 *             values of a repeated key count. It is sent, retried and counted like a push. Rows of a variable must be
 *             whole blocks.
 * DELETE      removes rows of a table; values is NULL.
 * COMMIT      applies the sums with `tag` on all reactors, by the optimizer, once per row (for a mean of n pushes, set
 *             scale to 1 / n), and opens those with tag + 1; no keys, values NULL. This makes one update of the
 *             gradients that many workers pushed for one step with STAR_ACCUMULATE. Any worker may repeat a commit: it
 *             is executed once. -EALREADY: other sums are open; the ones named were discarded, or never opened. Nodes
 *             hold sums in memory: a restart loses them, and checkpoints do not contain them. Not for optimizer lamb,
 *             nor with clip_global_norm.
 * RUN         runs a program: star_program.h.
 *
 * Layout of values and results: rows of star_bytes(table, dtype) bytes each, without gaps. For a variable without keys:
 * all its elements, in row-major order, star_bytes(variable, dtype) bytes in all; with keys: its rows in the same way.
 * They must be aligned for elements of dtype (scaled_int8: to 4 bytes), keys and versions for theirs. What a failed
 * pull has written is undefined. -EINVAL: values is NULL although it is needed, or set although it is not; or dtype is
 * unknown, or cannot be converted from or to the stored type. The memory must not change until the call has completed.
 *
 * Fields that a kind does not use must be 0. The constructors below (star_op_pull and so on) set what each kind needs;
 * the caller adds flags, step, dtype and the like.
 */
struct star_op {
	enum star_op_kind kind;
	uint32_t flags;
	struct star_table *table;
	const uint64_t *keys;
	uint32_t count;
	float rate; /* STAR_RATE */
	void *values;
	/* the training step, from 1, of the job or of the worker, whichever the caller counts; 0: not counted */
	uint64_t step;
	const char *dtype; /* of values: NULL for the stored type */
	void *results;	   /* push_pull: as values, of the same type */
	/* pull of a table with versions=1, or of all of a variable: count (star_blocks) versions. Only rows (blocks)
	 * whose version differs are written, and their new versions are stored here: start with zeros. NULL: all
	 * rows. */
	uint32_t *versions;
	float scale; /* STAR_SCALE */
	/* pull without versions: values is NULL. The call that starts the operation sets *view, which must be NULL
	 * before, to a view of the rows. It may be read once the call has succeeded, and must be released when the call
	 * has completed, even if it failed. */
	struct star_view **view;
	/* run: all other fields but rate, scale, their flags, and step are 0. It is copied with its arrays; what these
	 * point at is not. */
	const struct star_run *run;
	uint64_t tag; /* of sums, from 1: commit, and push with STAR_ACCUMULATE; else 0 */
};

/* Constructors: an operation of each kind with its required fields. keys NULL and count 0: all of a variable. Nothing
 * is checked here. */
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

	op.values = (void *)(uintptr_t)gradients; /* a push only reads them */
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

/* Applies the sums with that tag; with the flag STAR_OPEN it opens them instead. */
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
 * Requests a checkpoint of all nodes (checkpoint.directory), and waits until it is complete; training may continue
 * meanwhile. kind: "full", or NULL for a delta if that is possible, else a full one. 0, or: -EINVAL: another kind, or
 * no directory is configured; -EBUSY: a checkpoint is being written already; -EIO: it could not be written, and the
 * message says why; -ESTALE: PS task 0 was restarted meanwhile; -ETIMEDOUT: it is still being written.
 */
STAR_API int star_checkpoint(struct star_cluster *cluster, const char *kind, uint64_t deadline_us,
			     struct star_error *err);

/*
 * The same, and from now on, until PS task 0 ends, `keep` full checkpoints are kept, earlier ones included, but never
 * fewer than checkpoint.keep. keep 0: checkpoint.keep alone counts. -EINVAL: more than checkpoint.keep_max.
 */
STAR_API int star_checkpoint_keep(struct star_cluster *cluster, const char *kind, uint32_t keep, uint64_t deadline_us,
				  struct star_error *err);

/*
 * Work queues, after DeepRec's WorkQueue. A queue has the slices of a job's examples; PS task 0 assigns them, one after
 * the other and through all epochs, to whichever worker asks. A slice is a number in an epoch; what the number means,
 * the workers know. A worker holds a slice for a lease, which libstar renews as long as the process runs. If the lease
 * ends before the slice is done, another worker gets the slice. So late workers get their share; each slice is done at
 * least once, and without failures exactly once per epoch. An epoch begins while the last slices of the one before are
 * still in progress. A checkpoint contains the queues as they were when it began: slices that are done there are in its
 * parameters.
 */
enum { STAR_QUEUE_NAME_MAX = 64, STAR_QUEUE_SLICES_MAX = 1 << 24 };

struct star_queue;

struct star_queue_spec {
	const char *name;
	const char *text;     /* describes the slices, for people: up to 255 bytes, or NULL */
	uint64_t digest;      /* identifies the same description: a worker with another digest is refused */
	uint64_t slices;      /* per epoch */
	uint32_t epochs;      /* [1] */
	uint64_t lease_us;    /* how long a silent worker keeps its slices [10 s] */
	uint64_t deadline_us; /* of each call to PS task 0 [STAR_DEADLINE_DEFAULT_US] */
};

/*
 * Creates the queue, or finds it; if spec has more epochs than the queue, they are added. NULL with err: -EEXIST (it
 * has other slices, or more epochs), -ENOSPC (there are 64 queues already), -EINVAL, or as above. Close it before the
 * cluster.
 */
STAR_API struct star_queue *star_queue_open(struct star_cluster *cluster, const struct star_queue_spec *spec,
					    struct star_error *err);

struct star_slice {
	uint64_t number; /* in its epoch, from 0 */
	uint32_t epoch;	 /* from 0 */
	uint64_t handle; /* libstar's */
};

/*
 * Takes the next slice. 1: *slice is set; 0: all slices are done; -EAGAIN: for wait_us (an hour at most) other workers
 * held the last slices, and one may become free: call again; or as above. Finish your own slices before you wait for
 * more: others may be waiting for those. A queue that is gone, since PS task 0 was restarted without a checkpoint of
 * it, starts from the beginning.
 */
STAR_API int star_queue_take(struct star_queue *queue, struct star_slice *slice, uint64_t wait_us,
			     struct star_error *err);

/* Call it when everything that the slice produced was pushed. PS task 0 learns of it soon, with the next take or close
 * at the latest. Does not wait. 0; -ESTALE: the lease had ended, and another worker gets the slice. */
STAR_API int star_queue_done(struct star_queue *queue, const struct star_slice *slice);

/* How many slices this worker lost to others, because their leases ended. */
STAR_API uint64_t star_queue_lost(struct star_queue *queue);

/* Returns unfinished slices, which other workers get at once, and frees the queue, even when PS task 0 could not be
 * told; then it returns that error. NULL is allowed. */
STAR_API int star_queue_close(struct star_queue *queue, struct star_error *err);

/*
 * Executes 1 to STAR_OPS_MAX operations as one call: one round trip to each reactor concerned, in parallel. Each
 * reactor executes them in order, so a pull of a key sees the pushes to it that precede it in ops. Several operations
 * may use the same table; the memory that they write to must not overlap. The ops are not changed. 0, or as above:
 * -EINVAL: a single operation is invalid, and nothing was sent (the message has its number, from 0); -E2BIG: too many
 * operations, or the gradients of one key do not fit into a request (docs/libstar.rst). If several errors occur, the
 * first is returned, and the outcome of the other operations is unknown.
 */
STAR_API int star_execute(struct star_cluster *cluster, struct star_op *ops, uint32_t ops_count, uint64_t deadline_us,
			  struct star_error *err);

/*
 * The same without waiting; callbacks may call it too. done (may be NULL) is called once, with 0 or a negative errno;
 * its err is valid during the callback. Returns NULL with err if nothing was started: then done is not called. Each
 * request must be passed to star_request_wait once, which waits, returns the result as star_execute would, and frees
 * the request. That may be before or after done, but not in a callback (-EDEADLK, and the request remains valid). The
 * ops array is copied; keys, versions and what values, results and view point at must stay valid until then.
 */
typedef void star_done(void *arg, int status, const struct star_error *err);
STAR_API struct star_request *star_execute_async(struct star_cluster *cluster, const struct star_op *ops,
						 uint32_t ops_count, uint64_t deadline_us, star_done *done, void *arg,
						 struct star_error *err);
STAR_API int star_request_wait(struct star_request *request, struct star_error *err);

/*
 * For programs that must react to signals while a thread waits, as Python does to Ctrl-C. In star_execute over kernel
 * TCP the calling thread calls `interrupted` every 20 ms. If that returns nonzero, the call ends with -EINTR, as it
 * would at its deadline. The setting is per thread; NULL, the initial value, means none. `interrupted` must not call
 * libstar.
 */
typedef int star_interrupted(void *arg);
STAR_API void star_set_interrupted(star_interrupted *interrupted, void *arg);

/*
 * One operation, with values of the stored type: count rows of star_bytes(table, NULL) bytes each (for a variable with
 * keys, rows of its first dimension), or for a whole variable star_bytes(variable, NULL) bytes. A table needs at least
 * one key; keys NULL and count 0 mean all of a variable. flags of a pull: STAR_READ_ONLY or 0; a push has none. A pull
 * writes the row of a repeated key each time; a push sums its gradients and applies them once. Errors are those of
 * star_execute; what a failed pull has written to values is undefined.
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
 * Views: pulled rows without a copy. Over DPDK a view points into the packet buffers that the rows arrived in. Over
 * TCP, and when all views together hold three eighths of the worker's packet buffers (memory.mbufs), the view has
 * memory of its own. The rows, in the order of the keys and without gaps, are one sequence of bytes, in several parts.
 * A part begins and ends anywhere, even inside a row or an element, with any alignment. Views are meant for rows of a
 * kilobyte or more that are read once.
 *
 * Only one thread at a time, but any thread, may use a view. It holds packet buffers until it is released. Release it
 * soon, since large replies need them. Any thread may release it, in a callback too, and after star_close. Never write
 * to the memory, nor read it after the release.
 */
struct star_view_part {
	uint64_t offset;  /* of its first byte in the sequence: row i of a table begins at i * star_bytes(table) */
	const void *data; /* valid until the release */
	uint64_t bytes;
};

/* Like star_pull, with the same flags, repeated keys and errors; the view has star_bytes bytes for each key, in order.
 * *view is NULL if it fails. */
STAR_API int star_pull_view(struct star_table *table, const uint64_t *keys, uint32_t count, uint32_t flags,
			    uint64_t deadline_us, struct star_view **view, struct star_error *err);

/* Sets *parts to the parts, in order and without gaps, once the pull has succeeded; returns their number, at least 1,
 * or 0 if there is no memory for the list. The list and what it points at are valid until the release. */
STAR_API uint32_t star_view_parts(struct star_view *view, const struct star_view_part **parts);

/* Copies `bytes` bytes from offset on, as for a row that is split over parts. `to` has room for them, with any
 * alignment. 0, -EINVAL (beyond the end: nothing was copied) or -ENOMEM. */
STAR_API int star_view_copy(struct star_view *view, uint64_t offset, uint64_t bytes, void *to);

/* Releases the packet buffers, and frees the view. NULL is allowed. */
STAR_API void star_view_release(struct star_view *view);

/*
 * Clips gradients by their global norm; call it before star_execute. Stores the L2 norm of the gradients of all push
 * operations together in *norm (which may be NULL). Gradients of one key are summed first, each with its operation's
 * scale. If the norm is above max_norm, the operations' scales are multiplied by max_norm / norm, and STAR_SCALE is
 * set. Pushes must have float32 values; other operations do not change, and none does if the norm is not finite.
 * max_norm is finite and above 0. Allocates memory for operations with keys. 0; -EINVAL: max_norm, or an operation that
 * star_execute would refuse; -ENOMEM. After an error no operation has changed.
 */
STAR_API int star_clip_global_norm(struct star_op *ops, uint32_t ops_count, float max_norm, double *norm,
				   struct star_error *err);

#ifdef __cplusplus
}
#endif
#endif
