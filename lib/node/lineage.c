/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/lineage.h"

#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

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

static void note_number(struct node_lineage *l, uint64_t number)
{
	if (number > node_lineage_newest(l))
		__atomic_store_n(&l->newest, number, __ATOMIC_RELAXED);
}

void node_lineage_follow(struct node_lineage *l, uint64_t began, uint64_t id, uint64_t newest)
{
	l->id = id;
	/* Checkpoints that the primary has written since are not counted, as this node may not know all of them. So it
	 * keeps its own longer. */
	l->began = began;
	l->since = 0;
	__atomic_store_n(&l->before, newest, __ATOMIC_RELAXED);
	note_number(l, newest);
}

int node_lineage_next(struct node_lineage *l, bool partial, uint64_t *id, struct star_error *err)
{
	const char *directory = l->config->checkpoint_directory;
	struct ckpt_next next;
	const int rc = ckpt_next_id(directory, partial, &next, err);

	if (next.strange[0] && strcmp(next.strange, l->strange) != 0)
		log_warn("%s/%s is not a complete checkpoint, and its number is far above those of complete ones: it "
			 "is skipped; remove it, or move it away",
			 directory, next.strange);
	strcpy(l->strange, next.strange);
	*id = next.id;
	return rc;
}

int node_lineage_give(struct node_lineage *l, uint64_t *id, struct star_error *err)
{
	const uint64_t before = __atomic_load_n(&l->before, __ATOMIC_RELAXED);
	const int rc = node_lineage_next(l, true, id, err);

	if (rc < 0)
		return rc;
	if (*id <= before && before < INT64_MAX)
		*id = before + 1;
	note_number(l, *id);
	return 0;
}

void node_lineage_look(struct node_lineage *l)
{
	uint64_t next;

	if (node_lineage_next(l, true, &next, NULL) == 0)
		note_number(l, next - 1);
}

uint64_t node_lineage_newest(const struct node_lineage *l)
{
	return __atomic_load_n(&l->newest, __ATOMIC_RELAXED);
}

void node_lineage_count(struct node_lineage *l, uint64_t written, bool full)
{
	l->since = l->since ? l->since : written;
	l->since_count += full;
	if (l->since_count >= l->config->checkpoint_keep)
		end_use(l);
}
