/* SPDX-License-Identifier: BSD-3-Clause */
/* starserver --local: nodes on 127.0.0.1 over kernel sockets, without a configuration file, run by any user. One
 * thread. */
#ifndef STARSERVER_LOCAL_H
#define STARSERVER_LOCAL_H

#include <stdbool.h>

#include "config/config.h"

enum {
	LOCAL_NODES_MAX = 64,
	LOCAL_NOT_SAVED = 3, /* exit status of a node that ended without writing its last checkpoint */
};

struct local_options {
	unsigned nodes;
	const char *directory; /* of checkpoints; NULL: none are written */
	bool print;	       /* only print the first node's configuration */
	const struct config_override *overrides;
	unsigned overrides_count;
};

/* Runs the nodes as child processes until a signal comes or one of them ends, then ends all of them. Returns the exit
 * status. */
int local_run(const struct local_options *options);

#endif
