/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * star_server_lite's components. A unit is executed together: a connected component of a PS task's nodes, or its share
 * in one wave, or one node of the worker. Units that wait for each other in a cycle (Tarjan 1972) are broken into
 * waves, and so are those that would cost a round. The others are ordered, and each unit gets a level between its
 * lowest and highest possible one, such that each PS task has few levels, because each level is a request.
 */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "offload/cut_internal.h"

enum {
	TURNS_MAX = 16,		 /* limit for breaking units; after that, all are waves */
	SEARCH_EDGES = 4 << 20,	 /* limit for edges that are examined while levels are tried */
	SEARCH_LEVELS = 1 << 22, /* limit for tasks times levels; above it, none are tried */
	NAMES_MAX = 6,		 /* in a warning */
};

struct lite {
	struct cutter *cutter;
	uint32_t n, count, top;
	uint32_t *label;	   /* for each node: the first node of its unit */
	uint32_t *unit;		   /* for each node that is executed */
	uint32_t *first, *members; /* for each unit: its nodes, ascending */
	uint32_t *cycle;	   /* for each unit: its cycle; units outside of cycles have numbers of their own */
	uint32_t *cycle_size;
	uint32_t *order;			       /* units, each after those that it waits for */
	int64_t *least, *greatest;		       /* levels of units, lowest and highest */
	uint32_t *index, *low, *stack, *frames, *next; /* for the search for cycles */
	uint32_t *level_mark, *level_first;	       /* for each level */
	uint32_t marks;
	bool *told; /* nodes whose component a warning has named */
};

static uint32_t find_root(uint32_t *parent, uint32_t v)
{
	while (parent[v] != v) {
		parent[v] = parent[parent[v]];
		v = parent[v];
	}
	return v;
}

/* Joins nodes of one PS place that pass data to each other, and, within a wave, those with any order between them:
 * these are executed together anyway. */
static void find_components(struct lite *lite)
{
	const struct cutter *c = lite->cutter;

	for (uint32_t v = 0; v < lite->n; v++)
		lite->label[v] = v;
	for (uint32_t v = 0; v < lite->n; v++)
		for (uint32_t i = c->first[v]; i < c->first[v + 1] && c->place[v] != GRAPH_PLACE_WORKER; i++) {
			const uint32_t u = c->deps[i];
			uint32_t a, b;

			if (c->place[u] != c->place[v] || (i >= c->data_end[v] && c->level[u] != c->level[v]))
				continue;
			a = find_root(lite->label, u);
			b = find_root(lite->label, v);
			lite->label[a < b ? b : a] = a < b ? a : b;
		}
	for (uint32_t v = 0; v < lite->n; v++)
		lite->label[v] = find_root(lite->label, v);
}

/* Converts labels to units. A label is its unit's first node. */
static void make_units(struct lite *lite)
{
	const struct cutter *c = lite->cutter;
	uint32_t at = 0;

	lite->count = 0;
	memset(lite->unit, 0xff, lite->n * sizeof(*lite->unit));
	memset(lite->first, 0, (lite->n + 1) * sizeof(*lite->first));
	for (uint32_t v = 0; v < lite->n; v++) {
		if (c->kind[v] != CUT_WORK)
			continue;
		lite->unit[v] = lite->label[v] == v ? lite->count++ : lite->unit[lite->label[v]];
		lite->first[lite->unit[v]]++;
	}
	for (uint32_t u = 0; u <= lite->count; u++) {
		const uint32_t members = u < lite->count ? lite->first[u] : 0;

		lite->first[u] = at;
		at += members;
	}
	memcpy(lite->next, lite->first, lite->count * sizeof(*lite->next));
	for (uint32_t v = 0; v < lite->n; v++)
		if (c->kind[v] == CUT_WORK)
			lite->members[lite->next[lite->unit[v]]++] = v;
}

static int32_t unit_place(const struct lite *lite, uint32_t unit)
{
	return lite->cutter->place[lite->members[lite->first[unit]]];
}

/* Whether it is in more than one of star_server's waves. */
static bool is_tall(const struct lite *lite, uint32_t unit)
{
	for (uint32_t i = lite->first[unit] + 1; i < lite->first[unit + 1]; i++)
		if (lite->cutter->level[lite->members[i]] != lite->cutter->level[lite->members[i - 1]])
			return true;
	return false;
}

/* ---- cycles ---- */

/* The edges of a unit in order: member by member, dependency by dependency. UINT32_MAX: there are no more. */
struct walk {
	uint32_t member, edge;
};

static uint32_t walk_next(const struct lite *lite, uint32_t unit, struct walk *walk)
{
	const struct cutter *c = lite->cutter;

	for (; walk->member < lite->first[unit + 1]; walk->member++) {
		const uint32_t v = lite->members[walk->member];

		if (walk->edge < c->first[v])
			walk->edge = c->first[v];
		if (walk->edge < c->first[v + 1])
			return lite->unit[c->deps[walk->edge++]];
		walk->edge = 0;
	}
	return UINT32_MAX;
}

/* Tarjan's algorithm with an explicit stack. Edges lead to what a unit waits for, so cycles are found in the order of
 * execution. */
static uint32_t find_cycles(struct lite *lite, struct walk *walks)
{
	uint32_t numbered = 0, stacked = 0, ordered = 0, cycles = 0;

	memset(lite->index, 0, lite->count * sizeof(*lite->index));
	memset(lite->cycle, 0xff, lite->count * sizeof(*lite->cycle));
	for (uint32_t root = 0; root < lite->count; root++) {
		uint32_t frames = 0;

		if (lite->index[root])
			continue;
		lite->frames[frames++] = root;
		while (frames) {
			const uint32_t u = lite->frames[frames - 1];
			uint32_t to;

			if (!lite->index[u]) {
				lite->index[u] = lite->low[u] = ++numbered;
				lite->stack[stacked++] = u;
				walks[u] = (struct walk){ .member = lite->first[u] };
			}
			while ((to = walk_next(lite, u, &walks[u])) != UINT32_MAX && lite->index[to])
				if (lite->cycle[to] == UINT32_MAX && lite->index[to] < lite->low[u])
					lite->low[u] = lite->index[to];
			if (to != UINT32_MAX) {
				lite->frames[frames++] = to;
				continue;
			}
			frames--;
			if (frames && lite->low[u] < lite->low[lite->frames[frames - 1]])
				lite->low[lite->frames[frames - 1]] = lite->low[u];
			if (lite->low[u] != lite->index[u])
				continue;
			lite->cycle_size[cycles] = 0;
			do {
				to = lite->stack[--stacked];
				lite->cycle[to] = cycles;
				lite->cycle_size[cycles]++;
				lite->order[ordered++] = to;
			} while (to != u);
			cycles++;
		}
	}
	return cycles;
}

/* ---- breaking ---- */

static void name_members(const struct lite *lite, uint32_t unit, char *text, size_t bytes)
{
	const uint32_t from = lite->first[unit], members = lite->first[unit + 1] - from;
	size_t at = 0;

	for (uint32_t i = 0; i < members && i < NAMES_MAX; i++)
		at += (size_t)snprintf(text + at, bytes - at, "%s\"%.40s\"",
				       i == 0		 ? ""
				       : i + 1 < members ? ", "
							 : " and ",
				       lite->cutter->graph->nodes[lite->members[from + i]]->name);
	if (members > NAMES_MAX)
		snprintf(text + at, bytes - at, " and %u more", members - NAMES_MAX);
}

/* Warns: names the nodes, and one of them that needs what the worker computes from others of them. */
static void warn(struct lite *lite, uint32_t unit, bool in_cycle)
{
	struct cutter *c = lite->cutter;
	char device[GRAPH_DEVICE_TEXT], names[512];
	struct walk walk = { .member = lite->first[unit] };
	uint32_t to;

	if (lite->told[lite->label[lite->members[lite->first[unit]]]])
		return;
	for (uint32_t i = lite->first[unit]; i < lite->first[unit + 1]; i++)
		lite->told[lite->members[i]] = true;
	name_members(lite, unit, names, sizeof(names));
	graph_device_text((struct graph_device){ GRAPH_PS, unit_place(lite, unit) < 0 ? -1 : unit_place(lite, unit) },
			  device);
	if (!in_cycle) {
		offload_cut_warn(
			c,
			"nodes on %s are cut by waves: as one request %s would wait for the worker, and cost the "
			"step another round",
			device, names);
		return;
	}
	while ((to = walk_next(lite, unit, &walk)) != UINT32_MAX)
		if (to != unit && lite->cycle[to] == lite->cycle[unit])
			break;
	if (to == UINT32_MAX)
		return;
	offload_cut_warn(c,
			 "nodes on %s cannot be one request, and are cut by waves: \"%.40s\" needs \"%.40s\", which is "
			 "elsewhere and needs others of them; they are %s",
			 device, c->graph->nodes[lite->members[walk.member]]->name,
			 c->graph->nodes[c->deps[walk.edge - 1]]->name, names);
}

/* Divides the unit into one for each wave. */
static void break_unit(struct lite *lite, uint32_t unit)
{
	lite->marks++;
	for (uint32_t i = lite->first[unit]; i < lite->first[unit + 1]; i++) {
		const uint32_t v = lite->members[i], level = lite->cutter->level[v];

		if (lite->level_mark[level] != lite->marks) {
			lite->level_mark[level] = lite->marks;
			lite->level_first[level] = v;
		}
		lite->label[v] = lite->level_first[level];
	}
}

static int64_t walk_step(const struct lite *lite, uint32_t from, uint32_t to)
{
	return cut_step(unit_place(lite, from), unit_place(lite, to));
}

/* The lowest levels, with the worker or PS tasks first; returns the highest of a PS unit. */
static int64_t find_least(const struct lite *lite, bool ps_first, int64_t *least)
{
	int64_t top = 0;

	for (uint32_t i = 0; i < lite->count; i++) {
		const uint32_t u = lite->order[i];
		const bool works = unit_place(lite, u) == GRAPH_PLACE_WORKER;
		struct walk walk = { .member = lite->first[u] };

		least[u] = !works ? 1 : ps_first ? 2 : 0;
		for (uint32_t d; (d = walk_next(lite, u, &walk)) != UINT32_MAX;)
			if (d != u && least[d] + walk_step(lite, d, u) > least[u])
				least[u] = least[d] + walk_step(lite, d, u);
		if (!works && least[u] > top)
			top = least[u];
	}
	return top;
}

static void find_greatest(struct lite *lite)
{
	for (uint32_t u = 0; u < lite->count; u++)
		lite->greatest[u] = (int64_t)lite->top + (unit_place(lite, u) == GRAPH_PLACE_WORKER);
	for (uint32_t i = lite->count; i-- > 0;) {
		const uint32_t u = lite->order[i];
		struct walk walk = { .member = lite->first[u] };

		for (uint32_t d; (d = walk_next(lite, u, &walk)) != UINT32_MAX;)
			if (d != u && lite->greatest[u] - walk_step(lite, d, u) < lite->greatest[d])
				lite->greatest[d] = lite->greatest[u] - walk_step(lite, d, u);
	}
}

/* Breaks units that are in the way; false: there are none. all: every unit that may be broken. */
static bool break_some(struct lite *lite, struct walk *walks, bool all)
{
	const uint32_t cycles = find_cycles(lite, walks);
	const bool in_cycle = cycles < lite->count;
	bool broke = false;

	if (!in_cycle) {
		find_least(lite, false, lite->least);
		find_greatest(lite);
	}
	for (uint32_t u = 0; u < lite->count; u++) {
		if (!all && (in_cycle ? lite->cycle_size[lite->cycle[u]] == 1 : lite->least[u] <= lite->greatest[u]))
			continue;
		if (unit_place(lite, u) == GRAPH_PLACE_WORKER || !is_tall(lite, u))
			continue;
		if (!all)
			warn(lite, u, in_cycle);
		break_unit(lite, u);
		broke = true;
	}
	return broke;
}

/* ---- levels ---- */

/* The number of requests for a choice of levels. */
struct search {
	int64_t *best, *trial;
	uint32_t *slot; /* for each unit: the number of its PS place */
	uint32_t slots, levels;
	uint32_t *weight;      /* for each slot */
	uint32_t *seen, marks; /* for each slot and level */
};

static int by_place(const void *a, const void *b)
{
	const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return x < y ? -1 : x > y;
}

static bool init_search(struct lite *lite, struct search *s)
{
	struct cut_pool *pool = &lite->cutter->pool;
	int32_t *places = offload_cut_memory(pool, lite->count + 1, sizeof(*places));

	*s = (struct search){
		.best = offload_cut_memory(pool, lite->count + 1, sizeof(*s->best)),
		.trial = offload_cut_memory(pool, lite->count + 1, sizeof(*s->trial)),
		.slot = offload_cut_memory(pool, lite->count + 1, sizeof(*s->slot)),
		.weight = offload_cut_memory(pool, lite->count + 1, sizeof(*s->weight)),
		.levels = lite->top + 2,
	};
	if (pool->failed)
		return false;
	for (uint32_t u = 0; u < lite->count; u++)
		if (unit_place(lite, u) != GRAPH_PLACE_WORKER)
			places[s->slots++] = unit_place(lite, u);
	qsort(places, s->slots, sizeof(*places), by_place);
	for (uint32_t i = 0, all = s->slots; i < all; i++)
		if (i == 0)
			s->slots = 1;
		else if (places[i] != places[s->slots - 1])
			places[s->slots++] = places[i];
	for (uint32_t i = 0; i < s->slots; i++)
		s->weight[i] = cut_tasks(&lite->cutter->options, places[i]);
	for (uint32_t u = 0; u < lite->count; u++) {
		const int32_t place = unit_place(lite, u);
		const int32_t *at = bsearch(&place, places, s->slots, sizeof(*places), by_place);

		s->slot[u] = at ? (uint32_t)(at - places) : UINT32_MAX;
	}
	if ((uint64_t)s->slots * s->levels > SEARCH_LEVELS)
		return true; /* too many to try any: seen remains NULL */
	s->seen = offload_cut_memory(pool, (size_t)s->slots * s->levels + 1, sizeof(*s->seen));
	return s->seen;
}

static uint64_t cost(const struct lite *lite, struct search *s, const int64_t *level)
{
	uint64_t requests = 0;

	s->marks++;
	for (uint32_t u = 0; u < lite->count; u++) {
		uint32_t *seen;

		if (s->slot[u] == UINT32_MAX)
			continue;
		seen = &s->seen[(size_t)s->slot[u] * s->levels + (size_t)level[u]];
		if (*seen != s->marks)
			requests += s->weight[s->slot[u]];
		*seen = s->marks;
	}
	return requests;
}

/* Moves all units of a slot and level to a later level, and what waits for them further; false: that is too late for
 * some. */
static bool raise(const struct lite *lite, const struct search *s, uint32_t slot, int64_t from, int64_t to)
{
	for (uint32_t i = 0; i < lite->count; i++) {
		const uint32_t u = lite->order[i];
		struct walk walk = { .member = lite->first[u] };

		s->trial[u] = s->slot[u] == slot && s->best[u] == from ? to : s->best[u];
		for (uint32_t d; (d = walk_next(lite, u, &walk)) != UINT32_MAX;)
			if (d != u && s->trial[d] + walk_step(lite, d, u) > s->trial[u])
				s->trial[u] = s->trial[d] + walk_step(lite, d, u);
		if (s->trial[u] > lite->greatest[u])
			return false;
	}
	return true;
}

/* Removes a level of a PS task if its units can wait for a later one; repeated, up to a limit. */
static void search(const struct lite *lite, struct search *s, uint64_t requests)
{
	const uint64_t edges = lite->cutter->first[lite->n] + (uint64_t)lite->count + 1;
	uint64_t trials = SEARCH_EDGES / edges + 1;
	bool better = true;

	while (better) {
		better = false;
		for (uint32_t slot = 0; slot < s->slots; slot++) {
			int64_t from = -1;

			for (int64_t level = 1; level < s->levels; level += 2) {
				uint64_t now;

				if (trials-- == 0)
					return;
				cost(lite, s, s->best); /* marks the levels that are used */
				if (s->seen[(size_t)slot * s->levels + (size_t)level] != s->marks)
					continue;
				if (from < 0 || !raise(lite, s, slot, from, level)) {
					from = level;
				} else {
					now = cost(lite, s, s->trial);
					from = level;
					if (now < requests) {
						int64_t *swap = s->best;

						s->best = s->trial;
						s->trial = swap;
						requests = now;
						better = true;
					}
				}
			}
		}
	}
}

static void choose_levels(struct lite *lite)
{
	struct cutter *c = lite->cutter;
	struct search s;
	uint64_t requests = 0;

	if (!init_search(lite, &s))
		return;
	find_least(lite, false, s.best);
	if (s.seen && !c->early) {
		const int64_t *others[] = { lite->least, lite->greatest };
		const bool fits = find_least(lite, true, lite->least) <= (int64_t)lite->top;

		requests = cost(lite, &s, s.best);
		for (unsigned i = fits ? 0 : 1; i < 2; i++) {
			const uint64_t now = cost(lite, &s, others[i]);

			if (now < requests)
				memcpy(s.best, others[i], lite->count * sizeof(*s.best));
			if (now < requests)
				requests = now;
		}
		search(lite, &s, requests);
	}
	for (uint32_t v = 0; v < lite->n; v++)
		if (c->kind[v] == CUT_WORK)
			c->level[v] = (uint32_t)s.best[lite->unit[v]];
}

static struct walk *walk_init(struct lite *lite, struct cutter *cutter)
{
	const size_t n = cutter->graph->nodes_count + 1, levels = 2 * (size_t)cutter->graph->nodes_count + 4;
	struct cut_pool *pool = &cutter->pool;

	*lite = (struct lite){ .cutter = cutter, .n = cutter->graph->nodes_count, .top = cutter->top };
	lite->label = offload_cut_memory(pool, n, sizeof(*lite->label));
	lite->unit = offload_cut_memory(pool, n, sizeof(*lite->unit));
	lite->first = offload_cut_memory(pool, n + 1, sizeof(*lite->first));
	lite->members = offload_cut_memory(pool, n, sizeof(*lite->members));
	lite->cycle = offload_cut_memory(pool, n, sizeof(*lite->cycle));
	lite->cycle_size = offload_cut_memory(pool, n, sizeof(*lite->cycle_size));
	lite->order = offload_cut_memory(pool, n, sizeof(*lite->order));
	lite->least = offload_cut_memory(pool, n, sizeof(*lite->least));
	lite->greatest = offload_cut_memory(pool, n, sizeof(*lite->greatest));
	lite->index = offload_cut_memory(pool, n, sizeof(*lite->index));
	lite->low = offload_cut_memory(pool, n, sizeof(*lite->low));
	lite->stack = offload_cut_memory(pool, n, sizeof(*lite->stack));
	lite->frames = offload_cut_memory(pool, n, sizeof(*lite->frames));
	lite->next = offload_cut_memory(pool, n, sizeof(*lite->next));
	lite->level_mark = offload_cut_memory(pool, levels, sizeof(*lite->level_mark));
	lite->level_first = offload_cut_memory(pool, levels, sizeof(*lite->level_first));
	lite->told = offload_cut_memory(pool, n, sizeof(*lite->told));
	return offload_cut_memory(pool, n, sizeof(struct walk));
}

void offload_cut_lite(struct cutter *cutter)
{
	struct lite lite;
	struct walk *walks = walk_init(&lite, cutter);
	bool broke = true;

	if (cutter->pool.failed)
		return;
	find_components(&lite);
	for (unsigned turn = 0; broke; turn++) {
		make_units(&lite);
		broke = break_some(&lite, walks, turn == TURNS_MAX);
		if (broke && turn == TURNS_MAX)
			offload_cut_warn(
				cutter,
				"the rest of the graph is too entangled for components: all of it is cut by waves");
	}
	choose_levels(&lite);
}
