/* SPDX-License-Identifier: BSD-3-Clause */
/* The least rounds of any cut, by trying all of them. */
#include <string.h>

#include "tests/graph/cutting.h"

enum { TRIED_MAX = 40 };

static bool handle(const struct graph_node *node)
{
	return node->outputs_count && node->outputs[0].dtype == 0;
}

struct trying {
	const struct graph *graph;
	bool needs[TRIED_MAX][TRIED_MAX];
	uint32_t rounds, round[TRIED_MAX];
};

static bool touches(const struct graph *graph, const char *name, bool *writes)
{
	bool found = false;

	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];

		if (node->body)
			found |= touches(node->body, name, writes) | touches(node->cond, name, writes);
		else if (graph_op_info(node->op)->flags & GRAPH_STATEFUL && !handle(node) &&
			 !strcmp(graph_resource(graph, node->inputs[0])->name, name)) {
			found = true;
			*writes |= node->op != GRAPH_READ && node->op != GRAPH_LOOKUP;
		}
	}
	return found;
}

/* Nodes of one resource (also one that only loops have), of which one changes it. */
static bool conflict(const struct graph *graph, const struct graph_node *a, const struct graph_node *b)
{
	static const char *const names[] = { "v0", "v1", "v2", "v3", "v4", "v5", "table", "table_1", "table_2" };

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct graph_node *one[] = { (struct graph_node *)(uintptr_t)a };
		struct graph_node *other[] = { (struct graph_node *)(uintptr_t)b };
		struct graph first = { .nodes = one, .nodes_count = 1 }, second = { .nodes = other, .nodes_count = 1 };
		bool writes = false, found[2];
		const struct graph_node *nodes[] = { a, b };

		for (unsigned k = 0; k < 2; k++)
			if (nodes[k]->body)
				found[k] = touches(k ? &second : &first, names[i], &writes);
			else if (graph_op_info(nodes[k]->op)->flags & GRAPH_STATEFUL &&
				 !strcmp(graph_resource(graph, nodes[k]->inputs[0])->name, names[i])) {
				found[k] = true;
				writes |= nodes[k]->op != GRAPH_READ && nodes[k]->op != GRAPH_LOOKUP;
			} else {
				found[k] = false;
			}
		if (found[0] && found[1] && writes)
			return true;
	}
	return false;
}

static bool on_ps(const struct graph_node *node)
{
	return node->device.job == GRAPH_PS;
}

/* Round r of a PS node: the r-th round trip, from 1; of a worker's node: how many round trips are before it, from 0. */
static bool try_node(struct trying *t, uint32_t v)
{
	const struct graph_node *node;

	if (v == t->graph->nodes_count)
		return true;
	node = t->graph->nodes[v];
	if (handle(node))
		return try_node(t, v + 1);
	for (uint32_t round = t->rounds + 1; round-- > on_ps(node);) {
		bool fits = true;

		for (uint32_t u = 0; u < v && fits; u++) {
			const struct graph_node *other = t->graph->nodes[u];
			const bool same = on_ps(other) && other->device.task == node->device.task;

			if (!t->needs[v][u])
				continue;
			if (on_ps(node))
				fits = round >= t->round[u] + !same;
			else
				fits = round >= t->round[u];
		}
		t->round[v] = round;
		if (fits && try_node(t, v + 1))
			return true;
	}
	return false;
}

uint32_t least_rounds(const struct graph *graph)
{
	struct trying t = { .graph = graph };

	for (uint32_t v = 0; v < graph->nodes_count; v++) {
		const struct graph_node *node = graph->nodes[v];

		for (uint32_t i = 0; i < node->inputs_count && !handle(node); i++)
			t.needs[v][node->inputs[i].node] = !handle(graph->nodes[node->inputs[i].node]);
		for (uint32_t i = 0; i < node->controls_count && !handle(node); i++)
			t.needs[v][node->controls[i]] = !handle(graph->nodes[node->controls[i]]);
		for (uint32_t u = 0; u < v && !handle(node); u++)
			if (!handle(graph->nodes[u]) && conflict(graph, graph->nodes[u], node))
				t.needs[v][u] = true;
	}
	while (!try_node(&t, 0))
		t.rounds++;
	return t.rounds;
}
