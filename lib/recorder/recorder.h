/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flight recorder of a node: what its reactors remember of their last requests (lib/observe), told to an
 * administrator; of a node that runs, or out of the file that a node has left behind which crashed, or whose reactor
 * was stuck.
 *
 * Threads: any; no reactor is asked. A file is written by one thread at a time.
 */
#ifndef RECORDER_RECORDER_H
#define RECORDER_RECORDER_H

#include <jansson.h>
#include <stdbool.h>

#include "observe/observe_read.h"
#include "wire/frame.h"

enum { RECORDER_SLOW_MAX = 100, RECORDER_TRACE_PAGE = 2000 };

/* Where records are, and what they name. */
struct recorder {
	unsigned reactors;
	const struct observe *of[WIRE_REACTORS_MAX];
	uint64_t now_ns; /* CLOCK_MONOTONIC of that node: "ago" is before it */
	/* The name of the table or program that had that id then; "": none, or nobody knows any more. */
	const char *(*name)(void *ctx, uint32_t id, uint64_t arrived_ns);
	void *ctx;
};

/* Which of them. */
struct recorder_slow {
	int reactor; /* -1: of all */
	uint32_t limit, seconds;
};

/* {"looked_at": how many records there are, "requests": [the slowest, and why]}. A new reference; NULL: no memory. */
json_t *recorder_slow(const struct recorder *recorder, const struct recorder_slow *which);
/* A page of the records of a reactor, from number `from` on: {"reactors", "from", "next", "records": [...]}. The same.
 */
json_t *recorder_trace(const struct recorder *recorder, unsigned reactor, uint64_t from);

#endif
