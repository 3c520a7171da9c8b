/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/zoo/text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/startrain/batch.h"

enum { SENTENCES = 256 /* that are read together */ };

/* In pairs, words with a higher frequency are subsampled. */
static const double SUBSAMPLING = 1e-3;

int64_t zoo_text_classes(const struct zoo_text *text)
{
	return (int64_t)text->vocabulary.size + 2;
}

struct zoo_text_inputs zoo_text_inputs(const struct zoo_text *text, struct graph *g, struct estimator_spec *spec)
{
	const struct zoo_options *o = text->options;
	struct zoo_text_inputs in = { .window = o->window,
				      .negatives = o->negatives,
				      .classes = zoo_text_classes(text) };

	if (o->model->kind == ZOO_WINDOWS) {
		in.words = zoo_feed(g, spec, "words", zoo_type(STAR_INT64, 2, o->batch, o->window + 1));
		return in;
	}
	in.centers = zoo_feed(g, spec, "centers", zoo_type(STAR_INT64, 1, o->batch, 0));
	in.targets = zoo_feed(g, spec, "targets", zoo_type(STAR_INT64, 2, o->batch, o->negatives + 1));
	in.labels = zoo_feed(g, spec, "labels", zoo_type(STAR_FLOAT32, 2, o->batch, o->negatives + 1));
	spec->labels = "labels";
	return in;
}

/* ---- opening ---- */

int zoo_text_learn(struct zoo_text *text, const struct zoo_options *o, struct star_error *err)
{
	int rc;

	*text = (struct zoo_text){ .options = o };
	rc = input_vocabulary(o->train, o->train_count, o->vocabulary, &text->vocabulary, &text->sentences,
			      &text->total, err);
	return rc < 0 || o->model->kind != ZOO_PAIRS
		       ? rc
		       : sampler_init(&text->sampler, &text->vocabulary, SUBSAMPLING, err);
}

static int allocate_text(struct zoo_text *text, uint64_t seed, struct star_error *err)
{
	const struct zoo_options *o = text->options;
	const size_t targets = o->negatives + 1;

	if (o->model->kind == ZOO_WINDOWS) {
		text->words = calloc(o->batch, (o->window + 1) * sizeof(*text->words));
		return text->words ? 0 : star_error_set(err, -ENOMEM, "no memory for a batch");
	}
	text->known = calloc(INPUT_IDS_MAX, sizeof(*text->known));
	text->contexts = calloc(2 * (size_t)o->window, sizeof(*text->contexts));
	text->centers = calloc(o->batch, sizeof(*text->centers));
	text->targets = calloc(o->batch, targets * sizeof(*text->targets));
	text->labels = calloc(o->batch, targets * sizeof(*text->labels));
	if (!text->known || !text->contexts || !text->centers || !text->targets || !text->labels)
		return star_error_set(err, -ENOMEM, "no memory for a batch");
	for (uint32_t i = 0; i < o->batch; i++)
		text->labels[i * targets] = 1;
	prng_seed(&text->random, seed);
	return stream_init_empty(&text->stream, &text->sampler, INPUT_IDS_MAX, o->window, seed, err);
}

int zoo_text_open(struct zoo_text *text, uint32_t worker, bool train, struct star_error *err)
{
	const struct zoo_options *o = text->options;
	const struct input_options options = {
		.format = INPUT_TEXT,
		.paths = train ? o->train : o->test,
		.paths_count = train ? o->train_count : o->test_count,
		.batch = SENTENCES,
		.epochs = train ? o->epochs : 1,
		.worker = train ? worker : 0,
		.workers = train ? o->workers : 1,
		.shuffle = train ? o->shuffle : 0,
		.seed = o->seed + worker,
		.vocabulary = &text->vocabulary,
	};
	int rc = allocate_text(text, o->seed + worker, err);

	if (rc < 0)
		return rc;
	text->last = zoo_text_classes(text) - 1;
	text->unigram = 0;
	text->told = 0;
	text->input = input_open(&options, err);
	return text->input ? 0 : err->code;
}

void zoo_text_close_input(struct zoo_text *text)
{
	input_close(text->input);
	stream_fini(&text->stream);
	free(text->words);
	free(text->known);
	free(text->contexts);
	free(text->centers);
	free(text->targets);
	free(text->labels);
	text->input = NULL;
	text->sentence = NULL;
	text->words = text->centers = text->targets = NULL;
	text->known = text->contexts = NULL;
	text->labels = NULL;
	text->contexts_count = text->context = 0;
}

void zoo_text_close(struct zoo_text *text)
{
	zoo_text_close_input(text);
	sampler_fini(&text->sampler);
	vocabulary_fini(&text->vocabulary);
}

/* Reads more sentences, if the previous ones are used up: 1; 0: there are none; or an error. */
static int more_sentences(struct zoo_text *text, struct star_error *err)
{
	int rc;

	if (text->sentence && text->row < text->sentence->rows)
		return 1;
	text->at = text->row = 0;
	rc = input_next(text->input, &text->sentence, err);
	if (rc <= 0)
		text->sentence = NULL;
	else
		text->share = text->sentence->share;
	return rc;
}

/* Whether the current sentence has a word left. */
static bool in_sentence(const struct zoo_text *text)
{
	const struct input_batch *b = text->sentence;

	return text->at < b->ids_count && (uint32_t)b->segments[text->at] == text->row;
}

/* ---- windows ---- */

/* The next word, or the end of a sentence: 1; 0: there is none; or an error. */
static int next_word(struct zoo_text *text, int64_t *word, struct star_error *err)
{
	const int rc = more_sentences(text, err);

	if (rc <= 0)
		return rc;
	if (in_sentence(text)) {
		*word = text->sentence->ids[text->at++];
	} else {
		*word = zoo_text_classes(text) - 1;
		text->row++;
	}
	return 1;
}

/* Its number of occurrences in the training files. */
static uint64_t frequency(const struct zoo_text *text, int64_t word)
{
	const struct vocabulary *v = &text->vocabulary;

	if (word == 0)
		return text->total - v->count;
	return word <= v->size ? v->words[word - 1].count : text->sentences;
}

/* A test may have words that the training files do not have: each word's count is increased by one. */
static void tell_by_frequency(struct zoo_text *text, int64_t word)
{
	const double all = (double)(text->total + text->sentences) + (double)zoo_text_classes(text);

	text->unigram -= log(((double)frequency(text, word) + 1) / all);
	text->told++;
}

/* Writes a window to words: 1; 0: there is no word left; or an error. The last window is padded with ends of
 * sentences. */
static int next_window(struct zoo_text *text, int64_t *words, struct star_error *err)
{
	const uint32_t window = text->options->window;
	int rc = 1;

	words[0] = text->last;
	for (uint32_t i = 1; i <= window; i++) {
		words[i] = zoo_text_classes(text) - 1;
		rc = rc > 0 ? next_word(text, &words[i], err) : rc;
		if (rc < 0 || (rc == 0 && i == 1))
			return rc;
	}
	for (uint32_t i = 1; i <= window; i++)
		tell_by_frequency(text, words[i]);
	text->last = words[window];
	return 1;
}

static int next_windows(struct zoo_text *text, struct graph_tensor *feeds, struct star_error *err)
{
	const struct zoo_options *o = text->options;
	uint32_t rows = 0;
	int rc = 1;

	while (rows < o->batch && (rc = next_window(text, text->words + (size_t)rows * (o->window + 1), err)) > 0)
		rows++;
	feeds[0] = (struct graph_tensor){ zoo_type(STAR_INT64, 2, rows, o->window + 1), text->words };
	return rc < 0 ? rc : rows > 0;
}

/* ---- pairs ---- */

/* Passes the next sentence to the stream: 1, 0 or an error. */
static int next_sentence(struct zoo_text *text, struct star_error *err)
{
	const int rc = more_sentences(text, err);
	uint32_t count = 0;

	if (rc <= 0)
		return rc;
	for (; in_sentence(text); text->at++)
		if (text->sentence->ids[text->at])
			text->known[count++] = (uint32_t)(text->sentence->ids[text->at] - 1);
	text->row++;
	stream_take(&text->stream, text->known, count);
	return 1;
}

/* Draws a pair and its negatives: 1, 0 or an error. */
static int next_pair(struct zoo_text *text, int64_t *center, int64_t *targets, struct star_error *err)
{
	int rc = 1;

	while (text->context == text->contexts_count) {
		text->context = 0;
		text->contexts_count = stream_next(&text->stream, &text->center, text->contexts);
		if (!text->contexts_count)
			rc = next_sentence(text, err);
		if (rc == 0 && !text->made && text->options->workers == 1)
			return star_error_set(err, -ENODATA, "no two words of %s are near each other",
					      text->options->train[0]);
		if (rc <= 0)
			return rc;
	}
	text->made = true;
	*center = text->center;
	targets[0] = text->contexts[text->context++];
	for (uint32_t i = 1; i <= text->options->negatives; i++)
		targets[i] = sampler_negative(&text->sampler, &text->random);
	return 1;
}

static int next_pairs(struct zoo_text *text, struct graph_tensor *feeds, struct star_error *err)
{
	const struct zoo_options *o = text->options;
	const uint32_t targets = o->negatives + 1;
	uint32_t rows = 0;
	int rc = 1;

	while (rows < o->batch &&
	       (rc = next_pair(text, &text->centers[rows], &text->targets[(size_t)rows * targets], err)) > 0)
		rows++;
	feeds[0] = (struct graph_tensor){ zoo_type(STAR_INT64, 1, rows, 0), text->centers };
	feeds[1] = (struct graph_tensor){ zoo_type(STAR_INT64, 2, rows, targets), text->targets };
	feeds[2] = (struct graph_tensor){ zoo_type(STAR_FLOAT32, 2, rows, targets), text->labels };
	return rc < 0 ? rc : rows > 0;
}

int zoo_text_next(struct zoo_text *text, struct graph_tensor *feeds, struct star_error *err)
{
	return text->options->model->kind == ZOO_WINDOWS ? next_windows(text, feeds, err)
							 : next_pairs(text, feeds, err);
}
