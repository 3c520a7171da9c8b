/* SPDX-License-Identifier: BSD-3-Clause */
/* What a session is told of its cluster (config/cluster_spec.h). Threads: plain data, built by one. */
#ifndef TRAIN_CLUSTER_H
#define TRAIN_CLUSTER_H

#include "config/cluster_spec.h"
#include "train/session.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

/* What a worker's session is told of it: ps, which stays the spec's, task_index and workers. 0, or -EINVAL: this task
 * is no worker. */
int cluster_spec_worker(const struct cluster_spec *spec, struct session_config *config, struct star_error *err);

/*
 * As TensorFlow's RunConfig() does, and every call of estimator.h: where the program has not said who takes part
 * (config->ps is NULL), and the environment has a TF_CONFIG, that says it. spec is read from it, and config told of it:
 * ps, which stays the spec's, task_index, workers and evaluator. Else spec is empty and config as it was. 0; -EINVAL:
 * TF_CONFIG is malformed, is that of a PS task, or of another worker than config->task_index.
 */
int cluster_spec_take_environment(struct cluster_spec *spec, struct session_config *config, struct star_error *err);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
