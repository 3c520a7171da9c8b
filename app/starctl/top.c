/* SPDX-License-Identifier: BSD-3-Clause */
/* `starctl top`: a node's reactors, requests, tables and connections as they are now, every second. */
#include <errno.h>
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/starctl/starctl.h"
#include "base/clock.h"
#include "jsonrpc/jsonrpc.h"

enum { LOOK_MS = 1000, LATENCY_S = 2, CONNECTIONS = 1000, TABLES_SHOWN = 10, CONNECTIONS_SHOWN = 5 };

/* What tables can be sorted by. */
static const struct sorting {
	const char *name, *member;
	bool rate;
} sortings[] = {
	{ "pushes", "pushes", true },
	{ "memory", "memory_bytes", false },
	{ "rows", "rows", false },
	{ "made", "created", true },
};
enum { SORTINGS = sizeof(sortings) / sizeof(sortings[0]) };

/* What a node says at a moment. */
struct look {
	json_t *status, *tables, *latency, *connections; /* the last two: NULL where the node refuses them */
	double at_s;
};

struct top {
	struct jsonrpc_client *client;
	struct look before, now;
	unsigned sorting;
};

static void forget(struct look *look)
{
	json_decref(look->status);
	json_decref(look->tables);
	json_decref(look->latency);
	json_decref(look->connections);
	*look = (struct look){ 0 };
}

static int take_look(struct top *top, struct star_error *err)
{
	struct look *look = &top->now;
	struct star_error refused;

	forget(&top->before);
	top->before = top->now;
	*look = (struct look){ .at_s = (double)clock_us() / 1e6 };
	look->status = jsonrpc_call(top->client, "status", NULL, STARCTL_CALL_US, err);
	look->tables = look->status ? jsonrpc_call(top->client, "tables", NULL, STARCTL_CALL_US, err) : NULL;
	if (!look->tables)
		return err->code;
	look->latency = jsonrpc_call(top->client, "latency", json_pack("{s:i}", "seconds", LATENCY_S), STARCTL_CALL_US,
				     &refused);
	look->connections = jsonrpc_call(top->client, "connections", json_pack("{s:i}", "limit", CONNECTIONS),
					 STARCTL_CALL_US, &refused);
	return 0;
}

static double top_number(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

/* How fast a figure grows; 0 when it was not there, or began again. */
static double rate(const struct top *top, const json_t *before, const json_t *now, const char *name)
{
	const double passed = top->now.at_s - top->before.at_s, more = top_number(now, name) - top_number(before, name);

	return before && passed > 0 && more > 0 ? more / passed : 0;
}

static const json_t *same(const json_t *list, const char *member, const json_t *of)
{
	const json_t *other, *name = json_object_get(of, member);
	size_t i;

	json_array_foreach(list, i, other)
	{
		if (json_equal((json_t *)json_object_get(other, member), (json_t *)name))
			return other;
	}
	return NULL;
}

/* Numbers in few columns. */
static const char *brief(double value, char text[static 24])
{
	static const char units[] = " kMGT";
	unsigned unit = 0;

	for (; value >= 9999.5 && units[unit + 1]; unit++)
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

/* A text of somebody's in a column. */
static void put_name(const char *name, int width, FILE *out)
{
	int n = 0;

	for (; name && name[n] && n < width; n++)
		fputc((unsigned char)name[n] < ' ' || name[n] == 0x7f ? '?' : name[n], out);
	fprintf(out, "%*s", width - n, "");
}

static void show_head(const struct top *top, FILE *out)
{
	const json_t *status = top->now.status, *reactor;
	double requests = 0, memory = 0, limit = 0;
	char text[3][24];
	size_t i;

	json_array_foreach(json_object_get(status, "reactors"), i, reactor)
	{
		requests += rate(top, same(json_object_get(top->before.status, "reactors"), "index", reactor), reactor,
				 "requests");
		memory += top_number(reactor, "memory_bytes");
		limit += top_number(reactor, "memory_limit_bytes");
	}
	put_name(json_string_value(json_object_get(status, "name")), 10, out);
	fprintf(out, " epoch %.0f, up %s, %s requests/s, %.0f %% of %s\n\n", top_number(status, "epoch"),
		human_time(top_number(status, "uptime_s"), text[0]), brief(requests, text[1]),
		limit > 0 ? 100 * memory / limit : 0, human_bytes(limit, text[2]));
}

static void show_reactors(const struct top *top, FILE *out)
{
	const json_t *reactor;
	size_t i;

	fprintf(out, "REACTOR  BUSY REQUESTS/s PULLED/s PUSHED/s   MADE/s     ROWS MEMORY  CONN  SESS\n");
	json_array_foreach(json_object_get(top->now.status, "reactors"), i, reactor)
	{
		const json_t *before = same(json_object_get(top->before.status, "reactors"), "index", reactor);
		const double limit = top_number(reactor, "memory_limit_bytes");
		char text[5][24];

		fprintf(out, "%7.0f %4.0f%% %10s %8s %8s %8s %8s %5.0f%% %5.0f %5.0f\n", top_number(reactor, "index"),
			100 * rate(top, before, reactor, "busy_s"),
			brief(rate(top, before, reactor, "requests"), text[0]),
			brief(rate(top, before, reactor, "rows_pulled"), text[1]),
			brief(rate(top, before, reactor, "rows_pushed"), text[2]),
			brief(rate(top, before, reactor, "rows"), text[3]), brief(top_number(reactor, "rows"), text[4]),
			limit > 0 ? 100 * top_number(reactor, "memory_bytes") / limit : 0,
			top_number(reactor, "connections"), top_number(reactor, "sessions"));
	}
}

static void show_requests(const struct top *top, FILE *out)
{
	const json_t *line, *total, *wait, *run;
	size_t i;

	if (json_array_size(json_object_get(top->now.latency, "all")) == 0)
		return;
	fprintf(out, "\nREQUESTS     KEYS      LAST %d s TOTAL p50      p99      max WAIT p99  RUN p50\n", LATENCY_S);
	json_array_foreach(json_object_get(top->now.latency, "all"), i, line)
	{
		char text[6][24];

		total = json_object_get(line, "total_us");
		wait = json_object_get(line, "wait_us");
		run = json_object_get(line, "run_us");
		put_name(json_string_value(json_object_get(line, "class")), 12, out);
		put_name(json_string_value(json_object_get(line, "keys")), 8, out);
		fprintf(out, "%11s %9s %8s %8s %8s %8s\n", brief(top_number(line, "requests"), text[0]),
			duration(top_number(total, "p50"), text[1]), duration(top_number(total, "p99"), text[2]),
			duration(top_number(total, "max"), text[3]), duration(top_number(wait, "p99"), text[4]),
			duration(top_number(run, "p50"), text[5]));
	}
}

/* Lines that are sorted, and their figures. */
struct ranked {
	const json_t *line, *now, *before;
	double value;
};

static int by_value(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return x->value > y->value ? -1 : x->value < y->value;
}

/* Those with the largest values first; returns how many of them, to be freed. */
static size_t rank(const struct top *top, const json_t *now, const json_t *before, const char *name, const char *inside,
		   const char *const *members, bool rates, struct ranked **ranked)
{
	const size_t n = json_array_size(now);
	const json_t *line;
	size_t i;

	*ranked = calloc(n + 1, sizeof(**ranked));
	if (!*ranked)
		return 0;
	json_array_foreach(now, i, line)
	{
		struct ranked *r = &(*ranked)[i];

		*r = (struct ranked){ .line = line, .now = line, .before = same(before, name, line) };
		if (inside) {
			r->now = json_object_get(line, inside);
			r->before = json_object_get(r->before, inside);
		}
		for (const char *const *m = members; *m; m++)
			r->value += rates ? rate(top, r->before, r->now, *m) : top_number(r->now, *m);
	}
	qsort(*ranked, n, sizeof(**ranked), by_value);
	return n;
}

static void show_tables(const struct top *top, FILE *out)
{
	const struct sorting *by = &sortings[top->sorting];
	const char *const members[] = { by->member, NULL };
	struct ranked *ranked;
	const size_t n = rank(top, top->now.tables, top->before.tables, "name", "stats", members, by->rate, &ranked);

	if (n)
		fprintf(out, "\nTABLE by %-10s        ROWS     MEMORY PUSHES/s   MADE/s EVICTED/s REFUSED/s\n",
			by->name);
	for (size_t i = 0; i < n && i < TABLES_SHOWN; i++) {
		const json_t *t = ranked[i].now, *before = ranked[i].before;
		char text[6][24];

		put_name(json_string_value(json_object_get(ranked[i].line, "name")), 20, out);
		fprintf(out, "%10s %10s %8s %8s %9s %9s\n", brief(top_number(t, "rows"), text[0]),
			human_bytes(top_number(t, "memory_bytes"), text[1]),
			brief(rate(top, before, t, "pushes"), text[2]), brief(rate(top, before, t, "created"), text[3]),
			brief(rate(top, before, t, "evicted"), text[4]),
			brief(rate(top, before, t, "refused"), text[5]));
	}
	if (n > TABLES_SHOWN)
		fprintf(out, "and %zu more\n", n - TABLES_SHOWN);
	free(ranked);
}

static void show_connections(const struct top *top, FILE *out)
{
	static const char *const members[] = { "bytes_received", "bytes_acked", NULL };
	struct ranked *ranked;
	const size_t n =
		rank(top, json_object_get(top->now.connections, "connections"),
		     json_object_get(top->before.connections, "connections"), "peer", NULL, members, true, &ranked);

	if (n)
		fprintf(out, "\nBUSIEST CONNECTIONS                    REACTOR       IN/s      OUT/s    RTT\n");
	for (size_t i = 0; i < n && i < CONNECTIONS_SHOWN; i++) {
		const json_t *c = ranked[i].line, *before = ranked[i].before;
		char text[3][24];

		put_name(json_string_value(json_object_get(c, "peer")), 38, out);
		fprintf(out, "%8.0f %10s %10s %6s\n", top_number(c, "reactor"),
			human_bytes(rate(top, before, c, "bytes_received"), text[0]),
			human_bytes(rate(top, before, c, "bytes_acked"), text[1]),
			duration(top_number(c, "rtt_us"), text[2]));
	}
	free(ranked);
}

static void show_all(const struct top *top, FILE *out)
{
	show_head(top, out);
	show_reactors(top, out);
	show_requests(top, out);
	show_tables(top, out);
	show_connections(top, out);
}

/* The screen, as far as it reaches. */
static void draw_top(const struct top *top)
{
	static const char help[] = "q ends, s sorts tables by something else";
	char *text = NULL, *line, *rest;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	int y = 0;

	if (!out)
		return;
	show_all(top, out);
	fclose(out);
	erase();
	for (line = strtok_r(text, "\n", &rest); line && y < LINES - 1; line = strtok_r(NULL, "\n", &rest))
		mvaddnstr(y++, 0, line, COLS);
	mvaddnstr(LINES - 1, 0, help, COLS);
	refresh();
	free(text);
}

/* Until q, or until the node is gone. */
static int watch_top(struct top *top, struct star_error *err)
{
	int rc, key = 0;

	if (!initscr())
		return star_error_set(err, -ENOTTY, "this terminal is not one that ncurses knows: try --once");
	cbreak();
	noecho();
	curs_set(0);
	timeout(LOOK_MS);
	do {
		if (key == 's')
			top->sorting = (top->sorting + 1) % SORTINGS;
		rc = key == 's' || key == KEY_RESIZE ? 0 : take_look(top, err);
		if (rc == 0)
			draw_top(top);
	} while (rc == 0 && (key = getch()) != 'q');
	endwin();
	return rc;
}

/* Two looks, a second apart. */
static int once(struct top *top, const struct invocation *invocation, struct star_error *err)
{
	int rc = take_look(top, err);

	if (rc < 0)
		return rc;
	usleep(LOOK_MS * 1000);
	rc = take_look(top, err);
	if (rc < 0)
		return rc;
	if (!invocation->json) {
		show_all(top, invocation->out);
		return 0;
	}
	print_json(json_pack("{s:f, s:O, s:O, s:O?, s:{s:O, s:O}}", "seconds", top->now.at_s - top->before.at_s,
			     "status", top->now.status, "tables", top->now.tables, "latency", top->now.latency,
			     "before", "status", top->before.status, "tables", top->before.tables),
		   invocation->out);
	return 0;
}

static int take_sorting(const struct invocation *invocation, unsigned *sorting, struct star_error *err)
{
	static const struct filter filters[] = { { "sort", false }, { NULL, false } };
	json_t *params =
		take_filters(filters, "sort=pushes, memory, rows or made", invocation->argc, invocation->argv, err);
	const char *name = params ? json_string_value(json_object_get(params, "sort")) : NULL;
	unsigned i = 0;

	if (!params)
		return err->code;
	while (name && i < SORTINGS && strcmp(sortings[i].name, name) != 0)
		i++;
	if (i == SORTINGS)
		star_error_set(err, -EINVAL, "tables cannot be sorted by \"%.40s\": by pushes, memory, rows or made",
			       name);
	*sorting = i;
	json_decref(params);
	return i == SORTINGS ? err->code : 0;
}

int run_top(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	struct top top = { 0 };
	int rc;

	if (take_sorting(invocation, &top.sorting, &err) < 0)
		return fail(invocation, &err, STARCTL_USAGE);
	top.client = open_node(invocation, true, &err);
	if (!top.client)
		return fail(invocation, &err, STARCTL_FAILED);
	rc = invocation->once || invocation->json || !isatty(fileno(invocation->out)) ? once(&top, invocation, &err)
										      : watch_top(&top, &err);
	forget(&top.before);
	forget(&top.now);
	jsonrpc_close(top.client);
	return rc < 0 ? fail(invocation, &err, STARCTL_FAILED) : STARCTL_OK;
}
