/* SPDX-License-Identifier: BSD-3-Clause */
/* startrain's command line. */
#ifndef STARTRAIN_OPTIONS_H
#define STARTRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "app/startrain/training.h"
#include "train/cluster.h"

enum { OPTIONS_TEXTS_MAX = 64 };

struct options {
	struct training training;
	const char *ps;
	struct cluster_spec cluster; /* of TF_CONFIG, if ps comes from it */
	bool dpdk;		     /* ps is a worker's file, where % stands for the worker's number */
	uint32_t workers;	     /* of the whole job */
	uint32_t first_worker;	     /* of those that run here */
	uint32_t local_workers;	     /* their number */
	const char *texts[OPTIONS_TEXTS_MAX];
	uint32_t texts_count;
	const char *report;
	const char *summaries; /* directory */
	const char *dump;
	bool evaluate;
	bool in_turn; /* each push is waited for at once */
	bool json;
	uint32_t neighbours;
	uint64_t deadline_us; /* of each call to the parameter servers */
	const char *dtype;    /* in which the tables are stored; NULL: float32 */
	const char *wire;     /* the type of rows and gradients on their way */
	const char *table;    /* further options of the tables, as star_spec.options; NULL: none */
};

/* 0; 1 when --help or --version was answered; -EINVAL with err. */
int options_parse(struct options *o, int argc, char **argv, struct star_error *err);

#endif
