/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/metrics.h"

#include <math.h>
#include <stdio.h>

#include "base/prng.h"
#include "tests/train/cases.h"
#include "tests/unit.h"

void metrics_are_those_of_their_definitions(void)
{
	enum { COUNT = 1000 };
	static float scores[COUNT], labels[COUNT];
	double right = 0, said = 0, are = 0, both = 0, loss = 0, squares = 0, sum = 0, error = 0;
	struct train_metrics_figures f;
	struct train_metrics m;
	struct prng p;

	prng_seed(&p, 7);
	for (unsigned i = 0; i < COUNT; i++) {
		scores[i] = (float)prng_unit(&p);
		labels[i] = prng_unit(&p) < scores[i] * 0.8;
		right += (scores[i] >= 0.3f) == (labels[i] == 1);
		said += scores[i] >= 0.3f;
		are += labels[i];
		both += scores[i] >= 0.3f && labels[i] == 1;
		loss -= log(labels[i] == 1 ? (double)scores[i] : 1 - (double)scores[i]);
		squares += pow((double)scores[i] - labels[i], 2);
		sum += scores[i];
	}
	for (unsigned bin = 0; bin < 10; bin++) {
		double off = 0;

		for (unsigned i = 0; i < COUNT; i++)
			if (scores[i] * 10 >= bin && scores[i] * 10 < bin + 1)
				off += (double)scores[i] - labels[i];
		error += fabs(off) / COUNT;
	}
	train_metrics_begin(&m, 0.3f);
	train_metrics_add(&m, scores, labels, 10); /* in parts, as batches come */
	train_metrics_add(&m, scores + 10, labels + 10, 0);
	train_metrics_add(&m, scores + 10, labels + 10, COUNT - 10);
	f = train_metrics_end(&m);
	CHECK_NEAR(f.threshold, 0.3, 1e-6);
	CHECK_NEAR(f.accuracy, right / COUNT, 1e-12);
	CHECK_NEAR(f.precision, both / said, 1e-12);
	CHECK_NEAR(f.recall, both / are, 1e-12);
	CHECK_NEAR(f.log_loss, loss / COUNT, 1e-9);
	CHECK_NEAR(f.rmse, sqrt(squares / COUNT), 1e-9);
	CHECK_NEAR(f.calibration, sum / are, 1e-9);
	CHECK_NEAR(f.calibration_error, error, 1e-9);
}

/* What a case adds, and which of the figures apply: in the order of the struct, behind the threshold. */
void metrics_that_do_not_apply_are_nan(void)
{
	static const struct {
		const char *what;
		float scores[2], labels[2];
		unsigned count;
		const char *apply;
	} cases[] = {
		{ "nothing", { 0 }, { 0 }, 0, "-------" },
		{ "two classes", { 0.2f, 0.9f }, { 0, 1 }, 2, "aprlceR" },
		{ "nothing is 1, nor said to be", { 0.2f, 0.4f }, { 0, 0 }, 2, "a--l-eR" },
		{ "nothing is 1, but said to be", { 0.2f, 0.9f }, { 0, 0 }, 2, "ap-l-eR" },
		{ "nothing is said to be 1", { 0.2f, 0.4f }, { 0, 1 }, 2, "a-rlceR" },
		{ "no probabilities", { -2, 3 }, { 0, 1 }, 2, "apr---R" },
		{ "no classes", { 0.2f, 0.9f }, { 0, 3.5f }, 2, "------R" },
		{ "neither", { 20, 40 }, { -1, 3.5f }, 2, "------R" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct train_metrics m;
		char apply[8] = "";

		train_metrics_begin(&m, 0.5);
		train_metrics_add(&m, cases[i].scores, cases[i].labels, cases[i].count);
		const struct train_metrics_figures f = train_metrics_end(&m);
		const double figures[] = { f.accuracy,	  f.precision,	       f.recall, f.log_loss,
					   f.calibration, f.calibration_error, f.rmse };

		for (unsigned k = 0; k < 7; k++)
			apply[k] = isnan(figures[k]) ? '-' : "aprlceR"[k];
		if (!CHECK_STR(apply, cases[i].apply))
			printf("# %s\n", cases[i].what);
	}
}

void what_is_sure_and_wrong_costs_no_more_than_it_may(void)
{
	const float scores[] = { 0, 1, 1 }, labels[] = { 1, 0, 1 };
	struct train_metrics m;

	train_metrics_begin(&m, 0.5);
	train_metrics_add(&m, scores, labels, 3);
	CHECK_NEAR(train_metrics_end(&m).log_loss, (-2 * log(1e-7) - log(1 - 1e-7)) / 3, 1e-9);
	CHECK_NEAR(train_metrics_end(&m).calibration, 1, 1e-12);
	/* The first bin lacks one, the last one has one too many. */
	CHECK_NEAR(train_metrics_end(&m).calibration_error, 2. / 3, 1e-12);
}
