/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A text in batches: windows of words that follow one another, for models of the next word; or pairs of a word and one
 * that is near it, with words that are drawn. Which they are depends on files and options alone. Words become ids by
 * the training files' vocabulary. One thread.
 */
#ifndef STARTRAIN_ZOO_TEXT_H
#define STARTRAIN_ZOO_TEXT_H

#include "app/startrain/sampler.h"
#include "app/startrain/zoo/zoo.h"

/* Of windows: 0 is a word that the vocabulary lacks, then come its words, then the end of a sentence. */
struct zoo_text {
	const struct zoo_options *options;
	struct vocabulary vocabulary;
	uint64_t sentences, total; /* of the training files: the ends of sentences, and all words */
	struct input *input;
	const struct input_batch *sentence; /* those that are being read, or NULL */
	double share;			    /* of all that is to be read, when they were */
	uint32_t at, row;		    /* the next id in there, and its sentence */
	/* of windows */
	int64_t *words; /* [batch, window + 1] */
	int64_t last;	/* which the next window begins with */
	double unigram; /* -log of its share of the training files, summed over all words that were to be told; ... */
	uint64_t told;	/* ... their number */
	/* of pairs */
	struct sampler sampler;
	struct stream stream;
	struct prng random;
	bool made; /* a pair was */
	uint32_t *known,
		*contexts; /* a sentence's words without those that the vocabulary lacks; a center's contexts */
	uint32_t center, contexts_count, context; /* the center, and the next of its contexts */
	int64_t *centers, *targets;		  /* [batch], [batch, 1 + negatives] */
	float *labels;				  /* [batch, 1 + negatives] */
};

/* Reads the training files' vocabulary: before anything else. 0 or a negative errno; zoo_text_close frees what was made
 * in any case. */
int zoo_text_learn(struct zoo_text *text, const struct zoo_options *options, struct star_error *err);

/* Opens the files for training or testing. */
int zoo_text_open(struct zoo_text *text, uint32_t worker, bool train, struct star_error *err);
void zoo_text_close_input(struct zoo_text *text); /* others may be opened then */
void zoo_text_close(struct zoo_text *text);

/* Adds the feeds. */
struct zoo_text_inputs zoo_text_inputs(const struct zoo_text *text, struct graph *g, struct estimator_spec *spec);

/* The next batch, for these: as estimator_input_fn. */
int zoo_text_next(struct zoo_text *text, struct graph_tensor *feeds, struct star_error *err);

/* Ids are below this. */
int64_t zoo_text_classes(const struct zoo_text *text);

#endif
