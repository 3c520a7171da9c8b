/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/metrics.h"

#include <math.h>

static const double least_probability = 1e-7;

void train_metrics_begin(struct train_metrics *m, double threshold)
{
	*m = (struct train_metrics){ .threshold = threshold, .classes = true, .probabilities = true };
}

static void add_class(struct train_metrics *m, double prediction, bool is)
{
	const bool says = prediction >= m->threshold;

	m->right += says == is;
	m->said += says;
	m->are += is;
	m->both += says && is;
}

static void add_probability(struct train_metrics *m, double p, bool is)
{
	const double given = fmax(is ? p : 1 - p, least_probability);
	const unsigned bin = p < 1 ? (unsigned)(p * TRAIN_METRICS_BINS) : TRAIN_METRICS_BINS - 1;

	m->log_loss -= log(fmin(given, 1 - least_probability));
	m->predictions += p;
	m->bins[bin].examples++;
	m->bins[bin].predictions += p;
	m->bins[bin].labels += is;
}

void train_metrics_add(struct train_metrics *m, const float *predictions, const float *labels, size_t count)
{
	m->examples += count;
	for (size_t i = 0; i < count; i++) {
		const double p = predictions[i], label = labels[i];

		m->squares += (p - label) * (p - label);
		m->classes = m->classes && (label == 0 || label == 1);
		m->probabilities = m->probabilities && p >= 0 && p <= 1; /* false for NaN */
		if (m->classes)
			add_class(m, p, label == 1);
		if (m->classes && m->probabilities)
			add_probability(m, p, label == 1);
	}
}

static double share_of(double part, double all)
{
	return all > 0 ? part / all : NAN;
}

struct train_metrics_figures train_metrics_end(const struct train_metrics *m)
{
	const double examples = (double)m->examples, are = (double)m->are;
	struct train_metrics_figures f = { m->threshold, NAN, NAN, NAN, NAN, NAN, NAN, NAN };

	f.rmse = sqrt(share_of(m->squares, examples));
	if (!m->classes || !m->examples)
		return f;
	f.accuracy = share_of((double)m->right, examples);
	f.precision = share_of((double)m->both, (double)m->said);
	f.recall = share_of((double)m->both, are);
	if (!m->probabilities)
		return f;
	f.log_loss = m->log_loss / examples;
	f.calibration = share_of(m->predictions, are);
	f.calibration_error = 0;
	for (unsigned i = 0; i < TRAIN_METRICS_BINS; i++)
		f.calibration_error += fabs(m->bins[i].predictions - m->bins[i].labels) / examples;
	return f;
}
