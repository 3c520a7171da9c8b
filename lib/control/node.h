/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a node's control plane, shared by the sources of lib/control alone.
 *
 * Threads: the server's ("control-io": every cheap method), the executor's (create, sweep, join, install), the forwarder's
 * (what a node passes on to PS task 0; of its own, because the answer may need an install here first), on PS tasks other
 * than 0 the follower's, and on a PS task 0 with checkpoints the checkpointer's. Locks: `plane` is held while the data
 * plane is changed, which may take long; `lock` protects the fields below it and is never held during a call that waits.
 * Order: plane, then lock.
 */
#ifndef CONTROL_NODE_H
#define CONTROL_NODE_H

#include <pthread.h>
#include <stdbool.h>

#include "control/control.h"
#include "control/executor.h"
#include "control/jsonrpc.h"
#include "control/line_server.h"
#include "control/object_json.h"

enum control_times {
	CONTROL_PEER_US = 5000000,	/* a call to another node that changes something */
	CONTROL_HEARTBEAT_US = 3000000, /* a heartbeat's reply */
	CONTROL_BEAT_MS = 1000,		/* between heartbeats */
	CONTROL_RETRY_MIN_MS = 50,	/* between tries to join: doubled each time ... */
	CONTROL_RETRY_MAX_MS = 1000,	/* ... up to here */
	CONTROL_PUSH_US = 2000000,	/* telling all nodes a new layout; who misses it learns it by its heartbeat */
	CONTROL_FORWARD_US = 25000000,	/* a request passed on to PS task 0 */
	CONTROL_STALL_US = 30000000,	/* a reader that takes nothing */
	CONTROL_POLL_MS = 50,		/* between questions how far a checkpoint is */
	CONTROL_DRAIN_US = 60000000,	/* a last checkpoint, before a node ends */
};

enum {
	CONTROL_ADDRESS_MAX = sizeof(struct config_address_text),
	CONTROL_QUEUED_MAX =
		16 << 20, /* bytes of requests that wait for a thread; parsed they take many times as much */
};

/* The threads that call other nodes. */
enum control_caller { CALLER_EXECUTOR, CALLER_FORWARDER, CALLER_FOLLOWER, CALLER_CHECKPOINTER, CALLERS };

/* What PS task 0 knows of a node. */
struct cluster_node {
	struct layout_node layout; /* incarnation 0: never heard of */
	bool joined;		   /* it holds the whole catalogue in this incarnation */
	uint64_t seen_us;
	uint64_t holds[WIRE_OBJECTS_MAX / 64 + 1]; /* bit i: it has installed object i */
};

/* What PS task 0 knows of checkpoints; under control.lock but for the thread. */
struct checkpointer {
	pthread_t thread;
	bool running;
	bool woken;		/* somebody has asked for something since the thread looked */
	bool asked, asked_full; /* for one, by somebody */
	bool writing, delta;
	bool asked_restore, restoring;
	uint64_t restore_id; /* 0: the newest */
	bool settle;	     /* a full one is due as soon as there is a layout: the cluster has gone back */
	struct control_checkpoint now;
	uint64_t rows, left, bytes, copied, waited; /* of all nodes, so far */
	uint64_t begun_us, full_us, delta_us;	    /* when the last began */
	/* the last one that counts; id 0: none since this node began */
	struct control_checkpoint last;
	uint64_t last_rows, last_bytes, last_us;
	uint64_t saved, failed;
	char error[sizeof(((struct star_error *)0)->text)]; /* of the last try; "": it went well */
};

struct control {
	const struct config *config;
	struct control_data_plane data_plane;
	struct steering steering;
	uint32_t incarnation;
	uint32_t task;
	uint64_t started_us;
	char socket_path[sizeof(((struct config *)0)->control_socket)];
	uint64_t socket_inode;
	struct line_server *server;
	struct executor *executor, *forwarder;
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
	/* the layout that the data plane serves; epoch 0: none yet */
	uint32_t epoch, cluster_reactors, first_reactor;
	/* PS task 0 */
	struct cluster_node *nodes; /* ps_count */
	struct checkpointer checkpointer;
	uint64_t begins_with; /* the checkpoint that nodes which come now begin with; 0: none */
	uint64_t gone_back_to;
	bool goes_back;	      /* to begins_with: all nodes are told to begin anew, and none is let in */
	uint32_t epoch_floor; /* the highest epoch that a node brought along from an earlier PS task 0 */
	bool layout_due;      /* nodes have changed since the epoch was given */
	/* the others */
	bool joined;
	uint32_t leader_incarnation;
	char follower_error[sizeof(((struct star_error *)0)->text)]; /* why it has not joined; "" when it has */
};

/* node.c: what every node does. */
void control_ps_address(const struct control *control, uint32_t task, char text[static CONTROL_ADDRESS_MAX]);
bool control_is_stopping(struct control *control);

/* jsonrpc_call, which a stop of the node interrupts. */
json_t *control_call(struct control *control, enum control_caller caller, struct jsonrpc_client *client,
		     const char *method, json_t *params, uint64_t deadline_us, struct star_error *err);

/* Sets stopping, and ends every call and pause of the other threads. */
void control_stop(struct control *control);

/* Waits for ms, until `until` holds (under lock, told by wake; NULL: nothing), or until it is time to stop: then false. */
bool control_pause(struct control *control, uint32_t ms, const bool *until);

/* Under lock. NULL when there is none. */
const struct object_spec *control_find(const struct control *control, const char *name);

/* 1 when the node has this very object, 0 when it could be added, -EEXIST when name or id are taken. Takes lock. */
int control_compare(struct control *control, const struct object_spec *spec, struct star_error *err);

/* Installs an object with an id and adds it to the catalogue; 0 as well when it is there already. Takes both locks. */
int control_install(struct control *control, const struct object_spec *spec, struct star_error *err);

/* Serves a layout, unless the one served is as new. Takes both locks. */
int control_set_layout(struct control *control, const struct control_layout *layout, struct star_error *err);

/* All objects, in the order of their ids; with their figures on this node as "stats", then without programs, or without figures.
 * Takes lock. */
json_t *control_objects_json(struct control *control, bool with_stats);

/* Begins a full pass of eviction on this node. Takes both locks. */
int control_sweep(struct control *control, const char *name, struct star_error *err);

/*
 * leader.c: PS task 0. On the executor's thread: create, sweep, join, lay_out. On any: the others. Parameters are checked;
 * a wrong one is JSONRPC_INVALID_PARAMS.
 */
int leader_create(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int leader_join(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int leader_heartbeat(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int leader_layout(struct control *control, json_t **result, struct star_error *err);
int leader_lookup(struct control *control, const char *name, json_t **result, struct star_error *err);
int leader_sweep(struct control *control, const char *name, json_t **result, struct star_error *err);
int leader_lay_out(struct control *control, uint32_t except, struct star_error *err);
json_t *leader_nodes_json(struct control *control);
/* 0 when there is a layout that workers may have. Under lock. */
int leader_laid_out(const struct control *control, struct star_error *err);
/* Installs an object under its id, here. */
int leader_adopt(struct control *control, const struct object_spec *spec, struct star_error *err);

/* checkpoint.c: PS task 0's thread that has checkpoints written, and what it asks of the other nodes. */
int checkpointer_start(struct control *control, struct star_error *err);
void checkpointer_join(struct control *control); /* after control_stop */
/* Asks for one; kind is "full", "delta" or "auto". -EBUSY with a sentence when one is under way. */
int checkpointer_save(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int checkpointer_status(struct control *control, json_t **result, struct star_error *err);
/* On every node: {"begin": {...}}, {"end": {...}}, {"restart": {...}} or {}: how far it is. */
int checkpointer_part(struct control *control, const json_t *params, json_t **result, struct star_error *err);
/* Asks a node that; steals params. Its state, a new reference, or NULL with the node's name in err. */
json_t *checkpointer_ask(struct control *control, uint32_t task, json_t *params, struct star_error *err);
/* Returns 0 when all nodes have answered, and none loads any more. */
int checkpointer_wait_for_all(struct control *control, struct star_error *err);

/* restore.c: PS task 0 has the cluster go back to a checkpoint. The first is the method, the second the checkpointer's thread. */
int restore_ask(struct control *control, const json_t *params, json_t **result, struct star_error *err);
void restore_run(struct control *control);
/* A node has come anew: what it is to begin with, if that is still in order, or else what is. */
int restore_look_again(struct control *control, struct star_error *err);

/* follower.c: the other PS tasks. */
int follower_start(struct control *control, struct star_error *err);
void follower_join(struct control *control); /* after control_stop */
int follower_install(struct control *control, const json_t *params, json_t **result, struct star_error *err);

/* ports.c: the node's own ports. */
int ports_add(struct control *control, const json_t *params, json_t **result, struct star_error *err);
int ports_remove(struct control *control, const json_t *params, json_t **result, struct star_error *err);

/* methods.c: the table of methods; serve is the line server's. */
enum line_outcome methods_serve(void *ctx, struct line_connection *connection, bool admin, const char *line,
				size_t bytes, char **reply);
char *methods_too_long(void *ctx);
char *methods_too_many(void *ctx);

/* Sets err's code to JSONRPC_INVALID_PARAMS and returns that. */
int control_invalid(struct star_error *err);

#endif
