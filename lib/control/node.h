/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a node's control plane, shared by the sources of lib/control alone.
 *
 * Threads: the server's ("control-io": every cheap method), the executor's (create, sweep, join, install), the
 * forwarder's (what a node passes on to PS task 0; of its own, because the answer may need an install here first), on
 * PS tasks other than 0 the follower's, and on a PS task 0 with checkpoints the checkpointer's. Locks: `plane` is held
 * while the data plane is changed, which may take long; `lock` protects the fields below it and is never held during a
 * call that waits. Order: plane, then lock.
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
	CONTROL_RETRY_MIN_MS = 50,	/* between tries to join: doubled each time ... */
	CONTROL_RETRY_MAX_MS = 1000,	/* ... up to here */
	CONTROL_PUSH_US = 2000000,	/* telling all nodes a new layout; who misses it learns it by its heartbeat */
	CONTROL_FORWARD_US = 25000000,	/* a request passed on to PS task 0 */
	CONTROL_STALL_US = 30000000,	/* a reader that takes nothing */
	CONTROL_GREETING_US = 10000000, /* a peer that has connected and says nothing */
	CONTROL_IDLE_US = 60000000,	/* one that has said something before */
	CONTROL_POLL_MS = 50,		/* between questions how far a checkpoint is */
	CONTROL_DRAIN_US = CONTROL_DRAIN_S * 1000000,
	CONTROL_ALONE_US =
		5000000, /* without an answer of PS task 0, a node that stops waits no longer for that checkpoint */
	/* without a heartbeat, a node is reported as away, and not asked for what must not wait */
	CONTROL_AWAY_US = 5000000,
};

enum {
	CONTROL_ADDRESS_MAX = sizeof(struct config_address_text),
	CONTROL_QUEUED_MAX =
		16 << 20, /* bytes of requests that wait for a thread; parsed they take many times as much */
};

enum {
	CONTROL_NAMES = 4096, /* a power of two */
	CONTROL_PEER_REQUEST_MAX =
		64 << 10, /* bytes of a request from who is no node: parsed it may take eighty times as much */
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

/* Where a node's reactors are among those of the cluster: from that follows which rows it holds. */
struct control_place {
	uint32_t reactors, first; /* of the cluster; of them the node's first */
};

/* What a standby has of its primary's place in the cluster. */
struct control_handed {
	uint32_t epoch; /* 0: the primary has no layout yet */
	struct control_place place;
};

enum { CONTROL_ALONE_MAX = 160 };

/* What PS task 0 knows of a node. */
struct cluster_node {
	struct layout_node layout;     /* its incarnation: what workers know it by */
	uint32_t incarnation;	       /* of its start; 0: never heard of */
	bool recovers;		       /* it has a journal to apply: what workers know it by is not known yet ... */
	bool was_known;		       /* ... but what they did */
	bool goes_back;		       /* it begins again, as the cluster was taken back to a checkpoint */
	uint64_t taken_back;	       /* as its journal has it */
	bool wants;		       /* a checkpoint, for its journal's sake */
	bool second;		       /* of a task's two control addresses it has the second; any thread looks */
	uint64_t generation;	       /* of a pair: how often a node of it has begun to serve; 0: it is in none */
	char alone[CONTROL_ALONE_MAX]; /* of a pair: why it has no standby; "": it has one */
	bool joined;		       /* it holds the whole catalogue in this incarnation */
	bool leaving;		       /* it has said that it stops */
	bool told_last;		       /* it knows that the last checkpoint counts, or was told so */
	uint64_t seen_us;
	uint32_t reactors_before;   /* in the last layout that this PS task 0 has made; 0: none */
	struct control_place place; /* by which it holds its rows; reactors 0: it has none yet */
	bool loads;		    /* it may be silent: it has a layout to take over, with a checkpoint to load */
	bool away;		    /* it was reported as such */
	uint64_t away_us;	    /* when it was heard last before that */
	bool is_back;		    /* what it has restored is to be logged */
	uint64_t holds[WIRE_OBJECTS_MAX / 64 + 1]; /* bit i: it has installed object i */
	bool known;				   /* it has joined once, in this incarnation: it brings nothing new */
	uint64_t refuses[WIRE_OBJECTS_MAX / 64 + 1]; /* bit i: it has no room for object i */
	uint32_t refuses_count;
};

enum { CHECKPOINT_ENDS = 8 };

/* What PS task 0 knows of checkpoints; under control.lock but for the thread. */
struct checkpointer {
	pthread_t thread;
	bool running;
	bool woken;		/* somebody has asked for something since the thread looked */
	bool asked, asked_full; /* for one, by somebody */
	uint32_t keep;		/* full ones, as a job has asked; 0: none has */
	bool writing, delta;
	bool asked_restore, restoring;
	uint64_t restore_id;		/* 0: the newest */
	bool together, together_failed; /* asked_restore: because nodes do not fit (places.c); and it could not be */
	bool settle;	 /* a full one is due as soon as there is a layout: the cluster has rolled back */
	bool asked_last; /* for one before a node stops */
	bool counting;	 /* a manifest is being written: nobody joins, as it is not known which one counts */
	bool closed;	 /* such a one counts: no node has taken anything since, and none does until the next layout */
	uint64_t wanted_us; /* when one was begun at last that the node wants; 0: never */
	uint64_t lasts_failed;
	struct control_checkpoint now;
	uint32_t incarnations[WIRE_NODES_MAX];	    /* of all nodes as the one under way began; the thread's */
	uint64_t drops;				    /* control.drops then */
	uint64_t rows, left, bytes, copied, waited; /* of all nodes, so far */
	uint64_t begun_us, full_us, delta_us;	    /* when the last began */
	/* the last one that counts; id 0: none since this node began */
	struct control_checkpoint last;
	uint64_t last_rows, last_bytes, last_us, last_ended_us;
	uint64_t saved, failed;
	char error[sizeof(((struct star_error *)0)->text)]; /* of the last try; "": it went well */
	/* The last tries, by their number modulo ENDS: whoever asked for one finds how that one ended. */
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
	uint32_t incarnation; /* of this start: what nodes know each other by */
	uint32_t inherited;   /* what workers know the node by; that of an earlier start, where it goes on from there */
	uint32_t task;
	uint64_t started_us;
	char socket_path[sizeof(((struct config *)0)->control_socket)];
	uint64_t socket_inode;
	struct line_server *server;
	struct executor *executor, *forwarder;
	struct origins *origins;
	struct secure_ring *ring;	/* who gets in; NULL: everybody */
	struct secure_tickets *tickets; /* for the data network; NULL: it is open */
	struct audit *audit;		/* NULL: none is kept */
	pthread_t follower;
	bool following;

	pthread_mutex_t plane;
	pthread_mutex_t lock;
	pthread_cond_t wake; /* of the follower and the checkpointer */
	bool stopping;
	size_t queued_bytes;				   /* of requests that were put off */
	struct jsonrpc_client *calling[CALLERS];	   /* calls in progress, to be interrupted by a stop */
	struct object_spec *objects[WIRE_OBJECTS_MAX + 1]; /* by id; never changed or freed while the node runs */
	uint32_t objects_count, objects_last;		   /* last: the highest id */
	/* Their ids by their names' hashes: the first of each, and of an id the next one; 0: none. */
	uint16_t named[CONTROL_NAMES], named_next[WIRE_OBJECTS_MAX + 1];
	struct object_spec **retired; /* forgotten; others may look at them still */
	unsigned retired_count;
	uint64_t fresh[WIRE_OBJECTS_MAX / 64 + 1];   /* of a follower: installed since its last join was sent */
	uint64_t refused[WIRE_OBJECTS_MAX / 64 + 1]; /* of a follower: it has no room for them */
	/* the layout that the data plane serves; epoch 0: none yet */
	uint32_t epoch, cluster_reactors, first_reactor;
	uint64_t closing,
		closing_us; /* the last checkpoint, and when its part began: since then it takes nothing; 0: it does */
	bool closed;	    /* that counts */
	pthread_t watch;
	bool watching;
	uint64_t overdue_logged_us;	/* the watch's: that no checkpoint comes; 0: it does */
	bool loads;			/* what this node begins with; it sends no heartbeats meanwhile */
	uint64_t loading;		/* of a checkpoint its share; 0: of none, what its journal has alone */
	struct control_history history; /* of its journal, as this node began; then as the cluster's is */
	bool history_settled;		/* it is known; the follower's, and PS task 0's: as others know it, too */
	int64_t clock_offset_us;	/* of the kernel's date from its clock, as this node began */
	/* PS task 0 */
	struct cluster_node *nodes; /* ps_count */
	struct checkpointer checkpointer;
	bool ids_unsure; /* an earlier PS task 0 may have given ids that this one does not know of */
	struct control_queues queues;
	uint64_t queue_changes; /* goes up with each that a standby is to have */
	bool queues_left_out;	/* the sender's: they are too large for a standby */
	uint64_t begins_with;	/* the checkpoint that nodes which come now begin with; 0: none */
	uint64_t rolled_back_to;
	/* of a pair: why there is no layout; "": there may be one. And how often the catalogue or the layout has
	 * changed. */
	char pair_waits[CONTROL_STATE_MAX];
	uint64_t version;
	uint64_t changed[WIRE_OBJECTS_MAX + 1]; /* by id: the version in which it came or went */
	uint64_t pair_generation;	    /* under which it serves, in a cluster of several tasks; 0: it does not */
	char pair_alone[CONTROL_ALONE_MAX]; /* why it has no standby; "": it has one, or is in no pair */
	struct control_handed handed;	    /* of a standby, by its primary */
	struct layout_standby own_standby;  /* of a task other than 0: that PS task 0 is to know of */
	struct executor_job lay_out_job;
	/* Its part of a checkpoint, as that was begun and not ended; id 0: none. Holders of plane. */
	struct {
		uint64_t id;
		uint32_t epoch;
	} part;
	struct executor_job part_job;
	bool rolls_back;      /* to begins_with: all nodes are told to restart, and none is let in */
	uint32_t epoch_floor; /* the highest epoch that a node brought along from an earlier PS task 0 */
	uint32_t ids_given;   /* the highest id that a node may hold which has not heard that it was given back */
	uint32_t generations[WIRE_OBJECTS_MAX + 1]; /* of each id the next one: what has an earlier one was dropped */
	uint64_t drops;				    /* of tables, so far: begins and ends */
	bool dropping;				    /* one is under way */
	bool layout_due;			    /* nodes have changed since the epoch was given */
	char misfit[sizeof(((struct star_error *)0)
				   ->text)]; /* why there can be no layout of the nodes as they are; "": there can */
	/* the others */
	bool joined;
	bool leader_second; /* of its two control addresses PS task 0 is looked for at the second; any thread looks */
	uint64_t leader_generation; /* the highest under which a node of its pair has answered */
	uint32_t leader_incarnation;
	bool leader_on_stop;	 /* checkpoint.on_stop is true there, so it is for all */
	uint64_t leader_seen_us; /* 0: never */
	char follower_error[sizeof(((struct star_error *)0)->text)]; /* why it has not joined; "" when it has */
	/* PS task 0 pushed a layout before this node had joined: the next heartbeat asks for it at once */
	bool layout_missed;
	bool unsaid; /* what a join says has changed since the last one was put together, which may be under way */
};

/* node.c: what every node does. */
void control_ps_address(const struct control *control, uint32_t task, char text[static CONTROL_ADDRESS_MAX]);
bool control_is_stopping(struct control *control);
/* PS task 0 was not there, or does not serve, where it was looked for: it is looked for at its other address, if it has
 * two, and nobody else has found that out meanwhile. */
void control_leader_turn(struct control *control, bool was_second);
/* Whether that is what an answer, or the lack of one, says. */
bool control_leader_elsewhere(int code);
/* Asks PS task 0, at both of its addresses if need be; takes params. NULL with err. */
json_t *control_leader_call(struct control *control, enum control_caller caller, const char *method, json_t *params,
			    uint64_t deadline_us, struct star_error *err);
/* A connection to another node, from this node's own control address. */
struct jsonrpc_client *control_connect(const struct control *control, uint32_t task, uint64_t deadline_us,
				       struct star_error *err);

/* jsonrpc_call, which a stop of the node interrupts. */
json_t *control_call(struct control *control, enum control_caller caller, struct jsonrpc_client *client,
		     const char *method, json_t *params, uint64_t deadline_us, struct star_error *err);

/* Sets stopping, and ends every call and pause of the other threads. */
void control_stop(struct control *control);

/* Waits for ms, until `until` holds (under lock, told by wake; NULL: nothing), or until it is time to stop: then
 * false. */
bool control_pause(struct control *control, uint32_t ms, const bool *until);

/* Under lock. NULL when there is none. */
const struct object_spec *control_find(const struct control *control, const char *name);

/* Under lock. -EHOSTDOWN: the node is one of a pair, and does not serve; whoever asks is to ask the other one. */
int control_pair_serves(const struct control *control, struct star_error *err);

/* Under lock, where the cluster has several tasks: and not if it may have lost its place, because its lease is over. */
int control_pair_leads(const struct control *control, struct star_error *err);

/* leader.c: calls `install` of another node; how long that may take. */
int control_leader_tell(struct control *control, uint32_t task, json_t *params, uint64_t deadline_us,
			struct star_error *err);
uint64_t control_leader_deadline_us(const struct control *control);

/* undo.c: whether all nodes that an object has to be brought to have been heard of lately: who waits for a dead one
 * keeps everybody else waiting; and the end of a create that failed with this code on one node. */
int control_leader_all_heard(struct control *control, const struct object_spec *spec, struct star_error *err);
void control_leader_undo(struct control *control, const struct object_spec *spec, int code);

/* Takes an object out of the catalogue, and programs that work on it. why: for the log. */
void control_forget(struct control *control, uint32_t id, const char *why);
/* A line of the log: a node was restarted. checkpoint: what it begins with its share of; 0: with nothing. journal: and
 * goes on from what its journal has after that. */
void control_tell_restart(uint32_t task, uint64_t checkpoint, bool journal);
/* Another one: its standby serves in its place. */
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

/* 1 when the node has this very object, 0 when it could be added, -EEXIST when name or id are taken. Takes lock. */
int control_compare(struct control *control, const struct object_spec *spec, struct star_error *err);

/* Installs an object with an id and adds it to the catalogue; 0 as well when it is there already. Takes both locks. */
int control_install(struct control *control, const struct object_spec *spec, struct star_error *err);

/* Serves a layout, unless the one served is as new. Takes both locks. */
int control_set_layout(struct control *control, const struct control_layout *layout, struct star_error *err);

/* tables.c: objects in the order of their ids, from `from` on, as many as one message may have; *next: where the next
 * page begins, 0: this is the last one. Takes lock. */
json_t *control_objects_page(struct control *control, uint32_t from, uint32_t *next);
/* -ENOENT, and the nearest name. Under lock. */
int control_unknown_table(const struct control *control, const char *name, struct star_error *err);
/* "tables": {"name": one table}, {"from": the first id of a page}, or {}: all of them, if one message has them. With
 * their figures on this node as "stats", and without programs. Takes lock. */
int control_tables(struct control *control, const json_t *params, json_t **result, struct star_error *err);
/* One table or variable with its figures, those of each reactor too. NULL with err: there is none of that name. */
json_t *control_table_json(struct control *control, const char *name, struct star_error *err);

/* The table or variable of that name; NULL with -ENOENT and the nearest name. Under lock. */
const struct object_spec *control_table(const struct control *control, const char *name, struct star_error *err);

/* The same for those without it. Takes lock. */
const struct object_spec *control_table_by_name(struct control *control, const char *name, struct star_error *err);

/* handle.c: a table of which a caller has the name, or, `exact`, a handle too: no other of the name is meant. */
struct control_handle {
	const char *name;
	uint32_t id, generation;
	bool exact;
};

/* Members "name", and, together, "id" and "generation". */
int control_handle_read(const json_t *params, struct control_handle *handle, struct star_error *err);
/* NULL with -ENOENT: there is none, or another by now. Under lock. */
const struct object_spec *control_handle_table(const struct control *control, const struct control_handle *handle,
					       struct star_error *err);

/* Begins a full pass of eviction on this node. Takes both locks. */
int control_sweep(struct control *control, const char *name, struct star_error *err);

/* Begins to delete all rows on this node, or only adds to *left how many are left. Takes both locks. */
/* Before a change of the catalogue is told: it is to outlive the node, where replies promise that. done, may: what was
 * done, and what may come of it; again: what to do. */
int control_catalogue_durable(struct control *control, const char *name, const char *done, const char *may,
			      const char *again, struct star_error *err);
int control_empty(struct control *control, const char *name, bool begin, uint64_t *left, struct star_error *err);

/*
 * leader.c: PS task 0. On the executor's thread: create, sweep, join, lay_out. On any: the others. Parameters are
 * checked; a wrong one is JSONRPC_INVALID_PARAMS.
 */
int control_leader_create(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_leader_join(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_leader_heartbeat(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_leader_layout(struct control *control, json_t **result, struct star_error *err);
int control_leader_lookup(struct control *control, const char *name, json_t **result, struct star_error *err);
int control_leader_sweep(struct control *control, const char *name, json_t **result, struct star_error *err);
/* Calls `install` of another node; *result: what it has answered, a new reference. Takes params. */
int control_leader_ask(struct control *control, uint32_t task, json_t *params, json_t **result, struct star_error *err);
int control_leader_lay_out(struct control *control, uint32_t except, struct star_error *err);
/* 0 when there is a layout that all nodes are to serve. Under lock. */
int control_leader_complete(const struct control *control, struct star_error *err);
/* 0 when workers may have it, too: no node is about to stop. Under lock. */
int control_leader_laid_out(const struct control *control, struct star_error *err);
/* Installs an object under its id, here. */
int control_leader_adopt(struct control *control, const struct object_spec *spec, struct star_error *err);

/* control.c: the catalogue of what the cluster begins with. */
int control_begin_with(struct control *control, struct star_error *err);

/* security.c: keys, roles, and what is written down of who came. */
int control_security_create(struct control *control, struct star_error *err);
void control_security_destroy(struct control *control);
/* How a new connection to another node is to say who this one is: for secure_keys_free; *keys NULL: in clear. */
int control_security_own(const struct control *control, struct secure_keys **keys, struct star_error *err);
/* What a line server is told. */
char *control_security_in_clear(void *ctx);
void control_security_quotas(void *ctx, const struct secure_key *principal, struct secure_quotas *quotas);
/* A request has come, of which err may be NULL: 0, or its sender is over a quota. */
int control_security_ask(struct line_connection *connection, struct star_error *err);
void control_security_came(void *ctx, const struct line_connection *connection, const char *refused);
/* Whether who is at the other end may call a method that is for those roles. */
int control_security_check(const struct control *control, const struct line_connection *connection, const char *method,
			   unsigned roles, struct star_error *err);
/* A line of the audit log: what came of a request. From any thread: fill is on the server's. */
/* Whether a worker or reader has one of these rights (secure/rights.h) to a table, where security.rights names a file;
 * what the other roles may is said by the role alone. */
int control_security_table(const struct control *control, const struct line_connection *connection, const char *method,
			   uint8_t one_of, const char *table, struct star_error *err);
void control_security_fill(const struct line_connection *connection, struct audit_event *event);
void control_security_note(const struct control *control, struct audit_event *event, const char *method, int code,
			   const char *text);
/* "acl_check" and "key_reload"; roles_of: the roles of a method, or -1. */
int control_security_acl(struct control *control, const json_t *params, int (*roles_of)(const char *method),
			 json_t **result, struct star_error *err);
/* Who has come, and what it uses; on the server's thread. */
int control_security_usage(const struct control *control, const struct line_connection *connection,
			   const json_t *params, json_t **result, struct star_error *err);
int control_security_reload(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_security_ticket(struct control *control, const struct line_connection *connection, json_t **result,
			    struct star_error *err);
json_t *control_security_json(const struct control *control);
/* How its data network is protected. */
enum secure_data control_security_data(const struct control *control);

/* metrics.c: {"from": the first family}: {"text", "next": the first of the next page, where there is one}. At any
 * time. */
int control_metrics_page(struct control *control, const json_t *params, json_t **result, struct star_error *err);
/* health.c: {"healthy", "state", "problems": [messages]}; a new reference. At any time. */
json_t *control_health_json(struct control *control);
/* How far the date is from the clock that nobody sets. */
int64_t control_health_clock_offset_us(void);
/* A follower's: PS task 0 was heard, and is not heard any more. Under lock. */
bool control_health_leader_is_away(const struct control *control);
/* Whether a periodic checkpoint should have been written; how long ago the last one was, and how often one is due.
 * Under lock. */
bool control_health_checkpoint_overdue(const struct control *control, double *age_s, uint32_t *every_s);

/* checkpoint.c: PS task 0's thread that has checkpoints written, and what it asks of the other nodes. */
int control_checkpointer_start(struct control *control, struct star_error *err);
void control_checkpointer_join(struct control *control); /* after control_stop */
/* Once a second: begins one if the node wants it. */
void control_checkpointer_look(struct control *control);
/* Asks for one; kind is "full", "delta" or "auto". -EBUSY with a message when one is under way. */
int control_checkpointer_save(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_checkpointer_status(struct control *control, json_t **result, struct star_error *err);
/* On every node: {"begin": {...}}, {"end": {...}}, {"restart": {...}} or {}: how far it is. */
int control_checkpointer_part(struct control *control, const json_t *params, json_t **result, struct star_error *err);
/* Another layout is installed: a part that was begun under the one before is given up. The holder of the plane. */
void control_checkpointer_note_layout(struct control *control);
/* Asks a node that; steals params. Its state, a new reference, or NULL with the node's name in err. */
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
/* For a checkpoint, taken before it begins: what is done by then was pushed before. A new reference. */
json_t *control_queues_keep(struct control *control);
/* Those of the checkpoint that the cluster begins with. */
int control_queues_begin(struct control *control, struct star_error *err);

/* restore.c: PS task 0 has the cluster roll back to a checkpoint. The first is the method, the second the
 * checkpointer's thread. */
int control_restore_ask(struct control *control, const json_t *params, json_t **result, struct star_error *err);
void control_restore_run(struct control *control);
/* A node has come again: what it is to begin with, if that is still in order, or else what is. */
int control_restore_look_again(struct control *control, struct star_error *err);
/* Has all nodes roll back to what they would begin with. False: they do not restore checkpoints, or there is none.
 * Under lock. */
bool control_restore_together(struct control *control);

/* places.c: whether the nodes as they are now can have a layout by which each that holds rows keeps them. 0; -EAGAIN:
 * not so, and all nodes roll back to a checkpoint; -EINVAL: nor is there one, and err says what to do. Takes lock. */
int control_places_check(struct control *control, struct star_error *err);
/* All nodes hold their rows by the layout that was made. Under lock. */
void control_places_note(struct control *control);

/* leave.c: at PS task 0 another node says that it is about to stop, again and again until it may. */
int control_leave_take(struct control *control, const json_t *params, json_t **result, struct star_error *err);

/* On every node: its part of a checkpoint begins and ends, and it serves a layout. Holders of the plane. */
void control_leave_note_begin(struct control *control, const struct control_checkpoint *c);
void control_leave_note_end(struct control *control, uint64_t id, bool kept);
void control_leave_note_layout(struct control *control);
/* What PS task 0 has answered, asked at that time: whether there is a last checkpoint. If not, the node serves
 * again. */
void control_leave_look(struct control *control, bool closing, uint64_t asked_us);

/* watch.c: logs which nodes are away, which are back, and what else should be known. */
/* Puts into a node's JSON how long it has not been heard, and if that is too long, since when. */
/* ... and whether one has been silent for so long that it is; and whether it is reported, which comes after that. Under
 * lock. */
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

/* empty.c: a table is emptied on all nodes; the second is what PS task 0 calls on another node. On the executor's
 * thread. */
int control_leader_empty(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_follower_empty(struct control *control, const json_t *params, json_t **result, struct star_error *err);

/* empty.c: whether a node was not heard lately; "emptied": what cannot be done then. Under lock. */
int control_leader_check_heard(const struct control *control, const char *name, const char *what,
			       struct star_error *err);
/* Asks for a checkpoint, as older ones have what is gone. False: one is being written that may have begun before. */
bool control_leader_ask_checkpoint(struct control *control);

/* history.c: PS task 0 knows the history of the cluster, as all nodes have joined; and a node has said that it has
 * begun. Under lock. */
struct control_join;
void control_history_settle(struct control *control);
void control_history_begun(struct control *control, const struct control_join *join);

/* drop.c: a table is dropped on all nodes; and what was dropped before is known again after a start. */
int control_leader_drop(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_leader_bring_back(struct control *control, struct star_error *err);
int control_leader_begin_drops(struct control *control, struct star_error *err);
/* The generation that an id is given next. Under lock. */
uint32_t control_leader_generation(const struct control *control, uint32_t id);
/* No node holds or refuses what is not in the catalogue any more. Under lock. */
void control_leader_clear_forgotten(struct control *control);
/* On the others: PS task 0 says what is gone. */
int control_follower_forget(struct control *control, const json_t *params, struct star_error *err);

/* ports.c: the node's own ports. */
int control_ports_add(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_ports_remove(struct control *control, const json_t *params, json_t **result, struct star_error *err);

/* rows.c: the keys of a table's rows that a reactor has, and rows themselves. */
int control_rows_keys(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int control_rows_read(struct control *control, const json_t *params, json_t **result, struct star_error *err);

/* observed.c: what the node remembers. */
int control_observed(struct control *control, enum control_observed_what what, const json_t *params, json_t **result,
		     struct star_error *err);
/* The last events: {"node", "events": [...]}. */
int control_events(struct control *control, const json_t *params, json_t **result, struct star_error *err);

/* origin.c: whether cluster.ps has a caller's address, under that task. The executor must be there before, and be gone
 * after. */
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
