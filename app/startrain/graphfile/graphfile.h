/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `startrain FILE.star`: trains a graph that is written as text, as starserver.torch.export_graph() writes it, with
 * batches and first values from files of arrays (arrays.h), or evaluates and predicts with what PS tasks hold of it.
 */
#ifndef STARTRAIN_GRAPHFILE_H
#define STARTRAIN_GRAPHFILE_H

#include "graph/graph.h"
#include "train/session.h"

enum { GRAPHFILE_FILES_MAX = 64, GRAPHFILE_FEEDS_MAX = 256 };

enum graphfile_command { GRAPHFILE_TRAIN, GRAPHFILE_EVALUATE, GRAPHFILE_PREDICT };

struct graphfile_options {
	enum graphfile_command command;
	const char *graph, *ps, *protocol, *values, *report;
	const char *files[GRAPHFILE_FILES_MAX]; /* of batches, to train, evaluate or predict with */
	uint32_t files_count;
	uint32_t workers, first_worker, local_workers, epochs, intra_op;
	uint64_t seed, deadline_us;
	bool json;
};

/* Whether the command's first argument names a graph's file. */
bool graphfile_is_one(const char *argument);

/* The program: `startrain FILE.star ...`. Returns the exit status. */
int graphfile_main(int argc, char **argv);

/* 0; 1 when --help was answered; -EINVAL with err. */
int graphfile_options_parse(struct graphfile_options *o, int argc, char **argv, struct star_error *err);

/*
 * First values. A variable that is to be given its values is made with -60000 in each element, as
 * starserver.torch.Optimizer makes it, so that a node that was restarted shows what it has lost. The chief gives those
 * that are so the arrays of the file `path`, which has one for each such variable in the graph's order (NULL: no file);
 * the others wait until there are values. Values that are there stay. 0; -ENODATA: there are none, or a part of them is
 * lost; or what the session failed with.
 */
int graphfile_give_values(const struct graph *graph, const struct session_config *config, const char *path,
			  struct star_error *err);

struct graphfile_result {
	uint64_t steps;			       /* or batches that were evaluated */
	uint64_t rows;			       /* of these */
	double first_loss, last_loss, seconds; /* last_loss: or the mean of all rows that were evaluated */
	uint32_t rounds, requests;
};

/* One worker's training. 0 or a negative errno. */
int graphfile_train(const struct graphfile_options *o, uint32_t worker, struct graphfile_result *result,
		    struct star_error *err);

/* What a worker's session is configured with. */
struct session_config graphfile_config(const struct graphfile_options *o, uint32_t worker);

/*
 * Evaluates, or predicts to standard output, with what PS tasks hold: all look-ups are read-only, and a graph that
 * updates anything is refused (-EINVAL). A first result of one number is the loss; all others are predictions.
 */
int graphfile_score(const struct graphfile_options *o, struct graphfile_result *result, struct star_error *err);

#endif
