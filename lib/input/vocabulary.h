/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The words of a text, and their ids. While it is read, ids are given in the order of first sight; vocabulary_rank then
 * gives the final ones: the most frequent word is 0, words of one count stand in alphabetical order, rare words are
 * left out. So an id depends on the text alone. One thread.
 *
 * A line is a sentence: what follows the first " | " where there is one (the gloss of a synset in WordNet's data files,
 * wndb(5)), else the whole line; in lines that begin with two spaces (the licence in these files) there is none. A word
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

/* The words of a line that are still to come. */
struct line_words {
	const char *at, *end;
};

struct line_words input_line_words_begin(const char *line, size_t length);
/* The next word in small letters, and its length; 0: there is none. Those too long for it are passed over. */
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

/* The id of text[length], 0 < length < VOCABULARY_WORD_BYTES, added with a count of 0 when it is new; *id is set. 0,
 * -ENOMEM, or -E2BIG: there are VOCABULARY_WORDS_MAX. */
int vocabulary_add(struct vocabulary *v, const char *text, size_t length, uint32_t *id, struct star_error *err);

/* The id of a word that ends with a zero, or VOCABULARY_NONE. */
uint32_t vocabulary_find(const struct vocabulary *v, const char *text);

/*
 * Gives the final ids to the words with at least min_count occurrences, to the first `most` of them, and forgets the
 * others. renamed[old id], of v->size elements as it was, becomes the new id or VOCABULARY_NONE; it may be NULL. 0 or
 * -ENOMEM.
 */
int vocabulary_rank(struct vocabulary *v, uint64_t min_count, uint32_t most, uint32_t *renamed, struct star_error *err);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
