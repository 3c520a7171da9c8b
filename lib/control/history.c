/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PS task 0, where nodes keep journals: what the history of the cluster is, and what workers know a node by that has
 * applied its own. A node says that it has yet to do so when it joins (recovers); until it has, workers get no layout,
 * as it may be what it was to them or not.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "control/join.h"
#include "control/node.h"

/* Where the cluster is taken back to a checkpoint, each node that serves begins again. One of a pair would leave its
 * place to its standby then, with just what is to be forgotten. Under lock. */
int control_history_check(struct control *control, struct star_error *err)
{
	struct star_error why;

	for (uint32_t task = 1; control->history.asked_for && task < control->config->ps_count; task++) {
		const struct cluster_node *node = &control->nodes[task];

		if (!node->generation || node->recovers || !node->place.reactors)
			continue;
		star_error_set(&why, -EINVAL,
			       "PS task %u serves, and has a standby: the cluster does not roll back to checkpoint "
			       "%" PRIu64
			       ". Stop all nodes, move away what is in standby.directory of each, and start them "
			       "again, PS task 0 with checkpoint.restore_id; or start PS task 0 without it",
			       task, control->begins_with);
		if (strcmp(control->misfit, why.text) != 0)
			log_error("there is no layout: %s", why.text);
		strcpy(control->misfit, why.text);
		return star_error_set(err, why.code, "%s", why.text);
	}
	return 0;
}

/* Before its first layout PS task 0 has heard all nodes: what it does not know of the history of the cluster one of the
 * others may. Under lock. */
void control_history_settle(struct control *control)
{
	struct control_history *h = &control->history;

	for (uint32_t task = 1; task < control->config->ps_count; task++)
		if (control->nodes[task].taken_back > h->taken_back)
			h->taken_back = control->nodes[task].taken_back;
	h->taken_back += h->asked_for;
	for (uint32_t task = 1; task < control->config->ps_count; task++) {
		struct cluster_node *node = &control->nodes[task];

		node->goes_back = !node->recovers && node->place.reactors && node->taken_back != h->taken_back;
	}
	/* Workers that go on take no layout with an epoch that they have had. */
	if ((control->config->ps_count > 1 || control->config->standby_peer[0]) && h->epoch > control->epoch_floor)
		control->epoch_floor = h->epoch;
}

/* It has begun to serve: what workers know it by is clear. Under lock. */
void control_history_begun(struct control *control, const struct control_join *join)
{
	struct cluster_node *node = &control->nodes[join->task];
	const bool stays = node->layout.incarnation == join->node.incarnation;

	if (!node->recovers || join->recovers)
		return;
	node->recovers = false;
	/* After a last checkpoint the others serve again by the next layout. */
	control->layout_due |= (node->was_known && !stays) || control->checkpointer.closed;
	node->layout.incarnation = join->node.incarnation;
	if (node->was_known && stays)
		log_info("PS task %u continues as before", join->task);
}
