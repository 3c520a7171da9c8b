/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/auc.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static int by_score(const void *a, const void *b)
{
	const float x = ((const struct auc_example *)a)->score, y = ((const struct auc_example *)b)->score;

	return (x > y) - (x < y);
}

int auc_exact(struct auc_example *examples, size_t count, double *auc, struct star_error *err)
{
	double below = 0, positives = 0, pairs = 0; /* negatives so far */

	for (size_t i = 0; i < count; i++)
		if (isnan(examples[i].score))
			return star_error_set(err, -EINVAL,
					      "the score of an example is not a number: the model has diverged");
	qsort(examples, count, sizeof(*examples), by_score);
	for (size_t i = 0, end; i < count; i = end) {
		double equal_positives = 0, equal_negatives = 0;

		for (end = i; end < count && examples[end].score == examples[i].score; end++)
			*(examples[end].label > 0.5f ? &equal_positives : &equal_negatives) += 1;
		pairs += equal_positives * (below + equal_negatives / 2);
		below += equal_negatives;
		positives += equal_positives;
	}
	if (positives == 0 || below == 0)
		return star_error_set(err, -EINVAL,
				      "an AUC needs positive and negative examples: there are %.0f and %.0f", positives,
				      below);
	*auc = pairs / positives / below;
	return 0;
}
