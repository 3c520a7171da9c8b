/* SPDX-License-Identifier: BSD-3-Clause */
/* `starctl rolling-restart`: the nodes of a cluster, of which one is restarted after the other. Single-threaded. */
#ifndef STARCTL_ROLLING_H
#define STARCTL_ROLLING_H

#include <limits.h>

#include "app/starctl/cluster.h"

enum { ROLLING_PROCESS = 96, ROLLING_WHY = 512 };

struct rolling_node {
	char control[CLUSTER_CONTROL]; /* "": it has never been heard */
	char process[ROLLING_PROCESS]; /* which one it was before; as long as it is that one it has the old program */
};

struct rolling_task {
	unsigned count; /* 2: a pair */
	struct rolling_node nodes[2];
};

struct rolling {
	const struct invocation *invocation;
	const char *restart, *promote; /* commands; promote is NULL: by the node's control address */
	const char *allowed;	       /* tasks that may be restarted without a standby, "1,3"; or NULL */
	uint64_t timeout_us;	       /* of each step */
	const char *next;	       /* what to do if it stops here */
	bool dry, from_scratch;

	unsigned count;
	struct rolling_task *tasks;
	json_t *begun; /* when, as text; a new reference */
	char file[PATH_MAX];
	int fd;	      /* of that file, locked; -1 */
	bool written; /* there is a plan in it */
};

/* What the nodes of a task say: NULL with why not. */
struct rolling_look {
	json_t *status[2];
	struct star_error why[2];
	int primary; /* which of them serves; -1: none, or both */
	bool untold; /* they are in order, but PS task 0 has not said so */
};

/* rolling_find.c */
/* The tasks, with the processes of who serves, and the names of both. */
int rolling_find_nodes(struct rolling *rolling, struct star_error *err);
/* The processes of the others. */
int rolling_find_standbys(struct rolling *rolling, struct star_error *err);
/* The usual name of the file. */
int rolling_name_file(struct rolling *rolling, struct star_error *err);
/* Has the second all nodes of the first? */
bool rolling_are_same(const struct rolling *a, const struct rolling *b);
/* How many nodes there are, or how many of them have been restarted. */
unsigned rolling_count(const struct rolling *rolling, bool done);

/* rolling_plan.c: what was begun is in a file, so that one that was stopped goes on. */
/* Opens the file and locks it. 1: what is in it is in the plan; 0: there is nothing yet. */
int rolling_plan_open(struct rolling *rolling, struct star_error *err);
int rolling_plan_write(struct rolling *rolling, struct star_error *err);
/* All are restarted: the file goes. */
void rolling_plan_end(struct rolling *rolling);
void rolling_plan_close(struct rolling *rolling); /* also when it was not opened */

/* rolling_command.c */
/* Is it a command with something in it that names the node? And are the node's names harmless to a shell? */
int rolling_command_check(const char *option, const char *command, struct star_error *err);
/* What is given to the shell; the caller frees it. NULL with a message. */
char *rolling_command_for(const char *command, const char *control, unsigned task, struct star_error *err);
/* Runs it, for so long at most. */
int rolling_command_run(const struct rolling *rolling, const char *command, struct star_error *err);

/* rolling_look.c */
void rolling_look(const struct rolling *rolling, unsigned task, struct rolling_look *look);
void rolling_look_end(struct rolling_look *look);
/* The node is another process than it was when all this began. */
bool rolling_is_done(const struct rolling *rolling, unsigned task, unsigned node, const struct rolling_look *look);
/* Which process a node is, as its status says; an older one says less. */
void rolling_process(const json_t *status, char process[static ROLLING_PROCESS]);
/* One serves, the other one has all, and PS task 0 tells workers so; of one that is alone: that it serves. */
bool rolling_is_whole(const struct rolling *rolling, unsigned task, struct rolling_look *look);
/* Why it is not. */
void rolling_explain(const struct rolling *rolling, unsigned task, const struct rolling_look *look,
		     char why[static ROLLING_WHY]);
const char *rolling_pair_text(const json_t *status, const char *member);

#endif
