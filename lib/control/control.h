/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node's control plane: JSON-RPC 2.0, one object a line, on the administrator's Unix socket and on the control
 * address (kernel TCP). It runs on threads of its own and never touches a reactor's memory: what it wants of the data
 * plane it asks through struct control_data_plane, whose functions the appliance provides.
 *
 * PS task 0 owns the catalogue and the layout; the others join it, and get both from it. Methods, with their parameters
 * and results, are described in docs/control.rst.
 */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/steering.h"
#include "config/config.h"
#include "metrics/openmetrics.h"
#include "star_error.h"
#include "wire/object.h"

/* How long a node may take to stop: whoever waits for one (--local, the unit's TimeoutStopSec) waits for so long before
 * it kills it. */
enum control_stop {
	CONTROL_DRAIN_S = 60, /* for a last checkpoint */
	CONTROL_END_S = 60,   /* after that, for threads that wait for their storage */
	CONTROL_STOP_S =
		CONTROL_DRAIN_S + CONTROL_END_S + 10, /* the last question to PS task 0 may take some seconds */
};

/* Which connections of the data plane an administrator asks for. */
struct control_connections {
	int reactor;	   /* -1: of all */
	const char *state; /* as `ss` writes it; NULL: in all */
	const char *peer;  /* "address" or "address:port"; NULL: of all */
	uint32_t limit;	   /* of how many it is told */
};

enum { CONTROL_CHECKPOINT_NAME = 80 };
enum { CONTROL_CONNECTIONS_MAX = 10000, CONTROL_CONNECTIONS_USUAL = 1000 };

/* Whose keys, and from where on: 0 at the beginning, and again after the last. */
struct control_row_keys {
	uint32_t reactor;
	uint64_t at;
};

enum {
	CONTROL_ROWS_KEYS = 2048,     /* of one request for rows: within what a peer's line may have */
	CONTROL_ROWS_BYTES = 4 << 20, /* of digits in a reply, and those of a step more */
	CONTROL_ROWS_US = 500000,     /* for one reply: others wait for the same thread */
	CONTROL_DURABLE_US = 4000000, /* rows_durable, where PS task 0 asks other tasks: less than it waits for one */
};

/* What is asked of the requests that reactors remember. */
enum control_observed_what { CONTROL_LATENCY, CONTROL_SLOW, CONTROL_TRACE, CONTROL_HOT, CONTROL_HISTORY };
struct control_observed {
	enum control_observed_what what;
	int reactor;	  /* slow: -1: all; trace */
	uint32_t limit;	  /* slow, hot: of how many it is told */
	uint32_t seconds; /* slow, latency, history: of how many, up to now; 0: since the node began */
	uint64_t from;	  /* trace: the number of the first record, from 0 */
};
enum { CONTROL_SLOW_MAX = 100, CONTROL_SLOW_USUAL = 10, CONTROL_SLOW_SECONDS = 60 };

/* A checkpoint under way. */
struct control_checkpoint {
	uint64_t id, parent;		    /* parent 0: a full one */
	char name[CONTROL_CHECKPOINT_NAME]; /* of the folder that it is written into, in the directory of checkpoints */
	uint32_t epoch; /* of the layout: it counts only if that is the same from the begin to the end, on all nodes */
	bool last;	/* a node is about to stop: nobody takes requests from the instant on, unless it fails */
	uint32_t keep;	/* full ones, where that is more than checkpoint.keep */
	uint32_t sum;	/* of the manifest by which it counts */
};

/* Where a node that keeps a journal stands in the history of its cluster. */
struct control_history {
	bool kept;	     /* it keeps one; else nothing of this matters */
	bool recovers;	     /* it has lives to go on from, so that workers may come to know it as what it was */
	bool applies;	     /* PS task 0: it goes on from the checkpoint that the cluster begins with, ... */
	bool asked_for;	     /* ... which was asked for by its id, and all that came after it is to be forgotten */
	uint64_t lineage;    /* PS task 0: of its checkpoints */
	uint64_t taken_back; /* how often the cluster was taken back to a checkpoint, as far as it knows */
	uint32_t epoch;	     /* of the last layout that it was to serve; 0: none */
};

struct secure_tickets;
struct secure_usage;

/* What a node is to serve. */
struct control_layout {
	uint32_t epoch;
	uint32_t cluster_reactors; /* of all nodes */
	uint32_t first_reactor;	   /* of this node, among them */
	uint64_t checkpoint;	   /* that a node loads its share of which has served no layout yet; 0: none */
	uint64_t lineage;	   /* of the cluster's checkpoints, and ... */
	uint64_t taken_back;	   /* ... how often it was taken back to one, where it keeps journals */
};

/* Called on control threads, one at a time (install, forget, set_layout, sweep, empty, row_keys, rows, connections,
 * capture, capture_take, port_add, port_remove), on the thread that sees to checkpoints or the executor
 * (checkpoint_*), or at any time (the others). */
struct control_data_plane {
	void *ctx;
	/*
	 * Makes the object known to every reactor, and returns when all have it. 0 or a negative errno with a message;
	 * then no reactor has it, and its id may come again with another object. The spec stays valid as long as the
	 * control plane.
	 */
	int (*install)(void *ctx, const struct object_spec *spec, struct star_error *err);
	/* The object is gone from the catalogue: it was dropped, or its create failed on another node. Its reactors
	 * know nothing of it when this returns, or do so soon, after a large request; its id may come again with
	 * another object. NULL: there is nothing to do. */
	void (*forget)(void *ctx, uint32_t id);
	/* PS task 0: remembers beyond a restart what was dropped, if checkpoints are kept: of each id the next
	 * generation that it is given, WIRE_OBJECTS_MAX + 1 of them. 0 or a negative errno with a message. And reads
	 * it, after `restored`: of the cluster that wrote the checkpoint it said. NULL: nothing is remembered. */
	int (*dropped_write)(void *ctx, const uint32_t *generations, struct star_error *err);
	int (*dropped_read)(void *ctx, uint32_t *generations, struct star_error *err);
	/* PS task 0: an administrator rolls back to that checkpoint, and so what was dropped since is there again. */
	int (*bring_back)(void *ctx, uint64_t id, struct star_error *err);
	/* Tells every reactor the layout that this node is to serve; before the first one, its share of the checkpoint
	 * is loaded. */
	int (*set_layout)(void *ctx, const struct control_layout *layout, struct star_error *err);
	/* What workers name the node by, once it serves a layout: it may be what an earlier process had, whose journal
	 * it has applied. NULL: what control_options says. */
	uint32_t (*incarnation)(void *ctx);
	/* Where the node's journal stands; once, before its first layout, and at PS task 0 after `restored`. 0 or a
	 * negative errno with a message. NULL: it keeps none. */
	int (*history)(void *ctx, struct control_history *history, struct star_error *err);
	/* A node of a pair has taken its primary's place, and serves. NULL: there is nothing to do. */
	void (*took_over)(void *ctx);
	/* Begins a full pass of eviction over a table of the catalogue, on every reactor. 0 or a negative errno with a
	 * message. */
	int (*sweep)(void *ctx, const struct object_spec *spec, struct star_error *err);
	/* Begins to delete all rows of a table of the catalogue, on every reactor, or with begin false does nothing;
	 * adds to *left how many are left, about: 0 when it is done. 0 or a negative errno with a message. */
	int (*empty)(void *ctx, const struct object_spec *spec, bool begin, uint64_t *left, struct star_error *err);
	/* The next keys of rows that a reactor has of a table, appended to an array. 0 or a negative errno with a
	 * message. */
	int (*row_keys)(void *ctx, const struct object_spec *spec, struct control_row_keys *which, json_t *keys,
			struct star_error *err);
	/* Appends to an array, for the first of these keys, at least one: the row as a checkpoint has it, in
	 * hexadecimal digits, or null, if the node has none. Changes nothing, and counts as no pull. 0 or a negative
	 * errno with a message. */
	int (*rows)(void *ctx, const struct object_spec *spec, const uint64_t *keys, uint32_t count, json_t *records,
		    struct star_error *err);
	/* The figures of one table or variable of the catalogue, over the node's reactors, and with by_reactor those of
	 * each, a list `reactors`; and the node's. New references. */
	json_t *(*object_status)(void *ctx, const struct object_spec *spec, bool by_reactor);
	json_t *(*status)(void *ctx);
	/* Adds what a principal uses of the data network. From any thread, at any time. NULL: it has none. */
	void (*usage)(void *ctx, const char *principal, struct secure_usage *usage);
	/* Writes the data plane's family of metrics of that number, over these tables; false: there is none from it on.
	 * From any thread, at any time. NULL: it has none. */
	bool (*metrics)(void *ctx, unsigned number, const struct object_spec *const *tables, uint32_t count,
			const struct openmetrics_page *page);
	/* {"connections": [...], "more": whether there are more than limit}; a new reference. 0 or a negative errno
	 * with a message. */
	int (*connections)(void *ctx, const struct control_connections *which, json_t **result, struct star_error *err);
	/* What the reactors remember of requests, as docs/control.rst says; a new reference. 0 or a negative errno with
	 * a message. From any thread, at any time. */
	int (*observed)(void *ctx, const struct control_observed *which, json_t **result, struct star_error *err);
	/* Begins to capture frames, as docs/control.rst says; and takes what there is of them, or ends it. New
	 * references. 0 or a negative errno with a message. NULL: it cannot. */
	int (*capture)(void *ctx, const json_t *params, json_t **result, struct star_error *err);
	int (*capture_take)(void *ctx, const json_t *params, json_t **result, struct star_error *err);
	/* Opens a port on every reactor. number: of its name, -1: the lowest that is free. 0 with {"name": ...}, or a
	 * negative errno with a message; then there is no trace of it. */
	int (*port_add)(void *ctx, const struct config_port *port, int number, json_t **result, struct star_error *err);
	/* Takes a port away: {"name": ..., "connections": how many were ended}. */
	int (*port_remove)(void *ctx, const char *name, json_t **result, struct star_error *err);
	/* All ports, as in status; at any time. */
	json_t *(*ports)(void *ctx);
	/* PS task 0: which checkpoint nodes are to begin with, none younger than *id where that is not 0. There is
	 * none: 0 with *id 0. specs may be NULL; otherwise it gets the checkpoint's objects, to be freed. */
	int (*restored)(void *ctx, uint64_t *id, struct object_spec **specs, uint32_t *count, struct star_error *err);
	/* The work queues that a checkpoint has, as checkpoint_commit was given them: a new reference, or NULL where it
	 * has none. The function may be NULL. */
	int (*restored_queues)(void *ctx, uint64_t id, json_t **queues, struct star_error *err);
	/* PS task 0: makes the next checkpoint's folder, and fills in id and name. */
	int (*checkpoint_new)(void *ctx, struct control_checkpoint *checkpoint, struct star_error *err);
	/* Begins to write the node's part, and returns. One that is under way is given up first. -EAGAIN: this would
	 * have to be a full one. */
	int (*checkpoint_begin)(void *ctx, const struct control_checkpoint *checkpoint, struct star_error *err);
	/* {"id", "loading": whether it has yet to serve its first layout, "restored": rows of the checkpoint that it
	 * began with, "state": "idle", "writing", "written" or "failed", "rows", "left", "bytes", "copied", "waited"},
	 * and "files" or "error"; at any time. */
	json_t *(*checkpoint_state)(void *ctx);
	/* It counts as written now, by a manifest of that sum, and the next delta goes on from it; or it is given up.
	 * Holders of the plane. */
	void (*checkpoint_end)(void *ctx, uint64_t id, bool kept, uint32_t sum);
	/* PS task 0: makes it count, with the files of all nodes (those of their states), the catalogue and the work
	 * queues, and notes the manifest's sum; removes what is older than is to be kept. Or removes it. */
	int (*checkpoint_commit)(void *ctx, struct control_checkpoint *checkpoint, uint32_t cluster_reactors,
				 const struct object_spec *const *specs, uint32_t count, const json_t *files,
				 const json_t *queues, struct star_error *err);
	void (*checkpoint_abandon)(void *ctx, const struct control_checkpoint *checkpoint);
	/* Whether one should be begun, though none is due: the node's journal has no room without. At any time, under
	 * locks. NULL: never. */
	bool (*checkpoint_wanted)(void *ctx);
	/* PS task 0: reads all of a checkpoint that the cluster is to roll back to, and of those that it goes on from;
	 * *id 0: the newest, which it says then. */
	int (*checkpoint_check)(void *ctx, uint64_t *id, struct star_error *err);
	/* Once a second, on a thread of its own: to log what an administrator should know. NULL: nothing. */
	void (*watch)(void *ctx);
	/* Asks the appliance to restart, with that checkpoint; returns at once. */
	void (*roll_back)(void *ctx, uint64_t id);
	/* Asks the appliance to stop; returns at once. */
	void (*shutdown)(void *ctx);
	/* No request is begun from now on. Holders of the plane. */
	int (*close)(void *ctx, struct star_error *err);
	/* Return when the catalogue of that version (control_pair_version), or all changes of rows so far, outlive the
	 * node, where replies promise that (durability), or after some seconds. 0, or a negative errno with what it
	 * waits for: then nobody knows whether they do. NULL: they do. */
	int (*catalogue_durable)(void *ctx, uint64_t version, struct star_error *err);
	int (*rows_durable)(void *ctx, struct star_error *err);
	/* A node of a pair: whether the other one cannot have taken its place. NULL: it is in none. At any time, under
	 * locks. */
	bool (*leads)(void *ctx);
	/* The same: it is to take the other one's place. NULL: it is in none. */
	int (*promote)(void *ctx, json_t **result, struct star_error *err);
};

struct control_options {
	const struct config *config; /* must outlive the control plane */
	uint32_t incarnation;	     /* not 0 */
	struct steering steering;    /* of its data address; entries 0: none */
	/* the checkpoint that the cluster was told to roll back to, as this node began; 0: none */
	uint64_t rolled_back_to;
	/* a node of a pair: it makes no layout before control_pair_lead */
	bool pair;
	struct control_data_plane data_plane;
	/* those that the data plane takes; they outlive the control plane. NULL: whoever comes there gets in */
	struct secure_tickets *tickets;
};

struct control;

/* Opens both sockets and starts serving. NULL with err (address in use: which one, and what to do). */
struct control *control_create(const struct control_options *options, struct star_error *err);

/* Whether the node serves a layout that workers may have, and how it stands, for people; at any time. */
enum { CONTROL_STATE_MAX = 160 };
bool control_serves(struct control *control, char state[static CONTROL_STATE_MAX]);

/* Writes the family of metrics of that number (lib/metrics/openmetrics.h), the control plane's and the data plane's, or
 * nothing; false: there is none from it on. At any time. */
bool control_metrics(struct control *control, unsigned number, const struct openmetrics_page *page);
/* The control plane's own of that number, which come first; NULL: there is none from it on. */
const struct openmetrics_family *control_metric(unsigned number);

/* Whether all is well with the node and, at PS task 0, with the cluster; text: what is wrong, or that nothing is. At
 * any time. */
enum { CONTROL_HEALTH_MAX = 512 };
bool control_healthy(struct control *control, char text[static CONTROL_HEALTH_MAX]);

/* ---- a node of a pair: pair.c. On the pair's thread. ---- */

struct secure_ring;
struct secure_keys;

/* Why it serves nothing at present, for people. Until control_pair_lead, or control_pair_lead_again. */
void control_pair_waits(struct control *control, const char *why);
/* It is the primary from now on, under that generation: PS task 0 makes a layout whose epoch is above that one, and
 * with `begins` first restores what its checkpoints have; other tasks join. */
int control_pair_lead(struct control *control, uint64_t generation, uint32_t epoch, bool begins,
		      struct star_error *err);
/* The same of a primary that had closed, and has the rows and the layout that it had. */
int control_pair_lead_again(struct control *control, uint64_t generation, struct star_error *err);
/* Why the primary has no standby; "": it has one. At any time. */
void control_pair_alone(struct control *control, const char *why);
/* Of a standby: where its primary's reactors are among those of a cluster of several tasks; 0: it is not known. They
 * are written while nothing else uses the data plane, which rows are read by. */
void control_pair_place(struct control *control, uint32_t *cluster_reactors, uint32_t *first_reactor);
/* It has taken its primary's place, and serves: the data plane does what could wait till then. */
void control_pair_took_over(struct control *control);
/* It serves nothing any more. */
int control_pair_close(struct control *control, const char *why, struct star_error *err);
/* The standby's addresses, which workers are to know; "" and 0: there is none. A layout is made if they are others. */
int control_pair_standby(struct control *control, const char *data_host, uint16_t data_port, const char *address,
			 struct star_error *err);
/* Goes up with each change of what control_pair_catalogue says: objects, generations of what was dropped, epoch. */
uint64_t control_pair_version(struct control *control);
/* The same of the work queues, which come along. */
uint64_t control_pair_queues(struct control *control);
/* The catalogue for the standby, or, as that may be long, what has changed of it after that version, which it has.
 * since CONTROL_PAIR_ALL: all of it. A new reference. */
#define CONTROL_PAIR_ALL UINT64_MAX
json_t *control_pair_catalogue(struct control *control, uint64_t since);
/* Makes the catalogue what another node's is; *epoch as it has it. */
int control_pair_take(struct control *control, const json_t *catalogue, uint32_t *epoch, struct star_error *err);
/* Who gets in; NULL: everybody. And with which keys this node calls others. */
struct secure_ring *control_pair_ring(struct control *control);
int control_pair_keys(struct control *control, struct secure_keys **keys, struct star_error *err);

/* Before it ends: has a last checkpoint of the cluster written, if the configuration says so, within its bound of time;
 * or logs why not: 0, or why. On any node. */
int control_drain(struct control *control);

/* Stops serving, joins the threads, removes the Unix socket. */
void control_destroy(struct control *control);

#endif
