/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PS tasks inside this process, for the interface of graph/ps.h. Tables and variables have all the features that they
 * have on a node, and are in a store of this process with one partition, without network, threads, locks or hugepages.
 * A part's operations are executed when it is started, with the same bits as on a node with one reactor.
 *
 * A process has one store, so that the next session can evaluate what one has trained. The first train_local_create
 * creates it, and it stays until train_local_forget or the end of the process. It may grow to three quarters of the
 * machine's memory, as rows are created. There are no checkpoints.
 *
 * Threads: all graphs that use it must be executed by the same thread.
 */
#ifndef TRAIN_LOCAL_H
#define TRAIN_LOCAL_H

#include "graph/ps.h"
#include "star_error.h"

/* NULL with err. */
struct graph_ps *train_local_create(struct star_error *err);
void train_local_destroy(struct graph_ps *ps); /* after the plans; NULL is allowed */

/* The first element of a variable; 0 if there is none of that name. */
double train_local_scalar(const char *name);

/* Frees all tables and variables. Not while a graph_ps exists. */
void train_local_forget(void);

#endif
