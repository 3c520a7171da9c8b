/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/starctl/plot.h"

#include <math.h>
#include <time.h>

#include "base/text.h"

enum { WIDTH = 640, HEIGHT = 240, LEFT = 78, RIGHT = 12, TOP = 12, BOTTOM = 26, STEPS = 4 };

/* Lines can be told apart without colours too: by their order in the legend, and by dashes. */
static const struct {
	const char *color, *dash;
} styles[PLOT_LINES_MAX] = {
	{ "#0072b2", "none" }, { "#d55e00", "none" }, { "#009e73", "none" }, { "#cc79a7", "none" },
	{ "#000000", "none" }, { "#0072b2", "6 3" },  { "#d55e00", "6 3" },  { "#009e73", "6 3" },
	{ "#cc79a7", "6 3" },  { "#000000", "6 3" },
};

void plot_text(const char *text, FILE *out)
{
	for (; text && *text; text++) {
		if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '>')
			fputs("&gt;", out);
		else if (*text == '&')
			fputs("&amp;", out);
		else if (*text == '"')
			fputs("&quot;", out);
		else
			fputc(base_printable(*text), out);
	}
}

/* The next of 1, 2, 5, 10, ... from a value on. */
static double plot_round(double value)
{
	const double power = value > 0 ? pow(10, floor(log10(value))) : 1;

	if (value <= 0)
		return 1;
	return power * (value <= power ? 1 : value <= 2 * power ? 2 : value <= 5 * power ? 5 : 10);
}

struct scale {
	double from, to, top;
};

static struct scale plot_scale(const struct plot *plot)
{
	struct scale s = { INFINITY, -INFINITY, plot->least_top };

	for (unsigned l = 0; l < plot->count; l++)
		for (unsigned i = 0; i < plot->lines[l].n; i++) {
			s.from = fmin(s.from, plot->lines[l].at[i]);
			s.to = fmax(s.to, plot->lines[l].at[i]);
			s.top = fmax(s.top, plot->lines[l].value[i]);
		}
	if (s.top != plot->least_top || s.top <= 0)
		s.top = plot->bytes && s.top >= STEPS ? exp2(ceil(log2(s.top))) : plot_round(s.top);
	if (s.to <= s.from)
		s.to = s.from + 1;
	return s;
}

static double x_of(const struct scale *s, double at)
{
	return LEFT + (at - s->from) / (s->to - s->from) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct scale *s, double value)
{
	return HEIGHT - BOTTOM - value / s->top * (HEIGHT - TOP - BOTTOM);
}

static void write_axes(const struct plot *plot, const struct scale *s, FILE *out)
{
	char text[24];

	for (unsigned i = 0; i <= STEPS; i++) {
		const double value = s->top * i / STEPS, y = y_of(s, value);

		fprintf(out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"grid\"/>", LEFT, y,
			WIDTH - RIGHT, y);
		fprintf(out, "<text x=\"%d\" y=\"%.1f\" class=\"y\">%s</text>\n", LEFT - 6, y + 4,
			plot->show(value, text));
	}
	for (unsigned i = 0; i <= STEPS; i++) {
		const double at = s->from + (s->to - s->from) * i / STEPS;
		const time_t seconds = (time_t)at;
		struct tm parts;

		if (gmtime_r(&seconds, &parts))
			strftime(text, sizeof(text), "%H:%M:%S", &parts);
		/* The last label would extend beyond the edge. */
		fprintf(out, "<text x=\"%.1f\" y=\"%d\" class=\"x\"%s>%s</text>\n", x_of(s, at), HEIGHT - 8,
			i == STEPS ? " style=\"text-anchor:end\"" : "", text);
	}
}

static void draw_line(const struct plot_line *line, const struct scale *s, unsigned style, FILE *out)
{
	fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" stroke-dasharray=\"%s\" points=\"",
		styles[style].color, styles[style].dash);
	for (unsigned i = 0; i < line->n; i++)
		fprintf(out, "%.1f,%.1f ", x_of(s, line->at[i]), y_of(s, line->value[i]));
	fputs("\"/>\n", out);
}

static void write_legend(const struct plot *plot, FILE *out)
{
	char text[24];

	fputs("<div class=\"legend\">", out);
	for (unsigned i = 0; i < plot->count; i++) {
		const struct plot_line *line = &plot->lines[i];

		fprintf(out,
			"<span><svg width=\"26\" height=\"10\"><line x1=\"1\" y1=\"5\" x2=\"25\" y2=\"5\" "
			"stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"/></svg> ",
			styles[i].color, styles[i].dash);
		plot_text(line->name, out);
		if (line->n)
			fprintf(out, " <b>%s</b>", plot->show(line->value[line->n - 1], text));
		fputs("</span> ", out);
	}
	fputs("</div>\n", out);
}

void plot_write(const struct plot *plot, FILE *out)
{
	struct scale s;
	unsigned points = 0;

	fputs("<figure><figcaption>", out);
	plot_text(plot->title, out);
	fputs("</figcaption>\n", out);
	for (unsigned i = 0; i < plot->count; i++)
		points += plot->lines[i].n;
	if (points < 2) {
		fputs("<p class=\"none\">No data yet: nodes record it every ten seconds.</p></figure>\n", out);
		return;
	}
	s = plot_scale(plot);
	fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
	plot_text(plot->title, out);
	fputs("\">\n", out);
	write_axes(plot, &s, out);
	for (unsigned i = 0; i < plot->count; i++)
		draw_line(&plot->lines[i], &s, i, out);
	fputs("</svg>\n", out);
	write_legend(plot, out);
	fputs("</figure>\n", out);
}
