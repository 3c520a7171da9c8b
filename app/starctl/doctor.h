/* SPDX-License-Identifier: BSD-3-Clause */
/* `starctl doctor`: one list of findings, to which each file of checks adds. Single-threaded. */
#ifndef STARCTL_DOCTOR_H
#define STARCTL_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>

#include "config/config.h"

enum doctor_verdict {
	DOCTOR_OK,
	DOCTOR_WARNING, /* a node starts and serves, but not as well or as safely as it could */
	DOCTOR_BAD,	/* a node does not start, or serves nobody */
	DOCTOR_VERDICTS,
};

struct doctor {
	const char *root;	     /* prefix of paths in /proc and /sys: "", or a test's directory */
	const struct config *config; /* NULL: none was given */
	bool running;		     /* the configured node runs: what it occupies is not reported as missing */
	json_t *checks;
	unsigned count[DOCTOR_VERDICTS];
};

/* Adds a finding of a check. remedy: what to do about it, as a command if possible; NULL: nothing. */
void doctor_find(struct doctor *doctor, const char *check, enum doctor_verdict verdict, const char *remedy,
		 const char *format, ...) __attribute__((format(printf, 5, 6)));

/* doctor_cluster.c: this node's addresses, and the other nodes. Sets running, so it is called first. */
void doctor_cluster(struct doctor *doctor);
/* Also there: whether the node at this address answers. */
void doctor_address(struct doctor *doctor, const char *address);

/* doctor_machine.c: memory, cores, clock, files. */
void doctor_machine(struct doctor *doctor);

/* doctor_ports.c: NICs and interfaces. */
void doctor_ports(struct doctor *doctor);

#endif
