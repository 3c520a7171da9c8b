/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts a table of a checkpoint to JSON lines and back (docs/checkpoints.rst). The first line is the table's
 * definition, then comes a line for each row, and one for each key that waits for admission; the last one has the
 * totals, so that a truncated file is detected. Threads: as ckpt.h.
 */
#ifndef CKPT_LINES_H
#define CKPT_LINES_H

#include <stdio.h>

#include "ckpt/ckpt.h"

/* Exports from the newest checkpoint, or that with this id, and those that it is based on: each row as of the newest
 * one that has it. Keeps the keys of the deltas in memory. progress may be NULL. 0; -ENOENT with the most similar name
 * of a table; or another error. */
int ckpt_export(const char *directory, uint64_t id, const char *table, FILE *out, ckpt_progress *progress, void *ctx,
		struct star_error *err);

struct ckpt_imported {
	uint64_t id, rows;
	uint32_t tables;
};

/* Imports lines of one table, or of several in sequence, as a full checkpoint in a directory that has none: a restore
 * would create only the tables of this one. Keeps a table's keys in memory, because a key that occurs twice is refused.
 * progress (may be NULL) gets the number of bytes read, of `total`. 0, or an error that names the line. */
int ckpt_import(FILE *in, const char *directory, uint64_t total, struct ckpt_imported *imported,
		ckpt_progress *progress, void *ctx, struct star_error *err);

#endif
