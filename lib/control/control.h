/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node's control plane: JSON-RPC 2.0, one object per line, on the administrator's Unix socket and on the control
 * address (kernel TCP). It runs on threads of its own and never touches a reactor's memory: it accesses the data plane
 * through struct control_data_plane, whose functions the appliance provides.
 *
 * PS task 0 owns the catalogue and the layout; the other tasks join it, and get both from it. docs/control.rst
 * describes the methods, with their parameters and results.
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

/* How long a node may take to stop: programs that stop one (--local, the unit's TimeoutStopSec) wait for this long
 * before they kill it. */
enum control_stop {
	CONTROL_DRAIN_S = 60,				       /* for a last checkpoint */
	CONTROL_END_S = 60,				       /* after that, for threads that wait for their storage */
	CONTROL_STOP_S = CONTROL_DRAIN_S + CONTROL_END_S + 10, /* the last request to PS task 0 may take some seconds */
};

/* The connections of the data plane that an administrator asks for. */
struct control_connections {
	int reactor;	   /* -1: all */
	const char *state; /* as `ss` writes it; NULL: all */
	const char *peer;  /* "address" or "address:port"; NULL: all */
	uint32_t limit;	   /* how many to report */
};

enum { CONTROL_CHECKPOINT_NAME = 80 };
enum { CONTROL_CONNECTIONS_MAX = 10000, CONTROL_CONNECTIONS_USUAL = 1000 };

/* The reactor to read keys from, and the position: 0 at the beginning, and again after the last. */
struct control_row_keys {
	uint32_t reactor;
	uint64_t at;
};

enum {
	CONTROL_ROWS_KEYS = 2048,     /* per request for rows: within the limit of a peer's line */
	CONTROL_ROWS_BYTES = 4 << 20, /* of digits in a reply, plus those of one step */
	CONTROL_ROWS_US = 500000,     /* per reply, because other requests wait for the same thread */
	CONTROL_DURABLE_US = 4000000, /* rows_durable, when PS task 0 asks other tasks: less than it waits for one */
};

/* A query about the requests that reactors have recorded. */
enum control_observed_what { CONTROL_LATENCY, CONTROL_SLOW, CONTROL_TRACE, CONTROL_HOT, CONTROL_HISTORY };
struct control_observed {
	enum control_observed_what what;
	int reactor;	  /* slow: -1: all; trace */
	uint32_t limit;	  /* slow, hot: how many to report */
	uint32_t seconds; /* slow, latency, history: the last this many; 0: since the node started */
	uint64_t from;	  /* trace: the number of the first record, from 0 */
};
enum { CONTROL_SLOW_MAX = 100, CONTROL_SLOW_USUAL = 10, CONTROL_SLOW_SECONDS = 60 };

/* A checkpoint in progress. */
struct control_checkpoint {
	uint64_t id, parent;		    /* parent 0: a full one */
	char name[CONTROL_CHECKPOINT_NAME]; /* the directory that it is written to, in the directory of checkpoints */
	/* of the layout: the checkpoint counts only if that is the same from beginning to end, on all nodes */
	uint32_t epoch;
	/* a node is about to stop: no node takes requests from the instant on, unless the checkpoint fails */
	bool last;
	uint32_t keep; /* full checkpoints to keep, if more than checkpoint.keep */
	uint32_t sum;  /* checksum of its manifest, once it counts */
};

/* The place of a node with a journal in the history of its cluster. */
struct control_history {
	bool kept;	  /* it keeps a journal; otherwise the rest is unused */
	bool recovers;	  /* it has lives to continue, so workers may be able to continue with it */
	bool applies;	  /* PS task 0: its journal continues the checkpoint that the cluster starts from, ... */
	bool asked_for;	  /* ... which was requested by its id, without anything after it */
	uint64_t lineage; /* PS task 0: of its checkpoints */
	/* PS task 0: up to this one, checkpoints later than that which the cluster starts from were abandoned */
	uint64_t passed_over;
	uint64_t taken_back; /* number of the cluster's rollbacks, as far as it knows */
	uint32_t epoch;	     /* of the last layout that it was given; 0: none */
};

struct secure_tickets;
struct secure_usage;

/* The layout that a node serves. */
struct control_layout {
	uint32_t epoch;
	uint32_t cluster_reactors; /* number of all nodes' reactors */
	uint32_t first_reactor;	   /* the number of this node's first one */
	uint64_t checkpoint;	   /* of which a node that has served no layout yet loads its share; 0: none */
	uint64_t lineage;	   /* of the cluster's checkpoints, and ... */
	uint64_t taken_back;	   /* ... the number of its rollbacks, if it keeps journals */
};

/* Of the checkpoints of a cluster: those of other lineages in the directory are not its own. */
struct control_lineage {
	uint64_t id;	 /* 0: it writes none */
	uint64_t began;	 /* the checkpoint that the cluster has begun with; 0: with none */
	uint64_t newest; /* the highest number that one of them has, as far as the node knows; 0: none */
};

/* Called on control threads, one at a time (install, forget, set_layout, sweep, empty, row_keys, rows, connections,
 * capture, capture_take, port_add, port_remove), on the checkpointer's or the executor's thread (checkpoint_*), or at
 * any time (the others). */
struct control_data_plane {
	void *ctx;
	/*
	 * Installs the object on every reactor, and returns when all have it. 0 or a negative errno with a message;
	 * then no reactor has it, and its id may be used again for another object. The spec stays valid as long as the
	 * control plane.
	 */
	int (*install)(void *ctx, const struct object_spec *spec, struct star_error *err);
	/* The object was removed from the catalogue: it was dropped, or its creation failed on another node. The
	 * reactors forget it before this returns, or soon after, when a large request is finished; its id may be used
	 * again for another object. NULL: there is nothing to do. */
	void (*forget)(void *ctx, uint32_t id);
	/* dropped_write: PS task 0 records drops across restarts, if checkpoints are kept: the next generation of each
	 * id, WIRE_OBJECTS_MAX + 1 of them. dropped_read reads them after `restored`, for the cluster that wrote the
	 * checkpoint that this returned. 0 or a negative errno with a message. NULL: nothing is recorded. */
	int (*dropped_write)(void *ctx, const uint32_t *generations, struct star_error *err);
	int (*dropped_read)(void *ctx, uint32_t *generations, struct star_error *err);
	/* PS task 0: an administrator rolls back to that checkpoint, so objects that were dropped since exist again. */
	int (*bring_back)(void *ctx, uint64_t id, struct star_error *err);
	/* Of a pair: the lineage of its cluster's checkpoints; a standby learns that of its primary, with which it goes
	 * on in that one's place. NULL: there are no checkpoints. */
	struct control_lineage (*lineage)(void *ctx);
	void (*follow_lineage)(void *ctx, const struct control_lineage *lineage);
	/* Gives every reactor the layout that this node serves; before the first one, loads its share of the
	 * checkpoint. */
	int (*set_layout)(void *ctx, const struct control_layout *layout, struct star_error *err);
	/* The incarnation by which workers know the node, once it serves a layout: it may be that of an earlier
	 * process, whose journal it has applied. NULL: that of control_options. */
	uint32_t (*incarnation)(void *ctx);
	/* The state of the node's journal; called once, before its first layout, and at PS task 0 after `restored`. 0
	 * or a negative errno with a message. NULL: it has none. */
	int (*history)(void *ctx, struct control_history *history, struct star_error *err);
	/* Starts a full pass of eviction over a table of the catalogue, on every reactor. 0 or a negative errno with a
	 * message. */
	int (*sweep)(void *ctx, const struct object_spec *spec, struct star_error *err);
	/* With begin, starts to delete all rows of a table of the catalogue, on every reactor; adds the approximate
	 * number of remaining rows to *left: 0 when it is done. 0 or a negative errno with a message. */
	int (*empty)(void *ctx, const struct object_spec *spec, bool begin, uint64_t *left, struct star_error *err);
	/* Appends the next keys of a table's rows on a reactor to an array. 0 or a negative errno with a message. */
	int (*row_keys)(void *ctx, const struct object_spec *spec, struct control_row_keys *which, json_t *keys,
			struct star_error *err);
	/* Appends to an array, for at least the first of these keys: the row in the format of checkpoints, as
	 * hexadecimal digits, or null if the node has none. Changes nothing, and does not count as a pull. 0 or a
	 * negative errno with a message. */
	int (*rows)(void *ctx, const struct object_spec *spec, const uint64_t *keys, uint32_t count, json_t *records,
		    struct star_error *err);
	/* The figures of one table or variable of the catalogue, over the node's reactors, and with by_reactor those of
	 * each, as a list `reactors`; and the node's. New references. */
	json_t *(*object_status)(void *ctx, const struct object_spec *spec, bool by_reactor);
	json_t *(*status)(void *ctx);
	/* Adds a principal's use of the data network. From any thread, at any time. NULL: it has none. */
	void (*usage)(void *ctx, const char *principal, struct secure_usage *usage);
	/* Writes the data plane's family of metrics with that number, over these tables; false: there are no more. From
	 * any thread, at any time. NULL: there are none. */
	bool (*metrics)(void *ctx, unsigned number, const struct object_spec *const *tables, uint32_t count,
			const struct openmetrics_page *page);
	/* {"connections": [...], "more": whether there are more than limit}; a new reference. 0 or a negative errno
	 * with a message. */
	int (*connections)(void *ctx, const struct control_connections *which, json_t **result, struct star_error *err);
	/* The reactors' records of requests, as docs/control.rst describes; a new reference. 0 or a negative errno with
	 * a message. From any thread, at any time. */
	int (*observed)(void *ctx, const struct control_observed *which, json_t **result, struct star_error *err);
	/* Starts to capture frames, as docs/control.rst describes; capture_take returns what was captured so far, or
	 * ends it. New references. 0 or a negative errno with a message. NULL: not possible. */
	int (*capture)(void *ctx, const json_t *params, json_t **result, struct star_error *err);
	int (*capture_take)(void *ctx, const json_t *params, json_t **result, struct star_error *err);
	/* Opens a port on every reactor. number: for its name; -1: the lowest free one. 0 with {"name": ...}, or a
	 * negative errno with a message; then nothing of it remains. */
	int (*port_add)(void *ctx, const struct config_port *port, int number, json_t **result, struct star_error *err);
	/* Removes a port: {"name": ..., "connections": how many were ended}. */
	int (*port_remove)(void *ctx, const char *name, json_t **result, struct star_error *err);
	/* All ports, as in status; at any time. */
	json_t *(*ports)(void *ctx);
	/* PS task 0: the checkpoint that nodes start from, none newer than *id if that is not 0. If there is none: 0
	 * with *id 0. specs may be NULL; otherwise it gets the checkpoint's objects, to be freed. */
	int (*restored)(void *ctx, uint64_t *id, struct object_spec **specs, uint32_t *count, struct star_error *err);
	/* PS task 0: the newest checkpoint that counts, if it is a later one than *id, and of that lineage; otherwise
	 * *id stays as it is. 0 or a negative errno with a message. NULL: *id stays. */
	int (*newest)(void *ctx, uint64_t lineage, uint64_t *id, struct star_error *err);
	/* The work queues of a checkpoint, as they were passed to checkpoint_commit: a new reference, or NULL if it has
	 * none. The function may be NULL. */
	int (*restored_queues)(void *ctx, uint64_t id, json_t **queues, struct star_error *err);
	/* PS task 0: creates the next checkpoint's directory, and sets id and name. */
	int (*checkpoint_new)(void *ctx, struct control_checkpoint *checkpoint, struct star_error *err);
	/* Starts to write the node's part, and returns. One in progress is abandoned first. -EAGAIN: this would have to
	 * be a full one. */
	int (*checkpoint_begin)(void *ctx, const struct control_checkpoint *checkpoint, struct star_error *err);
	/* {"id", "loading": whether it has not served its first layout yet, "restored": rows of the checkpoint that it
	 * started from, "state": "idle", "writing", "written" or "failed", "rows", "left", "bytes", "copied",
	 * "waited"}, and "files" or "error"; at any time. */
	json_t *(*checkpoint_state)(void *ctx);
	/* The checkpoint counts now, by a manifest with that checksum, and the next delta is based on it; or it is
	 * abandoned. The caller holds the plane. */
	void (*checkpoint_end)(void *ctx, uint64_t id, bool kept, uint32_t sum);
	/* PS task 0: makes the checkpoint count, with the files of all nodes (from their states), the catalogue and the
	 * work queues, sets the manifest's checksum, and removes older ones beyond those to keep. checkpoint_abandon
	 * removes it. */
	int (*checkpoint_commit)(void *ctx, struct control_checkpoint *checkpoint, uint32_t cluster_reactors,
				 const struct object_spec *const *specs, uint32_t count, const json_t *files,
				 const json_t *queues, struct star_error *err);
	void (*checkpoint_abandon)(void *ctx, const struct control_checkpoint *checkpoint);
	/* Whether a checkpoint should be started although none is due, because the node's journal has no room without
	 * it. At any time, under locks. NULL: never. */
	bool (*checkpoint_wanted)(void *ctx);
	/* PS task 0: reads a whole checkpoint that the cluster is to roll back to, and those that it is based on; *id
	 * 0: the newest, which is returned. */
	int (*checkpoint_check)(void *ctx, uint64_t *id, struct star_error *err);
	/* Once a second, on a thread of its own: logs what an administrator should know. NULL: nothing. */
	void (*watch)(void *ctx);
	/* Requests that the appliance restarts, with that checkpoint; returns at once. */
	void (*roll_back)(void *ctx, uint64_t id);
	/* Requests that the appliance stops; returns at once. */
	void (*shutdown)(void *ctx);
	/* No request is started from now on. The caller holds the plane. */
	int (*close)(void *ctx, struct star_error *err);
	/* Return when the catalogue of that version (control_pair_version), or all changes of rows so far, would
	 * survive the death of the node, if replies promise that (durability), or after some seconds. 0, or a negative
	 * errno with what it waits for: then it is unknown whether they would. NULL: they do. */
	int (*catalogue_durable)(void *ctx, uint64_t version, struct star_error *err);
	int (*rows_durable)(void *ctx, struct star_error *err);
	/* A node of a pair: whether the other node cannot have taken its place. NULL: not in a pair. At any time, under
	 * locks. */
	bool (*leads)(void *ctx);
	/* A node of a pair: takes the other node's place. NULL: not in a pair. */
	int (*promote)(void *ctx, json_t **result, struct star_error *err);
};

struct control_options {
	const struct config *config; /* must outlive the control plane */
	uint32_t incarnation;	     /* not 0 */
	struct steering steering;    /* of its data address; entries 0: none */
	/* the checkpoint that the cluster was rolled back to when this node started; 0: none */
	uint64_t rolled_back_to;
	/* a node of a pair: it makes no layout before control_pair_lead */
	bool pair;
	struct control_data_plane data_plane;
	/* those that the data plane accepts; they must outlive the control plane. NULL: everyone has access there */
	struct secure_tickets *tickets;
};

struct control;

/* Opens both sockets and starts serving. NULL with err (address in use: which one, and what to do). */
struct control *control_create(const struct control_options *options, struct star_error *err);

/* Whether the node serves a layout that workers may have, and its state as a message; at any time. */
enum { CONTROL_STATE_MAX = 160 };
bool control_serves(struct control *control, char state[static CONTROL_STATE_MAX]);

/* Writes the family of metrics with that number (lib/metrics/openmetrics.h), the control plane's or the data plane's;
 * it may be empty. false: there are no more. At any time. */
bool control_metrics(struct control *control, unsigned number, const struct openmetrics_page *page);
/* The control plane's own family with that number, which come first; NULL: there are no more. */
const struct openmetrics_family *control_metric(unsigned number);

/* Whether the node and, on PS task 0, the cluster are healthy; text: the problems, or that there are none. At any
 * time. */
enum { CONTROL_HEALTH_MAX = 1024 };
bool control_healthy(struct control *control, char text[static CONTROL_HEALTH_MAX]);

/* ---- a node of a pair: pair.c. On the pair's thread. ---- */

struct secure_ring;
struct secure_keys;

/* Sets the message that says why it serves nothing at present. Until control_pair_lead, or control_pair_lead_again. */
void control_pair_waits(struct control *control, const char *why);
/* The node is the primary from now on, with that generation: PS task 0 makes a layout whose epoch is above `epoch`, and
 * with `begins` first restores its checkpoint; other tasks join. */
int control_pair_lead(struct control *control, uint64_t generation, uint32_t epoch, bool begins,
		      struct star_error *err);
/* The same for a primary that had closed, and has kept its rows and its layout. */
int control_pair_lead_again(struct control *control, uint64_t generation, struct star_error *err);
/* Sets why the primary has no standby; "": it has one. At any time. */
void control_pair_alone(struct control *control, const char *why);
/* For a standby: what its primary has told it of its place in a cluster of several tasks, without the epoch: the places
 * of its reactors, 0: unknown; and, if nodes keep journals, the number of rollbacks. They are set while nothing else
 * uses the data plane, which needs them to read rows. */
void control_pair_place(struct control *control, struct control_layout *layout);
/* PS task 0 of a cluster of several tasks with journals, about to take its primary's place: learns from the disk what
 * the primary had written there, and may not have told: the newest checkpoint that counts, and what was dropped. Waits
 * for that disk. Returns the checkpoint from which nodes start, and sets *passed_over as in struct control_history. */
uint64_t control_pair_look(struct control *control, uint64_t *passed_over);
/* Calls run while nothing else uses the data plane; it must not wait for a disk. From a thread of the data plane's own,
 * before the control plane ends. */
void control_pair_with_plane(struct control *control, void (*run)(void *ctx), void *ctx);
/* The node serves nothing any more. */
int control_pair_close(struct control *control, const char *why, struct star_error *err);
/* Sets the standby's addresses, which workers get; "" and 0: there is none. A new layout is made if they have
 * changed. */
int control_pair_standby(struct control *control, const char *data_host, uint16_t data_port, const char *address,
			 struct star_error *err);
/* Incremented with each change of what control_pair_catalogue returns: objects, generations of dropped ones, epoch. */
uint64_t control_pair_version(struct control *control);
/* The same for the work queues, which are included. */
uint64_t control_pair_queues(struct control *control);
/* The catalogue for the standby or, because that may be long, its changes since the version that the standby has. since
 * CONTROL_PAIR_ALL: all of it. A new reference. */
#define CONTROL_PAIR_ALL UINT64_MAX
json_t *control_pair_catalogue(struct control *control, uint64_t since);
/* Replaces the catalogue by another node's; *epoch is set to that node's. */
int control_pair_take(struct control *control, const json_t *catalogue, uint32_t *epoch, struct star_error *err);
/* The keys that are accepted; NULL: everyone has access. And the keys with which this node calls others. */
struct secure_ring *control_pair_ring(struct control *control);
int control_pair_keys(struct control *control, struct secure_keys **keys, struct star_error *err);

/* Before the node ends: has a last checkpoint of the cluster written, if configured, within its time limit, or logs why
 * not. 0, or why not. On any node. */
int control_drain(struct control *control);

/* Stops serving, joins the threads, removes the Unix socket. */
void control_destroy(struct control *control);

#endif
