/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a running job shows: one line for all workers on standard error, drawn again each second on a terminal, with a
 * bar, and written every five seconds otherwise; and, a second each, the report (a JSON object) and summaries.
 */
#ifndef STARTRAIN_PROGRESS_H
#define STARTRAIN_PROGRESS_H

#include "app/startrain/job.h"
#include "train/summary.h"

/* all: what sentences of all local workers are together when they are done. */
struct progress *progress_create(const struct job *job, uint64_t all, FILE *report, struct summary *summary,
				 struct star_error *err);

/* Ends the line; frees. */
void progress_destroy(struct progress *p);

/* Called often; shows what is due. */
void progress_tick(struct progress *p);

/* Writes what happened since the last line of the report. */
void progress_finish(struct progress *p);

/* "[=====     ]" of n characters between the brackets; share: 0 to 1. */
void progress_bar(double share, unsigned width, char *text);

/* Sums of all local workers. */
struct totals {
	uint64_t sentences, examples, rows_pulled, rows_pushed;
	double loss;
};
struct totals job_totals(const struct job *job);

#endif
