/* SPDX-License-Identifier: BSD-3-Clause */
/* starserver --local: nodes on 127.0.0.1 and the kernel's sockets, without a configuration, as any user. */
#ifndef STARSERVER_LOCAL_H
#define STARSERVER_LOCAL_H

#include <stdbool.h>

#include "config/config.h"

enum {
	LOCAL_NODES_MAX = 64,
	LOCAL_NOT_SAVED =
		3, /* the exit status of a node that has ended without the last checkpoint that it was to write */
};

struct local_options {
	unsigned nodes;
	const char *directory; /* of checkpoints; NULL: none are kept */
	bool print;	       /* print the first node's configuration, and start nothing */
	const struct config_override *overrides;
	unsigned overrides_count;
};

/* Runs the nodes as child processes until a signal, or until one of them ends; all end together. The exit status. */
int local_run(const struct local_options *options);

#endif
