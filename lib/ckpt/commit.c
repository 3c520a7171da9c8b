/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a checkpoint is committed: by one rename, of "<id>.partial" to "<id>". Everything in it was synced before, so a
 * crash or a power failure at any time leaves all of it or nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "ckpt/internal.h"
#include "ckpt/seal.h"
#include "jsonrpc/summed.h"

/* Removes a directory with its files; a subdirectory is not ours, and stays. 0 if there is none. */
int ckpt_remove_folder(int parent, const char *name)
{
	const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct dirent *entry;
	DIR *folder;
	int rc = 0;

	/* If it is not a directory, only the name is removed, wherever a link leads. */
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return unlinkat(parent, name, 0) < 0 && errno != ENOENT ? -errno : 0;
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	folder = fdopendir(fd);
	if (!folder) {
		rc = -errno;
		close(fd);
		return rc;
	}
	while ((entry = readdir(folder)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
		    unlinkat(fd, entry->d_name, 0) < 0 && errno != ENOENT)
			rc = -errno;
	closedir(folder);
	return unlinkat(parent, name, AT_REMOVEDIR) < 0 && rc == 0 ? -errno : rc;
}

static bool exists(int folder, const char *name)
{
	struct stat status;

	return fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The id must not belong to a full checkpoint or a delta; the rest of an unfinished one is removed. */
static int make_commit_room(int folder, const char *directory, uint64_t id, struct star_error *err)
{
	for (unsigned delta = 0; delta < 2; delta++) {
		char name[CHECKPOINT_ID_MAX];
		int rc;

		ckpt_name(name, id, delta, "");
		if (exists(folder, name))
			return star_error_set(err, -EEXIST, "%.280s/%s already exists", directory, name);
		ckpt_name(name, id, delta, CKPT_PARTIAL);
		rc = ckpt_remove_folder(folder, name);
		if (rc < 0)
			return ckpt_io_error(err, rc, "remove", directory, name);
	}
	return 0;
}

int ckpt_begin(const char *directory, uint64_t id, uint64_t parent, char path[static CKPT_PATH_MAX],
	       struct star_error *err)
{
	char name[CHECKPOINT_ID_MAX];
	int folder, rc;

	if (id < 1 || id > INT64_MAX || parent >= id)
		return star_error_set(err, -EINVAL, "no checkpoint can have the number %" PRIu64 " after %" PRIu64, id,
				      parent);
	ckpt_name(name, id, parent != 0, CKPT_PARTIAL);
	if (snprintf(path, CKPT_PATH_MAX, "%s/%s", directory, name) >= CKPT_PATH_MAX)
		return star_error_set(err, -ENAMETOOLONG, "the path %.280s is too long", directory);
	folder = ckpt_open_folder(directory, err);
	if (folder < 0)
		return folder;
	rc = make_commit_room(folder, directory, id, err);
	if (rc == 0 && mkdirat(folder, name, CKPT_FOLDER_MODE) < 0)
		rc = ckpt_io_error(err, -errno, "create", directory, name);
	close(folder);
	return rc;
}

int ckpt_check_files(int folder, const char *path, const struct ckpt_manifest *manifest, struct star_error *err)
{
	for (uint32_t i = 0; i < manifest->files_count; i++) {
		const struct ckpt_file *file = &manifest->files[i];
		struct stat status;

		if (fstatat(folder, file->name, &status, AT_SYMLINK_NOFOLLOW) < 0)
			return ckpt_io_error(err, -errno, "find", path, file->name);
		if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size != file->bytes)
			return ckpt_damaged(err, path, file->name, "it has %" PRIu64 " bytes, %" PRIu64 " were written",
					    (uint64_t)status.st_size, file->bytes);
	}
	return 0;
}

/* Wherever there is a manifest, it is complete. */
int ckpt_write_file(int folder, const char *path, const char *whole, const char *text, size_t bytes,
		    struct star_error *err)
{
	/* This also syncs the names of the data files. */
	const int rc = base_replace_file(folder, whole, text, bytes, CKPT_FILE_MODE);

	return rc < 0 ? ckpt_io_error(err, rc, "write", path, whole) : 0;
}

/* Splits "directory/name.partial" in two, without the ending. */
static int split_path(const char *path, char directory[static CKPT_PATH_MAX], char name[static CHECKPOINT_ID_MAX],
		      struct star_error *err)
{
	const char *slash = strrchr(path, '/');
	const size_t bytes = slash ? strlen(slash + 1) : 0, ending = strlen(CKPT_PARTIAL);

	if (!slash || strlen(path) >= CKPT_PATH_MAX || bytes <= ending || bytes - ending >= CHECKPOINT_ID_MAX ||
	    strcmp(slash + 1 + bytes - ending, CKPT_PARTIAL) != 0)
		return star_error_set(err, -EINVAL, "%.280s is not a checkpoint that is being written", path);
	snprintf(directory, CKPT_PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
	snprintf(name, CHECKPOINT_ID_MAX, "%.*s", (int)(bytes - ending), slash + 1);
	return 0;
}

/* The committing rename. If it cannot be made durable, it is undone: otherwise the caller would be told that there is
 * no checkpoint, and there would be one. */
static int rename_whole(const char *directory, const char *name, struct star_error *err)
{
	char partial[CHECKPOINT_ID_MAX + sizeof(CKPT_PARTIAL)];
	const int folder = ckpt_open_folder(directory, err);
	int rc = 0;

	if (folder < 0)
		return folder;
	snprintf(partial, sizeof(partial), "%s%s", name, CKPT_PARTIAL);
	if (exists(folder, name))
		rc = star_error_set(err, -EEXIST, "%.280s/%s already exists", directory, name);
	else if (renameat(folder, partial, folder, name) < 0)
		rc = ckpt_io_error(err, -errno, "rename", directory, partial);
	else if (fsync(folder) < 0) {
		rc = ckpt_io_error(err, -errno, "sync", directory, NULL);
		(void)renameat(folder, name, folder, partial);
	}
	close(folder);
	return rc;
}

int ckpt_commit(const char *path, struct ckpt_manifest *manifest, struct star_error *err)
{
	char directory[CKPT_PATH_MAX], name[CHECKPOINT_ID_MAX], expected[CHECKPOINT_ID_MAX];
	int folder, rc = split_path(path, directory, name, err);
	struct ckpt_entry entry = { 0 };
	size_t bytes;
	char *text;

	if (rc < 0)
		return rc;
	ckpt_name(expected, manifest->id, manifest->parent != 0, "");
	if (strcmp(name, expected) != 0)
		return star_error_set(err, -EINVAL, "the manifest of %s does not belong into %.280s", expected, path);
	/* Checked again, because the one that it is based on may have been pruned since it was begun. */
	ckpt_entry_fill(&entry, manifest);
	rc = ckpt_chain_check(directory, &entry, CKPT_CHAIN_MAX, err);
	if (rc < 0)
		return rc;
	manifest->parent_sum = entry.parent_sum;
	manifest->parent_named = entry.parent_named;
	text = ckpt_manifest_text(manifest, &bytes, err);
	if (!text)
		return err && err->code ? err->code : -EINVAL;
	folder = ckpt_open_folder(path, err);
	rc = folder < 0 ? folder : ckpt_check_files(folder, path, manifest, err);
	if (rc == 0)
		rc = ckpt_seal_write(folder, path, text, bytes, err);
	if (rc == 0)
		rc = ckpt_write_file(folder, path, CKPT_MANIFEST_NAME, text, bytes, err);
	if (folder >= 0)
		close(folder);
	manifest->sum = jsonrpc_summed_sum(text, bytes);
	free(text);
	return rc == 0 ? rename_whole(directory, name, err) : rc;
}

void ckpt_abandon(const char *path)
{
	char directory[CKPT_PATH_MAX], name[CHECKPOINT_ID_MAX];
	int parent;

	if (split_path(path, directory, name, NULL) < 0)
		return;
	parent = ckpt_open_folder(directory, NULL);
	if (parent < 0)
		return;
	(void)ckpt_remove_folder(parent, strrchr(path, '/') + 1);
	close(parent);
}
