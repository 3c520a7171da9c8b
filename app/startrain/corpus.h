/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text as sentences of word ids (input/vocabulary.h says what these are). Sentences without words are left out.
 *
 * Every CORPUS_HELD_OUTth sentence is held out: no training sees it, and it counts for no frequency. Plain data; the
 * same files in the same order always give the same corpus.
 */
#ifndef STARTRAIN_CORPUS_H
#define STARTRAIN_CORPUS_H

#include <stdint.h>

#include "input/vocabulary.h"

enum { CORPUS_HELD_OUT = 20 };

struct sentences {
	uint32_t *words;  /* ids of all sentences, one behind the other */
	uint64_t *starts; /* count + 1 offsets into words */
	uint32_t count;
	uint64_t words_room;
	uint32_t starts_room;
};

struct corpus {
	struct vocabulary vocabulary;
	struct sentences training;
	struct sentences held_out;
	uint64_t words_read; /* rare ones included */
};

/* Words with fewer than min_count occurrences are left out of the sentences. */
int corpus_load(struct corpus *c, const char *const *paths, uint32_t paths_count, uint64_t min_count,
		struct star_error *err);
void corpus_free(struct corpus *c);

#endif
