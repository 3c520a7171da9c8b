/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a task's nodes. */
#include <errno.h>
#include <string.h>

#include "app/starctl/rolling.h"

enum { CONNECT_US = 3000000 };

const char *rolling_pair_text(const json_t *status, const char *member)
{
	const char *text = json_string_value(json_object_get(json_object_get(status, "pair"), member));

	return text ? text : "";
}

static bool is_primary(const json_t *status)
{
	return strcmp(rolling_pair_text(status, "role"), "primary") == 0;
}

static json_t *ask_status(const char *control, struct star_error *err)
{
	struct jsonrpc_client *client;
	json_t *status;

	if (!control[0]) {
		star_error_set(err, -EDESTADDRREQ, "its address is unknown: it has never been heard");
		return NULL;
	}
	client = connect_node(control, CONNECT_US, err);
	status = client ? jsonrpc_call(client, "status", NULL, CONNECT_US, err) : NULL;
	jsonrpc_close(client);
	return status;
}

void rolling_look(const struct rolling *rolling, unsigned task, struct rolling_look *look)
{
	const struct rolling_task *of = &rolling->tasks[task];
	unsigned primaries = 0;

	*look = (struct rolling_look){ .primary = -1 };
	for (unsigned i = 0; i < of->count; i++) {
		look->status[i] = ask_status(of->nodes[i].control, &look->why[i]);
		if (look->status[i] && (of->count == 1 || is_primary(look->status[i]))) {
			look->primary = (int)i;
			primaries++;
		}
	}
	if (primaries > 1)
		look->primary = -1;
}

void rolling_look_end(struct rolling_look *look)
{
	json_decref(look->status[0]);
	json_decref(look->status[1]);
}

void rolling_process(const json_t *status, char process[static ROLLING_PROCESS])
{
	const char *text = json_string_value(json_object_get(status, "process"));
	const json_int_t pid = json_integer_value(json_object_get(status, "pid"));

	if (text)
		snprintf(process, ROLLING_PROCESS, "%s", text);
	else
		snprintf(process, ROLLING_PROCESS, "%lld", (long long)pid);
}

bool rolling_is_done(const struct rolling *rolling, unsigned task, unsigned node, const struct rolling_look *look)
{
	char process[ROLLING_PROCESS];

	if (!look->status[node])
		return false;
	rolling_process(look->status[node], process);
	return strcmp(process, rolling->tasks[task].nodes[node].process) != 0;
}

/* What PS task 0 tells workers about the task; a new reference. */
static json_t *told_of(const char *control, unsigned task)
{
	struct star_error err;
	struct jsonrpc_client *client = connect_node(control, CONNECT_US, &err);
	json_t *status = client ? cluster_ask_leader(&client, &err) : NULL, *node = NULL;

	if (status && !json_object_get(status, "no_layout"))
		node = json_incref(json_array_get(json_object_get(status, "nodes"), task));
	jsonrpc_close(client);
	json_decref(status);
	return node;
}

static bool is(const json_t *json, const char *member, const char *text)
{
	const char *found = json_string_value(json_object_get(json, member));

	return found && strcmp(found, text) == 0;
}

static bool is_paired(const json_t *status, const char *role)
{
	return strcmp(rolling_pair_text(status, "role"), role) == 0 &&
	       strcmp(rolling_pair_text(status, "state"), "paired") == 0;
}

bool rolling_is_whole(const struct rolling *rolling, unsigned task, struct rolling_look *look)
{
	const struct rolling_task *of = &rolling->tasks[task];
	const int primary = look->primary;
	json_t *told;
	bool whole;

	if (primary < 0)
		return false;
	if (of->count == 2 &&
	    (!is_paired(look->status[primary], "primary") || !is_paired(look->status[1 - primary], "standby")))
		return false;
	told = told_of(of->nodes[primary].control, task);
	whole = json_is_true(json_object_get(told, "joined")) && is(told, "control", of->nodes[primary].control) &&
		(of->count == 1 || is(told, "standby", of->nodes[1 - primary].control));
	json_decref(told);
	look->untold = !whole;
	return whole;
}

static void explain_node(const struct rolling *rolling, unsigned task, unsigned i, const struct rolling_look *look,
			 FILE *out)
{
	const struct rolling_node *node = &rolling->tasks[task].nodes[i];
	const json_t *status = look->status[i];

	fprintf(out, "%s%s ", i ? "; " : "", node->control[0] ? node->control : "the other node");
	if (!status)
		fprintf(out, "does not answer (%s)", look->why[i].text);
	else if (rolling->tasks[task].count == 1)
		fputs("answers", out);
	else
		fprintf(out, "is %s, %s", rolling_pair_text(status, "role"), rolling_pair_text(status, "state"));
	if (status && rolling_pair_text(status, "why")[0])
		fprintf(out, " (%s)", rolling_pair_text(status, "why"));
	if (status && json_object_get(status, "no_layout"))
		fprintf(out, " (%s)", json_string_value(json_object_get(status, "no_layout")));
}

void rolling_explain(const struct rolling *rolling, unsigned task, const struct rolling_look *look,
		     char why[static ROLLING_WHY])
{
	FILE *out = fmemopen(why, ROLLING_WHY, "w");

	why[0] = 0;
	if (!out)
		return;
	for (unsigned i = 0; i < rolling->tasks[task].count; i++)
		explain_node(rolling, task, i, look, out);
	if (look->untold)
		fputs("; PS task 0 does not tell workers so yet", out);
	fclose(out);
	why[ROLLING_WHY - 1] = 0;
}
