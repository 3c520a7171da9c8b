/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints replies for people. A newer node may report more: unknown members get a title made from their name, such as
 * LATE PUSHES from late_pushes, and missing members leave no gap.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "app/starctl/starctl.h"

enum value_kind { VALUE_TEXT, VALUE_COUNT, VALUE_BYTES, VALUE_PERCENT, VALUE_MILLISECONDS };

struct column {
	const char *key;
	const char *title; /* NULL: made from the key */
	enum value_kind kind;
};

static const struct column reactor_columns[] = {
	{ "index", "REACTOR", VALUE_COUNT },
	{ "core", "CORE", VALUE_COUNT },
	{ "busy_percent", "BUSY", VALUE_PERCENT },
	{ "sleeps", "SLEEPS", VALUE_COUNT },
	{ "connections", "CONNECTIONS", VALUE_COUNT },
	{ "sessions", "SESSIONS", VALUE_COUNT },
	{ "requests", "REQUESTS", VALUE_COUNT },
	{ "pulls", "PULLS", VALUE_COUNT },
	{ "rows_pulled", "ROWS PULLED", VALUE_COUNT },
	{ "pushes", "PUSHES", VALUE_COUNT },
	{ "rows_pushed", "ROWS PUSHED", VALUE_COUNT },
	{ "commits", "COMMITS", VALUE_COUNT },
	{ "late_pushes", "LATE PUSHES", VALUE_COUNT },
	{ "rows", "ROWS", VALUE_COUNT },
	{ "rows_refused", "REFUSED", VALUE_COUNT },
	{ "rows_evicted", "EVICTED", VALUE_COUNT },
	{ "memory_bytes", "MEMORY", VALUE_BYTES },
	{ "memory_limit_bytes", "OF", VALUE_BYTES },
	{ "mbufs_used", "MBUFS USED", VALUE_COUNT },
	{ "mbufs", "OF", VALUE_COUNT },
	{ "received", "RECEIVED", VALUE_COUNT },
	{ "sent", "SENT", VALUE_COUNT },
	{ "handed_over", "HANDED OVER", VALUE_COUNT },
	{ "handed_in", "HANDED IN", VALUE_COUNT },
	{ NULL, NULL, VALUE_TEXT },
};

static const struct column port_columns[] = {
	{ "name", "PORT", VALUE_TEXT },		{ "interface", "INTERFACE", VALUE_TEXT },
	{ "mac", "MAC", VALUE_TEXT },		{ "addresses", "ADDRESSES", VALUE_TEXT },
	{ "vlan", "VLAN", VALUE_COUNT },	{ "mtu", "MTU", VALUE_COUNT },
	{ "link", "LINK", VALUE_TEXT },		{ "state", "STATE", VALUE_TEXT },
	{ "client", "CLIENT", VALUE_TEXT },	{ "options", "OPTIONS", VALUE_TEXT },
	{ "offloads", "OFFLOADS", VALUE_TEXT }, { NULL, NULL, VALUE_TEXT },
};

static const struct column node_columns[] = {
	{ "task", "TASK", VALUE_COUNT },
	{ "control", "CONTROL", VALUE_TEXT },
	{ "data", "DATA", VALUE_TEXT },
	{ "joined", "JOINED", VALUE_TEXT },
	{ "recovers", "RECOVERS", VALUE_TEXT },
	{ "standby", "STANDBY", VALUE_TEXT },
	{ "generation", "GENERATION", VALUE_COUNT },
	{ "reactors", "REACTORS", VALUE_COUNT },
	{ "incarnation", "INCARNATION", VALUE_TEXT },
	{ "silent_ms", "SILENT", VALUE_MILLISECONDS },
	{ "away", "AWAY", VALUE_TEXT },
	{ "away_since", "SINCE", VALUE_TEXT },
	{ NULL, NULL, VALUE_TEXT },
};

static const struct column endpoint_columns[] = {
	{ "control", "CONTROL", VALUE_TEXT },
	{ "data", "DATA", VALUE_TEXT },
	{ NULL, NULL, VALUE_TEXT },
};

/* Top-level members of a status that the lines of render_status show. */
static const char *const shown_members[] = { "name",	   "job",     "task",	   "version",	  "pid",
					     "uptime_s",   "control", "data",	   "incarnation", "epoch",
					     "partitions", "objects", "hugepages", "polling",	  "cluster_reactors",
					     "nodes",	   "leader",  "ports",	   "reactors",	  "control_plane",
					     "security",   "process", NULL };

/* An array of plain values can be shown in one cell, separated by commas. */
static bool is_plain_list(const json_t *value)
{
	const json_t *member;
	size_t i;

	json_array_foreach(value, i, member) if (json_is_object(member) || json_is_array(member)) return false;
	return json_array_size(value) > 0;
}

static void scalar_text(const json_t *value, char *text, size_t size)
{
	const json_t *member;
	size_t i, used = 0;

	if (is_plain_list(value)) {
		json_array_foreach(value, i, member)
		{
			if (used + 2 < size)
				used += (size_t)snprintf(text + used, size - used, "%s", i ? ", " : "");
			if (used + 1 < size)
				scalar_text(member, text + used, size - used);
			used += strlen(text + used);
		}
	} else if (json_is_string(value))
		snprintf(text, size, "%s", json_string_value(value));
	else if (json_is_boolean(value))
		snprintf(text, size, "%s", json_is_true(value) ? "yes" : "no");
	else if (json_is_integer(value))
		snprintf(text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value))
		snprintf(text, size, "%.6g", json_real_value(value));
	else
		snprintf(text, size, "-");
}

static void value_text(const json_t *value, enum value_kind kind, char *text, size_t size)
{
	const double number = json_number_value(value);
	char human[24];

	if (!json_is_number(value) || kind == VALUE_TEXT)
		scalar_text(value, text, size);
	else if (kind == VALUE_BYTES)
		snprintf(text, size, "%s", human_bytes(number, human));
	else if (kind == VALUE_PERCENT)
		snprintf(text, size, "%.1f %%", number);
	else if (kind == VALUE_MILLISECONDS)
		snprintf(text, size, "%.1f s", number / 1000);
	else
		snprintf(text, size, "%s", human_count(number, human));
}

static bool any_has(const json_t *rows, const char *key)
{
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const json_t *value = json_object_get(row, key);

		if (value && !json_is_object(value) && (!json_is_array(value) || is_plain_list(value)))
			return true;
	}
	return false;
}

static bool is_column(const struct column *columns, unsigned count, const char *key)
{
	for (unsigned i = 0; i < count; i++)
		if (strcmp(columns[i].key, key) == 0)
			return true;
	return false;
}

/* Selects the columns: known ones that some row has, then those that only the rows have. */
static unsigned choose_columns(const json_t *rows, const struct column *known, struct column *chosen)
{
	unsigned count = 0;
	const char *key;
	json_t *row, *value;
	size_t i;

	for (const struct column *c = known; c->key && count < TABLE_COLUMNS_MAX; c++)
		if (any_has(rows, c->key))
			chosen[count++] = *c;
	json_array_foreach(rows, i, row)
	{
		json_object_foreach(row, key, value)
		{
			if (count < TABLE_COLUMNS_MAX && !json_is_object(value) && !json_is_array(value) &&
			    !is_column(chosen, count, key))
				chosen[count++] =
					(struct column){ key, NULL, json_is_number(value) ? VALUE_COUNT : VALUE_TEXT };
		}
	}
	return count;
}

/* A member's name as words: its underscores are spaces. */
static void name_words(const char *key, char *text, size_t size)
{
	snprintf(text, size, "%s", key);
	for (char *c = text; *c; c++)
		if (*c == '_')
			*c = ' ';
}

static void add_column(struct table *table, const struct column *column)
{
	char made[TABLE_CELL_MAX];

	name_words(column->key, made, sizeof(made));
	for (char *c = made; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	table_column(table, column->title ? column->title : made, column->kind != VALUE_TEXT);
}

/* Objects as rows. */
static void render_rows(const json_t *rows, const struct column *known, FILE *out)
{
	struct column columns[TABLE_COLUMNS_MAX];
	const unsigned count = choose_columns(rows, known, columns);
	struct table table;
	const json_t *row;
	size_t i;

	if (json_array_size(rows) == 0)
		return;
	table_init(&table);
	for (unsigned c = 0; c < count; c++)
		add_column(&table, &columns[c]);
	json_array_foreach(rows, i, row)
	{
		table_row(&table);
		for (unsigned c = 0; c < count; c++) {
			char text[TABLE_CELL_MAX];

			value_text(json_object_get(row, columns[c].key), columns[c].kind, text, sizeof(text));
			table_set(&table, c, "%s", text);
		}
	}
	table_print(&table, out);
	table_fini(&table);
}

/* Prints "  label value" if the member exists. */
static void field(const json_t *object, const char *key, const char *label, FILE *out)
{
	const json_t *value = json_object_get(object, key);
	char text[256];

	if (!value)
		return;
	scalar_text(value, text, sizeof(text));
	fprintf(out, "   %s ", label);
	print_text(text, out);
}

static void render_head(const json_t *status, FILE *out)
{
	const char *name = json_string_value(json_object_get(status, "name"));
	const json_t *uptime = json_object_get(status, "uptime_s");
	char text[24];

	print_text(name ? name : "(a node without a name)", out);
	field(status, "version", "StarServer", out);
	field(status, "pid", "process", out);
	if (uptime)
		fprintf(out, "   up %s", human_time(json_number_value(uptime), text));
	fprintf(out, "\n");
	field(status, "control", "control", out);
	field(status, "data", "data", out);
	field(status, "incarnation", "incarnation", out);
	fprintf(out, "\n");
	field(status, "epoch", "layout epoch", out);
	field(status, "cluster_reactors", "reactors of the cluster", out);
	field(status, "partitions", "partitions", out);
	field(status, "objects", "tables and variables", out);
	fprintf(out, "\n");
	if (json_object_get(status, "hugepages") || json_object_get(status, "polling")) {
		field(status, "hugepages", "hugepages", out);
		field(status, "polling", "polling", out);
		fprintf(out, "\n");
	}
}

static void render_others(json_t *status, FILE *out)
{
	char label[64];
	const char *key;
	json_t *value;

	json_object_foreach(status, key, value)
	{
		const char *const *shown = shown_members;

		while (*shown && strcmp(*shown, key) != 0)
			shown++;
		if (*shown || json_is_object(value) || json_is_array(value))
			continue;
		name_words(key, label, sizeof(label));
		field(status, key, label, out);
		fprintf(out, "\n");
	}
}

static void render_leader(const json_t *leader, FILE *out)
{
	const char *error = json_string_value(json_object_get(leader, "error"));

	if (!leader)
		return;
	fprintf(out, "\nPS task 0:");
	field(leader, "control", "control", out);
	field(leader, "joined", "joined", out);
	field(leader, "incarnation", "incarnation", out);
	field(leader, "away_since", "away since", out);
	if (error) {
		fprintf(out, "\n   not joined: ");
		print_text(error, out);
	}
	fprintf(out, "\n");
}

/* Prints a reactor's errors in one line; nothing if there are none. */
static void render_reasons(const json_t *reactor, size_t index, FILE *out)
{
	const char *reason;
	json_t *count;
	char text[24];
	bool first = true;

	json_object_foreach(json_object_get(reactor, "errors"), reason, count)
	{
		if (json_number_value(count) == 0)
			continue;
		if (first)
			fprintf(out, "errors of reactor %zu:", index);
		fprintf(out, "%s ", first ? "" : ",");
		print_text(reason, out);
		fprintf(out, " %s", human_count(json_number_value(count), text));
		first = false;
	}
	if (!first)
		fputc('\n', out);
}

static void render_errors(const json_t *reactors, FILE *out)
{
	const json_t *reactor;
	size_t i;

	if (json_array_size(reactors))
		fputc('\n', out);
	json_array_foreach(reactors, i, reactor)
	{
		render_reasons(reactor, i, out);
	}
}

void render_status(const json_t *status, FILE *out)
{
	static const struct {
		const char *key;
		const struct column *columns;
	} lists[] = { { "nodes", node_columns }, { "ports", port_columns }, { "reactors", reactor_columns } };

	render_head(status, out);
	render_others((json_t *)status, out);
	render_leader(json_object_get(status, "leader"), out);
	for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		const json_t *rows = json_object_get(status, lists[i].key);

		if (json_array_size(rows)) {
			fprintf(out, "\n");
			render_rows(rows, lists[i].columns, out);
		}
	}
	render_errors(json_object_get(status, "reactors"), out);
	fflush(out);
}

static void shape_text(const json_t *object, char *text, size_t size)
{
	const json_t *shape = json_object_get(object, "shape"), *n;
	size_t i, used = 0;

	if (!shape)
		scalar_text(json_object_get(object, "dim"), text, size);
	json_array_foreach(shape, i, n)
	{
		if (used < size)
			used += (size_t)snprintf(text + used, size - used, "%s%" JSON_INTEGER_FORMAT, i ? " x " : "",
						 json_integer_value(n));
	}
}

/* A node's figures of a table. Columns in which all values are 0 are omitted. */
static const struct column stats_columns[] = {
	{ "rows", "ROWS", VALUE_COUNT },
	{ "memory_bytes", "MEMORY", VALUE_BYTES },
	{ "pushes", "PUSHES", VALUE_COUNT },
	{ "evicted", "EVICTED", VALUE_COUNT },
	{ "deleted", "DELETED", VALUE_COUNT },
	{ "refused", "REFUSED", VALUE_COUNT },
	{ "unadmitted", "UNADMITTED", VALUE_COUNT },
	{ "nonfinite", "NOT FINITE", VALUE_COUNT },
	{ "sweep_left", "TO SWEEP", VALUE_COUNT },
};
enum { STATS_ALWAYS = 3 };

static bool any_counts(const json_t *tables, const char *key)
{
	const json_t *object;
	size_t i;

	json_array_foreach(tables, i, object)
	{
		if (json_number_value(json_object_get(json_object_get(object, "stats"), key)) != 0)
			return true;
	}
	return false;
}

void render_tables(const json_t *tables, FILE *out)
{
	static const struct {
		const char *title, *member;
		bool right;
	} columns[] = { { "NAME", "name", false },
			{ "KIND", "kind", false },
			{ "TYPE", "dtype", false },
			{ "DIM OR SHAPE", NULL, true },
			{ "OPTIMIZER", "optimizer", false } };
	enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };
	const struct column *stats[sizeof(stats_columns) / sizeof(stats_columns[0])];
	unsigned stats_count = 0;
	struct table table;
	char text[TABLE_CELL_MAX];
	const json_t *object;
	size_t i;

	if (json_array_size(tables) == 0) {
		fprintf(out, "no tables and no variables\n");
		return;
	}
	table_init(&table);
	for (unsigned c = 0; c < COLUMNS; c++)
		table_column(&table, columns[c].title, columns[c].right);
	for (unsigned c = 0; c < sizeof(stats) / sizeof(stats[0]); c++)
		if (c < STATS_ALWAYS || any_counts(tables, stats_columns[c].key)) {
			table_column(&table, stats_columns[c].title, true);
			stats[stats_count++] = &stats_columns[c];
		}
	json_array_foreach(tables, i, object)
	{
		table_row(&table);
		for (unsigned c = 0; c < COLUMNS; c++) {
			if (columns[c].member)
				scalar_text(json_object_get(object, columns[c].member), text, sizeof(text));
			else
				shape_text(object, text, sizeof(text));
			table_set(&table, c, "%s", text);
		}
		for (unsigned c = 0; c < stats_count; c++) {
			value_text(json_object_get(json_object_get(object, "stats"), stats[c]->key), stats[c]->kind,
				   text, sizeof(text));
			table_set(&table, COLUMNS + c, "%s", text);
		}
	}
	table_print(&table, out);
	table_fini(&table);
}

static void render_members(const json_t *object, bool figures, FILE *out)
{
	const char *key;
	json_t *value;
	char text[256], human[24];

	json_object_foreach((json_t *)object, key, value)
	{
		const char *meaning = figures ? NULL : option_text(key);

		if (json_is_object(value) || json_is_array(value) || (!figures && !meaning))
			continue;
		scalar_text(value, text, sizeof(text));
		if (figures && strstr(key, "_bytes"))
			meaning = human_bytes(json_number_value(value), human);
		fprintf(out, "  %-20s ", key);
		print_text(text, out);
		if (meaning)
			fprintf(out, "%*s%s", (int)(18 - strlen(text) % 18), "", meaning);
		fputc('\n', out);
	}
}

static void render_table_reactors(const json_t *reactors, FILE *out)
{
	static const struct {
		const char *title, *member;
	} columns[] = { { "ROWS", "rows" },	     { "MEMORY", "memory_bytes" }, { "PULLS", "pulls" },
			{ "PULLED", "rows_pulled" }, { "PUSHES", "pushes" },	   { "PUSHED", "rows_pushed" },
			{ "MISSED", "missed" },	     { "EVICTED", "evicted" },	   { "REFUSED", "requests_refused" },
			{ "IN", "bytes_in" },	     { "OUT", "bytes_out" } };
	struct table table;
	json_t *reactor;
	size_t i;

	table_init(&table);
	table_column(&table, "REACTOR", true);
	for (size_t c = 0; c < sizeof(columns) / sizeof(columns[0]); c++)
		table_column(&table, columns[c].title, true);
	json_array_foreach(reactors, i, reactor)
	{
		table_row(&table);
		table_set(&table, 0, "%zu", i);
		for (size_t c = 0; c < sizeof(columns) / sizeof(columns[0]); c++) {
			const double value = json_number_value(json_object_get(reactor, columns[c].member));
			char text[24];

			if (strcmp(columns[c].title, "IN") == 0 || strcmp(columns[c].title, "OUT") == 0 ||
			    strcmp(columns[c].title, "MEMORY") == 0)
				table_set(&table, (unsigned)c + 1, "%s", human_bytes(value, text));
			else
				table_set(&table, (unsigned)c + 1, "%.0f", value);
		}
	}
	fputc('\n', out);
	table_print(&table, out);
	table_fini(&table);
}

void render_table(const json_t *object, FILE *out)
{
	const json_t *reactors;
	char text[TABLE_CELL_MAX];

	field(object, "kind", "kind", out);
	field(object, "id", "object", out);
	field(object, "dtype", "type", out);
	shape_text(object, text, sizeof(text));
	fprintf(out, "   %s %s", json_object_get(object, "shape") ? "shape" : "dim", text);
	field(object, "optimizer", "optimizer", out);
	fprintf(out, "\n\nOptions:\n");
	render_members(object, false, out);
	fprintf(out, "\nOn this node:\n");
	render_members(json_object_get(object, "stats"), true, out);
	reactors = json_object_get(json_object_get(object, "stats"), "reactors");
	if (json_array_size(reactors) > 1)
		render_table_reactors(reactors, out);
}

void render_ports(const json_t *ports, FILE *out)
{
	render_rows(ports, port_columns, out);
}

void render_endpoints(const json_t *endpoints, FILE *out)
{
	if (json_array_size(endpoints) == 0)
		fprintf(out, "the endpoint map is empty\n");
	render_rows(endpoints, endpoint_columns, out);
}
