/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `startrain FILE.star`: trains a graph from its text, such as starserver.torch.export_graph() writes, with batches and
 * initial values from files of arrays (arrays.h); or evaluates or predicts with the parameters on the PS tasks. One
 * thread per process.
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
	const char *files[GRAPHFILE_FILES_MAX]; /* of batches for training, evaluation or prediction */
	uint32_t files_count;
	uint32_t workers, first_worker, local_workers, epochs, intra_op;
	uint64_t seed, deadline_us;
	bool json;
};

/* Whether the command's first argument names a graph's file. */
bool graphfile_is_one(const char *argument);

/* The program: `startrain FILE.star ...`. Returns the exit status. */
int graphfile_main(int argc, char **argv);

/* 0; 1 if --help was printed; -EINVAL with err. */
int graphfile_options_parse(struct graphfile_options *o, int argc, char **argv, struct star_error *err);

/*
 * Initializes variables. A variable that needs values from a file is created with -60000 in each element, as
 * starserver.torch.Optimizer does, so that values that a restarted node lost are recognized. The chief assigns the
 * arrays of the file `path`, one for each such variable in the graph's order (NULL: no file), to those that still have
 * -60000; other workers wait for that. Existing values are not changed. 0; -ENODATA: there are no values, or some of
 * them were lost; or the session's error.
 */
int graphfile_give_values(const struct graph *graph, const struct session_config *config, const char *path,
			  struct star_error *err);

struct graphfile_result {
	uint64_t steps;			       /* or evaluated batches */
	uint64_t rows;			       /* in these */
	double first_loss, last_loss, seconds; /* last_loss: or the mean over all evaluated rows */
	uint32_t rounds, requests;
};

/* One worker's training. 0 or a negative errno. */
int graphfile_train(const struct graphfile_options *o, uint32_t worker, struct graphfile_result *result,
		    struct star_error *err);

/* Returns the configuration of a worker's session. */
struct session_config graphfile_config(const struct graphfile_options *o, uint32_t worker);

/*
 * Evaluates, or prints predictions to standard output, with the parameters on the PS tasks. All look-ups are read-only,
 * and a graph that updates anything is refused (-EINVAL). If the first result is a scalar, it is the loss; all others
 * are predictions.
 */
int graphfile_score(const struct graphfile_options *o, struct graphfile_result *result, struct star_error *err);

#endif
