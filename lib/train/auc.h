/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exact area under the ROC curve: of all pairs of a positive and a negative example, the share in which the
 * positive one has the higher score. Pairs with equal scores count half (Mann-Whitney; Fawcett 2006, "An introduction
 * to ROC analysis", section 7). Pure function.
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

/* Sorts the examples in place. 0; -EINVAL with err: there is no positive or no negative example, or a score is NaN. */
int auc_exact(struct auc_example *examples, size_t count, double *auc, struct star_error *err);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
