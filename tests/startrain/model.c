/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/model.h"

#include <errno.h>
#include <stdlib.h>

#include "app/startrain/quality.h"
#include "tests/startrain/cases.h"
#include "tests/unit.h"

enum { PAIRS = 200, NEGATIVES = 4, WINDOW = 3 };

struct fixture {
	struct corpus corpus;
	struct sampler sampler;
	struct stream stream;
	struct batch batch;
};

static void fixture_init(struct fixture *f)
{
	struct star_error err = { 0 };

	load_random(&f->corpus, 200, 60);
	CHECK_INT(sampler_init(&f->sampler, &f->corpus.vocabulary, 1, &err), 0);
	CHECK_INT(stream_init(&f->stream, &f->sampler, &f->corpus.training, WINDOW, 0, 1, 3, 0, &err), 0);
	CHECK_INT(batch_init(&f->batch, f->corpus.vocabulary.size, PAIRS, NEGATIVES, &err), 0);
}

static void fixture_fini(struct fixture *f)
{
	batch_fini(&f->batch);
	stream_fini(&f->stream);
	sampler_fini(&f->sampler);
	corpus_free(&f->corpus);
}

/* The places in the order of use are 0, 1, 2 ... except for those that were used before; and no key occurs twice. */
static void check_first_use(const struct row_set *set, uint32_t place, uint32_t *used)
{
	CHECK(place < set->count && place <= *used);
	*used += place == *used;
}

void batch_rows_are_unique_in_order(void)
{
	struct fixture f;
	uint32_t batches = 0;

	fixture_init(&f);
	while (batch_fill(&f.batch, &f.stream) > 0) {
		const struct batch *b = &f.batch;
		uint32_t in = 0, out = 0;

		batches++;
		CHECK(b->pairs <= PAIRS);
		for (uint32_t i = 0; i < b->groups_count; i++) {
			const struct group *g = &b->groups[i];

			check_first_use(&b->in, g->center, &in);
			for (uint32_t k = 0; k < g->contexts; k++)
				check_first_use(&b->out, b->contexts[g->first_context + k], &out);
			for (uint32_t k = 0; k < g->negatives; k++)
				check_first_use(&b->out, b->negatives_drawn[g->first_negative + k], &out);
		}
		CHECK_UINT(in, b->in.count);
		CHECK_UINT(out, b->out.count);
		for (uint32_t i = 0; i < b->out.count; i++)
			for (uint32_t k = 0; k < i; k++)
				CHECK(b->out.keys[i] != b->out.keys[k]);
	}
	CHECK(batches > 5);
	fixture_fini(&f);
}

void batches_hold_every_pair(void)
{
	struct star_error err = { 0 };
	uint32_t contexts[2 * WINDOW], center, count;
	struct fixture f;
	struct stream again;
	uint64_t pairs = 0, expected = 0;

	fixture_init(&f);
	f.batch.negatives = 0; /* so that both streams draw the same */
	CHECK_INT(stream_init(&again, &f.sampler, &f.corpus.training, WINDOW, 0, 1, 3, 0, &err), 0);
	while (batch_fill(&f.batch, &f.stream) > 0) {
		const struct batch *b = &f.batch;

		pairs += b->pairs;
		for (uint32_t i = 0; i < b->groups_count; i++) {
			count = stream_next(&again, &center, contexts);
			CHECK_UINT(count, b->groups[i].contexts);
			CHECK_UINT(b->in.keys[b->groups[i].center], center);
			for (uint32_t k = 0; k < count; k++)
				CHECK_UINT(b->out.keys[b->contexts[b->groups[i].first_context + k]], contexts[k]);
			expected += count;
		}
	}
	CHECK_UINT(stream_next(&again, &center, contexts), 0);
	CHECK_UINT(pairs, expected);
	stream_fini(&again);
	fixture_fini(&f);
}

void negatives_are_no_positives(void)
{
	struct fixture f;
	uint32_t left_out = 0;

	fixture_init(&f);
	while (batch_fill(&f.batch, &f.stream) > 0)
		for (const struct group *g = f.batch.groups; g < f.batch.groups + f.batch.groups_count; g++) {
			left_out += NEGATIVES - g->negatives;
			for (uint32_t i = 0; i < g->negatives; i++) {
				const uint32_t place = f.batch.negatives_drawn[g->first_negative + i];

				CHECK(f.batch.out.keys[place] != f.batch.in.keys[g->center]);
				for (uint32_t k = 0; k < g->contexts; k++)
					CHECK(f.batch.contexts[g->first_context + k] != place);
			}
		}
	CHECK(left_out > 0);
	fixture_fini(&f);
}

static float *random_rows(uint32_t elements, uint64_t seed)
{
	float *rows = malloc(elements * sizeof(*rows));
	struct prng random;

	prng_seed(&random, seed);
	for (uint32_t i = 0; i < elements; i++)
		rows[i] = (float)(prng_unit(&random) - 0.5);
	return rows;
}

/* Central differences in each element of one side. The loss is a sum of float32 terms: hence the step and tolerance. */
static void check_slopes(const struct batch *b, uint32_t dim, const float *in, const float *out, float *moved,
			 uint32_t elements, const float *gradient)
{
	const float step = 1e-2f;

	for (uint32_t i = 0; i < elements; i++) {
		const float middle = moved[i];
		double above, below;

		moved[i] = middle + step;
		above = model_loss(b, dim, in, out, NULL, NULL);
		moved[i] = middle - step;
		below = model_loss(b, dim, in, out, NULL, NULL);
		moved[i] = middle;
		CHECK_NEAR(gradient[i], (above - below) / (2 * (double)step), 2e-3 * (1 + fabs(gradient[i])));
	}
}

void gradient_is_the_slope_of_the_loss(void)
{
	static const uint32_t dims[] = { 1, 5, 8, 19 }; /* below, at and between the lanes */
	struct fixture f;

	fixture_init(&f);
	batch_fill(&f.batch, &f.stream);
	for (size_t i = 0; i < sizeof(dims) / sizeof(dims[0]); i++) {
		const struct batch *b = &f.batch;
		const uint32_t dim = dims[i], in_elements = b->in.count * dim, out_elements = b->out.count * dim;
		float *in = random_rows(in_elements, 1), *out = random_rows(out_elements, 2);
		float *in_gradient = random_rows(in_elements, 3), *out_gradient = random_rows(out_elements, 4);
		const double loss = model_loss(b, dim, in, out, in_gradient, out_gradient);

		CHECK_NEAR(model_loss(b, dim, in, out, NULL, NULL), loss, 0);
		check_slopes(b, dim, in, out, in, in_elements, in_gradient);
		check_slopes(b, dim, in, out, out, out_elements, out_gradient);
		free(in);
		free(out);
		free(in_gradient);
		free(out_gradient);
	}
	fixture_fini(&f);
}

void loss_of_zeros_is_known(void)
{
	struct fixture f;
	float *zeros;
	double terms = 0;

	fixture_init(&f);
	batch_fill(&f.batch, &f.stream);
	zeros = calloc((size_t)batch_rows_max(&f.batch) * 64, sizeof(*zeros));
	for (uint32_t i = 0; i < f.batch.groups_count; i++)
		terms += f.batch.groups[i].contexts * (1.0 + f.batch.groups[i].negatives);
	CHECK_NEAR(model_loss(&f.batch, 64, zeros, zeros, NULL, NULL), terms * log(2), terms * 1e-6);
	free(zeros);
	fixture_fini(&f);
}

void loss_is_finite_for_large_scores(void)
{
	static const float large[] = { 1e4f, -1e4f };
	struct fixture f;
	float *in, *out, *in_gradient, *out_gradient;
	uint32_t rows;

	fixture_init(&f);
	batch_fill(&f.batch, &f.stream);
	rows = batch_rows_max(&f.batch);
	in = random_rows(rows, 1);
	out = random_rows(rows, 1);
	in_gradient = random_rows(rows, 1);
	out_gradient = random_rows(rows, 1);
	for (int k = 0; k < 2; k++) {
		for (uint32_t i = 0; i < rows; i++) {
			in[i] = large[k];
			out[i] = 1e4f;
		}
		CHECK(isfinite(model_loss(&f.batch, 1, in, out, in_gradient, out_gradient)));
		for (uint32_t i = 0; i < f.batch.in.count; i++)
			CHECK(isfinite(in_gradient[i]));
	}
	free(in);
	free(out);
	free(in_gradient);
	free(out_gradient);
	fixture_fini(&f);
}

void neighbours_are_the_nearest(void)
{
	static struct word words[8];
	static const float rows[8 * 2] = { 1, 0, 0, 1, 2, 0.1f, -3, 0, 0, 0, 5, 5, 1, -0.2f, 1, 0.001f };
	struct vocabulary v = { .words = words, .size = 8 };
	uint32_t nearest[8];

	for (int i = 0; i < 8; i++)
		words[i].count = i < 7 ? 100 : 1; /* the last one is too rare to be shown, however near */
	CHECK_UINT(quality_neighbours(&v, rows, 2, 0, 3, nearest), 3);
	CHECK_UINT(nearest[0], 2);
	CHECK_UINT(nearest[1], 6);
	CHECK_UINT(nearest[2], 5);
	CHECK_UINT(quality_neighbours(&v, rows, 2, 0, 8, nearest), 6);
	CHECK_UINT(nearest[5], 3);
	CHECK_UINT(quality_neighbours(&v, rows, 2, 0, 0, nearest), 0);
	CHECK_UINT(quality_neighbours(&v, rows, 2, 7, 1, nearest), 1);
	CHECK_UINT(nearest[0], 0);
}

struct constant_reader {
	float value;
	uint32_t dim;
	uint32_t calls, fail_at;
	uint64_t digest;
};

static int constant_read(void *ctx, enum side side, const uint64_t *keys, uint32_t count, float *rows,
			 struct star_error *err)
{
	struct constant_reader *r = ctx;

	if (++r->calls == r->fail_at)
		return star_error_set(err, -ETIMEDOUT, "no answer");
	for (uint32_t i = 0; i < count; i++)
		r->digest = hash_mix(r->digest + keys[i]);
	for (uint32_t i = 0; i < count * r->dim; i++)
		rows[i] = r->value;
	return 0;
}

void held_out_loss_is_the_same_each_time(void)
{
	struct constant_reader context = { .value = 0.25f, .dim = 16 };
	const struct reader reader = { constant_read, &context };
	struct training t = { .seed = 1, .dim = 16, .window = WINDOW, .negatives = NEGATIVES };
	struct star_error err = { 0 };
	double first = 0, second = 0;
	uint64_t digest;
	struct fixture f;

	fixture_init(&f);
	CHECK_INT(quality_held_out(&reader, &t, &f.corpus, &f.sampler, &first, &err), 0);
	digest = context.digest;
	context.digest = 0;
	t.seed = 2;
	CHECK_INT(quality_held_out(&reader, &t, &f.corpus, &f.sampler, &second, &err), 0);
	CHECK_UINT(context.digest, digest);
	CHECK_NEAR(first, second, 0);
	/* All scores are 16 / 16: a little less than the loss with every negative, as some are left out. */
	CHECK(first < log(1 + exp(-1)) + NEGATIVES * log(1 + exp(1)));
	CHECK(first > log(1 + exp(-1)) + NEGATIVES / 2.0 * log(1 + exp(1)));
	fixture_fini(&f);
}

void a_failing_reader_ends_the_measurement(void)
{
	struct constant_reader context = { .dim = 16, .fail_at = 2 };
	const struct reader reader = { constant_read, &context };
	const struct training t = { .dim = 16, .window = WINDOW, .negatives = NEGATIVES };
	struct star_error err = { 0 };
	struct fixture f;
	double loss;

	fixture_init(&f);
	CHECK_INT(quality_held_out(&reader, &t, &f.corpus, &f.sampler, &loss, &err), -ETIMEDOUT);
	CHECK_STR(err.text, "no answer");
	CHECK_UINT(context.calls, 2);
	context.calls = 1;
	CHECK(quality_read_all(&reader, WORDS_OUT, 3000, 16, &err) == NULL);
	f.corpus.held_out.count = 0;
	CHECK_INT(quality_held_out(&reader, &t, &f.corpus, &f.sampler, &loss, &err), -EINVAL);
	CHECK_HAS(err.text, "held-out text");
	fixture_fini(&f);
}
