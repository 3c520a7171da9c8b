/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The PS tasks of a cluster, as an executed graph sees them (graph/exec.h): a PS part is one call of libstar, so that each reactor
 * concerned gets one request with all of the part's operations; under unfused grpc++ each operation is a call of its own.
 *
 * Variables and tables are made when a plan is, from their nodes' attributes: dtype, shape or dim, initializer, scale, seed, optimizer,
 * rate; all others but trainable are options by name (star_spec.options).
 *
 * Threads: those of graph_ps; the cluster must outlive it.
 */
#ifndef SESSION_REMOTE_H
#define SESSION_REMOTE_H

#include <stdint.h>

#include "graph/exec.h"

struct star_cluster;

struct remote_options {
	struct star_cluster *cluster;
	uint64_t deadline_us; /* of each call; 0: libstar's */
	bool wait;	      /* variables and tables are somebody else's to make: they are waited for */
	uint64_t until_ns;    /* by clock_ns: how long, for all of them together */
};

/* NULL: out of memory. */
struct graph_ps *remote_create(const struct remote_options *options);
void remote_destroy(struct graph_ps *ps); /* after the plans; NULL is allowed */

#endif
