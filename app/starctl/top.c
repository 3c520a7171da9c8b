/* SPDX-License-Identifier: BSD-3-Clause */
/* `starctl top`: reactors, requests, tables and connections of a node, or of all nodes, every second. */
#include "app/starctl/top.h"

#include <errno.h>
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "jsonrpc/member.h"

enum { LOOK_MS = 1000, CONNECTIONS = 1000, AGAIN_LOOKS = 5, AGAIN_US = 300000 };

/* ---- querying ---- */

void top_forget(struct top_look *look)
{
	json_decref(look->nodes);
	json_decref(look->reactors);
	json_decref(look->tables);
	json_decref(look->requests);
	json_decref(look->connections);
	*look = (struct top_look){ 0 };
}

/* Copies lines, and adds to each where it is from. */
static void add_lines(const json_t *lines, const char *node, bool whole, const char *member, json_t *to)
{
	const json_t *line;
	char at[64];
	size_t i;

	json_array_foreach(lines, i, line)
	{
		const double number = top_number(line, member);
		json_t *copy = json_is_object(line) ? json_deep_copy(line) : NULL;

		if (!copy)
			continue;
		if (whole)
			snprintf(at, sizeof(at), "%.30s/%.0f", node, number);
		else
			snprintf(at, sizeof(at), "%.0f", number);
		json_object_set_new(copy, "at", json_string(at));
		json_array_append_new(to, copy);
	}
}

/* The names of one node's tables are unique, so for an empty list there is no search. */
static void add_tables(const json_t *tables, json_t *to)
{
	static const char *const name_alone[] = { "name", NULL };
	const bool first = json_array_size(to) == 0;
	const json_t *table;
	size_t i;

	json_array_foreach(tables, i, table)
	{
		json_t *sum = first ? NULL : top_line(to, name_alone, table, i), *stats = json_object_get(sum, "stats");
		const char *name;
		json_t *value;

		if (!sum && json_is_object(table))
			json_array_append_new(to, json_deep_copy(table));
		json_object_foreach(json_object_get(table, "stats"), name, value)
		{
			if (sum && json_is_number(value))
				json_object_set_new(stats, name,
						    json_real(top_number(stats, name) + json_number_value(value)));
		}
	}
}

static double p99_of(const json_t *line)
{
	return top_number(json_object_get(line, "total_us"), "p99");
}

/* If two nodes have a line for the same requests, the one in which more of them took longer is kept; their numbers are
 * added. */
static void add_requests(const json_t *lines, const char *node, json_t *to)
{
	static const char *const class_and_keys[] = { "class", "keys", NULL };
	json_t *line;
	size_t i;

	json_array_foreach(lines, i, line)
	{
		json_t *worst = top_line(to, class_and_keys, line, i);
		const double requests = top_number(worst, "requests") + top_number(line, "requests");
		const bool stays = worst && p99_of(worst) >= p99_of(line);

		if (!json_is_object(line))
			continue;
		if (!worst) {
			worst = json_deep_copy(line);
			json_array_append_new(to, worst);
		} else if (!stays) {
			json_object_update(worst, line);
		}
		if (!stays)
			json_object_set_new(worst, "at", json_string(node));
		json_object_set_new(worst, "requests", json_real(requests));
	}
}

/* The answers of one node, or an object with the reason why there are none. If it refuses to report requests or
 * connections, these are missing. */
static json_t *look_at(struct top *top, unsigned i, struct top_look *look)
{
	struct cluster_one *one = &top->cluster.nodes[i];
	json_t *status, *tables, *latency, *connections;

	if (one->tried && !one->client && top->looks % AGAIN_LOOKS == 0)
		cluster_again(&top->cluster, i, AGAIN_US);
	status = cluster_ask(&top->cluster, i, "status", NULL);
	tables = status ? tables_of_node(one->client, &one->why) : NULL;
	if (!tables) {
		json_decref(status);
		cluster_lose(&top->cluster, i);
		return json_pack("{s:s, s:o}", "name", one->name, "error", jsonrpc_member_from_text(one->why.text));
	}
	one->why = (struct star_error){ 0 };
	latency = cluster_ask(&top->cluster, i, "latency", json_pack("{s:i}", "seconds", TOP_LATENCY_S));
	connections = cluster_ask(&top->cluster, i, "connections", json_pack("{s:i}", "limit", CONNECTIONS));
	one->why = (struct star_error){ 0 }; /* a refusal is not a fault */
	look->answers++;
	add_lines(json_object_get(status, "reactors"), one->name, top->whole, "index", look->reactors);
	add_lines(json_object_get(connections, "connections"), one->name, top->whole, "reactor", look->connections);
	add_tables(tables, look->tables);
	add_requests(json_object_get(latency, "all"), one->name, look->requests);
	json_decref(connections);
	return json_pack("{s:s, s:o, s:o, s:o?}", "name", one->name, "status", status, "tables", tables, "latency",
			 latency);
}

int top_take_look(struct top *top, struct star_error *err)
{
	struct top_look *look = &top->now;

	top_forget(&top->before);
	top->before = top->now;
	*look = (struct top_look){ .at_s = (double)clock_us() / 1e6,
				   .nodes = json_array(),
				   .reactors = json_array(),
				   .tables = json_array(),
				   .requests = json_array(),
				   .connections = json_array() };
	for (unsigned i = 0; i < top->cluster.count; i++)
		json_array_append_new(look->nodes, look_at(top, i, look));
	top->looks++;
	if (look->answers)
		return 0;
	*err = top->cluster.nodes[0].why;
	return err->code;
}

/* ---- the command ---- */

/* Draws the screen, as far as it fits. */
static void draw_top(const struct top *top)
{
	static const char help[] = "q quits; s sorts tables by another column, r reactors";
	char *text = NULL, *line, *rest;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	int y = 0;

	if (!out)
		return;
	top_show(top, LINES > 1 ? (unsigned)LINES - 1 : 1, out);
	fclose(out);
	erase();
	for (line = text; line && *line && y < LINES - 1; line = rest) {
		rest = strchr(line, '\n');
		if (rest)
			*rest++ = '\0';
		mvaddnstr(y++, 0, line, COLS);
	}
	mvaddnstr(LINES - 1, 0, help, COLS);
	refresh();
	free(text);
}

static unsigned next_sorting(const char *(*name)(unsigned number), unsigned sorting)
{
	return name(sorting + 1) ? sorting + 1 : 0;
}

/* Runs until q is pressed, or until no node answers. */
static int watch_top(struct top *top, struct star_error *err)
{
	int rc = 0, key = 0;

	if (!initscr())
		return star_error_set(err, -ENOTTY, "this terminal is not one that ncurses knows: try --once");
	cbreak();
	noecho();
	curs_set(0);
	timeout(LOOK_MS);
	do {
		if (key == 's')
			top->sorting = next_sorting(top_sorting, top->sorting);
		else if (key == 'r')
			top->reactor_sorting = next_sorting(top_reactor_sorting, top->reactor_sorting);
		else if (key != KEY_RESIZE)
			rc = top_take_look(top, err);
		if (rc == 0)
			draw_top(top);
	} while (rc == 0 && (key = getch()) != 'q');
	endwin();
	return rc;
}

/* The answers of one node, in the format from before several were possible. */
static json_t *one_json(const struct top *top)
{
	json_t *now = json_array_get(top->now.nodes, 0), *before = json_array_get(top->before.nodes, 0);

	return json_pack("{s:f, s:O, s:O, s:O?, s:{s:O, s:O}}", "seconds", top->now.at_s - top->before.at_s, "status",
			 json_object_get(now, "status"), "tables", json_object_get(now, "tables"), "latency",
			 json_object_get(now, "latency"), "before", "status", json_object_get(before, "status"),
			 "tables", json_object_get(before, "tables"));
}

/* Queries twice, a second apart. */
static int once(struct top *top, const struct invocation *invocation, struct star_error *err)
{
	int rc = top_take_look(top, err);

	if (rc < 0)
		return rc;
	usleep(LOOK_MS * 1000);
	rc = top_take_look(top, err);
	if (rc < 0)
		return rc;
	if (!invocation->json)
		top_show(top, 0, invocation->out);
	else if (!top->whole)
		print_json(one_json(top), invocation->out);
	else
		print_json(json_pack("{s:f, s:O, s:O}", "seconds", top->now.at_s - top->before.at_s, "nodes",
				     top->now.nodes, "before", top->before.nodes),
			   invocation->out);
	return 0;
}

/* The number of the requested order. */
static int find_sorting(const json_t *params, const char *member, const char *(*names)(unsigned number),
			const char *what, unsigned *sorting, struct star_error *err)
{
	const char *name = json_string_value(json_object_get(params, member));
	char known[80] = "";
	unsigned i = 0;

	for (; names(i); i++)
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			 i == 0		? ""
			 : names(i + 1) ? ", "
					: " or ",
			 names(i));
	*sorting = 0;
	for (i = 0; name && names(i); i++)
		if (strcmp(names(i), name) == 0)
			*sorting = i;
	if (!name || strcmp(names(*sorting), name) == 0)
		return 0;
	return star_error_set(err, -EINVAL, "%s cannot be sorted by \"%.40s\": by %s", what, name, known);
}

static int take_sortings(const struct invocation *invocation, struct top *top, struct star_error *err)
{
	static const struct filter filters[] = { { "sort", false }, { "reactors", false }, { NULL, false } };
	json_t *params =
		take_filters(filters, "sort=pushes, memory, rows or made, reactors=place, busy, requests or memory",
			     invocation->argc, invocation->argv, err);
	int rc = params ? find_sorting(params, "sort", top_sorting, "tables", &top->sorting, err) : err->code;

	if (rc == 0)
		rc = find_sorting(params, "reactors", top_reactor_sorting, "reactors", &top->reactor_sorting, err);
	json_decref(params);
	return rc;
}

int run_top(const struct invocation *invocation)
{
	const bool one_look = invocation->once || invocation->json || !isatty(fileno(invocation->out));
	struct top top = { .whole = invocation->cluster };
	struct star_error err = { 0 };
	unsigned missing = 0;
	int rc;

	if (take_sortings(invocation, &top, &err) < 0)
		return fail(invocation, &err, STARCTL_USAGE);
	if (cluster_open(&top.cluster, invocation, invocation->cluster, &err) < 0)
		return fail(invocation, &err, STARCTL_FAILED);
	rc = one_look ? once(&top, invocation, &err) : watch_top(&top, &err);
	if (rc == 0 && one_look)
		missing = cluster_complain(&top.cluster, invocation);
	top_forget(&top.before);
	top_forget(&top.now);
	cluster_close(&top.cluster);
	if (rc < 0)
		return fail(invocation, &err, STARCTL_FAILED);
	return missing ? STARCTL_FAILED : STARCTL_OK;
}
