/* SPDX-License-Identifier: BSD-3-Clause */
/* Which checkpoints of a directory can be restored. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/internal.h"

/* Whether a delta is based on this checkpoint, by its manifest. */
static bool is_parent(const struct ckpt_entry *child, const struct ckpt_entry *at)
{
	return (!child->parent_named || child->parent_sum == at->sum) &&
	       (!child->lineage || !at->lineage || child->lineage == at->lineage);
}

/* The committed entry that a delta is based on, or NULL; entries are in ascending order of their ids. other: there is a
 * different one with its id. */
static const struct ckpt_entry *find_parent(const struct ckpt_entry *entries, uint32_t count,
					    const struct ckpt_entry *child, bool *other)
{
	uint32_t low = 0, high = count;

	*other = false;
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (entries[middle].id <= child->parent)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low > 0 && entries[low - 1].id == child->parent; low--) {
		if (entries[low - 1].complete && is_parent(child, &entries[low - 1]))
			return &entries[low - 1];
		*other |= entries[low - 1].complete;
	}
	return NULL;
}

/* Follows an entry back to its full checkpoint, in steps[], which has room for all entries; returns the number, or a
 * negative errno. Ids decrease from step to step, so it terminates. */
static int walk_chain(const char *directory, const struct ckpt_entry *entries, uint32_t count,
		      const struct ckpt_entry *from, const struct ckpt_entry **steps, struct star_error *err)
{
	uint32_t n = 0;

	for (const struct ckpt_entry *at = from;; n++) {
		const uint64_t parent = at->parent;
		bool other;

		steps[n] = at;
		if (!parent)
			return (int)n + 1;
		at = find_parent(entries, count, at, &other);
		if (!at && other)
			return star_error_set(err, -ENOENT,
					      "%.280s/%s is based on another save's checkpoint %" PRIu64
					      " than the one that is there",
					      directory, from->name, parent);
		if (!at)
			return star_error_set(err, -ENOENT,
					      "%.280s/%s is based on checkpoint %" PRIu64
					      ", which is missing or incomplete",
					      directory, from->name, parent);
		if (at->partitions != from->partitions)
			return star_error_set(err, -ENOENT, "%.280s/%s and %s have %u and %u partitions", directory,
					      from->name, at->name, from->partitions, at->partitions);
	}
}

static char **paths_of(const char *directory, const struct ckpt_entry **steps, uint32_t n, struct star_error *err)
{
	char **paths = calloc(n, sizeof(*paths));

	for (uint32_t i = 0; paths && i < n; i++)
		if (asprintf(&paths[i], "%s/%s", directory, steps[n - 1 - i]->name) < 0) {
			ckpt_chain_free(paths, i);
			paths = NULL;
		}
	if (!paths)
		star_error_set(err, -ENOMEM, "no memory left for a chain of %u checkpoints", n);
	return paths;
}

/* Reports why an entry is not usable. */
static int say_damaged(const char *directory, const struct ckpt_entry *entry, struct star_error *err)
{
	struct ckpt_manifest manifest;
	char path[CKPT_PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", directory, entry->name) >= (int)sizeof(path))
		return star_error_set(err, -ENAMETOOLONG, "the path of %s is too long", entry->name);
	if (ckpt_manifest_read(path, &manifest, err) < 0)
		return err->code;
	ckpt_manifest_free(&manifest);
	return ckpt_damaged(err, path, CKPT_MANIFEST_NAME,
			    "it belongs to another checkpoint than its directory's name says");
}

/* As ckpt_list, with room for as many steps as a chain of them can have. */
static int list_with_steps(const char *directory, struct ckpt_entry **entries, uint32_t *count,
			   const struct ckpt_entry ***steps, struct star_error *err)
{
	const int rc = ckpt_list(directory, entries, count, err);

	*steps = rc < 0 ? NULL : calloc(*count + 1, sizeof(**steps));
	if (rc < 0 || *steps)
		return rc;
	free(*entries);
	return star_error_set(err, -ENOMEM, "no memory left for the checkpoints of %s", directory);
}

static int no_chain(const char *directory, uint64_t id, uint32_t count, const struct star_error *why,
		    struct star_error *err)
{
	if (why->code)
		return star_error_set(err, why->code, "%s", why->text);
	if (id)
		return star_error_set(err, -ENOENT, "%.280s has no complete checkpoint %" PRIu64, directory, id);
	return star_error_set(err, -ENOENT, "%.280s has no complete checkpoint%s", directory,
			      count ? ", only unfinished or damaged ones" : "");
}

int ckpt_chain(const char *directory, uint64_t id, char ***chain, uint32_t *count, struct star_error *err)
{
	const struct ckpt_entry **steps;
	struct ckpt_entry *entries;
	struct star_error why = { 0 };
	uint32_t entries_count;
	int n = list_with_steps(directory, &entries, &entries_count, &steps, err);

	*chain = NULL;
	*count = 0;
	if (n < 0)
		return n;
	/*
	 * The newest first. A delta whose parents are missing does not hide an older checkpoint that can be restored.
	 */
	for (uint32_t i = entries_count; i-- > 0 && n <= 0;) {
		if (entries[i].complete && (!id || entries[i].id == id))
			n = walk_chain(directory, entries, entries_count, &entries[i], steps, why.code ? NULL : &why);
		else if (entries[i].id == id && !entries[i].partial && !why.code)
			say_damaged(directory, &entries[i], &why);
	}
	if (n <= 0) {
		n = no_chain(directory, id, entries_count, &why, err);
	} else {
		*chain = paths_of(directory, steps, (uint32_t)n, err);
		*count = *chain ? (uint32_t)n : 0;
	}
	free(steps);
	free(entries);
	return n < 0 ? n : *chain ? 0 : -ENOMEM;
}

/* Whether the directory has the checkpoint that a delta is based on, with all its files. */
static int check_parent(const char *path, bool delta, const struct ckpt_entry *child, struct ckpt_entry *at,
			struct star_error *err)
{
	struct ckpt_manifest manifest;
	int folder, rc = ckpt_manifest_read(path, &manifest, err);

	if (rc < 0)
		return rc;
	ckpt_entry_fill(at, &manifest);
	folder = ckpt_open_folder(path, err);
	if (manifest.id != child->parent || (manifest.parent != 0) != delta)
		rc = ckpt_damaged(err, path, CKPT_MANIFEST_NAME,
				  "it belongs to another checkpoint than its directory's name says");
	else if (!is_parent(child, at))
		rc = ckpt_damaged(err, path, CKPT_MANIFEST_NAME,
				  "it belongs to another save than the one that the delta is based on");
	else
		rc = folder < 0 ? folder : ckpt_check_files(folder, path, &manifest, err);
	if (folder >= 0)
		close(folder);
	ckpt_manifest_free(&manifest);
	return rc;
}

/* Looks up the checkpoint that a delta is based on. -EAGAIN: there is none, or it is not complete. */
static int look_up_parent(const char *directory, const struct ckpt_entry *child, struct ckpt_entry *at,
			  struct star_error *err)
{
	struct star_error why = { .text = "the directory does not exist" };

	for (unsigned delta = 0; delta < 2; delta++) {
		char name[CHECKPOINT_ID_MAX], path[CKPT_PATH_MAX];
		struct star_error its = { 0 };
		int rc;

		ckpt_name(name, child->parent, delta, "");
		if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
			return star_error_set(err, -ENAMETOOLONG, "the path of %s is too long", name);
		rc = check_parent(path, delta, child, at, &its);
		if (rc == 0)
			return 0;
		if (rc != -ENOENT && rc != -EBADMSG)
			return star_error_set(err, rc, "%s", its.text);
		if (access(path, F_OK) == 0)
			why = its;
	}
	return star_error_set(err, -EAGAIN,
			      "checkpoint %" PRIu64
			      " in %.200s, on which it would be based, is missing or incomplete: %.200s",
			      child->parent, directory, why.text);
}

/* Also sets its parent's name. */
static int chain_length(const char *directory, struct ckpt_entry *child, struct star_error *err)
{
	struct ckpt_entry below = *child, at = { 0 };
	int n = 0, rc;

	for (; below.parent; below = at, n++) {
		rc = look_up_parent(directory, &below, &at, err);
		if (rc < 0)
			return rc;
		if (at.partitions != child->partitions)
			return star_error_set(err, -EAGAIN,
					      "checkpoint %" PRIu64
					      " in %.280s, on which it would be based, has %u partitions, not %u",
					      below.parent, directory, at.partitions, child->partitions);
		if (n == 0) {
			child->parent_sum = at.sum;
			child->parent_named = true;
		}
	}
	return n;
}

int ckpt_chain_length(const char *directory, uint64_t id, uint32_t partitions, struct star_error *err)
{
	struct ckpt_entry child = { .parent = id, .partitions = partitions };

	return chain_length(directory, &child, err);
}

enum soundness { UNREAD, SOUND, UNSOUND };

/* Whether the checkpoints that are restored first have the objects of the last one, which the cluster will have:
 * nothing else is loaded. */
static int check_objects(const char *directory, const struct ckpt_entry *last, const struct ckpt_entry *step,
			 struct star_error *err)
{
	struct ckpt_manifest manifests[2] = { 0 };
	const struct ckpt_entry *const entries[2] = { last, step };
	struct star_error why = { 0 };
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < 2; i++) {
		char path[CKPT_PATH_MAX];

		if (snprintf(path, sizeof(path), "%s/%s", directory, entries[i]->name) >= (int)sizeof(path))
			rc = star_error_set(err, -ENAMETOOLONG, "the path of %s is too long", entries[i]->name);
		else
			rc = ckpt_manifest_read(path, &manifests[i], err);
	}
	for (uint32_t i = 0; rc == 0 && i < manifests[1].objects_count; i++) {
		const struct object_spec *before = &manifests[1].objects[i];
		const struct object_spec *after = ckpt_manifest_object(&manifests[0], before->id);

		if (!after || strcmp(after->name, before->name) || wire_object_spec_same(after, before, &why) < 0)
			rc = star_error_set(err, -EBADMSG, "\"%s\" is another object in %s, on which it is based",
					    before->name, step->name);
	}
	for (unsigned i = 0; i < 2; i++)
		ckpt_manifest_free(&manifests[i]);
	return rc;
}

/* Reads those checkpoints of a chain that were not read before. 0, or what is wrong with which; if one was found
 * damaged before, the others only say so. */
static int read_chain(const char *directory, const struct ckpt_search *search, const struct ckpt_entry *entries,
		      const struct ckpt_entry *const *steps, int n, enum soundness *known, struct star_error *err)
{
	for (int i = n; i-- > 0;) {
		enum soundness *sound = &known[steps[i] - entries];
		char path[CKPT_PATH_MAX];
		int rc = 0;

		if (*sound == UNSOUND)
			return star_error_set(err, -EBADMSG, "%s is damaged: see above", steps[i]->name);
		if (*sound == UNREAD &&
		    snprintf(path, sizeof(path), "%s/%s", directory, steps[i]->name) >= (int)sizeof(path))
			rc = star_error_set(err, -ENAMETOOLONG, "the path of %s is too long", steps[i]->name);
		else if (*sound == UNREAD)
			rc = ckpt_verify(path, search->progress, search->ctx, err);
		if (rc == 0 && search->partitions && steps[i]->partitions != search->partitions)
			return star_error_set(err, -EINVAL, "%s was written with %u partitions; this cluster has %u",
					      steps[i]->name, steps[i]->partitions, search->partitions);
		*sound = rc < 0 ? UNSOUND : SOUND;
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* An error that keeps this process from reading says nothing about the contents. Skipping such a checkpoint would lose
 * what it has, and the rest would be pruned. */
bool ckpt_is_unread(int rc)
{
	return rc == -ECANCELED || rc == -ENOMEM || rc == -EACCES || rc == -EPERM || rc == -EMFILE || rc == -ENFILE;
}

/* Returns the steps of an entry's chain if it can be restored, after reading all of it; or what is wrong with it. */
static int check_entry(const char *directory, const struct ckpt_search *search, const struct ckpt_entry *entries,
		       uint32_t count, const struct ckpt_entry *entry, enum soundness *known,
		       const struct ckpt_entry **steps, struct star_error *err)
{
	const int n = entry->complete ? walk_chain(directory, entries, count, entry, steps, err)
				      : say_damaged(directory, entry, err);
	int rc = n < 0 ? n : read_chain(directory, search, entries, steps, n, known, err);

	for (int k = 1; rc == 0 && k < n; k++)
		rc = check_objects(directory, entry, steps[k], err);
	return rc < 0 ? rc : n;
}

/* Returns the steps of the newest good chain; their number, 0: none, or a negative errno. */
static int find_good(const char *directory, const struct ckpt_search *search, const struct ckpt_entry *entries,
		     uint32_t count, enum soundness *known, const struct ckpt_entry **steps, struct star_error *err)
{
	for (uint32_t i = count; i-- > 0;) {
		const struct ckpt_entry *entry = &entries[i];
		struct star_error why = { 0 };
		int n;

		if (entry->partial || (search->newest && entry->id > search->newest))
			continue;
		n = check_entry(directory, search, entries, count, entry, known, steps, &why);
		if (n > 0)
			return n;
		if (ckpt_is_unread(n))
			return star_error_set(err, n, "%s", why.text);
		search->refused(search->ctx, entry->name, why.text);
	}
	return 0;
}

/* What is listed, with memory for verification. */
struct looked_at {
	struct ckpt_entry *entries;
	const struct ckpt_entry **steps;
	enum soundness *known;
	uint32_t count;
};

static int look_at_chain(const char *directory, struct looked_at *l, struct star_error *err)
{
	const int rc = list_with_steps(directory, &l->entries, &l->count, &l->steps, err);

	l->known = rc < 0 ? NULL : calloc(l->count + 1, sizeof(*l->known));
	if (rc < 0 || l->known)
		return rc;
	free(l->steps);
	free(l->entries);
	return star_error_set(err, -ENOMEM, "no memory left for the checkpoints of %s", directory);
}

static void looked_at_free(struct looked_at *l)
{
	free(l->known);
	free(l->steps);
	free(l->entries);
}

int ckpt_chain_good(const char *directory, const struct ckpt_search *search, char ***chain, uint32_t *count,
		    struct star_error *err)
{
	struct looked_at l;
	int n = look_at_chain(directory, &l, err);

	*chain = NULL;
	*count = 0;
	if (n < 0)
		return n;
	n = find_good(directory, search, l.entries, l.count, l.known, l.steps, err);
	if (n == 0)
		n = star_error_set(err, -ENOENT, "%.280s has no intact checkpoint", directory);
	if (n > 0) {
		*chain = paths_of(directory, l.steps, (uint32_t)n, err);
		*count = *chain ? (uint32_t)n : 0;
		n = *chain ? 0 : -ENOMEM;
	}
	looked_at_free(&l);
	return n;
}

/* Selects what was requested: all, or those of an id with those that they are based on. False: there are none. */
static bool choose_checkpoint(const char *directory, uint64_t id, const struct looked_at *l, bool *chosen)
{
	bool any = false;

	for (uint32_t i = 0; i < l->count; i++) {
		const struct ckpt_entry *entry = &l->entries[i];
		int n = 0;

		if (entry->partial || (id && entry->id != id))
			continue;
		any = chosen[i] = true;
		if (id && entry->complete)
			n = walk_chain(directory, l->entries, l->count, entry, l->steps, NULL);
		for (int k = 0; k < n; k++)
			chosen[l->steps[k] - l->entries] = true;
	}
	return any;
}

int ckpt_check(const char *directory, uint64_t id, const struct ckpt_search *search, ckpt_told *told,
	       struct star_error *err)
{
	struct looked_at l;
	bool *chosen;
	int wrong = look_at_chain(directory, &l, err);

	if (wrong < 0)
		return wrong;
	chosen = calloc(l.count + 1, sizeof(*chosen));
	if (!chosen)
		wrong = star_error_set(err, -ENOMEM, "no memory left for the checkpoints of %s", directory);
	else if (!choose_checkpoint(directory, id, &l, chosen) && id)
		wrong = star_error_set(err, -ENOENT, "%.280s has no complete checkpoint %" PRIu64, directory, id);
	/* The oldest first: a checkpoint is reported before those that are based on it. */
	for (uint32_t i = 0; wrong >= 0 && i < l.count; i++) {
		struct star_error why = { 0 };
		int n = 1;

		if (!chosen[i] && (id || !l.entries[i].partial))
			continue;
		if (!l.entries[i].partial)
			n = check_entry(directory, search, l.entries, l.count, &l.entries[i], l.known, l.steps, &why);
		wrong += n < 0;
		told(search->ctx, &l.entries[i], n < 0 ? why.text : NULL);
	}
	free(chosen);
	looked_at_free(&l);
	return wrong;
}

int ckpt_chain_check(const char *directory, struct ckpt_entry *child, uint32_t most, struct star_error *err)
{
	const int before = chain_length(directory, child, err);

	if (before > 0 && (uint32_t)before >= most)
		return star_error_set(err, -EAGAIN, "its chain would have %d checkpoints before it: %u are the most",
				      before, most - 1);
	return before < 0 ? before : 0;
}

void ckpt_chain_free(char **chain, uint32_t count)
{
	for (uint32_t i = 0; chain && i < count; i++)
		free(chain[i]);
	free(chain);
}
