/* SPDX-License-Identifier: BSD-3-Clause */
/* What lies in a directory of checkpoints, and what of it restores. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/internal.h"

/* More names than that in a directory are not ours. */
enum { ENTRIES_MAX = 1 << 20, DIGITS_MAX = 19 };

/* This many saves in a row that cannot be read: a year of one each other second. What is farther away nobody has
 * saved. */
enum { ID_GAP_MAX = 1 << 24 };

struct list {
	struct ckpt_entry *entries;
	uint32_t count, size;
};

void ckpt_name(char name[static CHECKPOINT_ID_MAX], uint64_t id, bool delta, const char *ending)
{
	snprintf(name, CHECKPOINT_ID_MAX, "%08" PRIu64 "-%s%s", id, delta ? "delta" : "full", ending);
}

/* Only names that ckpt_name gives, so that each stands for itself. */
static bool parse_name(const char *text, struct ckpt_entry *entry)
{
	const size_t digits = strspn(text, "0123456789");
	const char *kind = text + digits;
	char again[CHECKPOINT_ID_MAX];

	if (digits < 8 || digits > DIGITS_MAX || strlen(text) >= CHECKPOINT_ID_MAX)
		return false;
	*entry = (struct ckpt_entry){ .id = strtoull(text, NULL, 10) };
	entry->delta = strncmp(kind, "-delta", 6) == 0;
	ckpt_name(again, entry->id, entry->delta, "");
	if (strncmp(text, again, strlen(again)) != 0 || entry->id < 1 || entry->id > INT64_MAX)
		return false;
	entry->partial = strcmp(text + strlen(again), CKPT_PARTIAL) == 0;
	strcpy(entry->name, text);
	return entry->partial || !text[strlen(again)];
}

/* What its manifest says. */
static void look_into(const char *directory, struct ckpt_entry *entry)
{
	struct ckpt_manifest manifest;
	char path[CKPT_PATH_MAX];

	if (entry->partial || snprintf(path, sizeof(path), "%s/%s", directory, entry->name) >= (int)sizeof(path) ||
	    ckpt_manifest_read(path, &manifest, NULL) < 0)
		return;
	entry->complete = manifest.id == entry->id && (manifest.parent != 0) == entry->delta;
	entry->parent = manifest.parent;
	entry->time_ms = manifest.time_ms;
	entry->step = manifest.step;
	entry->partitions = manifest.partitions;
	entry->lineage = manifest.lineage;
	for (uint32_t i = 0; i < manifest.files_count; i++) {
		entry->bytes += manifest.files[i].bytes;
		entry->rows += manifest.files[i].rows;
		entry->deleted += manifest.files[i].deleted;
	}
	ckpt_manifest_free(&manifest);
}

static int add_entry(struct list *list, const struct ckpt_entry *entry)
{
	if (list->count == list->size) {
		const uint32_t size = list->size ? 2 * list->size : 64;
		struct ckpt_entry *more = size > ENTRIES_MAX ? NULL : realloc(list->entries, size * sizeof(*more));

		if (!more)
			return -ENOMEM;
		list->entries = more;
		list->size = size;
	}
	list->entries[list->count++] = *entry;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct ckpt_entry *left = a, *right = b;

	return left->id != right->id ? (left->id < right->id ? -1 : 1) : strcmp(left->name, right->name);
}

/* The names alone. */
static int read_names(const char *directory, struct list *list, struct star_error *err)
{
	const int fd = ckpt_open_folder(directory, err);
	struct ckpt_entry entry;
	struct dirent *found;
	DIR *folder;
	int rc = 0;

	*list = (struct list){ 0 };
	if (fd < 0)
		return fd;
	folder = fdopendir(fd);
	if (!folder) {
		rc = ckpt_io_error(err, -errno, "read", directory, NULL);
		close(fd);
		return rc;
	}
	while (rc == 0 && (errno = 0, found = readdir(folder))) {
		if (parse_name(found->d_name, &entry))
			rc = add_entry(list, &entry);
	}
	if (rc < 0)
		rc = star_error_set(err, rc, "no memory left for the checkpoints of %s", directory);
	else if (errno)
		rc = ckpt_io_error(err, -errno, "read", directory, NULL);
	closedir(folder);
	if (rc < 0) {
		free(list->entries);
		return rc;
	}
	if (list->count)
		qsort(list->entries, list->count, sizeof(list->entries[0]), compare);
	return 0;
}

int ckpt_list(const char *directory, struct ckpt_entry **entries, uint32_t *count, struct star_error *err)
{
	struct list list;
	const int rc = read_names(directory, &list, err);

	*entries = NULL;
	*count = 0;
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < list.count; i++)
		look_into(directory, &list.entries[i]);
	*entries = list.entries;
	*count = list.count;
	return 0;
}

/* Of the newest that is whole; 0: none is. */
static uint64_t newest_whole(const char *directory, struct list *list)
{
	for (uint32_t i = list->count; i-- > 0;) {
		look_into(directory, &list->entries[i]);
		if (list->entries[i].complete)
			return list->entries[i].id;
	}
	return 0;
}

int ckpt_next_id(const char *directory, bool partial, struct ckpt_next *next, struct star_error *err)
{
	struct list list;
	uint64_t whole;
	int rc = read_names(directory, &list, err);

	*next = (struct ckpt_next){ .id = 1 };
	if (rc < 0)
		return rc;
	whole = newest_whole(directory, &list);
	for (uint32_t i = 0; i < list.count; i++) {
		const struct ckpt_entry *e = &list.entries[i];

		/* Storage may yet bring back what cannot be read now, and it was newer: near ones keep their place. */
		if (e->id > whole + ID_GAP_MAX && e->id > next->id)
			strcpy(next->strange, e->name);
		else if (partial || !e->partial)
			next->id = e->id + 1;
	}
	if (next->id > INT64_MAX)
		rc = star_error_set(
			err, -EOVERFLOW,
			"%.280s/%s has the greatest number that a checkpoint can have, and no save comes after "
			"it: move it to another directory",
			directory, list.entries[list.count - 1].name);
	free(list.entries);
	return rc;
}

/* ---- chains ---- */

/* The entry of that id which counts, or NULL: entries are in ascending order of their ids. */
static const struct ckpt_entry *find_entry(const struct ckpt_entry *entries, uint32_t count, uint64_t id)
{
	uint32_t low = 0, high = count;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (entries[middle].id <= id)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low > 0 && entries[low - 1].id == id; low--)
		if (entries[low - 1].complete)
			return &entries[low - 1];
	return NULL;
}

/* From an entry back to its full checkpoint, in steps[], which has room for all entries; how many, or a negative errno.
 * Ids fall from step to step: it ends. */
static int walk(const char *directory, const struct ckpt_entry *entries, uint32_t count, const struct ckpt_entry *from,
		const struct ckpt_entry **steps, struct star_error *err)
{
	uint32_t n = 0;

	for (const struct ckpt_entry *at = from;; n++) {
		const uint64_t parent = at->parent;

		steps[n] = at;
		if (!parent)
			return (int)n + 1;
		at = find_entry(entries, count, parent);
		if (!at)
			return star_error_set(err, -ENOENT,
					      "%.280s/%s goes on from checkpoint %" PRIu64
					      ", which is not there, or not whole",
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

/* The reason why an entry does not count. */
static int say_damaged(const char *directory, const struct ckpt_entry *entry, struct star_error *err)
{
	struct ckpt_manifest manifest;
	char path[CKPT_PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", directory, entry->name) >= (int)sizeof(path))
		return star_error_set(err, -ENAMETOOLONG, "the path of %s is too long", entry->name);
	if (ckpt_manifest_read(path, &manifest, err) < 0)
		return err->code;
	ckpt_manifest_free(&manifest);
	return ckpt_damaged(err, path, CKPT_MANIFEST_NAME, "it is of another checkpoint than its folder's name says");
}

/* ckpt_list, with room for as many steps as a chain of them can have. */
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
		return star_error_set(err, -ENOENT, "%.280s has no whole checkpoint %" PRIu64, directory, id);
	return star_error_set(err, -ENOENT, "%.280s has no whole checkpoint%s", directory,
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
	/* The newest first; a delta whose parents are gone does not hide an older one that restores. */
	for (uint32_t i = entries_count; i-- > 0 && n <= 0;) {
		if (entries[i].complete && (!id || entries[i].id == id))
			n = walk(directory, entries, entries_count, &entries[i], steps, why.code ? NULL : &why);
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

/* Its parent and partitions. -ENOENT: there is none of that id; -EBADMSG: it is damaged. */
static int look_up(const char *directory, uint64_t id, uint64_t *parent, uint32_t *partitions, struct star_error *err)
{
	int rc = -ENOENT;

	for (unsigned delta = 0; delta < 2 && rc == -ENOENT; delta++) {
		char name[CHECKPOINT_ID_MAX], path[CKPT_PATH_MAX];
		struct ckpt_manifest manifest;

		ckpt_name(name, id, delta, "");
		if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
			return star_error_set(err, -ENAMETOOLONG, "the path of %s is too long", name);
		rc = ckpt_manifest_read(path, &manifest, err);
		if (rc < 0)
			continue;
		*parent = manifest.parent;
		*partitions = manifest.partitions;
		if (manifest.id != id || (manifest.parent != 0) != delta)
			rc = -EBADMSG;
		ckpt_manifest_free(&manifest);
	}
	return rc;
}

int ckpt_chain_length(const char *directory, uint64_t id, uint32_t partitions, struct star_error *err)
{
	uint64_t parent = 0;
	uint32_t its = 0;
	int n = 0, rc;

	do {
		rc = look_up(directory, id, &parent, &its, err);
		if (rc == -ENOENT || rc == -EBADMSG)
			return star_error_set(err, -EAGAIN,
					      "checkpoint %" PRIu64 " in %.280s, which it would go on from, is not "
					      "there any more, or not whole",
					      id, directory);
		if (rc < 0)
			return rc;
		if (its != partitions)
			return star_error_set(err, -EAGAIN,
					      "checkpoint %" PRIu64
					      " in %.280s, which it would go on from, has %u partitions, not %u",
					      id, directory, its, partitions);
		id = parent;
		n++;
	} while (id);
	return n;
}

enum soundness { UNREAD, SOUND, UNSOUND };

/* Whether what is restored first has the objects of what comes last, which the cluster will have: nothing else is
 * loaded. */
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
			rc = star_error_set(err, -EBADMSG, "\"%s\" is another object in %s, from which it goes on",
					    before->name, step->name);
	}
	for (unsigned i = 0; i < 2; i++)
		ckpt_manifest_free(&manifests[i]);
	return rc;
}

/* Reads what of a chain was not read before. 0, or what is wrong with which; of one that was found wrong before the
 * others hear no more than that. */
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

/* What keeps this process from reading says nothing of what it would read: who passed over it would begin with less
 * than there is, and prune the rest. */
static bool is_unread(int rc)
{
	return rc == -ECANCELED || rc == -ENOMEM || rc == -EACCES || rc == -EPERM || rc == -EMFILE || rc == -ENFILE;
}

/* The steps of the newest good chain; how many, 0: none, or a negative errno. */
static int find_good(const char *directory, const struct ckpt_search *search, const struct ckpt_entry *entries,
		     uint32_t count, enum soundness *known, const struct ckpt_entry **steps, struct star_error *err)
{
	for (uint32_t i = count; i-- > 0;) {
		const struct ckpt_entry *entry = &entries[i];
		struct star_error why = { 0 };
		int n, rc;

		if (entry->partial || (search->newest && entry->id > search->newest))
			continue;
		n = entry->complete ? walk(directory, entries, count, entry, steps, &why)
				    : say_damaged(directory, entry, &why);
		rc = n < 0 ? n : read_chain(directory, search, entries, steps, n, known, &why);
		for (int k = 1; rc == 0 && k < n; k++)
			rc = check_objects(directory, entry, steps[k], &why);
		if (rc == 0)
			return n;
		if (is_unread(rc))
			return star_error_set(err, rc, "%s", why.text);
		search->refused(search->ctx, entry->name, why.text);
	}
	return 0;
}

int ckpt_chain_good(const char *directory, const struct ckpt_search *search, char ***chain, uint32_t *count,
		    struct star_error *err)
{
	const struct ckpt_entry **steps;
	struct ckpt_entry *entries;
	enum soundness *known;
	uint32_t entries_count;
	int n = list_with_steps(directory, &entries, &entries_count, &steps, err);

	*chain = NULL;
	*count = 0;
	if (n < 0)
		return n;
	known = calloc(entries_count + 1, sizeof(*known));
	n = known ? find_good(directory, search, entries, entries_count, known, steps, err)
		  : star_error_set(err, -ENOMEM, "no memory left for the checkpoints of %s", directory);
	if (n == 0)
		n = star_error_set(err, -ENOENT, "%.280s has no checkpoint that is in order", directory);
	if (n > 0) {
		*chain = paths_of(directory, steps, (uint32_t)n, err);
		*count = *chain ? (uint32_t)n : 0;
		n = *chain ? 0 : -ENOMEM;
	}
	free(known);
	free(steps);
	free(entries);
	return n;
}

int ckpt_chain_check(const char *directory, uint64_t parent, uint32_t partitions, uint32_t most, struct star_error *err)
{
	const int before = parent ? ckpt_chain_length(directory, parent, partitions, err) : 0;

	if (before > 0 && (uint32_t)before >= most)
		return star_error_set(err, -EAGAIN, "it would come after %d others in one chain: %u are the most",
				      before, most - 1);
	return before < 0 ? before : 0;
}

void ckpt_chain_free(char **chain, uint32_t count)
{
	for (uint32_t i = 0; chain && i < count; i++)
		free(chain[i]);
	free(chain);
}

/* ---- pruning ---- */

/* What counts is taken out of view first, by one rename: a crash in between leaves something that does not count, and
 * that the next one removes. hidden: the name that it has then. */
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

/* Whether it may go as one of this lineage (NULL: of any). What cannot be read may be anybody's. */
static bool is_of(const struct ckpt_entry *entry, const uint64_t *lineage)
{
	return !lineage || entry->partial || (entry->complete && entry->lineage == *lineage);
}

/* The oldest full checkpoint that stays; NULL: there is none. */
static const struct ckpt_entry *oldest_kept(const struct ckpt_entry *entries, uint32_t count, uint32_t keep,
					    const uint64_t *lineage)
{
	const struct ckpt_entry *oldest = NULL;

	for (uint32_t i = count; i-- > 0 && keep;)
		if (entries[i].complete && !entries[i].delta && is_of(&entries[i], lineage)) {
			oldest = &entries[i];
			keep--;
		}
	return oldest;
}

/* Everything from that one on, and what it is built upon. Younger ones come first: a mark is there before it is passed
 * on. */
static void mark(struct ckpt_entry *entries, uint32_t count, uint64_t oldest, const uint64_t *lineage, bool *stays)
{
	for (uint32_t i = count; i-- > 0;) {
		stays[i] |= entries[i].id >= oldest || !is_of(&entries[i], lineage);
		if (!stays[i] || !entries[i].complete || !entries[i].parent)
			continue;
		for (uint32_t j = i; j-- > 0 && entries[j].id >= entries[i].parent;)
			stays[j] |= entries[j].id == entries[i].parent;
	}
}

static int prune(const char *directory, struct ckpt_entry *entries, uint32_t count, uint32_t keep,
		 const uint64_t *lineage, struct star_error *err)
{
	const struct ckpt_entry *oldest = oldest_kept(entries, count, keep, lineage);
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
	mark(entries, count, oldest ? oldest->id : 0, lineage, stays);
	/* The youngest first: at no moment is there a delta without what it goes on from. */
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
		/* One that does not count, and that something strange keeps there, keeps no others. */
		one = ckpt_remove_folder(folder, hidden);
		if (one < 0 && rc == 0)
			rc = ckpt_io_error(err, one, "remove", directory, hidden);
		removed += one == 0;
	}
	free(stays);
	close(folder);
	return rc < 0 ? rc : removed;
}

int ckpt_prune(const char *directory, uint32_t keep, const uint64_t *lineage, struct star_error *err)
{
	struct ckpt_entry *entries;
	uint32_t count;
	int rc;

	if (keep < 1)
		return star_error_set(err, -EINVAL, "at least one full checkpoint must be kept");
	rc = ckpt_list(directory, &entries, &count, err);
	if (rc < 0)
		return rc;
	rc = prune(directory, entries, count, keep, lineage, err);
	free(entries);
	return rc;
}
