/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/power_law.h"

#include <math.h>

/* The integral of the density x^-s from 1, and its inverse, which yields candidates. */
static double integral(double x, double s)
{
	return (pow(x, 1 - s) - 1) / (1 - s);
}

static double integral_inverse(double y, double s)
{
	return pow(1 + y * (1 - s), 1 / (1 - s));
}

void power_law_init(struct power_law *law, double s, uint32_t n)
{
	*law = (struct power_law){
		.s = s,
		.n = n,
		.low = integral(1.5, s) - 1,
		.high = integral(n + 0.5, s),
		.cut = 2 - integral_inverse(integral(2.5, s) - pow(2, -s), s),
	};
}

uint32_t power_law_draw(const struct power_law *law, struct prng *prng)
{
	/* Most candidates are accepted: on average there are fewer than 1.1 iterations (the paper, section 3). */
	for (;;) {
		const double u = law->high + prng_unit(prng) * (law->low - law->high);
		const double x = integral_inverse(u, law->s), k = fmin(fmax(floor(x + 0.5), 1), law->n);

		if (k - x <= law->cut || u >= integral(k + 0.5, law->s) - pow(k, -law->s))
			return (uint32_t)k - 1;
	}
}
