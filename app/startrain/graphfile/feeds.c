/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/graphfile/feeds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int feeds_find(struct feeds *feeds, const struct graph *graph, const char *path, struct star_error *err)
{
	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];

		if (node->op != GRAPH_FEED)
			continue;
		if (feeds->count == GRAPHFILE_FEEDS_MAX)
			return star_error_set(err, -E2BIG, "%s: more than %d feeds", path, GRAPHFILE_FEEDS_MAX);
		feeds->nodes[feeds->count] = node;
		feeds->most[feeds->count++] = (struct graph_plan_feed){ node->name, node->outputs[0] };
	}
	if (!feeds->count)
		return star_error_set(err, -EINVAL, "%s: the graph has no feeds, so it cannot take batches", path);
	return 0;
}

/* Takes an array as a step's feed: the largest sizes grow with it. */
static int measure_one(struct feeds *feeds, uint32_t feed, const struct graph_tensor *array, const char *path,
		       struct star_error *err)
{
	const struct graph_type *wants = &feeds->nodes[feed]->outputs[0];
	struct graph_shape *most = &feeds->most[feed].type.shape;
	char want[GRAPH_SHAPE_TEXT], have[GRAPH_SHAPE_TEXT];
	bool fits = array->type.dtype == wants->dtype && array->type.shape.ndim == wants->shape.ndim;

	for (unsigned i = 0; fits && i < most->ndim; i++) {
		fits = wants->shape.dims[i] < 0 || wants->shape.dims[i] == array->type.shape.dims[i];
		if (array->type.shape.dims[i] > most->dims[i])
			most->dims[i] = array->type.shape.dims[i];
	}
	return fits ? 0
		    : star_error_set(err, -EINVAL, "%s: batch %llu has %s %s for the feed \"%s\", which is %s %s", path,
				     (unsigned long long)feeds->batches - 1, dtype_name(array->type.dtype),
				     graph_shape_text(&array->type.shape, have), feeds->nodes[feed]->name,
				     dtype_name(wants->dtype), graph_shape_text(&wants->shape, want));
}

int feeds_next(struct feeds *feeds, struct arrays *arrays, const char *path, struct graph_tensor *batch,
	       struct star_error *err)
{
	for (uint32_t i = 0; i < feeds->count; i++) {
		const int rc = arrays_next(arrays, &batch[i], err);

		if (rc < 0 || (rc == 0 && i == 0))
			return rc;
		if (rc == 0)
			return star_error_set(
				err, -EINVAL,
				"%s ends in the middle of batch %llu: each has an array for each of the %u "
				"feeds of the graph, in its order",
				path, (unsigned long long)feeds->batches, feeds->count);
	}
	feeds->batches++;
	return 1;
}

int feeds_measure(struct feeds *feeds, const char *const *paths, uint32_t count, struct star_error *err)
{
	struct graph_tensor batch[GRAPHFILE_FEEDS_MAX];
	int rc = 0;

	for (uint32_t f = 0; rc == 0 && f < count; f++) {
		const char *path = paths[f];
		struct arrays *arrays = arrays_open(path, err);

		rc = arrays ? 0 : err->code;
		feeds->batches = 0;
		while (rc == 0 && (rc = feeds_next(feeds, arrays, path, batch, err)) > 0) {
			rc = 0;
			for (uint32_t i = 0; rc == 0 && i < feeds->count; i++)
				rc = measure_one(feeds, i, &batch[i], path, err);
			if (rc < 0)
				break;
		}
		arrays_close(arrays);
	}
	for (uint32_t i = 0; rc == 0 && i < feeds->count; i++) {
		feeds->tensors[i].data = malloc(graph_type_bytes(&feeds->most[i].type) + 1);
		if (!feeds->tensors[i].data)
			rc = star_error_set(err, -ENOMEM, "no memory for the feed \"%s\"", feeds->nodes[i]->name);
	}
	feeds->batches = 0;
	return rc;
}

void feeds_fill(struct feeds *feeds, const struct graph_tensor *batch)
{
	for (uint32_t i = 0; i < feeds->count; i++) {
		feeds->tensors[i].type = batch[i].type;
		memcpy(feeds->tensors[i].data, batch[i].data, graph_type_bytes(&batch[i].type));
	}
}

void feeds_fini(struct feeds *feeds)
{
	for (uint32_t i = 0; i < feeds->count; i++)
		free(feeds->tensors[i].data);
}
