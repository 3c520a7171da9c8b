/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `startrain generate`: examples in Criteo's format, or with histories (generate_history.c), labelled by a hidden
 * teacher. Ids follow a power law, as in real traffic; Criteo's teacher is a logistic model with a weight for each id
 * and each number, and for each pair of ids of neighbouring small columns, which a linear model cannot learn.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/startrain/training.h"
#include "app/startrain/zoo/generate.h"
#include "app/startrain/zoo/zoo.h"
#include "base/hash.h"
#include "base/output.h"

enum { NUMBERS = 13, WORDS = 26, SMALL_COLUMNS = 8 };

static const double ID_WEIGHT = 0.35, NUMBER_WEIGHT = 0.15, PAIR_WEIGHT = 0.5, BIAS = -1.2, SKEW = 1.2, MISSING = 0.05;

struct teacher {
	uint64_t seed;
	struct power_law numbers, words[WORDS];
};

/* Small columns of tens to hundreds of ids, then larger ones up to 200,000. */
static uint32_t vocabulary(unsigned column, uint32_t most)
{
	const uint32_t ids =
		column < SMALL_COLUMNS ? 10u << column / 2 : (uint32_t)(500 * pow(1.4, column - SMALL_COLUMNS));

	return ids < most ? ids : most;
}

static void teacher_init(struct teacher *t, uint64_t seed, uint32_t ids)
{
	t->seed = seed;
	power_law_init(&t->numbers, SKEW, 1000);
	for (unsigned i = 0; i < WORDS; i++)
		power_law_init(&t->words[i], SKEW, vocabulary(i, ids));
}

double teacher_weight(uint64_t seed, uint64_t kind, uint64_t a, uint64_t b)
{
	uint64_t bits = hash_mix(seed ^ hash_mix(kind ^ hash_mix(a ^ hash_mix(b))));
	double sum = 0;

	for (unsigned i = 0; i < 4; i++, bits >>= 16)
		sum += (double)(bits & 0xffff) / 65536 - 0.5;
	return sum * sqrt(3);
}

struct example {
	int numbers[NUMBERS]; /* -1: missing */
	uint32_t words[WORDS];
	struct auc_example result; /* the teacher's score, and the label */
};

static void draw_example(const struct teacher *t, uint64_t row, struct example *e)
{
	double score = BIAS;
	struct prng prng;

	prng_seed(&prng, t->seed ^ hash_mix(row + 1));
	for (unsigned i = 0; i < NUMBERS; i++) {
		const bool missing = prng_unit(&prng) < MISSING;

		e->numbers[i] = (int)power_law_draw(&t->numbers, &prng);
		if (missing)
			e->numbers[i] = -1;
		else
			score += NUMBER_WEIGHT * teacher_weight(t->seed, 1, i, 0) * log1p(e->numbers[i]);
	}
	for (unsigned i = 0; i < WORDS; i++) {
		e->words[i] = power_law_draw(&t->words[i], &prng);
		score += ID_WEIGHT * teacher_weight(t->seed, 2, i, e->words[i]);
		if (i % 2 && i < SMALL_COLUMNS)
			score += PAIR_WEIGHT * teacher_weight(t->seed, 3, e->words[i - 1] * 1000ull + i, e->words[i]);
	}
	e->result.label = prng_unit(&prng) < 1 / (1 + exp(-score));
	e->result.score = (float)score;
}

static struct auc_example teacher_write(const struct teacher *t, uint64_t row, FILE *file)
{
	struct example e;

	draw_example(t, row, &e);
	fprintf(file, "%.0f", (double)e.result.label);
	for (unsigned i = 0; i < NUMBERS; i++)
		fprintf(file, e.numbers[i] < 0 ? "\t" : "\t%d", e.numbers[i]);
	for (unsigned i = 0; i < WORDS; i++)
		fprintf(file, "\t%08x", (unsigned)(hash_mix(e.words[i] + 1 + ((uint64_t)i << 32)) >> 32));
	fputc('\n', file);
	return e.result;
}

struct request {
	uint64_t rows, first, seed, ids;
	bool histories;
};

static const char help[] =
	"Usage: startrain generate [options] > FILE\n"
	"Writes examples in Criteo's format, or with click histories, to standard output. A hidden teacher model "
	"labels\n"
	"them; its own AUC, the best that a model can reach, goes to standard error.\n"
	"\n"
	"  --histories  label, user, item, category and the user's earlier clicks, for dssm, din and dien\n"
	"  --rows N     examples [100000]\n"
	"  --first N    number of the first example, to continue another file [0]\n"
	"  --seed N     seed of the teacher and of all examples [1]\n"
	"  --ids N      distinct ids per column, at most, without --histories [200000]\n"
	"  --help\n";

static int parse_generate_options(int argc, char **argv, struct request *r, struct star_error *err)
{
	static const struct option options[] = { { "rows", required_argument, NULL, 'r' },
						 { "first", required_argument, NULL, 'f' },
						 { "seed", required_argument, NULL, 's' },
						 { "ids", required_argument, NULL, 'i' },
						 { "histories", no_argument, NULL, 'H' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	int option, rc = 0;

	optind = 2;
	while (rc == 0 && (option = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (option) {
		case 'r':
			rc = training_parse_number("rows", optarg, 1, 1e10, &r->rows, err);
			break;
		case 'f':
			rc = training_parse_number("first", optarg, 0, 0x1p53, &r->first, err);
			break;
		case 's':
			rc = training_parse_number("seed", optarg, 0, 0x1p53, &r->seed, err);
			break;
		case 'i':
			rc = training_parse_number("ids", optarg, 1, 200000, &r->ids, err);
			break;
		case 'H':
			r->histories = true;
			break;
		case 'h':
			fputs(help, stdout);
			return 1;
		default:
			return star_error_set(err, -EINVAL, "--help shows the options");
		}
	if (rc == 0 && optind < argc)
		rc = star_error_set(err, -EINVAL, "%s: an argument without an option", argv[optind]);
	return rc;
}

static int generate(const struct request *r, struct star_error *err)
{
	struct auc_example *scores = malloc(r->rows * sizeof(*scores));
	static struct teacher teacher;
	struct history_teacher history_teacher;
	double auc;

	if (!scores)
		return star_error_set(err, -ENOMEM, "not enough memory for %llu scores", (unsigned long long)r->rows);
	teacher_init(&teacher, r->seed, (uint32_t)r->ids);
	history_teacher_init(&history_teacher, r->seed);
	for (uint64_t i = 0; i < r->rows && !ferror(stdout); i++)
		scores[i] = r->histories ? history_teacher_write(&history_teacher, r->first + i, stdout)
					 : teacher_write(&teacher, r->first + i, stdout);
	if (output_flush(stdout, "the examples", err) == 0) {
		if (auc_exact(scores, r->rows, &auc, NULL) == 0)
			fprintf(stderr, "the teacher's AUC: %.5f\n", auc);
		else
			fprintf(stderr, "the teacher has no AUC: all labels are the same\n");
	}
	free(scores);
	return err->code;
}

int zoo_generate(int argc, char **argv)
{
	struct request request = { .rows = 100000, .seed = 1, .ids = 200000 };
	struct star_error err = { 0 };
	int rc = parse_generate_options(argc, argv, &request, &err);

	if (rc > 0)
		return 0;
	if (rc < 0 || generate(&request, &err) < 0) {
		fprintf(stderr, "startrain generate: %s\n", err.text);
		return rc < 0 ? 2 : 1;
	}
	return 0;
}
