/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/lineage.h"

#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"

void node_lineage_init(struct node_lineage *l, const struct config *config)
{
	*l = (struct node_lineage){ .config = config, .used = -1 };
	if (getrandom(&l->id, sizeof(l->id), 0) != sizeof(l->id))
		l->id = clock_ns();
	l->id = l->id % INT64_MAX + 1;
}

static void end_use(struct node_lineage *l)
{
	if (l->used >= 0)
		close(l->used);
	l->used = -1;
}

void node_lineage_fini(struct node_lineage *l)
{
	end_use(l);
}

void node_lineage_use(struct node_lineage *l)
{
	end_use(l);
	if (l->began && l->config->task_index == 0)
		l->used = ckpt_use(l->config->checkpoint_directory, l->began);
	l->since_count = 0;
}

void node_lineage_begin(struct node_lineage *l, uint64_t began, uint64_t id, const struct ckpt_manifest *manifest)
{
	l->id = id;
	l->began = began;
	l->began_sum = manifest ? manifest->sum : 0;
	l->began_part = 0;
	for (uint32_t i = 0; manifest && i < manifest->files_count; i++)
		if (manifest->files[i].task == l->config->task_index)
			l->began_part += manifest->files[i].checksum;
	l->since = 0;
	node_lineage_use(l);
}

void node_lineage_follow(struct node_lineage *l, uint64_t began, uint64_t id)
{
	l->id = id;
	/* What the primary has written since is not counted: it may not know of all of it. So this stays the longer. */
	l->began = began;
	l->since = 0;
}

void node_lineage_count(struct node_lineage *l, uint64_t written, bool full)
{
	l->since = l->since ? l->since : written;
	l->since_count += full;
	if (l->since_count >= l->config->checkpoint_keep)
		end_use(l);
}
