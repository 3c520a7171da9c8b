/* SPDX-License-Identifier: BSD-3-Clause */
/* How a job reaches its PS tasks: --transport, and what --ps means with it. Any thread. */
#ifndef STARTRAIN_TRANSPORT_H
#define STARTRAIN_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/star_error.h"
#include "train/cluster.h"

/*
 * Converts --ps to an address for star_open: addresses stay as they are. With --transport dpdk, --ps is the name of a
 * worker's file (each worker has its own port), and % in it becomes the worker's number. 0, or -EINVAL if it is too
 * long.
 */
enum { TRANSPORT_PS_TEXT = 4096 };
int transport_ps(const char *ps, bool dpdk, uint32_t worker, char address[static TRANSPORT_PS_TEXT],
		 struct star_error *err);

/* A job's place in the cluster, from the command line. Only `evaluator` may be NULL. */
struct transport_place {
	const char **ps;    /* *ps is NULL: --ps was not given */
	uint32_t *workers;  /* *workers is 0: --workers was not given */
	uint32_t *worker;   /* of --worker */
	uint32_t *together; /* number of workers that run here: 1 with --worker, else 0 */
	bool *evaluator;    /* NULL: this program has no evaluator */
	bool dpdk;
};

/*
 * Without --ps, takes the members of the job, and which of them this process is, from TF_CONFIG; `cluster` owns its
 * texts. With --transport dpdk, --ps names a file; if neither --workers nor --worker is given, TF_CONFIG, if there is
 * one, says which worker this is, of how many. --workers may be greater than the number of listed workers. 0, or
 * -EINVAL: there are no addresses of PS tasks, or this is not a worker of the job.
 */
int transport_take_environment(const struct transport_place *place, struct cluster_spec *cluster,
			       struct star_error *err);

/* Limits: workers of a job, and worker processes of one parent (on one machine). */
enum { TRANSPORT_WORKERS_MAX = 65536, TRANSPORT_TOGETHER_MAX = 1024 };

/* Sets how many of a job's workers run here: one with --worker, else all of them; together: as above. 0, or -EINVAL
 * with a message. */
int transport_place_workers(uint32_t workers, uint32_t worker, uint32_t *together, struct star_error *err);

/* Parses --transport: tcp or dpdk. 0, or -EINVAL with a message. */
int transport_parse(const char *text, bool *dpdk, struct star_error *err);

#endif
