/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The words of a text, and their ids. While the text is read, ids are assigned in the order of first occurrence.
 * vocabulary_rank then assigns the final ones: the most frequent word is 0, words of equal count are in alphabetical
 * order, and rare words are omitted. So an id depends only on the text. Threads: one.
 *
 * A line is a sentence: the part after the first " | " if there is one (the gloss of a synset in WordNet's data files,
 * wndb(5)), otherwise the whole line. Lines that begin with two spaces (the licence in these files) have none. A word
 * is a run of the letters a to z, in either case.
 */
#ifndef INPUT_VOCABULARY_H
#define INPUT_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#include "star_error.h"

enum {
	VOCABULARY_WORD_BYTES = 32, /* with the terminating zero: no English word in letters comes near */
	VOCABULARY_WORDS_MAX = 1 << 24,
};

#define VOCABULARY_NONE UINT32_MAX

struct word {
	char text[VOCABULARY_WORD_BYTES];
	uint64_t count;
};

/* The remaining words of a line. */
struct line_words {
	const char *at, *end;
};

struct line_words input_line_words_begin(const char *line, size_t length);
/* Gets the next word, in lower case, and returns its length; 0: there are no more. Longer words than fit are
 * skipped. */
size_t input_line_words_next(struct line_words *words, char text[VOCABULARY_WORD_BYTES]);

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

struct vocabulary {
	struct word *words; /* by id */
	uint32_t size;
	uint32_t room;
	uint32_t *index; /* open addressing, linear probing: word ids */
	uint32_t index_size;
	uint64_t count; /* sum of the words' counts */
};

/* 0 or -ENOMEM. */
int vocabulary_init(struct vocabulary *v, struct star_error *err);
void vocabulary_fini(struct vocabulary *v); /* also one of zeros, and again */

/* Sets *id to the id of text[length], 0 < length < VOCABULARY_WORD_BYTES; a new word is added with a count of 0. 0,
 * -ENOMEM, or -E2BIG: there are VOCABULARY_WORDS_MAX. */
int vocabulary_add(struct vocabulary *v, const char *text, size_t length, uint32_t *id, struct star_error *err);

/* The id of a zero-terminated word, or VOCABULARY_NONE. */
uint32_t vocabulary_find(const struct vocabulary *v, const char *text);

/*
 * Assigns the final ids to the words with at least min_count occurrences, to at most `most` of them, and removes the
 * others. renamed[old id], with as many elements as v->size was, is set to the new id or VOCABULARY_NONE; it may be
 * NULL. 0 or -ENOMEM.
 */
int vocabulary_rank(struct vocabulary *v, uint64_t min_count, uint32_t most, uint32_t *renamed, struct star_error *err);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
