/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks a cut. It shares nothing with the algorithms: it uses the graph and the result alone. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "offload/cut.h"
#include "graph/handle.h"

/* Everything by number: nodes, values (all nodes' outputs, one after the other) and parts. */
struct checker {
	const struct graph *graph;
	const struct graph_cut *cut;
	struct star_error *err;
	uint32_t *value_first;
	uint32_t *part_of;  /* the part that executes a node; for copied nodes: the worker's, if that has one */
	uint32_t *executed; /* in how many parts a node is */
	uint32_t *in_part, *fed, *kept, *before; /* the part (from 1) for which a node, value or part was last marked */
	uint32_t *fetched_by;			 /* the part (from 1) that fetches a value */
	uint8_t *wanted;			 /* a value is needed in another part, or is a result */
	uint32_t *depth;
};

static int wrong(const struct checker *c, uint32_t part, uint32_t node, const char *what)
{
	return star_error_set(c->err, -EINVAL, "part %u, node \"%s\": %s", part,
			      node < c->graph->nodes_count ? c->graph->nodes[node]->name : "-", what);
}

static int32_t node_place(const struct checker *c, const struct graph_node *node)
{
	if (node->device.job != GRAPH_PS)
		return GRAPH_PLACE_WORKER;
	if (c->cut->worker_only && !graph_is_handle(node) &&
	    !(node->inputs_count && graph_is_handle(c->graph->nodes[node->inputs[0].node])))
		return GRAPH_PLACE_WORKER;
	return node->device.task < 0 ? GRAPH_PLACE_ALL : node->device.task;
}

static bool may_be_copied(const struct checker *c, const struct graph_node *node)
{
	return graph_is_handle(node) || (c->cut->protocol == GRAPH_STAR_SERVER_LITE && node->op == GRAPH_CONST &&
					 node->device.job == GRAPH_UNPLACED && !node->controls_count);
}

/* ---- where nodes are ---- */

static int check_moved(const struct checker *c)
{
	if (c->cut->moved_count && c->cut->protocol != GRAPH_STAR_SERVER_LITE)
		return wrong(c, 0, c->cut->moved[0], "only lite moves nodes");
	for (uint32_t i = 0; i < c->cut->moved_count; i++) {
		const uint32_t v = c->cut->moved[i];
		const struct graph_op_info *info;

		if (v >= c->graph->nodes_count || (i && v <= c->cut->moved[i - 1]))
			return wrong(c, 0, v, "moved nodes are not in order");
		info = graph_op_info(c->graph->nodes[v]->op);
		if (c->graph->nodes[v]->device.job != GRAPH_UNPLACED || info->place != GRAPH_ANYWHERE ||
		    info->flags & GRAPH_STATEFUL)
			return wrong(c, 0, v, "it must not be moved");
	}
	return 0;
}

static int check_nodes(const struct checker *c, uint32_t number)
{
	const struct graph_part *part = &c->cut->parts[number];

	for (uint32_t i = 0; i < part->nodes_count; i++) {
		const uint32_t v = part->nodes[i];
		const struct graph_node *node;

		if (v >= c->graph->nodes_count || (i && v <= part->nodes[i - 1]))
			return wrong(c, number, v, "nodes are not in order");
		node = c->graph->nodes[v];
		if (may_be_copied(c, node)) {
			if (graph_is_handle(node) && node_place(c, node) != part->place)
				return wrong(c, number, v, "a handle is not in its place");
		} else if (c->executed[v]) {
			return wrong(c, number, v, "it is in two parts");
		} else if (node_place(c, node) != part->place &&
			   !(part->place != GRAPH_PLACE_WORKER && graph_cut_moved(c->cut, v))) {
			return wrong(c, number, v, "it is not in its place");
		}
		if (part->place == GRAPH_PLACE_WORKER && c->executed[v] &&
		    c->cut->parts[c->part_of[v]].place == GRAPH_PLACE_WORKER)
			return wrong(c, number, v, "it is in two parts of the worker");
		if (!c->executed[v] || part->place == GRAPH_PLACE_WORKER)
			c->part_of[v] = number;
		c->executed[v]++;
	}
	return 0;
}

static int check_all_nodes(const struct checker *c)
{
	for (uint32_t v = 0; v < c->graph->nodes_count; v++)
		if (!c->executed[v] && !graph_is_handle(c->graph->nodes[v]))
			return wrong(c, 0, v, "it is in no part");
	for (uint32_t i = 0; i < c->cut->moved_count; i++)
		if (c->cut->parts[c->part_of[c->cut->moved[i]]].place == GRAPH_PLACE_WORKER)
			return wrong(c, 0, c->cut->moved[i], "it is listed as moved, but was not");
	return 0;
}

/* ---- inputs of parts ---- */

static int mark_values(const struct checker *c, uint32_t number, const struct graph_value *values, uint32_t count,
		       uint32_t *mark)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct graph_type *type = graph_type(c->graph, values[i]);
		uint32_t *m;

		if (!type || !type->dtype)
			return wrong(c, number, values[i].node, "a message has a handle, or nothing");
		m = &mark[c->value_first[values[i].node] + values[i].output];
		if (*m == number + 1)
			return wrong(c, number, values[i].node, "a value is listed twice");
		*m = number + 1;
	}
	return 0;
}

/* Checks an input of a node of the part. Counts down the feeds and kept values that are used. */
static int check_input(const struct checker *c, uint32_t number, uint32_t v, struct graph_value input, uint32_t *feeds,
		       uint32_t *kept)
{
	const struct graph_part *part = &c->cut->parts[number];
	const uint32_t value = c->value_first[input.node] + input.output;
	uint32_t maker;

	if (c->in_part[input.node] == number + 1)
		return 0;
	if (graph_is_handle(c->graph->nodes[input.node]))
		return wrong(c, number, v, "its handle is not in its part");
	if (c->fed[value] != number + 1 && c->kept[value] != number + 1 && c->fed[value] != UINT32_MAX - number)
		return wrong(c, number, v, "an input is missing");
	if (c->fed[value] == UINT32_MAX - number)
		return 0; /* checked below */
	maker = c->part_of[input.node];
	if (maker >= number || c->before[maker] != number + 1)
		return wrong(c, number, v, "it does not wait for an input");
	if (c->fed[value] == number + 1) {
		if (c->cut->parts[maker].place == part->place)
			return wrong(c, number, input.node, "it is fed, though it is available there");
		if (c->fetched_by[value] != maker + 1)
			return wrong(c, number, input.node, "it is fed, but not fetched");
		--*feeds;
	} else {
		if (c->cut->parts[maker].place != part->place)
			return wrong(c, number, input.node, "it is kept, but computed elsewhere");
		--*kept;
	}
	c->wanted[value] |= c->fed[value] == number + 1;
	c->fed[value] = UINT32_MAX - number;
	return 0;
}

static int check_controls(const struct checker *c, uint32_t number, const struct graph_node *node)
{
	for (uint32_t i = 0; i < node->controls_count && !graph_is_handle(node); i++) {
		const uint32_t u = node->controls[i];

		if (may_be_copied(c, c->graph->nodes[u]))
			continue; /* handles and constants are not executed there */
		if (c->part_of[u] != number && c->before[c->part_of[u]] != number + 1)
			return wrong(c, number, node->id, "it does not wait for a node that a control edge names");
	}
	return 0;
}

static int check_part(const struct checker *c, uint32_t number)
{
	const struct graph_part *part = &c->cut->parts[number];
	uint32_t feeds = part->feeds_count, kept = part->kept_count;
	int rc = mark_values(c, number, part->feeds, part->feeds_count, c->fed);

	if (rc == 0)
		rc = mark_values(c, number, part->kept, part->kept_count, c->kept);
	if ((part->place == GRAPH_PLACE_WORKER) != (part->wave % 2 == 0))
		return wrong(c, number, UINT32_MAX, "its wave does not match its place");
	for (uint32_t i = 0; i < part->after_count; i++) {
		const uint32_t u = part->after[i];

		if (u >= number || (i && u <= part->after[i - 1]) || c->cut->parts[u].wave >= part->wave)
			return wrong(c, number, UINT32_MAX, "it does not come after what it waits for");
		c->before[u] = number + 1;
		if (c->depth[u] > c->depth[number])
			c->depth[number] = c->depth[u];
	}
	c->depth[number] += part->place != GRAPH_PLACE_WORKER;
	for (uint32_t i = 0; i < part->nodes_count; i++)
		c->in_part[part->nodes[i]] = number + 1;
	for (uint32_t i = 0; i < part->nodes_count && rc == 0; i++) {
		const struct graph_node *node = c->graph->nodes[part->nodes[i]];

		for (uint32_t k = 0; k < node->inputs_count && rc == 0; k++)
			rc = check_input(c, number, node->id, node->inputs[k], &feeds, &kept);
		if (rc == 0)
			rc = check_controls(c, number, node);
	}
	if (rc == 0 && (feeds || kept))
		return wrong(c, number, UINT32_MAX, "it is fed something that it does not use");
	return rc;
}

/* ---- the order of stateful nodes ---- */

/* A node that uses a resource, also in its bodies. */
struct touch {
	const char *name;
	uint32_t node;
	bool writes;
};

static uint32_t touches_of(const struct graph *graph, uint32_t as, struct touch *touches, uint32_t at)
{
	for (uint32_t v = 0; v < graph->nodes_count; v++) {
		const struct graph_node *node = graph->nodes[v];
		const uint32_t id = as == UINT32_MAX ? v : as;
		const struct graph_op_info *info = graph_op_info(node->op);

		if (node->body) {
			at = touches_of(node->body, id, touches, at);
			at = touches_of(node->cond, id, touches, at);
		} else if (info->flags & GRAPH_STATEFUL && !graph_is_handle(node)) {
			if (touches)
				touches[at] = (struct touch){ graph_resource(graph, node->inputs[0])->name, id,
							      node->op != GRAPH_READ && node->op != GRAPH_LOOKUP };
			at++;
		}
	}
	return at;
}

static int by_touch(const void *a, const void *b)
{
	const struct touch *x = a, *y = b;
	const int names = strcmp(x->name, y->name);

	return names ? names : x->node < y->node ? -1 : x->node > y->node;
}

/* Two nodes in program order are in one part, or the later one's part waits for the earlier one's, directly or not. */
static bool in_order(const struct checker *c, uint32_t earlier, uint32_t later)
{
	const uint32_t a = c->part_of[earlier], b = c->part_of[later];
	const struct graph_part *part = &c->cut->parts[b];

	for (uint32_t i = 0; i < part->after_count; i++)
		if (part->after[i] == a)
			return true;
	return a == b;
}

static int check_state(const struct checker *c)
{
	const uint32_t count = touches_of(c->graph, UINT32_MAX, NULL, 0);
	struct touch *t = calloc(count + 1, sizeof(*t));
	uint32_t write = UINT32_MAX; /* the last change of this resource */
	int rc = t ? 0 : star_error_set(c->err, -ENOMEM, "out of memory");

	if (t)
		touches_of(c->graph, UINT32_MAX, t, 0);
	if (t && count)
		qsort(t, count, sizeof(*t), by_touch);
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		bool writes = t[i].writes;

		if (i && strcmp(t[i].name, t[i - 1].name))
			write = UINT32_MAX;
		for (uint32_t k = i + 1; k < count && !strcmp(t[k].name, t[i].name) && t[k].node == t[i].node; k++, i++)
			writes |= t[k].writes;
		if (write != UINT32_MAX && !in_order(c, t[write].node, t[i].node))
			rc = wrong(c, c->part_of[t[i].node], t[i].node, "it does not wait for a change before it");
		/* a change waits for all reads since the previous one */
		for (uint32_t r = i; writes && rc == 0 && r-- > 0 && !strcmp(t[r].name, t[i].name) &&
				     (write == UINT32_MAX || r > write);)
			if (!in_order(c, t[r].node, t[i].node))
				rc = wrong(c, c->part_of[t[i].node], t[i].node,
					   "it does not wait for a read before it");
		if (writes)
			write = i;
	}
	free(t);
	return rc;
}

/* ---- outputs of parts ---- */

static int check_fetches(const struct checker *c)
{
	for (uint32_t i = 0; i < c->graph->results_count; i++)
		c->wanted[c->value_first[c->graph->results[i].node] + c->graph->results[i].output] = 1;
	for (uint32_t v = 0; v < c->graph->nodes_count; v++)
		for (uint32_t o = 0; o < c->graph->nodes[v]->outputs_count; o++)
			if ((c->fetched_by[c->value_first[v] + o] != 0) != (c->wanted[c->value_first[v] + o] != 0))
				return wrong(c, 0, v,
					     c->wanted[c->value_first[v] + o]
						     ? "a value is not fetched"
						     : "a value is fetched, but nothing needs it");
	return 0;
}

static int mark_fetches(const struct checker *c, uint32_t number)
{
	const struct graph_part *part = &c->cut->parts[number];

	for (uint32_t i = 0; i < part->nodes_count; i++)
		c->in_part[part->nodes[i]] = number + 1;
	for (uint32_t i = 0; i < part->fetches_count; i++) {
		const struct graph_value value = part->fetches[i];
		const struct graph_type *type = graph_type(c->graph, value);
		uint32_t *by;

		if (!type || !type->dtype || c->in_part[value.node] != number + 1)
			return wrong(c, number, value.node, "what is fetched is not computed there");
		by = &c->fetched_by[c->value_first[value.node] + value.output];
		if (*by)
			return wrong(c, number, value.node, "it is fetched twice");
		*by = number + 1;
	}
	return 0;
}

/* Messages are in the order of parts, inputs before outputs, and have each value once. */
static int check_messages(const struct checker *c)
{
	const struct graph_cut *cut = c->cut;
	const bool each = cut->protocol == GRAPH_GRPCPP && !cut->fuse;
	uint32_t at = 0;

	for (uint32_t i = 0; i < cut->parts_count * 2; i++) {
		const struct graph_part *part = &cut->parts[i / 2];
		const bool to_ps = i % 2 == 0;
		const uint32_t count = to_ps ? part->feeds_count : part->fetches_count;
		const struct graph_value *values = to_ps ? part->feeds : part->fetches;
		uint32_t seen = 0, messages = 0;

		if (part->place == GRAPH_PLACE_WORKER)
			continue;
		for (; at < cut->messages_count && cut->messages[at].part == i / 2 && cut->messages[at].to_ps == to_ps;
		     at++) {
			const struct graph_message *message = &cut->messages[at];

			if (message->values_count > count - seen || (each && message->values_count > 1) ||
			    (message->values_count &&
			     memcmp(message->values, values + seen, message->values_count * sizeof(*values))))
				return wrong(c, i / 2, UINT32_MAX, "a message does not match what the part needs");
			seen += message->values_count;
			messages++;
		}
		if (seen != count || (!each && messages > 1) ||
		    (to_ps && !messages && (cut->protocol != GRAPH_GRPCPP || !part->fetches_count)))
			return wrong(c, i / 2, UINT32_MAX, "its messages are not complete");
	}
	return at == cut->messages_count ? 0 : wrong(c, 0, UINT32_MAX, "there are messages that belong to no part");
}

/* Whether an earlier part of the place was fed the value, or, for segments that were cast to a wider type, the
 * original. */
static bool was_brought(const struct checker *c, uint32_t number, struct graph_value value)
{
	const struct graph_node *node = c->graph->nodes[value.node];
	const struct graph_value narrow = node->op == GRAPH_CAST ? node->inputs[0] : value;

	for (uint32_t p = 0; p < number; p++)
		for (uint32_t i = 0; i < c->cut->parts[p].feeds_count; i++)
			if (c->cut->parts[p].place == c->cut->parts[number].place &&
			    (graph_same(c->cut->parts[p].feeds[i], value) ||
			     graph_same(c->cut->parts[p].feeds[i], narrow)))
				return true;
	return false;
}

/* Nothing is counted for values that are there already, or of which only the shape is needed; and the sums are
 * correct. */
static int check_sent(const struct checker *c)
{
	uint64_t to_ps = 0, from_ps = 0;

	for (uint32_t p = 0; p < c->cut->parts_count; p++) {
		const struct graph_part *part = &c->cut->parts[p];
		const struct graph_traffic *traffic = &c->cut->traffic[p];
		uint64_t to = 0, from = 0;

		for (uint32_t i = 0; part->place != GRAPH_PLACE_WORKER && i < part->feeds_count; i++) {
			to += traffic->feeds[i];
			if (traffic->feeds[i] && (part->feed_shapes[i] || traffic->stays[i]))
				return wrong(c, p, part->feeds[i].node, "it is sent unnecessarily");
			if (traffic->stays[i] && !was_brought(c, p, part->feeds[i]))
				return wrong(c, p, part->feeds[i].node, "it is kept, but was never sent");
		}
		for (uint32_t i = 0; part->place != GRAPH_PLACE_WORKER && i < part->fetches_count; i++)
			from += traffic->fetches[i];
		if (to > traffic->to_ps || from > traffic->from_ps)
			return wrong(c, p, UINT32_MAX, "its values have more bytes than the total");
		to_ps += traffic->to_ps;
		from_ps += traffic->from_ps;
	}
	return to_ps == c->cut->to_ps_bytes && from_ps == c->cut->from_ps_bytes
		       ? 0
		       : wrong(c, 0, UINT32_MAX, "the number of bytes is wrong");
}

static int check_rounds(const struct checker *c)
{
	uint32_t rounds = 0;

	for (uint32_t i = 0; i < c->cut->parts_count; i++)
		if (c->depth[i] > rounds)
			rounds = c->depth[i];
	return rounds == c->cut->rounds ? 0 : wrong(c, 0, UINT32_MAX, "the number of rounds is wrong");
}

static int check_bodies(const struct checker *c)
{
	uint32_t at = 0;

	for (uint32_t v = 0; v < c->graph->nodes_count; v++) {
		const struct graph_node *node = c->graph->nodes[v];
		const struct graph_body_cut *both = &c->cut->bodies[at];

		if (!node->body)
			continue;
		if (at++ == c->cut->bodies_count || both->node != v || !both->body || !both->cond ||
		    both->body->graph != node->body || both->cond->graph != node->cond)
			return wrong(c, 0, v, "its graphs are not cut");
		if (graph_cut_check(both->body, c->err) < 0 || graph_cut_check(both->cond, c->err) < 0)
			return -EINVAL;
	}
	return at == c->cut->bodies_count ? 0 : wrong(c, 0, UINT32_MAX, "there are cuts that belong to no body");
}

/* ---- */

static int check_cut(const struct checker *c)
{
	int rc = check_moved(c);

	for (uint32_t i = 0; i < c->cut->parts_count && rc == 0; i++) {
		rc = check_nodes(c, i);
		for (uint32_t k = i; k-- > 0 && rc == 0 && c->cut->parts[k].wave == c->cut->parts[i].wave;)
			if (c->cut->parts[k].place == c->cut->parts[i].place)
				rc = wrong(c, i, UINT32_MAX, "there are two parts of its place and wave");
	}
	if (rc == 0)
		rc = check_all_nodes(c);
	for (uint32_t i = 0; i < c->cut->parts_count && rc == 0; i++)
		rc = mark_fetches(c, i);
	memset(c->in_part, 0, c->graph->nodes_count * sizeof(*c->in_part));
	for (uint32_t i = 0; i < c->cut->parts_count && rc == 0; i++)
		rc = check_part(c, i);
	if (rc == 0)
		rc = check_state(c);
	if (rc == 0)
		rc = check_fetches(c);
	if (rc == 0)
		rc = check_messages(c);
	if (rc == 0)
		rc = check_rounds(c);
	if (rc == 0)
		rc = check_sent(c);
	return rc == 0 ? check_bodies(c) : rc;
}

int graph_cut_check(const struct graph_cut *cut, struct star_error *err)
{
	const struct graph *graph = cut->graph;
	const size_t nodes = graph->nodes_count + (size_t)1, parts = cut->parts_count + (size_t)1;
	size_t values = 1;
	struct checker c = { .graph = graph, .cut = cut, .err = err };
	uint32_t *memory;
	int rc;

	for (size_t v = 0; v + 1 < nodes; v++)
		values += graph->nodes[v]->outputs_count;
	memory = calloc(4 * nodes + 4 * values + 2 * parts, sizeof(*memory));
	if (!memory)
		return star_error_set(err, -ENOMEM, "out of memory");
	c.value_first = memory;
	c.part_of = c.value_first + nodes;
	c.executed = c.part_of + nodes;
	c.in_part = c.executed + nodes;
	c.fed = c.in_part + nodes;
	c.kept = c.fed + values;
	c.fetched_by = c.kept + values;
	c.wanted = (uint8_t *)(c.fetched_by + values);
	c.before = c.fetched_by + 2 * values;
	c.depth = c.before + parts;
	values = 0;
	for (size_t v = 0; v + 1 < nodes; v++) {
		c.value_first[v] = (uint32_t)values;
		values += graph->nodes[v]->outputs_count;
	}
	rc = check_cut(&c);
	free(memory);
	return rc;
}
