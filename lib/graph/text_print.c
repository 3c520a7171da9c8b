/* SPDX-License-Identifier: BSD-3-Clause */
/* A graph as text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/text.h"

/* Tensors of up to this many elements are written as numbers, larger ones as hexadecimal digits. */
enum { NUMBERS_MAX = 64 };

/* The shortest decimal form that reads back as the same double. */
static void put_double(FILE *out, double value, const char *if_whole)
{
	char text[40];

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	fputs(isnan(value) ? "nan" : text, out);
	if (!strpbrk(text, ".en")) /* not for inf and nan */
		fputs(if_whole, out);
}

static void put_float(FILE *out, float value)
{
	char text[40];

	for (int digits = 6; digits <= 9; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, (double)value);
		if (strtof(text, NULL) == value)
			break;
	}
	fputs(text, out);
}

static void put_string(FILE *out, const char *text)
{
	putc('"', out);
	for (; *text; text++) {
		const unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < ' ' || c > '~')
			fprintf(out, "\\x%02x", c);
		else
			putc(c, out);
	}
	putc('"', out);
}

static void put_ints(FILE *out, const int64_t *ints, uint32_t count)
{
	putc('[', out);
	for (uint32_t i = 0; i < count; i++)
		fprintf(out, "%s%lld", i ? ", " : "", (long long)ints[i]);
	putc(']', out);
}

static void put_element(FILE *out, unsigned dtype, const void *data, uint64_t i)
{
	if (dtype == STAR_FLOAT32)
		put_float(out, ((const float *)data)[i]);
	else if (dtype == STAR_FLOAT64)
		put_double(out, ((const double *)data)[i], "");
	else if (dtype == STAR_INT32)
		fprintf(out, "%d", ((const int32_t *)data)[i]);
	else
		fprintf(out, "%lld", (long long)((const int64_t *)data)[i]);
}

/* Whether it is written as numbers: small, and without NaNs, whose bits would be lost. */
static bool as_numbers(unsigned dtype, const void *data, uint64_t count)
{
	if (count > NUMBERS_MAX)
		return false;
	for (uint64_t i = 0; i < count; i++)
		if ((dtype == STAR_FLOAT32 && isnan(((const float *)data)[i])) ||
		    (dtype == STAR_FLOAT64 && isnan(((const double *)data)[i])))
			return false;
	return true;
}

static void put_tensor(FILE *out, const struct graph_attr *attr)
{
	const unsigned dtype = attr->type.dtype;
	const uint64_t count = (uint64_t)graph_elements(&attr->type.shape), bytes = graph_type_bytes(&attr->type);

	fputs(dtype_name(dtype), out);
	put_ints(out, attr->type.shape.dims, attr->type.shape.ndim);
	if (as_numbers(dtype, attr->data, count)) {
		putc('{', out);
		for (uint64_t i = 0; i < count; i++) {
			fputs(i ? ", " : "", out);
			put_element(out, dtype, attr->data, i);
		}
		putc('}', out);
		return;
	}
	putc('<', out);
	for (uint64_t i = 0; i < bytes; i++)
		fprintf(out, "%02x", ((const uint8_t *)attr->data)[i]);
	putc('>', out);
}

static void put_attr(FILE *out, const struct graph_attr *attr)
{
	fprintf(out, " %s=", attr->name);
	switch (attr->kind) {
	case GRAPH_INT:
		fprintf(out, "%lld", (long long)attr->i);
		break;
	case GRAPH_FLOAT:
		put_double(out, attr->f, ".0");
		break;
	case GRAPH_STRING:
		put_string(out, attr->s);
		break;
	case GRAPH_INTS:
		put_ints(out, attr->ints, attr->ints_count);
		break;
	case GRAPH_TENSOR:
		put_tensor(out, attr);
		break;
	}
}

static void put_values(FILE *out, const struct graph *graph, const struct graph_value *values, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		fprintf(out, "%s%s", i ? ", " : "", graph->nodes[values[i].node]->name);
		if (values[i].output)
			fprintf(out, ":%u", values[i].output);
	}
}

/* Where a node is goes without saying if it is where its variable or table is. */
static bool says_device(const struct graph *graph, const struct graph_node *node)
{
	const bool has_handle = node->inputs_count && graph_type(graph, node->inputs[0])->dtype == 0;

	return node->device.job != GRAPH_UNPLACED && !has_handle;
}

static void put_graph(FILE *out, const struct graph *graph, int indent);

static void put_body(FILE *out, const char *what, const struct graph *body, int indent)
{
	fprintf(out, "%*s%s {\n", indent, "", what);
	put_graph(out, body, indent + 2);
	fprintf(out, "%*s}\n", indent, "");
}

static void put_node(FILE *out, const struct graph *graph, const struct graph_node *node, int indent)
{
	char device[GRAPH_DEVICE_TEXT];

	fprintf(out, "%*s%s = %s(", indent, "", node->name, graph_op_name(node->op));
	put_values(out, graph, node->inputs, node->inputs_count);
	putc(')', out);
	for (uint32_t i = 0; i < node->attrs_count; i++)
		put_attr(out, &node->attrs[i]);
	if (says_device(graph, node))
		fprintf(out, " @%s", graph_device_text(node->device, device));
	for (uint32_t i = 0; i < node->controls_count; i++)
		fprintf(out, "%s%s%s", i ? ", " : " after(", graph->nodes[node->controls[i]]->name,
			i + 1 == node->controls_count ? ")" : "");
	if (node->op != GRAPH_WHILE && node->op != GRAPH_COND) {
		putc('\n', out);
		return;
	}
	fputs(" {\n", out);
	if (node->op == GRAPH_WHILE)
		put_body(out, "cond", node->cond, indent + 2);
	put_body(out, node->op == GRAPH_WHILE ? "body" : "then", node->body, indent + 2);
	if (node->op == GRAPH_COND)
		put_body(out, "else", node->cond, indent + 2);
	fprintf(out, "%*s}\n", indent, "");
}

/* Bodies are at most GRAPH_DEPTH_MAX deep. */
static void put_graph(FILE *out, const struct graph *graph, int indent)
{
	for (uint32_t i = 0; i < graph->nodes_count; i++)
		put_node(out, graph, graph->nodes[i], indent);
	if (graph->results_count) {
		fprintf(out, "%*sresults ", indent, "");
		put_values(out, graph, graph->results, graph->results_count);
		putc('\n', out);
	}
}

char *graph_print(const struct graph *graph)
{
	char *text = NULL;
	size_t bytes;
	FILE *out;

	if (graph->err.code)
		return NULL;
	out = open_memstream(&text, &bytes);
	if (!out)
		return NULL;
	fprintf(out, "star %d\n", GRAPH_TEXT_VERSION);
	put_graph(out, graph, 0);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}
