/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PS tasks as plain memory, for tests: variables and tables by name, sgd, the nodes of a part one after the other when
 * it is waited for. It sees whether feeds stay as they were, and keeps a list of what was started and waited for.
 * Allocates in prepare only.
 */
#ifndef TESTS_GRAPH_PLAIN_PS_H
#define TESTS_GRAPH_PLAIN_PS_H

#include "exec/exec.h"

enum { PLAIN_VARIABLES = 64, PLAIN_ROWS = 256, PLAIN_RUNS = 4, PLAIN_EVENTS = 1024 };

struct plain_variable {
	char name[GRAPH_NAME_MAX + 1];
	int64_t rows, width; /* of a table PLAIN_ROWS: ids are taken modulo */
	double *values;
};

struct plain_ps {
	struct graph_ps ps; /* for plans */
	struct plain_variable variables[PLAIN_VARIABLES];
	uint32_t count;
	int fail_after;	 /* calls that still succeed; below 0: all */
	bool fail_start; /* at start, else at wait */
	int in_flight;	 /* started and not waited for */
	int prepared;	 /* and not released */
	struct {
		const struct graph_ps_call *call;
		bool is_wait;
	} events[PLAIN_EVENTS];
	uint32_t events_count;
};

void plain_ps_init(struct plain_ps *plain);
void plain_ps_fini(struct plain_ps *plain);
/* Its values, made if there is none: deterministic ones. */
struct plain_variable *plain_ps_variable(struct plain_ps *plain, const char *name, int64_t rows, int64_t width);

#endif
