/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress of a running job: one line for all workers on standard error, on a terminal redrawn every second, with a
 * bar, otherwise written every five seconds; and, once per second, a line of the report (a JSON object) and summaries.
 * One thread: the parent's.
 */
#ifndef STARTRAIN_PROGRESS_H
#define STARTRAIN_PROGRESS_H

#include "app/startrain/job.h"
#include "train/summary.h"

/* all: the sentences that all local workers will process together. report and summary may be NULL. NULL with err. */
struct progress *progress_create(const struct job *job, uint64_t all, FILE *report, struct summary *summary,
				 struct star_error *err);

/* Ends the line, and frees. */
void progress_destroy(struct progress *p);

/* To be called often: shows what is due. */
void progress_tick(struct progress *p);

/* Writes the report's last line. */
void progress_finish(struct progress *p);

/* Writes "[=====     ]", with `width` characters between the brackets; share: 0 to 1. text has width + 3 bytes. */
void progress_bar(double share, unsigned width, char *text);

/* Sums over all local workers. */
struct totals {
	uint64_t sentences, examples, rows_pulled, rows_pushed;
	double loss;
};
struct totals job_totals(const struct job *job);

#endif
