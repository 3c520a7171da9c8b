/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A word2vec job on this machine: a parent process starts the workers, watches them and shows progress. It never talks
 * to a parameter server itself, so it always notices Ctrl-C and a child that dies. There are three phases: prepare (one
 * process: create the tables, measure), train (the workers), finish (one process: measure, print). A phase succeeds if
 * all its processes do; otherwise all are ended, and the first error is the job's.
 *
 * Threads: one per process.
 */
#ifndef STARTRAIN_JOB_H
#define STARTRAIN_JOB_H

#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "app/startrain/options.h"
#include "app/startrain/sampler.h"

/* A process's counters since its start, in memory shared with the parent. Only that process writes them. */
struct figures {
	_Atomic uint64_t sentences; /* begun, in all epochs */
	_Atomic uint64_t examples;  /* pairs */
	_Atomic uint64_t rows_pulled;
	_Atomic uint64_t rows_pushed;
	_Atomic double loss;
	struct star_error err; /* set before an exit with status 1 */
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

/* The work of a phase's process; worker is its number in the job. 0 or a negative errno with err. */
typedef int job_task(struct job *job, uint32_t worker, struct star_error *err);

/* Sets up shared memory and signals for options.local_workers processes. 0 or a negative errno; job_release in any
 * case. */
int job_prepare(struct job *job, struct star_error *err);
void job_release(struct job *job);

/*
 * Runs a phase of `count` processes. name: what errors call one of them, NULL if there is only one. 0 or a negative
 * errno; -EINTR if a signal ended it, whose number is err->code then.
 */
int job_run(struct job *job, const char *name, job_task *task, uint32_t count, struct star_error *err);

/* Prints the error of a job that ended with rc, and returns the program's exit status: `failed`, unless a signal ended
 * it. */
int job_exit_status(int rc, int failed, const struct star_error *err);

/* The three tasks. */
job_task prepare_run;
job_task worker_run;
job_task finish_run;

#endif
