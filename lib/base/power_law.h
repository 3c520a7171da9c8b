/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks by a power law: rank k of 1 to n with a probability in proportion to k^-s. By rejection-inversion (Hörmann,
 * Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", ACM TOMACS 6, 1996):
 * some floating-point operations a draw, whatever n. Constant once made: any thread may draw, each with its own
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

/* s above 1, n from 1. */
void power_law_init(struct power_law *law, double s, uint32_t n);

/* A rank from 0: 0 is the most frequent. */
uint32_t power_law_draw(const struct power_law *law, struct prng *prng);

#endif
