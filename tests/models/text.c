/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows and pairs of a text. */
#include "app/startrain/zoo/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/models/cases.h"
#include "tests/unit.h"

static char path[UNIT_FOLDER];

static void write_text(const char *text)
{
	const int fd = unit_file(path, "text");

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

static struct zoo_options options_of(const char *model)
{
	return (struct zoo_options){
		.model = zoo_model_find(model),
		.train = { path },
		.train_count = 1,
		.test = { path },
		.test_count = 1,
		.batch = 3,
		.epochs = 1,
		.workers = 1,
		.vocabulary = 3,
		.window = 4,
		.negatives = 2,
		.seed = 1,
	};
}

static bool open_text(struct zoo_text *text, const struct zoo_options *o, uint32_t worker, bool train)
{
	struct star_error err = { 0 };

	return CHECK_INT(zoo_text_learn(text, o, &err), 0) && CHECK_INT(zoo_text_open(text, worker, train, &err), 0);
}

/* All windows, one behind the other; how many. */
static unsigned all_windows(const struct zoo_options *o, uint32_t worker, int64_t *words, unsigned room,
			    double *unigram)
{
	struct graph_tensor feeds[3];
	struct star_error err = { 0 };
	struct zoo_text text;
	unsigned count = 0;

	if (open_text(&text, o, worker, true))
		while (zoo_text_next(&text, feeds, &err) > 0) {
			const int64_t rows = feeds[0].type.shape.dims[0];

			CHECK_INT(feeds[0].type.shape.dims[1], o->window + 1);
			CHECK(rows > 0 && rows <= o->batch);
			for (int64_t i = 0; i < rows * (o->window + 1) && count < room; i++)
				words[count++] = ((const int64_t *)feeds[0].data)[i];
		}
	CHECK_INT(err.code, 0);
	*unigram = text.unigram / (double)text.told;
	zoo_text_close(&text);
	return count / (o->window + 1);
}

/* a: 3 times, b: 2, c: 2; d, e: once, and so unknown. The end of a sentence is 4. */
static const char sentences[] = "A b, a.\nc d\nb a e c\n";
static const int64_t stream[] = { 4, 1, 2, 1, 4, 3, 0, 4, 2, 1, 0, 3, 4, 4, 4, 4 };

void windows_follow_one_another(void)
{
	/* Of 0 to 4, in the text and once more: of 9 words, 3 ends and 5 kinds. */
	static const double shares[] = { 3, 4, 3, 3, 4 };
	struct zoo_options o = options_of("language");
	int64_t words[64];
	double unigram;

	write_text(sentences);
	for (o.window = 3; o.window <= 5; o.window++) { /* of 5: the last one is filled up */
		double expected = 0;
		const unsigned count = all_windows(&o, 0, words, 64, &unigram);

		CHECK_UINT(count, o.window == 3 ? 4 : 3);
		for (unsigned window = 0; window < count; window++)
			for (unsigned i = 0; i <= o.window; i++) { /* the last word of one is the first of the next */
				const int64_t word = words[window * (o.window + 1) + i];

				CHECK_INT(word, stream[window * o.window + i]);
				expected -= i ? log(shares[word] / 17) : 0;
			}
		CHECK_NEAR(unigram, expected / (count * o.window), 1e-12);
	}
	unlink(path);
}

void workers_share_sentences(void)
{
	static const int64_t of_two[2][9] = { { 4, 1, 2, 1, 4, 2, 1, 0, 3 }, { 4, 3, 0, 4 } };
	struct zoo_options o = options_of("language");
	int64_t words[64];
	double unigram;

	write_text(sentences);
	o.workers = 2;
	for (uint32_t worker = 0; worker < 2; worker++) {
		const unsigned count = all_windows(&o, worker, words, 64, &unigram);

		CHECK_UINT(count, worker ? 1 : 3);
		for (unsigned i = 0; i < (worker ? 4 : 9); i++)
			CHECK_INT(words[i / 4 * 5 + i % 4], of_two[worker][i]);
	}
	unlink(path);
}

/* Sentences of this many words, none of which is there twice: word i of all is the i-th by name, too. */
static void write_different_words(unsigned count, unsigned of_sentence)
{
	char *text = NULL;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);

	for (unsigned i = 0; i < count; i++)
		fprintf(file, "%c%c%c%c", 'a' + i / 676 % 26, 'a' + i / 26 % 26, 'a' + i % 26,
			i % of_sentence == of_sentence - 1 ? '\n' : ' ');
	fclose(file);
	write_text(text);
	free(text);
}

void pairs_are_near_each_other(void)
{
	enum { WORDS = 3000, SENTENCE = 10 };
	struct zoo_options o = options_of("skip-gram");
	struct graph_tensor feeds[3];
	struct star_error err = { 0 };
	unsigned next_to = 0, pairs = 0;
	struct zoo_text text;

	write_different_words(WORDS, SENTENCE);
	o.vocabulary = WORDS;
	o.batch = 64;
	if (!open_text(&text, &o, 0, true))
		return;
	while (zoo_text_next(&text, feeds, &err) > 0)
		for (int64_t i = 0; i < feeds[0].type.shape.dims[0]; i++, pairs++) {
			const int64_t center = ((const int64_t *)feeds[0].data)[i],
				      *targets = (int64_t *)feeds[1].data + 3 * i;
			const float *labels = (const float *)feeds[2].data + 3 * i;

			CHECK(center / SENTENCE == targets[0] / SENTENCE);
			CHECK(center != targets[0] && llabs(center - targets[0]) <= o.window);
			CHECK(targets[1] >= 0 && targets[1] < WORDS && targets[2] >= 0 && targets[2] < WORDS);
			CHECK(labels[0] == 1 && labels[1] == 0 && labels[2] == 0);
			next_to += llabs(center - targets[0]) == 1;
		}
	CHECK_INT(err.code, 0);
	CHECK_UINT(next_to, 2 * (WORDS - WORDS / SENTENCE)); /* a window has one word on each side at least */
	CHECK(pairs > 3 * WORDS && pairs < 2 * o.window * WORDS);
	zoo_text_close(&text);
	unlink(path);
}

void a_text_without_pairs_is_refused(void)
{
	struct zoo_options o = options_of("skip-gram");
	struct graph_tensor feeds[3];
	struct star_error err = { 0 };
	struct zoo_text text;

	write_text("one\ntwo\nthree\n");
	if (open_text(&text, &o, 0, true))
		CHECK_INT(zoo_text_next(&text, feeds, &err), -ENODATA);
	CHECK_HAS(err.text, "no two words");
	zoo_text_close(&text);
	o.workers = 2; /* others may have some */
	if (open_text(&text, &o, 1, true))
		CHECK_INT(zoo_text_next(&text, feeds, &err), 0);
	zoo_text_close(&text);
	unlink(path);
}
