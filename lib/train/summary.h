/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Summaries: figures of a training run by step, for people and programs. A directory has two files with the same
 * figures: a TensorBoard event file ("events.out.tfevents.<time>.<host>.<pid>": records with masked CRC-32C, of Event
 * messages), and "summaries.jsonl", a JSON object per step. A run that is continued writes an event file of its own, as
 * TensorBoard expects, and appends to the other file. Files that were removed, with or without their directory, are
 * created again.
 *
 * Threads: one at a time. Nothing is buffered: what was written survives the death of the process.
 */
#ifndef TRAIN_SUMMARY_H
#define TRAIN_SUMMARY_H

#include <stdint.h>

#include "star_error.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

struct summary;

struct summary_scalar {
	const char *tag; /* "loss", "auc", "examples_per_s": 1 to 127 bytes, no control characters */
	double value;	 /* may be NaN or infinite: TensorBoard shows that, JSON has null */
};

enum { SUMMARY_SCALARS_MAX = 256 };

/* Creates the directory if needed. NULL with err: -ENOMEM, or the errno of writing there. */
struct summary *summary_create(const char *directory, struct star_error *err);

/* Writes one step's figures, 1 to SUMMARY_SCALARS_MAX, each tag once. 0; -EINVAL (a tag, or their number); or the errno
 * of writing: then this summary is missing as a whole, and later steps may be tried. */
int summary_write(struct summary *summary, uint64_t step, const struct summary_scalar *scalars, unsigned count,
		  struct star_error *err);

/* The step of the last summary in a directory, of any run; 0: there is none. */
uint64_t summary_last_step(const char *directory);

void summary_destroy(struct summary *summary); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
