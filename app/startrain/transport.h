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

/* A job's place as the command line has it; none of these points to NULL, but evaluator may. */
struct transport_place {
	const char **ps;    /* NULL: --ps was not given */
	uint32_t *workers;  /* 0: --workers was not given */
	uint32_t *worker;   /* that of --worker */
	uint32_t *together; /* workers that run here; 1 with --worker, else 0 */
	bool *evaluator;    /* NULL: there is no such task here */
	bool dpdk;
};

/*
 * Without --ps: who takes part, and which of them this is, as TensorFlow's jobs are told; cluster keeps TF_CONFIG's
 * texts. With --transport dpdk --ps names a file, and where neither --workers nor --worker is given TF_CONFIG says
 * which worker of how many this is, if it is there. --workers may be more than are listed. 0, or -EINVAL: nobody says
 * where PS tasks are, or this is none of the job's workers.
 */
int transport_take_environment(const struct transport_place *place, struct cluster_spec *cluster,
			       struct star_error *err);

/* Workers of a job; and processes of one parent, which would be of one machine. */
enum { TRANSPORT_WORKERS_MAX = 65536, TRANSPORT_TOGETHER_MAX = 1024 };

/* Which of a job's workers run here: with --worker that one, else all of them; together: as above. 0, or -EINVAL. */
int transport_place_workers(uint32_t workers, uint32_t worker, uint32_t *together, struct star_error *err);

/* --transport: tcp or dpdk. */
int transport_parse(const char *text, bool *dpdk, struct star_error *err);

#endif
