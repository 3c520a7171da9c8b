/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The PS tasks of a cluster, for the interface of graph/ps.h. A PS part is one call of libstar, so each reactor that is
 * involved gets one request with all of the part's operations. With unfused grpc++ each operation is a call of its own.
 *
 * Variables and tables are created when a plan is made, from their nodes' attributes: dtype, shape or dim, initializer,
 * scale, seed, optimizer, rate. All others except trainable are options by name (star_spec.options).
 *
 * Threads: those of graph_ps; the cluster must outlive it.
 */
#ifndef TRAIN_REMOTE_H
#define TRAIN_REMOTE_H

#include <stdint.h>

#include "graph/ps.h"

struct star_cluster;

/* To which sums a step's gradients are pushed in a synchronous job: train/sync.h. */
struct remote_round {
	uint64_t tag;	    /* of the sums; 0: they are dropped */
	bool counts;	    /* this worker increments the counter of steps */
	double global_step; /* its value after the step */
};

struct remote_options {
	/* admit is called before gradients of a step are pushed, possibly several times, by any thread of the step;
	 * NULL: they are applied directly. refused is called if their sums were closed meanwhile, which is no error. */
	int (*admit)(void *arg, struct remote_round *round, struct star_error *err);
	void (*refused)(void *arg);
	void *arg;
	struct star_cluster *cluster;
	uint64_t deadline_us; /* of each call; 0: libstar's */
	bool wait;	      /* another worker creates variables and tables: wait for them */
	uint64_t until_ns;    /* by clock_ns: until when, for all of them together */
	/* the graph, if sums of rows that are updated by ids are to be divided by the number of contributors; else
	 * NULL */
	const struct graph *mean_by_row;
	unsigned wire;	 /* the type in which rows of tables and their gradients are sent; 0: unchanged */
	bool io_threads; /* I/O threads send and receive, even if the step's own thread has nothing else to do */
};

/* NULL: out of memory. */
struct graph_ps *train_remote_create(const struct remote_options *options);
/* The tables and variables that the steps of the latest plan update. */
struct remote_update {
	struct star_table *table;
	const char *name; /* in the graph */
	bool has_rate;	  /* else the table's rate is used */
	float rate;
	bool counter; /* it is the counter of steps */
	bool by_ids;  /* single rows are updated: with mean_by_row each is divided */
	const struct graph_node *node;
};
uint32_t train_remote_updates(const struct graph_ps *ps, const struct remote_update **updates);

void train_remote_destroy(struct graph_ps *ps); /* after the plans; NULL is allowed */

#endif
