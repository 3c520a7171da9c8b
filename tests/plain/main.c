/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * star-plain-trainer: startrain's model in one process, its parameters in plain arrays, its optimizer a plain loop: the
 * reference that startrain's result is held against. Initial values come from its own generator and Adagrad is computed
 * in double, so that the results agree as far as training is concerned, and not bit for bit.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/startrain/batch.h"
#include "app/startrain/model.h"
#include "app/startrain/quality.h"
#include "app/startrain/training.h"
#include "base/clock.h"

struct plain {
	struct training training;
	struct corpus corpus;
	struct sampler sampler;
	float *value[SIDES];
	double *accumulator[SIDES];
	uint64_t pairs, rows;
};

static int read_rows(void *ctx, enum side side, const uint64_t *keys, uint32_t count, float *rows,
		     struct star_error *err)
{
	const struct plain *p = ctx;
	const uint32_t dim = p->training.dim;

	for (uint32_t i = 0; i < count; i++)
		memcpy(rows + (size_t)i * dim, p->value[side] + keys[i] * dim, dim * sizeof(*rows));
	return 0;
}

static void apply(struct plain *p, enum side side, const struct row_set *set, const float *gradients)
{
	const uint32_t dim = p->training.dim;

	for (uint32_t i = 0; i < set->count; i++)
		for (uint32_t k = 0; k < dim; k++) {
			const size_t at = set->keys[i] * dim + k;
			const double g = gradients[(size_t)i * dim + k];

			p->accumulator[side][at] += g * g;
			p->value[side][at] -= (float)(p->training.rate * g / (sqrt(p->accumulator[side][at]) + 1e-10));
		}
}

static int allocate(struct plain *p, struct star_error *err)
{
	const size_t elements = (size_t)p->corpus.vocabulary.size * p->training.dim;
	struct prng random;

	prng_seed(&random, p->training.seed);
	for (int side = 0; side < SIDES; side++) {
		p->value[side] = calloc(elements, sizeof(float));
		p->accumulator[side] = calloc(elements, sizeof(double));
		if (p->value[side] == NULL || p->accumulator[side] == NULL)
			return star_error_set(err, -ENOMEM, "not enough memory for the parameters");
		for (size_t i = 0; i < elements; i++)
			p->accumulator[side][i] = p->training.initial_accumulator;
	}
	for (size_t i = 0; i < elements; i++)
		p->value[WORDS_IN][i] = (float)((prng_unit(&random) - 0.5) / p->training.dim);
	return 0;
}

static int train(struct plain *p, struct star_error *err)
{
	const struct training *t = &p->training;
	float *rows[SIDES], *gradients[SIDES];
	struct stream stream;
	struct batch b;
	int rc;

	rc = batch_init(&b, p->corpus.vocabulary.size, t->batch, t->negatives, err);
	if (rc != 0)
		return rc;
	for (int side = 0; side < SIDES; side++) {
		rows[side] = calloc((size_t)batch_rows_max(&b) * t->dim, sizeof(float));
		gradients[side] = calloc((size_t)batch_rows_max(&b) * t->dim, sizeof(float));
		if (rows[side] == NULL || gradients[side] == NULL)
			return star_error_set(err, -ENOMEM, "not enough memory for a batch");
	}
	for (uint32_t epoch = 0; epoch < t->epochs; epoch++) {
		rc = stream_init(&stream, &p->sampler, &p->corpus.training, t->window, 0, 1, t->seed, epoch, err);
		if (rc != 0)
			return rc;
		while (batch_fill(&b, &stream) > 0) {
			read_rows(p, WORDS_IN, b.in.keys, b.in.count, rows[WORDS_IN], err);
			read_rows(p, WORDS_OUT, b.out.keys, b.out.count, rows[WORDS_OUT], err);
			model_loss(&b, t->dim, rows[WORDS_IN], rows[WORDS_OUT], gradients[WORDS_IN],
				   gradients[WORDS_OUT]);
			apply(p, WORDS_IN, &b.in, gradients[WORDS_IN]);
			apply(p, WORDS_OUT, &b.out, gradients[WORDS_OUT]);
			p->pairs += b.pairs;
			p->rows += b.in.count + b.out.count;
		}
		stream_fini(&stream);
	}
	for (int side = 0; side < SIDES; side++) {
		free(rows[side]);
		free(gradients[side]);
	}
	batch_fini(&b);
	return 0;
}

static void print_help(void)
{
	printf("Usage: star-plain-trainer [options] [TEXT-FILE...]\n"
	       "Trains startrain's model without a parameter server, and prints its quality as one JSON object.\n\n"
	       "  --neighbours N       nearest neighbours printed for each word [6]\n");
	training_print_help(stdout);
}

static int parse_options(struct plain *p, uint64_t *neighbours, int argc, char **argv, struct star_error *err)
{
	struct option options[TRAINING_OPTIONS + 3] = { 0 };
	int c, index, rc = 0;

	for (int i = 0; i < TRAINING_OPTIONS; i++)
		options[i] = (struct option){ training_options[i].name, required_argument, NULL, 'o' };
	options[TRAINING_OPTIONS] = (struct option){ "neighbours", required_argument, NULL, 'n' };
	options[TRAINING_OPTIONS + 1] = (struct option){ "help", no_argument, NULL, 'h' };
	while (rc == 0 && (c = getopt_long(argc, argv, "h", options, &index)) != -1)
		switch (c) {
		case 'o':
			rc = training_set(&p->training, &training_options[index], optarg, err);
			break;
		case 'n':
			rc = training_parse_number("neighbours", optarg, 0, NEIGHBOURS_MAX, neighbours, err);
			break;
		case 'h':
			print_help();
			exit(0);
		default:
			rc = star_error_set(err, -EINVAL, "--help shows the options");
		}
	return rc;
}

static int run(struct plain *p, uint64_t neighbours, const char *const *texts, uint32_t texts_count,
	       struct star_error *err)
{
	const struct reader reader = { read_rows, p };
	double before, after, seconds;
	uint64_t begin;
	int rc;

	rc = corpus_load(&p->corpus, texts, texts_count, p->training.min_count, err);
	if (rc == 0)
		rc = sampler_init(&p->sampler, &p->corpus.vocabulary, p->training.subsampling, err);
	if (rc == 0)
		rc = allocate(p, err);
	if (rc == 0)
		rc = quality_held_out(&reader, &p->training, &p->corpus, &p->sampler, &before, err);
	begin = clock_ns();
	if (rc == 0)
		rc = train(p, err);
	seconds = (double)(clock_ns() - begin) * 1e-9;
	if (rc == 0)
		rc = quality_held_out(&reader, &p->training, &p->corpus, &p->sampler, &after, err);
	if (rc != 0)
		return rc;
	printf("{\"held_out_before\": %.9g, \"held_out_after\": %.9g, \"examples\": %llu, \"rows\": %llu, \"seconds\": "
	       "%.3f, "
	       "\"words_read\": %llu, \"vocabulary\": %u, \"neighbours\": ",
	       before, after, (unsigned long long)p->pairs, (unsigned long long)p->rows, seconds,
	       (unsigned long long)p->corpus.words_read, p->corpus.vocabulary.size);
	quality_print_neighbours(stdout, &p->corpus.vocabulary, p->value[WORDS_IN], p->training.dim,
				 (uint32_t)neighbours, true);
	printf("}\n");
	return 0;
}

int main(int argc, char **argv)
{
	struct star_error err = { 0 };
	struct plain p = { 0 };
	uint64_t neighbours = 6;
	int rc;

	training_default(&p.training);
	if (parse_options(&p, &neighbours, argc, argv, &err) != 0) {
		fprintf(stderr, "star-plain-trainer: %s\n", err.text);
		return 2;
	}
	if (optind < argc)
		rc = run(&p, neighbours, (const char *const *)argv + optind, (uint32_t)(argc - optind), &err);
	else
		rc = run(&p, neighbours, training_texts, TRAINING_TEXTS, &err);
	for (int side = 0; side < SIDES; side++) {
		free(p.value[side]);
		free(p.accumulator[side]);
	}
	sampler_fini(&p.sampler);
	corpus_free(&p.corpus);
	if (rc != 0)
		fprintf(stderr, "star-plain-trainer: %s\n", err.text);
	return rc != 0;
}
