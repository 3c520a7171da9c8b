/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file that a node writes when it crashes, or when one of its reactors is stuck: its last requests, their senders,
 * and the names of its tables. At most RECORDER_FILE_MAX bytes; one earlier file is kept. It is also written by a
 * signal handler, so writing only uses async-signal-safe calls, and does not trust the memory that it copies. Little
 * endian. `starctl slow --records FILE` and `starctl trace --records FILE` read it. Threads: one at a time per file.
 */
#ifndef RECORDER_FILE_H
#define RECORDER_FILE_H

#include "recorder/recorder.h"

enum {
	RECORDER_FILE_MAX = 32 << 20,
	RECORDER_RECORDS_BYTES = 16 << 20, /* the records' share of that */
	RECORDER_PATH_MAX = 256,
};

/* A reactor's counters. */
struct recorder_reactor {
	uint64_t turns, requests;
	uint64_t busy_cycles, idle_cycles;
};

/* The contents to write. */
struct recorder_dump {
	char path[RECORDER_PATH_MAX];
	char node[32]; /* "ps:0" */
	uint32_t incarnation;
	int signal; /* the signal of the crash; 0: a reactor is stuck */
	int stuck;  /* that reactor; else -1 */
	unsigned reactors;
	const struct observe *of[WIRE_REACTORS_MAX];
	struct recorder_reactor now[WIRE_REACTORS_MAX];
	unsigned objects;			 /* number of names; ids start at 1 */
	const char *names[WIRE_OBJECTS_MAX + 1]; /* by id; NULL: none */
	uint64_t since_ns[WIRE_OBJECTS_MAX + 1]; /* since when the id has that name */
};

/* 0 or a negative errno. An existing file is renamed to the same name with ".1", and replaces one of that name. */
int recorder_write(const struct recorder_dump *dump);

/* The contents of a file. */
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

/* NULL with a message: it is missing, not such a file, or incomplete. */
struct recorder_file *recorder_open(const char *path, struct star_error *err);
/* The same for the bytes of a file; path is for messages. */
struct recorder_file *recorder_read(const uint8_t *bytes, size_t n, const char *path, struct star_error *err);
void recorder_close(struct recorder_file *file);

#endif
