/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draws ranks from a power law: rank k of 1 to n has a probability proportional to k^-s. By rejection-inversion
 * (Hörmann, Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", ACM TOMACS 6,
 * 1996): the cost of a draw does not depend on n. Constant after power_law_init: any thread may draw, each with its own
 * generator.
 */
#ifndef BASE_POWER_LAW_H
#define BASE_POWER_LAW_H

#include <stdint.h>

#include "base/prng.h"

struct power_law {
	double s, low, high, cut;
	uint32_t n;
};

/* s > 1, n >= 1. */
void power_law_init(struct power_law *law, double s, uint32_t n);

/* Returns a rank minus 1, in [0, n): 0 is the most frequent. */
uint32_t power_law_draw(const struct power_law *law, struct prng *prng);

#endif
