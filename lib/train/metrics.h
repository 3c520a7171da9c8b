/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How good predictions are, besides the AUC (auc.h), summed as examples come: of any predictions the root of the mean
 * squared error; of two classes (all labels are 0 or 1) accuracy, precision and recall at a threshold; of probabilities
 * of the class 1 (they are 0 to 1, too) log loss and calibration as well. What does not apply is NAN. Pure.
 */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

enum { TRAIN_METRICS_BINS = 10 }; /* of the calibration error */

struct train_metrics_figures {
	double threshold; /* predictions from here on say 1 */
	double accuracy;  /* the share of examples of which the prediction says what the label does */
	double precision; /* of what is predicted to be 1, the share that is; NAN: nothing is */
	double recall;	  /* of what is 1, the share that is predicted to be; NAN: nothing is 1 */
	/* The mean of -log of the probability that the label was given. Probabilities are taken as 1e-7 to 1 - 1e-7, as
	 * Keras does: one that is sure and wrong costs 16, not all. */
	double log_loss;
	double calibration; /* the mean prediction by the mean label; NAN: nothing is 1 */
	/* Expected calibration error (Guo et al., "On calibration of modern neural networks", 2017, equation 5): how
	 * far the mean prediction is from the mean label, in ten bins of equal width, weighted by their examples. */
	double calibration_error;
	double rmse;
};

/* Sums; begun by train_metrics_begin. */
struct train_metrics {
	double threshold;
	uint64_t examples, right, said, are, both; /* predicted to be 1; that are 1; and both */
	bool classes, probabilities;
	double log_loss, squares, predictions;
	struct {
		uint64_t examples;
		double predictions, labels;
	} bins[TRAIN_METRICS_BINS];
};

void train_metrics_begin(struct train_metrics *metrics, double threshold);
void train_metrics_add(struct train_metrics *metrics, const float *predictions, const float *labels, size_t count);

/* Of what has been added: without an example, all NAN. More may be added then. */
struct train_metrics_figures train_metrics_end(const struct train_metrics *metrics);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
