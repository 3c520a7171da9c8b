/* SPDX-License-Identifier: BSD-3-Clause */
/* What `starctl top` has seen of nodes, and how it shows it. Single-threaded. */
#ifndef STARCTL_TOP_H
#define STARCTL_TOP_H

#include "app/starctl/cluster.h"

enum { TOP_LATENCY_S = 2 };

/* What all nodes said at a moment, put together: lines of reactors and connections have a member "at", where they are;
 * figures of a table are sums; times of requests are those of the node where 99 % took longest, which "at" names. */
struct top_look {
	json_t *nodes; /* of each what it said, or why it said nothing */
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

/* A member that is a number, or 0. */
static inline double top_number(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

/* top_show.c: the line that has the same of those members, of which NULL is the last. Two lists have mostly the same
 * order: it is looked for at place `near`, and then further and further away from there. NULL: there is none. */
json_t *top_line(const json_t *lines, const char *const *members, const json_t *like, size_t near);
/* top_show.c: what tables and reactors can be sorted by; NULL from the end on. */
const char *top_sorting(unsigned number);
const char *top_reactor_sorting(unsigned number);
/* lines: of a screen; 0: as many as it takes, of tables the first ten, of connections the first five. */
void top_show(const struct top *top, unsigned lines, FILE *out);

#endif
