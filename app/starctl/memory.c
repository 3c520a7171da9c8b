/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory for parameters is left, for how long, and which tables use it: from what the nodes have recorded in
 * the last hour. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/starctl/cluster_nodes.h"

enum { TABLES_SHOWN = 20 };

/* For a node, or for a table on all nodes. */
struct growth {
	char name[160];
	double rows, bytes, limit_bytes;
	double rows_s, bytes_s; /* per second */
	double seconds;		/* over this time */
};

struct memory {
	struct growth *nodes, *tables;
	unsigned nodes_count, tables_count, tables_max;
};

static double at(const json_t *array, size_t index)
{
	return json_number_value(json_array_get(array, index));
}

/* From the first to the last value. If a table was dropped meanwhile, that is no shrinking: it counts from its lowest
 * value on. */
static double rate(const json_t *values, const json_t *dates)
{
	const size_t n = json_array_size(values);
	size_t from = 0;

	for (size_t i = 1; i < n; i++)
		if (at(values, i) < at(values, i - 1))
			from = i;
	if (n < 2 || from + 1 >= n || at(dates, n - 1) <= at(dates, from))
		return 0;
	return (at(values, n - 1) - at(values, from)) / (at(dates, n - 1) - at(dates, from));
}

static double last(const json_t *values)
{
	const size_t n = json_array_size(values);

	return n ? at(values, n - 1) : 0;
}

static struct growth *table_of(struct memory *memory, const char *name)
{
	struct growth *more;

	for (unsigned i = 0; i < memory->tables_count; i++)
		if (strcmp(memory->tables[i].name, name) == 0)
			return &memory->tables[i];
	if (memory->tables_count == memory->tables_max) {
		more = realloc(memory->tables, (memory->tables_max * 2 + 64) * sizeof(*more));
		if (!more)
			return NULL;
		memory->tables = more;
		memory->tables_max = memory->tables_max * 2 + 64;
	}
	more = &memory->tables[memory->tables_count++];
	*more = (struct growth){ 0 };
	snprintf(more->name, sizeof(more->name), "%s", name);
	return more;
}

static void take_node(struct memory *memory, const char *name, const json_t *history)
{
	const json_t *dates = json_object_get(history, "at"), *table;
	struct growth *node = &memory->nodes[memory->nodes_count++];
	size_t i;

	snprintf(node->name, sizeof(node->name), "%s", name);
	node->rows = last(json_object_get(history, "rows"));
	node->bytes = last(json_object_get(history, "memory_bytes"));
	node->limit_bytes = json_number_value(json_object_get(history, "memory_limit_bytes"));
	node->rows_s = rate(json_object_get(history, "rows"), dates);
	node->bytes_s = rate(json_object_get(history, "memory_bytes"), dates);
	node->seconds = json_array_size(dates) ? last(dates) - at(dates, 0) : 0;
	json_array_foreach(json_object_get(history, "tables"), i, table)
	{
		const char *text = json_string_value(json_object_get(table, "name"));
		struct growth *t = text ? table_of(memory, text) : NULL;

		if (!t)
			continue;
		t->rows += last(json_object_get(table, "rows"));
		t->bytes += last(json_object_get(table, "memory_bytes"));
		t->rows_s += rate(json_object_get(table, "rows"), dates);
		t->bytes_s += rate(json_object_get(table, "memory_bytes"), dates);
	}
}

/* First what grows fastest, then what is largest. */
static int by_growth(const void *a, const void *b)
{
	const struct growth *x = a, *y = b;

	if (x->bytes_s != y->bytes_s)
		return x->bytes_s > y->bytes_s ? -1 : 1;
	return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

/* Seconds until it is full; negative: it does not grow. */
static double full_in(const struct growth *g)
{
	return g->bytes_s > 0 ? fmax(0, g->limit_bytes - g->bytes) / g->bytes_s : -1;
}

static json_t *growth_json(const struct growth *g, bool node)
{
	json_t *json = json_pack("{s:s, s:f, s:f, s:f, s:f}", "name", g->name, "rows", g->rows, "memory_bytes",
				 g->bytes, "rows_an_hour", g->rows_s * 3600, "bytes_an_hour", g->bytes_s * 3600);

	if (node) {
		json_object_set_new(json, "limit_bytes", json_real(g->limit_bytes));
		json_object_set_new(json, "known_for_s", json_real(g->seconds));
		json_object_set_new(json, "full_in_s", g->bytes_s > 0 ? json_real(full_in(g)) : json_null());
	}
	return json;
}

static void set_growth(struct table *table, unsigned column, const struct growth *g)
{
	char text[24];

	table_set(table, column, "%s", human_count(g->rows, text));
	table_set(table, column + 1, "%s%s", g->rows_s >= 0 ? "+" : "-", human_count(fabs(g->rows_s) * 3600, text));
	table_set(table, column + 2, "%s", human_bytes(g->bytes, text));
	table_set(table, column + 3, "%s%s", g->bytes_s >= 0 ? "+" : "-", human_bytes(fabs(g->bytes_s) * 3600, text));
}

static void growth_columns(struct table *table, const char *name)
{
	table_init(table);
	table_column(table, name, false);
	table_column(table, "ROWS", true);
	table_column(table, "AN HOUR", true);
	table_column(table, "MEMORY", true);
	table_column(table, "AN HOUR", true);
}

static void show_memory(const struct memory *memory, FILE *out)
{
	struct table table;
	char text[24];

	growth_columns(&table, "NODE");
	table_column(&table, "OF", true);
	table_column(&table, "FULL", true);
	table_column(&table, "FULL IN", true);
	table_column(&table, "KNOWN FOR", true);
	for (unsigned i = 0; i < memory->nodes_count; i++) {
		const struct growth *g = &memory->nodes[i];

		table_row(&table);
		table_set(&table, 0, "%s", g->name);
		set_growth(&table, 1, g);
		table_set(&table, 5, "%s", human_bytes(g->limit_bytes, text));
		table_set(&table, 6, "%.0f %%", g->limit_bytes > 0 ? 100 * g->bytes / g->limit_bytes : 0);
		if (g->bytes_s > 0)
			table_set(&table, 7, "%s", human_time(full_in(g), text));
		table_set(&table, 8, "%s", human_time(g->seconds, text));
	}
	table_print(&table, out);
	table_fini(&table);
	fputc('\n', out);
	growth_columns(&table, "TABLE");
	for (unsigned i = 0; i < memory->tables_count && i < TABLES_SHOWN; i++) {
		table_row(&table);
		table_set(&table, 0, "%s", memory->tables[i].name);
		set_growth(&table, 1, &memory->tables[i]);
	}
	table_print(&table, out);
	table_fini(&table);
	if (memory->tables_count > TABLES_SHOWN)
		fprintf(out, "and %u more\n", memory->tables_count - TABLES_SHOWN);
}

static void print_memory(const struct memory *memory, const struct invocation *invocation)
{
	json_t *nodes, *tables;

	if (!invocation->json) {
		show_memory(memory, invocation->out);
		return;
	}
	nodes = json_array();
	tables = json_array();
	for (unsigned i = 0; i < memory->nodes_count; i++)
		json_array_append_new(nodes, growth_json(&memory->nodes[i], true));
	for (unsigned i = 0; i < memory->tables_count; i++)
		json_array_append_new(tables, growth_json(&memory->tables[i], false));
	print_json(json_pack("{s:o, s:o}", "nodes", nodes, "tables", tables), invocation->out);
}

int run_memory(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	struct memory memory = { 0 };
	struct cluster cluster;
	unsigned missing;

	if (cluster_open(&cluster, invocation, invocation->cluster, &err) < 0)
		return fail(invocation, &err, STARCTL_FAILED);
	memory.nodes = calloc(cluster.count, sizeof(*memory.nodes));
	for (unsigned i = 0; memory.nodes && i < cluster.count; i++) {
		json_t *history = cluster_ask(&cluster, i, "history", NULL);

		if (history)
			take_node(&memory, cluster.nodes[i].name, history);
		json_decref(history);
	}
	if (memory.tables)
		qsort(memory.tables, memory.tables_count, sizeof(*memory.tables), by_growth);
	missing = cluster_complain(&cluster, invocation);
	if (memory.nodes_count)
		print_memory(&memory, invocation);
	cluster_close(&cluster);
	free(memory.nodes);
	free(memory.tables);
	return missing ? STARCTL_FAILED : STARCTL_OK;
}
