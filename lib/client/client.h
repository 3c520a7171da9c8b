/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The internals of libstar. A call (star_execute, star_execute_async) is split into parts: one request frame each, for
 * one reactor. A channel is the connection to one reactor. A transport sends requests and receives replies; there are
 * two:
 *
 * - TCP (channel.c, connect.c, receive.c, steer.c, waiter.c). A waiter is a thread that serves channels. The top of
 *   waiter.c explains the scheme, and why nothing is lost or written twice.
 * - Datagrams by DPDK: lib/client_dpdk, a shared library of its own that backend.c loads. The waiting thread drives it:
 *   see poller.h there.
 *
 * Lock order: channel, cluster, waiter. No lock is held during a system call that may block, nor during a callback.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/prng.h"
#include "base/wheel.h"
#include "client/small_bytes.h"
#include "client/transport.h"
#include "config/config.h"
#include "jsonrpc/object_json.h"
#include "star.h"
#include "tensor/dtype.h"
#include "wire/frame.h"
#include "wire/object.h"

enum client_limits {
	IN_FLIGHT_MAX = WIRE_IN_FLIGHT_MAX, /* unanswered requests of a channel; a power of two */
	BACKOFF_FIRST_US = 10000,	    /* before the second attempt to connect, to ask for a layout, ... */
	BACKOFF_MAX_US = 1000000,	    /* it doubles up to this */
	IDLE_CHECK_US = 1000,	    /* a channel that was idle for longer is checked before use: is it still open? */
	SILENT_US = 20000000,	    /* a connection that was silent for longer, and on which no call waits, is closed */
	PULL_BYTES = 64 << 10,	    /* of the rows that one request of pulls asks for, over TCP: see split.c */
	DENSE_FEW_BYTES = 65 << 10, /* the same for a gradient smaller than DENSE_LARGE_BYTES */
	DENSE_LARGE_BYTES = 1 << 20,
	DENSE_BYTES = 257 << 10,     /* bytes of a request with a dense push, including its 64 keys: see split.c */
	UNANSWERED_MAX = 4,	     /* connections in a row that are lost with requests waiting, without an answer */
	RECEIVE_BYTES = 16 << 10,    /* a channel's first receive buffer; it grows to the largest reply */
	CALL_BYTES = 1400,	     /* a call's own memory: for a small call's operations and parts */
	CHUNK_BYTES = 4000,	     /* size of each further piece of memory */
	TIMERS_PER_TURN = 256,	     /* deadlines that fire in one turn of an I/O thread; the rest in the next */
	DEADLINE_MAX_S = 365 * 86400 /* longer deadlines are reduced to this */
};

/* One request: which keys of which operations. */
struct slice {
	struct slice *next;
	uint32_t op;	       /* index in the call */
	uint32_t count;	       /* keys */
	const uint32_t *order; /* their positions in the operation; NULL: first, first + 1, ... */
	uint64_t first;
	bool goes_on, more;	 /* the same operation has a slice for the same reactor before this one, and after it */
	struct run_share *share; /* for a run: run.h */
};

enum part_state {
	PART_NEW,    /* not passed to its channel yet */
	PART_QUEUED, /* in the channel's queue, not a byte sent */
	PART_SENT,   /* in the channel's ring; at least partly sent */
	PART_TAKEN,  /* the thread that has set this, under the channel's lock, finishes the part, and no other */
};

struct part {
	TAILQ_ENTRY(part) link; /* the channel's queue; then a list of the thread that took it */
	TAILQ_ENTRY(part) in_call;
	struct call *call;
	struct channel *channel;
	struct slice *slices, *last;
	uint32_t slices_count;
	uint32_t more_pushes; /* of runs, in addition to one for each slice */
	uint32_t keys;
	uint32_t request_bytes, reply_bytes; /* payloads; for the reply its maximum */
	/* additional bytes of the request if its runs carry what was kept (alone) */
	uint32_t alone_more;
	bool alone;
	bool applied; /* its pushes were applied when it was sent before: only its pulls are requested */
	bool pushes, deletes,
		/* has such an operation (a commit counts as a delete); has one that must not be in a request with
		 * pushes */
		apart;
	uint32_t epoch;	       /* of the layout with which it was split */
	uint32_t busy;	       /* number of times that the node had no buffers for it */
	bool again;	       /* in the channel's queue for a second time: before parts that were never sent */
	enum part_state state; /* under the channel's lock */
};
TAILQ_HEAD(parts, part);

/* Rows of a variable that are parts of its blocks: which rows each block of an operation contains. */
struct piece {
	uint32_t position; /* of the row in the caller's memory */
	uint32_t offset;   /* of its first element in the block */
};
struct pieces {
	const uint32_t *first; /* for each block of the operation, and the end: the first of its pieces */
	const struct piece *of;
	uint32_t elements; /* of a row */
	uint32_t bytes;	   /* bytes of a row in the caller's memory */
};

/* An operation as it is sent: rows by keys. What a caller calls a row may be several of them, or a part of one
 * (rows.c). */
struct call_op {
	struct star_table *table;
	const uint64_t *keys;	     /* NULL for a whole variable: key == position */
	const struct pieces *pieces; /* NULL: the row at a position is that of its key */
	const char *gradients;
	char *results;
	uint32_t *versions;
	struct star_view *view; /* NULL: none; its copy is in results */
	struct call_run *run;	/* for a program, which is then its table; otherwise NULL */
	uint64_t count;
	uint64_t step;
	uint64_t tag; /* for sums; 0: none */
	float rate, scale;
	uint32_t row_bytes; /* in a frame */
	/* of a whole variable's last block in the caller's memory; for other rows row_bytes */
	uint32_t last_bytes;
	uint16_t flags; /* enum wire_op_flags */
	uint8_t kind, dtype;
	bool undivided; /* a push that must be one request */
	bool at_once;	/* its pulled rows must not be later than its pushes */
};

static inline uint16_t op_step_flags(const struct star_op *op)
{
	return (uint16_t)((op->flags & STAR_RATE ? WIRE_RATE : 0) | (op->flags & STAR_SCALE ? WIRE_SCALE : 0));
}

/* Assignments are sent like pushes. */
static inline bool op_pushes(const struct call_op *op)
{
	return op->kind == STAR_PUSH || op->kind == STAR_PUSH_PULL || op->kind == STAR_ASSIGN;
}

static inline bool op_pulls(const struct call_op *op)
{
	return op->kind == STAR_PULL || op->kind == STAR_PUSH_PULL;
}

/* More memory of a call, freed with it. */
struct chunk {
	struct chunk *next;
	_Alignas(16) char bytes[];
};

/*
 * The rows of a pull in place. What a transport keeps of a reply is in parts. The rest was copied to its place in
 * `copy`, which is large enough for everything, but only touched there.
 */
struct star_view {
	struct star_view_part *parts; /* in order of arrival; sorted and without gaps once it is complete */
	uint32_t parts_count, parts_size;
	bool complete;
	uint64_t bytes;
	char *copy;
	/* for a transport that keeps something: called by any thread; what is kept, in its own units */
	void (*release)(struct star_view *view);
	void *transport, **kept;
	uint32_t kept_count, kept_size;
	struct star_view *next;
};

struct transport;

enum call_state {
	CALL_RUNS,
	CALL_ASLEEP, /* for datagrams: its thread sleeps on this word until it changes */
	CALL_FINISHED,
};

/* The reusable state of a small call (small.h). */
struct small {
	const struct route *route; /* with which it was split */
	struct part *part;	   /* NULL: the call is not small */
	struct call_op *op;
	uint64_t given_us, deadline_us;	     /* the deadline as it was given, and what it means; 0: nothing yet */
	uint32_t request_bytes, reply_bytes; /* of whole frames */
	bool pushes;
	bool plain; /* it has succeeded, and left everything unchanged */
	uint64_t reply_head, object_count, dim_bytes;
	struct small_head head;
};

/* Owned by its waiter's thread, except for what is under the waiter's lock. */
struct call {
	uint32_t number;	     /* in the pool; constant */
	_Atomic(uint32_t) next_free; /* in a call_stack */
	struct star_cluster *cluster;
	struct waiter *waiter;
	uint64_t start_ns, deadline_ns; /* see call_begin; before it, 0 and the time that it may take */
	struct call_op *ops;
	uint32_t ops_count;
	uint32_t retries; /* because of stale layouts */
	int cancelled;	  /* 0, or why: a negative errno */
	bool runs;	  /* it contains runs of programs */
	bool waits;	  /* its thread waits for it immediately after submitting it */
	struct parts parts;
	struct chunk *chunks;
	char *at, *end; /* remaining memory */
	/* under the waiter's lock; for datagrams the driver's until it is finished */
	struct parts stale;	    /* parts that a node answered with STALE_LAYOUT */
	uint32_t remaining;	    /* number of unfinished parts, plus one while parts are passed to channels */
	_Atomic(uint32_t) finished; /* enum call_state */
	/* of datagrams */
	bool driven;		 /* its thread has the poller's lock, from submit to wait */
	struct call *inbox_next; /* submitted while another thread drives */
	/* asynchronous calls */
	bool async;	    /* an I/O thread finishes it, and has its callback run */
	_Atomic(bool) done; /* the callback has returned */
	star_done *callback;
	void *arg;
	struct wheel_timer timer;
	TAILQ_ENTRY(call) link;	   /* finished or the relay's queue */
	TAILQ_ENTRY(call) running; /* incoming, then the I/O thread's calls in flight */
	struct small small;
	struct star_error error; /* the first one; under the waiter's lock, as above */
	_Alignas(16) char memory[CALL_BYTES];
};
TAILQ_HEAD(calls, call);

enum { POOL_SLABS = 20, POOL_FIRST = 8 };

/* Calls of a pool that nobody uses: the number (from 1) of one, whose next_free is the next one; 0: none. The upper
 * half counts changes, so that a thread that was delayed between reading and exchanging notices them. */
struct call_stack {
	_Atomic(uint64_t) head;
};

/*
 * A cluster's calls. They are allocated a slab at a time, each twice as large as the previous one, are reused, and are
 * freed with the cluster, whether or not they were returned.
 */
struct call_pool {
	_Alignas(64) struct call_stack free;
	_Alignas(64) struct call *slabs[POOL_SLABS];
	uint32_t slabs_count; /* under the cluster's lock */
};

struct waiter {
	struct star_cluster *cluster;
	bool io;
	int event_fd;
	struct waiter *next_free, *next_all; /* under the cluster's lock */

	pthread_mutex_t lock;
	atomic_bool signalled;		 /* written under the lock, like the next */
	atomic_bool news;		 /* inbox, incoming or finished is not empty */
	struct channel *inbox;		 /* under the lock: channels passed to this waiter */
	atomic_bool keeps;		 /* for an I/O thread: some of its channels may keep something (keep.h) */
	struct calls incoming, finished; /* under the lock; I/O threads */
	pthread_cond_t done;		 /* some call's done has become true */
	_Atomic(uint32_t) awaiting;	 /* threads that wait for that */

	/* the thread's own */
	struct channel **kept;
	struct pollfd *polls;
	uint32_t kept_count, kept_size;
	struct calls own_incoming, own_finished; /* as those above, for what the I/O thread did itself */
};

enum channel_state { CHANNEL_CLOSED, CHANNEL_WAITING, CHANNEL_CONNECTING, CHANNEL_OPEN };

/* The last pull of a table with staleness over a channel. */
struct channel_seen {
	const struct object_spec *of; /* NULL: there was none */
	uint64_t version;	      /* 1 + wire_result.version */
};

struct channel {
	/* constant */
	struct star_cluster *cluster;
	struct channel *next_all;
	struct waiter *io; /* serves it for asynchronous calls */
	uint32_t task, reactor, incarnation;
	struct steering *steering; /* NULL: any source port is suitable */
	char label[128];	   /* "PS task 1, reactor 0 (198.18.0.2:7000)" */

	/* protects what follows, up to the next comment; for datagrams only the addresses: the rest is the driver's */
	pthread_mutex_t lock;
	socklen_t address_bytes, other_bytes; /* other: that of the node that may take its place; 0: there is none */
	struct sockaddr_storage address, other;
	uint64_t asked_ns;   /* when an attempt to connect began, or the layout was requested because nothing arrived */
	uint64_t attempt_ns; /* when an attempt is abandoned for the other address */
	enum channel_state state;
	bool retired;  /* the layout no longer names it */
	bool moved;    /* the layout has changed the address since the last attempt to connect began */
	bool answered; /* it has answered since it was connected */
	uint32_t live; /* parts that are queued or sent and not cancelled */
	struct parts queue;
	struct part *ring[IN_FLIGHT_MAX]; /* by sequence; NULL: cancelled, its reply is dropped */
	uint64_t session, first_sequence, next_sequence;
	uint64_t resend;	 /* requests from this one up to next_sequence have to be sent again */
	bool resumed;		 /* the connection continues an earlier one's session */
	uint64_t heard_ns;	 /* when it last answered, was connected, or was first asked after a silence */
	uint64_t pause_until_ns; /* nothing is sent before this time: the node was busy */
	/* a request was refused as BUSY, and not sent again yet: all later ones will be refused too */
	bool refused;
	/* the node's last refusal, if it was busy (wire_status_is_busy), and its message: then one request at a time */
	uint8_t careful;
	char busy_why[192];
	uint64_t give_up_ns;	/* when connecting is abandoned */
	uint64_t not_before_ns; /* the next attempt to connect */
	uint32_t attempts;	/* attempts to connect since it last answered */
	uint32_t lost;		/* connections that were lost with requests in flight since then */
	int connect_error;
	struct prng prng;
	struct channel_seen *seen; /* by object, for tables with staleness; NULL: none yet */
	/* for TCP */
	int fd;
	bool broken; /* a send failed; the waiter will find the reason when it receives */
	struct waiter *waiter;
	char *out;
	struct kept *out_kept; /* the request being sent is in this one; NULL: in out */
	size_t out_size, out_bytes, out_sent;
	/* keep.h */
	struct kept *keep_first, *keep_last; /* by sequence */
	struct kept *keep_again;	     /* those from here on have to be sent again, before all others */
	struct kept *keep_spare;
	uint32_t keep_count, keep_spare_bytes, keep_tries, keep_deaths;
	bool keep_asked; /* the first of them was sent */
	bool retains;	 /* the node has said so in its last reply */

	struct channel_seal *seal; /* for nodes that require tickets (seal.h), over TCP; otherwise NULL */
	bool tagged;		   /* what it sends and receives is protected by a tag: frames have no checksum */

	struct channel *inbox_next; /* under the lock of the waiter in whose inbox it is */

	/* the waiter's */
	char *in;
	size_t in_size, in_bytes;

	/* of datagrams */
	void *datagrams;
};

static inline struct part **channel_slot(struct channel *ch, uint64_t sequence)
{
	return &ch->ring[sequence & (IN_FLIGHT_MAX - 1)];
}

static inline uint64_t channel_in_flight(const struct channel *ch)
{
	return ch->next_sequence - ch->first_sequence;
}

/* Whether the first request of the queue may be sent. */
static inline bool channel_may_send(const struct channel *ch)
{
	return !TAILQ_EMPTY(&ch->queue) && channel_in_flight(ch) < (ch->refused || ch->careful ? 1 : IN_FLIGHT_MAX);
}

/* A layout in use. Constant; kept until the cluster is closed, because calls hold no reference. */
struct route {
	struct route *next;
	uint32_t epoch, partitions, reactors;
	uint32_t payload_max; /* bytes of a request's or reply's payload: the minimum over all nodes */
	struct channel *channels[];
};

struct star_table {
	struct star_table *next;
	struct star_cluster *cluster;
	struct object_spec spec;
	uint64_t name_hash;
	uint64_t elements;	  /* of a row, or of the whole variable */
	uint64_t blocks;	  /* of a variable */
	uint32_t row_bytes;	  /* of spec.dim elements of the stored type */
	bool small, small_pushes; /* rows may be pulled, and pushed, by small calls (small.h) */
	/* finished small calls, for the next ones of their kind: pulls; pushes. One whose thread had waited for it at
	 * once, and any number that were in flight meanwhile */
	_Atomic(struct call *) spare[2];
	struct call_stack ahead[2];
	atomic_bool durable; /* a push to it was durable: it exists wherever the node's changes go */
};

struct io {
	struct waiter waiter;
	pthread_t thread;
	int core; /* -1: not pinned */
	struct wheel wheel;
	struct calls running;
	uint64_t look_ns; /* when it next checks what is kept */
};

/* A request to the control plane in progress, which star_close interrupts. */
struct asking {
	struct asking *next;
	struct jsonrpc_client *client;
};

/* In star_cluster.inside: from here on threads leave under the lock, which star_close holds while it checks. */
#define CLUSTER_CLOSING (UINT32_C(1) << 31)

struct star_cluster {
	const struct transport *transport;
	void *transport_state;
	char **ps;
	uint32_t ps_count;
	char standby[80];	 /* its control address; "": there is none. Under lock */
	uint32_t asks_first;	 /* the address that has answered last. Under lock */
	char *key_file;		 /* from STAR_KEY; NULL: the control plane is accessed without a key */
	struct tickets *tickets; /* for the data network; NULL: it is open */
	uint64_t connect_timeout_ns;
	bool polling;
	uint32_t io_count;
	struct io *io;
	pthread_t relay;
	uint32_t payload_max; /* bytes of a request's payload that the transport can send */
	uint32_t pull_bytes;  /* bytes of the rows that one request of pulls asks for */
	_Atomic(struct route *) route;
	atomic_bool closing; /* written under the lock */
	atomic_bool stop;    /* the I/O threads may end */
	struct call_pool pool;
	_Atomic(struct waiter *) spare; /* a waiter, for the next small call */
	_Atomic(uint32_t) ahead_count;	/* small calls that were made to be in flight, or are in some table's `ahead` */
	uint64_t keep_max;		/* bytes that may be kept */
	_Atomic(uint64_t) kept_bytes;
	_Atomic(uint32_t) settling; /* threads that wait until nothing is kept */
	pthread_mutex_t keep_lock;  /* taken after a channel's; protects what follows */
	uint64_t keep_lost;	    /* number of lost requests that were not reported yet */
	struct star_error keep_error;
	_Alignas(64) _Atomic(uint32_t) inside; /* threads inside a public call, and CLUSTER_CLOSING */

	_Alignas(64) pthread_mutex_t lock;
	pthread_cond_t changed;	 /* inside, refreshing, closing, relay_queue, layout_wanted, layouts_needed */
	bool refreshing;	 /* a thread is requesting the layout */
	uint32_t layouts_needed; /* incremented by client_catalogue_hurry */
	bool relay_stop;
	bool layout_wanted; /* a channel cannot connect to a node's address */
	uint64_t layout_wanted_ns;
	struct calls relay_queue;
	struct asking *asking;
	struct waiter *waiters_free, *waiters;
	struct star_table *tables;
	struct star_program *programs;
	struct route *routes;
	struct channel *channels;
	uint32_t channels_count;
};

/* cluster.c: every public call is between enter and leave; enter refuses closed clusters and, for a call that waits,
 * I/O threads. */
int client_cluster_enter(struct star_cluster *cluster, bool waits, struct star_error *err);
/* The same while it is being closed. */
void client_cluster_leave_closing(struct star_cluster *cluster);
static inline void client_cluster_leave(struct star_cluster *cluster)
{
	uint32_t inside = atomic_load_explicit(&cluster->inside, memory_order_relaxed);

	while (!(inside & CLUSTER_CLOSING))
		if (atomic_compare_exchange_weak_explicit(&cluster->inside, &inside, inside - 1, memory_order_release,
							  memory_order_relaxed))
			return;
	client_cluster_leave_closing(cluster);
}
/* Sleeps until then; -ECANCELED as soon as the cluster is being closed. */
int client_cluster_pause(struct star_cluster *cluster, uint64_t until_ns, struct star_error *err);
/* The same, or until a counter, which changes under the cluster's lock, has another value. */
int client_cluster_pause_while(struct star_cluster *cluster, const uint32_t *counter, uint32_t count, uint64_t until_ns,
			       struct star_error *err);
uint64_t client_deadline_from(uint64_t start_ns, uint64_t deadline_us);
/* The effective value of a caller's deadline. */
static inline uint64_t deadline_bounded(uint64_t deadline_us)
{
	const uint64_t most = DEADLINE_MAX_S * UINT64_C(1000000);

	return !deadline_us ? STAR_DEADLINE_DEFAULT_US : deadline_us < most ? deadline_us : most;
}

/* catalogue.c: the control plane; params is borrowed, the result a new reference */
json_t *client_catalogue_call(struct star_cluster *cluster, const char *method, json_t *params, uint64_t deadline_ns,
			      struct star_error *err);
/* Under lock: a node has said that there is another layout. A thread that requests it repeatedly, with pauses, does so
 * at once. */
void client_catalogue_hurry(struct star_cluster *cluster);
/* Under lock, while the cluster is being closed: requests in progress fail. */
void client_catalogue_interrupt(const struct star_cluster *cluster);
/* Whether an error means that no node could be reached, or had an answer, so far. */
bool client_catalogue_is_away(int code);
/* The caller frees it with free(). */
struct layout *client_catalogue_layout(struct star_cluster *cluster, uint64_t deadline_ns, struct star_error *err);

/* route.c */
struct channel *client_channel_create(struct star_cluster *cluster, uint32_t task, uint32_t reactor,
				      uint32_t incarnation, const char *host, uint16_t port, struct waiter *io,
				      struct star_error *err);
void client_channel_destroy(struct channel *ch);
int client_route_install(struct star_cluster *cluster, const struct layout *layout, struct star_error *err);
/* After a node has said that `epoch` is stale: makes sure that the layout was fetched since. */
int client_route_refresh(struct star_cluster *cluster, uint32_t epoch, uint64_t deadline_ns, struct star_error *err);

/* io.c */
/* The calling thread's waiter if it is an I/O thread of this cluster, otherwise NULL. */
struct waiter *client_io_self(const struct star_cluster *cluster);
/* Waits until the call's callback has returned, on k. */
void client_io_await(struct waiter *k, struct call *call);
int client_io_init(struct io *io, struct star_cluster *cluster, int core, struct star_error *err);
int client_io_start(struct io *io, struct star_error *err);
void client_io_stop(struct io *io);
void client_io_fini(struct io *io);
/* The layout may have changed: the relay requests it, at a limited rate, and no thread waits for it. */
void client_route_want(struct star_cluster *cluster, uint64_t now_ns);
int client_relay_start(struct star_cluster *cluster, struct star_error *err);
void client_relay_stop(struct star_cluster *cluster);

/* call.c */
struct call *client_call_create(struct star_cluster *cluster, const struct star_op *ops, uint32_t ops_count,
				uint64_t deadline_us, struct star_error *err);
void *client_call_alloc_chunk(struct call *call, size_t bytes);
/* Allocates memory that exists as long as the call. */
static inline void *call_alloc(struct call *call, size_t bytes)
{
	char *memory = call->at;

	bytes = (bytes + 15) & ~(size_t)15;
	if (bytes > (size_t)(call->end - memory))
		return client_call_alloc_chunk(call, bytes);
	call->at = memory + bytes;
	return memory;
}
void client_call_free(struct call *call);
/* Called by its transport when the call is submitted for the first time: time counts from here. */
static inline void call_begin(struct call *call, uint64_t now_ns)
{
	if (call->start_ns)
		return;
	call->start_ns = now_ns;
	call->deadline_ns += now_ns;
}
static inline void call_submit(struct call *call, struct waiter *self)
{
	call->cluster->transport->submit(call, self);
}
/* Fails unfinished parts with -ETIMEDOUT or -ECANCELED. For its owner only. */
static inline void call_cancel(struct call *call, int code, struct waiter *self)
{
	call->cancelled = code;
	call->cluster->transport->cancel(call, code, self);
}
/* Of a part: NULL, or why it has failed. With the waiter's lock held, if it has one. */
void client_call_fail(struct call *call, const struct star_error *err);
/* All parts of the call have ended, some of them stale: whether it goes on with these by another layout. If not, it is
 * over: one that was cancelled meanwhile has failed. */
bool client_call_goes_on(struct call *call);
/* Splits the stale parts again with a newer layout; 0, or a negative errno, which is also in call->error. */
int client_call_reroute(struct call *call);
/* Decrements the number of remaining parts. With the waiter's lock held: the call's owner may free it as soon as the
 * lock is released. */
void client_call_drop(struct call *call, struct waiter *self);
/* err NULL: success. self: the calling thread's waiter or NULL. The call may be freed when it returns. */
void client_part_finish(struct part *part, const struct star_error *err, struct waiter *self);
void client_part_finish_stale(struct part *part, struct waiter *self);

/* table.c: requests an object from the control plane by that method, and stores it. Takes the reference to params. */
struct star_table *client_table_ask(struct star_cluster *cluster, const char *method, json_t *params,
				    const struct object_spec *wanted, uint64_t deadline_us, struct star_error *err);

/* check.c: checks an operation as its caller passed it. 0, or -EINVAL with a message. */
int client_check_op(const struct star_cluster *cluster, const struct star_op *op, uint32_t i, struct star_error *err);
/* Checks rate and scale of one that applies gradients to the object of that name. */
int client_check_step(const struct star_op *op, uint32_t i, const char *name, struct star_error *err);

/* rows.c: sets op's keys, count, gradients, results and pieces for rows of a variable, in memory of the call. */
int client_rows_of_variable(struct call *call, struct call_op *op, const struct star_op *from, struct star_error *err);

/* execute.c: waits for a submitted call, and returns its result. k: the thread's waiter. */
int client_call_finish(struct waiter *k, struct call *call, struct star_error *err);
/* Creates and splits a call; NULL with err. */
struct call *client_call_make(struct star_cluster *cluster, const struct star_op *ops, uint32_t ops_count,
			      uint64_t deadline_us, struct star_error *err);

/* view.c: creates a view for each operation that has one. 0 or -ENOMEM; the caller frees what was created. */
int client_view_begin(struct call *call, const struct star_op *ops, struct star_error *err);

/* split.c: splits operations into parts: all keys, or those of parts that were refused because of the layout. */
int client_split_call(struct call *call, const struct route *route, struct star_error *err);
int client_split_stale(struct call *call, const struct route *route, struct parts *stale, struct star_error *err);
/* For qsort_r over positions: by their keys, then by themselves. */
int client_split_by_key(const void *a, const void *b, void *keys);

/* waiter.c */
int client_waiter_init(struct waiter *k, struct star_cluster *cluster, bool io, struct star_error *err);
void client_waiter_fini(struct waiter *k);
/* With k's lock held: signals that its lists are not empty. self: the calling thread's waiter, or NULL. */
static inline void waiter_signal(struct waiter *k, struct waiter *self)
{
	const uint64_t one = 1;

	atomic_store_explicit(&k->news, true, memory_order_relaxed);
	if (k == self || k->signalled)
		return;
	k->signalled = true;
	/* Cannot fail: the counter is 0 or 1. */
	while (write(k->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* For an I/O thread itself: whether its lists are not empty. */
static inline bool waiter_has_news(const struct waiter *k)
{
	return atomic_load_explicit(&k->news, memory_order_relaxed) || !TAILQ_EMPTY(&k->own_finished) ||
	       !TAILQ_EMPTY(&k->own_incoming);
}

static inline void waiter_wake(struct waiter *k)
{
	pthread_mutex_lock(&k->lock);
	waiter_signal(k, NULL);
	pthread_mutex_unlock(&k->lock);
}

/* With the channel's lock held. */
void client_waiter_give(struct waiter *k, struct channel *ch, struct waiter *self);
/* Takes what is in the inbox; for an I/O thread, moves the contents of the other lists to these. */
void client_waiter_collect(struct waiter *k, struct calls *incoming, struct calls *finished);
/* Waits until something happens to one of its channels or to the waiter, at most until then, and handles it. */
void client_waiter_turn(struct waiter *k, uint64_t until_ns);
/* Whether there is room for one more channel. */
bool client_waiter_may_keep(struct waiter *k);
/* Gives up all channels (or those without work). */
void client_waiter_release(struct waiter *k, bool all);
/* Waits until the call is finished, or fails it at its deadline. */
void client_waiter_wait(struct waiter *k, struct call *call);
/* A waiter for a thread that waits for a call. NULL with err. */
struct waiter *client_waiter_get(struct star_cluster *cluster, struct star_error *err);
void client_waiter_put(struct waiter *k);

/* call_pool.c. A call's fields are as its last user left them; NULL: out of memory. */
struct call *client_call_pool_take(struct star_cluster *cluster);
void client_call_pool_give(struct call_pool *pool, struct call *call);
/* The same with a stack of one's own, of calls of that pool that are left as they are; NULL: it is empty. */
struct call *client_call_stack_pop(const struct call_pool *pool, struct call_stack *stack);
void client_call_stack_push(struct call_stack *stack, struct call *call);
void client_call_pool_fini(struct call_pool *pool);

/* backend.c: the transport in another library; NULL with err. */
const struct transport *client_backend_load(struct star_error *err);

/* tcp.c */
extern const struct transport client_transport_tcp;

/* channel.c */
void client_channel_submit(struct channel *ch, struct part *part, struct waiter *self);
/* Takes the part off the channel, unless it was taken, and sets err. */
bool client_channel_cancel(struct channel *ch, struct part *part, int code, uint64_t start_ns, struct star_error *err);
/* What to poll for; until: when to check again. -1: nothing to poll. */
int client_channel_interest(struct channel *ch, short *events, uint64_t *until_ns);
void client_channel_serve(struct channel *ch, short revents, uint64_t now_ns, struct waiter *self);
/* Fails everything on the channel, and closes it. For its waiter only. */
void client_channel_die(struct channel *ch, int code, const char *why, struct waiter *self);
/* The connection is lost: what is in flight is sent again over another one, if that may help; otherwise it fails with
 * this error. For its waiter only. */
void client_channel_lose(struct channel *ch, int code, const char *why, struct waiter *self);
/* The waiter gives up the channel. */
void client_channel_release(struct channel *ch, struct waiter *self);
bool client_channel_idle(struct channel *ch);
void client_channel_retire(struct channel *ch);
/* With the lock held, before a channel without a waiter is used: checks whether the node closed the connection while it
 * was idle, so that this call does not fail for that. */
void client_channel_check_idle(struct channel *ch, uint64_t now_ns);
/* With the lock held: makes the send buffer at least as large as that. */
bool client_channel_reserve(struct channel *ch, size_t bytes);
/* With the lock held: sends what can be sent now. */
void client_channel_pump(struct channel *ch, uint64_t now_ns);
/* With the lock held, by the waiter, or while there is none: closes and forgets the connection. */
void client_channel_close(struct channel *ch);

/* small_tcp.c: transport.small */
void client_small_tcp(struct call *call, struct waiter *k);

/* receive.c: by the waiter, without the lock; false: the channel has died. */
bool client_receive_reply(struct channel *ch, struct waiter *self);
/* The same with bytes that have been received into the channel's buffer. */
bool client_receive_more(struct channel *ch, size_t bytes, struct waiter *self);

#endif
