/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts the bytes that each PS part, and all of them, send and receive. The sender knows best
 * (graph_cut_options.count): which operations send a value again, and what an earlier request has left there. Without
 * that, a value is sent once to each part that needs it.
 */
#include <string.h>

#include "offload/cut_internal.h"
#include "graph/ps.h"

/* A type with its unknown sizes as a batch. */
static struct graph_type with_batch(struct graph_type type, int64_t batch)
{
	for (unsigned i = 0; i < type.shape.ndim; i++)
		if (type.shape.dims[i] < 0)
			type.shape.dims[i] = batch > 0 ? batch : 1;
	return type;
}

static uint64_t bytes_of(const struct graph_type *type)
{
	uint64_t bytes = dtype_bytes(type->dtype);

	for (unsigned i = 0; i < type->shape.ndim; i++)
		if (__builtin_mul_overflow(bytes, (uint64_t)type->shape.dims[i], &bytes))
			return UINT64_MAX >> 16;
	return bytes;
}

uint64_t graph_cut_bytes(const struct graph *graph, struct graph_value value, int64_t batch)
{
	const struct graph_type *type = graph_type(graph, value);
	struct graph_type known;

	if (!type || !type->dtype)
		return 0;
	known = with_batch(*type, batch);
	return bytes_of(&known);
}

static struct graph_type type_of(const struct cutter *cutter, struct graph_value value)
{
	struct graph_type *const *types = cutter->options.types;

	return with_batch(types ? types[value.node][value.output] : *graph_type(cutter->graph, value),
			  cutter->options.batch);
}

uint64_t offload_cut_bytes(const struct cutter *cutter, struct graph_value value)
{
	const struct graph_type type = type_of(cutter, value);

	return type.dtype ? bytes_of(&type) : 0;
}

uint64_t offload_cut_numbers_bytes(const struct cutter *cutter, uint32_t ids_of)
{
	return offload_cut_bytes(cutter, cutter->graph->nodes[ids_of]->inputs[1]) / sizeof(int64_t) * sizeof(uint32_t);
}

/* ---- without options.count ---- */

/* Whether it is rows by segment, which are sent to each reactor. */
static bool is_spread(const struct cutter *cutter, const struct graph_part *part, struct graph_value feed)
{
	for (uint32_t i = 0; i < part->nodes_count; i++) {
		const struct graph_node *node = cutter->graph->nodes[part->nodes[i]];
		const bool outer = node->op == GRAPH_MATMUL && cutter->numbered[node->id];

		if ((outer || graph_op_info(node->op)->flags & GRAPH_SPREADS) && graph_same(node->inputs[outer], feed))
			return true;
	}
	return false;
}

static void count_values(const struct cutter *cutter, const struct graph_part *part, struct graph_traffic *traffic)
{
	for (uint32_t i = 0; i < part->nodes_count; i++)
		if (cutter->numbered[part->nodes[i]])
			traffic->to_ps += offload_cut_numbers_bytes(cutter, cutter->numbered[part->nodes[i]] - 1);
	for (uint32_t i = 0; i < part->feeds_count; i++) {
		if (!part->feed_shapes[i])
			traffic->feeds[i] = offload_cut_bytes(cutter, part->feeds[i]) *
					    (is_spread(cutter, part, part->feeds[i]) ? traffic->reactors : UINT64_C(1));
		traffic->to_ps += traffic->feeds[i];
	}
	for (uint32_t i = 0; i < part->fetches_count; i++) {
		if (!part->fetch_shapes[i])
			traffic->fetches[i] = offload_cut_bytes(cutter, part->fetches[i]) *
					      (cutter->pools[part->fetches[i].node] ? traffic->reactors : UINT64_C(1));
		traffic->from_ps += traffic->fetches[i];
	}
}

/* ---- with options.count ---- */

static bool make_traffic_room(const struct cutter *cutter, struct graph_cut *cut)
{
	struct cut_pool *pool = offload_cut_pool_of(cut);

	cut->traffic = offload_cut_memory(pool, cut->parts_count + UINT64_C(1), sizeof(*cut->traffic));
	for (uint32_t i = 0; cut->traffic && i < cut->parts_count; i++) {
		const struct graph_part *part = &cut->parts[i];

		if (part->place == GRAPH_PLACE_WORKER)
			continue;
		cut->traffic[i] = (struct graph_traffic){
			.feeds = offload_cut_memory(pool, part->feeds_count + UINT64_C(1), sizeof(uint64_t)),
			.fetches = offload_cut_memory(pool, part->fetches_count + UINT64_C(1), sizeof(uint64_t)),
			.stays = offload_cut_memory(pool, part->feeds_count + UINT64_C(1), sizeof(bool)),
			.reactors = cut_pieces(&cutter->options, part->place),
		};
	}
	return !pool->failed;
}

/* False: out of memory. */
static bool count_cut(const struct cutter *cutter, struct graph_cut *cut)
{
	const struct graph *graph = cutter->graph;
	struct cut_pool scratch = { 0 };
	struct graph_type *types =
		offload_cut_memory(&scratch, cutter->value_first[graph->nodes_count] + UINT64_C(1), sizeof(*types));
	const struct graph_ps_plan plan = {
		.graph = graph,
		.cut = cut,
		.parts = cut->parts,
		.parts_count = cut->parts_count,
		.types = types,
		.first = cutter->value_first,
		.compiled = &cut->compiled,
	};
	struct star_error why = { 0 };

	for (uint32_t v = 0; types && v < graph->nodes_count; v++)
		for (uint32_t o = 0; o < graph->nodes[v]->outputs_count; o++)
			types[cutter->value_first[v] + o] = type_of(cutter, (struct graph_value){ v, o });
	if (types && cutter->options.count(&plan, cut->traffic, &why) < 0) {
		cut->unsupported = offload_cut_memory(offload_cut_pool_of(cut), strlen(why.text) + 1, 1);
		if (cut->unsupported)
			strcpy(cut->unsupported, why.text);
	}
	offload_cut_pool_free(&scratch);
	return types && !offload_cut_pool_of(cut)->failed;
}

bool offload_cut_count(const struct cutter *cutter, struct graph_cut *cut)
{
	if (!make_traffic_room(cutter, cut) || (cutter->options.count && !count_cut(cutter, cut)))
		return false;
	if (cut->unsupported && !make_traffic_room(cutter, cut))
		return false;
	for (uint32_t i = 0; i < cut->parts_count; i++) {
		if (cut->parts[i].place != GRAPH_PLACE_WORKER && (cut->unsupported || !cutter->options.count))
			count_values(cutter, &cut->parts[i], &cut->traffic[i]);
		cut->to_ps_bytes += cut->traffic[i].to_ps;
		cut->from_ps_bytes += cut->traffic[i].from_ps;
	}
	return true;
}
