/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts places and levels to parts, messages and figures: the same for all protocols. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "offload/compile.h"
#include "graph/handle.h"
#include "offload/cut_internal.h"

/* A result with its memory. */
struct whole_cut {
	struct graph_cut cut;
	struct cut_pool pool;
};

/* The state of the assembly. Marks say for which part (from 1) a node, value or part was last seen. */
struct assembly {
	struct cutter *cutter;
	struct whole_cut *whole;
	struct cut_pool scratch;
	uint32_t *part_of; /* for each node that is executed */
	uint32_t *order;   /* those nodes, by part */
	uint32_t *node_mark, *value_mark, *part_mark;
	bool *fetched; /* for each value */
	bool *read;    /* for each value: a part that it is fed to, or a result, needs more than its shape */
	uint32_t *read_mark;
	uint32_t *ids; /* of the current part */
	struct graph_value *feeds, *kept;
};

struct keyed {
	uint64_t key;
	uint32_t node;
};

static int by_key(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

static int by_id(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

void offload_cut_warn(struct cutter *cutter, const char *format, ...)
{
	char text[1024];
	va_list args;
	char *copy;

	if (cutter->warnings_count == CUT_WARNINGS_MAX) {
		cutter->warnings_more++;
		return;
	}
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	copy = offload_cut_memory(&cutter->pool, strlen(text) + 1, 1);
	if (copy)
		cutter->warnings[cutter->warnings_count++] = strcpy(copy, text);
}

/* ---- nodes of parts ---- */

static bool group(struct assembly *a)
{
	const struct cutter *cutter = a->cutter;
	const uint32_t n = cutter->graph->nodes_count;
	struct graph_cut *cut = &a->whole->cut;
	struct keyed *keys = offload_cut_memory(&a->scratch, n + 1, sizeof(*keys));
	uint32_t count = 0;

	if (!keys)
		return false;
	for (uint32_t v = 0; v < n; v++)
		if (cutter->kind[v] == CUT_WORK)
			keys[count++] = (struct keyed){
				(uint64_t)cutter->level[v] << 32 | (uint32_t)(cutter->place[v] - GRAPH_PLACE_ALL), v
			};
	qsort(keys, count, sizeof(*keys), by_key);
	for (uint32_t i = 0; i < count; i++)
		cut->parts_count += i == 0 || keys[i].key != keys[i - 1].key;
	cut->parts = offload_cut_memory(&a->whole->pool, cut->parts_count + 1, sizeof(*cut->parts));
	if (!cut->parts)
		return false;
	for (uint32_t i = 0, part = 0; i < count; i++) {
		const uint32_t v = keys[i].node;

		part += i > 0 && keys[i].key != keys[i - 1].key;
		cut->parts[part].place = cutter->place[v];
		cut->parts[part].wave = cutter->level[v];
		cut->parts[part].nodes_count++; /* so far: those that are executed */
		a->part_of[v] = part;
		a->order[i] = v;
	}
	return true;
}

/* The input of a part's node: in the part, copied to it (handles, constants), kept or fed. */
static void take_input(struct assembly *a, struct graph_part *part, struct graph_value input, bool reads, uint32_t *ids)
{
	const struct cutter *cutter = a->cutter;
	const uint32_t number = (uint32_t)(part - a->whole->cut.parts);
	const uint32_t value = cutter->value_first[input.node] + input.output;

	if (cutter->kind[input.node] == CUT_HANDLE || cut_copied_to(cutter, input.node, part->place)) {
		while (a->node_mark[input.node] != number + 1) {
			const struct graph_node *node = cutter->graph->nodes[input.node];

			a->node_mark[input.node] = number + 1;
			a->ids[(*ids)++] = input.node;
			if (!node->inputs_count)
				break;
			input = node->inputs[0]; /* of a handle's identity */
		}
		return;
	}
	if (a->part_of[input.node] == number)
		return;
	if (reads && cutter->place[input.node] != part->place) {
		a->read[value] = true;
		a->read_mark[value] = number + 1;
	}
	if (a->value_mark[value] == number + 1)
		return;
	a->value_mark[value] = number + 1;
	if (cutter->place[input.node] == part->place) {
		a->kept[part->kept_count++] = input;
		return;
	}
	a->feeds[part->feeds_count++] = input;
	a->fetched[value] = true;
}

static void *keep_copy(struct assembly *a, const void *from, size_t count, size_t bytes)
{
	void *to = offload_cut_memory(&a->whole->pool, count + 1, bytes);

	return to && count ? memcpy(to, from, count * bytes) : to;
}

static bool *keep_shapes(struct assembly *a, const struct graph_value *values, uint32_t count, uint32_t part)
{
	bool *shapes = offload_cut_memory(&a->whole->pool, count + 1, sizeof(*shapes));

	for (uint32_t i = 0; shapes && i < count; i++) {
		const uint32_t value = a->cutter->value_first[values[i].node] + values[i].output;

		shapes[i] = part ? a->read_mark[value] != part : !a->read[value];
	}
	return shapes;
}

static void fill_assembly_part(struct assembly *a, struct graph_part *part, const uint32_t *work)
{
	const struct cutter *cutter = a->cutter;
	const uint32_t number = (uint32_t)(part - a->whole->cut.parts), works = part->nodes_count;
	uint32_t ids = 0, after = 0;

	for (uint32_t i = 0; i < works; i++) {
		const struct graph_node *node = cutter->graph->nodes[work[i]];

		a->ids[ids++] = work[i];
		for (uint32_t k = 0; k < node->inputs_count; k++)
			take_input(a, part, node->inputs[k], graph_reads(node, k), &ids);
	}
	qsort(a->ids, ids, sizeof(*a->ids), by_id);
	part->nodes = keep_copy(a, a->ids, ids, sizeof(*a->ids));
	part->nodes_count = ids;
	part->feeds = keep_copy(a, a->feeds, part->feeds_count, sizeof(*a->feeds));
	part->feed_shapes = keep_shapes(a, a->feeds, part->feeds_count, number + 1);
	part->kept = keep_copy(a, a->kept, part->kept_count, sizeof(*a->kept));
	for (uint32_t i = 0; i < works; i++)
		for (uint32_t k = cutter->first[work[i]]; k < cutter->first[work[i] + 1]; k++) {
			const uint32_t other = a->part_of[cutter->deps[k]];

			if (other == number || a->part_mark[other] == number + 1)
				continue;
			a->part_mark[other] = number + 1;
			a->ids[after++] = other;
		}
	qsort(a->ids, after, sizeof(*a->ids), by_id);
	part->after = keep_copy(a, a->ids, after, sizeof(*a->ids));
	part->after_count = after;
}

/* What a part returns is known only after all parts have been filled. */
static void fetch(struct assembly *a, struct graph_part *part, const uint32_t *work, uint32_t works)
{
	const struct cutter *cutter = a->cutter;
	uint32_t count = 0;

	for (uint32_t i = 0; i < works; i++)
		for (uint32_t o = 0; o < cutter->graph->nodes[work[i]]->outputs_count; o++)
			if (a->fetched[cutter->value_first[work[i]] + o])
				a->feeds[count++] = (struct graph_value){ work[i], o };
	part->fetches_count = count;
	part->fetches = keep_copy(a, a->feeds, count, sizeof(*a->feeds));
	part->fetch_shapes = keep_shapes(a, a->feeds, count, 0);
}

/* ---- messages and figures ---- */

static uint32_t messages_of(const struct graph_cut *cut, const struct graph_part *part, bool to_ps)
{
	const uint32_t values = to_ps ? part->feeds_count : part->fetches_count;

	if (cut->protocol == GRAPH_GRPCPP && !cut->fuse && values)
		return values;
	return values || (to_ps && (cut->protocol != GRAPH_GRPCPP || !part->fetches_count));
}

static void add_messages(struct graph_cut *cut, uint32_t number, bool to_ps)
{
	struct graph_part *part = &cut->parts[number];
	const uint32_t count = messages_of(cut, part, to_ps);
	const uint32_t values = to_ps ? part->feeds_count : part->fetches_count;

	for (uint32_t i = 0; i < count; i++)
		cut->messages[cut->messages_count++] = (struct graph_message){
			.part = number,
			.to_ps = to_ps,
			.values_count = count > 1 ? 1 : values,
			.values = (to_ps ? part->feeds : part->fetches) + i,
		};
}

static bool add_all_messages(struct whole_cut *whole)
{
	struct graph_cut *cut = &whole->cut;
	size_t count = 0;

	for (uint32_t i = 0; i < cut->parts_count; i++)
		if (cut->parts[i].place != GRAPH_PLACE_WORKER)
			count += messages_of(cut, &cut->parts[i], true) + messages_of(cut, &cut->parts[i], false);
	cut->messages = offload_cut_memory(&whole->pool, count + 1, sizeof(*cut->messages));
	for (uint32_t i = 0; cut->messages && i < cut->parts_count; i++) {
		if (cut->parts[i].place == GRAPH_PLACE_WORKER)
			continue;
		add_messages(cut, i, true);
		add_messages(cut, i, false);
	}
	return cut->messages;
}

/* In unfused grpc++ each operation on what the place holds is a request; and what is computed there is at least one. */
static uint32_t calls_of(const struct graph_cut *cut, const struct graph_part *part)
{
	uint32_t calls = 0;

	for (uint32_t i = 0; i < part->nodes_count; i++) {
		const struct graph_node *node = cut->graph->nodes[part->nodes[i]];

		calls += !graph_is_handle(node) && graph_op_info(node->op)->place == GRAPH_ON_PS;
	}
	return calls ? calls : 1;
}

/* depth: for each part, the number of PS parts on the longest chain that ends with it. */
static void count_figures(const struct cutter *cutter, struct graph_cut *cut, uint32_t *depth)
{
	const struct graph_cut_options *options = &cutter->options;

	for (uint32_t i = 0; i < cut->parts_count; i++) {
		const struct graph_part *part = &cut->parts[i];
		const bool on_ps = part->place != GRAPH_PLACE_WORKER;

		for (uint32_t k = 0; k < part->after_count; k++)
			if (depth[part->after[k]] > depth[i])
				depth[i] = depth[part->after[k]];
		depth[i] += on_ps;
		if (depth[i] > cut->rounds)
			cut->rounds = depth[i];
		if (!on_ps)
			continue;
		cut->requests += cut_tasks(options, part->place) *
				 (cut->protocol == GRAPH_GRPCPP && !cut->fuse ? calls_of(cut, part) : 1);
	}
}

static bool keep_words(struct assembly *a)
{
	const struct cutter *cutter = a->cutter;
	struct graph_cut *cut = &a->whole->cut;

	cut->warnings = offload_cut_memory(&a->whole->pool, cutter->warnings_count + 2, sizeof(*cut->warnings));
	cut->moved = keep_copy(a, cutter->moved, cutter->moved_count, sizeof(*cut->moved));
	cut->moved_count = cutter->moved_count;
	if (!cut->warnings || !cut->moved)
		return false;
	for (uint32_t i = 0; i < cutter->warnings_count; i++)
		cut->warnings[i] = keep_copy(a, cutter->warnings[i], strlen(cutter->warnings[i]) + 1, 1);
	cut->warnings_count = cutter->warnings_count;
	if (cutter->warnings_more) {
		char text[64];

		snprintf(text, sizeof(text), "and %u more warnings like these", cutter->warnings_more);
		cut->warnings[cut->warnings_count++] = keep_copy(a, text, strlen(text) + 1, 1);
	}
	return !a->whole->pool.failed;
}

static bool assemble(struct assembly *a)
{
	const struct cutter *cutter = a->cutter;
	struct graph_cut *cut = &a->whole->cut;
	const uint32_t n = cutter->graph->nodes_count, values = cutter->value_first[n];
	uint32_t *at, *depth;

	a->part_of = offload_cut_memory(&a->scratch, n + 1, sizeof(*a->part_of));
	a->order = offload_cut_memory(&a->scratch, n + 1, sizeof(*a->order));
	a->node_mark = offload_cut_memory(&a->scratch, n + 1, sizeof(*a->node_mark));
	a->value_mark = offload_cut_memory(&a->scratch, values + 1, sizeof(*a->value_mark));
	a->fetched = offload_cut_memory(&a->scratch, values + 1, sizeof(*a->fetched));
	a->read = offload_cut_memory(&a->scratch, values + 1, sizeof(*a->read));
	a->read_mark = offload_cut_memory(&a->scratch, values + 1, sizeof(*a->read_mark));
	a->part_mark = offload_cut_memory(&a->scratch, n + 1, sizeof(*a->part_mark));
	a->ids = offload_cut_memory(&a->scratch, n + 1, sizeof(*a->ids));
	a->feeds = offload_cut_memory(&a->scratch, values + 1, sizeof(*a->feeds));
	a->kept = offload_cut_memory(&a->scratch, values + 1, sizeof(*a->kept));
	depth = offload_cut_memory(&a->scratch, n + 1, sizeof(*depth));
	at = offload_cut_memory(&a->scratch, n + 2, sizeof(*at)); /* where each part's nodes begin in `order` */
	if (a->scratch.failed)
		return false;
	memset(a->part_of, 0xff, n * sizeof(*a->part_of));
	if (!group(a))
		return false;
	for (uint32_t i = 0; i < cutter->graph->results_count; i++) {
		const struct graph_value result = cutter->graph->results[i];

		a->fetched[cutter->value_first[result.node] + result.output] = true;
		a->read[cutter->value_first[result.node] + result.output] = true;
	}
	for (uint32_t i = 0; i < cut->parts_count; i++) {
		at[i + 1] = at[i] + cut->parts[i].nodes_count;
		fill_assembly_part(a, &cut->parts[i], a->order + at[i]);
	}
	for (uint32_t i = 0; i < cut->parts_count; i++)
		fetch(a, &cut->parts[i], a->order + at[i], at[i + 1] - at[i]);
	if (a->whole->pool.failed || !add_all_messages(a->whole))
		return false;
	count_figures(cutter, cut, depth);
	return offload_cut_count(cutter, cut) && keep_words(a);
}

struct graph_cut *offload_cut_parts(struct cutter *cutter)
{
	struct assembly a = { .cutter = cutter, .whole = calloc(1, sizeof(struct whole_cut)) };
	bool done;

	if (!a.whole)
		return NULL;
	a.whole->cut.graph = cutter->graph;
	a.whole->cut.protocol = cutter->options.protocol;
	a.whole->cut.worker_only = cutter->options.worker_only;
	a.whole->cut.fuse = cutter->options.fuse && cutter->options.protocol == GRAPH_GRPCPP;
	done = assemble(&a);
	offload_cut_pool_free(&a.scratch);
	if (done)
		return &a.whole->cut;
	graph_cut_destroy(&a.whole->cut);
	return NULL;
}

struct cut_pool *offload_cut_pool_of(struct graph_cut *cut)
{
	return &((struct whole_cut *)(void *)cut)->pool;
}

void graph_cut_destroy(struct graph_cut *cut)
{
	struct whole_cut *whole = (struct whole_cut *)(void *)cut;

	if (!cut)
		return;
	for (uint32_t i = 0; i < cut->bodies_count; i++) {
		graph_cut_destroy(cut->bodies[i].body);
		graph_cut_destroy(cut->bodies[i].cond);
	}
	offload_compile_free(cut->compiled);
	offload_cut_pool_free(&whole->pool);
	free(whole);
}
