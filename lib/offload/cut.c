/* SPDX-License-Identifier: BSD-3-Clause */
/* Cuts a graph: selects the protocol's algorithm, and cuts the bodies. */
#include "offload/cut.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "offload/cut_internal.h"

static const struct {
	const char *name;
	enum graph_protocol protocol;
} protocols[] = {
	{ "grpc++", GRAPH_GRPCPP },
	{ "grpc", GRAPH_GRPCPP },
	{ "star_server", GRAPH_STAR_SERVER },
	{ "star_server_lite", GRAPH_STAR_SERVER_LITE },
};

enum { PROTOCOLS = sizeof(protocols) / sizeof(protocols[0]) };

enum graph_protocol graph_protocol_parse(const char *text, struct star_error *err)
{
	for (unsigned i = 0; i < PROTOCOLS; i++)
		if (!strcmp(text, protocols[i].name))
			return protocols[i].protocol;
	star_error_set(err, -EINVAL,
		       "a protocol is \"grpc++\" (or \"grpc\", another name for it), \"star_server\" or "
		       "\"star_server_lite\", not \"%.100s\"",
		       text);
	return 0;
}

const char *graph_protocol_name(enum graph_protocol protocol)
{
	for (unsigned i = 0; i < PROTOCOLS; i++)
		if (protocols[i].protocol == protocol)
			return protocols[i].name;
	return "?";
}

bool graph_cut_moved(const struct graph_cut *cut, uint32_t node)
{
	uint32_t from = 0, to = cut->moved_count;

	while (from < to) {
		const uint32_t middle = from + (to - from) / 2;

		if (cut->moved[middle] == node)
			return true;
		if (cut->moved[middle] < node)
			from = middle + 1;
		else
			to = middle;
	}
	return false;
}

static uint64_t all_bytes(const struct graph_cut *cut)
{
	return cut->to_ps_bytes + cut->from_ps_bytes;
}

static bool no_worse(const struct graph_cut *cut, const struct graph_cut *than)
{
	return cut && cut->requests <= than->requests && cut->rounds <= than->rounds &&
	       all_bytes(cut) <= all_bytes(than);
}

static void say_worse(struct cutter *cutter, const struct graph_cut *cut, const struct graph_cut *than)
{
	offload_cut_warn(cutter,
			 "cut by star_server: merged components would need %u requests, %llu bytes and %u rounds "
			 "instead of %u, %llu and %u",
			 cut->requests, (unsigned long long)all_bytes(cut), cut->rounds, than->requests,
			 (unsigned long long)all_bytes(than), than->rounds);
}

/* The cut with all nodes in their current places. */
static struct graph_cut *lite_once(struct cutter *cutter)
{
	offload_cut_order_update(cutter);
	offload_cut_waves(cutter);
	offload_cut_lite(cutter);
	return cutter->pool.failed ? NULL : offload_cut_parts(cutter);
}

/* Moves all nodes back, and clears the warnings. */
static void start_again(struct cutter *cutter, bool copies)
{
	cutter->copies = copies;
	cutter->moved_count = cutter->warnings_count = cutter->warnings_more = 0;
	for (uint32_t v = 0; v < cutter->graph->nodes_count; v++)
		if (cutter->graph->nodes[v]->device.job != GRAPH_PS)
			cutter->place[v] = GRAPH_PLACE_WORKER;
	offload_cut_order_update(cutter);
}

/* Components with all nodes in their places; why: the reason why nothing is moved, for a warning. NULL: out of
 * memory. */
static struct graph_cut *cut_still(struct cutter *cutter, const char *why)
{
	start_again(cutter, true);
	if (why[0])
		offload_cut_warn(cutter, "nothing is moved to PS tasks: %s", why);
	return lite_once(cutter);
}

/* With moves; inputs of pools are kept on PS tasks for their gradients or not. NULL: nothing moves, PS tasks cannot
 * execute it (why), or out of memory. */
static struct graph_cut *cut_moved(struct cutter *cutter, bool stays, char *why, size_t why_bytes)
{
	struct graph_cut *moved;

	start_again(cutter, true);
	cutter->stays = stays;
	moved = offload_cut_move(cutter) ? lite_once(cutter) : NULL;
	if (!moved || !moved->unsupported)
		return moved;
	snprintf(why, why_bytes, "%s", moved->unsupported);
	graph_cut_destroy(moved);
	return NULL;
}

/* Components, with moves if they save bytes. Counting decides whether something is kept. */
static struct graph_cut *cut_components(struct cutter *cutter, const struct graph_cut *waves)
{
	struct graph_cut *best = cut_still(cutter, "");
	char why[sizeof(((struct star_error *)0)->text)] = "";

	for (unsigned turn = 0; best && !cutter->options.no_offload && turn < (cutter->options.count ? 2 : 1); turn++) {
		struct graph_cut *moved = cut_moved(cutter, turn == 1, why, sizeof(why)), *worse = moved;

		if (moved && no_worse(moved, waves) && no_worse(moved, best) &&
		    (turn == 0 || all_bytes(moved) < all_bytes(best))) {
			worse = best;
			best = moved;
		}
		graph_cut_destroy(worse);
	}
	if (!best || best->moved_count || best->unsupported || !why[0])
		return best;
	graph_cut_destroy(best);
	return cut_still(cutter, why);
}

/* First with the fewest requests; if that costs bytes, with each component as early as possible; if that costs bytes
 * too, star_server's cut. */
static struct graph_cut *cut_by_lite(struct cutter *cutter)
{
	struct graph_cut *waves, *best;

	offload_cut_waves(cutter);
	waves = offload_cut_parts(cutter);
	if (!waves)
		return NULL;
	best = cut_components(cutter, waves);
	if (best && !no_worse(best, waves)) {
		graph_cut_destroy(best);
		cutter->early = true;
		best = cut_components(cutter, waves);
	}
	if (best && !no_worse(best, waves)) {
		start_again(cutter, false);
		say_worse(cutter, best, waves);
		graph_cut_destroy(best);
		offload_cut_waves(cutter);
		best = offload_cut_parts(cutter);
	}
	graph_cut_destroy(waves);
	return best;
}

/* ---- bodies ---- */

/* The largest types of a graph with these feeds; NULL: unknown sizes remain unknown. The caller frees it. */
static struct graph_type **types_from(const struct graph *graph, const struct graph_type *feeds, uint32_t feeds_count)
{
	struct star_error ignored;

	return graph_infer_most(graph, feeds, feeds_count, &ignored);
}

/* The same for feeds with unknown sizes taken as a batch. */
static struct graph_type **types_of_batch(const struct graph *graph, int64_t batch)
{
	struct graph_type *feeds = calloc(graph->nodes_count + UINT64_C(1), sizeof(*feeds)), **types = NULL;
	uint32_t count = 0;

	for (uint32_t v = 0; feeds && v < graph->nodes_count; v++) {
		if (graph->nodes[v]->op != GRAPH_FEED)
			continue;
		feeds[count] = graph->nodes[v]->outputs[0];
		for (unsigned i = 0; i < feeds[count].shape.ndim; i++)
			if (feeds[count].shape.dims[i] < 0)
				feeds[count].shape.dims[i] = batch > 0 ? batch : 1;
		count++;
	}
	if (feeds)
		types = types_from(graph, feeds, count);
	free(feeds);
	return types;
}

/* The same for the body of a loop or branch, whose first nodes are its feeds: the inputs of a loop, or those of a
 * branch after its condition. */
static struct graph_type **types_of_body(const struct graph_node *node, const struct graph *body,
					 struct graph_type *const *types)
{
	const uint32_t skip = node->op == GRAPH_COND;
	struct graph_type feeds[GRAPH_INPUTS_MAX];
	uint32_t count = 0;

	for (; types && count + skip < node->inputs_count && count < body->nodes_count &&
	       body->nodes[count]->op == GRAPH_FEED;
	     count++)
		feeds[count] = types[node->inputs[count + skip].node][node->inputs[count + skip].output];
	return types ? types_from(body, feeds, count) : NULL;
}

static struct graph_cut *cut_body(const struct graph_cut *cut, uint32_t node, const struct graph *body,
				  const struct graph_cut_options *options, struct star_error *err)
{
	struct graph_cut_options inner = *options;
	struct graph_type **types = types_of_body(cut->graph->nodes[node], body, options->types);
	struct graph_cut *result;

	inner.types = types;
	result = graph_cut_create(body, &inner, err);
	free(types);
	return result;
}

static int cut_bodies(struct graph_cut *cut, const struct graph_cut_options *options, struct cut_pool *pool,
		      struct star_error *err)
{
	const struct graph *graph = cut->graph;
	uint32_t count = 0;

	for (uint32_t v = 0; v < graph->nodes_count; v++)
		count += graph->nodes[v]->body != NULL;
	cut->bodies = offload_cut_memory(pool, count + 1, sizeof(*cut->bodies));
	if (!cut->bodies)
		return star_error_set(err, -ENOMEM, "out of memory");
	for (uint32_t v = 0; v < graph->nodes_count; v++) {
		struct graph_body_cut *both = &cut->bodies[cut->bodies_count];

		if (!graph->nodes[v]->body)
			continue;
		both->node = v;
		both->body = cut_body(cut, v, graph->nodes[v]->body, options, err);
		both->cond = both->body ? cut_body(cut, v, graph->nodes[v]->cond, options, err) : NULL;
		cut->bodies_count++;
		if (!both->cond)
			return -EINVAL; /* the message is set already */
	}
	return 0;
}

/* With all types that are known. */
static struct graph_cut *create_cut(const struct graph *graph, const struct graph_cut_options *options,
				    struct star_error *err)
{
	struct graph_cut *cut = NULL;
	struct cutter cutter;

	if (offload_cut_order_init(&cutter, graph, options, err) == 0) {
		if (options->protocol == GRAPH_STAR_SERVER_LITE) {
			cut = cut_by_lite(&cutter);
		} else {
			offload_cut_waves(&cutter);
			cut = cutter.pool.failed ? NULL : offload_cut_parts(&cutter);
		}
		if (!cut)
			star_error_set(err, -ENOMEM, "out of memory");
	}
	if (cut && cut_bodies(cut, &cutter.options, offload_cut_pool_of(cut), err) < 0) {
		graph_cut_destroy(cut);
		cut = NULL;
	}
	offload_cut_pool_free(&cutter.pool);
	return cut;
}

struct graph_cut *graph_cut_create(const struct graph *graph, const struct graph_cut_options *options,
				   struct star_error *err)
{
	struct graph_cut_options known = *options;
	struct graph_type **types = NULL;
	struct graph_cut *cut;

	if (graph_error(graph, err) < 0)
		return NULL;
	if (!options->types)
		known.types = types = types_of_batch(graph, options->batch);
	cut = create_cut(graph, &known, err);
	free(types);
	return cut;
}
