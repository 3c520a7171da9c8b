/* SPDX-License-Identifier: BSD-3-Clause */
/* How `starctl top` shows its data: in 80 columns, and as many lines as there are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/starctl/top.h"
#include "base/text.h"

enum { TABLES_SHOWN = 10, CONNECTIONS_SHOWN = 5, HEAD_LINES = 2 };

struct sorting {
	const char *name, *member;
	bool rate;
};
static const struct sorting sortings[] = {
	{ "pushes", "pushes", true },
	{ "memory", "memory_bytes", false },
	{ "rows", "rows", false },
	{ "made", "created", true },
};
static const struct sorting reactor_sortings[] = {
	{ "place", NULL, false },
	{ "busy", "busy_s", true },
	{ "requests", "requests", true },
	{ "memory", "memory_bytes", false },
};

const char *top_sorting(unsigned number)
{
	return number < sizeof(sortings) / sizeof(sortings[0]) ? sortings[number].name : NULL;
}

const char *top_reactor_sorting(unsigned number)
{
	return number < sizeof(reactor_sortings) / sizeof(reactor_sortings[0]) ? reactor_sortings[number].name : NULL;
}

/* ---- figures ---- */

/* How fast a figure grows; 0 if it did not exist before, or has restarted. */
static double rate(const struct top *top, const json_t *before, const json_t *now, const char *name)
{
	const double passed = top->now.at_s - top->before.at_s, more = top_number(now, name) - top_number(before, name);

	return before && passed > 0 && more > 0 ? more / passed : 0;
}

static bool is_same(const json_t *a, const json_t *b, const char *const *members)
{
	while (*members && json_equal(json_object_get(a, *members), json_object_get(b, *members)))
		members++;
	return !*members;
}

json_t *top_line(const json_t *lines, const char *const *members, const json_t *like, size_t near)
{
	const size_t n = json_array_size(lines);

	for (size_t away = 0; away < n || away <= near; away++) {
		json_t *after = json_array_get(lines, near + away);
		json_t *before = away <= near ? json_array_get(lines, near - away) : NULL;

		if (after && is_same(after, like, members))
			return after;
		if (before && is_same(before, like, members))
			return before;
	}
	return NULL;
}

/* Formats numbers in few columns. */
static const char *brief(double value, char text[static 24])
{
	static const char units[] = " kMGT";
	unsigned unit = 0;

	for (; fabs(value) >= 9999.5 && units[unit + 1]; unit++)
		value /= 1000;
	snprintf(text, 24, unit ? "%.0f%c" : "%.0f", value, units[unit]);
	return text;
}

static const char *duration(double us, char text[static 24])
{
	snprintf(text, 24,
		 us < 999.5    ? "%.3gus"
		 : us < 999500 ? "%.3gms"
			       : "%.3gs",
		 us < 999.5    ? us
		 : us < 999500 ? us / 1e3
			       : us / 1e6);
	return text;
}

/* Prints a text from outside in a column. */
static void put_name(const char *name, int width, FILE *out)
{
	int n = 0;

	for (; name && name[n] && n < width; n++)
		fputc(base_printable(name[n]), out);
	fprintf(out, "%*s", width - n, "");
}

static const char *text_of(const json_t *line, const char *member)
{
	return json_string_value(json_object_get(line, member));
}

/* ---- lines that are sorted, and their figures ---- */

struct ranked {
	const json_t *line, *now, *before;
	double value;
	size_t place;
};

struct ranking {
	struct ranked *of;
	size_t n;
};

static int by_value(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->value != y->value)
		return x->value > y->value ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

/* Sorts by the sums of members, or of their rates, the largest first. same_by: the members that identify an earlier
 * line; inside: the object with its figures, or NULL: the line itself. */
static struct ranking rank(const struct top *top, const json_t *now, const json_t *before, const char *const *same_by,
			   const char *inside, const char *const *members, bool rates)
{
	struct ranking r = { .of = calloc(json_array_size(now) + 1, sizeof(*r.of)) };
	const json_t *line;
	size_t i;

	json_array_foreach(now, i, line)
	{
		struct ranked *one = &r.of[i];

		if (!r.of)
			break;
		*one = (struct ranked){
			.line = line, .now = line, .before = top_line(before, same_by, line, i), .place = i
		};
		if (inside) {
			one->now = json_object_get(line, inside);
			one->before = json_object_get(one->before, inside);
		}
		for (const char *const *m = members; *m; m++)
			one->value += rates ? rate(top, one->before, one->now, *m) : top_number(one->now, *m);
		r.n++;
	}
	if (r.n)
		qsort(r.of, r.n, sizeof(*r.of), by_value);
	return r;
}

/* ---- sections ---- */

enum section { REACTORS, REQUESTS, TABLES, CONNECTIONS, SECTIONS };

static void show_head(const struct top *top, FILE *out)
{
	const json_t *node = json_array_get(top->now.nodes, 0), *status = json_object_get(node, "status"), *reactor;
	static const char *const place[] = { "at", NULL };
	double requests = 0, memory = 0, limit = 0;
	char text[3][24];
	size_t i;

	json_array_foreach(top->now.reactors, i, reactor)
	{
		requests += rate(top, top_line(top->before.reactors, place, reactor, i), reactor, "requests");
		memory += top_number(reactor, "memory_bytes");
		limit += top_number(reactor, "memory_limit_bytes");
	}
	if (top->whole) {
		fprintf(out, "%u nodes", top->cluster.count);
		for (unsigned n = 0, told = 0; n < top->cluster.count; n++)
			if (!json_object_get(json_array_get(top->now.nodes, n), "status"))
				fprintf(out, told++ ? ", %s" : ", without an answer: %s", top->cluster.nodes[n].name);
	} else {
		put_name(text_of(status, "name"), 10, out);
		fprintf(out, " epoch %.0f, up %s", top_number(status, "epoch"),
			human_time(top_number(status, "uptime_s"), text[0]));
	}
	fprintf(out, ", %s requests/s, %.0f %% of %s\n", brief(requests, text[1]), limit > 0 ? 100 * memory / limit : 0,
		human_bytes(limit, text[2]));
}

static void reactors_head(const struct top *top, FILE *out)
{
	fprintf(out, "REACTOR   BUSY REQUESTS/s PULLED/s PUSHED/s   MADE/s     ROWS MEMORY  CONN  SESS\n");
}

static void show_reactor(const struct top *top, const struct ranked *r, FILE *out)
{
	const double limit = top_number(r->now, "memory_limit_bytes");
	char text[5][24];

	put_name(text_of(r->line, "at"), 9, out);
	fprintf(out, "%4.0f%% %10s %8s %8s %8s %8s %5.0f%% %5.0f %5.0f\n", 100 * rate(top, r->before, r->now, "busy_s"),
		brief(rate(top, r->before, r->now, "requests"), text[0]),
		brief(rate(top, r->before, r->now, "rows_pulled"), text[1]),
		brief(rate(top, r->before, r->now, "rows_pushed"), text[2]),
		brief(rate(top, r->before, r->now, "rows"), text[3]), brief(top_number(r->now, "rows"), text[4]),
		limit > 0 ? 100 * top_number(r->now, "memory_bytes") / limit : 0, top_number(r->now, "connections"),
		top_number(r->now, "sessions"));
}

static void requests_head(const struct top *top, FILE *out)
{
	fprintf(out, "REQUESTS     KEYS      LAST %d s TOTAL p50      p99      max WAIT p99 %8s\n", TOP_LATENCY_S,
		top->whole ? "WORST AT" : "RUN p50");
}

static void show_request(const struct top *top, const struct ranked *r, FILE *out)
{
	const json_t *total = json_object_get(r->line, "total_us"), *wait = json_object_get(r->line, "wait_us"),
		     *run = json_object_get(r->line, "run_us");
	char text[6][24];

	put_name(text_of(r->line, "class"), 12, out);
	put_name(text_of(r->line, "keys"), 8, out);
	fprintf(out, "%11s %9s %8s %8s %8s %8.8s\n", brief(top_number(r->line, "requests"), text[0]),
		duration(top_number(total, "p50"), text[1]), duration(top_number(total, "p99"), text[2]),
		duration(top_number(total, "max"), text[3]), duration(top_number(wait, "p99"), text[4]),
		top->whole ? text_of(r->line, "at") : duration(top_number(run, "p50"), text[5]));
}

static void tables_head(const struct top *top, FILE *out)
{
	fprintf(out, "TABLE by %-10s        ROWS     MEMORY PUSHES/s   MADE/s EVICTED/s REFUSED/s\n",
		sortings[top->sorting].name);
}

static void show_table(const struct top *top, const struct ranked *r, FILE *out)
{
	char text[6][24];

	put_name(text_of(r->line, "name"), 20, out);
	fprintf(out, "%10s %10s %8s %8s %9s %9s\n", brief(top_number(r->now, "rows"), text[0]),
		human_bytes(top_number(r->now, "memory_bytes"), text[1]),
		brief(rate(top, r->before, r->now, "pushes"), text[2]),
		brief(rate(top, r->before, r->now, "created"), text[3]),
		brief(rate(top, r->before, r->now, "evicted"), text[4]),
		brief(rate(top, r->before, r->now, "refused"), text[5]));
}

static void connections_head(const struct top *top, FILE *out)
{
	fprintf(out, "BUSIEST CONNECTIONS                     REACTOR       IN/s      OUT/s    RTT\n");
}

static void show_connection(const struct top *top, const struct ranked *r, FILE *out)
{
	char text[3][24];

	put_name(text_of(r->line, "peer"), 38, out);
	fprintf(out, "%9.9s %10s %10s %6s\n", text_of(r->line, "at"),
		human_bytes(rate(top, r->before, r->line, "bytes_received"), text[0]),
		human_bytes(rate(top, r->before, r->line, "bytes_acked"), text[1]),
		duration(top_number(r->line, "rtt_us"), text[2]));
}

static const struct {
	void (*head)(const struct top *top, FILE *out);
	void (*show)(const struct top *top, const struct ranked *r, FILE *out);
} parts[SECTIONS] = {
	[REACTORS] = { reactors_head, show_reactor },
	[REQUESTS] = { requests_head, show_request },
	[TABLES] = { tables_head, show_table },
	[CONNECTIONS] = { connections_head, show_connection },
};

static void rank_all(const struct top *top, struct ranking rankings[static SECTIONS])
{
	static const char *const place[] = { "at", NULL }, *const name[] = { "name", NULL },
				 *const line[] = { "class", "keys", NULL }, *const peer[] = { "at", "peer", NULL },
				 *const bytes[] = { "bytes_received", "bytes_acked", NULL }, *const none[] = { NULL };
	const struct sorting *tables = &sortings[top->sorting], *reactors = &reactor_sortings[top->reactor_sorting];
	const char *const of_tables[] = { tables->member, NULL }, *const of_reactors[] = { reactors->member, NULL };

	rankings[REACTORS] =
		rank(top, top->now.reactors, top->before.reactors, place, NULL, of_reactors, reactors->rate);
	rankings[REQUESTS] = rank(top, top->now.requests, top->before.requests, line, NULL, none, false);
	rankings[TABLES] = rank(top, top->now.tables, top->before.tables, name, "stats", of_tables, tables->rate);
	rankings[CONNECTIONS] = rank(top, top->now.connections, top->before.connections, peer, NULL, bytes, true);
}

/* The number of lines of each section below its title: all of them share the screen, and none takes more than it
 * needs. */
static void share_lines(const struct ranking *rankings, unsigned lines, size_t shown[static SECTIONS])
{
	size_t wanted[SECTIONS] = { rankings[REACTORS].n, rankings[REQUESTS].n,
				    lines ? rankings[TABLES].n : TABLES_SHOWN, CONNECTIONS_SHOWN };
	unsigned taken = HEAD_LINES;

	for (unsigned s = 0; s < SECTIONS; s++) {
		if (wanted[s] > rankings[s].n)
			wanted[s] = rankings[s].n;
		shown[s] = lines ? 0 : wanted[s];
		taken += wanted[s] ? 2 : 0; /* its title, and a blank line */
	}
	for (bool more = lines != 0; more;) {
		more = false;
		for (unsigned s = 0; s < SECTIONS && taken < lines; s++) {
			if (shown[s] == wanted[s])
				continue;
			shown[s]++;
			taken++;
			more = true;
		}
	}
}

void top_show(const struct top *top, unsigned lines, FILE *out)
{
	struct ranking rankings[SECTIONS];
	size_t shown[SECTIONS];

	rank_all(top, rankings);
	share_lines(rankings, lines, shown);
	show_head(top, out);
	for (unsigned s = 0; s < SECTIONS; s++) {
		const struct ranking *r = &rankings[s];
		/* On a screen the last line says how many more there are. */
		const bool cut = shown[s] < r->n && s != CONNECTIONS;
		const size_t n = cut && lines && shown[s] ? shown[s] - 1 : shown[s];

		if (shown[s]) {
			fputc('\n', out);
			parts[s].head(top, out);
		}
		for (size_t i = 0; i < n; i++)
			parts[s].show(top, &r->of[i], out);
		if (cut && shown[s])
			fprintf(out, "and %zu more\n", r->n - n);
		free(r->of);
	}
}
