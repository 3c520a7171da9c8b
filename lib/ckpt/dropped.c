/* SPDX-License-Identifier: BSD-3-Clause */
/* Records which objects of a directory's checkpoints were dropped since, in a file beside them, written by the
 * cluster's first node. It is written as a whole; further drops are appended as lines, until these are as long as the
 * rest. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "ckpt/internal.h"
#include "jsonrpc/member.h"
#include "jsonrpc/summed.h"

#define DROPPED_NAME "dropped.json"
#define DROPPED_FORMAT "starserver dropped objects"
enum {
	DROPPED_VERSION = 3,
	DROPPED_VERSION_WHOLE = 2,    /* without lines after it, as earlier releases wrote it */
	DROPPED_VERSION_UNSUMMED = 1, /* as releases before those did */
	DROPPED_BYTES_MAX = 16 << 20,
	ADDED_MIN = 4096, /* fewer bytes of lines than this are no reason to write the whole file again */
};

static int path_of(const char *directory, const char *ending, char path[static CKPT_PATH_MAX], struct star_error *err)
{
	if (snprintf(path, CKPT_PATH_MAX, "%s/" DROPPED_NAME "%s", directory, ending) < CKPT_PATH_MAX)
		return 0;
	return star_error_set(err, -ENAMETOOLONG, "the path %.100s... is too long", directory);
}

struct entry {
	uint64_t lineage;
	uint32_t id, next;
};

static int read_entry(const json_t *json, struct entry *entry, struct star_error *err)
{
	static const char *const members[] = { "lineage", "id", "next_generation", NULL };

	if (jsonrpc_member_only(json, members, err) < 0 ||
	    jsonrpc_member_u64(json, "lineage", &entry->lineage, err) < 0 ||
	    jsonrpc_member_u32(json, "id", 1, WIRE_OBJECTS_MAX, &entry->id, err) < 0 ||
	    jsonrpc_member_u32(json, "next_generation", 1, OBJECT_GENERATION_MAX + 1, &entry->next, err) < 0)
		return -EINVAL;
	return 0;
}

static int check_json(const json_t *json, struct star_error *err)
{
	static const char *const members[] = { "format", "version", "dropped", NULL };
	const json_t *list = json_object_get(json, "dropped"), *each;
	const char *format;
	struct entry entry;
	uint32_t version;
	size_t i;

	if (jsonrpc_member_only(json, members, err) < 0 ||
	    jsonrpc_member_string(json, "format", 64, &format, err) < 0 ||
	    jsonrpc_member_u32(json, "version", DROPPED_VERSION_UNSUMMED, DROPPED_VERSION, &version, err) < 0)
		return -EINVAL;
	if (strcmp(format, DROPPED_FORMAT) != 0 || !json_is_array(list))
		return star_error_set(err, -EINVAL, "it is not a list of dropped objects");
	json_array_foreach(list, i, each)
	{
		if (read_entry(each, &entry, err) < 0)
			return -EINVAL;
	}
	return 0;
}

/*
 * Reads the appended lines; later ones override earlier ones. If the last line is incomplete, nobody was told of that
 * drop.
 */
static int take_added(const char *text, size_t bytes, size_t at, json_t *list, struct star_error *err)
{
	struct entry entry;
	json_t *line;

	*err = (struct star_error){ 0 };
	while (at < bytes && (line = jsonrpc_summed_next(text, bytes, &at, err))) {
		json_array_append_new(list, line);
		if (read_entry(line, &entry, err) < 0)
			return -EINVAL;
	}
	return err->code;
}

/* Parses and checks the file's text; NULL with a message. */
static json_t *parse_dropped_text(const char *text, size_t bytes, struct star_error *err)
{
	const size_t whole = jsonrpc_summed_end(text, bytes);
	json_t *json = json_loadb(text, whole, JSON_REJECT_DUPLICATES, NULL);
	json_int_t version;

	if (!json) {
		star_error_set(err, -EINVAL, "it is not valid JSON");
		return NULL;
	}
	version = json_integer_value(json_object_get(json, "version"));
	if (version != DROPPED_VERSION_UNSUMMED) {
		json_decref(json);
		json = jsonrpc_summed_parse(text, version == DROPPED_VERSION ? whole : bytes, err);
	}
	if (!json)
		return NULL;
	if (check_json(json, err) == 0 &&
	    (version != DROPPED_VERSION || take_added(text, bytes, whole, json_object_get(json, "dropped"), err) == 0))
		return json;
	json_decref(json);
	return NULL;
}

static void take_generations(const json_t *json, uint64_t lineage, uint32_t generations[static WIRE_OBJECTS_MAX + 1])
{
	struct star_error none;
	struct entry entry;
	const json_t *each;
	size_t i;

	memset(generations, 0, (WIRE_OBJECTS_MAX + 1) * sizeof(*generations));
	json_array_foreach(json_object_get(json, "dropped"), i,
			   each) if (read_entry(each, &entry, &none) == 0 && entry.lineage == lineage)
		generations[entry.id] = entry.next;
}

int ckpt_dropped_parse(const char *text, size_t bytes, uint64_t lineage,
		       uint32_t generations[static WIRE_OBJECTS_MAX + 1], struct star_error *err)
{
	json_t *json = parse_dropped_text(text, bytes, err);

	take_generations(json, lineage, generations);
	json_decref(json);
	return json ? 0 : -EINVAL;
}

/* json: NULL if there is no file. */
static int read_file(const char *directory, json_t **json, struct star_error *err)
{
	char path[CKPT_PATH_MAX], *text;
	struct star_error why = { 0 };
	int fd, rc = path_of(directory, "", path, err);
	ssize_t bytes;

	*json = NULL;
	if (rc < 0)
		return rc;
	fd = base_open_file(AT_FDCWD, path, O_NOFOLLOW);
	if (fd == -ENOENT)
		return 0;
	if (fd == -ELOOP || fd == -EISDIR || fd == -EMEDIUMTYPE)
		return star_error_set(
			err, -EBADMSG,
			"%.300s is not a regular file. It says which tables were dropped; remove it, and those of the "
			"newest checkpoint are there again",
			path);
	if (fd < 0)
		return ckpt_io_error(err, fd, "read", directory, DROPPED_NAME);
	text = malloc(DROPPED_BYTES_MAX + 1);
	bytes = text ? base_read_all(fd, text, DROPPED_BYTES_MAX + 1) : -ENOMEM;
	close(fd);
	if (bytes < 0)
		rc = ckpt_io_error(err, (int)bytes, "read", directory, DROPPED_NAME);
	else if (bytes > DROPPED_BYTES_MAX)
		star_error_set(&why, -EINVAL, "it has more than %d bytes", DROPPED_BYTES_MAX);
	else
		*json = parse_dropped_text(text, (size_t)bytes, &why);
	if (why.text[0])
		rc = star_error_set(
			err, -EBADMSG,
			"%.300s is damaged: %.100s. It says which tables were dropped; remove it, and those of "
			"the newest checkpoint are there again",
			path, why.text);
	free(text);
	return rc;
}

int ckpt_dropped_read(const char *directory, uint64_t lineage, uint32_t generations[static WIRE_OBJECTS_MAX + 1],
		      struct star_error *err)
{
	json_t *json;
	const int rc = read_file(directory, &json, err);

	take_generations(json, lineage, generations);
	json_decref(json);
	return rc;
}

static bool has_other(const json_t *json, uint64_t lineage)
{
	struct star_error none;
	struct entry entry;
	const json_t *each;
	bool other = false;
	size_t i;

	json_array_foreach(json_object_get(json, "dropped"), i, each) other |=
		read_entry(each, &entry, &none) == 0 && entry.lineage != lineage;
	return other;
}

static bool has_checkpoint(const struct ckpt_entry *entries, uint32_t count, uint64_t lineage)
{
	for (uint32_t i = 0; i < count; i++)
		if (!entries[i].partial && (!entries[i].complete || entries[i].lineage == lineage))
			return true; /* one that is damaged may be anybody's */
	return false;
}

/* Keeps the file's entries of other lineages that are still needed. */
static int keep_others(const char *directory, uint64_t lineage, json_t *list, struct star_error *err)
{
	struct ckpt_entry *entries = NULL;
	struct star_error none;
	struct entry entry;
	uint32_t count = 0;
	json_t *json, *each;
	size_t i;
	int rc = read_file(directory, &json, err);

	/* ckpt_list reads all manifests, which may be long. */
	if (rc == 0 && has_other(json, lineage))
		rc = ckpt_list(directory, &entries, &count, err);
	json_array_foreach(json_object_get(json, "dropped"), i,
			   each) if (rc == 0 && read_entry(each, &entry, &none) == 0 && entry.lineage != lineage &&
				     has_checkpoint(entries, count, entry.lineage)) json_array_append(list, each);
	free(entries);
	json_decref(json);
	return rc;
}

static json_t *entry_json(uint64_t lineage, uint32_t id, uint32_t next)
{
	return json_pack("{s:o, s:I, s:I}", "lineage", jsonrpc_member_from_u64(lineage), "id", (json_int_t)id,
			 "next_generation", (json_int_t)next);
}

static void add_own(uint64_t lineage, const uint32_t generations[static WIRE_OBJECTS_MAX + 1], json_t *list)
{
	for (uint32_t id = 1; id <= WIRE_OBJECTS_MAX; id++)
		if (generations[id])
			json_array_append_new(list, entry_json(lineage, id, generations[id]));
}

static char *to_text(json_t *list, size_t *bytes)
{
	json_t *json =
		json_pack("{s:s, s:i, s:O}", "format", DROPPED_FORMAT, "version", DROPPED_VERSION, "dropped", list);
	char *text = jsonrpc_summed_text(json, JSON_COMPACT, bytes);

	json_decref(json);
	return text;
}

static int sync_folder(const char *directory, struct star_error *err)
{
	const int folder = ckpt_open_folder(directory, err);
	int rc = folder;

	if (folder < 0)
		return rc;
	rc = fsync(folder) < 0 ? -errno : 0;
	close(folder);
	return rc < 0 ? ckpt_io_error(err, rc, "sync", directory, DROPPED_NAME) : 0;
}

static int remove_file(const char *directory, struct star_error *err)
{
	char path[CKPT_PATH_MAX];
	int rc = path_of(directory, "", path, err);

	if (rc < 0)
		return rc;
	if (unlink(path) < 0)
		return errno == ENOENT ? 0 : ckpt_io_error(err, -errno, "remove", directory, DROPPED_NAME);
	return sync_folder(directory, err);
}

void ckpt_dropped_clean(const char *directory)
{
	char path[CKPT_PATH_MAX];

	if (path_of(directory, ".partial", path, NULL) == 0)
		(void)unlinkat(AT_FDCWD, path, 0);
}

static int write_file(const char *directory, json_t *list, struct star_error *err)
{
	char *text;
	size_t bytes;
	int folder, rc;

	text = to_text(list, &bytes);
	if (!text)
		return star_error_set(err, -ENOMEM, "out of memory");
	if (bytes > DROPPED_BYTES_MAX) {
		free(text);
		return star_error_set(
			err, -EFBIG,
			"%.280s/" DROPPED_NAME
			" would have more than %d bytes, of what clusters have dropped whose checkpoints are "
			"there: remove old ones (starctl checkpoint prune), or give the cluster a directory of its own",
			directory, DROPPED_BYTES_MAX);
	}
	ckpt_dropped_clean(directory);
	folder = ckpt_open_folder(directory, err);
	rc = folder;
	if (folder >= 0) {
		rc = base_replace_file(folder, DROPPED_NAME, text, bytes, CKPT_FILE_MODE);
		if (rc < 0)
			ckpt_io_error(err, rc, "write", directory, DROPPED_NAME);
		close(folder);
	}
	free(text);
	return rc;
}

int ckpt_dropped_write(const char *directory, uint64_t lineage, const uint32_t generations[static WIRE_OBJECTS_MAX + 1],
		       struct star_error *err)
{
	json_t *list = json_array();
	int rc = keep_others(directory, lineage, list, err);

	add_own(lineage, generations, list);
	if (rc == 0)
		rc = json_array_size(list) ? write_file(directory, list, err) : remove_file(directory, err);
	json_decref(list);
	return rc;
}

/* ---- one more ---- */

/* The lines for what is new since `last`; NULL: nothing is new, or lines are not enough. */
static char *lines_of(const struct ckpt_dropped *last, uint64_t lineage,
		      const uint32_t generations[static WIRE_OBJECTS_MAX + 1], size_t *bytes)
{
	const size_t most = last->whole > ADDED_MIN ? last->whole : ADDED_MIN;
	char *text = NULL;

	*bytes = 0;
	for (uint32_t id = 1; id <= WIRE_OBJECTS_MAX; id++) {
		json_t *entry;
		size_t more;
		char *line, *longer;

		if (generations[id] == last->generations[id])
			continue;
		entry = generations[id] ? entry_json(lineage, id, generations[id]) : NULL;
		line = jsonrpc_summed_line(entry, &more);
		json_decref(entry);
		longer = line ? realloc(text, *bytes + more) : NULL;
		if (longer)
			memcpy(longer + *bytes, line, more);
		free(line);
		text = longer ? longer : text;
		*bytes += longer ? more : 0;
		if (!longer || last->bytes - last->whole + *bytes > most || last->bytes + *bytes > DROPPED_BYTES_MAX) {
			free(text);
			return NULL;
		}
	}
	return text;
}

static bool is_same_file(const struct ckpt_dropped *last, const struct stat *file)
{
	return file->st_dev == last->device && file->st_ino == last->inode && (size_t)file->st_size == last->bytes;
}

/* A drop that may not be on disk must fail, and the table stays: so the next start must not find it in the file. */
static int sync_lines(const struct ckpt_dropped *last, int fd)
{
	const int rc = fsync(fd) < 0 ? -errno : 0;

	if (rc < 0)
		(void)!ftruncate(fd, (off_t)last->bytes);
	return rc;
}

/* Appends to the file that was written last, if it is still the same. */
static int append_lines(const struct ckpt_dropped *last, const char *directory, const char *text, size_t bytes)
{
	struct star_error ignored;
	struct stat file;
	const int folder = ckpt_open_folder(directory, &ignored);
	int fd, rc;

	if (folder < 0)
		return folder;
	fd = openat(folder, DROPPED_NAME, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	rc = fd < 0 ? -errno : fstat(fd, &file) < 0 ? -errno : is_same_file(last, &file) ? 0 : -ESTALE;
	if (rc == 0)
		rc = base_append_all(fd, text, bytes, NULL);
	if (rc == 0)
		rc = sync_lines(last, fd);
	if (fd >= 0)
		close(fd);
	close(folder);
	return rc;
}

/* Remembers what the file contains now. */
static void remember(struct ckpt_dropped *last, const char *directory, uint64_t lineage,
		     const uint32_t generations[static WIRE_OBJECTS_MAX + 1])
{
	char path[CKPT_PATH_MAX];
	struct stat file;

	last->known = path_of(directory, "", path, NULL) == 0 && lstat(path, &file) == 0;
	if (!last->known)
		return;
	last->lineage = lineage;
	last->device = file.st_dev;
	last->inode = file.st_ino;
	last->whole = last->bytes = (size_t)file.st_size;
	memcpy(last->generations, generations, sizeof(last->generations));
}

int ckpt_dropped_add(struct ckpt_dropped *last, const char *directory, uint64_t lineage,
		     const uint32_t generations[static WIRE_OBJECTS_MAX + 1], struct star_error *err)
{
	size_t bytes = 0;
	char *text = last->known && last->lineage == lineage ? lines_of(last, lineage, generations, &bytes) : NULL;
	int rc = text ? append_lines(last, directory, text, bytes) : -ENODATA;

	free(text);
	if (rc == 0) {
		last->bytes += bytes;
		memcpy(last->generations, generations, sizeof(last->generations));
		return 0;
	}
	last->known = false;
	rc = ckpt_dropped_write(directory, lineage, generations, err);
	if (rc == 0)
		remember(last, directory, lineage, generations);
	return rc;
}

int ckpt_dropped_remove(const char *directory, const uint64_t *lineage, struct star_error *err)
{
	static const uint32_t none[WIRE_OBJECTS_MAX + 1];

	return lineage ? ckpt_dropped_write(directory, *lineage, none, err) : remove_file(directory, err);
}
