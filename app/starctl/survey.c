/* SPDX-License-Identifier: BSD-3-Clause */
/* `starctl nodes`: all nodes of the cluster side by side; which one is slow, and why. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/starctl/cluster_nodes.h"
#include "base/clock.h"

enum { LOOK_US = 1000000, LATENCY_S = 60 };

/* The answers of a node. */
struct survey {
	json_t *before, *now, *latency, *slow, *health; /* NULL: it has not answered, or has refused */
	double p50_us, p99_us, wait_us, run_us;		/* of the class with the most requests */
	const char *class;
};

static double member_number(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

static double sum(const json_t *status, const char *name)
{
	const json_t *reactor;
	double all = 0;
	size_t i;

	json_array_foreach(json_object_get(status, "reactors"), i, reactor)
	{
		all += member_number(reactor, name);
	}
	return all;
}

/* For the class and size with the most requests, because quantiles of several cannot be added. */
static void take_latency(struct survey *s)
{
	const json_t *line, *most = NULL;
	size_t i;

	json_array_foreach(json_object_get(s->latency, "all"), i, line)
	{
		if (!most || member_number(line, "requests") > member_number(most, "requests"))
			most = line;
	}
	if (!most)
		return;
	s->class = json_string_value(json_object_get(most, "class"));
	s->p50_us = member_number(json_object_get(most, "total_us"), "p50");
	s->p99_us = member_number(json_object_get(most, "total_us"), "p99");
	s->wait_us = member_number(json_object_get(most, "wait_us"), "p99");
	s->run_us = member_number(json_object_get(most, "run_us"), "p99");
}

static void look(struct cluster *cluster, struct survey *nodes)
{
	for (unsigned i = 0; i < cluster->count; i++)
		nodes[i].before = cluster_ask(cluster, i, "status", NULL);
	usleep(LOOK_US);
	for (unsigned i = 0; i < cluster->count; i++) {
		struct survey *s = &nodes[i];
		struct star_error why;

		s->now = cluster_ask(cluster, i, "status", NULL);
		why = cluster->nodes[i].why;
		s->health = cluster_ask(cluster, i, "health", NULL);
		s->latency = cluster_ask(cluster, i, "latency", json_pack("{s:i}", "seconds", LATENCY_S));
		s->slow = cluster_ask(cluster, i, "slow", json_pack("{s:i, s:i}", "seconds", LATENCY_S, "limit", 1));
		cluster->nodes[i].why = why; /* that a node records no requests is not a fault */
		take_latency(s);
	}
}

static double busy_percent(const struct survey *s, unsigned reactors)
{
	return reactors ? 100 * (sum(s->now, "busy_s") - sum(s->before, "busy_s")) / reactors / (LOOK_US / 1e6) : 0;
}

static json_t *node_json(const struct cluster_one *node, const struct survey *s)
{
	const unsigned reactors = (unsigned)json_array_size(json_object_get(s->now, "reactors"));
	const bool healthy = json_is_true(json_object_get(s->health, "healthy"));

	if (!s->now || !s->before)
		return json_pack("{s:s, s:b, s:s}", "name", node->name, "answers", false, "error", node->why.text);
	return json_pack("{s:s, s:b, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:O?}", "name", node->name,
			 "answers", true, "healthy", healthy, "busy_percent", busy_percent(s, reactors),
			 "requests_a_second", (sum(s->now, "requests") - sum(s->before, "requests")) / (LOOK_US / 1e6),
			 "p50_us", s->p50_us, "p99_us", s->p99_us, "wait_p99_us", s->wait_us, "run_p99_us", s->run_us,
			 "memory_bytes", sum(s->now, "memory_bytes"), "memory_limit_bytes",
			 sum(s->now, "memory_limit_bytes"), "class", s->class ? s->class : "", "slowest",
			 json_array_get(json_object_get(s->slow, "requests"), 0));
}

static void show_row(struct table *table, const json_t *node)
{
	const double limit = member_number(node, "memory_limit_bytes");
	const char *class = json_string_value(json_object_get(node, "class"));
	char text[24];

	table_row(table);
	table_set(table, 0, "%s", json_string_value(json_object_get(node, "name")));
	if (!json_is_true(json_object_get(node, "answers"))) {
		table_set(table, 1, "does not answer");
		return;
	}
	table_set(table, 1, json_is_true(json_object_get(node, "healthy")) ? "ok" : "see health");
	table_set(table, 2, "%.0f %%", member_number(node, "busy_percent"));
	table_set(table, 3, "%s", human_count(member_number(node, "requests_a_second"), text));
	table_set(table, 9, "%.0f %%", limit > 0 ? 100 * member_number(node, "memory_bytes") / limit : 0);
	if (!class || !*class)
		return;
	table_set(table, 4, "%s", class);
	table_set(table, 5, "%s", human_us(member_number(node, "p50_us"), text));
	table_set(table, 6, "%s", human_us(member_number(node, "p99_us"), text));
	table_set(table, 7, "%s", human_us(member_number(node, "wait_p99_us"), text));
	table_set(table, 8, "%s", human_us(member_number(node, "run_p99_us"), text));
}

/* The node whose usual requests take longest, with its slowest request of the last minute. */
static void show_slowest(const json_t *nodes, FILE *out)
{
	const json_t *node, *slowest = NULL, *request, *why;
	char total[24];
	size_t i;

	json_array_foreach(nodes, i, node)
	{
		if (json_object_get(node, "slowest") &&
		    (!slowest || member_number(node, "p99_us") > member_number(slowest, "p99_us")))
			slowest = node;
	}
	request = json_object_get(slowest, "slowest");
	if (!json_is_object(request))
		return;
	fprintf(out, "\nslowest: %s; its slowest request of the last minute took %s: %s of %.0f keys",
		json_string_value(json_object_get(slowest, "name")),
		human_us(member_number(request, "total_us"), total),
		json_string_value(json_object_get(request, "class")), member_number(request, "keys"));
	fputs(" of ", out);
	print_text(json_string_value(json_object_get(request, "table")), out);
	fputc('\n', out);
	json_array_foreach(json_object_get(request, "why"), i, why)
	{
		fputs("    ", out);
		print_text(json_string_value(why), out);
		fputc('\n', out);
	}
}

static void render(const json_t *result, FILE *out)
{
	static const char *const titles[] = { "NODE", "STATE", "BUSY",	   "REQUESTS/s", "MOSTLY",
					      "p50",  "p99",   "WAIT p99", "RUN p99",	 "MEMORY" };
	const json_t *nodes = json_object_get(result, "nodes"), *node;
	struct table table;
	size_t i;

	table_init(&table);
	for (i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
		table_column(&table, titles[i], i > 1 && i != 4);
	json_array_foreach(nodes, i, node)
	{
		show_row(&table, node);
	}
	table_print(&table, out);
	table_fini(&table);
	show_slowest(nodes, out);
}

int run_nodes(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	struct cluster cluster;
	struct survey *nodes;
	unsigned missing;
	json_t *list;

	if (cluster_open(&cluster, invocation, true, &err) < 0)
		return fail(invocation, &err, STARCTL_FAILED);
	nodes = calloc(cluster.count, sizeof(*nodes));
	list = json_array();
	if (nodes)
		look(&cluster, nodes);
	for (unsigned i = 0; nodes && i < cluster.count; i++) {
		json_array_append_new(list, node_json(&cluster.nodes[i], &nodes[i]));
		json_decref(nodes[i].before);
		json_decref(nodes[i].now);
		json_decref(nodes[i].health);
		json_decref(nodes[i].latency);
		json_decref(nodes[i].slow);
	}
	missing = cluster_complain(&cluster, invocation);
	cluster_close(&cluster);
	free(nodes);
	print(invocation, json_pack("{s:o}", "nodes", list), render);
	return missing ? STARCTL_FAILED : STARCTL_OK;
}
