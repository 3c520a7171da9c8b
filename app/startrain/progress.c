/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/progress.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

enum { REPORT_S = 1, TERMINAL_S = 1, LINE_S = 5, BAR_WIDTH = 24 };

struct mark {
	uint64_t at_ns;
	struct totals totals;
};

struct progress {
	const struct job *job;
	FILE *report;		 /* or NULL */
	struct summary *summary; /* or NULL */
	bool no_summaries;	 /* the last ones could not be written */
	bool terminal;
	uint64_t sentences;		 /* total number */
	struct mark begin, line, sample; /* at the start, the last line, the last sample of the report */
};

/* Rates per second between two marks. */
struct rates {
	double examples, pulled, pushed, loss;
};

struct totals job_totals(const struct job *job)
{
	struct totals t = { 0 };

	for (uint32_t i = 0; i < job->options.local_workers; i++) {
		const struct figures *f = &job->shared->figures[i];

		t.sentences += atomic_load_explicit(&f->sentences, memory_order_relaxed);
		t.examples += atomic_load_explicit(&f->examples, memory_order_relaxed);
		t.rows_pulled += atomic_load_explicit(&f->rows_pulled, memory_order_relaxed);
		t.rows_pushed += atomic_load_explicit(&f->rows_pushed, memory_order_relaxed);
		t.loss += atomic_load_explicit(&f->loss, memory_order_relaxed);
	}
	return t;
}

static struct mark mark_now(const struct progress *p)
{
	return (struct mark){ clock_ns(), job_totals(p->job) };
}

static struct rates rates_between(const struct mark *from, const struct mark *to)
{
	const double seconds = (double)(to->at_ns - from->at_ns) * 1e-9;
	const double examples = (double)(to->totals.examples - from->totals.examples);

	return (struct rates){
		.examples = examples / seconds,
		.pulled = (double)(to->totals.rows_pulled - from->totals.rows_pulled) / seconds,
		.pushed = (double)(to->totals.rows_pushed - from->totals.rows_pushed) / seconds,
		.loss = (to->totals.loss - from->totals.loss) / examples,
	};
}

struct progress *progress_create(const struct job *job, uint64_t all, FILE *report, struct summary *summary,
				 struct star_error *err)
{
	struct progress *p = calloc(1, sizeof(*p));

	if (p == NULL) {
		star_error_set(err, -ENOMEM, "not enough memory");
		return NULL;
	}
	p->job = job;
	p->report = report;
	p->summary = summary;
	p->terminal = isatty(STDERR_FILENO);
	p->sentences = all;
	p->begin = p->line = p->sample = mark_now(p);
	return p;
}

void progress_bar(double share, unsigned width, char *text)
{
	const unsigned done = (unsigned)(share * width);

	*text++ = '[';
	for (unsigned i = 0; i < width; i++)
		*text++ = i < done ? '=' : ' ';
	*text++ = ']';
	*text = 0;
}

/* The share that is done, the remaining time, and the rates; rows only if the job counts them. */
static int describe_progress(const struct progress *p, const struct mark *now, char *text, size_t bytes)
{
	const struct rates r = rates_between(&p->line, now);
	const double done = p->sentences > 0 ? (double)now->totals.sentences / (double)p->sentences : 1;
	const double share = done < 1 ? done : 1, gone_s = (double)(now->at_ns - p->begin.at_ns) * 1e-9;
	char bar[BAR_WIDTH + 3] = "", left[32] = "", rows[64] = "";

	if (p->terminal)
		progress_bar(share, BAR_WIDTH, bar);
	if (share > 1e-6)
		snprintf(left, sizeof(left), ", %d:%02d left", (int)(gone_s / share - gone_s) / 60,
			 (int)(gone_s / share - gone_s) % 60);
	if (r.pulled > 0 || r.pushed > 0)
		snprintf(rows, sizeof(rows), "rows: %.0f k pulled/s, %.0f k pushed/s | ", r.pulled / 1e3,
			 r.pushed / 1e3);
	return snprintf(text, bytes, "%s%s%3.0f %% done%s | %.*f k examples/s | %sloss %.4f", bar, *bar ? " " : "",
			share * 100, left, r.examples < 1e4, r.examples / 1e3, rows, r.loss);
}

static void show_line(struct progress *p, const struct mark *now)
{
	struct winsize window = { 0 };
	char text[200];
	const int width = describe_progress(p, now, text, sizeof(text));

	if (!p->terminal) {
		fprintf(stderr, "%s\n", text);
		return;
	}
	/* A line that wraps could not be redrawn: it is truncated at the window's edge. */
	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1 && width >= window.ws_col &&
	    window.ws_col < sizeof(text))
		text[window.ws_col - 1] = 0;
	fprintf(stderr, "\r%s\033[K", text);
}

/* If summaries cannot be written, training continues: the error is reported once, and the next ones are tried. */
static void write_summary(struct progress *p, const struct mark *now, const struct rates *r)
{
	const struct summary_scalar scalars[] = {
		{ "loss", r->loss },
		{ "examples_per_s", r->examples },
		{ "rows_pulled_per_s", r->pulled },
		{ "rows_pushed_per_s", r->pushed },
	};
	struct star_error err;
	const bool failed = summary_write(p->summary, now->totals.examples / p->job->options.training.batch, scalars,
					  sizeof(scalars) / sizeof(scalars[0]), &err) < 0;

	if (failed && !p->no_summaries)
		fprintf(stderr, "%sstartrain: no summaries: %s\n", p->terminal ? "\n" : "", err.text);
	p->no_summaries = failed;
}

static void write_sample(struct progress *p, const struct mark *now)
{
	const struct rates r = rates_between(&p->sample, now);

	p->sample = *now;
	if (p->summary != NULL)
		write_summary(p, now, &r);
	if (p->report == NULL)
		return;
	fprintf(p->report,
		"{\"time_s\": %.3f, \"examples\": %llu, \"examples_per_s\": %.0f, \"rows_pulled_per_s\": %.0f, "
		"\"rows_pushed_per_s\": %.0f, \"loss\": %.6f}\n",
		(double)(now->at_ns - p->begin.at_ns) * 1e-9, (unsigned long long)now->totals.examples, r.examples,
		r.pulled, r.pushed, r.loss);
	fflush(p->report);
}

/* Without an example since the last mark there is no loss to show. */
static bool is_due(const struct mark *last, const struct mark *now, unsigned seconds)
{
	return now->at_ns - last->at_ns >= seconds * UINT64_C(1000000000) &&
	       now->totals.examples > last->totals.examples;
}

void progress_tick(struct progress *p)
{
	const struct mark now = mark_now(p);

	if (is_due(&p->line, &now, p->terminal ? TERMINAL_S : LINE_S)) {
		show_line(p, &now);
		p->line = now;
	}
	if (is_due(&p->sample, &now, REPORT_S))
		write_sample(p, &now);
}

void progress_finish(struct progress *p)
{
	const struct mark now = mark_now(p);

	if (is_due(&p->line, &now, 0))
		show_line(p, &now);
	if (is_due(&p->sample, &now, 0))
		write_sample(p, &now);
}

void progress_destroy(struct progress *p)
{
	if (p == NULL)
		return;
	if (p->terminal && p->line.at_ns != p->begin.at_ns)
		fputc('\n', stderr);
	free(p);
}
