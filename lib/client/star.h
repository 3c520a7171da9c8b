/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libstar: the worker's side of StarServer. A worker opens a cluster by the control addresses of its PS tasks, creates or
 * looks up tables and variables, pulls rows and pushes gradients.
 *
 * Threads: every call may be made from any thread, except that star_close must be the last one. Completion callbacks run
 * on one of libstar's I/O threads and must not block; calls that wait (those without _async, star_request_wait) are
 * refused there with -EDEADLK.
 *
 * Order: first in, first out for each pair of (cluster handle, reactor): a pull that is started after a push sees the push.
 *
 * Time: each call has a deadline in microseconds from now; 0 means STAR_DEADLINE_DEFAULT_US. When it passes, the call
 * fails with -ETIMEDOUT; nothing waits for ever. Errors are negative errno values, with a sentence that names the node:
 *   -EINVAL     the call makes no sense (sizes, types, zero keys); nothing was sent
 *   -ENOENT     no such table or variable        -EEXIST      it exists with another definition
 *   -E2BIG      over a limit of the protocol     -ENOSPC      the parameter memory of a node is full
 *   -ETIMEDOUT  the deadline passed              -ECONNREFUSED, -ECONNRESET, -EHOSTUNREACH  the node cannot be reached,
 *   -ESTALE     a node was restarted and has lost what it held       or was lost while the call was in flight
 *   -EBUSY      a node has no buffers for the request: try again later
 *   -EPROTO, -EBADMSG  a node does not keep to the protocol, or a checksum does not match; its connection was closed
 *   -ECANCELED  the cluster is being closed         -EDEADLK     a callback must not wait
 *   -ENOMEM     this process is out of memory; other negative errno values come from connecting
 * After a failed push it is unknown which of its rows were applied (never half a row), except for -EINVAL.
 */
#ifndef STAR_H
#define STAR_H

#include <stdint.h>

#include "star_error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct star_cluster;
struct star_table;   /* a table or a variable of an open cluster */
struct star_request; /* an asynchronous call in flight */

#define STAR_DEADLINE_DEFAULT_US UINT64_C(30000000)

enum { STAR_OPS_MAX = 4096 }; /* operations of one call */

/*
 * Opens a cluster. ps: "tcp:host:port,host:port,..." (the prefix may be left out): the control addresses of the PS tasks in
 * task order. Waits until every PS task has joined the layout. I/O threads, polling and pinning come from the environment
 * (NETWORK_WORKER_CORE_NUMBER, WORKER_ENABLE_POLLING, WORKER_DISABLE_PIN_CORES, NETWORK_MAX_CONNECTION_TIMEOUT).
 */
STAR_API struct star_cluster *star_open(const char *ps, uint64_t deadline_us, struct star_error *err);

/*
 * Fails what is in flight with -ECANCELED (callbacks still run), then frees the cluster, its tables, and the requests that
 * were not waited for. NULL is allowed. Not from a callback.
 */
STAR_API void star_close(struct star_cluster *cluster);

/* What a table or variable is. Zero in a field means the default in brackets. */
struct star_spec {
	const char *name;	   /* 1 to 127 bytes, no control characters */
	const char *dtype;	   /* "float32" [float32] */
	uint32_t dim;		   /* tables: elements of a row, 1 to 4096 */
	uint32_t ndim;		   /* variables: dimensions, 1 to 8 */
	const uint64_t *shape;	   /* variables: ndim sizes */
	const char *initializer;   /* "zeros", "constant", "uniform", "normal" [zeros] */
	float scale;		   /* constant: the value; uniform: [-scale, scale); normal: standard deviation */
	uint64_t seed;		   /* of the initializer */
	const char *optimizer;	   /* "sgd", "adagrad" [sgd] */
	float rate;		   /* learning rate [0.01] */
	float epsilon;		   /* adagrad [1e-10] */
	float initial_accumulator; /* adagrad: the accumulator's first value [0] */
};

/*
 * Creates a table (or variable), or finds it when it exists with the same definition: any number of workers may do so at
 * the same moment. NULL with -EEXIST when it exists with another one. The handle lives as long as the cluster.
 */
STAR_API struct star_table *star_table_create(struct star_cluster *cluster, const struct star_spec *spec,
					      uint64_t deadline_us, struct star_error *err);
STAR_API struct star_table *star_variable_create(struct star_cluster *cluster, const struct star_spec *spec,
						 uint64_t deadline_us, struct star_error *err);

/* Finds a table or variable by name; NULL with -ENOENT. */
STAR_API struct star_table *star_lookup(struct star_cluster *cluster, const char *name, uint64_t deadline_us,
					struct star_error *err);

/* Elements of a table's row, or of a whole variable. */
STAR_API uint64_t star_elements(const struct star_table *table);

enum star_flags {
	STAR_READ_ONLY = 1 << 0, /* pull: create nothing; a row that is not there reads as its initial value */
};

enum star_op_kind { STAR_PULL = 1, STAR_PUSH = 2 };

/*
 * One operation: on a table with count keys (any 64-bit values; duplicates are allowed: a pull returns the row for each, a
 * push sums their gradients before it applies them), on a variable with count 0 and keys NULL: the whole of it.
 * values: pull: count rows of dim elements are written there, in the keys' order; push: as many gradients are read.
 * The memory must stay as it is until the call has completed.
 */
struct star_op {
	enum star_op_kind kind;
	uint32_t flags;
	struct star_table *table;
	const uint64_t *keys;
	uint32_t count;
	float rate; /* push: learning rate, 0 for the table's own */
	void *values;
	uint64_t step; /* the worker's training step, 0 when it does not count them */
};

/* Executes operations of one call: one round trip to each reactor concerned, in parallel. 0 or a negative errno. */
STAR_API int star_execute(struct star_cluster *cluster, struct star_op *ops, uint32_t ops_count, uint64_t deadline_us,
			  struct star_error *err);

/*
 * The same without waiting. done (may be NULL) is called once, with 0 or a negative errno; err is valid during the call.
 * Returns NULL with err when nothing was started. Each request must be given to star_request_wait, which waits, returns
 * the outcome and frees it; it may be called before or after done. The ops array is copied, keys and values are not.
 */
typedef void star_done(void *arg, int status, const struct star_error *err);
STAR_API struct star_request *star_execute_async(struct star_cluster *cluster, const struct star_op *ops,
						 uint32_t ops_count, uint64_t deadline_us, star_done *done, void *arg,
						 struct star_error *err);
STAR_API int star_request_wait(struct star_request *request, struct star_error *err);

/* One operation. */
STAR_API int star_pull(struct star_table *table, const uint64_t *keys, uint32_t count, void *values, uint32_t flags,
		       uint64_t deadline_us, struct star_error *err);
STAR_API int star_push(struct star_table *table, const uint64_t *keys, uint32_t count, const void *gradients,
		       uint64_t deadline_us, struct star_error *err);
STAR_API int star_variable_pull(struct star_table *variable, void *values, uint64_t deadline_us,
				struct star_error *err);
STAR_API int star_variable_push(struct star_table *variable, const void *gradients, uint64_t deadline_us,
				struct star_error *err);

#ifdef __cplusplus
}
#endif
#endif
