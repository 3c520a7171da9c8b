/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a node's control plane, shared only by the sources of lib/control.
 *
 * Threads: the server's ("control-io": every cheap method), the executor's (create, sweep, join, install), the
 * forwarder's (what a node passes on to PS task 0; a thread of its own, because the reply may first need an install
 * here), on PS tasks other than 0 the follower's, and on a PS task 0 with checkpoints the checkpointer's. Locks:
 * `plane` is held while the data plane is changed, which may take long; `lock` protects the fields below it and is
 * never held during a call that waits. Order: plane, then lock.
 */
#ifndef CONTROL_NODE_H
#define CONTROL_NODE_H

#include <pthread.h>
#include <stdbool.h>

#include "control/audit.h"
#include "control/control.h"
#include "control/executor.h"
#include "jsonrpc/jsonrpc.h"
#include "control/line_server.h"
#include "control/line_share.h"
#include "control/queue.h"
#include "jsonrpc/object_json.h"
#include "secure/ring.h"
#include "secure/ticket.h"
#include "wire/frame.h"

enum control_times {
	CONTROL_PEER_US = 5000000,	/* a call to another node that changes something */
	CONTROL_HEARTBEAT_US = 3000000, /* a heartbeat's reply */
	CONTROL_BEAT_MS = 1000,		/* between heartbeats */
	CONTROL_RETRY_MIN_MS = 50,	/* between attempts to join: doubled each time ... */
	CONTROL_RETRY_MAX_MS = 1000,	/* ... up to here */
	/* sending a new layout to all nodes; a node that misses it gets it with its heartbeat */
	CONTROL_PUSH_US = 2000000,
	CONTROL_FORWARD_US = 25000000,	/* a request passed on to PS task 0 */
	CONTROL_STALL_US = 30000000,	/* a peer that does not read */
	CONTROL_GREETING_US = 10000000, /* a peer that has connected and sends nothing */
	CONTROL_IDLE_US = 60000000,	/* one that has sent something before */
	CONTROL_POLL_MS = 50,		/* between requests for a checkpoint's progress */
	CONTROL_DRAIN_US = CONTROL_DRAIN_S * 1000000,
	CONTROL_ALONE_US =
		/* a stopping node waits no longer than this for an answer of PS task 0 about that checkpoint */
	5000000,
	/* after this time without a heartbeat, a node is reported as away, and gets no requests that must not wait */
	CONTROL_AWAY_US = 5000000,
};

enum {
	CONTROL_ADDRESS_MAX = sizeof(struct config_address_text),
	CONTROL_QUEUED_MAX =
		16 << 20, /* bytes of requests that wait for a thread; in parsed form they take many times as much */
};

enum {
	CONTROL_NAMES = 4096, /* a power of two */
	CONTROL_PEER_REQUEST_MAX =
		/* bytes of a request from a peer that is not a node; in parsed form it may take eighty times as much */
	64 << 10,
	CONTROL_EPOCH_MAX = INT32_MAX, /* of a layout */
};

/* The threads that call other nodes. */
enum control_caller {
	CALLER_EXECUTOR,
	CALLER_FORWARDER,
	CALLER_FOLLOWER,
	CALLER_CHECKPOINTER,
	CALLER_WATCH,
	CALLER_LEAVE,
	CALLERS
};

/* The place of a node's reactors among those of the cluster, which determines the rows that it holds. */
struct control_place {
	uint32_t reactors, first; /* number of reactors of the cluster; the number of the node's first one */
};

/* What a standby knows of its primary's place in the cluster. */
struct control_handed {
	uint32_t epoch; /* 0: the primary has no layout yet */
	struct control_place place;
	uint64_t lineage, taken_back, passed_over; /* if nodes keep journals: as in struct control_history */
};

enum { CONTROL_ALONE_MAX = 320 };

/* What PS task 0 knows of a node. */
struct cluster_node {
	struct layout_node layout; /* its incarnation: the one that workers know */
	uint32_t incarnation;	   /* of its start; 0: never heard from */
	/* it has a journal to apply: the incarnation that workers will know is not known yet ... */
	bool recovers;
	bool was_known;	     /* ... but the previous one is */
	bool goes_back;	     /* it restarts, because the cluster was rolled back to a checkpoint */
	uint64_t taken_back; /* number of rollbacks in its journal */
	bool wants;	     /* it needs a checkpoint for its journal */
	bool second;	     /* it has the second of its task's two control addresses; read by any thread */
	/* of a pair: number of times that one of its nodes has begun to serve; 0: not in a pair */
	uint64_t generation;
	char alone[CONTROL_ALONE_MAX]; /* of a pair: why it has no standby; "": it has one */
	bool joined;		       /* it has the whole catalogue in this incarnation */
	bool leaving;		       /* it has announced that it stops */
	bool told_last;		       /* it knows that the last checkpoint counts, or was told so */
	uint64_t seen_us;
	uint32_t reactors_before;   /* in the last layout that this PS task 0 has made; 0: none */
	struct control_place place; /* the one by which it holds its rows; reactors 0: none yet */
	bool loads;		    /* it may be silent: it has a new layout, with a checkpoint to load */
	bool away;		    /* it was reported as away */
	uint64_t away_us;	    /* when it was last heard from before that */
	bool is_back;		    /* its restored rows have to be logged */
	uint64_t holds[WIRE_OBJECTS_MAX / 64 + 1]; /* bit i: it has installed object i */
	/* it has joined once in this incarnation: it has nothing new to report */
	bool known;
	uint64_t refuses[WIRE_OBJECTS_MAX / 64 + 1]; /* bit i: it has no room for object i */
	uint32_t refuses_count;
};

enum { CHECKPOINT_ENDS = 8 };

/* PS task 0's state of checkpoints; under control.lock, except for the thread. */
struct checkpointer {
	pthread_t thread;
	bool running;
	bool woken;		/* there were requests since the thread last checked */
	bool asked, asked_full; /* a checkpoint was requested */
	uint32_t keep;		/* number of full ones that a job has requested to keep; 0: none has */
	bool writing, delta;
	bool asked_restore, restoring;
	uint64_t restore_id; /* 0: the newest */
	/* a requested restore is because nodes do not fit (places.c); and it was not possible */
	bool together, together_failed;
	bool settle;	 /* a full one is due as soon as there is a layout, because the cluster has rolled back */
	bool asked_last; /* one was requested before a node stops */
	bool counting;	 /* a manifest is being written: no node may join, as it is unknown which checkpoint counts */
	/* a last checkpoint counts: no node has accepted anything since, and none will until the next layout */
	bool closed;
	uint64_t wanted_us; /* when one that the node needs was last started; 0: never */
	uint64_t lasts_failed;
	struct control_checkpoint now;
	uint32_t incarnations[WIRE_NODES_MAX];	    /* of all nodes when the present one began; the thread's */
	uint64_t drops;				    /* control.drops at that time */
	uint64_t rows, left, bytes, copied, waited; /* of all nodes so far */
	uint64_t begun_us, full_us, delta_us;	    /* when the last one began */
	/* the last one that counts; id 0: none since this node started */
	struct control_checkpoint last;
	uint64_t last_rows, last_bytes, last_us, last_ended_us;
	uint64_t saved, failed;
	char error[sizeof(((struct star_error *)0)->text)]; /* of the last attempt; "": it succeeded */
	/* the last attempts, by number modulo CHECKPOINT_ENDS: whoever requested one finds its result */
	struct {
		uint64_t id, rows, bytes, us;
		bool delta;
		char error[sizeof(((struct star_error *)0)->text)];
	} ends[CHECKPOINT_ENDS];
};

struct control {
	const struct config *config;
	struct control_data_plane data_plane;
	struct steering steering;
	uint32_t incarnation; /* of this start: nodes identify each other by it */
	uint32_t inherited;   /* the one that workers know; that of an earlier start, if the node continues from that */
	uint32_t task;
	uint64_t started_us;
	char socket_path[sizeof(((struct config *)0)->control_socket)];
	uint64_t socket_inode;
	struct line_server *server;
	struct executor *executor, *forwarder;
	struct origins *origins;
	struct secure_ring *ring;	/* the accepted keys; NULL: everyone has access */
	struct secure_tickets *tickets; /* for the data network; NULL: it is open */
	struct audit *audit;		/* NULL: none is kept */
	pthread_t follower;
	bool following;

	pthread_mutex_t plane;
	pthread_mutex_t lock;
	pthread_cond_t wake; /* for the follower and the checkpointer */
	bool stopping;
	size_t queued_bytes;				   /* of deferred requests */
	struct jsonrpc_client *calling[CALLERS];	   /* calls in progress, which a stop interrupts */
	struct object_spec *objects[WIRE_OBJECTS_MAX + 1]; /* by id; never changed or freed while the node runs */
	uint32_t objects_count, objects_last;		   /* last: the highest id */
	/* Their ids by hashes of their names: the first id for each hash, and for each id the next one; 0: none. */
	uint16_t named[CONTROL_NAMES], named_next[WIRE_OBJECTS_MAX + 1];
	struct object_spec **retired; /* removed ones, which other threads may still read */
	unsigned retired_count;
	uint64_t fresh[WIRE_OBJECTS_MAX / 64 + 1];   /* for a follower: installed since its last join was sent */
	uint64_t refused[WIRE_OBJECTS_MAX / 64 + 1]; /* for a follower: it has no room for them */
	/* the layout that the data plane serves; epoch 0: none yet */
	uint32_t epoch, cluster_reactors, first_reactor;
	uint64_t closing,
		/* the last checkpoint, and when its part began: since then the node accepts nothing; 0: none */
		closing_us;
	bool closed; /* that checkpoint counts */
	pthread_t watch;
	bool watching;
	uint64_t overdue_logged_us;	/* the watch's: when it logged that checkpoints are overdue; 0: they are not */
	bool loads;			/* the node is loading what it starts from; it sends no heartbeats meanwhile */
	uint64_t loading;		/* the checkpoint of which it loads its share; 0: only its journal */
	struct control_history history; /* that of its journal when this node started; later that of the cluster */
	/* it is known; for the follower, and for PS task 0, including what other nodes know */
	bool history_settled;
	int64_t clock_offset_us; /* between the kernel's date and its clock, when this node started */
	/* PS task 0 */
	struct cluster_node *nodes; /* ps_count */
	struct checkpointer checkpointer;
	bool ids_unsure; /* an earlier PS task 0 may have assigned ids that this one does not know */
	struct control_queues queues;
	uint64_t queue_changes; /* incremented with each change that a standby has to get */
	bool queues_left_out;	/* for the sender: they are too large for a standby */
	uint64_t begins_with;	/* the checkpoint that nodes which join now start from; 0: none */
	uint64_t rolled_back_to;
	/* for a pair: why there is no layout; "": there may be one. version: number of changes of the catalogue or the
	 * layout. */
	char pair_waits[CONTROL_STATE_MAX];
	uint64_t version;
	uint64_t changed[WIRE_OBJECTS_MAX + 1]; /* by id: the version in which it was added or removed */
	/* with which it serves, in a cluster of several tasks; 0: it does not serve */
	uint64_t pair_generation;
	char pair_alone[CONTROL_ALONE_MAX]; /* why it has no standby; "": it has one, or is not in a pair */
	struct control_handed handed;	    /* for a standby: from its primary */
	struct layout_standby own_standby;  /* for a task other than 0: its standby, which PS task 0 has to know */
	struct executor_job lay_out_job;
	/* Its part of a checkpoint that has begun and not ended; id 0: none. For holders of the plane. */
	struct {
		uint64_t id;
		uint32_t epoch;
	} part;
	struct executor_job part_job;
	/* the cluster rolls back to begins_with: all nodes are told to restart, and none may join */
	bool rolls_back;
	uint32_t epoch_floor; /* the highest epoch that a node has reported from an earlier PS task 0 */
	uint32_t ids_given;   /* the highest id that a node may hold because it has not heard that the id was freed */
	/* the next one for each id: objects with an earlier one were dropped */
	uint32_t generations[WIRE_OBJECTS_MAX + 1];
	uint64_t drops;	 /* of tables so far: their beginnings and ends */
	bool dropping;	 /* a drop is in progress */
	bool layout_due; /* nodes have changed since the epoch was assigned */
	char misfit[sizeof(
		((struct star_error *)0)->text)]; /* why there can be no layout with the present nodes; "": there can */
	/* the others */
	bool joined;
	bool leader_second; /* PS task 0 is expected at the second of its two control addresses; read by any thread */
	uint64_t leader_generation; /* the highest generation with which a node of its pair has answered */
	uint32_t leader_incarnation;
	bool leader_on_stop;	 /* checkpoint.on_stop is true there, so it is for all */
	uint64_t leader_seen_us; /* 0: never */
	char follower_error[sizeof(((struct star_error *)0)->text)]; /* why it has not joined; "" if it has */
	/* PS task 0 sent a layout before this node had joined: the next heartbeat requests it at once */
	bool layout_missed;
	/* the contents of a join have changed since the last one was put together, which may be in progress */
	bool unsaid;
};

/* node.c: what every node does. */
void control_ps_address(const struct control *control, uint32_t task, char text[static CONTROL_ADDRESS_MAX]);
bool control_is_stopping(struct control *control);
/* PS task 0 was not found at its address, or does not serve there: tries its other address, if it has two, unless
 * another thread has switched meanwhile. */
void control_leader_turn(struct control *control, bool was_second);
/* Whether a result code, or the lack of an answer, means that. */
bool control_leader_elsewhere(int code);
/* Calls PS task 0, at both of its addresses if necessary; takes the reference to params. NULL with err. */
json_t *control_leader_call(struct control *control, enum control_caller caller, const char *method, json_t *params,
			    uint64_t deadline_us, struct star_error *err);
/* A connection to another node, from this node's own control address. */
struct jsonrpc_client *control_connect(const struct control *control, uint32_t task, uint64_t deadline_us,
				       struct star_error *err);

/* jsonrpc_call, which stopping the node interrupts. */
json_t *control_call(struct control *control, enum control_caller caller, struct jsonrpc_client *client,
		     const char *method, json_t *params, uint64_t deadline_us, struct star_error *err);

/* Sets stopping, and ends every call and pause of the other threads. */
void control_stop(struct control *control);

/* Waits for ms, until `until` is true (under lock, signalled by wake; NULL: ignored), or until the node stops: then
 * false. */
bool control_pause(struct control *control, uint32_t ms, const bool *until);

/* Under lock. NULL: there is none. */
const struct object_spec *control_find(const struct control *control, const char *name);

/* Under lock. -EHOSTDOWN: the node is in a pair, and does not serve; the caller has to ask the other node. */
int control_pair_serves(const struct control *control, struct star_error *err);

/* Under lock, if the cluster has several tasks: the same if it may have been replaced, because its lease has ended. */
int control_pair_leads(const struct control *control, struct star_error *err);

/* leader.c: calls `install` of another node; and how long that may take. */
int control_leader_tell(struct control *control, uint32_t task, json_t *params, uint64_t deadline_us,
			struct star_error *err);
uint64_t control_leader_deadline_us(const struct control *control);

/* undo.c: whether all nodes that need an object were heard from recently, because waiting for a dead one makes all
 * others wait; and undoes a create that failed with this code on one node. */
int control_leader_all_heard(struct control *control, const struct object_spec *spec, struct star_error *err);
void control_leader_undo(struct control *control, const struct object_spec *spec, int code);

/* Removes an object from the catalogue, with programs that work on it. why: for the log. */
void control_forget(struct control *control, uint32_t id, const char *why);
/* Logs that a node was restarted. checkpoint: the one of which it loads its share; 0: none. journal: it then applies
 * its journal. */
void control_tell_restart(uint32_t task, uint64_t checkpoint, bool journal);
/* Logs that its standby serves in its place. */
void control_tell_replaced(uint32_t task, uint64_t generation);

/* Sets of objects, by id. */
static inline bool control_bit(const uint64_t *bits, uint32_t id)
{
	return bits[id / 64] >> (id % 64) & 1;
}

static inline void control_set_bit(uint64_t *bits, uint32_t id)
{
	bits[id / 64] |= UINT64_C(1) << (id % 64);
}

/* 1: the node has exactly this object; 0: it could be added; -EEXIST: its name or id is taken. Takes lock. */
int control_compare(struct control *control, const struct object_spec *spec, struct star_error *err);

/* Installs an object with an id and adds it to the catalogue; 0 also if it exists already. Takes both locks. */
int control_install(struct control *control, const struct object_spec *spec, struct star_error *err);

/* Serves a layout, unless the present one is as new. Takes both locks. */
int control_set_layout(struct control *control, const struct control_layout *layout, struct star_error *err);

/* tables.c: objects in the order of their ids, starting with `from`, as many as fit in one message; *next: where the
 * next page begins; 0: this is the last one. Takes lock. */
json_t *control_objects_page(struct control *control, uint32_t from, uint32_t *next);
/* Returns -ENOENT, with the most similar name in err. Under lock. */
int control_unknown_table(const struct control *control, const char *name, struct star_error *err);
/* "tables": {"name": one table}, {"from": the first id of a page}, or {}: all, if they fit in one message. With their
 * figures on this node as "stats", and without programs. Takes lock. */
int control_tables(struct control *control, const json_t *params, json_t **result, struct star_error *err);
/* A table or variable with its figures, also for each reactor. NULL with err: there is none of that name. */
json_t *control_table_json(struct control *control, const char *name, struct star_error *err);

/* The table or variable of that name; NULL with -ENOENT and the most similar name. Under lock. */
const struct object_spec *control_table(const struct control *control, const char *name, struct star_error *err);

/* The same for callers that do not hold the lock. Takes lock. */
const struct object_spec *control_table_by_name(struct control *control, const char *name, struct star_error *err);

/* handle.c: a table by its name or, with `exact`, also by its handle, which excludes another table of that name. */
struct control_handle {
	const char *name;
	uint32_t id, generation;
	bool exact;
};

/* Members "name", and, together, "id" and "generation". */
int control_handle_read(const json_t *params, struct control_handle *handle, struct star_error *err);
/* NULL with -ENOENT: there is none, or another one now. Under lock. */
const struct object_spec *control_handle_table(const struct control *control, const struct control_handle *handle,
					       struct star_error *err);

/* Starts a full pass of eviction on this node. Takes both locks. */
int control_sweep(struct control *control, const char *name, struct star_error *err);

/* Begins to delete all rows on this node, or only adds to *left how many are left. Takes both locks. */
/* Before a change of the catalogue is reported: waits until it is durable, if replies promise that. done, may: what was
 * done, and what may become of it; again: what to do. */
int control_catalogue_durable(struct control *control, const char *name, const char *done, const char *may,
			      const char *again, struct star_error *err);
int control_empty(struct control *control, const char *name, bool begin, uint64_t *left, struct star_error *err);

/*
 * leader.c: PS task 0. create, sweep and lay_out run on the executor's thread, the others on any. Parameters are
 * checked; an invalid one is JSONRPC_INVALID_PARAMS.
 */
int control_leader_create(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_leader_layout(struct control *control, json_t **result, struct star_error *err);
int control_leader_lookup(struct control *control, const char *name, json_t **result, struct star_error *err);
int control_leader_sweep(struct control *control, const char *name, json_t **result, struct star_error *err);
/* Calls `install` of another node; *result: its answer, a new reference. Takes the reference to params. */
int control_leader_ask(struct control *control, uint32_t task, json_t *params, json_t **result, struct star_error *err);
int control_leader_lay_out(struct control *control, uint32_t except, struct star_error *err);
/* 0 if there is a layout for all nodes to serve. Under lock. */
int control_leader_complete(const struct control *control, struct star_error *err);
/* 0 if workers may have it too, because no node is about to stop. Under lock. */
int control_leader_laid_out(const struct control *control, struct star_error *err);
/* "1, 2 and 5 more": the tasks that have not joined; returns how many. Under lock. */
unsigned control_leader_missing(const struct control *control, char *text, size_t size);
/* The layout as it is sent to a task, a new reference. Under lock. */
json_t *control_leader_layout_for(const struct control *control, uint32_t task);
/* Installs an object with its id on this node. */
int control_leader_adopt(struct control *control, const struct object_spec *spec, struct star_error *err);

/* leader_join.c: PS task 0, too. join runs on the executor's thread, heartbeat on any. */
int control_leader_join(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_leader_heartbeat(struct control *control, const json_t *params, json_t **result, struct star_error *err);

/* control.c: loads the catalogue of the checkpoint that the cluster starts from. */
int control_begin_with(struct control *control, struct star_error *err);

/* security.c: keys, roles, and the audit log. */
int control_security_create(struct control *control, struct star_error *err);
void control_security_destroy(struct control *control);
/* The keys with which this node connects to another one: for secure_keys_free; *keys NULL: none. */
int control_security_own(const struct control *control, struct secure_keys **keys, struct star_error *err);
/* Callbacks of a line server. */
char *control_security_in_clear(void *ctx);
void control_security_quotas(void *ctx, const struct secure_key *principal, struct secure_quotas *quotas);
/* A request has arrived; err may be NULL. 0, or its sender exceeds a quota. */
int control_security_ask(struct line_connection *connection, struct star_error *err);
void control_security_came(void *ctx, const struct line_connection *connection, const char *refused);
/* Whether the peer may call a method that is for those roles. */
int control_security_check(const struct control *control, const struct line_connection *connection, const char *method,
			   unsigned roles, struct star_error *err);
/* Writes the result of a request to the audit log. From any thread; fill is called on the server's. */
/* Whether a worker or reader has one of these rights (secure/rights.h) to a table, if security.rights names a file; for
 * other roles the role decides. */
int control_security_table(const struct control *control, const struct line_connection *connection, const char *method,
			   uint8_t one_of, const char *table, struct star_error *err);
void control_security_fill(const struct line_connection *connection, struct audit_event *event);
void control_security_note(const struct control *control, struct audit_event *event, const char *method, int code,
			   const char *text);
/* "acl_check" and "key_reload"; roles_of: the roles of a method, or -1. */
int control_security_acl(struct control *control, const json_t *params, int (*roles_of)(const char *method),
			 json_t **result, struct star_error *err);
/* The peer's principal, and what it uses; on the server's thread. */
int control_security_usage(const struct control *control, const struct line_connection *connection,
			   const json_t *params, json_t **result, struct star_error *err);
int control_security_reload(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_security_ticket(struct control *control, const struct line_connection *connection, json_t **result,
			    struct star_error *err);
json_t *control_security_json(const struct control *control);
/* How the data network is protected. */
enum secure_data control_security_data(const struct control *control);

/* metrics.c: {"from": the first family}: {"text", "next": the first of the next page, if there is one}. At any time. */
int control_metrics_page(struct control *control, const json_t *params, json_t **result, struct star_error *err);
/* health.c: {"healthy", "state", "problems": [messages]}; a new reference. At any time. */
json_t *control_health_json(struct control *control);
/* The difference between the date and the clock that is never adjusted. */
int64_t control_health_clock_offset_us(void);
/* For a follower: PS task 0 was heard from before, and no longer is. Under lock. */
bool control_health_leader_is_away(const struct control *control);
/* Whether a periodic checkpoint is overdue; how long ago the last one was, and how often one is due. Under lock. */
bool control_health_checkpoint_overdue(const struct control *control, double *age_s, uint32_t *every_s);

/* checkpoint.c: PS task 0's thread that has checkpoints written, and its requests to the other nodes. */
int control_checkpointer_start(struct control *control, struct star_error *err);
void control_checkpointer_join(struct control *control); /* after control_stop */
/* Once a second: starts a checkpoint if the node needs one. */
void control_checkpointer_look(struct control *control);
/* Requests one; kind is "full", "delta" or "auto". -EBUSY with a message: one is in progress. */
int control_checkpointer_save(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_checkpointer_status(struct control *control, json_t **result, struct star_error *err);
/* On every node: {"begin": {...}}, {"end": {...}}, {"restart": {...}} or {}: returns the progress. */
int control_checkpointer_part(struct control *control, const json_t *params, json_t **result, struct star_error *err);
/* Another layout is installed: abandons a part that began with the previous one. The caller holds the plane. */
void control_checkpointer_note_layout(struct control *control);
/* Sends such a request to a node; takes the reference to params. Its state, a new reference, or NULL with the node's
 * name in err. */
json_t *control_checkpointer_ask(struct control *control, enum control_caller caller, uint32_t task, json_t *params,
				 struct star_error *err);
/* Returns 0 when all nodes have answered that they serve this layout, so that none loads any more. */
int control_checkpointer_wait_for_all(struct control *control, uint32_t *epoch, struct star_error *err);

/* status.c */
json_t *control_endpoint_json(const struct config_endpoint *endpoint);
json_t *control_node_json(struct control *control, struct line_server_counts counts);

/* queue_methods.c: PS task 0's work queues. "queue_open", "queue_work", "queues" and "queue_drop". */
int control_queue_make(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_queue_ask(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_queue_list(struct control *control, json_t **result, struct star_error *err);
int control_queue_remove(struct control *control, const char *name, struct star_error *err);
/* For a checkpoint, called before it begins: slices that are done by then were pushed before. A new reference. */
json_t *control_queues_keep(struct control *control);
/* Loads those of the checkpoint that the cluster starts from. */
int control_queues_begin(struct control *control, struct star_error *err);

/* restore.c: PS task 0 rolls the cluster back to a checkpoint. The first is the method, the second runs on the
 * checkpointer's thread. */
int control_restore_ask(struct control *control, const json_t *params, json_t **result, struct star_error *err);
void control_restore_run(struct control *control);
/* A node has joined again: checks the checkpoint that it is to start from, and chooses another one if it is damaged. */
int control_restore_look_again(struct control *control, struct star_error *err);
/* Has all nodes roll back to the checkpoint that they would start from. False: they do not restore checkpoints, or
 * there is none. Under lock. */
bool control_restore_together(struct control *control);

/* places.c: whether there can be a layout of the present nodes in which each that has rows keeps them. 0; -EAGAIN:
 * there cannot, and all nodes roll back to a checkpoint; -EINVAL: there is no checkpoint either, and err says what to
 * do. Takes lock. */
int control_places_check(struct control *control, struct star_error *err);
/* All nodes now hold their rows by the layout that was made. Under lock. */
void control_places_note(struct control *control);

/* leave.c: on PS task 0: another node announces that it is about to stop, again and again until it may. */
int control_leave_take(struct control *control, const json_t *params, json_t **result, struct star_error *err);

/* On every node: its part of a checkpoint begins and ends, and it serves a layout. The caller holds the plane. */
void control_leave_note_begin(struct control *control, const struct control_checkpoint *c);
void control_leave_note_end(struct control *control, uint64_t id, bool kept);
void control_leave_note_layout(struct control *control);
/* Handles PS task 0's answer to a request of that time: whether there is a last checkpoint. If not, the node serves
 * again. */
void control_leave_look(struct control *control, bool closing, uint64_t asked_us);

/* watch.c: logs which nodes are away, which are back, and other events. */
/* Adds to a node's JSON how long it has been silent, and if that is too long, since when. */
/* Whether a node has been silent for so long that it counts as away; and whether it is reported, which happens later.
 * Under lock. */
bool control_watch_is_silent(const struct cluster_node *node, uint64_t now_us);
bool control_watch_is_away(const struct cluster_node *node, uint64_t now_us);
void control_watch_put_silence(json_t *json, uint64_t seen_us, uint64_t now_us, bool away);
json_t *control_watch_nodes_json(struct control *control); /* PS task 0's, for status */
int control_watch_start(struct control *control, struct star_error *err);
void control_watch_join(struct control *control); /* after control_stop */

/* follower.c: the other PS tasks. */
int control_follower_start(struct control *control, struct star_error *err);
void control_follower_join(struct control *control); /* after control_stop */
int control_follower_install(struct control *control, const json_t *params, json_t **result, struct star_error *err);

/* empty.c: empties a table on all nodes; PS task 0 calls the second on another node. On the executor's thread. */
int control_leader_empty(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_follower_empty(struct control *control, const json_t *params, json_t **result, struct star_error *err);

/* empty.c: checks that all nodes were heard from lately; what: the action that is impossible otherwise, such as
 * "emptied". Under lock. */
int control_leader_check_heard(const struct control *control, const char *name, const char *what,
			       struct star_error *err);
/* Requests a checkpoint, because older ones have what was removed. False: one is being written that may have begun
 * before. */
bool control_leader_ask_checkpoint(struct control *control);

/* history.c: PS task 0 knows the history of the cluster, because all nodes have joined; and a node has reported that it
 * has started. Under lock. */
struct control_join;
int control_history_check(struct control *control, struct star_error *err);
void control_history_settle(struct control *control);
void control_history_begun(struct control *control, const struct control_join *join);

/* drop.c: drops a table on all nodes; and loads earlier drops after a start. */
int control_leader_drop(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_leader_bring_back(struct control *control, struct star_error *err);
int control_leader_begin_drops(struct control *control, struct star_error *err);
/* The next generation of an id. Under lock. */
uint32_t control_leader_generation(const struct control *control, uint32_t id);
/* Clears the marks of nodes that hold or refuse what is no longer in the catalogue. Under lock. */
void control_leader_clear_forgotten(struct control *control);
/* On other nodes: PS task 0 reports what was removed. */
int control_follower_forget(struct control *control, const json_t *params, struct star_error *err);

/* ports.c: the node's own ports. */
int control_ports_add(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_ports_remove(struct control *control, const json_t *params, json_t **result, struct star_error *err);

/* rows.c: the keys of a table's rows on a reactor, and rows themselves. */
int control_rows_keys(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_rows_read(struct control *control, const json_t *params, json_t **result, struct star_error *err);

/* observed.c: the node's records. */
int control_observed(struct control *control, enum control_observed_what what, const json_t *params, json_t **result,
		     struct star_error *err);
/* The last events: {"node", "events": [...]}. */
int control_events(struct control *control, const json_t *params, json_t **result, struct star_error *err);

/* origin.c: whether cluster.ps has a caller's address for that task. The executor must exist before it is created, and
 * be gone before it is destroyed. */
#define ORIGIN_ANY UINT32_MAX
int control_origins_create(struct control *control, struct star_error *err);
bool control_origins_has(struct control *control, const uint8_t *address, uint32_t task);

/* methods.c: the table of methods; serve is the line server's. */
enum line_outcome control_methods_serve(void *ctx, struct line_connection *connection, bool admin, const char *line,
					size_t bytes, char **reply);
/* The set of roles that may call a method; -1: there is no such method. */
int control_methods_roles(const char *name);
unsigned control_methods_count(void);
bool control_methods_is_node(void *ctx, const struct line_connection *connection);
char *control_methods_too_long(void *ctx, size_t max);
char *control_methods_too_many(void *ctx);

/* Sets err's code to JSONRPC_INVALID_PARAMS and returns that. */
int control_invalid(struct star_error *err);

#endif
