/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The area under the ROC curve, exactly: the share of pairs of a positive and a negative example in which the positive
 * one has the higher score, those with equal scores counting half (Mann-Whitney; Fawcett 2006, "An introduction to ROC
 * analysis", section 7). Pure.
 */
#ifndef TRAIN_AUC_H
#define TRAIN_AUC_H

#include <stddef.h>

#include "star_error.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

struct auc_example {
	float score;
	float label; /* above 0.5: positive */
};

/* Sorts the examples. -EINVAL with a message when there is no positive or no negative one, or a score is NaN. */
int auc_exact(struct auc_example *examples, size_t count, double *auc, struct star_error *err);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
