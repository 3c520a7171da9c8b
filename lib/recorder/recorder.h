/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flight recorder of a node: its reactors' records of their last requests (lib/observe) as JSON for an
 * administrator, from a running node, or from the file that a node wrote when it crashed or a reactor was stuck.
 *
 * Threads: any; it reads the records without involving the reactors.
 */
#ifndef RECORDER_RECORDER_H
#define RECORDER_RECORDER_H

#include <jansson.h>
#include <stdbool.h>

#include "observe/observe_read.h"
#include "wire/frame.h"

enum { RECORDER_SLOW_MAX = 100, RECORDER_TRACE_PAGE = 2000 };

/* Where the records are, and the names that they refer to. */
struct recorder {
	unsigned reactors;
	const struct observe *of[WIRE_REACTORS_MAX];
	uint64_t now_ns; /* CLOCK_MONOTONIC of that node: the reference for "ago" */
	/* Returns the name of the table or program that had this id at that time; "": none, or unknown. */
	const char *(*name)(void *ctx, uint32_t id, uint64_t arrived_ns);
	void *ctx;
};

/* Which requests to list. */
struct recorder_slow {
	int reactor; /* -1: of all */
	uint32_t limit, seconds;
};

/* Returns {"looked_at": number of records, "requests": [the slowest, with the reasons]}: a new reference; NULL: out of
 * memory. */
json_t *recorder_slow(const struct recorder *recorder, const struct recorder_slow *which);
/* Returns a page of a reactor's records, from number `from` on: {"reactors", "from", "next", "records": [...]}. A new
 * reference; NULL: out of memory. */
json_t *recorder_trace(const struct recorder *recorder, unsigned reactor, uint64_t from);

#endif
