/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines over time as SVG, inside a page of HTML. */
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
	/* A value for people. Returns text. */
	char *(*show)(double value, char text[static 24]);
	double least_top; /* the scale reaches up to this at least; 0: to what there is */
	bool bytes;	  /* values are: the scale goes in powers of two */
	unsigned count;
	struct plot_line lines[PLOT_LINES_MAX];
};

void plot_write(const struct plot *plot, FILE *out);

/* Text of somebody else, safe in HTML. */
void plot_text(const char *text, FILE *out);

#endif
