/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who takes part in a training job: the lists of its PS tasks (by *control* address) and workers, and which of them
 * this process is. Given as TensorFlow's ClusterSpec and Server are, or from TF_CONFIG in each form that TensorFlow's
 * own resolver takes:
 *   {"cluster": {"ps": ["host:port", ...], "worker": [...], "chief": [...]}, "task": {"type": "worker", "index": 0}}
 * A "chief" is the first worker; workers and chief are counted together, chief first. "master" means chief. "evaluator"
 * is a task beside the cluster. A job may be a dict of addresses by index, {"1": "host:port"}: the tasks that this one
 * need not know are left out; PS tasks must all be there. Addresses may begin with "grpc://" (or a protocol of
 * StarServer's), which means nothing here. Without a "task" the program says what it is; without a "cluster" ({}, too)
 * nothing is said. Members that mean nothing here ("environment", "session_master", other jobs) are passed over.
 *
 * Threads: plain data, built by one.
 */
#ifndef CONFIG_CLUSTER_SPEC_H
#define CONFIG_CLUSTER_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "star_error.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

enum { CLUSTER_TASKS_MAX = 65536, CLUSTER_ADDRESS_MAX = 255 };

enum cluster_job { CLUSTER_UNTOLD, CLUSTER_PS, CLUSTER_WORKER, CLUSTER_EVALUATOR };

struct cluster_spec {
	char *ps;      /* "tcp:host:port,host:port,...": as star_open takes it; NULL: there is no cluster */
	char *workers; /* "host:port,host:port,...", the chief first; without those that were left out */
	uint32_t ps_count;
	uint32_t workers_count; /* one more than the last one's number; 0: none is listed */
	enum cluster_job job;	/* what this process is; CLUSTER_UNTOLD: there is no "task" */
	uint32_t task;		/* and its number in it; the chief is worker 0 */
};

/*
 * From the lists of a ClusterSpec, each address "host:port", and what tf.train.Server is told: job_name, "ps", "worker"
 * or "evaluator", and task_index, the place in its job's list. Worker 0 is the chief. 0, or -EINVAL with what is wrong.
 */
int cluster_spec_make(const char *const *ps_hosts, uint32_t ps_count, const char *const *worker_hosts,
		      uint32_t workers_count, const char *job_name, uint32_t task_index, struct cluster_spec *spec,
		      struct star_error *err);

/* From the text of TF_CONFIG. 0, or -EINVAL with what is wrong with it and, for malformed JSON, where. */
int cluster_spec_parse(const char *tf_config, struct cluster_spec *spec, struct star_error *err);

void cluster_spec_fini(struct cluster_spec *spec); /* also one of zeros, and again */

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
