/* SPDX-License-Identifier: BSD-3-Clause */
#include "input/slices.h"

#include <errno.h>
#include <stdlib.h>

static int make_room(struct open_slice **of, uint32_t *room)
{
	const uint32_t more = *room ? 2 * *room : 16;
	struct open_slice *all = realloc(*of, more * sizeof(*all));

	if (!all)
		return -ENOMEM;
	for (uint32_t i = *room; i < more; i++)
		all[i] = (struct open_slice){ .used = false };
	*of = all;
	*room = more;
	return 0;
}

int input_slices_add(struct slices *slices, const struct input_slice *slice)
{
	uint32_t at = 0;

	while (at < slices->room && slices->of[at].used)
		at++;
	if (at == slices->room && make_room(&slices->of, &slices->room) < 0)
		return -ENOMEM;
	slices->of[at] = (struct open_slice){ .slice = *slice, .used = true };
	return (int)at;
}

int input_slices_close(struct slices *slices)
{
	for (uint32_t i = 0; i < slices->room; i++) {
		struct open_slice *s = &slices->of[i];

		if (!s->used || !s->read || s->rows)
			continue;
		if (slices->closed_count == slices->closed_room && make_room(&slices->closed, &slices->closed_room) < 0)
			return -ENOMEM;
		slices->closed[slices->closed_count++] = *s;
		s->used = false;
	}
	return 0;
}

void input_slices_finish(struct slices *slices, const struct input_slices *queue, uint64_t batches)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < slices->closed_count; i++)
		if (slices->closed[i].batches <= batches)
			queue->done(queue->arg, &slices->closed[i].slice);
		else
			slices->closed[kept++] = slices->closed[i];
	slices->closed_count = kept;
}

void input_slices_fini(struct slices *slices)
{
	free(slices->of);
	free(slices->closed);
}
