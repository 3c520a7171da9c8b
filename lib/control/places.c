/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which rows a node holds follows from the place of its reactors among those of the cluster. A node that comes back
 * with another number of reactors would move the places of others, which have their rows already and do not load any:
 * these rows would be looked for on other reactors, and read as new ones. So there is no such layout. If nodes restore
 * checkpoints, all of them roll back to the last one together, and load it with the new layout; otherwise the node is
 * refused until it has as many reactors as before.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "control/node.h"

static uint32_t reactors_of(const struct control *control, uint32_t tasks)
{
	uint32_t reactors = 0;

	for (uint32_t i = 0; i < tasks; i++)
		reactors += control->nodes[i].layout.reactors;
	return reactors;
}

/* The first task whose place would change; ps_count: none. Under lock. */
static uint32_t find_moved(const struct control *control)
{
	const uint32_t count = control->config->ps_count, reactors = reactors_of(control, count);
	uint32_t task = 0;

	while (task < count) {
		const struct control_place *place = &control->nodes[task].place;

		if (place->reactors && (place->reactors != reactors || place->first != reactors_of(control, task)))
			break;
		task++;
	}
	return task;
}

/* "PS task 1 has 3 reactors and had 2", as far as this PS task 0 knows. Under lock. */
static void tell_change(const struct control *control, uint32_t moved, char *text, size_t bytes)
{
	const uint32_t count = control->config->ps_count;
	const struct control_place *place = &control->nodes[moved].place;

	for (uint32_t task = 0; task < count; task++) {
		const struct cluster_node *node = &control->nodes[task];

		if (!node->reactors_before || node->reactors_before == node->layout.reactors)
			continue;
		snprintf(text, bytes,
			 "PS task %u has %u reactors and had %u, but other nodes hold their rows by the old number "
			 "(start it with cores.number = %u)",
			 task, node->layout.reactors, node->reactors_before, node->reactors_before);
		return;
	}
	snprintf(text, bytes,
		 "the cluster has %u reactors, %u of them before those of PS task %u, which holds its rows as one of "
		 "%u, with %u before (start all nodes with the cores.number that they had)",
		 reactors_of(control, count), reactors_of(control, moved), moved, place->reactors, place->first);
}

int control_places_check(struct control *control, struct star_error *err)
{
	char change[256], misfit[sizeof(control->misfit)];
	uint32_t moved;
	bool together = false, news = false;

	pthread_mutex_lock(&control->lock);
	moved = find_moved(control);
	if (moved == control->config->ps_count) {
		control->misfit[0] = 0;
	} else {
		tell_change(control, moved, change, sizeof(change));
		together = control_restore_together(control);
		snprintf(misfit, sizeof(misfit), "%s%s", change,
			 together ? ""
				  : ", or stop all nodes and start them again, with a checkpoint to restore if their "
				    "rows are needed");
		news = strcmp(misfit, control->misfit) != 0;
		strcpy(control->misfit, misfit);
	}
	pthread_mutex_unlock(&control->lock);
	if (moved == control->config->ps_count)
		return 0;
	if (news)
		log_error("there is no layout: %s%s", misfit,
			  together ? "; all nodes roll back to the last checkpoint" : "");
	return star_error_set(err, together ? -EAGAIN : -EINVAL, "%s%s", misfit,
			      together ? "; all nodes roll back to the last checkpoint" : "");
}

void control_places_note(struct control *control)
{
	const uint32_t count = control->config->ps_count;

	for (uint32_t task = 0; task < count; task++) {
		struct cluster_node *node = &control->nodes[task];

		node->reactors_before = node->layout.reactors;
		node->place = (struct control_place){ .reactors = reactors_of(control, count),
						      .first = reactors_of(control, task) };
	}
}
