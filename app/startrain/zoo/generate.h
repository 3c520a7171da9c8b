/* SPDX-License-Identifier: BSD-3-Clause */
/* Hidden teacher models of `startrain generate`, which makes synthetic data. Row i depends only on the seed and i. Pure
 * functions. */
#ifndef STARTRAIN_GENERATE_H
#define STARTRAIN_GENERATE_H

#include <stdint.h>
#include <stdio.h>

#include "base/power_law.h"
#include "train/auc.h"

/* A teacher's weight for (kind, a, b), from a hash: about normally distributed, with standard deviation 1. */
double teacher_weight(uint64_t seed, uint64_t kind, uint64_t a, uint64_t b);

/*
 * Teacher of click histories: a click on the candidate is the more likely, the more similar it is to items clicked
 * before, above all to recent ones; dissimilar items do not count. So a mean over the history predicts little.
 */
struct history_teacher {
	uint64_t seed;
	struct power_law users, categories, items; /* items: within a category */
};

void history_teacher_init(struct history_teacher *t, uint64_t seed);

/* Prints a row. Returns its label and the teacher's score. */
struct auc_example history_teacher_write(const struct history_teacher *t, uint64_t row, FILE *file);

#endif
