/* SPDX-License-Identifier: BSD-3-Clause */
/* A cut as a picture: a box for each part, in the colour of its place, ordered from top to bottom by waves; and the
 * `dot` program. */
#include "app/starctl/graph.h"
#include "base/text.h"
#include "graph/handle.h"
#include "offload/cut.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* For the worker, for all PS tasks, and for each task: easy to tell apart, also in print. */
static const char *colour_of(int32_t place)
{
	static const char *const tasks[] = { "#fde0c5", "#d8ecd0", "#e6d8f0", "#fbf0b8", "#f7cfd8", "#cfe8e6" };

	if (place == GRAPH_PLACE_WORKER)
		return "#d6e6f5";
	return place == GRAPH_PLACE_ALL ? "#e4e4e4" : tasks[(uint32_t)place % (sizeof(tasks) / sizeof(tasks[0]))];
}

/* The state for one graph in the picture; scope makes its nodes' names unique among those of bodies. */
struct picture {
	const struct graph_question *question;
	const struct graph_cut *cut;
	const char *scope;
	uint32_t *part_of; /* for each node: the part in which others find it */
	FILE *out;
};

/* Handles and constants are drawn in each part that has them. */
static void print_id(const struct picture *p, uint32_t part, uint32_t node)
{
	fprintf(p->out, "\"%s%u.%u\"", p->scope, part, node);
}

static void print_node(const struct picture *p, uint32_t part, const struct graph_node *node)
{
	const char *op = graph_op_name(node->op);
	const bool moved = graph_cut_moved(p->cut, node->id);

	fprintf(p->out, "\t\t");
	print_id(p, part, node->id);
	if (graph_is_handle(node))
		fprintf(p->out, " [label=\"%s\", shape=cylinder, fillcolor=white];\n", node->name);
	else if (node->body)
		fprintf(p->out, " [label=\"%s\\n%s\", shape=box3d, fillcolor=white];\n", node->name, op);
	else if (strncmp(node->name, op, strlen(op)) != 0)
		fprintf(p->out, " [label=\"%s\\n%s\"%s];\n", node->name, op,
			moved ? ", style=\"rounded,filled,dashed\", penwidth=2" : "");
	else
		fprintf(p->out, " [label=\"%s\"%s];\n", node->name,
			moved ? ", style=\"rounded,filled,dashed\", penwidth=2" : "");
}

static void print_part(const struct picture *p, uint32_t number)
{
	const struct graph_part *part = &p->cut->parts[number];
	char place[GRAPH_PLACE_TEXT];

	fprintf(p->out,
		"\tsubgraph \"cluster_%s%u\" {\n\t\tlabel=\"wave %u, %s\"; style=filled; color=\"#808080\"; "
		"fillcolor=\"%s\";\n",
		p->scope, number, part->wave, graph_place_text(part->place, place), colour_of(part->place));
	for (uint32_t i = 0; i < part->nodes_count; i++)
		print_node(p, number, p->cut->graph->nodes[part->nodes[i]]);
	fprintf(p->out, "\t}\n");
}

static bool has(const struct graph_part *part, uint32_t node)
{
	uint32_t from = 0, to = part->nodes_count;

	while (from < to) {
		const uint32_t middle = (from + to) / 2;

		if (part->nodes[middle] == node)
			return true;
		if (part->nodes[middle] < node)
			from = middle + 1;
		else
			to = middle;
	}
	return false;
}

/* Whether this input of this node is the first in the part that uses the value: it is sent once. */
static bool is_first_use(const struct picture *p, const struct graph_part *part, uint32_t user, uint32_t input)
{
	const struct graph_value value = p->cut->graph->nodes[part->nodes[user]]->inputs[input];

	for (uint32_t i = 0; i <= user; i++) {
		const struct graph_node *node = p->cut->graph->nodes[part->nodes[i]];

		for (uint32_t k = 0; k < (i < user ? node->inputs_count : input); k++)
			if (graph_same(node->inputs[k], value))
				return false;
	}
	return true;
}

/* Bytes that are sent for a value between two parts, one of which is on a PS task. stays: an earlier request has left
 * it there. */
static uint64_t sent_bytes(const struct graph_cut *cut, uint32_t from, uint32_t to, struct graph_value value,
			   bool *stays)
{
	const struct graph_part *part = &cut->parts[to];

	for (uint32_t i = 0; part->place != GRAPH_PLACE_WORKER && i < part->feeds_count; i++)
		if (graph_same(part->feeds[i], value)) {
			*stays = cut->traffic[to].stays[i];
			return cut->traffic[to].feeds[i];
		}
	part = &cut->parts[from];
	for (uint32_t i = 0; part->place != GRAPH_PLACE_WORKER && i < part->fetches_count; i++)
		if (graph_same(part->fetches[i], value))
			return cut->traffic[from].fetches[i];
	return 0;
}

/* Edges that are sent are bold, with their size; those that stay on a PS task between requests are dotted. */
static void print_edge(const struct picture *p, uint32_t number, uint32_t user, uint32_t k)
{
	const struct graph_part *part = &p->cut->parts[number];
	const struct graph_node *node = p->cut->graph->nodes[part->nodes[user]];
	const struct graph_value input = node->inputs[k];
	const bool here = has(part, input.node);
	const uint32_t from = here ? number : p->part_of[input.node];
	bool stays = p->cut->parts[from].place == part->place && part->place != GRAPH_PLACE_WORKER;
	const uint64_t sent = sent_bytes(p->cut, from, number, input, &stays);
	char bytes[24];

	fprintf(p->out, "\t");
	print_id(p, from, input.node);
	fprintf(p->out, " -> ");
	print_id(p, number, node->id);
	if (here)
		fprintf(p->out, ";\n");
	else if (stays || p->cut->parts[from].place == part->place)
		fprintf(p->out, " [style=%s];\n", stays ? "dotted" : "solid");
	else
		fprintf(p->out, " [label=\" %s\", color=\"#b03020\", fontcolor=\"#b03020\", penwidth=2];\n",
			is_first_use(p, part, user, k) ? human_bytes((double)sent, bytes) : "");
}

static void print_edges(const struct picture *p, uint32_t number)
{
	const struct graph_part *part = &p->cut->parts[number];

	for (uint32_t i = 0; i < part->nodes_count; i++) {
		const struct graph_node *node = p->cut->graph->nodes[part->nodes[i]];

		for (uint32_t k = 0; k < node->inputs_count; k++)
			print_edge(p, number, i, k);
		for (uint32_t k = 0; k < node->controls_count && !graph_is_handle(node); k++) {
			if (graph_is_handle(p->cut->graph->nodes[node->controls[k]]))
				continue;
			fprintf(p->out, "\t");
			print_id(p, p->part_of[node->controls[k]], node->controls[k]);
			fprintf(p->out, " -> ");
			print_id(p, number, node->id);
			fprintf(p->out, " [style=dashed, color=\"#606060\"];\n");
		}
	}
}

static void print_graph(const struct graph_question *question, const struct graph_cut *cut, const char *scope,
			FILE *out)
{
	struct picture p = { .question = question, .cut = cut, .scope = scope, .out = out };

	p.part_of = calloc(cut->graph->nodes_count + 1, sizeof(*p.part_of));
	for (uint32_t i = cut->parts_count; p.part_of && i-- > 0;)
		for (uint32_t k = 0; k < cut->parts[i].nodes_count; k++)
			p.part_of[cut->parts[i].nodes[k]] = i;
	for (uint32_t i = 0; i < cut->parts_count; i++)
		print_part(&p, i);
	for (uint32_t i = 0; p.part_of && i < cut->parts_count; i++)
		print_edges(&p, i);
	free(p.part_of);
	for (uint32_t i = 0; i < cut->bodies_count; i++) {
		const struct graph_node *node = cut->graph->nodes[cut->bodies[i].node];

		for (unsigned half = 0; half < 2; half++) {
			char inner[128];

			snprintf(inner, sizeof(inner), "%.100s%u%c", scope, node->id, half ? 'b' : 'c');
			fprintf(out,
				"subgraph \"cluster_%s\" {\n\tlabel=\"%s of %s\"; style=dashed; color=\"#606060\";\n",
				inner,
				node->op == GRAPH_WHILE ? (half ? "body" : "condition")
							: (half ? "first branch" : "second branch"),
				node->name);
			print_graph(question, half ? cut->bodies[i].body : cut->bodies[i].cond, inner, out);
			fprintf(out, "}\n");
		}
	}
}

static void print_title(const char *text, FILE *out)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(base_printable(*text), out);
	}
}

void graph_print_dot(const struct graph_question *question, const struct graph_cut *cut, FILE *out)
{
	char to[24], from[24];

	fprintf(out, "digraph cut {\n\tlabelloc=t; fontname=\"sans-serif\"; label=\"");
	print_title(question->file, out);
	fprintf(out,
		", %s: %u round trip%s per step, %u request%s, %s to PS tasks, %s from them\";\n"
		"\tnode [shape=box, style=\"rounded,filled\", fillcolor=\"#ffffffb0\", fontname=\"sans-serif\", "
		"fontsize=10];\n"
		"\tedge [fontname=\"sans-serif\", fontsize=9];\n\tcompound=true; newrank=false;\n",
		graph_cut_title(cut), cut->rounds, cut->rounds == 1 ? "" : "s", cut->requests,
		cut->requests == 1 ? "" : "s", human_bytes((double)cut->to_ps_bytes, to),
		human_bytes((double)cut->from_ps_bytes, from));
	print_graph(question, cut, "", out);
	fprintf(out, "}\n");
}

/* ---- the program ---- */

static uint32_t all_nodes(const struct graph_cut *cut)
{
	uint32_t count = cut->graph->nodes_count;

	for (uint32_t i = 0; i < cut->bodies_count; i++)
		count += all_nodes(cut->bodies[i].body) + all_nodes(cut->bodies[i].cond);
	return count;
}

static int start_dot(const char *path, int *input, pid_t *pid, struct star_error *err)
{
	const char *words[] = { "dot", "-Tsvg", "-o", path, NULL };
	posix_spawn_file_actions_t actions;
	int ends[2], rc;

	*input = -1;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return star_error_set(err, -errno, "cannot create a pipe to the program dot: %s", strerror(errno));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
	rc = posix_spawnp(pid, "dot", &actions, NULL, (char **)(uintptr_t)words, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[0]);
	*input = ends[1];
	if (rc == 0)
		return 0;
	close(ends[1]);
	if (rc == ENOENT)
		return star_error_set(
			err, -ENOENT,
			"the picture is drawn by the program dot, which is not installed: apt-get install "
			"graphviz (or print its source: --dot)");
	return star_error_set(err, -rc, "cannot start the program dot: %s", strerror(rc));
}

int graph_draw(const struct graph_question *question, const struct graph_cut *cut, struct star_error *err)
{
	const uint32_t nodes = all_nodes(cut);
	void (*before)(int) = NULL;
	int input, status;
	FILE *source;
	pid_t pid;

	if (nodes > GRAPH_PICTURE_NODES)
		return star_error_set(err, -E2BIG,
				      "a picture of %u nodes would be unreadable: at most %d (--dot prints its source)",
				      nodes, GRAPH_PICTURE_NODES);
	if (start_dot(question->svg, &input, &pid, err) < 0)
		return err->code;
	before = signal(SIGPIPE, SIG_IGN); /* dot ends early if it cannot write, and prints the reason itself */
	source = fdopen(input, "w");
	if (source) {
		graph_print_dot(question, cut, source);
		fclose(source);
	} else {
		close(input);
	}
	signal(SIGPIPE, before);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return star_error_set(err, -EIO, "the program dot could not draw %.200s", question->svg);
	return 0;
}
