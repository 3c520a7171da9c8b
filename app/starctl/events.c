/* SPDX-License-Identifier: BSD-3-Clause */
/* The last events of a node, or of all nodes in their order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/starctl/cluster_nodes.h"

static const struct filter filters[] = { { "minutes", true }, { "level", false }, { NULL, false } };

void print_event_filters(FILE *out)
{
	print_filters(filters, out);
}

static const char *member(const json_t *event, const char *name)
{
	const char *text = json_string_value(json_object_get(event, name));

	return text ? text : "-";
}

/* All dates have the same format. */
static int by_date(const void *a, const void *b)
{
	return strcmp(member(*(json_t *const *)a, "at"), member(*(json_t *const *)b, "at"));
}

/* The events of all nodes, in order; steals the lists. */
static json_t *sort(json_t *all)
{
	const size_t n = json_array_size(all);
	json_t **events = calloc(n + 1, sizeof(*events)), *sorted = json_array();

	for (size_t i = 0; events && i < n; i++)
		events[i] = json_array_get(all, i);
	if (events)
		qsort(events, n, sizeof(*events), by_date);
	for (size_t i = 0; events && i < n; i++)
		json_array_append(sorted, events[i]);
	free(events);
	json_decref(all);
	return sorted;
}

static void render(const json_t *result, FILE *out)
{
	const json_t *event;
	size_t i;

	json_array_foreach(json_object_get(result, "events"), i, event)
	{
		fprintf(out, "%s %-4s %-7s ", member(event, "at"), member(event, "node"), member(event, "level"));
		print_text(member(event, "text"), out);
		fputc('\n', out);
	}
	if (i == 0)
		fprintf(out, "nothing has happened in that time\n");
}

int run_events(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	json_t *params = take_filters(filters, "minutes=N and level=NAME", invocation->argc, invocation->argv, &err);
	const json_t *minutes = json_object_get(params, "minutes");
	json_t *all = json_array();
	struct cluster cluster;
	int status;

	if (minutes) {
		json_object_set_new(params, "seconds", json_integer(60 * json_integer_value(minutes)));
		json_object_del(params, "minutes");
	}
	if (!params || cluster_open(&cluster, invocation, invocation->cluster, &err) < 0) {
		json_decref(all);
		status = params ? STARCTL_FAILED : STARCTL_USAGE;
		json_decref(params);
		return fail(invocation, &err, status);
	}
	for (unsigned i = 0; i < cluster.count; i++) {
		json_t *reply = cluster_ask(&cluster, i, "events", json_deep_copy(params)), *event;
		size_t k;

		json_array_foreach(json_object_get(reply, "events"), k, event)
		{
			json_object_set_new(event, "node", json_string(cluster.nodes[i].name));
			json_array_append(all, event);
		}
		json_decref(reply);
	}
	json_decref(params);
	status = cluster_complain(&cluster, invocation) ? STARCTL_FAILED : STARCTL_OK;
	cluster_close(&cluster);
	if (json_array_size(all) || status == STARCTL_OK)
		print(invocation, json_pack("{s:o}", "events", sort(all)), render);
	else
		json_decref(all);
	return status;
}
