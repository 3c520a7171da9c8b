/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/model.h"

#include <math.h>
#include <string.h>

/* Lanes are summed in a fixed order, so that the compiler may use vectors without changing the bits. */
enum { LANES = 8 };

static float dot(const float *restrict a, const float *restrict b, uint32_t n)
{
	float lane[LANES] = { 0 }, sum = 0;
	uint32_t i = 0;

	for (; i + LANES <= n; i += LANES)
		for (uint32_t k = 0; k < LANES; k++)
			lane[k] += a[i + k] * b[i + k];
	for (; i < n; i++)
		sum += a[i] * b[i];
	for (uint32_t k = 0; k < LANES; k++)
		sum += lane[k];
	return sum;
}

static void add_scaled(float *restrict sum, float scale, const float *restrict a, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		sum[i] += scale * a[i];
}

/* -log sigma(x), without overflow for large |x|. */
static float softplus_of_minus(float x)
{
	return (x < 0 ? -x : 0) + log1pf(expf(-fabsf(x)));
}

static float sigmoid(float x)
{
	return 1 / (1 + expf(-x));
}

struct pass {
	uint32_t dim;
	const float *in, *out;
	float *in_gradient, *out_gradient;
};

/* A center and a row of words-out, which stands for `pairs` pairs: 1 for a context, all of them for a negative. */
static double term(const struct pass *p, uint32_t center, uint32_t target, bool positive, uint32_t pairs)
{
	const float *v = p->in + (size_t)center * p->dim, *u = p->out + (size_t)target * p->dim;
	const float score = dot(v, u, p->dim);

	if (p->in_gradient != NULL) {
		const float slope = (positive ? sigmoid(score) - 1 : sigmoid(score)) * (float)pairs;

		add_scaled(p->in_gradient + (size_t)center * p->dim, slope, u, p->dim);
		add_scaled(p->out_gradient + (size_t)target * p->dim, slope, v, p->dim);
	}
	return (double)softplus_of_minus(positive ? score : -score) * pairs;
}

double model_loss(const struct batch *b, uint32_t dim, const float *in, const float *out, float *in_gradient,
		  float *out_gradient)
{
	const struct pass pass = { dim, in, out, in_gradient, out_gradient };
	double loss = 0;

	if (in_gradient != NULL) {
		memset(in_gradient, 0, (size_t)b->in.count * dim * sizeof(float));
		memset(out_gradient, 0, (size_t)b->out.count * dim * sizeof(float));
	}
	for (const struct group *g = b->groups; g < b->groups + b->groups_count; g++) {
		for (uint32_t i = 0; i < g->contexts; i++)
			loss += term(&pass, g->center, b->contexts[g->first_context + i], true, 1);
		for (uint32_t i = 0; i < g->negatives; i++)
			loss += term(&pass, g->center, b->negatives_drawn[g->first_negative + i], false, g->contexts);
	}
	return loss;
}
