/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node's journal: what the node starts from, and what it records while it serves. docs/availability.rst says what is
 * promised. Threads: those of the control plane, except for node_journal_turn.
 */
#ifndef NODE_JOURNAL_H
#define NODE_JOURNAL_H

#include <pthread.h>

#include "journal/reader.h"
#include "journal/writer.h"
#include "node/node.h"

/* A checkpoint. Its id may be used again for other rows, if it was lost or never completed. */
struct journal_checkpoint {
	uint64_t id;
	uint32_t sum;
};
enum { JOURNAL_CHECKPOINTS_MAX = 64 };

/* The last ones, in the order of their ids. */
struct journal_checkpoints {
	struct journal_checkpoint of[JOURNAL_CHECKPOINTS_MAX];
	unsigned count;
};

/* What the last life has recorded apart from its streams. */
struct journal_past {
	struct star_error fault; /* why it cannot be read; code 0: it can */
	bool knows_parts;	 /* false: it was written by a release that did not record its parts of checkpoints */
	uint64_t lineage, taken_back;
	uint64_t began; /* the checkpoint that nodes started from when a life began that has no base */
	uint32_t epoch;
	struct object_spec *specs;
	uint32_t specs_count;
};

struct node_journal {
	struct node *node;
	int folder; /* locked as long as the node runs */
	struct journal_ring *rings[WIRE_REACTORS_MAX];
	struct journal_writer *writers[WIRE_REACTORS_MAX];
	struct journal_contents *contents; /* until the journal begins; and ... */
	struct journal_past past;
	bool usable, begun, failure_told, removed;
	/* not usable, because no checkpoint has counted since the node had taken its primary's place */
	bool too_early;
	/* it began when the node had rows: a restart can use it only after the next checkpoint counts */
	bool later;
	bool ended;	       /* the journal could not begin, ... */
	struct star_error why; /* ... and why */
	uint64_t former_bytes; /* bytes of the files of former lives, as long as they exist */
	bool wants_checkpoint; /* because of these files */
	uint32_t first;	       /* if usable: the life that the checkpoint is in */
	uint64_t chosen;       /* that checkpoint; 0: none */
	uint64_t newest;       /* the newest checkpoint that exists, of any kind */
	/* of a life without a base: the checkpoint that nodes start from, if later ones are passed over */
	uint64_t began;
	bool asked_for;			    /* the chosen one was requested, without what came after it */
	uint64_t taken_back;		    /* number of the cluster's rollbacks */
	uint32_t epoch;			    /* that of the last layout that the node was given */
	pthread_mutex_t lock;		    /* protects the catalogue's file, and: */
	struct journal_checkpoints counted; /* sum: the manifest's */
	/* Those of which the node has written its part, whether or not they were completed. sum: of its files. */
	struct journal_checkpoints parts;
	size_t catalogue_bytes, added_bytes; /* of the catalogue's file as it was written, and of what was appended */
	struct journal_life life;
	/* Of a node that has taken its primary's place: the thread that begins a life, and how far it is
	 * (journal_take.c). */
	pthread_t beginner;
	bool takes;
	unsigned take;
	uint64_t take_us;
	uint64_t kept_id; /* the last checkpoint that counts */
	uint64_t replayed_rows, replayed_bytes;
	double read_s, replayed_s;
};

/* Before the reactors run: locks the directory and creates the rings. After both functions call node_journal_close,
 * when the reactors have ended. */
int node_journal_open(struct node *node, struct star_error *err);
void node_journal_close(struct node *node);

/* journal_choose.c: reads the contents of the directory, once. */
int node_journal_read(struct node *node, struct star_error *err);
/* The last life in the journal; NULL: there is none. Valid until the journal begins. */
const struct journal_past_life *node_journal_last_life(const struct node_journal *j);
/* The node's place in the history of its cluster: see control_data_plane. */
int node_journal_history(void *ctx, struct control_history *history, struct star_error *err);
/* `id`, or, if the cluster was rolled back past that checkpoint, the one that it was rolled back to. */
uint64_t node_journal_at_latest(const struct node *node, uint64_t id);
/* Sets the checkpoint that the node is to start from (0: none). What the journal has after it is applied too, unless
 * the checkpoint was requested by its id, or the cluster has run without the journal since. The catalogue is then that
 * of the journal: *specs and *count are replaced. -ESTALE: the journal does not continue this checkpoint. */
int node_journal_choose(struct node *node, uint64_t id, bool asked_for, struct object_spec **specs, uint32_t *count,
			struct star_error *err);
/* PS tasks other than 0: the same for PS task 0's choice. */
int node_journal_follow(struct node_journal *j, const struct control_layout *layout, struct star_error *err);
/* PS task 0: checks that no other node has later information meanwhile. */
int node_journal_check(const struct node_journal *j, const struct control_layout *layout, struct star_error *err);
/* After the checkpoint was loaded: applies what comes after it, and starts to write. The node's incarnation may then be
 * the previous one. */
int node_journal_begin(struct node *node, const struct control_layout *layout, struct star_error *err);

/* journal_take.c. For a node of one of several PS tasks that is about to take its primary's place: its lives continue
 * the history of the cluster that the primary knew (node->layout), and the highest epoch that it has issued. */
void node_journal_inherits(struct node *node, uint32_t epoch);
/* PS task 0: the same for the checkpoints that control_pair_look returns. */
void node_journal_passes_over(struct node *node, uint64_t began, uint64_t passed_over);
/* The node has taken its primary's place, and serves: a thread starts a life that a restart can use
 * from the next checkpoint on. If that fails, the node serves without a journal. */
void node_journal_take_over(struct node *node, struct control *control);
/* Whether a standby may join: not while a life begins, for journal.wait_s at most. Then the journal is given up. */
bool node_journal_lets_join(struct node *node);
/* Before the control plane ends: no further life begins. And after the reactors have ended: waits for the thread that
 * may be beginning one. */
void node_journal_take_stop(struct node *node);
void node_journal_take_end(struct node_journal *j);
/* From any thread: a restart cannot use the journal yet, or would lack what replies have reported that did not wait for
 * it. */
bool node_journal_is_later(const struct node_journal *j);
/* From any thread: whether a restart would use the journal, so that replies may wait for it. */
bool node_journal_counts_now(const struct node *node);

/* The node has served before, and gets another layout. False: the cluster was rolled back meanwhile, so the node has to
 * restart. */
bool node_journal_goes_on(struct node *node, const struct control_layout *layout);
/* Whether the journal gets the instant of a checkpoint that begins now. */
bool node_journal_gets_instants(const struct node *node);
/* The node's part of such a checkpoint is written, and its files have this sum: returns when the journal also has its
 * instant and that sum on disk, or has ended. */
int node_journal_settle(struct node *node, uint64_t id, uint32_t sum, bool (*goes_on)(void *ctx), void *ctx,
			struct star_error *err);

/* journal_load.c: applies the lives from `first` on. */
int node_journal_apply(struct node *node, const struct control_layout *layout, struct star_error *err);

/* The catalogue has changed: this object was added; the object with this id was removed. */
void node_journal_installed(struct node *node, const struct object_spec *spec);
void node_journal_forgot(struct node *node, uint32_t id);
/* A checkpoint counts; sum: its manifest's checksum. */
void node_journal_counts(struct node *node, uint64_t id, uint32_t sum);
/* Whether a checkpoint should be started now, although none is due. From any thread. */
bool node_journal_wants_checkpoint(void *ctx);
/* Once a second: removes files that are no longer needed, writes the catalogue again if someone has removed it, and
 * logs failures. */
void node_journal_watch(struct node *node);

/* journal.c, for a life that begins: describes it; makes its files and its writers; has the reactors write. */
void node_journal_prepare_life(struct node_journal *j, const struct control_layout *layout);
int node_journal_make_files(struct node_journal *j, struct star_error *err);
int node_journal_tell_reactors(struct node_journal *j, struct star_error *err);
/* Takes back what the last two have made. */
void node_journal_discard_life(struct node_journal *j);
/* Records that the journal in the directory is now that of this node as the primary. */
void node_journal_own_life(struct node_journal *j);
/* The journal could not begin; or it ends: says so, once. */
void node_journal_serve_without(struct node_journal *j, const struct star_error *why);
void node_journal_fail(struct node_journal *j, const struct star_error *why);
/* What was read of former lives is not needed any more. */
void node_journal_forget_past(struct node_journal *j);

/* journal_catalogue.c */
/* Replaces a file as a whole, or changes nothing. */
int node_journal_replace_file(const struct node_journal *j, const char *name, const char *text, size_t bytes,
			      struct star_error *err);
json_t *node_journal_checkpoint_json(const struct journal_checkpoint *checkpoint);
/* Ids rise: those from this one on are forgotten; so is the oldest, if there is no room. */
void node_journal_add_checkpoint(struct journal_checkpoints *list, uint64_t id, uint32_t sum);
/* NULL: it is not there. */
const struct journal_checkpoint *node_journal_find_checkpoint(const struct journal_checkpoints *list, uint64_t id);
bool node_journal_has_catalogue(const struct node_journal *j); /* false: someone has removed it */
int node_journal_write_catalogue(struct node_journal *j, struct star_error *err);
/* The same in two steps: makes the text, for which the caller holds the plane (NULL: out of memory); and writes it. */
char *node_journal_catalogue_text(const struct node_journal *j, size_t *bytes);
int node_journal_replace_catalogue(struct node_journal *j, const char *text, size_t bytes, struct star_error *err);
/* Appends a change, {"object": ...}, {"forget": id} or {"part": ...}, of which it takes the reference. -ENOSPC: so much
 * was appended that the file should be written again. */
int node_journal_add_to_catalogue(struct node_journal *j, json_t *change, struct star_error *err);
/* Sets `past`, `counted` and `parts`. */
int node_journal_read_catalogue(struct node_journal *j, uint32_t story, struct star_error *err);

/* In a reactor's turn: writes marks, and sessions after an instant. 0: nothing is due. */
unsigned node_journal_turn(struct shard *shard, uint64_t now_ns);

/* journal_status.c. Adds the figures of all reactors; why: the reason if the journal has ended. */
void node_journal_add(const struct node_journal *j, struct journal_figures *sum, struct star_error *why);
/* The figures of a reactor; false: there is no journal. From any thread. */
bool node_journal_figures(const struct node *node, unsigned reactor, struct journal_figures *figures);
/* NULL: there is no journal. */
json_t *node_journal_status(const struct node *node);

#endif
