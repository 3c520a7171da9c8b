/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/objects.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "client/star.h"
#include "offload/template.h"

enum { LOOK_MS = 100 };

static struct star_table *create_object(const struct remote_options *options, const struct graph_node *node,
					struct star_error *err)
{
	const uint64_t deadline_us = options->deadline_us;
	struct template_object object;

	if (offload_template_object(node, &object, err) < 0)
		return NULL;
	return object.is_table ? star_table_create(options->cluster, &object.spec, deadline_us, err)
			       : star_variable_create(options->cluster, &object.spec, deadline_us, err);
}

/* Waits until another worker has created it. */
static struct star_table *await_object(const struct remote_options *options, const struct graph_node *node,
				       struct star_error *err)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000 };
	struct star_table *table;

	while (!(table = star_lookup(options->cluster, node->name, options->deadline_us, err)) &&
	       err->code == -ENOENT && clock_ns() < options->until_ns)
		nanosleep(&pause, NULL);
	if (!table && err->code == -ENOENT)
		star_error_set(err, -ETIMEDOUT,
			       "\"%s\" was not created in time: the chief (worker 0) creates it, if its model "
			       "has it too",
			       node->name);
	return table;
}

struct star_table *train_objects_make(const struct remote_options *options, const struct graph_node *node,
				      struct star_error *err)
{
	/* An existing object is used if it matches the graph: creating it compares the definitions. */
	if (options->wait && !await_object(options, node, err))
		return NULL;
	return create_object(options, node, err);
}
