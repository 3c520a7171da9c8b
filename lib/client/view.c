/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Views: pulled rows in the transport's memory. While the call runs, a view belongs to its transport, which adds the
 * pieces that it keeps (client_codec_show); then it belongs to the caller. The first access sorts the pieces, and lists
 * what was copied between them.
 */
#include "client/codec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct star_view *create_view(const struct call_op *op)
{
	struct star_view *view = calloc(1, sizeof(*view));
	const uint64_t rows = op->pieces ? op->pieces->first[op->count] : op->count;

	if (!view)
		return NULL;
	view->bytes = op->pieces ? rows * op->pieces->bytes : (rows - 1) * op->row_bytes + op->last_bytes;
	view->copy = malloc(view->bytes); /* untouched until it is written */
	if (view->copy)
		return view;
	free(view);
	return NULL;
}

int client_view_begin(struct call *call, const struct star_op *ops, struct star_error *err)
{
	for (uint32_t i = 0; i < call->ops_count; i++) {
		struct call_op *op = &call->ops[i];

		if (!ops[i].view)
			continue;
		*ops[i].view = op->view = create_view(op);
		if (!op->view)
			return star_error_set(err, -ENOMEM, "out of memory for a view of \"%s\"", op->table->spec.name);
		op->results = op->view->copy;
	}
	return 0;
}

static int by_offset(const void *a, const void *b)
{
	const struct star_view_part *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Whether the pieces came in order, as they do from one reactor. */
static bool in_order(const struct star_view *view)
{
	for (uint32_t i = 1; i < view->parts_count; i++)
		if (view->parts[i].offset < view->parts[i - 1].offset)
			return false;
	return true;
}

/* Lists, before each piece and at the end, what was copied there. */
static bool fill_gaps(struct star_view *view)
{
	struct star_view_part *all = malloc((2 * (size_t)view->parts_count + 1) * sizeof(*all));
	uint32_t count = 0;
	uint64_t at = 0;

	if (!all)
		return false;
	for (uint32_t i = 0; i <= view->parts_count; i++) {
		const bool end = i == view->parts_count;
		const uint64_t offset = end ? view->bytes : view->parts[i].offset;

		if (offset > at)
			all[count++] = (struct star_view_part){ at, view->copy + at, offset - at };
		if (end)
			break;
		all[count++] = view->parts[i];
		at = offset + view->parts[i].bytes;
	}
	free(view->parts);
	view->parts = all;
	view->parts_count = count;
	return true;
}

static bool complete_view(struct star_view *view)
{
	if (!view->complete) {
		if (!in_order(view))
			qsort(view->parts, view->parts_count, sizeof(*view->parts), by_offset);
		view->complete = fill_gaps(view);
	}
	return view->complete;
}

uint32_t star_view_parts(struct star_view *view, const struct star_view_part **parts)
{
	if (!complete_view(view))
		return 0;
	*parts = view->parts;
	return view->parts_count;
}

/* Finds the piece that contains that byte. */
static uint32_t find_view_part(const struct star_view *view, uint64_t offset)
{
	uint32_t low = 0, high = view->parts_count - 1;

	while (low < high) {
		const uint32_t middle = low + (high - low + 1) / 2;

		if (view->parts[middle].offset <= offset)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

int star_view_copy(struct star_view *view, uint64_t offset, uint64_t bytes, void *to)
{
	char *at = to;

	if (offset > view->bytes || bytes > view->bytes - offset)
		return -EINVAL;
	if (!complete_view(view))
		return -ENOMEM;
	for (uint32_t i = find_view_part(view, offset); bytes; i++) {
		const struct star_view_part *part = &view->parts[i];
		const uint64_t left = part->offset + part->bytes - offset, n = left < bytes ? left : bytes;

		memcpy(at, (const char *)part->data + (offset - part->offset), n);
		at += n;
		offset += n;
		bytes -= n;
	}
	return 0;
}

void star_view_release(struct star_view *view)
{
	if (!view)
		return;
	free(view->parts);
	free(view->copy);
	if (view->release)
		view->release(view); /* the transport frees it with the memory that it keeps */
	else
		free(view);
}

int star_pull_view(struct star_table *table, const uint64_t *keys, uint32_t count, uint32_t flags, uint64_t deadline_us,
		   struct star_view **view, struct star_error *err)
{
	struct star_op op = {
		.kind = STAR_PULL, .flags = flags, .table = table, .keys = keys, .count = count, .view = view
	};
	int rc;

	if (!view)
		return star_error_set(err, -EINVAL, "view is NULL");
	*view = NULL;
	if (!table)
		return star_error_set(err, -EINVAL, "the table is NULL");
	rc = star_execute(table->cluster, &op, 1, deadline_us, err);
	if (rc < 0) {
		star_view_release(*view);
		*view = NULL;
	}
	return rc;
}
