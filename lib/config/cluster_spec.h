/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The members of a training job: the lists of its PS tasks (by *control* address) and workers, and which of them this
 * process is. Given in the form of TensorFlow's ClusterSpec and Server, or by TF_CONFIG in each form that TensorFlow's
 * own resolver accepts:
 *
 *	{"cluster": {"ps": ["host:port", ...], "worker": [...], "chief": [...]}, "task": {"type": "worker", "index": 0}}
 *
 * A "chief" is the first worker; chief and workers are counted together, chief first. "master" means chief. "evaluator"
 * is a task outside the cluster. A job may be a dict of addresses by index, {"1": "host:port"}, which omits tasks that
 * this one need not know; PS tasks must all be there. Addresses may begin with "grpc://" (or a protocol of
 * StarServer's), which has no effect. Without a "task" the program says which one it is; without a "cluster" ({} too)
 * nothing is specified. Members without a meaning here ("environment", "session_master", other jobs) are ignored.
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
	char *ps;      /* "tcp:host:port,host:port,...", as for star_open; NULL: there is no cluster */
	char *workers; /* "host:port,host:port,...", the chief first, without omitted ones */
	uint32_t ps_count;
	uint32_t workers_count; /* the last one's number plus one; 0: none is listed */
	enum cluster_job job;	/* what this process is; CLUSTER_UNTOLD: there is no "task" */
	uint32_t task;		/* its index in that job; the chief is worker 0 */
};

/*
 * From the lists of a ClusterSpec, each address "host:port", and the arguments of tf.train.Server: job_name, "ps",
 * "worker" or "evaluator", and task_index, the index in its job's list. Worker 0 is the chief. 0, or -EINVAL with what
 * is wrong.
 */
int cluster_spec_make(const char *const *ps_hosts, uint32_t ps_count, const char *const *worker_hosts,
		      uint32_t workers_count, const char *job_name, uint32_t task_index, struct cluster_spec *spec,
		      struct star_error *err);

/* From the text of TF_CONFIG. 0, or -EINVAL with what is wrong and, for malformed JSON, where. */
int cluster_spec_parse(const char *tf_config, struct cluster_spec *spec, struct star_error *err);

void cluster_spec_fini(struct cluster_spec *spec); /* also one of zeros, and again */

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
