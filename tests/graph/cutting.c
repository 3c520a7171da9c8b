/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/graph/cutting.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit.h"

/* ---- graphs in few words ---- */

static const int64_t matrix[] = { 4, 3 };
static const float ones[12] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };

struct graph_value put(struct graph *graph, enum graph_op op, const char *name, const char *device,
		       struct graph_value a, struct graph_value b, struct graph_value c)
{
	const struct graph_value inputs[] = { a, b, c };
	const struct graph_type type = { .dtype = STAR_FLOAT32, .shape = { 2, { 4, 3 } } };
	struct graph_attr attrs[2];
	struct graph_draft draft = { .op = op, .name = name, .device = device, .inputs = inputs, .attrs = attrs };

	while (draft.inputs_count < 3 && !graph_is_none(inputs[draft.inputs_count]))
		draft.inputs_count++;
	if (op == GRAPH_FEED || op == GRAPH_VARIABLE || op == GRAPH_TABLE)
		attrs[draft.attrs_count++] = GRAPH_ATTR_STRING("dtype", "float32");
	if (op == GRAPH_FEED || op == GRAPH_VARIABLE)
		attrs[draft.attrs_count++] = GRAPH_ATTR_INTS("shape", matrix, 2);
	if (op == GRAPH_TABLE)
		attrs[draft.attrs_count++] = GRAPH_ATTR_INT("dim", 3);
	if (op == GRAPH_CONST) {
		attrs[draft.attrs_count].name = "value";
		attrs[draft.attrs_count].kind = GRAPH_TENSOR;
		attrs[draft.attrs_count].type = type;
		attrs[draft.attrs_count++].data = ones;
	}
	return graph_add(graph, &draft);
}

struct graph_value put_feed(struct graph *graph, const char *name, const char *dtype, int64_t rows, int64_t columns)
{
	const int64_t sizes[] = { rows, columns };
	const struct graph_attr attrs[] = { GRAPH_ATTR_STRING("dtype", dtype),
					    GRAPH_ATTR_INTS("shape", sizes, columns ? 2 : 1) };

	return graph_add(graph,
			 &(struct graph_draft){ .op = GRAPH_FEED, .name = name, .attrs = attrs, .attrs_count = 2 });
}

struct graph_value put_sum(struct graph *graph, const char *name, struct graph_value x, int64_t axis)
{
	const struct graph_attr attrs[] = { GRAPH_ATTR_INTS("axes", &axis, 1) };

	return graph_add(graph, &(struct graph_draft){ .op = GRAPH_SUM,
						       .name = name,
						       .inputs = &x,
						       .inputs_count = 1,
						       .attrs = attrs,
						       .attrs_count = 1 });
}

/* ---- random graphs ---- */

enum { POOL = 256 };

struct maker {
	struct graph *graph;
	struct prng *random;
	unsigned tasks, depth;
	struct graph_value values[POOL]; /* of [4, 3] */
	unsigned values_count;
	struct graph_value variables[8], tables[4], ids[4], segments, like;
	unsigned variables_count, tables_count, ids_count;
};

static unsigned below(struct maker *m, unsigned bound)
{
	return prng_below(m->random, bound);
}

static struct graph_value any(struct maker *m)
{
	/* rather new ones: graphs are deep, not only wide */
	const unsigned last = m->values_count < 6 || below(m, 3) == 0 ? m->values_count : 6;

	return m->values[m->values_count - 1 - below(m, last)];
}

static void remember(struct maker *m, struct graph_value value)
{
	if (m->values_count < POOL)
		m->values[m->values_count++] = value;
}

static const char *device_text(struct maker *m, char text[static GRAPH_DEVICE_TEXT])
{
	const int task = (int)below(m, m->tasks + 1) - 1;

	return graph_device_text((struct graph_device){ GRAPH_PS, task }, text);
}

static void put_elementwise(struct maker *m)
{
	static const enum graph_op ops[] = { GRAPH_NEG, GRAPH_RELU, GRAPH_IDENTITY, GRAPH_ADD, GRAPH_MUL };
	const enum graph_op op = ops[below(m, 5)];
	char text[GRAPH_DEVICE_TEXT];
	const char *device = below(m, 3) ? NULL : below(m, 4) ? device_text(m, text) : "/job:worker";

	remember(m, put(m->graph, op, NULL, device, any(m), graph_op_info(op)->inputs_min == 2 ? any(m) : GRAPH_NONE,
			GRAPH_NONE));
}

static void put_flow(struct maker *m)
{
	const struct graph_type types[] = { { .dtype = STAR_FLOAT32, .shape = { 2, { 4, 3 } } },
					    { .dtype = STAR_FLOAT32, .shape = { 2, { 4, 3 } } } };
	const struct graph_attr attrs[] = { GRAPH_ATTR_INT("carried", 1), GRAPH_ATTR_INT("most", 5) };
	const struct graph_value inputs[] = { any(m), any(m) };
	struct graph_draft draft = { .op = GRAPH_WHILE,
				     .inputs = inputs,
				     .inputs_count = 2,
				     .attrs = attrs,
				     .attrs_count = 2,
				     .body = graph_body_create(m->graph, types, 2),
				     .cond = graph_body_create(m->graph, types, 2) };

	for (unsigned i = 0; i < 2; i++) {
		struct maker inner = { .graph = i ? draft.cond : draft.body,
				       .random = m->random,
				       .tasks = m->tasks,
				       .depth = m->depth + 1 };
		struct graph_value result;

		remember(&inner, (struct graph_value){ 0, 0 });
		remember(&inner, (struct graph_value){ 1, 0 });
		for (unsigned k = 2 + below(m, 5); k > 0; k--) {
			if (below(m, 3) == 0) {
				/* a variable of the outer graph, or one that only loops have */
				char name[16];
				struct graph_value variable;

				snprintf(name, sizeof(name), "v%u", below(m, 6));
				if (graph_find(inner.graph, name))
					continue;
				variable = PUT0(inner.graph, GRAPH_VARIABLE, name,
						below(m, 2) ? "/job:ps" : "/job:ps/task:0");
				remember(&inner, PUT1(inner.graph, GRAPH_READ, NULL, NULL, variable));
				if (below(m, 2))
					PUT2(inner.graph, GRAPH_APPLY, NULL, NULL, variable, any(&inner));
			} else {
				put_elementwise(&inner);
			}
		}
		if (inner.depth < 2 && below(m, 4) == 0)
			put_flow(&inner);
		result = inner.values[inner.values_count - 1];
		if (i) { /* an int32 scalar */
			result = put_sum(inner.graph, NULL, put_sum(inner.graph, NULL, result, 0), 0);
			result = PUT2(inner.graph, GRAPH_LESS, NULL, NULL, result, result);
		}
		graph_set_results(inner.graph, &result, 1);
	}
	remember(m, graph_add(m->graph, &draft));
}

static void put_stateful(struct maker *m)
{
	const struct graph_value variable = m->variables[below(m, m->variables_count)];
	const struct graph_value table = m->tables[below(m, m->tables_count)], ids = m->ids[below(m, m->ids_count)];

	switch (below(m, 7)) {
	case 0:
	case 1:
		remember(m, PUT1(m->graph, GRAPH_READ, NULL, NULL, variable));
		break;
	case 2:
	case 3:
		remember(m, PUT2(m->graph, GRAPH_LOOKUP, NULL, NULL, table, ids));
		break;
	case 4:
		PUT2(m->graph, below(m, 3) ? GRAPH_APPLY : GRAPH_ASSIGN, NULL, NULL, variable, any(m));
		break;
	default:
		put(m->graph, GRAPH_APPLY_ROWS, NULL, NULL, table, ids, any(m));
		break;
	}
}

static void put_some(struct maker *m)
{
	const unsigned kind = below(m, 40);

	if (kind < 10)
		put_stateful(m);
	else if (kind < 12)
		remember(m, PUT0(m->graph, GRAPH_CONST, NULL, NULL));
	else if (kind < 14)
		put_sum(m->graph, NULL, any(m), 1);
	else if (kind < 16)
		put(m->graph, GRAPH_SEGMENT_SUM, NULL, NULL, any(m), m->segments, m->like);
	else if (kind < 17)
		put_flow(m);
	else
		put_elementwise(m);
}

struct graph *random_placed_graph(struct prng *random, unsigned nodes, unsigned tasks)
{
	struct maker m = { .graph = graph_create(), .random = random, .tasks = tasks };
	struct graph_value results[4];
	unsigned results_count = 0;

	remember(&m, PUT0(m.graph, GRAPH_FEED, "x", NULL));
	m.ids[m.ids_count++] = put_feed(m.graph, "ids", "int64", 4, 0);
	m.segments = put_feed(m.graph, "segments", "int32", 4, 0);
	m.like = put_feed(m.graph, "like", "float32", 2, 0);
	for (unsigned i = 0; i < 1 + below(&m, 4); i++) {
		char name[16], text[GRAPH_DEVICE_TEXT];

		snprintf(name, sizeof(name), "v%u", i);
		m.variables[m.variables_count++] = PUT0(m.graph, GRAPH_VARIABLE, name, device_text(&m, text));
	}
	for (unsigned i = 0; i < 1 + below(&m, 3); i++) {
		char text[GRAPH_DEVICE_TEXT];

		m.tables[m.tables_count++] = PUT0(m.graph, GRAPH_TABLE, NULL, device_text(&m, text));
	}
	while (m.graph->nodes_count < nodes && !m.graph->err.code) {
		const uint32_t before = m.graph->nodes_count;

		put_some(&m);
		if (below(&m, 5) == 0 && before < m.graph->nodes_count)
			graph_add_control(m.graph, below(&m, before), m.graph->nodes_count - 1);
	}
	while (results_count < 3 && below(&m, 3)) {
		const uint32_t node = below(&m, m.graph->nodes_count);
		const struct graph_type *type = graph_type(m.graph, (struct graph_value){ node, 0 });

		if (type && type->dtype)
			results[results_count++] = (struct graph_value){ node, 0 };
	}
	graph_set_results(m.graph, results, results_count);
	return m.graph;
}

void print_graph(const struct graph *graph)
{
	char text[GRAPH_DEVICE_TEXT];

	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];

		printf("#   %u %s %s @%s (", i, node->name, graph_op_name(node->op),
		       graph_device_text(node->device, text));
		for (uint32_t k = 0; k < node->inputs_count; k++)
			printf(" %u:%u", node->inputs[k].node, node->inputs[k].output);
		printf(" )");
		for (uint32_t k = 0; k < node->controls_count; k++)
			printf(" ^%u", node->controls[k]);
		printf("\n");
	}
}

/* ---- the interpreter ---- */

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

struct graph_cut *cut_by(const struct graph *graph, enum graph_protocol protocol, bool fuse)
{
	const struct graph_cut_options options = { .protocol = protocol, .fuse = fuse };
	struct star_error err = { 0 };
	struct graph_cut *cut = graph_cut_create(graph, &options, &err);

	if (!cut)
		unit_fail(__FILE__, __LINE__, "not cut: %s", err.text);
	return cut;
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

/* ---- the least rounds, by trying all ---- */

enum { TRIED_MAX = 40 };

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
