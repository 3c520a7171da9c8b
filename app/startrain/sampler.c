/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/sampler.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int sampler_no_memory(struct star_error *err)
{
	return star_error_set(err, -ENOMEM, "not enough memory for the sampler");
}

/* Vose's method: each entry gets the excess of one word that is more frequent than the average. weight: average 1. */
static void fill_alias(struct sampler *s, double *weight, uint32_t *stack)
{
	const uint32_t size = s->vocabulary->size;
	uint32_t small = 0, large = size;

	for (uint32_t i = 0; i < size; i++) {
		s->take[i] = 1;
		s->other[i] = i;
		if (weight[i] < 1)
			stack[small++] = i;
		else
			stack[--large] = i;
	}
	while (small > 0 && large < size) {
		const uint32_t low = stack[--small], high = stack[large];

		s->take[low] = (float)weight[low];
		s->other[low] = high;
		weight[high] -= 1 - weight[low];
		if (weight[high] < 1) {
			large++;
			stack[small++] = high;
		}
	}
}

int sampler_init(struct sampler *s, const struct vocabulary *vocabulary, double threshold, struct star_error *err)
{
	const uint32_t size = vocabulary->size;
	double *weight = malloc(size * sizeof(*weight)), sum = 0;
	uint32_t *stack = malloc(size * sizeof(*stack));
	int rc = 0;

	s->vocabulary = vocabulary;
	s->keep = malloc(size * sizeof(*s->keep));
	s->take = malloc(size * sizeof(*s->take));
	s->other = malloc(size * sizeof(*s->other));
	if (weight == NULL || stack == NULL || s->keep == NULL || s->take == NULL || s->other == NULL) {
		sampler_fini(s);
		rc = sampler_no_memory(err);
		goto free_scratch;
	}
	for (uint32_t i = 0; i < size; i++) {
		const double ratio = threshold * (double)vocabulary->count / (double)vocabulary->words[i].count;

		s->keep[i] = (float)fmin(1, sqrt(ratio) + ratio);
		weight[i] = pow((double)vocabulary->words[i].count, 0.75);
		sum += weight[i];
	}
	for (uint32_t i = 0; i < size; i++)
		weight[i] *= size / sum;
	fill_alias(s, weight, stack);
free_scratch:
	free(weight);
	free(stack);
	return rc;
}

void sampler_fini(struct sampler *s)
{
	free(s->keep);
	free(s->take);
	free(s->other);
	memset(s, 0, sizeof(*s));
}

uint32_t sampler_negative(const struct sampler *s, struct prng *random)
{
	const uint32_t place = prng_below(random, s->vocabulary->size);

	return prng_unit(random) < s->take[place] ? place : s->other[place];
}

int stream_init_empty(struct stream *s, const struct sampler *sampler, uint64_t longest, uint32_t window, uint64_t seed,
		      struct star_error *err)
{
	*s = (struct stream){ .sampler = sampler, .window = window };
	prng_seed(&s->random, seed);
	s->words = malloc((longest + 1) * sizeof(*s->words));
	return s->words != NULL ? 0 : sampler_no_memory(err);
}

int stream_init(struct stream *s, const struct sampler *sampler, const struct sentences *sentences, uint32_t window,
		uint32_t share, uint32_t shares, uint64_t seed, uint32_t epoch, struct star_error *err)
{
	uint64_t longest = 0;
	int rc;

	for (uint32_t i = 0; i < sentences->count; i++)
		if (sentences->starts[i + 1] - sentences->starts[i] > longest)
			longest = sentences->starts[i + 1] - sentences->starts[i];
	rc = stream_init_empty(s, sampler, longest, window, hash_mix(hash_mix(seed) + share) + epoch, err);
	if (rc != 0)
		return rc;
	s->sentences = sentences;
	s->order = malloc(((size_t)sentences->count / shares + 1) * sizeof(*s->order));
	if (s->order == NULL) {
		stream_fini(s);
		return sampler_no_memory(err);
	}
	for (uint64_t i = share; i < sentences->count; i += shares)
		s->order[s->order_count++] = (uint32_t)i;
	for (uint32_t i = s->order_count; i > 1; i--) { /* Fisher and Yates */
		const uint32_t j = prng_below(&s->random, i), swap = s->order[j];

		s->order[j] = s->order[i - 1];
		s->order[i - 1] = swap;
	}
	return 0;
}

void stream_fini(struct stream *s)
{
	free(s->order);
	free(s->words);
	memset(s, 0, sizeof(*s));
}

void stream_take(struct stream *s, const uint32_t *words, uint64_t count)
{
	s->words_count = s->at = 0;
	for (uint64_t i = 0; i < count; i++)
		if (prng_unit(&s->random) < s->sampler->keep[words[i]])
			s->words[s->words_count++] = words[i];
}

/* Begins the next sentence; false: there is none left. */
static bool next_sentence(struct stream *s)
{
	const struct sentences *all = s->sentences;
	uint32_t i;

	if (s->next == s->order_count)
		return false;
	i = s->order[s->next++];
	stream_take(s, all->words + all->starts[i], all->starts[i + 1] - all->starts[i]);
	return true;
}

uint32_t stream_next(struct stream *s, uint32_t *center, uint32_t *contexts)
{
	for (;;) {
		uint32_t window, first, end, count = 0;

		while (s->at == s->words_count)
			if (!next_sentence(s))
				return 0;
		window = 1 + prng_below(&s->random, s->window);
		first = s->at > window ? s->at - window : 0;
		end = s->words_count - s->at > window ? s->at + window + 1 : s->words_count;
		for (uint32_t i = first; i < end; i++)
			if (i != s->at)
				contexts[count++] = s->words[i];
		*center = s->words[s->at++];
		if (count > 0)
			return count;
	}
}
