/* SPDX-License-Identifier: BSD-3-Clause */
/* Learning rates by step. */
#include "tensor/elementary.h"
#include "wire/object.h"

/* Falls from 1 to `end` along half a cosine wave. */
static double cosine(double share, double end)
{
	double sine, cos;

	tensor_elementary_sincos((uint32_t)(share * 0x1p31), &sine, &cos);
	return end + (1 - end) * (1 + cos) / 2;
}

float wire_object_rate(const struct object_spec *spec, float rate, uint64_t step)
{
	uint64_t t = step ? step - 1 : 0;
	double factor = 1;

	if (t < spec->warmup_steps)
		return (float)((double)rate * ((double)(t + 1) / (double)spec->warmup_steps));
	t -= spec->warmup_steps;
	if (spec->schedule == SCHEDULE_EXPONENTIAL)
		factor = tensor_elementary_pow((double)spec->schedule_rate, (double)t / (double)spec->schedule_steps);
	else if (spec->schedule == SCHEDULE_COSINE)
		factor = t < spec->schedule_steps
				 ? cosine((double)t / (double)spec->schedule_steps, (double)spec->schedule_rate)
				 : (double)spec->schedule_rate;
	return (float)((double)rate * factor);
}
