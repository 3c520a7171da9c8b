/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/sampler.h"

#include <stdlib.h>

#include "tests/startrain/cases.h"
#include "tests/unit.h"

enum { CONTEXTS_MAX = 128 };

/* The probability of each word follows from the table: nothing need be drawn. */
void negatives_follow_the_three_quarter_power(void)
{
	struct star_error err = { 0 };
	struct sampler s;
	struct corpus c;
	double *share, sum = 0;
	uint32_t size;

	load_random(&c, 500, 300);
	size = c.vocabulary.size;
	share = calloc(size, sizeof(*share));
	CHECK_INT(sampler_init(&s, &c.vocabulary, 1e-3, &err), 0);
	for (uint32_t i = 0; i < size; i++) {
		CHECK(s.take[i] >= 0 && s.take[i] <= 1 && s.other[i] < size);
		share[i] += s.take[i] / size;
		share[s.other[i]] += (1 - s.take[i]) / size;
		sum += pow((double)c.vocabulary.words[i].count, 0.75);
	}
	for (uint32_t i = 0; i < size; i++)
		CHECK_NEAR(share[i], pow((double)c.vocabulary.words[i].count, 0.75) / sum, 1e-6);
	free(share);
	sampler_fini(&s);
	corpus_free(&c);
}

void frequent_words_are_thinned_out(void)
{
	struct star_error err = { 0 };
	struct corpus c;
	struct sampler s;

	CHECK_INT(load_text(&c, "a a a a a a a a b c", 1, &err), 0);
	CHECK_INT(sampler_init(&s, &c.vocabulary, 0.08, &err), 0);
	CHECK_NEAR(s.keep[0], sqrt(0.1) + 0.1, 1e-6);
	CHECK_NEAR(s.keep[1], 1, 0);
	sampler_fini(&s);
	corpus_free(&c);
}

static uint64_t drain(struct stream *s, uint32_t *begun)
{
	uint32_t contexts[CONTEXTS_MAX], center, count;
	uint64_t digest = 0;

	while ((count = stream_next(s, &center, contexts)) > 0) {
		digest = hash_mix(digest + center);
		for (uint32_t i = 0; i < count; i++)
			digest = hash_mix(digest + contexts[i]);
	}
	*begun = s->next;
	return digest;
}

void shares_partition_the_sentences(void)
{
	struct star_error err = { 0 };
	struct corpus c;
	struct sampler s;

	load_random(&c, 101, 50);
	CHECK_INT(sampler_init(&s, &c.vocabulary, 1, &err), 0);
	for (uint32_t shares = 1; shares <= 120; shares += 17) {
		uint32_t seen[101] = { 0 }, begun;

		for (uint32_t share = 0; share < shares; share++) {
			struct stream stream;

			CHECK_INT(stream_init(&stream, &s, &c.training, 5, share, shares, 1, 0, &err), 0);
			for (uint32_t i = 0; i < stream.order_count; i++) {
				CHECK_UINT(stream.order[i] % shares, share);
				seen[stream.order[i]]++;
			}
			drain(&stream, &begun);
			CHECK_UINT(begun, stream.order_count);
			stream_fini(&stream);
		}
		for (uint32_t i = 0; i < c.training.count; i++)
			CHECK_UINT(seen[i], 1);
	}
	sampler_fini(&s);
	corpus_free(&c);
}

/* Nothing is thinned out, and each word occurs once: ids then show the positions of the words. */
void contexts_are_within_the_window(void)
{
	struct star_error err = { 0 };
	uint32_t contexts[CONTEXTS_MAX], center, count, centers = 0, widest = 0;
	struct stream stream;
	struct sampler s;
	struct corpus c;

	CHECK_INT(load_text(&c, "a b c d e f g h i j k l m n o p q r s t u v w x y z\nz", 1, &err), 0);
	CHECK_INT(sampler_init(&s, &c.vocabulary, 1, &err), 0);
	for (uint32_t i = 0; i < 25; i++)
		CHECK_INT(c.vocabulary.words[i + 1].text[0], 'a' + i); /* z is the first: it stands twice */
	CHECK_INT(stream_init(&stream, &s, &c.training, 3, 0, 1, 1, 0, &err), 0);
	while ((count = stream_next(&stream, &center, contexts)) > 0) {
		const int at = center == 0 ? 25 : (int)center - 1;
		int last = -1;

		centers++;
		for (uint32_t i = 0; i < count; i++) {
			const int other = contexts[i] == 0 ? 25 : (int)contexts[i] - 1;

			CHECK(other != at && abs(other - at) <= 3 && other > last);
			last = other;
		}
		widest = count > widest ? count : widest;
	}
	CHECK_UINT(centers, 26); /* the second sentence has a centre without a context */
	CHECK_UINT(widest, 6);
	stream_fini(&stream);
	sampler_fini(&s);
	corpus_free(&c);
}

void streams_depend_on_seed_share_and_epoch(void)
{
	static const struct {
		uint64_t seed;
		uint32_t share, epoch;
	} runs[] = { { 1, 0, 0 }, { 2, 0, 0 }, { 1, 1, 0 }, { 1, 0, 1 }, { 0, 0, 2 }, { 1, 0, 0 } };
	enum { RUNS = sizeof(runs) / sizeof(runs[0]) };
	struct star_error err = { 0 };
	uint64_t digest[RUNS];
	struct sampler s;
	struct corpus c;

	load_random(&c, 300, 80);
	CHECK_INT(sampler_init(&s, &c.vocabulary, 1e-2, &err), 0);
	for (int i = 0; i < RUNS; i++) {
		struct stream stream;
		uint32_t begun;

		CHECK_INT(stream_init(&stream, &s, &c.training, 5, runs[i].share, 2, runs[i].seed, runs[i].epoch, &err),
			  0);
		digest[i] = drain(&stream, &begun);
		stream_fini(&stream);
	}
	CHECK_UINT(digest[RUNS - 1], digest[0]);
	for (int i = 0; i < RUNS - 1; i++)
		for (int k = 0; k < i; k++)
			CHECK(digest[i] != digest[k]);
	sampler_fini(&s);
	corpus_free(&c);
}
