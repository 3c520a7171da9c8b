/* SPDX-License-Identifier: BSD-3-Clause */
/* How long requests took, the slowest ones, all of them as a trace, and the most requested keys. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/starctl/cluster_nodes.h"
#include "jsonrpc/member.h"
#include "recorder/file.h"

enum { SLOW_USUAL = 10, SLOW_SECONDS = 60 };

static const struct filter slow_filters[] = {
	{ "minutes", true }, { "reactor", true }, { "limit", true }, { NULL, false }
};

void print_slow_filters(FILE *out)
{
	print_filters(slow_filters, out);
}

static double real(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text && *text ? text : "-";
}

/* ---- latency ---- */

static void add_times(struct table *table, unsigned column, const json_t *line, const char *time)
{
	static const char *const quantiles[] = { "p50", "p99", "max" };
	char text[24];

	for (unsigned i = 0; i < 3; i++)
		table_set(table, column + i, "%s", human_us(real(json_object_get(line, time), quantiles[i]), text));
}

static void render_lines(const json_t *lines, const char *first_title, const char *first, FILE *out)
{
	static const char *const titles[] = { "TOTAL p50", "p99",     "max", "WAIT p50", "p99",
					      "max",	   "RUN p50", "p99", "max" };
	const json_t *line;
	struct table table;
	size_t i;

	table_init(&table);
	table_column(&table, "CLASS", false);
	table_column(&table, first_title, true);
	table_column(&table, "REQUESTS", true);
	for (i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
		table_column(&table, titles[i], true);
	json_array_foreach(lines, i, line)
	{
		const json_t *which = json_object_get(line, first);

		table_row(&table);
		table_set(&table, 0, "%s", text_of(line, "class"));
		if (json_is_integer(which))
			table_set(&table, 1, "%" JSON_INTEGER_FORMAT, json_integer_value(which));
		else
			table_set(&table, 1, "%s", text_of(line, first));
		table_set(&table, 2, "%.0f", real(line, "requests"));
		add_times(&table, 3, line, "total_us");
		add_times(&table, 6, line, "wait_us");
		add_times(&table, 9, line, "run_us");
	}
	table_print(&table, out);
	table_fini(&table);
}

static void render_latency(const json_t *latency, FILE *out)
{
	if (json_array_size(json_object_get(latency, "all")) == 0) {
		fputs("no requests\n", out);
		return;
	}
	render_lines(json_object_get(latency, "all"), "KEYS", "keys", out);
	fputc('\n', out);
	render_lines(json_object_get(latency, "reactors"), "REACTOR", "reactor", out);
}

int run_latency(const struct invocation *invocation)
{
	static const struct filter filters[] = { { "seconds", true }, { NULL, false } };
	struct star_error err = { 0 };
	json_t *params = take_filters(filters, "seconds=N", invocation->argc, invocation->argv, &err);

	return params ? show(invocation, "latency", params, render_latency) : fail(invocation, &err, STARCTL_USAGE);
}

/* ---- slow ---- */

static void render_slow(const json_t *slow, FILE *out)
{
	const json_t *request, *why;
	char total[24], wait[24], run[24];
	size_t i, k;

	fprintf(out, "%.0f requests are recorded", real(slow, "looked_at"));
	fputs(json_array_size(json_object_get(slow, "requests")) ? "; the slowest of them:\n" : ", none of that time\n",
	      out);
	json_array_foreach(json_object_get(slow, "requests"), i, request)
	{
		fprintf(out, "%s: %s of %.0f keys", human_us(real(request, "total_us"), total),
			text_of(request, "class"), real(request, "keys"));
		if (strcmp(text_of(request, "table"), "-") != 0) {
			fputs(" of ", out);
			print_text(text_of(request, "table"), out);
		}
		fprintf(out, ", from %s, %.1f s ago, ", text_of(request, "peer"), real(request, "ago_s"));
		if (json_object_get(request, "node"))
			fprintf(out, "%s, ", text_of(request, "node"));
		fprintf(out, "reactor %.0f: waited %s, executed %s; ", real(request, "reactor"),
			human_us(real(request, "wait_us"), wait), human_us(real(request, "run_us"), run));
		print_text(text_of(request, "status"), out);
		fputc('\n', out);
		json_array_foreach(json_object_get(request, "why"), k, why)
		{
			fputs("    ", out);
			print_text(json_string_value(why), out);
			fputc('\n', out);
		}
	}
}

/* The node that wrote a file, and why. */
static json_t *file_json(const struct recorder_file *file)
{
	const time_t written = (time_t)file->written_s;
	char text[32] = "?", why[64];
	struct tm parts;

	if (gmtime_r(&written, &parts))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
	if (file->stuck >= 0)
		snprintf(why, sizeof(why), "reactor %d was stuck", file->stuck);
	else
		snprintf(why, sizeof(why), "SIG%s", sigabbrev_np(file->signal) ? sigabbrev_np(file->signal) : "?");
	return json_pack("{s:s, s:I, s:s, s:s}", "node", file->node, "incarnation", (json_int_t)file->incarnation,
			 "written", text, "why", why);
}

static void render_left(const json_t *slow, FILE *out)
{
	const json_t *left = json_object_get(slow, "left_by");

	print_text(text_of(left, "node"), out);
	fprintf(out, " wrote these records at %s: ", text_of(left, "written"));
	print_text(text_of(left, "why"), out);
	fputs(".\n", out);
	render_slow(slow, out);
}

/* ---- of all nodes ---- */

static const char *sorts_by;

static int by_member(const void *a, const void *b)
{
	const double x = real(*(json_t *const *)a, sorts_by), y = real(*(json_t *const *)b, sorts_by);

	return x > y ? -1 : x < y;
}

/* Keeps the first of a list, sorted by a member, the largest first; steals the list. */
static json_t *first_of(json_t *list, const char *member, size_t limit)
{
	const size_t n = json_array_size(list);
	json_t **lines = calloc(n + 1, sizeof(*lines)), *sorted = json_array();

	for (size_t i = 0; lines && i < n; i++)
		lines[i] = json_array_get(list, i);
	sorts_by = member;
	if (lines)
		qsort(lines, n, sizeof(*lines), by_member);
	for (size_t i = 0; lines && i < n && i < limit; i++)
		json_array_append(sorted, lines[i]);
	free(lines);
	json_decref(list);
	return sorted;
}

static void append_named(json_t *to, const json_t *lines, const char *node)
{
	json_t *line;
	size_t i;

	json_array_foreach(lines, i, line)
	{
		json_object_set_new(line, "node", json_string(node));
		json_array_append(to, line);
	}
}

/* Queries all nodes of the cluster; steals params. Merges the lists of that name, and adds the counts. */
static int show_all(const struct invocation *invocation, const char *method, json_t *params, const char *const *counts,
		    const char *const *lists, const char *sort, void (*finish)(json_t *all),
		    void (*render)(const json_t *, FILE *))
{
	const json_t *given = json_object_get(params, "limit");
	const size_t limit = given ? (size_t)json_integer_value(given) : SLOW_USUAL;
	struct star_error err = { 0 };
	json_t *all = json_object();
	struct cluster cluster;
	unsigned missing;

	if (cluster_open(&cluster, invocation, true, &err) < 0) {
		json_decref(params);
		json_decref(all);
		return fail(invocation, &err, STARCTL_FAILED);
	}
	for (const char *const *list = lists; *list; list++)
		json_object_set_new(all, *list, json_array());
	for (unsigned i = 0; i < cluster.count; i++) {
		json_t *one = cluster_ask(&cluster, i, method, json_deep_copy(params));

		for (const char *const *count = counts; one && *count; count++)
			json_object_set_new(all, *count, json_real(real(all, *count) + real(one, *count)));
		for (const char *const *list = lists; *list; list++)
			append_named(json_object_get(all, *list), json_object_get(one, *list), cluster.nodes[i].name);
		json_decref(one);
	}
	json_decref(params);
	for (const char *const *list = lists; *list; list++)
		json_object_set_new(all, *list, first_of(json_incref(json_object_get(all, *list)), sort, limit));
	if (finish)
		finish(all);
	missing = cluster_complain(&cluster, invocation);
	cluster_close(&cluster);
	print(invocation, all, render);
	return missing ? STARCTL_FAILED : STARCTL_OK;
}

static int show_slow_of_all(const struct invocation *invocation, json_t *params)
{
	static const char *const counts[] = { "looked_at", NULL }, *const lists[] = { "requests", NULL };

	return show_all(invocation, "slow", params, counts, lists, "total_us", NULL, render_slow);
}

static uint32_t member_or(const json_t *params, const char *name, uint32_t otherwise)
{
	const json_t *member = json_object_get(params, name);

	return member ? (uint32_t)json_integer_value(member) : otherwise;
}

/* Uses the file that a node has left, instead of querying one. Steals params. */
static int show_left(const struct invocation *invocation, json_t *params)
{
	const struct recorder_slow which = { .reactor = (int)member_or(params, "reactor", UINT32_MAX),
					     .limit = member_or(params, "limit", SLOW_USUAL),
					     .seconds = member_or(params, "seconds", SLOW_SECONDS) };
	struct star_error err = { 0 };
	struct recorder_file *file = recorder_open(invocation->records, &err);
	json_t *slow = file ? recorder_slow(&file->recorder, &which) : NULL;

	json_decref(params);
	if (file && !slow)
		star_error_set(&err, -ENOMEM, "out of memory");
	if (slow)
		json_object_set_new(slow, "left_by", file_json(file));
	recorder_close(file);
	return slow ? print(invocation, slow, render_left) : fail(invocation, &err, STARCTL_FAILED);
}

int run_slow(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	json_t *params = take_filters(slow_filters, "minutes=N, reactor=N and limit=N", invocation->argc,
				      invocation->argv, &err);
	const json_t *minutes = params ? json_object_get(params, "minutes") : NULL;

	if (!params)
		return fail(invocation, &err, STARCTL_USAGE);
	if (minutes) {
		json_object_set_new(params, "seconds", json_integer(60 * json_integer_value(minutes)));
		json_object_del(params, "minutes");
	}
	if (invocation->records)
		return show_left(invocation, params);
	return invocation->cluster ? show_slow_of_all(invocation, params)
				   : show(invocation, "slow", params, render_slow);
}

/* ---- trace ---- */

struct trace {
	const struct invocation *invocation;
	struct jsonrpc_client *client; /* or */
	struct recorder_file *file;
	FILE *out;
	json_t *peers; /* for the current reactor: numbers of tracks by address */
	int reactors;
	bool begun;
	unsigned long long written;
};

/* Steals json. */
static void put_event(struct trace *trace, json_t *event)
{
	fputs(trace->begun ? ",\n" : "[\n", trace->out);
	trace->begun = true;
	json_dumpf(event, trace->out, JSON_COMPACT | JSON_REAL_PRECISION(17));
	json_decref(event);
}

static void put_name(struct trace *trace, const char *of, int reactor, json_int_t track, const char *name)
{
	put_event(trace, json_pack("{s:s, s:s, s:i, s:I, s:{s:s}}", "ph", "M", "name", of, "pid", reactor, "tid", track,
				   "args", "name", name));
}

/* The track of a connection. */
static json_int_t track_of(struct trace *trace, int reactor, const char *peer)
{
	json_t *track = json_object_get(trace->peers, peer);

	if (!track) {
		track = json_integer((json_int_t)json_object_size(trace->peers) + 1);
		json_object_set_new(trace->peers, peer, track);
		put_name(trace, "thread_name", reactor, json_integer_value(track),
			 *peer ? peer : "connections that have ended");
	}
	return json_integer_value(track);
}

/* Two events: its execution, on its connection's track; and its wait. */
static void put_record(struct trace *trace, int reactor, const json_t *record)
{
	json_int_t arrived, wait, run, total, track;
	const char *class, *table, *peer, *status;
	int keys, slices;
	char name[512];
	double at;

	if (json_unpack((json_t *)record, "[I, I, I, I, s, s, i, s, s, i]", &arrived, &wait, &run, &total, &class,
			&table, &keys, &peer, &status, &slices) < 0)
		return;
	track = track_of(trace, reactor, peer);
	at = (double)arrived / 1e3;
	snprintf(name, sizeof(name), "%s %.300s", class, table);
	put_event(trace, json_pack("{s:s, s:s, s:s, s:i, s:I, s:f, s:f, s:{s:i, s:f, s:f, s:f, s:i, s:s}}", "ph", "X",
				   "cat", "request", "name", name, "pid", reactor, "tid", track, "ts",
				   at + (double)wait / 1e3, "dur", (double)(total > wait ? total - wait : 0) / 1e3,
				   "args", "keys", keys, "wait_us", (double)wait / 1e3, "run_us", (double)run / 1e3,
				   "total_us", (double)total / 1e3, "slices", slices, "status", status));
	trace->written++;
	if (wait == 0)
		return;
	for (unsigned end = 0; end < 2; end++)
		put_event(trace, json_pack("{s:s, s:s, s:s, s:i, s:I, s:I, s:f}", "ph", end ? "e" : "b", "cat", "wait",
					   "name", "wait", "pid", reactor, "tid", track, "id",
					   (json_int_t)trace->written, "ts", at + (end ? (double)wait / 1e3 : 0)));
}

static json_t *ask_page(struct trace *trace, int reactor, json_int_t from, struct star_error *err)
{
	json_t *page;

	if (!trace->file)
		return jsonrpc_call(trace->client, "trace",
				    json_pack("{s:i, s:o}", "reactor", reactor, "from",
					      jsonrpc_member_from_u64((uint64_t)from)),
				    STARCTL_WAIT_US, err);
	page = recorder_trace(&trace->file->recorder, (unsigned)reactor, (uint64_t)from);
	if (!page)
		star_error_set(err, -ENOMEM, "out of memory");
	return page;
}

/* All available records of a reactor; those that are added meanwhile are omitted. */
static int trace_reactor(struct trace *trace, int reactor, struct star_error *err)
{
	enum { PAGES_MAX = 64 };
	json_int_t from = 0;
	char name[32];
	size_t count = 1;

	snprintf(name, sizeof(name), "reactor %d", reactor);
	put_name(trace, "process_name", reactor, 0, name);
	for (unsigned page = 0; count && page < PAGES_MAX; page++) {
		json_t *reply = ask_page(trace, reactor, from, err);
		const json_t *record;
		size_t i;

		if (!reply)
			return err->code;
		trace->reactors = (int)json_integer_value(json_object_get(reply, "reactors"));
		from = json_integer_value(json_object_get(reply, "next"));
		json_array_foreach(json_object_get(reply, "records"), i, record)
		{
			put_record(trace, reactor, record);
		}
		count = i;
		json_decref(reply);
	}
	return 0;
}

static int write_trace(struct trace *trace, struct star_error *err)
{
	int rc = 0;

	trace->reactors = 1;
	for (int reactor = 0; rc >= 0 && reactor < trace->reactors; reactor++) {
		trace->peers = json_object();
		rc = trace_reactor(trace, reactor, err);
		json_decref(trace->peers);
	}
	if (rc >= 0)
		fputs("\n]\n", trace->out);
	return rc;
}

int run_trace(const struct invocation *invocation)
{
	const char *name = invocation->argc && strcmp(invocation->argv[0], "-") != 0 ? invocation->argv[0] : NULL;
	struct trace trace = { .invocation = invocation, .out = invocation->out };
	struct star_error err = { 0 };
	int rc;

	if (invocation->records)
		trace.file = recorder_open(invocation->records, &err);
	else
		trace.client = open_node(invocation, true, &err);
	if (!trace.client && !trace.file)
		return fail(invocation, &err, STARCTL_FAILED);
	if (name)
		trace.out = fopen(name, "w");
	if (trace.out)
		rc = write_trace(&trace, &err);
	else
		rc = star_error_set(&err, -errno, "%s cannot be written: %s", name, strerror(errno));
	recorder_close(trace.file);
	jsonrpc_close(trace.client);
	if (!trace.out)
		return fail(invocation, &err, STARCTL_FAILED);
	if (name && fclose(trace.out) != 0 && rc >= 0)
		rc = star_error_set(&err, -errno, "%s cannot be written: %s", name, strerror(errno));
	if (rc < 0)
		return fail(invocation, &err, STARCTL_FAILED);
	if (name && invocation->json)
		print_json(json_pack("{s:s, s:I}", "file", name, "requests", (json_int_t)trace.written),
			   invocation->out);
	else if (name)
		fprintf(invocation->out, "%llu requests in %s: open it in Perfetto or chrome://tracing\n",
			trace.written, name);
	return STARCTL_OK;
}

/* ---- hot ---- */

/* A reactor, and its node if there are several. */
static void set_place(struct table *table, unsigned column, const json_t *line)
{
	if (json_object_get(line, "node"))
		table_set(table, column, "%s/%.0f", text_of(line, "node"), real(line, "reactor"));
	else
		table_set(table, column, "%.0f", real(line, "reactor"));
}

/* Shares of all samples, each weighted by the keys for which it stands. */
static void share_among_all(json_t *hot)
{
	static const char *const lists[] = { "keys", "partitions" };
	const double keys_a_sample = 64.5, of = real(hot, "of_keys") / keys_a_sample;

	for (unsigned l = 0; l < 2; l++) {
		json_t *line;
		size_t i;

		json_array_foreach(json_object_get(hot, lists[l]), i, line)
		{
			json_object_set_new(line, "percent", json_real(of > 0 ? 100 * real(line, "samples") / of : 0));
		}
	}
}

static void render_hot(const json_t *hot, FILE *out)
{
	const json_t *line;
	struct table table;
	size_t i;

	fprintf(out, "%.0f samples, of the last %.0f keys of requests\n\n", real(hot, "samples"), real(hot, "of_keys"));
	table_init(&table);
	table_column(&table, "TABLE", false);
	table_column(&table, "KEY", true);
	table_column(&table, "REACTOR", true);
	table_column(&table, "SHARE", true);
	json_array_foreach(json_object_get(hot, "keys"), i, line)
	{
		const json_t *key = json_object_get(line, "key");

		table_row(&table);
		table_set(&table, 0, "%s", text_of(line, "table"));
		if (json_is_string(key))
			table_set(&table, 1, "%s", json_string_value(key));
		else
			table_set(&table, 1, "%" JSON_INTEGER_FORMAT, json_integer_value(key));
		set_place(&table, 2, line);
		table_set(&table, 3, "%.2f %%", real(line, "percent"));
	}
	table_print(&table, out);
	table_fini(&table);
	fputc('\n', out);
	table_init(&table);
	table_column(&table, "PARTITION", true);
	table_column(&table, "REACTOR", true);
	table_column(&table, "SHARE", true);
	json_array_foreach(json_object_get(hot, "partitions"), i, line)
	{
		table_row(&table);
		table_set(&table, 0, "%.0f", real(line, "partition"));
		set_place(&table, 1, line);
		table_set(&table, 2, "%.2f %%", real(line, "percent"));
	}
	table_print(&table, out);
	table_fini(&table);
}

int run_hot(const struct invocation *invocation)
{
	static const char *const counts[] = { "samples", "of_keys", NULL }, *const lists[] = { "keys", "partitions",
											       NULL };
	static const struct filter filters[] = { { "limit", true }, { NULL, false } };
	struct star_error err = { 0 };
	json_t *params = take_filters(filters, "limit=N", invocation->argc, invocation->argv, &err);

	if (!params)
		return fail(invocation, &err, STARCTL_USAGE);
	return invocation->cluster
		       ? show_all(invocation, "hot", params, counts, lists, "samples", share_among_all, render_hot)
		       : show(invocation, "hot", params, render_hot);
}
