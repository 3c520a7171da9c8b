/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Metrics of predictions other than the AUC (auc.h), accumulated example by example: for all predictions the root of
 * the mean squared error; for two classes (all labels are 0 or 1) also accuracy, precision and recall at a threshold;
 * and if predictions are probabilities of class 1 (0 to 1), log loss and calibration as well. Metrics that do not apply
 * are NAN. Pure functions.
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
	double threshold; /* predictions of at least this are 1 */
	double accuracy;  /* share of examples whose prediction equals the label */
	double precision; /* share of predicted 1s that are 1; NAN if there are none */
	double recall;	  /* share of actual 1s that are predicted; NAN if there are none */
	/* The mean of -log of the probability that the label was given. Probabilities are limited to 1e-7 to 1 - 1e-7,
	 * as in Keras: a certain and wrong prediction costs 16, not infinity. */
	double log_loss;
	double calibration; /* mean prediction divided by mean label; NAN if no label is 1 */
	/* Expected calibration error (Guo et al., "On calibration of modern neural networks", 2017, equation 5): the
	 * difference between mean prediction and mean label in ten bins of equal width, weighted by their examples. */
	double calibration_error;
	double rmse;
};

/* Sums; initialized by train_metrics_begin. */
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

/* The metrics of what was added so far; all NAN without an example. More may be added afterwards. */
struct train_metrics_figures train_metrics_end(const struct train_metrics *metrics);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
