/* SPDX-License-Identifier: BSD-3-Clause */
/* Configures a session from a cluster specification (config/cluster_spec.h). Threads: plain data, built by one. */
#ifndef TRAIN_CLUSTER_H
#define TRAIN_CLUSTER_H

#include "config/cluster_spec.h"
#include "train/session.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

/* Sets a worker's ps (a pointer into spec), task_index and workers. 0, or -EINVAL: this task is not a worker. */
int cluster_spec_worker(const struct cluster_spec *spec, struct session_config *config, struct star_error *err);

/*
 * As TensorFlow's RunConfig() does, and every call of estimator.h: if the program has not set config->ps, and the
 * environment has a TF_CONFIG, reads spec from it, and sets config's ps (a pointer into spec), task_index, workers and
 * evaluator. Otherwise spec is empty and config unchanged. 0; -EINVAL: TF_CONFIG is malformed, or is that of a PS task,
 * or of another worker than config->task_index.
 */
int cluster_spec_take_environment(struct cluster_spec *spec, struct session_config *config, struct star_error *err);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
