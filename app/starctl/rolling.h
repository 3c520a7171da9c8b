/* SPDX-License-Identifier: BSD-3-Clause */
/* `starctl rolling-restart`: restarts the nodes of a cluster one after the other. Single-threaded. */
#ifndef STARCTL_ROLLING_H
#define STARCTL_ROLLING_H

#include <limits.h>

#include "app/starctl/cluster_nodes.h"

enum { ROLLING_PROCESS = 96, ROLLING_WHY = 512 };

struct rolling_node {
	char control[CLUSTER_CONTROL]; /* "": it has never answered */
	char process[ROLLING_PROCESS]; /* its former process; as long as it has that, it runs the old program */
};

struct rolling_task {
	unsigned count; /* 2: a pair */
	struct rolling_node nodes[2];
};

struct rolling {
	const struct invocation *invocation;
	const char *restart, *promote; /* commands; promote NULL: promotes through the node's control address */
	const char *allowed;	       /* tasks that may be restarted without a standby, "1,3"; or NULL */
	uint64_t timeout_us;	       /* for each step */
	const char *next;	       /* what to do if it stops here */
	bool dry, from_scratch;

	unsigned count;
	struct rolling_task *tasks;
	json_t *begun; /* when it was started, as text; an own reference */
	char file[PATH_MAX];
	int fd;	      /* of that file, locked; -1: not open */
	bool written; /* the file has a plan */
};

/* The status of a task's nodes; NULL with the reason if there is none. */
struct rolling_look {
	json_t *status[2];
	struct star_error why[2];
	int primary; /* index of the one that serves; -1: none, or both */
	bool untold; /* they are in order, but PS task 0 does not report so yet */
};

/* rolling_find.c */
/* Fills in the tasks: the process of the node that serves, and the names of both nodes. */
int rolling_find_nodes(struct rolling *rolling, struct star_error *err);
/* Fills in the processes of the standbys. */
int rolling_find_standbys(struct rolling *rolling, struct star_error *err);
/* Sets the plan file's default name. */
int rolling_name_file(struct rolling *rolling, struct star_error *err);
/* Whether b has all nodes of a. */
bool rolling_are_same(const struct rolling *a, const struct rolling *b);
/* The number of nodes, or (done) of those that have been restarted. */
unsigned rolling_count(const struct rolling *rolling, bool done);

/* rolling_plan.c: the plan is in a file, so a rolling restart that was interrupted can continue. */
/* Opens and locks the file. 1: the plan was read from it; 0: it is empty. */
int rolling_plan_open(struct rolling *rolling, struct star_error *err);
int rolling_plan_write(struct rolling *rolling, struct star_error *err);
/* All nodes are restarted: removes the file. */
void rolling_plan_end(struct rolling *rolling);
void rolling_plan_close(struct rolling *rolling); /* also if it was not opened */

/* rolling_command.c */
/* Checks that the command contains {host}, {control} or {task}, and that the nodes' names are harmless to a shell. */
int rolling_command_check(const char *option, const char *command, struct star_error *err);
/* The command line for the shell; the caller frees it. NULL with err. */
char *rolling_command_for(const char *command, const char *control, unsigned task, struct star_error *err);
/* Runs the command, for at most timeout_us. */
int rolling_command_run(const struct rolling *rolling, const char *command, struct star_error *err);

/* rolling_look.c */
void rolling_look(const struct rolling *rolling, unsigned task, struct rolling_look *look);
void rolling_look_end(struct rolling_look *look);
/* Whether the node is another process than when the rolling restart began. */
bool rolling_is_done(const struct rolling *rolling, unsigned task, unsigned node, const struct rolling_look *look);
/* Identifies a node's process by its status; older releases report less. */
void rolling_process(const json_t *status, char process[static ROLLING_PROCESS]);
/* Whether one node serves, the other one is up to date, and PS task 0 tells workers so; of a task without a standby:
 * whether it serves. */
bool rolling_is_whole(const struct rolling *rolling, unsigned task, struct rolling_look *look);
/* Explains why not. */
void rolling_explain(const struct rolling *rolling, unsigned task, const struct rolling_look *look,
		     char why[static ROLLING_WHY]);
const char *rolling_pair_text(const json_t *status, const char *member);

#endif
