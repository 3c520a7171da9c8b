/* SPDX-License-Identifier: BSD-3-Clause */
/* How a job reaches its PS tasks: --transport, and what it makes of --ps. Any thread. */
#ifndef STARTRAIN_TRANSPORT_H
#define STARTRAIN_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/star_error.h"
#include "train/cluster.h"

/*
 * What star_open takes, for a job's --ps: addresses as they are; with --transport dpdk the name of a worker's file,
 * since each has a port of its own, where % stands for the worker's number. 0, or -EINVAL: it is too long.
 */
enum { TRANSPORT_PS_TEXT = 4096 };
int transport_ps(const char *ps, bool dpdk, uint32_t worker, char address[static TRANSPORT_PS_TEXT],
		 struct star_error *err);

/*
 * Without --ps: who takes part, and which worker this is, as TensorFlow's jobs are told. told has ps, workers and
 * task_index of TF_CONFIG, which cluster keeps. 0, or -EINVAL: there is none, or none of a worker.
 */
int transport_read_environment(struct cluster_spec *cluster, struct session_config *told, struct star_error *err);

/* --transport: tcp or dpdk. */
int transport_parse(const char *text, bool *dpdk, struct star_error *err);

#endif
