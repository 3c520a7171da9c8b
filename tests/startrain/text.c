/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/corpus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "app/startrain/sampler.h"
#include "base/prng.h"
#include "tests/startrain/cases.h"
#include "tests/unit.h"

enum { TEXTS_MAX = 4 };

int load_texts(struct corpus *c, const char *const *texts, uint64_t min_count, struct star_error *err)
{
	char paths[TEXTS_MAX][32];
	const char *list[TEXTS_MAX];
	int files[TEXTS_MAX], rc;
	uint32_t count = 0;

	for (; count < TEXTS_MAX && texts[count] != NULL; count++) {
		const size_t length = strlen(texts[count]);

		files[count] = memfd_create("text", 0);
		CHECK_INT(write(files[count], texts[count], length), length);
		snprintf(paths[count], sizeof(paths[count]), "/proc/self/fd/%d", files[count]);
		list[count] = paths[count];
	}
	rc = corpus_load(c, list, count, min_count, err);
	while (count > 0)
		close(files[--count]);
	return rc;
}

int load_text(struct corpus *c, const char *text, uint64_t min_count, struct star_error *err)
{
	return load_texts(c, (const char *const[]){ text, NULL }, min_count, err);
}

void load_random(struct corpus *c, uint32_t sentences, uint32_t words)
{
	struct star_error err = { 0 };
	struct prng random;
	size_t bytes = 0;
	char *text = NULL;
	FILE *file = open_memstream(&text, &bytes);

	prng_seed(&random, 7);
	for (uint32_t i = 0; i < sentences; i++) {
		for (uint32_t k = 3 + prng_below(&random, 20); k > 0; k--) {
			const uint32_t w = prng_below(&random, 1 + prng_below(&random, words));

			fprintf(file, "%c%c%c ", 'a' + w % 26, 'a' + w / 26 % 26, 'a' + w / 676);
		}
		fputc('\n', file);
	}
	fclose(file);
	if (load_text(c, text, 1, &err) != 0)
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	free(text);
}

/* The sentence as text. */
static const char *sentence(const struct corpus *c, const struct sentences *s, uint32_t i, char *text, size_t bytes)
{
	size_t at = 0;

	text[0] = 0;
	for (uint64_t k = s->starts[i]; k < s->starts[i + 1]; k++)
		at += (size_t)snprintf(text + at, bytes - at, "%s%s", at > 0 ? " " : "",
				       c->vocabulary.words[s->words[k]].text);
	return text;
}

void text_is_what_follows_the_bar(void)
{
	const char *text =
		"  1 This software is licensed | to nobody here\n"
		"00001740 03 n 01 entity 0 003 ~ 00001930 n 0000 | that which is; \"it's A thing | really\"  \n"
		"00001930 03 n 01 physical_entity 0 | an entity-like\tthing";
	struct star_error err = { 0 };
	struct corpus c;
	char line[256];

	CHECK_INT(load_text(&c, text, 1, &err), 0);
	CHECK_UINT(c.training.count, 2);
	CHECK_UINT(c.words_read, 12);
	CHECK_STR(sentence(&c, &c.training, 0, line, sizeof(line)), "that which is it s a thing really");
	CHECK_STR(sentence(&c, &c.training, 1, line, sizeof(line)), "an entity like thing");
	corpus_free(&c);
}

void text_without_a_bar_is_the_line(void)
{
	struct star_error err = { 0 };
	struct corpus c;
	char line[256];

	CHECK_INT(load_texts(&c, (const char *const[]){ "One|two\r\n\n 12 .\n", "", "three one", NULL }, 1, &err), 0);
	CHECK_UINT(c.training.count, 2);
	CHECK_STR(sentence(&c, &c.training, 0, line, sizeof(line)), "one two");
	CHECK_STR(sentence(&c, &c.training, 1, line, sizeof(line)), "three one");
	corpus_free(&c);
}

void long_words_and_odd_bytes_are_harmless(void)
{
	struct star_error err = { 0 };
	struct corpus c;
	char text[4096], line[256];

	memset(text, 'x', sizeof(text));
	memcpy(text, "ab ", 3);
	memcpy(text + 3 + VOCABULARY_WORD_BYTES - 1, " ", 1);			 /* the longest that is a word */
	memcpy(text + 3 + 2 * VOCABULARY_WORD_BYTES, "\xc3\xa9ZZ@[`{\x7f ", 10); /* one letter too long before it */
	memcpy(text + sizeof(text) - 5, "\001cd\n", 5);
	CHECK_INT(load_text(&c, text, 1, &err), 0);
	CHECK_UINT(c.training.count, 1);
	CHECK_STR(sentence(&c, &c.training, 0, line, sizeof(line)), "ab xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx zz cd");
	corpus_free(&c);
}

void every_20th_sentence_is_held_out(void)
{
	struct star_error err = { 0 };
	struct corpus c;
	char text[4096] = "", line[64], expected[64];
	size_t at = 0;

	for (int i = 0; i < 45; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "w%c%c all\n\n", 'a' + i / 26, 'a' + i % 26);
	CHECK_INT(load_text(&c, text, 1, &err), 0);
	CHECK_UINT(c.training.count, 43);
	CHECK_UINT(c.held_out.count, 2);
	CHECK_UINT(c.vocabulary.words[vocabulary_find(&c.vocabulary, "all")].count, 43);
	/* Words that only held-out sentences have do not count: they could not be trained. */
	snprintf(expected, sizeof(expected), "w%c%c", 'a', 'a' + 19);
	CHECK_UINT(vocabulary_find(&c.vocabulary, expected), VOCABULARY_NONE);
	CHECK_STR(sentence(&c, &c.held_out, 0, line, sizeof(line)), "all");
	corpus_free(&c);
}

void words_are_ranked_by_count_then_alphabet(void)
{
	static const char *const order[] = { "d", "a", "c", "b" };
	struct star_error err = { 0 };
	struct corpus c;

	CHECK_INT(load_text(&c, "b c d c d a d a", 1, &err), 0);
	CHECK_UINT(c.vocabulary.size, 4);
	CHECK_UINT(c.vocabulary.count, 8);
	for (uint32_t i = 0; i < 4; i++) {
		CHECK_STR(c.vocabulary.words[i].text, order[i]);
		CHECK_UINT(vocabulary_find(&c.vocabulary, order[i]), i);
	}
	corpus_free(&c);
}

void rare_words_are_left_out(void)
{
	struct star_error err = { 0 };
	struct corpus c;
	char line[64];

	CHECK_INT(load_text(&c, "rare a b\na odd b a\nrarest\na b", 2, &err), 0);
	CHECK_UINT(c.vocabulary.size, 2);
	CHECK_UINT(c.words_read, 10);
	CHECK_UINT(vocabulary_find(&c.vocabulary, "odd"), VOCABULARY_NONE);
	CHECK_UINT(vocabulary_find(&c.vocabulary, "never"), VOCABULARY_NONE);
	CHECK_STR(sentence(&c, &c.training, 0, line, sizeof(line)), "a b");
	CHECK_STR(sentence(&c, &c.training, 1, line, sizeof(line)), "a b a");
	CHECK_STR(sentence(&c, &c.training, 2, line, sizeof(line)), "");
	CHECK_STR(sentence(&c, &c.training, 3, line, sizeof(line)), "a b");
	corpus_free(&c);
}

void vocabulary_grows(void)
{
	enum { WORDS = 100000 }; /* more than three times what it begins with */
	struct star_error err = { 0 };
	struct vocabulary v;
	char text[16];
	uint32_t id;

	CHECK_INT(vocabulary_init(&v, &err), 0);
	for (uint32_t i = 0; i < 2 * WORDS; i++) {
		const int length = snprintf(text, sizeof(text), "w%u", i % WORDS);

		if (vocabulary_add(&v, text, (size_t)length, &id, &err) != 0 || id != i % WORDS) {
			unit_fail(__FILE__, __LINE__, "word %u has id %u", i % WORDS, id);
			break;
		}
	}
	CHECK_UINT(v.size, WORDS);
	CHECK_UINT(vocabulary_find(&v, "w77777"), 77777);
	vocabulary_fini(&v);
}

void bad_texts_are_refused(void)
{
	static const char *const missing = "/nonexistent/text";
	struct star_error err = { 0 };
	struct corpus c;

	CHECK_INT(corpus_load(&c, &missing, 1, 1, &err), -ENOENT);
	CHECK_STR(err.text, "cannot read the text /nonexistent/text: No such file or directory");
	CHECK_INT(corpus_load(&c, (const char *const[]){ "/" }, 1, 1, &err), -EISDIR);
	CHECK_HAS(err.text, "cannot read the text /: Is a directory");
	CHECK_INT(load_text(&c, "", 1, &err), -EINVAL);
	CHECK_HAS(err.text, "fewer than two words with at least 1 occurrences: give more text with --text");
	CHECK_INT(load_text(&c, "a b", 2, &err), -EINVAL);
	CHECK_INT(load_text(&c, "a a a", 2, &err), -EINVAL);
}
