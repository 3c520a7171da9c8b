/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/corpus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/source.h"

static int corpus_no_memory(struct star_error *err)
{
	return star_error_set(err, -ENOMEM, "not enough memory for the text");
}

/* Appends a word to the current sentence, the one after starts[count]. */
static int sentences_add(struct sentences *s, uint64_t length, uint32_t word, struct star_error *err)
{
	const uint64_t at = s->starts[s->count] + length;

	if (at == s->words_room) {
		const uint64_t room = s->words_room * 2 + 4096;
		uint32_t *words = realloc(s->words, room * sizeof(*words));

		if (words == NULL)
			return corpus_no_memory(err);
		s->words = words;
		s->words_room = room;
	}
	s->words[at] = word;
	return 0;
}

/* Ends the current sentence, and begins the next one. */
static int sentences_end(struct sentences *s, uint64_t length, struct star_error *err)
{
	if (s->count + 2 > s->starts_room) {
		const uint32_t room = s->starts_room * 2 + 1024;
		uint64_t *starts = s->count < UINT32_MAX / 4 ? realloc(s->starts, room * sizeof(*starts)) : NULL;

		if (starts == NULL)
			return corpus_no_memory(err);
		s->starts = starts;
		s->starts_room = room;
	}
	s->starts[s->count + 1] = s->starts[s->count] + length;
	s->count++;
	return 0;
}

static int sentences_init(struct sentences *s, struct star_error *err)
{
	s->starts_room = 1024;
	s->starts = calloc(s->starts_room, sizeof(*s->starts));
	return s->starts != NULL ? 0 : corpus_no_memory(err);
}

static void sentences_free(struct sentences *s)
{
	free(s->words);
	free(s->starts);
}

static int read_line(struct corpus *c, const char *line, size_t length, struct star_error *err)
{
	const int held_out = (c->training.count + c->held_out.count) % CORPUS_HELD_OUT == CORPUS_HELD_OUT - 1;
	struct sentences *s = held_out ? &c->held_out : &c->training;
	struct line_words line_words = input_line_words_begin(line, length);
	char text[VOCABULARY_WORD_BYTES];
	uint64_t words = 0;
	uint32_t id;
	size_t n;
	int rc;

	while ((n = input_line_words_next(&line_words, text)) > 0) {
		rc = vocabulary_add(&c->vocabulary, text, n, &id, err);
		if (rc == 0)
			rc = sentences_add(s, words, id, err);
		if (rc != 0)
			return rc;
		c->vocabulary.words[id].count += !held_out;
		words++;
	}
	c->words_read += words;
	return words > 0 ? sentences_end(s, words, err) : 0;
}

/* A stream of a file that may be compressed; a stream only remembers that there was an error. */
struct text_file {
	struct source source;
	struct star_error err;
};

static ssize_t read_source(void *cookie, char *to, size_t bytes)
{
	struct text_file *file = cookie;
	const int64_t n = input_source_read(&file->source, to, bytes, &file->err);

	return n < 0 ? -1 : (ssize_t)n;
}

/* A line may be as long as the whole text. */
static int read_file(struct corpus *c, const char *path, struct star_error *err)
{
	struct text_file text = { 0 };
	FILE *file = NULL;
	size_t room = 0;
	char *line = NULL;
	ssize_t length;
	int rc = input_source_open(&text.source, path, &text.err);

	if (rc == 0) {
		file = fopencookie(&text, "r", (cookie_io_functions_t){ .read = read_source });
		if (file == NULL)
			rc = corpus_no_memory(&text.err);
	}
	while (file != NULL && rc == 0 && (length = getline(&line, &room, file)) >= 0)
		rc = read_line(c, line, (size_t)length, err);
	if (text.err.code < 0)
		rc = star_error_set(err, text.err.code, "cannot read the text %s: %s", path, text.err.text);
	free(line);
	if (file != NULL)
		fclose(file);
	input_source_close(&text.source);
	return rc;
}

/* Replaces ids by the final ones, and closes the gaps that rare words leave. */
static void rename_words(struct sentences *s, const uint32_t *renamed)
{
	uint64_t kept = 0, at = 0;

	for (uint32_t i = 0; i < s->count; i++) {
		for (; at < s->starts[i + 1]; at++)
			if (renamed[s->words[at]] != VOCABULARY_NONE)
				s->words[kept++] = renamed[s->words[at]];
		s->starts[i + 1] = kept;
	}
}

int corpus_load(struct corpus *c, const char *const *paths, uint32_t paths_count, uint64_t min_count,
		struct star_error *err)
{
	uint32_t *renamed = NULL;
	int rc;

	memset(c, 0, sizeof(*c));
	rc = vocabulary_init(&c->vocabulary, err);
	if (rc == 0)
		rc = sentences_init(&c->training, err);
	if (rc == 0)
		rc = sentences_init(&c->held_out, err);
	for (uint32_t i = 0; rc == 0 && i < paths_count; i++)
		rc = read_file(c, paths[i], err);
	if (rc == 0) {
		renamed = malloc(((size_t)c->vocabulary.size + 1) * sizeof(*renamed));
		rc = renamed != NULL ? vocabulary_rank(&c->vocabulary, min_count, UINT32_MAX, renamed, err)
				     : corpus_no_memory(err);
	}
	if (rc == 0) {
		rename_words(&c->training, renamed);
		rename_words(&c->held_out, renamed);
		if (c->vocabulary.size < 2)
			rc = star_error_set(err, -EINVAL,
					    "the text has fewer than two words with at least %llu occurrences: "
					    "give more text with --text",
					    (unsigned long long)min_count);
	}
	free(renamed);
	if (rc != 0)
		corpus_free(c);
	return rc;
}

void corpus_free(struct corpus *c)
{
	vocabulary_fini(&c->vocabulary);
	sentences_free(&c->training);
	sentences_free(&c->held_out);
	memset(c, 0, sizeof(*c));
}
