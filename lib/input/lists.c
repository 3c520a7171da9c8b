/* SPDX-License-Identifier: BSD-3-Clause */
#include "input/lists.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int input_lists_init(struct input_lists *lists, uint32_t rows, uint32_t count)
{
	if (count)
		lists->lengths = calloc((size_t)rows * count, sizeof(*lists->lengths));
	return lists->lengths || !count ? 0 : -ENOMEM;
}

void input_lists_fini(struct input_lists *lists)
{
	free(lists->ids);
	free(lists->segments);
	free(lists->lengths);
}

static int grow_lists(struct input_lists *lists, uint32_t *room, uint64_t need, struct star_error *err)
{
	uint64_t more = *room ? *room : 1024;
	int64_t *ids;
	int32_t *segments;

	if (need <= *room)
		return 0;
	if (need > INT32_MAX)
		return star_error_set(err, -E2BIG, "the lists of a batch have more than 2^31 values: make it smaller");
	while (more < need)
		more *= 2;
	ids = realloc(lists->ids, more * sizeof(*ids));
	lists->ids = ids ? ids : lists->ids;
	segments = realloc(lists->segments, more * sizeof(*segments));
	lists->segments = segments ? segments : lists->segments;
	if (!ids || !segments)
		return star_error_set(err, -ENOMEM, "no memory for a batch's lists of %llu values",
				      (unsigned long long)more);
	*room = (uint32_t)more;
	return 0;
}

int input_lists_add(struct input_lists *lists, uint32_t *room, uint32_t number, const struct row *row,
		    const struct input_shape *shape, struct star_error *err)
{
	const uint32_t ids = row->count - shape->fields;
	const size_t first = (size_t)number * shape->lists;

	if (grow_lists(lists, room, (uint64_t)lists->count + ids, err) < 0)
		return err->code;
	if (ids)
		memcpy(lists->ids + lists->count, row->ids + shape->fields, ids * sizeof(*lists->ids));
	for (uint32_t list = 0; list < shape->lists; list++) {
		lists->lengths[first + list] = (float)row->lengths[list];
		for (uint32_t i = 0; i < row->lengths[list]; i++)
			lists->segments[lists->count++] = (int32_t)(first + list);
	}
	return 0;
}
