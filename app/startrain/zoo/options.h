/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of `startrain MODEL`: one list, and whether those given go together. */
#ifndef STARTRAIN_ZOO_OPTIONS_H
#define STARTRAIN_ZOO_OPTIONS_H

#include <getopt.h>

#include "app/startrain/zoo/zoo.h"

/* X(option, has an argument, help). */
#define ZOO_OPTIONS(X) \
	X(ps, required_argument, \
	  "ADDRESSES  control addresses of the PS tasks, or local: none, all is in this process [TF_CONFIG's]") \
	X(transport, required_argument, \
	  "NAME       tcp, or dpdk: then --ps names a worker's file, where % is the worker's number [tcp]") \
	X(train, required_argument, "FILE...    training examples, plain, gzip or zstd; - is standard input") \
	X(test, required_argument, \
	  "FILE...    examples to evaluate with at the end: AUC, loss and metrics; or to predict") \
	X(format, required_argument, \
	  "NAME       of the files: criteo, census, libsvm, histories or text [as the model needs]") \
	X(schema, required_argument, "FILE       what the columns of files of one's own are (startrain(1), SCHEMAS)") \
	X(protocol, required_argument, "NAME       grpc++, star_server or star_server_lite [star_server]") \
	X(tensor_fuse, no_argument, "           with grpc++: one message for all tensors of a wave") \
	X(workers, required_argument, "N          worker processes of the job [1]; they all run here, but for:") \
	X(worker, required_argument, "I          run only worker I of them, counted from 0") \
	X(epochs, required_argument, "N          passes over the training examples [1]") \
	X(last_step, required_argument, "N          global step at which the job ends, whatever is left of the files") \
	X(evaluate_every, required_argument, \
	  "N          global steps between two evaluations of TF_CONFIG's evaluator [1000]") \
	X(threshold, required_argument, \
	  "P          predictions from here on say 1: of accuracy, precision and recall of --test [0.5]") \
	X(queue, required_argument, \
	  "NAME       a work queue: workers get slices of the files as they come for them, and those of dead ones") \
	X(slice, required_argument, "KIB        of the work queue [a thousandth of the files, 64 to 16384]") \
	X(batch, required_argument, "N          examples of a step [128]") \
	X(dim, required_argument, "N          elements of an embedding [8]") \
	X(apart, no_argument, "           a table for each column of ids, and not one for all") \
	X(dtype, required_argument, \
	  "NAME       type in which the tables are stored: float16, bfloat16 or scaled_int8 [float32]") \
	X(wire, required_argument, "NAME       type in which the tables' rows and their gradients travel [float32]") \
	X(clip_norm, required_argument, \
	  "C          all gradients of a step are scaled down together to this L2 norm [none]") \
	X(batch_norm, no_argument, \
	  "           dense layers are normalized by their batch, in evaluation by running means") \
	X(optimizer, required_argument, "NAME       of the tables [adam]") \
	X(rate, required_argument, "R          its learning rate [0.001]") \
	X(dense_optimizer, required_argument, "NAME       of the dense layers [adam]") \
	X(dense_rate, required_argument, "R          its learning rate [0.001]") \
	X(table, required_argument, \
	  "OPTIONS    further options of the tables, as \"schedule=cosine,schedule_steps=1000\" (the job's steps)") \
	X(dense, required_argument, "OPTIONS    further options of the dense layers") \
	X(history, required_argument, "N          clicks of a row's history at most, the latest [50]") \
	X(shuffle, required_argument, "N          examples of which the next one is drawn [10000]") \
	X(seed, required_argument, "N          of all that chance decides [1]") \
	X(vocabulary, required_argument, "N          words of a text that are told apart, the most frequent [2000]") \
	X(window, required_argument, \
	  "N          words of a step's window [16]; of skip-gram: on each side of a word, at most [5]") \
	X(negatives, required_argument, "N          words that are drawn for each pair of skip-gram [5]") \
	X(model_dir, required_argument, "DIR        summaries for TensorBoard, and as JSON lines") \
	X(intra_op, required_argument, "N          threads in a kernel [1]") \
	X(inter_op, required_argument, "N          kernels at once [1]") \
	X(steps_in_flight, required_argument, \
	  "N          steps of a worker at once: one computes while others wait for PS tasks [1]") \
	X(deadline, required_argument, "S          seconds that a call to the PS tasks may take [30]") \
	X(staleness, required_argument, "S          steps that a worker may be ahead of another one [any number]") \
	X(sync, no_argument, "           synchronous: each step takes the mean of all workers' gradients, or of: ") \
	X(grads_to_wait, required_argument, "N          the first N of them; the others are backup workers [all]") \
	X(mean_by_row, no_argument, \
	  "           a row's gradients are divided by the workers that have touched it, as in TensorFlow") \
	X(lease, required_argument, "S          seconds that a worker which is not heard of is waited for [10]") \
	X(json, no_argument, "           print the result as one JSON object; predictions as one each") \
	X(help, no_argument, "")

/* An argument that is no option, as getopt_long has it with "-"; options come after it. */
enum {
	NONE,
	ARGUMENT,
#define X(name, argument, help) OPTION_##name,
	ZOO_OPTIONS(X)
#undef X
		ZOO_OPTIONS_COUNT /* and the table's end */
};

/* Files, format, and that each option that is given means something; given: by option. Sets the format. 0, or -EINVAL
 * with what is wrong and what to do. */
int zoo_options_check(struct zoo_options *o, const bool *given, struct star_error *err);

#endif
