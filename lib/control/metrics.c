/* SPDX-License-Identifier: BSD-3-Clause */
/* The metrics of the control plane and, before those of the data plane, the tables that they refer to. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "control/node.h"
#include "jsonrpc/member.h"
#include "metrics/openmetrics.h"

enum { PAGE_BYTES = 256 << 10 }; /* of a response; families are not split */

struct view {
	struct control *control;
	const struct openmetrics_family *family;
	const struct openmetrics_page *page;
};

static void put_sample(const struct view *view, double value)
{
	openmetrics_family(view->page, view->family);
	openmetrics_real(view->page, view->family, NULL, value);
}

static void write_build(const struct view *view)
{
	char task[12];
	const struct openmetrics_label labels[] = { { "version", STAR_VERSION },
						    { "job", view->control->config->job_name },
						    { "task", task },
						    { NULL, NULL } };

	snprintf(task, sizeof(task), "%u", view->control->task);
	openmetrics_family(view->page, view->family);
	openmetrics_count(view->page, view->family, labels, 1);
}

static void write_uptime(const struct view *view)
{
	put_sample(view, (double)(clock_us() - view->control->started_us) / 1e6);
}

static void write_serving(const struct view *view)
{
	char state[CONTROL_STATE_MAX];

	put_sample(view, control_serves(view->control, state));
}

static void write_epoch(const struct view *view)
{
	uint32_t epoch;

	pthread_mutex_lock(&view->control->lock);
	epoch = view->control->epoch;
	pthread_mutex_unlock(&view->control->lock);
	put_sample(view, epoch);
}

/* How many objects of the catalogue hold parameters. The caller holds the lock. */
static uint32_t count_tables(const struct control *control)
{
	uint32_t count = 0;

	for (uint32_t id = 1; id <= control->objects_last; id++)
		count += control->objects[id] && control->objects[id]->kind != OBJECT_PROGRAM;
	return count;
}

static void write_unlisted(const struct view *view)
{
	struct control *control = view->control;
	const uint32_t most = control->config->metrics_tables;
	uint32_t count;

	pthread_mutex_lock(&control->lock);
	count = count_tables(control);
	pthread_mutex_unlock(&control->lock);
	put_sample(view, count > most ? count - most : 0);
}

static void write_objects(const struct view *view)
{
	uint32_t count;

	pthread_mutex_lock(&view->control->lock);
	count = view->control->objects_count;
	pthread_mutex_unlock(&view->control->lock);
	put_sample(view, count);
}

/* PS task 0 only: a value for each task; NODE_NONE: it has none. */
enum { NODE_NONE = -1 };

static void write_by_task(const struct view *view, int (*figure)(const struct control *, uint32_t task))
{
	struct control *control = view->control;

	if (control->task)
		return;
	openmetrics_family(view->page, view->family);
	pthread_mutex_lock(&control->lock);
	for (uint32_t task = 0; task < control->config->ps_count; task++) {
		const int value = figure(control, task);
		char text[12];
		const struct openmetrics_label labels[] = { { "task", text }, { NULL, NULL } };

		snprintf(text, sizeof(text), "%u", task);
		if (value != NODE_NONE)
			openmetrics_count(view->page, view->family, labels, (uint64_t)value);
	}
	pthread_mutex_unlock(&control->lock);
}

/* Whether it has joined, and is heard. */
static int node_up(const struct control *control, uint32_t task)
{
	return control->nodes[task].joined && !control_watch_is_away(&control->nodes[task], clock_us());
}

static void write_nodes(const struct view *view)
{
	write_by_task(view, node_up);
}

/* Whether a task that is a pair has a standby. */
static int node_standby(const struct control *control, uint32_t task)
{
	const struct cluster_node *node = &control->nodes[task];

	if (!(task ? node->generation : control->pair_generation))
		return NODE_NONE;
	return !(task ? node->alone : control->pair_alone)[0];
}

static void write_standbys(const struct view *view)
{
	write_by_task(view, node_standby);
}

static bool has_checkpoints(const struct view *view)
{
	return view->control->task == 0 && view->control->config->checkpoint_directory[0];
}

static void write_of_checkpoints(const struct view *view, const uint64_t *count)
{
	uint64_t value;

	pthread_mutex_lock(&view->control->lock);
	value = *count;
	pthread_mutex_unlock(&view->control->lock);
	if (has_checkpoints(view))
		put_sample(view, (double)value);
}

static void write_saved(const struct view *view)
{
	write_of_checkpoints(view, &view->control->checkpointer.saved);
}

static void write_failed(const struct view *view)
{
	write_of_checkpoints(view, &view->control->checkpointer.failed);
}

static void write_last(const struct view *view)
{
	uint64_t ended_us, id;

	pthread_mutex_lock(&view->control->lock);
	id = view->control->checkpointer.last.id;
	ended_us = view->control->checkpointer.last_ended_us;
	pthread_mutex_unlock(&view->control->lock);
	if (has_checkpoints(view) && id)
		put_sample(view, (double)time(NULL) - (double)(clock_us() - ended_us) / 1e6);
}

static const struct {
	struct openmetrics_family family;
	void (*write)(const struct view *view);
} families[] = {
	{ { "star_build", OPENMETRICS_INFO, "what runs here", "version, job, task" }, write_build },
	{ { "star_uptime_seconds", OPENMETRICS_GAUGE, "since the node was started", NULL }, write_uptime },
	{ { "star_serving", OPENMETRICS_GAUGE, "whether the node serves a layout", NULL }, write_serving },
	{ { "star_layout_epoch", OPENMETRICS_GAUGE, "of the layout that the node serves; 0: none", NULL },
	  write_epoch },
	{ { "star_objects", OPENMETRICS_GAUGE, "tables, variables and programs in the catalogue", NULL },
	  write_objects },
	{ { "star_tables_unlisted", OPENMETRICS_GAUGE,
	    "tables and variables beyond metrics.tables, which have no metrics of their own", NULL },
	  write_unlisted },
	{ { "star_node_up", OPENMETRICS_GAUGE, "PS task 0 alone: whether the PS task has joined and is heard", "task" },
	  write_nodes },
	{ { "star_node_standby", OPENMETRICS_GAUGE,
	    "PS task 0 alone, of tasks that are pairs: whether the PS task has an up-to-date standby", "task" },
	  write_standbys },
	{ { "star_checkpoints_saved", OPENMETRICS_COUNTER, "PS task 0 alone: checkpoints of the cluster that count",
	    NULL },
	  write_saved },
	{ { "star_checkpoints_failed", OPENMETRICS_COUNTER, "PS task 0 alone: checkpoints that could not be written",
	    NULL },
	  write_failed },
	{ { "star_checkpoint_last_timestamp_seconds", OPENMETRICS_GAUGE,
	    "PS task 0 alone: when the last checkpoint since its start was complete, as Unix time", NULL },
	  write_last },
};

enum { OWN = sizeof(families) / sizeof(families[0]) };

const struct openmetrics_family *control_metric(unsigned number)
{
	return number < OWN ? &families[number].family : NULL;
}

/* The objects of the catalogue that hold parameters, up to the number that may have metrics. The caller frees the list;
 * its members live as long as the control plane. */
static const struct object_spec **list_tables(struct control *control, uint32_t *count)
{
	const uint32_t most = control->config->metrics_tables;
	const struct object_spec **tables;

	*count = 0;
	pthread_mutex_lock(&control->lock);
	tables = calloc(control->objects_last + 1, sizeof(*tables));
	for (uint32_t id = 1; tables && id <= control->objects_last && *count < most; id++)
		if (control->objects[id] && control->objects[id]->kind != OBJECT_PROGRAM)
			tables[(*count)++] = control->objects[id];
	pthread_mutex_unlock(&control->lock);
	return tables;
}

bool control_metrics(struct control *control, unsigned number, const struct openmetrics_page *page)
{
	const struct control_data_plane *plane = &control->data_plane;
	const struct object_spec **tables;
	uint32_t count;
	bool more;

	if (number < OWN) {
		families[number].write(
			&(struct view){ .control = control, .family = &families[number].family, .page = page });
		return true;
	}
	if (!plane->metrics)
		return false;
	tables = list_tables(control, &count);
	more = plane->metrics(plane->ctx, number - OWN, tables, count, page);
	free(tables);
	return more;
}

int control_metrics_page(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "from", NULL };
	uint32_t from = 0;
	char *text = NULL;
	size_t bytes = 0;
	bool more = true;
	FILE *out;

	if (jsonrpc_member_only(params, members, err) < 0 ||
	    (json_object_get(params, "from") && jsonrpc_member_u32(params, "from", 0, UINT16_MAX, &from, err) < 0))
		return control_invalid(err);
	out = open_memstream(&text, &bytes);
	while (out && more && ftell(out) < PAGE_BYTES)
		more = control_metrics(control, from++, &(struct openmetrics_page){ .out = out });
	if (out && !more)
		openmetrics_end(&(struct openmetrics_page){ .out = out });
	if (!out || fclose(out) != 0) {
		free(text);
		return star_error_set(err, -ENOMEM, "no memory left for a page of metrics");
	}
	*result = json_object();
	json_object_set_new(*result, "text", json_string(text));
	if (more)
		json_object_set_new(*result, "next", json_integer(from));
	free(text);
	return 0;
}
