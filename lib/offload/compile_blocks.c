/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Components that use a variable as a whole: their keys are all of its blocks. Values of the variable's shape are rows
 * by block, the last of which is padded (wire/object.h); scalars are shared. Each block returns its part of a sum, as
 * float64, and these are added here in the order of the blocks: so the sum has the worker's bits (tensor/sums.h), for
 * any number of reactors.
 */
#include <errno.h>
#include <string.h>

#include "client/spec.h"
#include "compile_internal.h"
#include "offload/template.h"

int offload_compile_blocks(struct compile_build *b, const struct graph_node *variable)
{
	const struct compile_feed keys = { .kind = COMPILE_KEYS, .source = { .feed = COMPILE_NO_FEED } };
	struct compiled *c = b->c;
	struct template_object object;
	struct object_spec spec;
	uint32_t index;

	if (offload_template_object(variable, &object, b->err) < 0 ||
	    client_spec_of(&spec, &object.spec, OBJECT_VARIABLE, b->err) < 0)
		return b->err->code;
	if (wire_object_blocks(&spec) > COMPILE_KEYS_MAX)
		return offload_compile_not_done(b, " on a variable of this size");
	c->blocks = (uint32_t)wire_object_blocks(&spec);
	c->block = spec.dim;
	c->elements = wire_object_elements(&spec);
	b->whole = &variable->outputs[0].shape;
	c->numbers = offload_compile_add_scratch(b, c->blocks * sizeof(uint64_t));
	return offload_compile_add_feed(b, keys, &index);
}

/* ---- values ---- */

static bool is_padded(const struct compiled *c)
{
	return c->elements % c->block != 0;
}

static uint64_t padded_bytes(const struct compiled *c)
{
	return (uint64_t)c->blocks * c->block * sizeof(float);
}

static bool has_whole_blocks(const struct compile_build *b, struct graph_value value)
{
	return graph_shape_same(offload_compile_shape_of(b, value), b->whole);
}

/* Whether a step has rows by block; otherwise it has a scalar. */
static bool has_blocks(const struct compiled *c, unsigned step)
{
	const struct compile_step *s = &c->steps[step];

	switch (s->kind) {
	case COMPILE_UNARY:
		return has_blocks(c, s->a);
	case COMPILE_BINARY:
		return has_blocks(c, s->a) || has_blocks(c, s->b);
	default:
		return s->kind != COMPILE_SHARED;
	}
}

static int fed(struct compile_build *b, struct graph_value value, struct compile_feed feed)
{
	const bool one = graph_elements(offload_compile_shape_of(b, value)) == 1;
	uint32_t index;

	if (!has_whole_blocks(b, value) || (one && feed.source.constant)) {
		if (!one)
			return offload_compile_not_done(b, " with an input of that shape");
		feed.kind = COMPILE_SHARED;
		feed.dim = 1;
		return offload_compile_add_feed(b, feed, &index);
	}
	feed.kind = COMPILE_ROWS;
	feed.dim = b->c->block;
	if (is_padded(b->c)) {
		feed.how = COMPILE_PADDED;
		feed.scratch = offload_compile_add_scratch(b, padded_bytes(b->c));
	}
	return offload_compile_add_feed(b, feed, &index);
}

/* Of the variable's shape, or a scalar. */
static int operand(struct compile_build *b, struct graph_value value)
{
	struct compile_feed feed = { 0 };

	if (b->step[value.node] != COMPILE_NOT_MADE)
		return b->step[value.node];
	if (graph_ps_type(b->plan, value)->dtype != STAR_FLOAT32)
		return offload_compile_not_done(b, " with this input");
	if (offload_compile_find_source(b, value, &feed.source))
		return fed(b, value, feed);
	return has_whole_blocks(b, value) ? offload_compile_take(b, value, b->c->block)
					  : offload_compile_not_done(b, " with this input");
}

static int blocks_of(struct compile_build *b, struct graph_value value)
{
	const int step = operand(b, value);

	return step < 0 || has_blocks(b->c, (unsigned)step) ? step : offload_compile_not_done(b, " with this input");
}

/* ---- nodes ---- */

/* All readers share one: changes come after it. */
static int blocks_read(struct compile_build *b)
{
	struct compiled *c = b->c;
	int step = -1;

	if (b->node->outputs[0].dtype != STAR_FLOAT32)
		return offload_compile_not_done(b, " for computations in types other than float32");
	for (unsigned s = 0; s < c->steps_count; s++) {
		if (c->steps[s].kind == COMPILE_APPLY)
			return offload_compile_not_done(b, " a second time after a change");
		step = c->steps[s].kind == COMPILE_LOOKUP ? (int)s : step;
	}
	return step >= 0 ? step : offload_compile_add_step(b, (struct compile_step){ .kind = COMPILE_LOOKUP });
}

static int blocks_apply(struct compile_build *b)
{
	const int gradient = blocks_of(b, b->node->inputs[1]);

	return gradient < 0 ? gradient : offload_compile_add_apply(b, gradient);
}

/* Two at a time, starting with the first, as the worker does. */
static int blocks_elementwise(struct compile_build *b)
{
	const struct graph_node *node = b->node;
	const char *name = offload_compile_step_name(node);
	int result = operand(b, node->inputs[0]);

	if (result >= 0 && node->inputs_count == 1)
		result = offload_compile_add_step(b, (struct compile_step){ .kind = COMPILE_UNARY,
									    .a = (uint8_t)result,
									    .name = name });
	for (uint32_t i = 1; result >= 0 && i < node->inputs_count; i++) {
		const int other = operand(b, node->inputs[i]);

		result = other < 0 ? other
				   : offload_compile_add_step(b, (struct compile_step){ .kind = COMPILE_BINARY,
											.a = (uint8_t)result,
											.b = (uint8_t)other,
											.name = name });
	}
	if (result >= 0 && has_blocks(b->c, (unsigned)result) &&
	    !has_whole_blocks(b, (struct graph_value){ node->id, 0 }))
		return offload_compile_not_done(b, " to this shape");
	return result;
}

static int fetch(struct compile_build *b, int step, struct compile_fetch fetch)
{
	struct compiled *c = b->c;
	const int rc = c->fetches_count == COMPILE_FETCHES_MAX
			       ? offload_compile_not_done(b, " with so many others")
			       : offload_compile_add_step(b, (struct compile_step){ .kind = COMPILE_FETCH,
										    .a = (uint8_t)step });

	if (rc >= 0)
		c->fetches[c->fetches_count++] = fetch;
	return rc;
}

int offload_compile_blocks_output(struct compile_build *b, uint32_t of)
{
	struct compile_fetch to = { .fetch = of };
	const unsigned step = b->step[b->node->id];

	if (!has_blocks(b->c, step))
		return offload_compile_not_done(b, " that is returned");
	for (unsigned s = 0; s < b->c->steps_count; s++) /* of two reads, and of an unchanged value */
		if (b->c->steps[s].kind == COMPILE_FETCH && b->c->steps[s].a == step)
			return offload_compile_not_done(b, " that is returned twice");
	if (is_padded(b->c)) {
		to.how = COMPILE_PADDED;
		to.scratch = offload_compile_add_scratch(b, padded_bytes(b->c));
	}
	return fetch(b, (int)step, to);
}

/* A sum over all elements: it can only be returned. */
static int blocks_sum(struct compile_build *b)
{
	const struct graph_value value = { b->node->id, 0 };
	struct compile_fetch to = { .how = b->node->op == GRAPH_MEAN ? COMPILE_AVERAGED : COMPILE_SUMMED };
	int rows, step;

	if (graph_elements(offload_compile_shape_of(b, value)) != 1)
		return offload_compile_not_done(b, " over these axes");
	while (to.fetch < b->part->fetches_count && !graph_same(b->part->fetches[to.fetch], value))
		to.fetch++;
	if (to.fetch == b->part->fetches_count)
		return offload_compile_not_done(b, " if other nodes there need it");
	rows = blocks_of(b, b->node->inputs[0]);
	step = rows < 0 ? rows
			: offload_compile_add_step(b, (struct compile_step){ .kind = COMPILE_UNARY,
									     .a = (uint8_t)rows,
									     .name = "row_sum64" });
	if (step < 0)
		return step;
	to.scratch = offload_compile_add_scratch(b, b->c->blocks * sizeof(double));
	step = fetch(b, step, to);
	return step < 0 ? step : COMPILE_NOT_MADE;
}

/* A scalar for each element. */
static int blocks_expand(struct compile_build *b)
{
	return operand(b, b->node->inputs[0]);
}

static int blocks_reduce_like(struct compile_build *b)
{
	return has_whole_blocks(b, (struct graph_value){ b->node->id, 0 }) ? operand(b, b->node->inputs[0])
									   : blocks_sum(b);
}

static int blocks_none(struct compile_build *b)
{
	return offload_compile_not_done(b, "");
}

int offload_compile_blocks_node(struct compile_build *b)
{
	static int (*const by_blocks[])(struct compile_build * b) = {
#define X(OP, step, moves, rows, blocks) [GRAPH_##OP] = blocks_##blocks,
		COMPILE_OPS(X)
#undef X
	};
	const unsigned op = (unsigned)b->node->op;

	return op < sizeof(by_blocks) / sizeof(by_blocks[0]) && by_blocks[op] ? by_blocks[op](b) : blocks_none(b);
}

int offload_compile_blocks_size(struct compile_build *b)
{
	const struct compiled *c = b->c;
	uint64_t to = c->blocks * sizeof(uint64_t), from = 0;

	for (unsigned f = 0; f < c->feeds_count; f++)
		to += c->feeds[f].kind == COMPILE_ROWS ? padded_bytes(c) : c->feeds[f].dim * sizeof(float);
	for (unsigned f = 0; f < c->fetches_count; f++)
		from += c->fetches[f].how == COMPILE_SUMMED || c->fetches[f].how == COMPILE_AVERAGED
				? c->blocks * sizeof(double)
				: padded_bytes(c);
	b->node = c->first;
	return to > COMPILE_BYTES_MAX || from > COMPILE_BYTES_MAX
		       ? offload_compile_not_done(b, " on a variable of this size")
		       : 0;
}

/* ---- runs ---- */

static int fill_feed(const struct compiled *c, const struct compile_feed *feed, const struct graph_ps_call *call,
		     struct compiled_run *run, struct star_feed *to, struct star_error *err)
{
	const bool kept = feed->kept && !feed->source.constant && feed->source.feed == COMPILE_NO_FEED;
	uint8_t *padded = run->scratch + feed->scratch;

	*to = (struct star_feed){ kept ? NULL : offload_compiled_data(&feed->source, call), 0 };
	if (kept)
		return 0;
	if ((uint64_t)graph_elements(&offload_compiled_type(&feed->source, call)->shape) !=
	    (feed->kind == COMPILE_ROWS ? c->elements : 1))
		return star_error_set(err, -EINVAL, "node \"%s\": its input does not have the variable's size",
				      c->first->name);
	if (feed->how != COMPILE_PADDED)
		return 0;
	memcpy(padded, to->data, c->elements * sizeof(float));
	memset(padded + c->elements * sizeof(float), 0, padded_bytes(c) - c->elements * sizeof(float));
	to->data = padded;
	return 0;
}

int offload_compiled_blocks_fill(const struct compiled *c, const struct graph_ps_call *call, struct compiled_run *run,
				 struct star_error *err)
{
	uint64_t *numbers = (uint64_t *)(void *)(run->scratch + c->numbers);

	for (uint32_t i = 0; i < c->blocks; i++)
		numbers[i] = i;
	run->feeds[0] = (struct star_feed){ numbers, c->blocks };
	for (unsigned f = 1; f < c->feeds_count; f++)
		if (fill_feed(c, &c->feeds[f], call, run, &run->feeds[f], err) < 0)
			return err->code;
	for (unsigned f = 0; f < c->fetches_count; f++)
		run->fetches[f] = c->fetches[f].how == COMPILE_AS_IT_IS
					  ? call->fetches[c->fetches[f].fetch].data
					  : (float *)(void *)(run->scratch + c->fetches[f].scratch);
	return 1;
}

void offload_compiled_blocks_finish(const struct compiled *c, const struct graph_ps_call *call,
				    const struct compiled_run *run)
{
	for (unsigned f = 0; f < c->fetches_count; f++) {
		const struct compile_fetch *fetch = &c->fetches[f];
		const float *from = run->fetches[f]; /* of sums: a float64 for each block */
		float *to = call->fetches[fetch->fetch].data;
		double all = 0;

		if (fetch->how == COMPILE_PADDED)
			memcpy(to, from, c->elements * sizeof(float));
		if (fetch->how != COMPILE_SUMMED && fetch->how != COMPILE_AVERAGED)
			continue;
		for (uint32_t i = 0; i < c->blocks; i++) {
			double block;

			memcpy(&block, &from[2 * i], sizeof(block));
			all += block;
		}
		*to = (float)(fetch->how == COMPILE_AVERAGED ? all / (double)c->elements : all);
	}
}
