/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node's journal: what it begins with, and what is written down while it serves. docs/availability.rst says what is
 * promised. The control plane's threads only, but for node_journal_turn.
 */
#ifndef STARSERVER_JOURNAL_H
#define STARSERVER_JOURNAL_H

#include <pthread.h>

#include "journal/reader.h"
#include "journal/writer.h"
#include "node/node.h"

/* A checkpoint that counts: its id may come again, after it was lost, with other rows. */
struct journal_counted {
	uint64_t id;
	uint32_t sum; /* of its manifest */
};
enum { JOURNAL_COUNTED_MAX = 64 };

/* What the last life has written down beside its streams. */
struct journal_past {
	struct star_error fault; /* code 0: none; why it cannot be read */
	uint64_t lineage, taken_back;
	uint32_t epoch;
	struct object_spec *specs;
	uint32_t specs_count;
};

struct node_journal {
	struct node *node;
	int folder; /* locked as long as the node lives */
	struct journal_ring *rings[WIRE_REACTORS_MAX];
	struct journal_writer *writers[WIRE_REACTORS_MAX];
	struct journal_contents *contents; /* until it begins; and ... */
	struct journal_past past;
	bool usable, begun, failure_told, removed;
	bool later;	       /* it began with rows: a restart goes on from it once a checkpoint counts */
	bool ended;	       /* it could not begin, ... */
	struct star_error why; /* ... and why */
	uint64_t former_bytes; /* of the files of former lives, as long as they are there */
	bool wants_checkpoint; /* for their sake */
	uint32_t first;	       /* usable: of its lives the one that the checkpoint is in */
	uint64_t chosen;       /* that checkpoint; 0: none */
	uint64_t newest;       /* there is, of any kind */
	bool asked_for;	       /* somebody wants the one that is chosen, and not what came after it */
	uint64_t taken_back;   /* how often the cluster was taken back to one */
	uint32_t epoch;	       /* the last that the node was to serve */
	pthread_mutex_t lock;  /* of the catalogue's file, and of: */
	struct journal_counted counted[JOURNAL_COUNTED_MAX]; /* that the story has seen, in the order of their ids */
	unsigned counted_count;
	size_t catalogue_bytes, added_bytes; /* of that file: as it was written, and behind it */
	struct journal_life life;
	uint64_t kept_id; /* the last checkpoint that counts */
	uint64_t replayed_rows, replayed_bytes;
	double read_s, replayed_s;
};

/* Before the reactors run: takes the folder and makes the rings. After both node_journal_close, when they have
 * ended. */
int node_journal_open(struct node *node, struct star_error *err);
void node_journal_close(struct node *node);

/* journal_choose.c: what the folder has is read, once. */
int node_journal_read(struct node *node, struct star_error *err);
/* The last of the lives that it has; NULL: there is none. Until it begins. */
const struct journal_past_life *node_journal_last_life(const struct node_journal *j);
/* Where the node stands in the history of its cluster: control_data_plane says more. */
int node_journal_history(void *ctx, struct control_history *history, struct star_error *err);
/* A cluster that was taken back to an older checkpoint does not begin with `id`: the checkpoint that it begins with at
 * the latest. */
uint64_t node_journal_at_latest(const struct node *node, uint64_t id);
/* The node is to begin with this checkpoint (0: with nothing): with what the journal has after it, unless the
 * checkpoint was asked for by its id, or the cluster has gone on without the journal since. The catalogue is then that
 * of the journal: *specs and *count are replaced. -ESTALE: it is not what the journal goes on from. */
int node_journal_choose(struct node *node, uint64_t id, bool asked_for, struct object_spec **specs, uint32_t *count,
			struct star_error *err);
/* PS tasks other than 0: the same, for what PS task 0 has chosen. */
int node_journal_follow(struct node_journal *j, const struct control_layout *layout, struct star_error *err);
/* PS task 0: that nobody knows better meanwhile. */
int node_journal_check(const struct node_journal *j, const struct control_layout *layout, struct star_error *err);
/* After the checkpoint was loaded: applies what comes after it, and begins to write. The node's incarnation may be what
 * it was before. */
int node_journal_begin(struct node *node, const struct control_layout *layout, struct star_error *err);

/* The node has taken its primary's place, and serves: a life begins that counts from the next checkpoint on. Where it
 * cannot the node serves without. A holder of the plane. */
void node_journal_take_over(void *ctx);
/* From any thread: whether a restart goes on from it, and replies may wait for it. */
bool node_journal_counts_now(const struct node *node);

/* The node has served before, and is told a layout. False: the cluster was taken back meanwhile, so that it has to
 * begin again. */
bool node_journal_goes_on(struct node *node, const struct control_layout *layout);
/* Its part of a checkpoint is written: returns when its instant is in the journal as well, or that has ended. */
int node_journal_settle(struct node *node, uint64_t id, bool (*goes_on)(void *ctx), void *ctx, struct star_error *err);

/* journal_load.c: applies lives from `first` on. */
int node_journal_apply(struct node *node, const struct control_layout *layout, struct star_error *err);

/* The catalogue has changed: this object has come. And: what has this id is gone. */
void node_journal_installed(struct node *node, const struct object_spec *spec);
void node_journal_forgot(struct node *node, uint32_t id);
/* A checkpoint counts, whose manifest has this sum. */
void node_journal_counts(struct node *node, uint64_t id, uint32_t sum);
/* Whether one should be begun now, though none is due. From any thread. */
bool node_journal_wants_checkpoint(void *ctx);
/* Once a second: removes what is of no use any more, and logs what has failed. */
void node_journal_watch(struct node *node);

/* journal_catalogue.c */
/* A whole file takes the place of the one before, or nothing happens. */
int node_journal_replace_file(const struct node_journal *j, const char *name, const char *text, size_t bytes,
			      struct star_error *err);
void node_journal_add_counted(struct node_journal *j, uint64_t id, uint32_t sum);
const struct journal_counted *node_journal_find_counted(const struct node_journal *j, uint64_t id);
int node_journal_write_catalogue(struct node_journal *j, struct star_error *err);
/* The same behind it: {"object": ...} or {"forget": id}, which is taken. -ENOSPC: so much stands there that it is to be
 * written again. */
int node_journal_add_to_catalogue(struct node_journal *j, json_t *change, struct star_error *err);
/* Into `past` and `counted`. */
int node_journal_read_catalogue(struct node_journal *j, uint32_t story, struct star_error *err);

/* In a reactor's turn: marks, and sessions after an instant. 0: nothing is due. */
unsigned node_journal_turn(struct shard *shard, uint64_t now_ns);

/* journal_status.c. Adds those of all reactors; why it has ended, where it has. */
void node_journal_add(const struct node_journal *j, struct journal_figures *sum, struct star_error *why);
/* Of a reactor; false: there is none. From any thread. */
bool node_journal_figures(const struct node *node, unsigned reactor, struct journal_figures *figures);
/* NULL: there is none. */
json_t *node_journal_status(const struct node *node);

#endif
