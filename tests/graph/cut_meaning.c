/* SPDX-License-Identifier: BSD-3-Clause */
/* The interpreter: a graph as it is written, and part by part as it is cut. */
#include <stdlib.h>
#include <string.h>

#include "offload/cut.h"
#include "tests/graph/cutting.h"
#include "tests/unit.h"

enum { RESOURCES = 32 };

struct world {
	const char *names[RESOURCES];
	uint64_t states[RESOURCES];
	struct prng random; /* for the order of parts */
	bool failed;
};

static uint64_t mix(uint64_t a, uint64_t b)
{
	a = (a ^ b) * 0x9e3779b97f4a7c15ULL;
	a ^= a >> 29;
	return (a * 0xbf58476d1ce4e5b9ULL) ^ (a >> 32);
}

static uint64_t mix_text(uint64_t a, const char *text)
{
	while (*text)
		a = mix(a, (uint8_t)*text++);
	return a;
}

static uint64_t *state_of(struct world *world, const char *name)
{
	unsigned i = 0;

	while (world->names[i] && strcmp(world->names[i], name))
		i++;
	if (!world->names[i]) {
		world->names[i] = name;
		world->states[i] = mix_text(1, name);
	}
	return &world->states[i];
}

static bool handle(const struct graph_node *node)
{
	return node->outputs_count && node->outputs[0].dtype == 0;
}

static void run_graph(const struct graph *graph, const struct graph_cut *cut, const uint64_t *feeds,
		      struct world *world, uint64_t *results);

static void run_flow(const struct graph_node *node, const struct graph_cut *cut, const uint64_t *inputs,
		     struct world *world, uint64_t *outputs)
{
	const struct graph_cut *body = NULL, *cond = NULL;
	uint64_t values[GRAPH_INPUTS_MAX], flag = 0;

	for (uint32_t i = 0; cut && i < cut->bodies_count; i++)
		if (cut->bodies[i].node == node->id) {
			body = cut->bodies[i].body;
			cond = cut->bodies[i].cond;
		}
	memcpy(values, inputs, node->inputs_count * sizeof(*values));
	for (unsigned turn = 0; turn < 2; turn++) {
		run_graph(node->cond, cond, values, world, &flag);
		run_graph(node->body, body, values, world, values);
		values[0] = mix(values[0], flag);
	}
	for (uint32_t o = 0; o < node->outputs_count; o++)
		outputs[o] = mix(values[0], o);
}

/* What a node makes of its inputs' values. */
static void run_node(const struct graph *graph, const struct graph_node *node, const struct graph_cut *cut,
		     const uint64_t *feeds, const uint64_t *inputs, struct world *world, uint64_t *outputs)
{
	const struct graph_op_info *info = graph_op_info(node->op);
	uint64_t made = mix(node->op, 7);

	if (node->body) {
		run_flow(node, cut, inputs, world, outputs);
		return;
	}
	if (node->op == GRAPH_FEED)
		made = feeds ? feeds[node->id] : mix_text(2, node->name);
	if (node->op == GRAPH_CONST)
		made = mix_text(3, node->name);
	for (uint32_t i = 0; i < node->inputs_count; i++)
		made = mix(made, inputs[i]);
	if (info->flags & GRAPH_STATEFUL) {
		uint64_t *state = state_of(world, graph_resource(graph, node->inputs[0])->name);

		if (node->op != GRAPH_READ && node->op != GRAPH_LOOKUP)
			*state = mix(*state, made);
		made = mix(made, *state);
	}
	for (uint32_t o = 0; o < node->outputs_count; o++)
		outputs[o] = mix(made, o);
}

/* Values of a graph in one place. */
struct store {
	uint64_t *values;
	uint32_t *known; /* the part (from 1) that made it or was given it */
};

struct running {
	const struct graph *graph;
	const struct graph_cut *cut;
	struct world *world;
	const uint64_t *feeds;
	uint32_t first[512]; /* of each node's values */
	struct store wire, places[8];
};

static struct store new_store(uint32_t count)
{
	return (struct store){ calloc(count + 1, sizeof(uint64_t)), calloc(count + 1, sizeof(uint32_t)) };
}

static void run_part(struct running *r, uint32_t number)
{
	const struct graph_part *part = &r->cut->parts[number];
	struct store here = new_store(r->first[r->graph->nodes_count]), *home = &r->places[part->place + 2];

	for (uint32_t i = 0; i < part->feeds_count + part->kept_count; i++) {
		const struct store *from = i < part->feeds_count ? &r->wire : home;
		const struct graph_value value =
			i < part->feeds_count ? part->feeds[i] : part->kept[i - part->feeds_count];
		const uint32_t at = r->first[value.node] + value.output;

		here.known[at] = from->known[at];
		here.values[at] = from->values[at];
		r->world->failed |= !from->known[at];
	}
	for (uint32_t i = 0; i < part->nodes_count; i++) {
		const struct graph_node *node = r->graph->nodes[part->nodes[i]];
		uint64_t inputs[GRAPH_INPUTS_MAX] = { 0 };

		if (handle(node))
			continue;
		for (uint32_t k = 0; k < node->inputs_count; k++) {
			const uint32_t at = r->first[node->inputs[k].node] + node->inputs[k].output;

			if (handle(r->graph->nodes[node->inputs[k].node]))
				continue;
			inputs[k] = here.values[at];
			r->world->failed |= !here.known[at];
		}
		run_node(r->graph, node, r->cut, r->feeds, inputs, r->world, here.values + r->first[node->id]);
		for (uint32_t o = 0; o < node->outputs_count; o++) {
			const uint32_t at = r->first[node->id] + o;

			home->values[at] = here.values[at];
			here.known[at] = home->known[at] = number + 1;
		}
	}
	for (uint32_t i = 0; i < part->fetches_count; i++) {
		const uint32_t at = r->first[part->fetches[i].node] + part->fetches[i].output;

		r->wire.values[at] = here.values[at];
		r->wire.known[at] = number + 1;
		r->world->failed |= !here.known[at];
	}
	free(here.values);
	free(here.known);
}

/* Any part whose predecessors are done. */
static void run_parts(struct running *r)
{
	bool *done = calloc(r->cut->parts_count + 1, sizeof(*done));

	for (uint32_t left = r->cut->parts_count; left > 0; left--) {
		uint32_t chosen = UINT32_MAX, ready = 0;

		for (uint32_t i = 0; i < r->cut->parts_count; i++) {
			bool waits = done[i];

			for (uint32_t k = 0; k < r->cut->parts[i].after_count; k++)
				waits |= !done[r->cut->parts[i].after[k]];
			if (!waits && prng_below(&r->world->random, ++ready) == 0)
				chosen = i;
		}
		if (chosen == UINT32_MAX) {
			r->world->failed = true;
			break;
		}
		run_part(r, chosen);
		done[chosen] = true;
	}
	free(done);
}

/* Without a cut: node by node. results may be feeds. */
static void run_graph(const struct graph *graph, const struct graph_cut *cut, const uint64_t *feeds,
		      struct world *world, uint64_t *results)
{
	struct running r = { .graph = graph, .cut = cut, .world = world, .feeds = feeds };
	uint32_t values = 0;
	uint64_t out[8];

	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		r.first[i] = values;
		values += graph->nodes[i]->outputs_count;
	}
	r.first[graph->nodes_count] = values;
	r.wire = new_store(values);
	for (unsigned i = 0; cut && i < 8; i++)
		r.places[i] = new_store(values);
	if (cut)
		run_parts(&r);
	for (uint32_t i = 0; !cut && i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];
		uint64_t inputs[GRAPH_INPUTS_MAX] = { 0 };

		for (uint32_t k = 0; k < node->inputs_count; k++)
			if (!handle(graph->nodes[node->inputs[k].node]))
				inputs[k] = r.wire.values[r.first[node->inputs[k].node] + node->inputs[k].output];
		if (!handle(node))
			run_node(graph, node, NULL, feeds, inputs, world, r.wire.values + r.first[i]);
	}
	for (uint32_t i = 0; i < graph->results_count; i++) {
		const uint32_t at = r.first[graph->results[i].node] + graph->results[i].output;

		out[i] = r.wire.values[at];
		world->failed |= cut && !r.wire.known[at];
	}
	memcpy(results, out, graph->results_count * sizeof(*out));
	free(r.wire.values);
	free(r.wire.known);
	for (unsigned i = 0; cut && i < 8; i++) {
		free(r.places[i].values);
		free(r.places[i].known);
	}
}

bool cut_is_right(const struct graph_cut *cut, uint64_t seed)
{
	struct world plain = { .failed = false }, parts = { .failed = false };
	struct star_error err = { 0 };
	uint64_t expected[8] = { 0 }, got[8] = { 0 };

	if (graph_cut_check(cut, &err) < 0)
		return unit_fail(__FILE__, __LINE__, "%s: %s", graph_protocol_name(cut->protocol), err.text);
	prng_seed(&parts.random, seed);
	run_graph(cut->graph, NULL, NULL, &plain, expected);
	run_graph(cut->graph, cut, NULL, &parts, got);
	if (parts.failed)
		return unit_fail(__FILE__, __LINE__, "%s: a value was used that was not there",
				 graph_protocol_name(cut->protocol));
	if (memcmp(expected, got, sizeof(got)))
		return unit_fail(__FILE__, __LINE__, "%s: other results", graph_protocol_name(cut->protocol));
	for (unsigned i = 0; i < RESOURCES && plain.names[i]; i++)
		if (plain.states[i] != *state_of(&parts, plain.names[i]))
			return unit_fail(__FILE__, __LINE__, "%s: %s was changed otherwise",
					 graph_protocol_name(cut->protocol), plain.names[i]);
	return true;
}
