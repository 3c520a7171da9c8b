/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file that a node leaves behind when it crashes, or when one of its reactors is stuck: its last requests, who sent
 * them, and the names of its tables. Bounded: RECORDER_FILE_MAX bytes, and one file before it. Written by a handler of
 * signals, too: it makes no call that is not safe there, and takes nothing for granted of the memory that it copies.
 * Little endian. Read by `starctl slow --records FILE` and `starctl trace --records FILE`.
 */
#ifndef RECORDER_FILE_H
#define RECORDER_FILE_H

#include "recorder/recorder.h"

enum {
	RECORDER_FILE_MAX = 32 << 20,
	RECORDER_RECORDS_BYTES = 16 << 20, /* of these, at most, what records take */
	RECORDER_PATH_MAX = 256,
};

/* What is known of a reactor beside its records. */
struct recorder_reactor {
	uint64_t turns, requests;
	uint64_t busy_cycles, idle_cycles;
};

/* What is written. */
struct recorder_dump {
	char path[RECORDER_PATH_MAX];
	char node[32]; /* "ps:0" */
	uint32_t incarnation;
	int signal; /* why; 0: a reactor is stuck, */
	int stuck;  /* this one; else -1 */
	unsigned reactors;
	const struct observe *of[WIRE_REACTORS_MAX];
	struct recorder_reactor now[WIRE_REACTORS_MAX];
	unsigned objects;			 /* of names; ids count from 1 */
	const char *names[WIRE_OBJECTS_MAX + 1]; /* by id; NULL: none */
	uint64_t since_ns[WIRE_OBJECTS_MAX + 1]; /* that it has that name */
};

/* 0 or a negative errno. A file that is there is renamed to the same name with ".1", in place of one that has it. */
int recorder_write(const struct recorder_dump *dump);

/* What was read. */
struct recorder_file {
	struct recorder recorder;
	char node[32];
	uint32_t incarnation;
	int signal, stuck;
	uint64_t written_s; /* since 1970 */
	struct recorder_reactor now[WIRE_REACTORS_MAX];
	char (*names)[WIRE_NAME_MAX + 1]; /* by id */
	uint64_t since_ns[WIRE_OBJECTS_MAX + 1];
};

/* NULL with a message: it is not there, not a node's, or not whole. */
struct recorder_file *recorder_open(const char *path, struct star_error *err);
/* The same of bytes. */
struct recorder_file *recorder_read(const uint8_t *bytes, size_t n, const char *path, struct star_error *err);
void recorder_close(struct recorder_file *file);

#endif
