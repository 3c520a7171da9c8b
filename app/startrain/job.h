/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job on this machine: a parent that starts processes, watches them and shows progress, and never talks to a
 * parameter server itself, so that it always hears Ctrl-C and a dying child. It runs three phases one after the other:
 * prepare (one process: create the tables, measure), train (the workers), finish (one process: measure, print). A phase
 * ends well when all its processes do; else everything is ended and the first error is the job's.
 */
#ifndef STARTRAIN_JOB_H
#define STARTRAIN_JOB_H

#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "app/startrain/options.h"
#include "app/startrain/sampler.h"

/* Figures of a process, in memory shared with the parent. One writer: the process. Sums since its start. */
struct figures {
	_Atomic uint64_t sentences; /* begun, of all epochs */
	_Atomic uint64_t examples;  /* pairs */
	_Atomic uint64_t rows_pulled;
	_Atomic uint64_t rows_pushed;
	_Atomic double loss;
	struct star_error err; /* written before an exit with status 1 */
} __attribute__((aligned(64)));

struct job_shared {
	double held_out_before;	  /* by prepare */
	struct figures figures[]; /* by local worker; prepare and finish use the first one's err */
};

struct progress;

struct job {
	struct options options;
	struct corpus corpus;
	struct sampler sampler;
	struct job_shared *shared;
	size_t shared_bytes;
	pid_t *pids; /* by local worker; 0: none, or ended */
	uint32_t running;
	sigset_t watched; /* signals that the parent waits for */
	sigset_t inherited;
	struct progress *progress;
	FILE *dump;
	double training_s;
};

/* What a process of a phase does: worker is its number in the job. 0 or a negative errno with err. */
typedef int job_task(struct job *job, uint32_t worker, struct star_error *err);

/* Memory and signals, for options.local_workers; job_release frees what was made, also after a failure. */
int job_prepare(struct job *job, struct star_error *err);
void job_release(struct job *job);

/*
 * Runs a phase with `count` processes; name: what each is called in an error, NULL where there is but one. 0 or a
 * negative errno; -EINTR with err->code the signal when one ended it.
 */
int job_run(struct job *job, const char *name, job_task *task, uint32_t count, struct star_error *err);

/* The program's exit status when its job has ended with rc; prints the error. failed: the status unless a signal ended
 * it. */
int job_exit_status(int rc, int failed, const struct star_error *err);

/* The three tasks. */
job_task prepare_run;
job_task worker_run;
job_task finish_run;

#endif
