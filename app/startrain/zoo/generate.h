/* SPDX-License-Identifier: BSD-3-Clause */
/* Hidden teachers of `startrain generate`. What row i is depends on the seed and i alone. */
#ifndef STARTRAIN_GENERATE_H
#define STARTRAIN_GENERATE_H

#include <stdint.h>
#include <stdio.h>

#include "base/power_law.h"
#include "train/auc.h"

/* About normal with deviation 1, by the hash of what it is the weight of: never 0 for all kinds at once. */
double teacher_weight(uint64_t seed, uint64_t kind, uint64_t a, uint64_t b);

/*
 * Of clicks in users' histories: the candidate's chances grow with how alike it is to items that were clicked on, to
 * those of late the most; what is unlike it does not count. A mean over the history knows little of that.
 */
struct history_teacher {
	uint64_t seed;
	struct power_law users, categories, items; /* items: of one category */
};

void history_teacher_init(struct history_teacher *t, uint64_t seed);

/* Prints a row; its label, and the teacher's score. */
struct auc_example history_teacher_write(const struct history_teacher *t, uint64_t row, FILE *file);

#endif
