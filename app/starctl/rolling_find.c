/* SPDX-License-Identifier: BSD-3-Clause */
/* Which nodes a cluster has. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/starctl/rolling.h"
#include "wire/frame.h"

/* Finds the nodes of the task of the serving node. */
static int find_task(struct rolling_task *of, unsigned task, const char *control, struct star_error *err)
{
	struct star_error why = { 0 };
	struct jsonrpc_client *client = control ? connect_node(control, STARCTL_CALL_US, &why) : NULL;
	json_t *status = client ? jsonrpc_call(client, "status", NULL, STARCTL_CALL_US, &why) : NULL;
	const json_t *pair = json_object_get(status, "pair");
	const char *peer = rolling_pair_text(status, "peer");

	jsonrpc_close(client);
	if (!control)
		return star_error_set(err, -EHOSTDOWN, "PS task %u has not joined the cluster: start its node", task);
	if (!status)
		return star_error_set(err, -EHOSTDOWN, "PS task %u is not available: %s", task, why.text);
	if (strlen(control) >= sizeof(of->nodes[0].control) || strlen(peer) >= sizeof(of->nodes[1].control)) {
		json_decref(status);
		return star_error_set(err, -EPROTO, "PS task %u has an address of more than %d bytes", task,
				      CLUSTER_CONTROL - 1);
	}
	of->count = pair ? 2 : 1;
	strcpy(of->nodes[0].control, control);
	rolling_process(status, of->nodes[0].process);
	strcpy(of->nodes[1].control, peer);
	json_decref(status);
	return 0;
}

int rolling_find_nodes(struct rolling *rolling, struct star_error *err)
{
	struct jsonrpc_client *client = open_node(rolling->invocation, true, err);
	json_t *status = client ? cluster_ask_leader(&client, err) : NULL;
	const json_t *nodes = json_object_get(status, "nodes"), *node;
	size_t task, count = json_array_size(nodes);
	int rc = status ? 0 : err->code;

	jsonrpc_close(client);
	if (rc == 0 && (count == 0 || count > WIRE_NODES_MAX))
		rc = star_error_set(err, -EPROTO, "the node does not report the cluster's nodes");
	rolling->tasks = rc == 0 ? calloc(count, sizeof(*rolling->tasks)) : NULL;
	if (rc == 0 && !rolling->tasks)
		rc = star_error_set(err, -ENOMEM, "out of memory");
	json_array_foreach(nodes, task, node)
	{
		if (rc == 0)
			rc = find_task(&rolling->tasks[task], (unsigned)task,
				       json_string_value(json_object_get(node, "control")), err);
	}
	rolling->count = rc == 0 ? (unsigned)count : 0;
	json_decref(status);
	return rc;
}

/* Finds the processes of the nodes that were not asked yet: the standbys. */
int rolling_find_standbys(struct rolling *rolling, struct star_error *err)
{
	for (unsigned task = 0; task < rolling->count; task++) {
		struct rolling_look look;
		struct rolling_node *standby = &rolling->tasks[task].nodes[1];

		if (rolling->tasks[task].count == 1)
			continue;
		rolling_look(rolling, task, &look);
		if (look.status[1])
			rolling_process(look.status[1], standby->process);
		rolling_look_end(&look);
		if (!standby->process[0])
			return star_error_set(err, -EHOSTDOWN, "PS task %u: %s does not answer", task,
					      standby->control);
	}
	return 0;
}

/* By the address of PS task 0 that is first in alphabetical order, so that it does not depend on which of the two
 * serves. */
int rolling_name_file(struct rolling *rolling, struct star_error *err)
{
	const struct rolling_node *nodes = rolling->tasks[0].nodes;
	const bool second = nodes[1].control[0] && strcmp(nodes[1].control, nodes[0].control) < 0;
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int n;

	if (state && *state == '/')
		n = snprintf(rolling->file, sizeof(rolling->file), "%s/starserver/rolling-restart-%s.json", state,
			     nodes[second].control);
	else if (home && *home == '/')
		n = snprintf(rolling->file, sizeof(rolling->file), "%s/.local/state/starserver/rolling-restart-%s.json",
			     home, nodes[second].control);
	else
		return star_error_set(err, -ENOENT,
				      "HOME is not set, so there is no place for the state: give --state FILE");
	return n < (int)sizeof(rolling->file) && !strchr(nodes[second].control, '/')
		       ? 0
		       : star_error_set(err, -ENAMETOOLONG, "no name for the state: give --state FILE");
}

/* Whether these are the nodes of the file. A node that could not be reached counts as the same. */
bool rolling_are_same(const struct rolling *a, const struct rolling *b)
{
	bool same = a->count == b->count;

	for (unsigned task = 0; same && task < a->count; task++) {
		const struct rolling_node *x = a->tasks[task].nodes, *y = b->tasks[task].nodes;

		same = a->tasks[task].count == b->tasks[task].count;
		for (unsigned i = 0; same && i < a->tasks[task].count; i++)
			same = !x[i].control[0] || strcmp(x[i].control, y[0].control) == 0 ||
			       strcmp(x[i].control, y[1].control) == 0;
	}
	return same;
}

unsigned rolling_count(const struct rolling *rolling, bool done)
{
	unsigned count = 0;

	for (unsigned task = 0; task < rolling->count; task++) {
		struct rolling_look look;

		if (done)
			rolling_look(rolling, task, &look);
		for (unsigned i = 0; i < rolling->tasks[task].count; i++)
			count += !done || rolling_is_done(rolling, task, i, &look);
		if (done)
			rolling_look_end(&look);
	}
	return count;
}
