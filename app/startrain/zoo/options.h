/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of `startrain MODEL`: the list, and the check of combinations. One thread. */
#ifndef STARTRAIN_ZOO_OPTIONS_H
#define STARTRAIN_ZOO_OPTIONS_H

#include <getopt.h>

#include "app/startrain/zoo/zoo.h"

/* X(option, has an argument, help). */
#define ZOO_OPTIONS(X) \
	X(ps, required_argument, \
	  "ADDRESSES  control addresses of the PS tasks, or local: no PS tasks, all in this process [from TF_CONFIG]") \
	X(transport, required_argument, \
	  "NAME       tcp, or dpdk: then --ps names a worker's file, in which % is the worker's number [tcp]") \
	X(train, required_argument, "FILE...    training examples, plain, gzip or zstd; - for standard input") \
	X(test, required_argument, \
	  "FILE...    examples to evaluate at the end (AUC, loss and metrics), or to predict") \
	X(format, required_argument, \
	  "NAME       format of the files: criteo, census, libsvm, histories or text [what the model needs]") \
	X(schema, required_argument, "FILE       describes the columns of your own files (startrain(1), SCHEMAS)") \
	X(protocol, required_argument, "NAME       grpc++, star_server or star_server_lite [star_server]") \
	X(tensor_fuse, no_argument, "           with grpc++: one message for all tensors of a wave") \
	X(workers, required_argument, \
	  "N          worker processes of the job, all started here, unless there is a --worker [1]") \
	X(worker, required_argument, "I          start only worker I of them, counted from 0") \
	X(epochs, required_argument, "N          passes over the training examples [1]") \
	X(last_step, required_argument, "N          global step at which the job ends, even if examples are left") \
	X(evaluate_every, required_argument, \
	  "N          global steps between two evaluations of the evaluator in TF_CONFIG [1000]") \
	X(threshold, required_argument, \
	  "P          scores from P on count as 1, for accuracy, precision and recall with --test [0.5]") \
	X(queue, required_argument, \
	  "NAME       a work queue: workers take slices of the files, and also those of dead workers") \
	X(slice, required_argument, \
	  "KIB        size of the work queue's slices [a thousandth of the files, 64 to 16384]") \
	X(batch, required_argument, "N          examples per step [128]") \
	X(dim, required_argument, "N          elements of an embedding [8]") \
	X(apart, no_argument, "           a table for each column of ids, instead of one for all") \
	X(dtype, required_argument, \
	  "NAME       element type of the tables: float16, bfloat16 or scaled_int8 [float32]") \
	X(wire, required_argument, "NAME       element type of rows and gradients on the wire [float32]") \
	X(clip_norm, required_argument, "C          clip all gradients of a step together to this L2 norm [none]") \
	X(batch_norm, no_argument, \
	  "           batch normalization of the dense layers; in evaluation by running means") \
	X(optimizer, required_argument, "NAME       optimizer of the tables [adam]") \
	X(rate, required_argument, "R          its learning rate [0.001]") \
	X(dense_optimizer, required_argument, "NAME       optimizer of the dense layers [adam]") \
	X(dense_rate, required_argument, "R          its learning rate [0.001]") \
	X(table, required_argument, \
	  "OPTIONS    more options of the tables, such as \"schedule=cosine,schedule_steps=1000\" (the job's steps)") \
	X(dense, required_argument, "OPTIONS    more options of the dense layers") \
	X(history, required_argument, "N          latest clicks of a history to use, at most [50]") \
	X(shuffle, required_argument, "N          size of the shuffle buffer, in examples [10000]") \
	X(seed, required_argument, "N          seed of all random numbers [1]") \
	X(vocabulary, required_argument, \
	  "N          size of the vocabulary: the most frequent words of the text [2000]") \
	X(window, required_argument, "N          words per window [16]; skip-gram: words on each side, at most [5]") \
	X(negatives, required_argument, "N          skip-gram: negative samples for each pair [5]") \
	X(model_dir, required_argument, "DIR        write summaries here for TensorBoard, and as JSON lines") \
	X(intra_op, required_argument, "N          threads per kernel [1]") \
	X(inter_op, required_argument, "N          kernels that run at once [1]") \
	X(steps_in_flight, required_argument, \
	  "N          steps of a worker in flight: one computes while others wait for PS tasks [1]") \
	X(deadline, required_argument, "S          deadline of a call to the PS tasks, in seconds [30]") \
	X(staleness, required_argument, "S          steps that a worker may be ahead of the slowest one [no limit]") \
	X(sync, no_argument, \
	  "           synchronous: each step applies the mean gradient of all workers (or --grads-to-wait)") \
	X(grads_to_wait, required_argument, \
	  "N          with --sync, the first N workers count in each step; the others are backup workers [all]") \
	X(mean_by_row, no_argument, \
	  "           divide a row's gradients by the number of workers that used it, as in TensorFlow") \
	X(lease, required_argument, "S          seconds to wait for a silent worker [10]") \
	X(json, no_argument, "           print the result as one JSON object; each prediction as one") \
	X(help, no_argument, "")

/* Return values of getopt_long; ARGUMENT is one that is not an option, which the "-" in optstring asks for. */
enum {
	NONE,
	ARGUMENT,
#define X(name, argument, help) OPTION_##name,
	ZOO_OPTIONS(X)
#undef X
		ZOO_OPTIONS_COUNT /* also the end of the table */
};

/* Checks files and format, and that every given option has an effect; given: by option. Sets the format. 0, or -EINVAL
 * with what is wrong and what to do. */
int zoo_options_check(struct zoo_options *o, const bool *given, struct star_error *err);

#endif
