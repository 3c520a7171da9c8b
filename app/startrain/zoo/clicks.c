/* SPDX-License-Identifier: BSD-3-Clause */
/* The inputs of models with histories. */
#include <errno.h>
#include <stdlib.h>

#include "app/startrain/zoo/zoo.h"

struct zoo_clicks zoo_clicks_feeds(struct graph *g, struct estimator_spec *spec, const struct zoo_options *o)
{
	const struct graph_type ids = zoo_type(STAR_INT64, 1, (int64_t)o->batch * o->history, 0);
	const struct graph_type rows = zoo_type(STAR_INT64, 1, o->batch, 0);
	struct zoo_clicks clicks;

	clicks.items = zoo_feed(g, spec, "clicked_items", ids);
	clicks.categories = zoo_feed(g, spec, "clicked_categories", ids);
	clicks.segments = zoo_feed(g, spec, "clicked_by", zoo_type(STAR_INT32, 1, ids.shape.dims[0], 0));
	clicks.others = zoo_feed(g, spec, "other_clicks", ids);
	clicks.first = zoo_feed(g, spec, "first_clicks", rows);
	clicks.lengths = zoo_feed(g, spec, "lengths", rows);
	return clicks;
}

static int draw_others(struct zoo_clicks_reader *reader, uint32_t count, struct star_error *err)
{
	if (count > reader->room) {
		int64_t *more = realloc(reader->others, count * sizeof(*more));

		if (!more)
			return star_error_set(err, -ENOMEM, "no memory for %u clicks", count);
		reader->others = more;
		reader->room = count;
	}
	for (uint32_t i = 0; i < count; i++)
		reader->others[i] = prng_below(&reader->prng, count);
	return 0;
}

int zoo_clicks_next(struct zoo_clicks_reader *reader, const struct input_batch *batch, struct graph_tensor *feeds,
		    struct star_error *err)
{
	const struct input_clicks *clicks = &batch->clicks;
	const struct graph_type ids = zoo_type(STAR_INT64, 1, clicks->count, 0);
	const struct graph_type rows = zoo_type(STAR_INT64, 1, batch->rows, 0);
	const int rc = draw_others(reader, clicks->count, err);

	if (rc < 0)
		return rc;
	feeds[0] = (struct graph_tensor){ ids, clicks->items };
	feeds[1] = (struct graph_tensor){ ids, clicks->categories };
	feeds[2] = (struct graph_tensor){ zoo_type(STAR_INT32, 1, clicks->count, 0), clicks->segments };
	feeds[3] = (struct graph_tensor){ ids, reader->others };
	feeds[4] = (struct graph_tensor){ rows, clicks->first };
	feeds[5] = (struct graph_tensor){ rows, clicks->lengths };
	return 1;
}
