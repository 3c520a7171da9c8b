/* SPDX-License-Identifier: BSD-3-Clause */
/* `starctl report`: a cluster's last hour as a self-contained HTML page, for users without Grafana. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/starctl/cluster_nodes.h"
#include "app/starctl/plot.h"

enum { EVENTS_SHOWN = 100, HOT_SHOWN = 10 };

/* The answers of a node; NULL: none. */
struct told {
	json_t *status, *health, *history, *latency, *hot, *events;
};

static double number(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

static double at(const json_t *array, size_t index)
{
	return json_number_value(json_array_get(array, index));
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

/* ---- plots ---- */

static char *show_rate(double value, char text[static 24])
{
	return human_count(value, text);
}

static char *show_percent(double value, char text[static 24])
{
	snprintf(text, 24, "%.0f %%", value);
	return text;
}

static char *show_bytes(double value, char text[static 24])
{
	return human_bytes(value, text);
}

static struct plot_line *new_line(struct plot *plot, const char *name)
{
	struct plot_line *line;

	if (plot->count == PLOT_LINES_MAX)
		return NULL;
	line = &plot->lines[plot->count++];
	line->n = 0;
	snprintf(line->name, sizeof(line->name), "%s", name);
	return line;
}

static void add_point(struct plot_line *line, double when, double value)
{
	if (!line || line->n == PLOT_POINTS_MAX)
		return;
	line->at[line->n] = when;
	line->value[line->n++] = value;
}

/* Values as they are; or, for counts, how fast they grow. */
static void add_values(struct plot *plot, const char *name, const json_t *dates, const json_t *values, bool rates)
{
	const size_t n =
		json_array_size(dates) < json_array_size(values) ? json_array_size(dates) : json_array_size(values);
	struct plot_line *line = n ? new_line(plot, name) : NULL;

	for (size_t i = rates; i < n; i++) {
		const double passed = rates ? at(dates, i) - at(dates, i - 1) : 1;
		const double value = rates ? (at(values, i) - at(values, i - 1)) / passed : at(values, i);

		if (passed > 0 && isfinite(value))
			add_point(line, at(dates, i), fmax(0, value));
	}
}

static void add_busy(struct plot *plot, const char *name, const json_t *history)
{
	const json_t *dates = json_object_get(history, "at"), *reactors = json_object_get(history, "reactors");
	struct plot_line *line = json_array_size(reactors) ? new_line(plot, name) : NULL;

	for (size_t i = 1; i < json_array_size(dates); i++) {
		const json_t *reactor;
		double sum = 0;
		size_t r;

		json_array_foreach(reactors, r, reactor)
		{
			sum += at(json_object_get(reactor, "busy_percent"), i);
		}
		add_point(line, at(dates, i), sum / (double)json_array_size(reactors));
	}
}

/* What is plotted for each node. */
static const struct {
	const char *title, *member;
	char *(*show)(double value, char text[static 24]);
	bool rates;
} node_plots[] = {
	{ "Requests a second", "requests", show_rate, true },
	{ "Rows pulled per second", "rows_pulled", show_rate, true },
	{ "Rows pushed per second", "rows_pushed", show_rate, true },
	{ "Requests: 99 % took at most", "p99_us", human_us, false },
	{ "Requests: half took at most", "p50_us", human_us, false },
	{ "Parameter memory", "memory_bytes", show_bytes, false },
	{ "Connections", "connections", show_rate, false },
};

static void write_plots(const struct cluster *cluster, const struct told *told, FILE *out)
{
	struct plot *plot = calloc(1, sizeof(*plot));

	if (!plot)
		return;
	for (size_t p = 0; p < sizeof(node_plots) / sizeof(node_plots[0]); p++) {
		*plot = (struct plot){ .title = node_plots[p].title,
				       .show = node_plots[p].show,
				       .bytes = node_plots[p].show == show_bytes };
		for (unsigned i = 0; i < cluster->count; i++)
			add_values(plot, cluster->nodes[i].name, json_object_get(told[i].history, "at"),
				   json_object_get(told[i].history, node_plots[p].member), node_plots[p].rates);
		plot_write(plot, out);
	}
	*plot = (struct plot){ .title = "Reactors busy", .show = show_percent, .least_top = 100 };
	for (unsigned i = 0; i < cluster->count; i++)
		add_busy(plot, cluster->nodes[i].name, told[i].history);
	plot_write(plot, out);
	for (unsigned i = 0; i < cluster->count; i++) {
		const json_t *table;
		char title[64];
		size_t t;

		snprintf(title, sizeof(title), "Rows by table, %s", cluster->nodes[i].name);
		*plot = (struct plot){ .title = title, .show = show_rate };
		json_array_foreach(json_object_get(told[i].history, "tables"), t, table)
		{
			add_values(plot, text_of(table, "name"), json_object_get(told[i].history, "at"),
				   json_object_get(table, "rows"), false);
		}
		if (plot->count)
			plot_write(plot, out);
	}
	free(plot);
}

/* ---- tables ---- */

static void cell(const char *class, const char *text, FILE *out)
{
	fprintf(out, "<td class=\"%s\">", class);
	plot_text(text, out);
	fputs("</td>", out);
}

static void head(const char *const *titles, FILE *out)
{
	fputs("<table><tr>", out);
	for (; *titles; titles++)
		fprintf(out, "<th>%s</th>", *titles);
	fputs("</tr>\n", out);
}

static void write_node(const struct cluster_one *node, const struct told *told, FILE *out)
{
	const bool healthy = json_is_true(json_object_get(told->health, "healthy"));
	const json_t *list = json_object_get(told->health, healthy ? "notes" : "problems"), *sentence;
	char text[24];
	size_t i;

	fputs("<tr>", out);
	cell("", node->name, out);
	cell(healthy ? "good" : "bad", !told->status ? "does not answer" : healthy ? "ok" : "problems", out);
	cell("", told->status ? text_of(told->status, "version") : "", out);
	cell("n", told->status ? human_time(number(told->status, "uptime_s"), text) : "", out);
	fputs("<td>", out);
	plot_text(told->status ? text_of(told->health, "state") : node->why.text, out);
	json_array_foreach(list, i, sentence)
	{
		fputs("<br>", out);
		plot_text(json_string_value(sentence), out);
	}
	fputs("</td></tr>\n", out);
}

static void write_nodes(const struct cluster *cluster, const struct told *told, FILE *out)
{
	static const char *const titles[] = { "Node", "Health", "Version", "Up for", "", NULL };

	fputs("<h2>Nodes</h2>\n", out);
	head(titles, out);
	for (unsigned i = 0; i < cluster->count; i++)
		write_node(&cluster->nodes[i], &told[i], out);
	fputs("</table>\n", out);
}

static void write_latency(const struct cluster *cluster, const struct told *told, FILE *out)
{
	static const char *const titles[] = { "Node", "Class",	 "Keys",     "Requests", "Total p50",
					      "p99",  "longest", "Wait p99", "Run p99",	 NULL };

	fputs("<h2>How long requests took</h2>\n", out);
	head(titles, out);
	for (unsigned i = 0; i < cluster->count; i++) {
		const json_t *line;
		size_t k;

		json_array_foreach(json_object_get(told[i].latency, "all"), k, line)
		{
			const json_t *total = json_object_get(line, "total_us");
			char text[24];

			fputs("<tr>", out);
			cell("", cluster->nodes[i].name, out);
			cell("", text_of(line, "class"), out);
			cell("n", text_of(line, "keys"), out);
			cell("n", human_count(number(line, "requests"), text), out);
			cell("n", human_us(number(total, "p50"), text), out);
			cell("n", human_us(number(total, "p99"), text), out);
			cell("n", human_us(number(total, "max"), text), out);
			cell("n", human_us(number(json_object_get(line, "wait_us"), "p99"), text), out);
			cell("n", human_us(number(json_object_get(line, "run_us"), "p99"), text), out);
			fputs("</tr>\n", out);
		}
	}
	fputs("</table>\n", out);
}

static void write_hot(const struct cluster *cluster, const struct told *told, FILE *out)
{
	static const char *const titles[] = { "Node", "Table", "Key", "Share", NULL };

	fputs("<h2>Keys that are requested most</h2>\n", out);
	head(titles, out);
	for (unsigned i = 0; i < cluster->count; i++) {
		const json_t *line;
		size_t k;

		json_array_foreach(json_object_get(told[i].hot, "keys"), k, line)
		{
			char *key = json_dumps(json_object_get(line, "key"), JSON_ENCODE_ANY);
			char text[24];

			fputs("<tr>", out);
			cell("", cluster->nodes[i].name, out);
			cell("", text_of(line, "table"), out);
			cell("n", key ? key : "", out);
			snprintf(text, sizeof(text), "%.2f %%", number(line, "percent"));
			cell("n", text, out);
			fputs("</tr>\n", out);
			free(key);
		}
	}
	fputs("</table>\n", out);
}

static void write_events(const struct cluster *cluster, const struct told *told, FILE *out)
{
	static const char *const titles[] = { "When", "Node", "Level", "", NULL };

	fputs("<h2>What has happened in the last hour</h2>\n", out);
	head(titles, out);
	for (unsigned i = 0; i < cluster->count; i++) {
		const json_t *list = json_object_get(told[i].events, "events");
		const size_t n = json_array_size(list);

		for (size_t k = n > EVENTS_SHOWN ? n - EVENTS_SHOWN : 0; k < n; k++) {
			const json_t *event = json_array_get(list, k);

			fputs("<tr>", out);
			cell("", text_of(event, "at"), out);
			cell("", cluster->nodes[i].name, out);
			cell(strcmp(text_of(event, "level"), "info") ? "bad" : "", text_of(event, "level"), out);
			cell("", text_of(event, "text"), out);
			fputs("</tr>\n", out);
		}
	}
	fputs("</table>\n", out);
}

/* ---- the page ---- */

/* clang-format off: a line has whole rules */
static const char style[] =
	"body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1340px;padding:0 1em;color:#222}"
	"h1{font-size:1.5em;margin-bottom:0}h2{font-size:1.15em;margin-top:1.6em}"
	"table{border-collapse:collapse;font-size:.9em}"
	"th,td{padding:.25em .8em;text-align:left;border-bottom:1px solid #ddd;vertical-align:top}"
	"td.n{text-align:right;font-variant-numeric:tabular-nums}td.good{color:#00704f}"
	"td.bad{color:#b00020;font-weight:600}"
	".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:1em}"
	"figure{margin:0;border:1px solid #ddd;padding:.6em}figcaption{font-weight:600;font-size:.9em}"
	"svg{width:100%;height:auto}.legend svg{width:26px;height:10px}.legend{font-size:.8em}"
	".legend span{margin-right:1em;white-space:nowrap}.grid{stroke:#e4e4e4}text{font-size:11px;fill:#555}"
	".y{text-anchor:end}.x{text-anchor:middle}.none{color:#777;font-size:.9em}";
/* clang-format on */

static void write_page(const struct cluster *cluster, const struct told *told, FILE *out)
{
	const time_t now = time(NULL);
	char date[32] = "";
	struct tm parts;

	if (gmtime_r(&now, &parts))
		strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S UTC", &parts);
	fprintf(out,
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
		"content=\"width=device-width\"><title>StarServer, %s</title><style>%s</style></head><body>\n",
		date, style);
	fprintf(out, "<h1>StarServer: a cluster of %u PS task%s</h1>\n<p>As of %s; the last hour, by starctl %s.</p>\n",
		cluster->count, cluster->count == 1 ? "" : "s", date, STAR_VERSION);
	write_nodes(cluster, told, out);
	fputs("<h2>The last hour</h2>\n<div class=\"plots\">\n", out);
	write_plots(cluster, told, out);
	fputs("</div>\n", out);
	write_latency(cluster, told, out);
	write_hot(cluster, told, out);
	write_events(cluster, told, out);
	fputs("</body></html>\n", out);
	fflush(out);
}

static void ask_all(struct cluster *cluster, struct told *told)
{
	for (unsigned i = 0; i < cluster->count; i++) {
		struct told *t = &told[i];
		struct star_error why;

		t->status = cluster_ask(cluster, i, "status", NULL);
		why = cluster->nodes[i].why;
		t->health = cluster_ask(cluster, i, "health", NULL);
		t->history = cluster_ask(cluster, i, "history", NULL);
		t->latency = cluster_ask(cluster, i, "latency", NULL);
		t->hot = cluster_ask(cluster, i, "hot", json_pack("{s:i}", "limit", HOT_SHOWN));
		t->events = cluster_ask(cluster, i, "events", NULL);
		cluster->nodes[i].why = why; /* what it refuses is omitted */
	}
}

static json_t *told_json(const struct cluster *cluster, const struct told *told)
{
	json_t *nodes = json_array();

	for (unsigned i = 0; i < cluster->count; i++)
		json_array_append_new(nodes, json_pack("{s:s, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?}", "name",
						       cluster->nodes[i].name, "status", told[i].status, "health",
						       told[i].health, "history", told[i].history, "latency",
						       told[i].latency, "hot", told[i].hot, "events", told[i].events));
	return json_pack("{s:o}", "nodes", nodes);
}

int run_report(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	struct cluster cluster;
	struct told *told;
	unsigned missing;

	if (cluster_open(&cluster, invocation, true, &err) < 0)
		return fail(invocation, &err, STARCTL_FAILED);
	told = calloc(cluster.count, sizeof(*told));
	if (told)
		ask_all(&cluster, told);
	missing = cluster_complain(&cluster, invocation);
	if (told && invocation->json)
		print_json(told_json(&cluster, told), invocation->out);
	else if (told)
		write_page(&cluster, told, invocation->out);
	for (unsigned i = 0; told && i < cluster.count; i++) {
		json_decref(told[i].status);
		json_decref(told[i].health);
		json_decref(told[i].history);
		json_decref(told[i].latency);
		json_decref(told[i].hot);
		json_decref(told[i].events);
	}
	free(told);
	cluster_close(&cluster);
	return missing ? STARCTL_FAILED : STARCTL_OK;
}
