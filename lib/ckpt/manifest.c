/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The manifest: JSON whose last member is the CRC-32 of all bytes before that member's line, which has exactly one
 * form. So a flipped byte is found wherever it is, and the sum can be added to JSON written by hand.
 */
#include "ckpt/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "ckpt/internal.h"
#include "ckpt/seal.h"
#include "jsonrpc/member.h"
#include "jsonrpc/object_json.h"
#include "jsonrpc/summed.h"

#define FORMAT "starserver-checkpoint"

static const char *const members[] = { "format",	  "version", "id",	 "parent", "time_ms",
				       "partitions",	  "tasks",   "reactors", "step",   "lineage",
				       "parent_checksum", "queues",  "objects",	 "files",  NULL };
static const char *const file_members[] = { "name", "task", "reactor", "bytes", "rows", "deleted", "checksum", NULL };

void ckpt_manifest_free(struct ckpt_manifest *manifest)
{
	free(manifest->objects);
	free(manifest->files);
	free(manifest->queues);
	manifest->queues = NULL;
	manifest->objects = NULL;
	manifest->files = NULL;
	manifest->objects_count = manifest->files_count = 0;
}

const struct object_spec *ckpt_manifest_object(const struct ckpt_manifest *manifest, uint32_t id)
{
	uint32_t low = 0, high = manifest->objects_count;

	while (low < high) {
		const uint32_t middle = (low + high) / 2;

		if (manifest->objects[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < manifest->objects_count && manifest->objects[low].id == id ? &manifest->objects[low] : NULL;
}

static bool is_letter_or_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool ckpt_file_name_ok(const char *name)
{
	const size_t bytes = strnlen(name, CKPT_FILE_NAME_MAX + 1);

	if (bytes == 0 || bytes > CKPT_FILE_NAME_MAX || !is_letter_or_digit(name[0]))
		return false;
	for (size_t i = 1; i < bytes; i++)
		if (!is_letter_or_digit(name[i]) && !strchr("._-", name[i]))
			return false;
	return strncmp(name, CKPT_MANIFEST_NAME, strlen(CKPT_MANIFEST_NAME)) != 0;
}

/* ---- a file's line ---- */

json_t *ckpt_file_to_json(const struct ckpt_file *file)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "name", file->name, "task", (json_int_t)file->task,
			 "reactor", (json_int_t)file->reactor, "bytes", (json_int_t)file->bytes, "rows",
			 (json_int_t)file->rows, "deleted", (json_int_t)file->deleted, "checksum",
			 (json_int_t)file->checksum);
}

int ckpt_file_from_json(const json_t *json, struct ckpt_file *file, struct star_error *err)
{
	const uint64_t bytes_max = UINT64_C(1) << CKPT_FILE_SHIFT_MAX;
	const char *name;

	*file = (struct ckpt_file){ 0 };
	if (!json_is_object(json))
		return star_error_set(err, -EINVAL, "a file must be a JSON object");
	if (jsonrpc_member_only(json, file_members, err) < 0 ||
	    jsonrpc_member_string(json, "name", CKPT_FILE_NAME_MAX, &name, err) < 0 ||
	    jsonrpc_member_u32(json, "task", 0, WIRE_NODES_MAX - 1, &file->task, err) < 0 ||
	    jsonrpc_member_u32(json, "reactor", 0, WIRE_REACTORS_MAX - 1, &file->reactor, err) < 0 ||
	    jsonrpc_member_uint(json, "bytes", CKPT_FILE_BYTES_MIN, bytes_max, &file->bytes, err) < 0 ||
	    jsonrpc_member_uint(json, "rows", 0, bytes_max / sizeof(uint64_t), &file->rows, err) < 0 ||
	    jsonrpc_member_uint(json, "deleted", 0, bytes_max / sizeof(uint64_t), &file->deleted, err) < 0 ||
	    jsonrpc_member_u32(json, "checksum", 0, UINT32_MAX, &file->checksum, err) < 0)
		return -EINVAL;
	strcpy(file->name, name);
	if (!ckpt_file_name_ok(file->name))
		return star_error_set(err, -EINVAL,
				      "member \"name\" is \"%s\": a file's name has letters, digits, '.', '_' and '-', "
				      "does not begin with one of these three, and is not the manifest's",
				      file->name);
	if (file->bytes % CHECKPOINT_ALIGN)
		return star_error_set(err, -EINVAL, "member \"bytes\" must be a multiple of %d, not %" PRIu64,
				      CHECKPOINT_ALIGN, file->bytes);
	return 0;
}

/* ---- from JSON ---- */

static int compare_names(const void *a, const void *b)
{
	const struct ckpt_file *const *left = a, *const *right = b;

	return strcmp((*left)->name, (*right)->name);
}

static int check_names(const struct ckpt_manifest *manifest, struct star_error *err)
{
	const struct ckpt_file **sorted = malloc(manifest->files_count * sizeof(struct ckpt_file *));
	int rc = 0;

	if (!sorted)
		return star_error_set(err, -ENOMEM, "no memory left for the names of %u files", manifest->files_count);
	for (uint32_t i = 0; i < manifest->files_count; i++)
		sorted[i] = &manifest->files[i];
	qsort(sorted, manifest->files_count, sizeof(*sorted), compare_names);
	for (uint32_t i = 1; i < manifest->files_count && rc == 0; i++)
		if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
			rc = star_error_set(err, -EINVAL, "there are two files \"%s\"", sorted[i]->name);
	free(sorted);
	return rc;
}

static int read_files(const json_t *list, struct ckpt_manifest *manifest, struct star_error *err)
{
	const size_t count = json_array_size(list);
	const json_t *file;
	size_t i;

	if (!json_is_array(list) || count < 1 || count > CKPT_FILES_MAX)
		return star_error_set(err, -EINVAL, "member \"files\" must be an array of 1 to %d files",
				      (int)CKPT_FILES_MAX);
	manifest->files = calloc(count, sizeof(manifest->files[0]));
	if (!manifest->files)
		return star_error_set(err, -ENOMEM, "no memory left for the list of %zu files", count);
	manifest->files_count = (uint32_t)count;
	json_array_foreach(list, i, file)
	{
		if (ckpt_file_from_json(file, &manifest->files[i], err) < 0)
			return -EINVAL;
		if (manifest->files[i].task >= manifest->tasks)
			return star_error_set(err, -EINVAL, "file \"%s\" is of task %u, of %u tasks",
					      manifest->files[i].name, manifest->files[i].task, manifest->tasks);
		if (!manifest->parent && manifest->files[i].deleted)
			return star_error_set(err, -EINVAL, "file \"%s\" has deleted keys, and no parent",
					      manifest->files[i].name);
	}
	return check_names(manifest, err);
}

static int compare_object_names(const void *a, const void *b)
{
	const struct object_spec *const *left = a, *const *right = b;

	return strcmp((*left)->name, (*right)->name);
}

static int check_objects(const struct ckpt_manifest *manifest, struct star_error *err)
{
	const struct object_spec *sorted[WIRE_OBJECTS_MAX];

	for (uint32_t i = 0; i < manifest->objects_count; i++) {
		const struct object_spec *spec = sorted[i] = &manifest->objects[i];

		if (!spec->id || (i && manifest->objects[i - 1].id >= spec->id))
			return star_error_set(err, -EINVAL, "the id of \"%s\" is %u: all have one, in ascending order",
					      spec->name, spec->id);
	}
	qsort(sorted, manifest->objects_count, sizeof(sorted[0]), compare_object_names);
	for (uint32_t i = 1; i < manifest->objects_count; i++)
		if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
			return star_error_set(err, -EINVAL, "there are two objects \"%s\"", sorted[i]->name);
	return 0;
}

static int read_objects(const json_t *list, struct ckpt_manifest *manifest, struct star_error *err)
{
	const size_t count = json_array_size(list);
	const json_t *object;
	size_t i;

	if (!json_is_array(list) || count > WIRE_OBJECTS_MAX)
		return star_error_set(err, -EINVAL, "member \"objects\" must be an array of at most %d",
				      WIRE_OBJECTS_MAX);
	manifest->objects = calloc(count + 1, sizeof(manifest->objects[0]));
	if (!manifest->objects)
		return star_error_set(err, -ENOMEM, "no memory left for the list of %zu objects", count);
	manifest->objects_count = (uint32_t)count;
	json_array_foreach(list, i, object)
	{
		if (jsonrpc_object_decode(object, &manifest->objects[i], err) < 0)
			return -EINVAL;
	}
	return check_objects(manifest, err);
}

/* The control plane, which writes them, checks their contents. */
static int read_queues(const json_t *queues, struct ckpt_manifest *manifest, struct star_error *err)
{
	if (!queues)
		return 0;
	if (!json_is_array(queues) || json_array_size(queues) == 0)
		return star_error_set(err, -EINVAL, "member \"queues\" must be an array with members");
	manifest->queues = json_dumps(queues, JSON_COMPACT);
	return manifest->queues ? 0 : star_error_set(err, -ENOMEM, "no memory left for the queues");
}

static int read_head(const json_t *json, struct ckpt_manifest *manifest, struct star_error *err)
{
	const char *format;
	uint32_t version;

	if (!json_is_object(json))
		return star_error_set(err, -EINVAL, "it is not a JSON object");
	if (jsonrpc_member_string(json, "format", sizeof(FORMAT), &format, err) < 0)
		return -EINVAL;
	if (strcmp(format, FORMAT) != 0)
		return star_error_set(err, -EINVAL, "its format is \"%s\", not \"%s\"", format, FORMAT);
	if (jsonrpc_member_u32(json, "version", 0, UINT32_MAX, &version, err) < 0)
		return -EINVAL;
	if (version != CHECKPOINT_VERSION)
		return star_error_set(err, -EINVAL, "its version is %u; this program reads version %d", version,
				      CHECKPOINT_VERSION);
	if (jsonrpc_member_only(json, members, err) < 0 ||
	    jsonrpc_member_uint(json, "id", 1, INT64_MAX, &manifest->id, err) < 0 ||
	    jsonrpc_member_uint(json, "parent", 0, manifest->id - 1, &manifest->parent, err) < 0 ||
	    jsonrpc_member_uint(json, "time_ms", 0, INT64_MAX, &manifest->time_ms, err) < 0 ||
	    jsonrpc_member_u32(json, "partitions", 1, WIRE_PARTITIONS_MAX, &manifest->partitions, err) < 0 ||
	    jsonrpc_member_u32(json, "tasks", 1, WIRE_NODES_MAX, &manifest->tasks, err) < 0 ||
	    jsonrpc_member_u32(json, "reactors", 1, CKPT_FILES_MAX, &manifest->reactors, err) < 0 ||
	    jsonrpc_member_u64(json, "step", &manifest->step, err) < 0 ||
	    (json_object_get(json, "lineage") && jsonrpc_member_u64(json, "lineage", &manifest->lineage, err) < 0))
		return -EINVAL;
	manifest->parent_named = json_object_get(json, "parent_checksum") != NULL;
	if (manifest->parent_named &&
	    jsonrpc_member_u32(json, "parent_checksum", 0, UINT32_MAX, &manifest->parent_sum, err) < 0)
		return -EINVAL;
	if (manifest->partitions & (manifest->partitions - 1))
		return star_error_set(err, -EINVAL, "member \"partitions\" must be a power of two, not %u",
				      manifest->partitions);
	return 0;
}

int ckpt_manifest_parse(const char *path, const char *text, size_t bytes, struct ckpt_manifest *manifest,
			struct star_error *err)
{
	struct star_error why = { 0 };
	json_t *json = jsonrpc_summed_parse(text, bytes, &why);
	int rc;

	*manifest = (struct ckpt_manifest){ 0 };
	if (!json)
		return ckpt_damaged(err, path, CKPT_MANIFEST_NAME, "%s", why.text);
	manifest->sum = jsonrpc_summed_sum(text, bytes);
	rc = read_head(json, manifest, &why);
	if (rc == 0)
		rc = read_objects(json_object_get(json, "objects"), manifest, &why);
	if (rc == 0)
		rc = read_files(json_object_get(json, "files"), manifest, &why);
	if (rc == 0)
		rc = read_queues(json_object_get(json, "queues"), manifest, &why);
	if (rc == 0 && manifest->parent_named && !manifest->parent)
		rc = star_error_set(&why, -EINVAL, "it has a member \"parent_checksum\", and no parent");
	json_decref(json);
	if (rc == 0)
		return 0;
	ckpt_manifest_free(manifest);
	return rc == -ENOMEM ? star_error_set(err, rc, "%s", why.text)
			     : ckpt_damaged(err, path, CKPT_MANIFEST_NAME, "%s", why.text);
}

/* ---- to JSON ---- */

static json_t *to_json(const struct ckpt_manifest *manifest)
{
	json_t *objects = json_array(), *files = json_array();

	for (uint32_t i = 0; i < manifest->objects_count; i++)
		json_array_append_new(objects, jsonrpc_object_encode(&manifest->objects[i]));
	for (uint32_t i = 0; i < manifest->files_count; i++)
		json_array_append_new(files, ckpt_file_to_json(&manifest->files[i]));
	return json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o*, s:o*, s:o*, s:o, s:o}", "format", FORMAT,
			 "version", CHECKPOINT_VERSION, "id", (json_int_t)manifest->id, "parent",
			 (json_int_t)manifest->parent, "time_ms", (json_int_t)manifest->time_ms, "partitions",
			 (json_int_t)manifest->partitions, "tasks", (json_int_t)manifest->tasks, "reactors",
			 (json_int_t)manifest->reactors, "step", jsonrpc_member_from_u64(manifest->step), "lineage",
			 manifest->lineage ? jsonrpc_member_from_u64(manifest->lineage) : NULL, "parent_checksum",
			 manifest->parent_named ? json_integer(manifest->parent_sum) : NULL, "queues",
			 manifest->queues ? json_loads(manifest->queues, 0, NULL) : NULL, "objects", objects, "files",
			 files);
}

/* Checks that what was written reads back the same, because a restore creates the tables from it. */
static bool same_objects(const struct ckpt_manifest *manifest, const struct ckpt_manifest *again,
			 struct star_error *err)
{
	struct star_error why = { 0 };

	for (uint32_t i = 0; i < again->objects_count; i++)
		if (strcmp(manifest->objects[i].name, again->objects[i].name) != 0 ||
		    wire_object_spec_same(&manifest->objects[i], &again->objects[i], &why) < 0) {
			star_error_set(err, -EINVAL,
				       "the definition of \"%s\" does not read back as it was written: %.200s",
				       manifest->objects[i].name, why.text);
			return false;
		}
	return true;
}

char *ckpt_manifest_text(const struct ckpt_manifest *manifest, size_t *bytes, struct star_error *err)
{
	struct ckpt_manifest again;
	json_t *json = to_json(manifest);
	char *text = jsonrpc_summed_text(json, JSON_INDENT(1), bytes);

	json_decref(json);
	if (!text) {
		star_error_set(err, -ENOMEM, "no memory left for a manifest, or a name in it is not UTF-8");
		return NULL;
	}
	if (ckpt_manifest_parse("a new checkpoint", text, *bytes, &again, err) < 0) {
		free(text);
		return NULL;
	}
	if (*bytes > CKPT_MANIFEST_BYTES_MAX || again.objects_count != manifest->objects_count ||
	    again.files_count != manifest->files_count) {
		star_error_set(err, -EINVAL,
			       "the manifest of %u objects and %u files has %zu bytes: at most %d are possible",
			       manifest->objects_count, manifest->files_count, *bytes, CKPT_MANIFEST_BYTES_MAX);
		free(text);
		text = NULL;
	} else if (!same_objects(manifest, &again, err)) {
		free(text);
		text = NULL;
	}
	ckpt_manifest_free(&again);
	return text;
}

/* ---- from a file ---- */

/* Reads the whole file; the caller frees it. */
static char *read_text(int fd, const char *path, size_t *bytes, struct star_error *err)
{
	struct stat status;
	char *text;
	ssize_t n;

	if (fstat(fd, &status) < 0) {
		ckpt_io_error(err, -errno, "look at", path, CKPT_MANIFEST_NAME);
		return NULL;
	}
	if (!S_ISREG(status.st_mode) || status.st_size > CKPT_MANIFEST_BYTES_MAX) {
		ckpt_damaged(err, path, CKPT_MANIFEST_NAME, "it is not a regular file of at most %d bytes",
			     CKPT_MANIFEST_BYTES_MAX);
		return NULL;
	}
	text = malloc((size_t)status.st_size + 1);
	if (!text) {
		star_error_set(err, -ENOMEM, "no memory left for %s's manifest", path);
		return NULL;
	}
	n = base_read_all(fd, text, (size_t)status.st_size);
	if (n < 0) {
		ckpt_io_error(err, (int)n, "read", path, CKPT_MANIFEST_NAME);
		free(text);
		return NULL;
	}
	*bytes = (size_t)n;
	return text;
}

char *ckpt_manifest_load(int folder, const char *path, size_t *bytes, struct star_error *err)
{
	const int fd = openat(folder, CKPT_MANIFEST_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct star_error why = { 0 };
	char *text;

	if (fd < 0 && errno == ENOENT) {
		star_error_set(err, -ENOENT, "%s has no %s: it is not a checkpoint, or one that was never finished",
			       path, CKPT_MANIFEST_NAME);
		return NULL;
	}
	if (fd < 0) {
		ckpt_io_error(err, -errno, "open", path, CKPT_MANIFEST_NAME);
		return NULL;
	}
	text = read_text(fd, path, bytes, &why);
	close(fd);
	if (!text)
		star_error_set(err, why.code, "%s", why.text);
	return text;
}

int ckpt_manifest_read(const char *path, struct ckpt_manifest *manifest, struct star_error *err)
{
	struct star_error why = { 0 };
	const int folder = ckpt_open_folder(path, err);
	size_t bytes = 0;
	char *text;
	int rc;

	*manifest = (struct ckpt_manifest){ 0 };
	if (folder < 0)
		return folder;
	text = ckpt_manifest_load(folder, path, &bytes, &why);
	rc = text ? ckpt_seal_check(folder, path, text, bytes, &why) : why.code;
	close(folder);
	if (rc < 0)
		star_error_set(err, rc, "%s", why.text);
	else
		rc = ckpt_manifest_parse(path, text, bytes, manifest, err);
	free(text);
	return rc;
}
