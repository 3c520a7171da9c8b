/* SPDX-License-Identifier: BSD-3-Clause */
#include "input/vocabulary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* 'a' to 'z' for a letter in either case, else 0. Bytes beyond ASCII separate words, whatever the locale. */
static char letter(unsigned char byte)
{
	const unsigned char lower = byte | 0x20;

	return lower >= 'a' && lower <= 'z' ? (char)lower : 0;
}

struct line_words input_line_words_begin(const char *line, size_t length)
{
	const char *bar = memmem(line, length, " | ", 3);

	if (length >= 2 && !memcmp(line, "  ", 2))
		return (struct line_words){ line, line };
	return (struct line_words){ bar != NULL ? bar + 3 : line, line + length };
}

size_t input_line_words_next(struct line_words *words, char text[static VOCABULARY_WORD_BYTES])
{
	while (words->at < words->end) {
		size_t n = 0;

		for (; words->at < words->end && letter((unsigned char)*words->at) != 0; words->at++, n++)
			if (n < VOCABULARY_WORD_BYTES)
				text[n] = letter((unsigned char)*words->at);
		words->at += n == 0;
		if (n == 0 || n >= VOCABULARY_WORD_BYTES)
			continue;
		text[n] = 0;
		return n;
	}
	return 0;
}

static int vocabulary_no_memory(struct star_error *err)
{
	return star_error_set(err, -ENOMEM, "not enough memory for the vocabulary");
}

int vocabulary_init(struct vocabulary *v, struct star_error *err)
{
	memset(v, 0, sizeof(*v));
	v->index_size = 1 << 16;
	v->room = 1 << 15;
	v->index = malloc(v->index_size * sizeof(*v->index));
	v->words = malloc(v->room * sizeof(*v->words));
	if (v->index == NULL || v->words == NULL) {
		vocabulary_fini(v);
		return vocabulary_no_memory(err);
	}
	memset(v->index, 0xff, v->index_size * sizeof(*v->index));
	return 0;
}

void vocabulary_fini(struct vocabulary *v)
{
	free(v->index);
	free(v->words);
	memset(v, 0, sizeof(*v));
}

/* The slot of a word in the index, or the free one that it would get: the index is never more than half full. */
static uint32_t slot_of(const struct vocabulary *v, const char *text)
{
	const uint32_t mask = v->index_size - 1;
	uint32_t slot = (uint32_t)hash_name(text) & mask;

	while (v->index[slot] != VOCABULARY_NONE && strcmp(v->words[v->index[slot]].text, text) != 0)
		slot = (slot + 1) & mask;
	return slot;
}

static void index_all(struct vocabulary *v)
{
	memset(v->index, 0xff, v->index_size * sizeof(*v->index));
	for (uint32_t id = 0; id < v->size; id++)
		v->index[slot_of(v, v->words[id].text)] = id;
}

static int grow_vocabulary(struct vocabulary *v, struct star_error *err)
{
	struct word *words = realloc(v->words, (size_t)v->room * 2 * sizeof(*words));
	uint32_t *index;

	if (words == NULL)
		return vocabulary_no_memory(err);
	v->words = words;
	v->room *= 2;
	index = realloc(v->index, (size_t)v->index_size * 2 * sizeof(*index));
	if (index == NULL)
		return vocabulary_no_memory(err);
	v->index = index;
	v->index_size *= 2;
	index_all(v);
	return 0;
}

int vocabulary_add(struct vocabulary *v, const char *text, size_t length, uint32_t *id, struct star_error *err)
{
	struct word word = { .count = 0 };
	uint32_t slot;
	int rc;

	memcpy(word.text, text, length);
	slot = slot_of(v, word.text);
	if (v->index[slot] != VOCABULARY_NONE) {
		*id = v->index[slot];
		return 0;
	}
	if (v->size == VOCABULARY_WORDS_MAX)
		return star_error_set(err, -E2BIG, "the text has more than %d distinct words", VOCABULARY_WORDS_MAX);
	if (v->size * 2 >= v->index_size || v->size == v->room) {
		rc = grow_vocabulary(v, err);
		if (rc != 0)
			return rc;
		slot = slot_of(v, word.text);
	}
	v->words[v->size] = word;
	*id = v->index[slot] = v->size++;
	return 0;
}

uint32_t vocabulary_find(const struct vocabulary *v, const char *text)
{
	return v->index[slot_of(v, text)];
}

static int by_rank(const void *a, const void *b)
{
	const struct word *left = a, *right = b;

	if (left->count != right->count)
		return left->count < right->count ? 1 : -1;
	return strcmp(left->text, right->text);
}

int vocabulary_rank(struct vocabulary *v, uint64_t min_count, uint32_t most, uint32_t *renamed, struct star_error *err)
{
	struct word *old = malloc(((size_t)v->size + 1) * sizeof(*old));
	const uint32_t old_size = v->size;

	if (old == NULL)
		return vocabulary_no_memory(err);
	memcpy(old, v->words, (size_t)old_size * sizeof(*old));
	qsort(v->words, v->size, sizeof(*v->words), by_rank);
	if (v->size > most)
		v->size = most;
	while (v->size > 0 && v->words[v->size - 1].count < min_count)
		v->size--;
	index_all(v);
	v->count = 0;
	for (uint32_t id = 0; id < v->size; id++)
		v->count += v->words[id].count;
	for (uint32_t id = 0; renamed && id < old_size; id++)
		renamed[id] = v->index[slot_of(v, old[id].text)];
	free(old);
	return 0;
}
