/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches from a text: windows of consecutive words, for models that predict the next word; or pairs of a center and a
 * context word, with negative samples. They depend only on files and options. Word ids are those of the training files'
 * vocabulary. One thread.
 */
#ifndef STARTRAIN_ZOO_TEXT_H
#define STARTRAIN_ZOO_TEXT_H

#include "app/startrain/sampler.h"
#include "app/startrain/zoo/zoo.h"

/* Ids in windows: 0 stands for all words outside the vocabulary, then come its words, then the end of a sentence. */
struct zoo_text {
	const struct zoo_options *options;
	struct vocabulary vocabulary;
	uint64_t sentences, total; /* in the training files: the number of sentences, and of words */
	struct input *input;
	const struct input_batch *sentence; /* the sentences that are being read, or NULL */
	double share;			    /* of all input, when these were read */
	uint32_t at, row;		    /* the next id in them, and its sentence */
	/* for windows */
	int64_t *words; /* [batch, window + 1] */
	int64_t last;	/* the first word of the next window */
	double unigram; /* the sum over all predicted words of -log of the word's frequency in the training files */
	uint64_t told;	/* the number of these words */
	/* for pairs */
	struct sampler sampler;
	struct stream stream;
	struct prng random;
	bool made;		    /* at least one pair was made */
	uint32_t *known, *contexts; /* a sentence's words that are in the vocabulary; a center's contexts */
	uint32_t center, contexts_count, context; /* the center, and the next of its contexts */
	int64_t *centers, *targets;		  /* [batch], [batch, 1 + negatives] */
	float *labels;				  /* [batch, 1 + negatives] */
};

/* Reads the training files' vocabulary; call it first. 0 or a negative errno; call zoo_text_close in either case. */
int zoo_text_learn(struct zoo_text *text, const struct zoo_options *options, struct star_error *err);

/* Opens the files for training or testing. */
int zoo_text_open(struct zoo_text *text, uint32_t worker, bool train, struct star_error *err);
void zoo_text_close_input(struct zoo_text *text); /* then other files may be opened */
void zoo_text_close(struct zoo_text *text);

/* Adds the feeds to the graph. */
struct zoo_text_inputs zoo_text_inputs(const struct zoo_text *text, struct graph *g, struct estimator_spec *spec);

/* The next batch for these feeds: as estimator_input_fn. */
int zoo_text_next(struct zoo_text *text, struct graph_tensor *feeds, struct star_error *err);

/* All ids are below this. */
int64_t zoo_text_classes(const struct zoo_text *text);

#endif
