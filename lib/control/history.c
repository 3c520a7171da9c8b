/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The history of the cluster, at PS task 0, if nodes keep journals; and the incarnation by which workers know a node
 * that has applied its own. When a node joins before it has done so, it says so (recovers). Until it has, workers get
 * no layout, because it may or may not continue its previous incarnation.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "control/join.h"
#include "control/node.h"

/* If the cluster rolls back to a checkpoint, each node that serves restarts. A node of a pair would then be replaced by
 * its standby, which has exactly what must be forgotten. Under lock. */
int control_history_check(struct control *control, struct star_error *err)
{
	struct star_error why;

	for (uint32_t task = 1; control->history.asked_for && task < control->config->ps_count; task++) {
		const struct cluster_node *node = &control->nodes[task];

		if (!node->generation || node->recovers || !node->place.reactors)
			continue;
		star_error_set(&why, -EINVAL,
			       "PS task %u serves, and has a standby: the cluster cannot roll back to checkpoint "
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

/* Before its first layout PS task 0 has heard from all nodes: one of them may know something of the cluster's history
 * that it does not. Under lock. */
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
	/* Workers that continue do not accept a layout with an epoch that they have had. */
	if ((control->config->ps_count > 1 || control->config->standby_peer[0]) && h->epoch > control->epoch_floor)
		control->epoch_floor = h->epoch;
}

/* It has begun to serve, so the incarnation by which workers know it is clear. Under lock. */
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
