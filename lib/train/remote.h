/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The PS tasks of a cluster, as an executed graph sees them (graph/ps.h): a PS part is one call of libstar, so that
 * each reactor concerned gets one request with all of the part's operations; under unfused grpc++ each operation is a
 * call of its own.
 *
 * Variables and tables are made when a plan is, from their nodes' attributes: dtype, shape or dim, initializer, scale,
 * seed, optimizer, rate; all others but trainable are options by name (star_spec.options).
 *
 * Threads: those of graph_ps; the cluster must outlive it.
 */
#ifndef TRAIN_REMOTE_H
#define TRAIN_REMOTE_H

#include <stdint.h>

#include "graph/ps.h"

struct star_cluster;

/* Where a step's gradients go in a synchronous job: train/sync.h. */
struct remote_round {
	uint64_t tag;	    /* of the sums; 0: nowhere */
	bool counts;	    /* this worker counts the step */
	double global_step; /* of which this is the result */
};

struct remote_options {
	/* Asked before gradients of a step are pushed, perhaps several times, by any thread of the step. NULL: they are
	 * applied. And: told when their sums were closed meanwhile, which is no error. */
	int (*admit)(void *arg, struct remote_round *round, struct star_error *err);
	void (*refused)(void *arg);
	void *arg;
	struct star_cluster *cluster;
	uint64_t deadline_us; /* of each call; 0: libstar's */
	bool wait;	      /* variables and tables are somebody else's to make: they are waited for */
	uint64_t until_ns;    /* by clock_ns: how long, for all of them together */
	/* rows that are updated by ids are divided by their contributors; the graph; NULL: they are not */
	const struct graph *mean_by_row;
	unsigned wire;	 /* the type in which rows of tables and their gradients travel; 0: as they are computed with */
	bool io_threads; /* send and receive, also where the step's own thread has nothing else to do */
};

/* NULL: out of memory. */
struct graph_ps *train_remote_create(const struct remote_options *options);
/* What the steps of the plan that was made last update. */
struct remote_update {
	struct star_table *table;
	const char *name; /* as the graph has it */
	bool has_rate;	  /* else it is the table's own */
	float rate;
	bool counter; /* of steps */
	bool by_ids;  /* rows: with mean_by_row each is divided by its contributors */
	const struct graph_node *node;
};
uint32_t train_remote_updates(const struct graph_ps *ps, const struct remote_update **updates);

void train_remote_destroy(struct graph_ps *ps); /* after the plans; NULL is allowed */

#endif
