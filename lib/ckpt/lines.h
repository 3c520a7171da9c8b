/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table of a checkpoint as JSON lines, and back: docs/checkpoints.rst has them. The first line is the table's
 * definition, then comes one for each row, and one for each key that waits for admission; the last says how many there
 * were, so that what was cut off is found. Threads: as ckpt.h.
 */
#ifndef CKPT_LINES_H
#define CKPT_LINES_H

#include <stdio.h>

#include "ckpt/ckpt.h"

/* From the newest checkpoint, or that of this id, and those that it goes on from: a row as the youngest has it. Holds
 * the keys of the deltas in memory. progress may be NULL. 0; -ENOENT with the nearest name of a table; or what is
 * wrong. */
int ckpt_export(const char *directory, uint64_t id, const char *table, FILE *out, ckpt_progress *progress, void *ctx,
		struct star_error *err);

struct ckpt_imported {
	uint64_t id, rows;
	uint32_t tables;
};

/* Lines of one table or of several one after the other, to a full checkpoint in a directory that has none yet: a
 * restore would take the tables of this one alone. Holds a table's keys in memory: one that comes twice is refused.
 * progress (may be NULL) is told bytes read, of `total`. 0, or an error that names the line. */
int ckpt_import(FILE *in, const char *directory, uint64_t total, struct ckpt_imported *imported,
		ckpt_progress *progress, void *ctx, struct star_error *err);

#endif
