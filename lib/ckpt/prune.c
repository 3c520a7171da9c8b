/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides which checkpoints of a directory are removed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "ckpt/internal.h"

/* A committed checkpoint is first hidden by one rename: a crash in between leaves something uncommitted, which the next
 * prune removes. hidden: its name then. */
static int hide(int folder, const struct ckpt_entry *entry, char hidden[static CHECKPOINT_ID_MAX])
{
	int rc;

	ckpt_name(hidden, entry->id, entry->delta, CKPT_PARTIAL);
	if (entry->partial)
		return 0;
	rc = ckpt_remove_folder(folder, hidden);
	if (rc == 0 && (renameat(folder, entry->name, folder, hidden) < 0 || fsync(folder) < 0))
		rc = -errno;
	return rc;
}

/* Whether it may be removed as one of this lineage (NULL: any). An unreadable one may belong to any. */
static bool is_of(const struct ckpt_entry *entry, const uint64_t *lineage)
{
	return !lineage || entry->partial || (entry->complete && entry->lineage == *lineage);
}

/* Whether a full checkpoint can be restored, as far as it is checked. 1, 0, or a negative errno: unknown. */
static int counts(const char *directory, const struct ckpt_entry *entry, const struct ckpt_pruning *pruning,
		  struct star_error *err)
{
	struct star_error why = { 0 };
	char path[CKPT_PATH_MAX];
	int rc;

	if (!entry->complete || entry->delta || !is_of(entry, pruning->lineage))
		return 0;
	if (!pruning->refused)
		return entry->whole;
	if (snprintf(path, sizeof(path), "%s/%s", directory, entry->name) >= (int)sizeof(path))
		return star_error_set(err, -ENAMETOOLONG, "the path of %s is too long", entry->name);
	rc = ckpt_verify(path, pruning->progress, pruning->ctx, &why);
	if (rc < 0 && ckpt_is_unread(rc))
		return star_error_set(err, rc, "%s", why.text);
	if (rc < 0)
		pruning->refused(pruning->ctx, entry->name, why.text);
	return rc == 0;
}

/* What stays in any case: everything from an id on, and what the cluster has started from. */
struct kept {
	uint64_t oldest, began;
};

/* The newest `keep` good ones. If there are fewer, everything is kept, because a damaged one may be repaired. */
static int find_kept(const char *directory, const struct ckpt_entry *entries, uint32_t count,
		     const struct ckpt_pruning *pruning, struct kept *kept, struct star_error *err)
{
	uint32_t found = 0, own = 0;

	for (uint32_t i = count; i-- > 0 && found < pruning->keep;) {
		const int rc = counts(directory, &entries[i], pruning, err);

		if (rc < 0)
			return rc;
		if (rc == 0)
			continue;
		found++;
		own += pruning->since && entries[i].id >= pruning->since;
		kept->oldest = entries[i].id;
	}
	if (found < pruning->keep)
		kept->oldest = 0;
	kept->began = own < pruning->keep ? pruning->began : 0;
	return 0;
}

/*
 * Marks everything that stays, and what it is based on. Newer entries come first, so that a mark is set before it is
 * passed on.
 */
static void mark(struct ckpt_entry *entries, uint32_t count, const struct kept *kept, const uint64_t *lineage,
		 bool *stays)
{
	for (uint32_t i = count; i-- > 0;) {
		stays[i] |=
			entries[i].id >= kept->oldest || entries[i].id == kept->began || !is_of(&entries[i], lineage);
		if (!stays[i] || !entries[i].complete || !entries[i].parent)
			continue;
		for (uint32_t j = i; j-- > 0 && entries[j].id >= entries[i].parent;)
			stays[j] |= entries[j].id == entries[i].parent;
	}
}

/*
 * A checkpoint that would be removed, but from which another process has started, stays: that process needs it for a
 * restart.
 */
static void mark_used(int folder, const struct ckpt_entry *entries, uint32_t count, const struct ckpt_pruning *pruning,
		      bool *stays)
{
	pid_t holder;

	for (uint32_t i = 0; i < count; i++) {
		if (stays[i] || !entries[i].complete || !ckpt_is_used(folder, entries[i].name, &holder))
			continue;
		stays[i] = true;
		if (pruning->in_use)
			pruning->in_use(pruning->ctx, entries[i].name, holder);
	}
}

static int prune(const char *directory, struct ckpt_entry *entries, uint32_t count, const struct kept *kept,
		 const struct ckpt_pruning *pruning, struct star_error *err)
{
	bool *stays = calloc(count + 1, sizeof(*stays));
	const int folder = ckpt_open_folder(directory, err);
	uint64_t newest = 0;
	char hidden[CHECKPOINT_ID_MAX];
	int removed = 0, rc = 0;

	if (!stays || folder < 0) {
		free(stays);
		return folder < 0 ? folder : star_error_set(err, -ENOMEM, "no memory left to prune %s", directory);
	}
	for (uint32_t i = 0; i < count; i++)
		if (entries[i].complete)
			newest = entries[i].id;
	mark(entries, count, kept, pruning->lineage, stays);
	if (!pruning->lineage) {
		mark_used(folder, entries, count, pruning, stays);
		mark(entries, count, kept, NULL, stays);
	}
	/* The newest first, so that there is never a delta without the one it is based on. */
	for (uint32_t i = count; i-- > 0;) {
		const char *name = entries[i].name;
		int one;

		if (entries[i].partial ? entries[i].id >= newest : stays[i])
			continue;
		one = hide(folder, &entries[i], hidden);
		if (one < 0) {
			rc = ckpt_io_error(err, one, "remove", directory, name);
			break;
		}
		/*
		 * If something strange keeps an uncommitted one from being removed, the others are removed all the
		 * same.
		 */
		one = ckpt_remove_folder(folder, hidden);
		if (one < 0 && rc == 0)
			rc = ckpt_io_error(err, one, "remove", directory, hidden);
		removed += one == 0;
	}
	free(stays);
	close(folder);
	return rc < 0 ? rc : removed;
}

int ckpt_prune(const char *directory, const struct ckpt_pruning *pruning, struct star_error *err)
{
	struct ckpt_entry *entries;
	struct kept kept = { 0 };
	uint32_t count;
	int saves, rc;

	if (pruning->keep < 1)
		return star_error_set(err, -EINVAL, "at least one full checkpoint must be kept");
	rc = ckpt_list(directory, &entries, &count, err);
	if (rc < 0)
		return rc;
	rc = find_kept(directory, entries, count, pruning, &kept, err);
	free(entries);
	if (rc < 0)
		return rc;
	saves = ckpt_lock_saves(directory, LOCK_EX, pruning->wait_us, err);
	if (saves < 0)
		return saves;
	/*
	 * Listed again, because reading them takes long, and there may be a new delta based on one of those to be
	 * removed.
	 */
	rc = ckpt_list(directory, &entries, &count, err);
	if (rc == 0) {
		rc = prune(directory, entries, count, &kept, pruning, err);
		free(entries);
	}
	close(saves);
	return rc;
}
