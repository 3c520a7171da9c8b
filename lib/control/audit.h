/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The audit log: who has come to the control plane, what he has asked for, and what came of it; a JSON object a line,
 * in order. Each line has the SHA-256 of the line before it, so that a line that was changed, taken out or put in shows
 * (control_audit_verify). A thread of its own writes, behind a queue of AUDIT_QUEUE_MAX; what finds no room there is
 * counted, and the next line says how many were lost. Thread-safe.
 */
#ifndef CONTROL_AUDIT_H
#define CONTROL_AUDIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "star_error.h"

enum audit_limits {
	AUDIT_QUEUE_MAX = 1024,
	AUDIT_LINE_MAX = 2048, /* of the file */
	AUDIT_HASH_TEXT = 65,  /* digits of a SHA-256, and a zero */
};

struct audit_event {
	char principal[64]; /* "": nobody is known */
	char role[16];	    /* "" beside that */
	char from[64];	    /* address, or "uid N" */
	char method[64];    /* "connect" for who has come or was refused at the door */
	int code;	    /* 0: it was done, else the error's */
	char text[160];	    /* of the error; "" */
};

struct audit;

/* Goes on with the file that is there: its last line is looked at, and one that a crash has left unfinished is taken
 * away. NULL: it cannot be written, or is no audit log. path is borrowed. */
struct audit *control_audit_open(const char *path, struct star_error *err);
/* Never waits for the disk. */
void control_audit_note(struct audit *audit, const struct audit_event *event);
/* Writes what is queued. audit may be NULL. */
void control_audit_close(struct audit *audit);

struct audit_counts {
	uint64_t events, lost, failures; /* lost: no room in the queue, or none on the disk */
};
struct audit_counts control_audit_count(struct audit *audit);

/* What a file, or several in their order, have shown so far; begin with zeroes. */
struct audit_check {
	uint64_t lines, failures, lost;
	uint64_t first, last;	      /* numbers of lines */
	char begins[AUDIT_HASH_TEXT]; /* what the first line says of the one before it */
	/* Of the last line: to be kept elsewhere, since whoever can write the file can make it again. */
	char ends[AUDIT_HASH_TEXT];
};

/* 0, or -EBADMSG with the file's name, the line and what is wrong with it; -ENODATA: there is no line. */
int control_audit_verify(FILE *file, const char *name, struct audit_check *check, struct star_error *err);

/* One line, without its newline: the same. number: which of the file. */
int control_audit_verify_line(const char *line, size_t bytes, const char *name, uint64_t number,
			      struct audit_check *check, struct star_error *err);

void control_audit_hash(const char *line, size_t bytes, char hash[static AUDIT_HASH_TEXT]);

#endif
