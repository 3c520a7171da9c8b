/* SPDX-License-Identifier: BSD-3-Clause */
/* Initial values of a graph's variables. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/startrain/graphfile/arrays.h"
#include "app/startrain/graphfile/graphfile.h"
#include "base/clock.h"
#include "graph/build.h"

#define UNGIVEN (-60000.0) /* the value that starserver.torch uses */
enum { LOOK_MS = 50 };

enum state { GIVEN, LOST, IN_PART };

/* The variables concerned, and the state of each. */
struct ungiven {
	const struct graph_node **nodes;
	enum state *states;
	uint32_t count, lost;
};

static bool is_in_question(const struct graph_node *node)
{
	return node->op == GRAPH_VARIABLE && graph_attr_float(node, "scale", 0) == UNGIVEN &&
	       !strcmp(graph_attr_string(node, "initializer", ""), "constant");
}

static int find_ungiven(const struct graph *graph, struct ungiven *u, struct star_error *err)
{
	u->nodes = calloc(graph->nodes_count + 1, sizeof(*u->nodes));
	u->states = calloc(graph->nodes_count + 1, sizeof(*u->states));
	if (!u->nodes || !u->states)
		return star_error_set(err, -ENOMEM, "no memory for %u variables", graph->nodes_count);
	for (uint32_t i = 0; i < graph->nodes_count; i++)
		if (is_in_question(graph->nodes[i]))
			u->nodes[u->count++] = graph->nodes[i];
	return 0;
}

static struct graph_value copy(struct graph *graph, const struct graph_node *node)
{
	char device[GRAPH_DEVICE_TEXT];

	return graph_add(graph, &(struct graph_node_spec){ .op = node->op,
							   .name = node->name,
							   .device = graph_device_text(node->device, device),
							   .attrs = node->attrs,
							   .attrs_count = node->attrs_count });
}

/* A session that reads or assigns, and does not take part in training. */
static struct session *open_session(const struct graph *graph, const struct session_config *config,
				    const struct graph_plan_feed *feeds, uint32_t feeds_count,
				    const char *const *results, struct star_error *err)
{
	struct session_config aside = *config;
	const struct session_model model = {
		.graph = graph, .results = results, .feeds = feeds, .feeds_count = feeds_count
	};

	aside.model_dir = NULL;
	aside.log_step_count_steps = UINT32_MAX;
	return session_create(&aside, &model, NULL, 0, err);
}

/* ---- checking ---- */

static enum state values_state(const struct graph_tensor *values)
{
	const int64_t n = graph_elements(&values->type.shape);
	int64_t ungiven = 0;

	for (int64_t i = 0; i < n; i++)
		ungiven += values->type.dtype == STAR_FLOAT64 ? ((const double *)values->data)[i] == UNGIVEN
							      : ((const float *)values->data)[i] == (float)UNGIVEN;
	return ungiven == 0 ? GIVEN : ungiven == n ? LOST : IN_PART;
}

static int look_once(struct session *session, struct ungiven *u, struct star_error *err)
{
	const struct graph_tensor *results;
	const int rc = session_run(session, NULL, &results, err);

	u->lost = 0;
	for (uint32_t i = 0; rc == 0 && i < u->count; i++) {
		u->states[i] = values_state(&results[i]);
		u->lost += u->states[i] != GIVEN;
	}
	return rc;
}

/* The chief checks once; the others until there are values, or the time is over. */
static int look_for_ungiven(struct ungiven *u, const struct session_config *config, struct star_error *err)
{
	const uint64_t until_ns = clock_ns() + config->deadline_us * 1000;
	const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000 };
	struct graph *graph = graph_create();
	struct graph_value *reads = calloc(u->count, sizeof(*reads));
	const char **names = calloc(u->count, sizeof(*names));
	struct session *session = NULL;
	int rc = graph && reads && names ? 0 : star_error_set(err, -ENOMEM, "no memory for a graph");

	for (uint32_t i = 0; rc == 0 && i < u->count; i++) {
		reads[i] = graph_read(graph, copy(graph, u->nodes[i]));
		names[i] = u->nodes[i]->name;
	}
	if (rc == 0)
		graph_set_results(graph, reads, u->count);
	if (rc == 0 && !(session = open_session(graph, config, NULL, 0, names, err)))
		rc = err->code;
	while (rc == 0 && (rc = look_once(session, u, err)) == 0 && u->lost && config->task_index > 0 &&
	       clock_ns() < until_ns)
		nanosleep(&pause, NULL);
	session_close(session, NULL);
	graph_destroy(graph);
	free(reads);
	free(names);
	return rc;
}

/* ---- assigning ---- */

struct gift {
	struct graph *graph;
	struct graph_plan_feed *feeds;
	struct graph_tensor *tensors;
	char (*names)[16];
	uint32_t count;
};

/* An array of the file for a variable: if the variable has no values, it gets these. */
static int add_gift(struct gift *gift, const struct graph_node *node, enum state state,
		    const struct graph_tensor *array, const char *path, struct star_error *err)
{
	const struct graph_type *type = &node->outputs[0];
	char want[GRAPH_SHAPE_TEXT], have[GRAPH_SHAPE_TEXT];
	struct graph_tensor *tensor = &gift->tensors[gift->count];
	const uint64_t bytes = graph_type_bytes(&array->type);

	if (array->type.dtype != type->element || !graph_shape_same(&array->type.shape, &type->shape))
		return star_error_set(err, -EINVAL, "%s: variable \"%s\" is %s %s, but its array is %s %s", path,
				      node->name, dtype_name(type->element), graph_shape_text(&type->shape, want),
				      dtype_name(array->type.dtype), graph_shape_text(&array->type.shape, have));
	if (state == GIVEN)
		return 0;
	*tensor = (struct graph_tensor){ array->type, malloc(bytes + 1) };
	if (!tensor->data)
		return star_error_set(err, -ENOMEM, "no memory for the values of \"%s\"", node->name);
	memcpy(tensor->data, array->data, bytes);
	snprintf(gift->names[gift->count], sizeof(gift->names[0]), "values-%u", gift->count);
	gift->feeds[gift->count] = (struct graph_plan_feed){ gift->names[gift->count], array->type };
	graph_assign(gift->graph, copy(gift->graph, node),
		     graph_feed(gift->graph, gift->names[gift->count], array->type.dtype, array->type.shape.dims,
				array->type.shape.ndim));
	gift->count++;
	return 0;
}

static int read_values(const struct ungiven *u, const char *path, struct gift *gift, struct star_error *err)
{
	struct arrays *arrays = arrays_open(path, err);
	struct graph_tensor array;
	int rc = arrays ? 0 : err->code;

	for (uint32_t i = 0; rc == 0 && i < u->count; i++) {
		rc = arrays_next(arrays, &array, err);
		if (rc == 0)
			rc = star_error_set(err, -EINVAL, "%s has %u arrays, but %u variables of the graph need values",
					    path, i, u->count);
		if (rc > 0)
			rc = add_gift(gift, u->nodes[i], u->states[i], &array, path, err);
	}
	if (rc == 0 && arrays_next(arrays, &array, err) != 0)
		rc = star_error_set(err, -EINVAL, "%s has more than the %u arrays of this graph's variables", path,
				    u->count);
	arrays_close(arrays);
	return rc;
}

static int give(const struct ungiven *u, const struct session_config *config, const char *path, struct star_error *err)
{
	struct gift gift = { .graph = graph_create(),
			     .feeds = calloc(u->count, sizeof(*gift.feeds)),
			     .tensors = calloc(u->count, sizeof(*gift.tensors)),
			     .names = calloc(u->count, sizeof(*gift.names)) };
	struct session *session = NULL;
	int rc = gift.graph && gift.feeds && gift.tensors && gift.names ? 0 : -ENOMEM;

	if (rc < 0)
		star_error_set(err, rc, "no memory for values");
	if (rc == 0)
		rc = read_values(u, path, &gift, err);
	if (rc == 0 && !(session = open_session(gift.graph, config, gift.feeds, gift.count, NULL, err)))
		rc = err->code;
	if (rc == 0)
		rc = session_run(session, gift.tensors, NULL, err);
	session_close(session, NULL);
	for (uint32_t i = 0; gift.tensors && i < gift.count; i++)
		free(gift.tensors[i].data);
	graph_destroy(gift.graph);
	free(gift.feeds);
	free(gift.tensors);
	free(gift.names);
	return rc;
}

static int complain(const struct ungiven *u, const struct session_config *config, struct star_error *err)
{
	uint32_t i = 0;

	while (u->states[i] == GIVEN)
		i++;
	for (uint32_t k = i; k < u->count; k++)
		if (u->states[k] == IN_PART)
			return star_error_set(
				err, -ENODATA,
				"a part of the values of \"%s\" is lost: a node was restarted without its "
				"data. Roll back to a checkpoint (starctl checkpoint restore), or drop the model's "
				"variables (starctl tables drop) and start again",
				u->nodes[k]->name);
	if (config->task_index > 0)
		return star_error_set(err, -ENODATA,
				      "\"%s\" did not get values in time: worker 0 assigns them; is it running?",
				      u->nodes[i]->name);
	return star_error_set(err, -ENODATA, "\"%s\" has no values yet: %s", u->nodes[i]->name,
			      config->must_exist ? "train the model first" : "--values names the file that has them");
}

int graphfile_give_values(const struct graph *graph, const struct session_config *config, const char *path,
			  struct star_error *err)
{
	struct ungiven u = { 0 };
	bool parts = false;
	int rc = find_ungiven(graph, &u, err);

	if (rc == 0 && path && !u.count)
		rc = star_error_set(err, -EINVAL, "%s: no variable of the graph needs values: omit --values", path);
	if (rc == 0 && u.count)
		rc = look_for_ungiven(&u, config, err);
	for (uint32_t i = 0; rc == 0 && i < u.count; i++)
		parts |= u.states[i] == IN_PART;
	if (rc == 0 && u.lost)
		rc = path && !parts && config->task_index == 0 ? give(&u, config, path, err)
							       : complain(&u, config, err);
	free(u.nodes);
	free(u.states);
	return rc;
}
