/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A text as sentences of word ids (input/vocabulary.h). Empty sentences are left out.
 *
 * One sentence in CORPUS_HELD_OUT is held out: it is not used in training, nor counted in word frequencies. The same
 * files in the same order always give the same corpus. Plain data: built by one thread, then read by any.
 */
#ifndef STARTRAIN_CORPUS_H
#define STARTRAIN_CORPUS_H

#include <stdint.h>

#include "input/vocabulary.h"

enum { CORPUS_HELD_OUT = 20 };

struct sentences {
	uint32_t *words;  /* ids of all sentences, concatenated */
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

/* Reads the files. Words with fewer than min_count occurrences are left out of the sentences. 0, or a negative errno,
 * which leaves nothing to free. */
int corpus_load(struct corpus *c, const char *const *paths, uint32_t paths_count, uint64_t min_count,
		struct star_error *err);
void corpus_free(struct corpus *c);

#endif
