/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Summaries: what a training run says of itself by step, for people and programs. In a directory, two files with the
 * same figures: a TensorBoard event file ("events.out.tfevents.<time>.<host>.<pid>": records with masked CRC-32C, of
 * Event messages), and "summaries.jsonl", a JSON object a step. A run that is continued writes event files of its own,
 * as TensorBoard expects, and appends to the other. Files that are taken away, with their directory or without, are
 * made again.
 *
 * Threads: one at a time. Nothing is buffered: what was written is there when the process dies.
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
	double value;	 /* NaN and infinities too: TensorBoard shows them, JSON has null */
};

enum { SUMMARY_SCALARS_MAX = 256 };

/* Makes the directory if it is not there. NULL with err: -ENOMEM, or the errno of writing there. */
struct summary *summary_create(const char *directory, struct star_error *err);

/* One step's figures, 1 to SUMMARY_SCALARS_MAX, each tag once. 0; -EINVAL (a tag, or their number); or the errno of
 * writing: what could not be written is missing, as a whole, and later steps may be tried. */
int summary_write(struct summary *summary, uint64_t step, const struct summary_scalar *scalars, unsigned count,
		  struct star_error *err);

/* The step of the last summary in a directory, of whatever run; 0: there is none. */
uint64_t summary_last_step(const char *directory);

void summary_destroy(struct summary *summary); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
