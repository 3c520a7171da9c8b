/* SPDX-License-Identifier: BSD-3-Clause */
#include "input/clicks.h"

#include <errno.h>
#include <stdlib.h>

int input_clicks_init(struct input_clicks *clicks, uint32_t rows, struct star_error *err)
{
	clicks->first = malloc(rows * sizeof(*clicks->first));
	clicks->lengths = malloc(rows * sizeof(*clicks->lengths));
	return clicks->first && clicks->lengths ? 0 : star_error_set(err, -ENOMEM, "no memory for %u histories", rows);
}

void input_clicks_fini(struct input_clicks *clicks)
{
	free(clicks->items);
	free(clicks->categories);
	free(clicks->segments);
	free(clicks->first);
	free(clicks->lengths);
}

static int grow_clicks(struct input_clicks *clicks, uint32_t *room, uint32_t need, struct star_error *err)
{
	uint32_t more = *room ? *room : 1024;
	int64_t *items, *categories;
	int32_t *segments;

	if (need <= *room)
		return 0;
	while (more < need)
		more *= 2;
	items = realloc(clicks->items, more * sizeof(*items));
	clicks->items = items ? items : clicks->items;
	categories = realloc(clicks->categories, more * sizeof(*categories));
	clicks->categories = categories ? categories : clicks->categories;
	segments = realloc(clicks->segments, more * sizeof(*segments));
	clicks->segments = segments ? segments : clicks->segments;
	if (!items || !categories || !segments)
		return star_error_set(err, -ENOMEM, "no memory for a batch of %u clicks", more);
	*room = more;
	return 0;
}

int input_clicks_add(struct input_clicks *clicks, uint32_t *room, uint32_t number, const struct row *row,
		     uint32_t fields, uint32_t most, struct star_error *err)
{
	const uint32_t all = (row->count - fields) / 2, count = most && all > most ? most : all;
	const int64_t *from = row->ids + fields + 2 * (size_t)(all - count);

	if (clicks->count + (uint64_t)count > INT32_MAX)
		return star_error_set(err, -E2BIG, "a batch has more than 2^31 clicks: make it smaller");
	if (grow_clicks(clicks, room, clicks->count + count, err) < 0)
		return err->code;
	clicks->first[number] = clicks->count;
	clicks->lengths[number] = count;
	for (uint32_t i = 0; i < count; i++, clicks->count++) {
		clicks->items[clicks->count] = from[2 * i];
		clicks->categories[clicks->count] = from[2 * i + 1];
		clicks->segments[clicks->count] = (int32_t)number;
	}
	return 0;
}
