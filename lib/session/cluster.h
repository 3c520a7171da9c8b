/* SPDX-License-Identifier: BSD-3-Clause */
/* What a worker's session is told of its cluster (config/cluster.h). Threads: plain data, built by one. */
#ifndef SESSION_CLUSTER_H
#define SESSION_CLUSTER_H

#include "config/cluster.h"
#include "session/session.h"

#pragma GCC visibility push(default) /* of libstartrain.so */

/* cluster_spec_parse for a worker: what is another task's is an error that says whose. */
int cluster_spec_read_worker(const char *tf_config, struct cluster_spec *spec, struct star_error *err);

/* What a session is told of it: ps, which stays the spec's, task_index and workers. 0, or -EINVAL: this task is no worker. */
int cluster_spec_worker(const struct cluster_spec *spec, struct session_config *config, struct star_error *err);

#pragma GCC visibility pop

#endif
