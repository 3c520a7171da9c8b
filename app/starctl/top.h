/* SPDX-License-Identifier: BSD-3-Clause */
/* What `starctl top` knows of the nodes, and how it shows that. Single-threaded. */
#ifndef STARCTL_TOP_H
#define STARCTL_TOP_H

#include "app/starctl/cluster_nodes.h"

enum { TOP_LATENCY_S = 2 };

/* The combined answers of all nodes at one moment. Lines of reactors and connections have a member "at" with the node;
 * figures of a table are sums; times of requests are those of the node whose 99th percentile is the longest, which "at"
 * names. */
struct top_look {
	json_t *nodes; /* of each its answer, or why there is none */
	json_t *reactors, *tables, *requests, *connections;
	double at_s;
	unsigned answers;
};

struct top {
	struct cluster cluster;
	bool whole; /* of all nodes, not of one */
	unsigned looks;
	struct top_look before, now;
	unsigned sorting, reactor_sorting;
};

int top_take_look(struct top *top, struct star_error *err);
void top_forget(struct top_look *look);

/* A member's number; 0 if it is not a number. */
static inline double top_number(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

/* top_show.c: the line whose values of `members` (a list that ends with NULL) equal those of `like`. Since two lists
 * mostly have the same order, the search starts at place `near` and moves away from there. NULL: there is none. */
json_t *top_line(const json_t *lines, const char *const *members, const json_t *like, size_t near);
/* top_show.c: the names of what tables and reactors can be sorted by; NULL: there are no more. */
const char *top_sorting(unsigned number);
const char *top_reactor_sorting(unsigned number);
/* lines: of the screen; 0: no limit, but only the first ten tables and five connections. */
void top_show(const struct top *top, unsigned lines, FILE *out);

#endif
