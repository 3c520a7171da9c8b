/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random numbers and dropout. Element e of step s is a word of Philox (counter e / 4 and s; key from the seeds of plan
 * and node), and depends on nothing else: so a gradient draws the same mask again, and so does a step that is repeated.
 */
#include "exec/kernel_internal.h"

#include "base/hash.h"
#include "tensor/philox.h"

enum { GRAIN = 4096 }; /* a multiple of 4 */

struct random_work {
	const struct kernel_call *call;
	uint32_t key[2], step[2];
	size_t n;
	uint64_t dropped; /* words below are dropped */
	double scale;
};

static void draw_words(const struct random_work *w, size_t element, uint32_t words[4])
{
	const uint64_t at = element / 4;

	philox((const uint32_t[4]){ (uint32_t)at, (uint32_t)(at >> 32), w->step[0], w->step[1] }, w->key, words);
}

static void random_part(void *context, uint64_t part)
{
	const struct random_work *w = context;
	const size_t from = part * GRAIN, to = w->n - from < GRAIN ? w->n : from + GRAIN;
	const bool is_double = w->call->out[0]->type.dtype == STAR_FLOAT64;
	uint32_t words[4];

	for (size_t i = from; i < to; i++) {
		if (i % 4 == 0)
			draw_words(w, i, words);
		if (is_double)
			((double *)w->call->out[0]->data)[i] = words[i % 4] * 0x1p-32;
		else /* 24 bits, so that rounding never reaches 1 */
			((float *)w->call->out[0]->data)[i] = (float)(words[i % 4] >> 8) * 0x1p-24f;
	}
}

#define DROPOUT(T) \
	static void dropout_##T(void *context, uint64_t part) \
	{ \
		const struct random_work *w = context; \
		const size_t from = part * GRAIN, to = w->n - from < GRAIN ? w->n : from + GRAIN; \
		const T *in = w->call->in[0]->data, scale = (T)w->scale; \
		T *out = w->call->out[0]->data; \
		uint32_t words[4]; \
\
		for (size_t i = from; i < to; i++) { \
			if (i % 4 == 0) \
				draw_words(w, i, words); \
			out[i] = words[i % 4] < w->dropped ? 0 : in[i] * scale; \
		} \
	}
DROPOUT(float)
DROPOUT(double)

static struct random_work work_of(const struct kernel_call *call)
{
	const uint64_t key = hash_key(hash_mix(call->seed), (uint64_t)graph_attr_int(call->node, "seed", 0));

	return (struct random_work){
		.call = call,
		.key = { (uint32_t)key, (uint32_t)(key >> 32) },
		.step = { (uint32_t)call->step, (uint32_t)(call->step >> 32) },
		.n = kernel_count(call->out[0]),
	};
}

int kernel_random(const struct kernel_call *call)
{
	struct random_work w = work_of(call);

	exec_team_run(call->team, kernel_parts(w.n, GRAIN), random_part, &w);
	return 0;
}

int kernel_dropout(const struct kernel_call *call)
{
	const double rate = graph_attr_float(call->node, "rate", 0);
	struct random_work w = work_of(call);

	w.dropped = (uint64_t)(rate * 0x1p32);
	w.scale = 1 / (1 - rate);
	exec_team_run(call->team, kernel_parts(w.n, GRAIN),
		      call->out[0]->type.dtype == STAR_FLOAT64 ? dropout_double : dropout_float, &w);
	return 0;
}
