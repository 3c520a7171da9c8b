/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses a graph's text: statements. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text_internal.h"

/* A node while it is parsed. */
struct statement {
	struct graph_node_spec spec;
	struct graph_value inputs[GRAPH_INPUTS_MAX];
	struct graph_attr attrs[GRAPH_ATTRS_MAX];
	char name[TEXT_NAME_MAX + 1], device[TEXT_NAME_MAX + 1];
	struct block *blocks;
};

static bool read_body(struct reader *r, struct graph *graph);

/* Reads the name of a node that is already defined; NULL: failed. */
static const struct graph_node *read_reference(struct reader *r, const struct graph *graph)
{
	const struct graph_node *node;
	char name[TEXT_NAME_MAX + 1];

	graph_reader_skip(r, true);
	if (!graph_reader_name(r, name, "the name of a node"))
		return NULL;
	node = graph_find(graph, name);
	if (!node)
		graph_reader_fail(r, "no node \"%s\" is defined before this line", name);
	return node;
}

/* "name" or "name:1" */
static bool read_value(struct reader *r, const struct graph *graph, struct graph_value *value)
{
	const struct graph_node *node = read_reference(r, graph);
	int64_t output = 0;

	if (!node)
		return false;
	if (graph_reader_take(r, ':', false) && !graph_reader_int(r, &output))
		return false;
	if (output < 0 || output >= node->outputs_count)
		return graph_reader_fail(r, "node \"%s\" has %u outputs, not an output %lld", node->name,
					 node->outputs_count, (long long)output);
	*value = (struct graph_value){ node->id, (uint32_t)output };
	return true;
}

/* Reads values up to the end of the list, at least one. */
static bool read_values(struct reader *r, const struct graph *graph, struct graph_value *values, uint32_t most,
			uint32_t *count)
{
	do {
		if (*count == most)
			return graph_reader_fail(r, "there are more than %u values", most);
		if (!read_value(r, graph, &values[(*count)++]))
			return false;
	} while (graph_reader_take(r, ',', false));
	return true;
}

static bool read_inputs(struct reader *r, const struct graph *graph, struct statement *s)
{
	if (!graph_reader_want(r, '(', false))
		return false;
	if (graph_reader_take(r, ')', true))
		return true;
	return read_values(r, graph, s->inputs, GRAPH_INPUTS_MAX, &s->spec.inputs_count) &&
	       graph_reader_want(r, ')', true);
}

static bool read_controls(struct reader *r, const struct graph *graph, struct statement *s)
{
	uint32_t *controls = NULL, room = 0, count = 0;

	do {
		const struct graph_node *node = read_reference(r, graph);

		if (!node)
			return false;
		if (count == room) {
			uint32_t *more = graph_reader_memory(r, &s->blocks, (2 * (size_t)room + 4) * sizeof(*more));

			if (!more)
				return false;
			if (count)
				memcpy(more, controls, count * sizeof(*more));
			controls = more;
			room = 2 * room + 4;
		}
		controls[count++] = node->id;
	} while (graph_reader_take(r, ',', true));
	s->spec.controls = controls;
	s->spec.controls_count = count;
	return graph_reader_want(r, ')', true);
}

static bool read_attr(struct reader *r, struct statement *s, const char *name)
{
	struct graph_attr *attr = &s->attrs[s->spec.attrs_count];
	char *kept;

	if (s->spec.attrs_count == GRAPH_ATTRS_MAX)
		return graph_reader_fail(r, "there are more than %d attributes", GRAPH_ATTRS_MAX);
	kept = graph_reader_memory(r, &s->blocks, strlen(name) + 1);
	if (!kept)
		return false;
	strcpy(kept, name);
	attr->name = kept;
	s->spec.attrs_count++;
	return graph_reader_attr(r, attr, &s->blocks);
}

/* "@/job:ps/task:0": devices have colons, which names do not. */
static bool read_device(struct reader *r, struct statement *s)
{
	size_t n = 0;

	while (r->at + n < r->end && !strchr(" \t\r\n{#", r->at[n]) && n < sizeof(s->device) - 1)
		n++;
	if (n == 0 || s->spec.device)
		return graph_reader_expected(r, n ? "one device" : "a device");
	memcpy(s->device, r->at, n);
	s->device[n] = 0;
	s->spec.device = s->device;
	r->at += n;
	return true;
}

/* Attributes, device, control edges, in any order. */
static bool read_details(struct reader *r, const struct graph *graph, struct statement *s)
{
	char name[TEXT_NAME_MAX + 1];

	for (;;) {
		graph_reader_skip(r, false);
		if (r->at == r->end || *r->at == '\n' || *r->at == '{' || *r->at == '}')
			return true;
		if (*r->at == '@') {
			r->at++;
			if (!read_device(r, s))
				return false;
			continue;
		}
		if (!graph_reader_name(r, name, "an attribute, '@' or \"after\""))
			return false;
		if (graph_reader_take(r, '=', false)) {
			if (!read_attr(r, s, name))
				return false;
		} else if (strcmp(name, "after") != 0 || s->spec.controls || !graph_reader_take(r, '(', false)) {
			return graph_reader_expected(r, "'=' after the name of an attribute");
		} else if (!read_controls(r, graph, s)) {
			return false;
		}
	}
}

/* "{ cond { ... } body { ... } }", or "then" and "else". */
static bool read_bodies(struct reader *r, struct graph *graph, struct statement *s)
{
	const bool loop = s->spec.op == GRAPH_WHILE;
	const char *const first = loop ? "body" : "then", *const second = loop ? "cond" : "else";
	char name[TEXT_NAME_MAX + 1];

	if (!graph_reader_want(r, '{', false))
		return false;
	while (!graph_reader_take(r, '}', true)) {
		struct graph **place, *body;

		if (!graph_reader_name(r, name, loop ? "cond, body or '}'" : "then, else or '}'"))
			return false;
		place = strcmp(name, first) == 0 ? &s->spec.body : strcmp(name, second) == 0 ? &s->spec.cond : NULL;
		if (!place || *place)
			return graph_reader_fail(r, "expected %s and %s, each once, not \"%s\"", first, second, name);
		body = graph_body_create(graph, NULL, 0);
		*place = body;
		if (!body)
			return graph_reader_fail(r, "%s", graph->err.text);
		if (!graph_reader_want(r, '{', false) || !read_body(r, body))
			return false;
	}
	return true;
}

static bool read_node(struct reader *r, struct graph *graph, struct statement *s)
{
	const char *start = r->at, *line_start = r->line_start;
	const unsigned line = r->line;
	char op[TEXT_NAME_MAX + 1];

	graph_reader_skip(r, false);
	if (!graph_reader_name(r, op, "an operation"))
		return false;
	s->spec.op = graph_op_parse(op);
	if (s->spec.op == GRAPH_NO_OP)
		return graph_reader_fail(r, "there is no operation \"%s\"", op);
	if (!read_inputs(r, graph, s) || !read_details(r, graph, s))
		return false;
	if ((s->spec.op == GRAPH_WHILE || s->spec.op == GRAPH_COND) && !read_bodies(r, graph, s))
		return false;
	if (++r->nodes > GRAPH_NODES_MAX)
		return graph_reader_fail(r, "there are more than %d nodes", GRAPH_NODES_MAX);
	if (!graph_is_none(graph_add(graph, &s->spec)))
		return true;
	r->at = start; /* the error is about the node, not its end */
	r->line_start = line_start;
	r->line = line;
	return graph_reader_fail(r, "%s", graph->err.text);
}

static bool read_results(struct reader *r, struct graph *graph)
{
	struct graph_value *values = calloc(GRAPH_NODES_MAX, sizeof(*values));
	uint32_t count = 0;
	bool ok = values || graph_reader_fail(r, "out of memory");

	ok = ok && read_values(r, graph, values, GRAPH_NODES_MAX, &count);
	if (ok && graph->results_count)
		ok = graph_reader_fail(r, "a graph may have one line of results only");
	if (ok && graph_set_results(graph, values, count) < 0)
		ok = graph_reader_fail(r, "%s", graph->err.text);
	free(values);
	return ok;
}

static bool read_statement(struct reader *r, struct graph *graph)
{
	struct statement s = { 0 };
	bool ok;

	if (!graph_reader_name(r, s.name, "the name of a node, or results"))
		return false;
	s.spec.name = s.name;
	s.spec.inputs = s.inputs;
	s.spec.attrs = s.attrs;
	if (graph_reader_take(r, '=', false))
		ok = read_node(r, graph, &s);
	else if (strcmp(s.name, "results") == 0)
		ok = read_results(r, graph);
	else
		ok = graph_reader_expected(r, "'=' after the name of a node");
	for (struct block *next; s.blocks; s.blocks = next) {
		next = s.blocks->next;
		free(s.blocks);
	}
	graph_reader_skip(r, false);
	return ok && (r->at == r->end || *r->at == '}' || graph_reader_want(r, '\n', false));
}

/* Reads statements up to and including '}'. */
static bool read_body(struct reader *r, struct graph *graph)
{
	while (!graph_reader_take(r, '}', true))
		if (!read_statement(r, graph))
			return false;
	return true;
}

static bool read_version(struct reader *r)
{
	char name[TEXT_NAME_MAX + 1];
	int64_t version;

	graph_reader_skip(r, true);
	if (!graph_reader_name(r, name, "\"star 1\""))
		return false;
	if (strcmp(name, "star") != 0)
		return graph_reader_fail(r, "a graph must begin with \"star %d\"", GRAPH_TEXT_VERSION);
	if (!graph_reader_int(r, &version))
		return false;
	if (version != GRAPH_TEXT_VERSION)
		return graph_reader_fail(r, "version %lld is not supported; the only version is %d", (long long)version,
					 GRAPH_TEXT_VERSION);
	return graph_reader_want(r, '\n', false);
}

struct graph *graph_parse(const char *text, size_t bytes, const char *file, struct star_error *err)
{
	struct reader r = { .at = text, .end = text + bytes, .line_start = text, .file = file, .line = 1, .err = err };
	struct graph *graph;
	bool ok;

	if (bytes > GRAPH_TEXT_MAX) {
		star_error_set(err, -EFBIG, "%s: the text has more than %d MiB", file, GRAPH_TEXT_MAX >> 20);
		return NULL;
	}
	graph = graph_create();
	if (!graph) {
		star_error_set(err, -ENOMEM, "%s: out of memory", file);
		return NULL;
	}
	ok = read_version(&r);
	while (ok) {
		graph_reader_skip(&r, true);
		if (r.at == r.end)
			return graph;
		ok = read_statement(&r, graph);
	}
	graph_destroy(graph);
	return NULL;
}

struct graph *graph_load(const char *path, struct star_error *err)
{
	FILE *file = fopen(path, "re");
	struct graph *graph = NULL;
	char *text = NULL;
	size_t bytes = 0, room = 0;

	if (!file) {
		star_error_set(err, -errno, "%s: %s", path, strerror(errno));
		return NULL;
	}
	while (!feof(file) && !ferror(file) && bytes <= GRAPH_TEXT_MAX) {
		char *more = bytes == room ? realloc(text, room = 2 * room + 65536) : text;

		if (!more) {
			errno = ENOMEM;
			goto fail;
		}
		text = more;
		bytes += fread(text + bytes, 1, room - bytes, file);
	}
	if (ferror(file))
		goto fail;
	graph = graph_parse(text, bytes, path, err);
	free(text);
	fclose(file);
	return graph;
fail:
	star_error_set(err, -(errno ? errno : EIO), "%s: %s", path, strerror(errno ? errno : EIO));
	free(text);
	fclose(file);
	return NULL;
}
