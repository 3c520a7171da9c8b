/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The audit log: who connected to the control plane, what they called, and the result; one JSON object per line, in
 * order. Each line has the SHA-256 of the line before it, so control_audit_verify detects lines that were changed,
 * removed or inserted. A thread of its own writes the file, from a queue of AUDIT_QUEUE_MAX events; if the queue is
 * full, events are counted as lost, and the next line says how many. Thread-safe.
 */
#ifndef CONTROL_AUDIT_H
#define CONTROL_AUDIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "star_error.h"

enum audit_limits {
	AUDIT_QUEUE_MAX = 1024,
	AUDIT_LINE_MAX = 2048, /* bytes of a line in the file */
	AUDIT_HASH_TEXT = 65,  /* hexadecimal digits of a SHA-256, and a zero byte */
};

struct audit_event {
	char principal[64]; /* "": unknown */
	char role[16];	    /* "" if the principal is unknown */
	char from[64];	    /* address, or "uid N" */
	char method[64];    /* "connect" for a new connection, accepted or refused */
	int code;	    /* 0: success; else the error's code */
	char text[160];	    /* the error's message, or "" */
};

struct audit;

/* Opens the log, and continues an existing file after its last line; a line that a crash left incomplete is removed.
 * NULL with err: it cannot be written, or is not an audit log. path is borrowed. */
struct audit *control_audit_open(const char *path, struct star_error *err);
/* Queues an event. Never waits for the disk. */
void control_audit_note(struct audit *audit, const struct audit_event *event);
/* Writes what is queued, and closes the log. audit may be NULL. */
void control_audit_close(struct audit *audit);

struct audit_counts {
	uint64_t events, lost, failures; /* lost: the queue or the disk was full; failures: events with an error */
};
struct audit_counts control_audit_count(struct audit *audit);

/* The result of verifying a file so far, or several files in order; all zeros at first. */
struct audit_check {
	uint64_t lines, failures, lost;
	uint64_t first, last;	      /* line numbers */
	char begins[AUDIT_HASH_TEXT]; /* the first line's hash of the line before it */
	/* The last line's hash. Keep it elsewhere, because whoever can write the file can forge a consistent one. */
	char ends[AUDIT_HASH_TEXT];
};

/* Verifies a file. 0; -EBADMSG with the file's name, the line and what is wrong with it; -ENODATA: the file is
 * empty. */
int control_audit_verify(FILE *file, const char *name, struct audit_check *check, struct star_error *err);

/* The same for a single line, without its newline; number: its number in the file. */
int control_audit_verify_line(const char *line, size_t bytes, const char *name, uint64_t number,
			      struct audit_check *check, struct star_error *err);

void control_audit_hash(const char *line, size_t bytes, char hash[static AUDIT_HASH_TEXT]);

#endif
