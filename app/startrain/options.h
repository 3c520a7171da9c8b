/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of `startrain` for word2vec (zoo/options.h has that of the models). One thread. */
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
	struct cluster_spec cluster; /* from TF_CONFIG, if ps comes from there */
	bool dpdk;		     /* ps names a worker's file; % in it is the worker's number */
	uint32_t workers;	     /* of the whole job */
	uint32_t first_worker;	     /* the first of those that run here */
	uint32_t local_workers;	     /* their number */
	const char *texts[OPTIONS_TEXTS_MAX];
	uint32_t texts_count;
	const char *report;
	const char *summaries; /* directory */
	const char *dump;
	bool evaluate;
	bool in_turn; /* wait for each push before the next step */
	bool json;
	uint32_t neighbours;
	uint64_t deadline_us; /* of each call to the parameter servers */
	const char *dtype;    /* element type of the tables; NULL: float32 */
	const char *wire;     /* element type of rows and gradients on the wire; NULL: float32 */
	const char *table;    /* more options of the tables, as star_spec.options; NULL: none */
};

/* 0; 1 if --help or --version was printed; -EINVAL with err. */
int options_parse(struct options *o, int argc, char **argv, struct star_error *err);

#endif
