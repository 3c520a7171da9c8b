/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a directory of checkpoints. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/internal.h"

/* A directory with more names than this is not ours. */
enum { ENTRIES_MAX = 1 << 20, DIGITS_MAX = 19 };

/* At most this many consecutive unreadable checkpoints are believed: a year of one every other second. */
enum { ID_GAP_MAX = 1 << 24 };

struct list {
	struct ckpt_entry *entries;
	uint32_t count, size;
};

void ckpt_name(char name[static CHECKPOINT_ID_MAX], uint64_t id, bool delta, const char *ending)
{
	snprintf(name, CHECKPOINT_ID_MAX, "%08" PRIu64 "-%s%s", id, delta ? "delta" : "full", ending);
}

/* Accepts only names as ckpt_name writes them, so that each checkpoint has one name. */
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

void ckpt_entry_fill(struct ckpt_entry *entry, const struct ckpt_manifest *manifest)
{
	entry->parent = manifest->parent;
	entry->time_ms = manifest->time_ms;
	entry->step = manifest->step;
	entry->partitions = manifest->partitions;
	entry->lineage = manifest->lineage;
	entry->sum = manifest->sum;
	entry->parent_sum = manifest->parent_sum;
	entry->parent_named = manifest->parent_named;
	entry->bytes = entry->rows = entry->deleted = 0;
	for (uint32_t i = 0; i < manifest->files_count; i++) {
		entry->bytes += manifest->files[i].bytes;
		entry->rows += manifest->files[i].rows;
		entry->deleted += manifest->files[i].deleted;
	}
}

static bool has_files(const char *path, const struct ckpt_manifest *manifest)
{
	const int folder = ckpt_open_folder(path, NULL);
	const bool has = folder >= 0 && ckpt_check_files(folder, path, manifest, NULL) == 0;

	if (folder >= 0)
		close(folder);
	return has;
}

/* Reads its manifest. */
static void look_into(const char *directory, struct ckpt_entry *entry)
{
	struct ckpt_manifest manifest;
	char path[CKPT_PATH_MAX];

	if (entry->partial || snprintf(path, sizeof(path), "%s/%s", directory, entry->name) >= (int)sizeof(path) ||
	    ckpt_manifest_read(path, &manifest, NULL) < 0)
		return;
	entry->complete = manifest.id == entry->id && (manifest.parent != 0) == entry->delta;
	entry->whole = entry->complete && has_files(path, &manifest);
	ckpt_entry_fill(entry, &manifest);
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

/* Reads the names only. */
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

/* The newest complete checkpoint; 0: none is. */
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

		/*
		 * An unreadable checkpoint may become readable again, and was newer, so ids close to it stay reserved.
		 */
		if (e->id > whole + ID_GAP_MAX && e->id > next->id)
			strcpy(next->strange, e->name);
		else if (partial || !e->partial)
			next->id = e->id + 1;
	}
	if (next->id > INT64_MAX)
		rc = star_error_set(err, -EOVERFLOW,
				    "%.280s/%s has the highest number that a checkpoint can have, so no other can be "
				    "saved: move it to another directory",
				    directory, list.entries[list.count - 1].name);
	free(list.entries);
	return rc;
}
