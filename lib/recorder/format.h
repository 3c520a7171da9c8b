/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of the file: a header, `objects` names, then for each reactor a header, its peers and its records. Pure
 * data. */
#ifndef RECORDER_FORMAT_H
#define RECORDER_FORMAT_H

#include "recorder/file.h"

#define RECORDER_MAGIC UINT64_C(0x3153445243455253) /* "SRECRDS1" */

struct recorder_head {
	uint64_t magic;
	uint64_t written_ns; /* CLOCK_MONOTONIC */
	uint64_t written_s;  /* since 1970 */
	uint32_t reactors, objects, incarnation;
	int32_t signal, stuck;
	uint32_t record_bytes, peer_bytes, peers; /* of this version */
	char node[32];
};
_Static_assert(sizeof(struct recorder_head) == 88, "recorder_head");

struct recorder_name {
	uint64_t since_ns; /* CLOCK_MONOTONIC */
	uint32_t id, zero;
	char text[WIRE_NAME_MAX + 1];
};
_Static_assert(sizeof(struct recorder_name) == 144, "recorder_name");

struct recorder_reactor_head {
	struct recorder_reactor now;
	uint64_t first; /* number of the first record */
	uint64_t count;
};
_Static_assert(sizeof(struct recorder_reactor_head) == 48, "recorder_reactor_head");
_Static_assert(sizeof(struct observe_peer) == 32, "observe_peer");

#endif
