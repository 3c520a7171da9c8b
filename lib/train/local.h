/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PS tasks in this process, as an executed graph sees them (graph/ps.h): tables and variables with all that they have
 * on a node, in one partition of a store of this process's own, without network, threads, locks or hugepages. A part's
 * operations are executed when it is started, as a node executes a request with them: the same bits as a node with one
 * reactor.
 *
 * There is one store a process: what one session has trained, the next one evaluates. It is made by the first
 * train_local_create, and stays until train_local_forget or the process's end. It may grow to three quarters of the
 * machine's memory, as rows come. No checkpoints.
 *
 * Threads: all graphs that use it belong to one thread together.
 */
#ifndef TRAIN_LOCAL_H
#define TRAIN_LOCAL_H

#include "graph/ps.h"
#include "star_error.h"

/* NULL with err. */
struct graph_ps *train_local_create(struct star_error *err);
void train_local_destroy(struct graph_ps *ps); /* after the plans; NULL is allowed */

/* The first element of a variable; 0: there is none of that name. */
double train_local_scalar(const char *name);

/* Frees all tables and variables. Not while there is a graph_ps. */
void train_local_forget(void);

#endif
