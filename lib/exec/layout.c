/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lays out memory in advance. There is a block for each value, for each node's scratch, and for what PS parts return
 * twice, from the level that creates it to the last one that needs it. Offsets are then assigned level by level, in the
 * smallest gap that is large enough.
 */
#include "exec/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exec/kernel.h"

enum { END = UINT32_MAX - 1 }; /* of results: they last until the next step */

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

static int add_block(struct graph_plan *plan, uint64_t bytes, uint32_t from, uint32_t to, uint32_t *number,
		     struct star_error *err)
{
	if (bytes > PLAN_BYTES_MAX)
		return star_error_set(err, -ENOMEM, "a value of the graph would take %llu bytes",
				      (unsigned long long)bytes);
	*number = plan->blocks_count++;
	plan->blocks[*number] = (struct plan_block){ .bytes = round_up(bytes), .from = from, .to = to };
	return 0;
}

/* A value that is created in a level. */
static int make_layout(struct graph_plan *plan, uint32_t number, uint32_t level, struct star_error *err)
{
	struct plan_value *value = &plan->values[number];

	if (value->where != PLAN_ARENA || value->block != PLAN_NONE)
		return 0;
	return add_block(plan, graph_type_bytes(&plan->types[number]), level, level, &value->block, err);
}

static void use(struct graph_plan *plan, struct graph_value value, uint32_t level)
{
	const struct plan_value *root = &plan->values[plan->values[plan_number(plan, value)].root];

	if (root->block != PLAN_NONE && plan->blocks[root->block].to < level)
		plan->blocks[root->block].to = level;
}

/* Memory of the bodies, one after the other (both are used in each iteration), and of the carried values. */
static uint64_t flow_scratch(struct graph_plan *plan, struct plan_flow *flow)
{
	const struct graph_node *node = plan->graph->nodes[flow->node];
	uint64_t bytes = flow->body->bytes;

	flow->cond_offset = bytes;
	bytes += flow->cond->bytes;
	flow->carried_offset = bytes;
	for (int64_t i = 0; node->op == GRAPH_WHILE && i < graph_attr_int(node, "carried", 0); i++)
		bytes += round_up(graph_type_bytes(&plan->types[plan->first[flow->node] + (uint32_t)i]));
	return bytes;
}

static int node_blocks(struct graph_plan *plan, struct plan_item *item, uint32_t level, struct star_error *err)
{
	const struct graph_node *node = plan->graph->nodes[item->id];
	const struct graph_type *in[GRAPH_INPUTS_MAX], *out[GRAPH_OUTPUTS_MAX];
	uint64_t scratch;

	for (uint32_t i = 0; i < node->inputs_count; i++)
		in[i] = &plan->types[plan_number(plan, node->inputs[i])];
	for (uint32_t o = 0; o < node->outputs_count; o++) {
		out[o] = &plan->types[plan->first[item->id] + o];
		if (make_layout(plan, plan->first[item->id] + o, level, err) < 0)
			return err->code;
	}
	scratch =
		item->kind == PLAN_FLOW ? flow_scratch(plan, &plan->flows[item->flow]) : kernel_scratch(node, in, out);
	return scratch ? add_block(plan, scratch, level, level, &item->scratch, err) : 0;
}

static int start_blocks(struct graph_plan *plan, uint32_t p, uint32_t level, struct star_error *err)
{
	struct plan_part *mine = &plan->parts[p];
	const struct graph_part *part = &plan->ps_plan.parts[mine->part];

	for (uint32_t i = 0; i < part->fetches_count; i++) {
		const uint32_t number = plan_number(plan, part->fetches[i]);
		int rc;

		if (plan->values[number].provider == p)
			rc = make_layout(plan, number, level, err);
		else
			rc = add_block(plan, graph_type_bytes(&plan->types[number]), level, level, &mine->spare[i],
				       err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Inputs and outputs of a PS part stay until it has been waited for. */
static void wait_uses(struct graph_plan *plan, uint32_t p, uint32_t level)
{
	const struct plan_part *mine = &plan->parts[p];
	const struct graph_part *part = &plan->ps_plan.parts[mine->part];

	for (uint32_t i = 0; i < part->feeds_count; i++)
		use(plan, part->feeds[i], level);
	for (uint32_t i = 0; i < part->fetches_count; i++) {
		if (mine->spare[i] != PLAN_NONE)
			plan->blocks[mine->spare[i]].to = level;
		else
			use(plan, part->fetches[i], level);
	}
}

static int item_blocks(struct graph_plan *plan, struct plan_item *item, uint32_t level, struct star_error *err)
{
	if (item->kind == PLAN_START)
		return start_blocks(plan, item->id, level, err);
	return item->kind == PLAN_WAIT ? 0 : node_blocks(plan, item, level, err);
}

static void item_uses(struct graph_plan *plan, const struct plan_item *item, uint32_t level)
{
	const struct graph_node *node;

	if (item->kind == PLAN_WAIT)
		wait_uses(plan, item->id, level);
	if (item->kind == PLAN_START || item->kind == PLAN_WAIT)
		return;
	node = plan->graph->nodes[item->id];
	for (uint32_t i = 0; i < node->inputs_count; i++)
		use(plan, node->inputs[i], level);
}

static int make_blocks(struct graph_plan *plan, struct star_error *err)
{
	const uint64_t most = (uint64_t)plan->values_count + plan->items_count + plan->tensors_count;

	plan->blocks = exec_plan_alloc(plan, most, sizeof(*plan->blocks), err);
	if (!plan->blocks)
		return err->code;
	for (uint32_t level = 0; level < plan->levels_count; level++)
		for (uint32_t i = 0; i < plan->levels[level].count; i++)
			if (item_blocks(plan, &plan->items[plan->levels[level].first + i], level, err) < 0)
				return err->code;
	for (uint32_t level = 0; level < plan->levels_count; level++)
		for (uint32_t i = 0; i < plan->levels[level].count; i++)
			item_uses(plan, &plan->items[plan->levels[level].first + i], level);
	for (uint32_t i = 0; i < plan->graph->results_count; i++)
		use(plan, plan->graph->results[i], END);
	return 0;
}

/* ---- offsets ---- */

struct gap {
	uint64_t offset, bytes;
};

/* Gaps in ascending order, never next to each other; the last one may end where the arena ends. */
struct gaps {
	struct gap *all;
	uint32_t count;
	uint64_t end; /* of the arena */
};

static void remove_gap(struct gaps *gaps, uint32_t at)
{
	memmove(&gaps->all[at], &gaps->all[at + 1], (--gaps->count - at) * sizeof(gaps->all[0]));
}

static uint64_t take_gap(struct gaps *gaps, uint64_t bytes)
{
	uint32_t best = UINT32_MAX;
	uint64_t offset;

	for (uint32_t i = 0; i < gaps->count; i++)
		if (gaps->all[i].bytes >= bytes && (best == UINT32_MAX || gaps->all[i].bytes < gaps->all[best].bytes))
			best = i;
	if (best == UINT32_MAX) {
		struct gap *last = gaps->count ? &gaps->all[gaps->count - 1] : NULL;

		offset = gaps->end;
		if (last && last->offset + last->bytes == gaps->end) {
			offset = last->offset;
			gaps->count--;
		}
		gaps->end = offset + bytes;
		return offset;
	}
	offset = gaps->all[best].offset;
	gaps->all[best].offset += bytes;
	gaps->all[best].bytes -= bytes;
	if (!gaps->all[best].bytes)
		remove_gap(gaps, best);
	return offset;
}

static void give_back(struct gaps *gaps, uint64_t offset, uint64_t bytes)
{
	uint32_t at = gaps->count;

	while (at && gaps->all[at - 1].offset > offset)
		at--;
	memmove(&gaps->all[at + 1], &gaps->all[at], (gaps->count++ - at) * sizeof(gaps->all[0]));
	gaps->all[at] = (struct gap){ offset, bytes };
	if (at + 1 < gaps->count && offset + bytes == gaps->all[at + 1].offset) {
		gaps->all[at].bytes += gaps->all[at + 1].bytes;
		remove_gap(gaps, at + 1);
	}
	if (at && gaps->all[at - 1].offset + gaps->all[at - 1].bytes == offset) {
		gaps->all[at - 1].bytes += gaps->all[at].bytes;
		remove_gap(gaps, at);
	}
}

static int by_end(const void *a, const void *b, void *plan)
{
	const struct plan_block *blocks = ((const struct graph_plan *)plan)->blocks;
	const uint32_t x = blocks[*(const uint32_t *)a].to, y = blocks[*(const uint32_t *)b].to;

	return x < y ? -1 : x > y;
}

/* Blocks are in the order of their first levels. */
int exec_plan_layout(struct graph_plan *plan, struct star_error *err)
{
	struct gaps gaps = { 0 };
	uint32_t *ends, ended = 0;

	if (make_blocks(plan, err) < 0)
		return err->code;
	ends = exec_plan_alloc(plan, plan->blocks_count, sizeof(*ends), err);
	gaps.all = exec_plan_alloc(plan, plan->blocks_count + UINT64_C(1), sizeof(*gaps.all), err);
	if (!ends || !gaps.all)
		return err->code;
	for (uint32_t i = 0; i < plan->blocks_count; i++)
		ends[i] = i;
	qsort_r(ends, plan->blocks_count, sizeof(*ends), by_end, plan);
	for (uint32_t i = 0; i < plan->blocks_count; i++) {
		struct plan_block *block = &plan->blocks[i];

		for (; plan->blocks[ends[ended]].to < block->from; ended++)
			if (plan->blocks[ends[ended]].bytes)
				give_back(&gaps, plan->blocks[ends[ended]].offset, plan->blocks[ends[ended]].bytes);
		block->offset = block->bytes ? take_gap(&gaps, block->bytes) : 0;
		if (gaps.end > PLAN_BYTES_MAX)
			return star_error_set(err, -ENOMEM, "a step would take more than %llu bytes",
					      (unsigned long long)PLAN_BYTES_MAX);
	}
	plan->bytes = gaps.end;
	return 0;
}
