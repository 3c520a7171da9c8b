/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model: skip-gram with negative sampling (equation 4 of Mikolov et al., NIPS 2013). The loss of a pair (c, o) with
 * negatives n_1 ... n_k is
 *
 *	- log sigma(u_o . v_c) - sum_i log sigma(- u_{n_i} . v_c)
 *
 * with v from the table words-in and u from words-out; a batch's loss is the sum over its pairs. Pure functions,
 * float32 in a fixed order: the same input gives the same bits.
 */
#ifndef STARTRAIN_MODEL_H
#define STARTRAIN_MODEL_H

#include "app/startrain/batch.h"

enum { MODEL_DIM_MAX = 4096 };

/*
 * Returns the batch's loss. in and out are the rows of b->in and b->out, [count, dim]; in_gradient and out_gradient, of
 * the same shapes, get the gradients, or are both NULL.
 */
double model_loss(const struct batch *b, uint32_t dim, const float *in, const float *out, float *in_gradient,
		  float *out_gradient);

#endif
