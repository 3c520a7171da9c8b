/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is drawn at random in skip-gram with negative sampling (Mikolov, Sutskever, Chen, Corrado, Dean, "Distributed
 * Representations of Words and Phrases and their Compositionality", NIPS 2013):
 *   - subsampling, section 2.3: an occurrence of a word w stays with probability sqrt(t / f(w)) + t / f(w), where f(w)
 *     is its share of the text (the form that word2vec.c uses);
 *   - negatives, section 2.2: words drawn from the unigram distribution to the power of 3/4, by Vose's alias method
 *     ("A Linear Algorithm For Generating Random Numbers With a Given Distribution", 1991);
 *   - windows: uniform in 1 to window for each centre, as in word2vec.c.
 *
 * A sampler is read-only once made, and may be shared. A stream has one user and its own generator: what it yields
 * depends on the corpus, the seed, and the share alone.
 */
#ifndef STARTRAIN_SAMPLER_H
#define STARTRAIN_SAMPLER_H

#include <stdbool.h>

#include "app/startrain/corpus.h"
#include "base/prng.h"

struct sampler {
	const struct vocabulary *vocabulary;
	float *keep; /* by word: the probability that an occurrence stays */
	float *take; /* alias table: with this probability the place's own word, else other[place] */
	uint32_t *other;
};

int sampler_init(struct sampler *s, const struct vocabulary *vocabulary, double threshold, struct star_error *err);
void sampler_fini(struct sampler *s);

uint32_t sampler_negative(const struct sampler *s, struct prng *random);

/* The centres of a share of the sentences, in an order of their own, each with the words around it. */
struct stream {
	const struct sampler *sampler;
	const struct sentences *sentences;
	struct prng random;
	uint32_t window;
	uint32_t *order; /* numbers of the share's sentences, shuffled */
	uint32_t order_count;
	uint32_t next;	 /* place in order; also the number of sentences begun */
	uint32_t *words; /* what subsampling left of the current sentence */
	uint32_t words_count;
	uint32_t at; /* the next centre in words */
};

/* The sentences i with i mod shares = share; seeded by (seed, share, epoch). */
int stream_init(struct stream *s, const struct sampler *sampler, const struct sentences *sentences, uint32_t window,
		uint32_t share, uint32_t shares, uint64_t seed, uint32_t epoch, struct star_error *err);
void stream_fini(struct stream *s);

/* One without sentences: each, of at most longest words, is handed to it when it has no centre left. */
int stream_init_empty(struct stream *s, const struct sampler *sampler, uint64_t longest, uint32_t window, uint64_t seed,
		      struct star_error *err);
void stream_take(struct stream *s, const uint32_t *words, uint64_t count);

/*
 * The next centre with its context words (at most 2 * window, in text order); centres without any are passed over.
 * Returns the number of context words, 0 at the end.
 */
uint32_t stream_next(struct stream *s, uint32_t *center, uint32_t *contexts);

#endif
