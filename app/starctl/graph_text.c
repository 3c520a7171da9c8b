/* SPDX-License-Identifier: BSD-3-Clause */
/* A cut as text: the cost of a step, and then, wave by wave, what is executed where. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "app/starctl/graph.h"
#include "offload/cut.h"

enum { LABEL_WIDTH = 12, SENT_TEXT = 48 };

/* A list that continues on the next line, after the label's column. */
struct lines {
	FILE *out;
	unsigned indent, at, items;
};

static void begin_lines(struct lines *lines, FILE *out, unsigned indent, const char *label)
{
	*lines = (struct lines){ .out = out, .indent = indent + LABEL_WIDTH, .at = indent + LABEL_WIDTH };
	fprintf(out, "%*s%-*s", (int)indent, "", LABEL_WIDTH, label);
}

__attribute__((format(printf, 2, 3))) static void add_item(struct lines *lines, const char *format, ...)
{
	char text[GRAPH_NAME_MAX + GRAPH_TYPE_TEXT + 64];
	va_list args;
	unsigned width;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	width = (unsigned)strlen(text) + 2;
	if (lines->items && lines->at + width > TABLE_WIDTH) {
		fprintf(lines->out, ",\n%*s", (int)lines->indent, "");
		lines->at = lines->indent;
	} else if (lines->items) {
		fprintf(lines->out, ", ");
	}
	print_text(text, lines->out);
	lines->at += width;
	lines->items++;
}

static void end_lines(struct lines *lines)
{
	fputc('\n', lines->out);
}

/* What is sent for a value: "20.0 KiB", or, if several operations or reactors get it, "2 x 20.0 KiB". */
static const char *sent_text(const struct graph_cut *cut, struct graph_value value, uint64_t sent, int64_t batch,
			     char text[static SENT_TEXT])
{
	const uint64_t once = graph_cut_bytes(cut->graph, value, batch);
	char bytes[24];

	if (once && sent > once && sent % once == 0)
		snprintf(text, SENT_TEXT, "%llu x %s", (unsigned long long)(sent / once),
			 human_bytes((double)once, bytes));
	else
		snprintf(text, SENT_TEXT, "%s", human_bytes((double)sent, bytes));
	return text;
}

static void add_value(struct lines *lines, const struct graph_cut *cut, struct graph_value value, const char *bytes)
{
	const struct graph_node *node = cut->graph->nodes[value.node];
	char type[GRAPH_TYPE_TEXT], output[16] = "";

	if (node->outputs_count > 1)
		snprintf(output, sizeof(output), ":%u", value.output);
	add_item(lines, "%s%s (%s, %s)", node->name, output, graph_type_text(&node->outputs[value.output], type),
		 bytes);
}

/* Prints feeds or fetches; and what is sent besides. */
static void print_values(const struct graph_question *question, const struct graph_cut *cut, unsigned indent,
			 const struct graph_part *part, bool to_ps, FILE *out)
{
	const struct graph_traffic *traffic = &cut->traffic[part - cut->parts];
	const struct graph_value *values = to_ps ? part->feeds : part->fetches;
	const bool *shapes = to_ps ? part->feed_shapes : part->fetch_shapes;
	uint64_t others = to_ps ? traffic->to_ps : traffic->from_ps;
	struct lines lines;
	char text[SENT_TEXT];

	begin_lines(&lines, out, indent, to_ps ? "inputs" : "outputs");
	for (uint32_t i = 0; i < (to_ps ? part->feeds_count : part->fetches_count); i++) {
		const uint64_t bytes = to_ps ? traffic->feeds[i] : traffic->fetches[i];

		others -= bytes;
		if (!to_ps || !traffic->stays[i])
			add_value(&lines, cut, values[i],
				  shapes[i] ? "its shape only"
					    : sent_text(cut, values[i], bytes, question->cut.batch, text));
	}
	if (others)
		add_item(&lines, "%s (%s)", to_ps ? "constants, numbers, counters" : "counters",
			 human_bytes((double)others, text));
	if (!lines.items)
		fputs("nothing", out);
	end_lines(&lines);
}

/* Prints what earlier requests of the step have left there: what they have computed, and what was sent to them. */
static void print_kept(const struct graph_question *question, const struct graph_cut *cut, unsigned indent,
		       const struct graph_part *part, FILE *out)
{
	const struct graph_traffic *traffic = &cut->traffic[part - cut->parts];
	uint32_t count = part->kept_count;
	struct lines lines;
	char text[24];

	for (uint32_t i = 0; i < part->feeds_count; i++)
		count += traffic->stays[i];
	if (!count)
		return;
	begin_lines(&lines, out, indent, "kept there");
	for (uint32_t i = 0; i < part->kept_count + part->feeds_count; i++) {
		const uint32_t feed = i - part->kept_count;
		const struct graph_value value = i < part->kept_count ? part->kept[i] : part->feeds[feed];

		if (i < part->kept_count || traffic->stays[feed])
			add_value(&lines, cut, value,
				  human_bytes((double)graph_cut_bytes(cut->graph, value, question->cut.batch), text));
	}
	end_lines(&lines);
}

static void print_nodes(const struct graph_cut *cut, unsigned indent, const struct graph_part *part, FILE *out)
{
	struct lines lines;

	begin_lines(&lines, out, indent, "executes");
	for (uint32_t i = 0; i < part->nodes_count; i++) {
		const struct graph_node *node = cut->graph->nodes[part->nodes[i]];
		const char *op = graph_op_name(node->op);
		const bool handle = node->outputs_count && node->outputs[0].dtype == 0;

		if (handle)
			continue;
		if (graph_cut_moved(cut, node->id))
			add_item(&lines, "%s (%s, moved here)", node->name, op);
		else if (!strncmp(node->name, op, strlen(op)))
			add_item(&lines, "%s", node->name);
		else
			add_item(&lines, "%s (%s)", node->name, op);
	}
	end_lines(&lines);
}

/* Prints the variables and tables of a PS part. */
static void print_handles(const struct graph_cut *cut, unsigned indent, const struct graph_part *part, FILE *out)
{
	struct lines lines;

	begin_lines(&lines, out, indent, "on");
	for (uint32_t i = 0; i < part->nodes_count; i++) {
		const struct graph_node *node = cut->graph->nodes[part->nodes[i]];

		if (node->op == GRAPH_VARIABLE || node->op == GRAPH_TABLE)
			add_item(&lines, "%s", node->name);
	}
	if (!lines.items)
		fputc('-', out);
	end_lines(&lines);
}

static void print_part(const struct graph_question *question, const struct graph_cut *cut, unsigned indent,
		       const struct graph_part *part, FILE *out)
{
	const bool on_ps = part->place != GRAPH_PLACE_WORKER;
	char place[GRAPH_PLACE_TEXT];

	fprintf(out, "%*swave %u, %s\n", (int)indent, "", part->wave, graph_place_text(part->place, place));
	indent += 2;
	if (on_ps) {
		print_values(question, cut, indent, part, true, out);
		print_kept(question, cut, indent, part, out);
		print_handles(cut, indent, part, out);
	}
	print_nodes(cut, indent, part, out);
	if (on_ps)
		print_values(question, cut, indent, part, false, out);
}

static void print_warnings(const struct graph_cut *cut, unsigned indent, FILE *out)
{
	for (uint32_t i = 0; i < cut->warnings_count; i++) {
		fprintf(out, "%*swarning: ", (int)indent, "");
		print_text(cut->warnings[i], out);
		fputc('\n', out);
	}
	if (cut->unsupported) {
		fprintf(out, "%*swarning: a session has the worker compute all of it: ", (int)indent, "");
		print_text(cut->unsupported, out);
		fputc('\n', out);
	}
}

static bool touches_ps(const struct graph_cut *cut)
{
	for (uint32_t i = 0; i < cut->bodies_count; i++)
		if (touches_ps(cut->bodies[i].body) || touches_ps(cut->bodies[i].cond))
			return true;
	return cut->requests > 0;
}

static const char *plural(uint32_t count)
{
	return count == 1 ? "" : "s";
}

static void print_figures(const struct graph_cut *cut, const char *of, FILE *out)
{
	char to[24], from[24];

	fprintf(out, "%u round trip%s %s, in %u request%s; %s to PS tasks, %s from them\n", cut->rounds,
		plural(cut->rounds), of, cut->requests, plural(cut->requests),
		human_bytes((double)cut->to_ps_bytes, to), human_bytes((double)cut->from_ps_bytes, from));
}

static void print_parts(const struct graph_question *question, const struct graph_cut *cut, unsigned indent, FILE *out);

static void print_body(const struct graph_question *question, const struct graph_cut *cut,
		       const struct graph_node *node, const char *which, unsigned indent, FILE *out)
{
	fprintf(out, "\n%*s%s of %s: ", (int)indent, "", which, node->name);
	print_figures(cut, node->op == GRAPH_WHILE ? "an iteration" : "when it is taken", out);
	print_parts(question, cut, indent + 2, out);
}

static void print_parts(const struct graph_question *question, const struct graph_cut *cut, unsigned indent, FILE *out)
{
	print_warnings(cut, indent, out);
	for (uint32_t i = 0; i < cut->parts_count; i++) {
		fputc('\n', out);
		print_part(question, cut, indent, &cut->parts[i], out);
	}
	for (uint32_t i = 0; i < cut->bodies_count; i++) {
		const struct graph_body_cut *both = &cut->bodies[i];
		const struct graph_node *node = cut->graph->nodes[both->node];
		const bool loop = node->op == GRAPH_WHILE;

		if (touches_ps(both->cond))
			print_body(question, both->cond, node, loop ? "condition" : "second branch", indent, out);
		if (touches_ps(both->body))
			print_body(question, both->body, node, loop ? "body" : "first branch", indent, out);
	}
}

void graph_print_cut(const struct graph_question *question, const struct graph_cut *cut, FILE *out)
{
	print_text(question->file, out);
	fprintf(out, ", %s: ", graph_cut_title(cut));
	print_figures(cut, "a step", out);
	if (cut->moved_count) {
		struct lines lines;

		begin_lines(&lines, out, 0, "moved:");
		for (uint32_t i = 0; i < cut->moved_count; i++)
			add_item(&lines, "%s", cut->graph->nodes[cut->moved[i]]->name);
		end_lines(&lines);
	}
	print_parts(question, cut, 0, out);
}

/* ---- side by side ---- */

static void add_row(struct table *table, const struct graph_cut *cut)
{
	uint32_t parts = 0;
	char text[24];

	for (uint32_t i = 0; i < cut->parts_count; i++)
		parts += cut->parts[i].place != GRAPH_PLACE_WORKER;
	table_row(table);
	table_set(table, 0, "%s", graph_cut_title(cut));
	table_set(table, 1, "%u", cut->rounds);
	table_set(table, 2, "%u", cut->requests);
	table_set(table, 3, "%s", human_bytes((double)cut->to_ps_bytes, text));
	table_set(table, 4, "%s", human_bytes((double)cut->from_ps_bytes, text));
	table_set(table, 5, "%u", parts);
	table_set(table, 6, "%u", cut->moved_count);
	table_set(table, 7, "%u", cut->warnings_count);
}

static void print_table(struct graph_cut *const cuts[], unsigned count, FILE *out)
{
	static const char *const titles[] = { "ROUND TRIPS", "REQUESTS", "TO PS",   "FROM PS",
					      "SUBGRAPHS",   "MOVED",	 "WARNINGS" };
	struct table table;

	table_init(&table);
	table_column(&table, "PROTOCOL", false);
	for (unsigned i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
		table_column(&table, titles[i], true);
	for (unsigned i = 0; i < count; i++)
		add_row(&table, cuts[i]);
	table_print(&table, out);
	table_fini(&table);
	for (unsigned i = 0; i < count; i++)
		print_warnings(cuts[i], 0, out);
}

/* The same body under each protocol. */
static void compare_bodies(struct graph_cut *const cuts[], unsigned count, FILE *out)
{
	for (uint32_t i = 0; i < cuts[0]->bodies_count; i++) {
		const struct graph_node *node = cuts[0]->graph->nodes[cuts[0]->bodies[i].node];

		for (unsigned half = 0; half < 2; half++) {
			struct graph_cut *bodies[GRAPH_COMPARED];

			for (unsigned k = 0; k < count; k++)
				bodies[k] = half ? cuts[k]->bodies[i].body : cuts[k]->bodies[i].cond;
			if (!touches_ps(bodies[0]))
				continue;
			fprintf(out, "\n%s of %s, %s:\n",
				node->op == GRAPH_WHILE ? (half ? "body" : "condition")
							: (half ? "first branch" : "second branch"),
				node->name, node->op == GRAPH_WHILE ? "an iteration" : "when it is taken");
			print_table(bodies, count, out);
			compare_bodies(bodies, count, out);
		}
	}
}

void graph_print_comparison(const struct graph_question *question, struct graph_cut *const cuts[], unsigned count,
			    FILE *out)
{
	print_text(question->file, out);
	fprintf(out, ", a step:\n");
	print_table(cuts, count, out);
	compare_bodies(cuts, count, out);
}
