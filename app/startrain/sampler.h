/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random draws of skip-gram with negative sampling (Mikolov, Sutskever, Chen, Corrado, Dean, "Distributed
 * Representations of Words and Phrases and their Compositionality", NIPS 2013):
 *   - subsampling, section 2.3: an occurrence of a word w is kept with probability sqrt(t / f(w)) + t / f(w), where
 *     f(w) is the word's relative frequency (the form that word2vec.c uses);
 *   - negatives, section 2.2: words drawn from the unigram distribution to the power of 3/4, by Vose's alias method
 *     ("A Linear Algorithm For Generating Random Numbers With a Given Distribution", 1991);
 *   - windows: uniform in 1 to window for each center, as in word2vec.c.
 *
 * A sampler is read-only after sampler_init, and may be shared by threads. A stream belongs to one thread and has its
 * own generator: its pairs depend only on corpus, seed and share.
 */
#ifndef STARTRAIN_SAMPLER_H
#define STARTRAIN_SAMPLER_H

#include <stdbool.h>

#include "app/startrain/corpus.h"
#include "base/prng.h"

struct sampler {
	const struct vocabulary *vocabulary;
	float *keep; /* by word: the probability that an occurrence is kept */
	float *take; /* alias table: with this probability the entry's own word, else other[entry] */
	uint32_t *other;
};

/* threshold: t above. 0 or a negative errno. */
int sampler_init(struct sampler *s, const struct vocabulary *vocabulary, double threshold, struct star_error *err);
void sampler_fini(struct sampler *s);

/* Draws a negative: a word id. */
uint32_t sampler_negative(const struct sampler *s, struct prng *random);

/* The centers of a share of the sentences, in random order, each with its context words. */
struct stream {
	const struct sampler *sampler;
	const struct sentences *sentences;
	struct prng random;
	uint32_t window;
	uint32_t *order; /* numbers of the share's sentences, shuffled */
	uint32_t order_count;
	uint32_t next;	 /* index in `order`; also the number of sentences begun */
	uint32_t *words; /* the current sentence after subsampling */
	uint32_t words_count;
	uint32_t at; /* the next center in words */
};

/* Streams the sentences i with i mod shares = share; random draws depend on (seed, share, epoch). 0 or a negative
 * errno. */
int stream_init(struct stream *s, const struct sampler *sampler, const struct sentences *sentences, uint32_t window,
		uint32_t share, uint32_t shares, uint64_t seed, uint32_t epoch, struct star_error *err);
void stream_fini(struct stream *s);

/* A stream without sentences: stream_take gives it one, of at most `longest` words, whenever stream_next returns 0. */
int stream_init_empty(struct stream *s, const struct sampler *sampler, uint64_t longest, uint32_t window, uint64_t seed,
		      struct star_error *err);
void stream_take(struct stream *s, const uint32_t *words, uint64_t count);

/*
 * Gets the next center and its context words (at most 2 * window, in text order), skipping centers without any. Returns
 * the number of context words, 0 at the end.
 */
uint32_t stream_next(struct stream *s, uint32_t *center, uint32_t *contexts);

#endif
