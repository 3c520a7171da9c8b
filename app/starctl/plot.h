/* SPDX-License-Identifier: BSD-3-Clause */
/* Line charts over time, as SVG within an HTML page. */
#ifndef STARCTL_PLOT_H
#define STARCTL_PLOT_H

#include <stdbool.h>
#include <stdio.h>

enum { PLOT_LINES_MAX = 10, PLOT_POINTS_MAX = 512 };

struct plot_line {
	char name[64];
	unsigned n;
	double at[PLOT_POINTS_MAX]; /* seconds since 1970 */
	double value[PLOT_POINTS_MAX];
};

struct plot {
	const char *title;
	/* Formats a value into text, which it returns. */
	char *(*show)(double value, char text[static 24]);
	double least_top; /* the scale reaches at least this value; 0: only the largest value */
	bool bytes;	  /* values are bytes: the scale uses powers of two */
	unsigned count;
	struct plot_line lines[PLOT_LINES_MAX];
};

void plot_write(const struct plot *plot, FILE *out);

/* Writes text from outside, made safe for HTML. */
void plot_text(const char *text, FILE *out);

#endif
