/* SPDX-License-Identifier: BSD-3-Clause */
/* The file beside a journal's streams: the objects, the committed checkpoints, and where in the cluster's history its
 * lives are. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "jsonrpc/member.h"
#include "jsonrpc/object_json.h"
#include "jsonrpc/summed.h"
#include "node/checkpoint.h"
#include "node/journal.h"

enum {
	FILE_MODE = 0640,
	CATALOGUE_MAX = 64 << 20,
	ADDED_MIN = 1 << 20, /* appended to a short catalogue before it is written again */
};

static void catalogue_name(char name[static JOURNAL_NAME_MAX], uint32_t story)
{
	snprintf(name, JOURNAL_NAME_MAX, "%08" PRIu32 ".json", story);
}

int node_journal_replace_file(const struct node_journal *j, const char *name, const char *text, size_t bytes,
			      struct star_error *err)
{
	const int rc = base_replace_file(j->folder, name, text, bytes, FILE_MODE);

	return rc < 0 ? star_error_set(err, rc, "the journal's %s cannot be written in %.200s: %s", name,
				       j->node->config->journal_directory, strerror(-rc))
		      : 0;
}

json_t *node_journal_checkpoint_json(const struct journal_checkpoint *c)
{
	return json_pack("{s:I, s:I}", "id", (json_int_t)c->id, "sum", (json_int_t)c->sum);
}

static json_t *checkpoints_json(const struct journal_checkpoints *list)
{
	json_t *json = json_array();

	for (unsigned i = 0; i < list->count; i++)
		json_array_append_new(json, node_journal_checkpoint_json(&list->of[i]));
	return json;
}

static int take_checkpoint(const json_t *json, struct journal_checkpoint *c, struct star_error *err)
{
	static const char *const members[] = { "id", "sum", NULL };

	if (jsonrpc_member_only(json, members, err) < 0 || jsonrpc_member_u64(json, "id", &c->id, err) < 0 ||
	    jsonrpc_member_u32(json, "sum", 0, UINT32_MAX, &c->sum, err) < 0)
		return err->code;
	return c->id > INT64_MAX ? star_error_set(err, -EBADMSG, "the journal has a checkpoint without a number") : 0;
}

static int take_checkpoints(const json_t *json, struct journal_checkpoints *list, struct star_error *err)
{
	list->count = 0;
	if (!json_is_array(json) || json_array_size(json) > JOURNAL_CHECKPOINTS_MAX)
		return star_error_set(err, -EBADMSG, "the journal has no list of checkpoints");
	for (; list->count < json_array_size(json); list->count++) {
		struct journal_checkpoint *c = &list->of[list->count];

		if (take_checkpoint(json_array_get(json, list->count), c, err) < 0)
			return err->code;
		if (c->id <= (list->count ? c[-1].id : 0))
			return star_error_set(err, -EBADMSG, "the journal's list of checkpoints is not in order");
	}
	return 0;
}

void node_journal_add_checkpoint(struct journal_checkpoints *list, uint64_t id, uint32_t sum)
{
	while (list->count && list->of[list->count - 1].id >= id)
		list->count--;
	if (list->count == JOURNAL_CHECKPOINTS_MAX) {
		list->count--;
		memmove(list->of, list->of + 1, list->count * sizeof(list->of[0]));
	}
	list->of[list->count++] = (struct journal_checkpoint){ .id = id, .sum = sum };
}

const struct journal_checkpoint *node_journal_find_checkpoint(const struct journal_checkpoints *list, uint64_t id)
{
	for (unsigned i = 0; i < list->count; i++)
		if (list->of[i].id == id)
			return &list->of[i];
	return NULL;
}

char *node_journal_catalogue_text(const struct node_journal *j, size_t *bytes)
{
	const struct node *node = j->node;
	json_t *objects = json_array(), *json;
	char *text;

	for (uint32_t id = 1; id <= WIRE_OBJECTS_MAX; id++)
		if (node->specs[id])
			json_array_append_new(objects, jsonrpc_object_encode(node->specs[id]));
	json = json_pack("{s:o, s:o, s:I, s:o, s:o, s:o}", "lineage",
			 jsonrpc_member_from_u64(node_checkpoint_own_lineage(node->checkpoint)), "taken_back",
			 jsonrpc_member_from_u64(j->taken_back), "epoch", (json_int_t)j->epoch, "checkpoints",
			 checkpoints_json(&j->counted), "parts", checkpoints_json(&j->parts), "objects", objects);
	/* Omitted if it is not needed: earlier releases do not know this member. */
	if (__atomic_load_n(&j->later, __ATOMIC_RELAXED) && j->newest)
		json_object_set_new(json, "began", jsonrpc_member_from_u64(j->began));
	text = jsonrpc_summed_text(json, JSON_INDENT(1), bytes);
	json_decref(json);
	return text;
}

int node_journal_replace_catalogue(struct node_journal *j, const char *text, size_t bytes, struct star_error *err)
{
	char name[JOURNAL_NAME_MAX];

	catalogue_name(name, j->life.story);
	j->catalogue_bytes = bytes;
	j->added_bytes = 0;
	return node_journal_replace_file(j, name, text, bytes, err);
}

int node_journal_write_catalogue(struct node_journal *j, struct star_error *err)
{
	size_t bytes;
	char *text = node_journal_catalogue_text(j, &bytes);
	const int rc = text ? node_journal_replace_catalogue(j, text, bytes, err)
			    : star_error_set(err, -ENOMEM, "out of memory");

	free(text);
	return rc;
}

bool node_journal_has_catalogue(const struct node_journal *j)
{
	char name[JOURNAL_NAME_MAX];

	catalogue_name(name, j->life.story);
	return faccessat(j->folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

static int append_line(const struct node_journal *j, const char *line, size_t bytes)
{
	char name[JOURNAL_NAME_MAX];
	int fd, rc;

	catalogue_name(name, j->life.story);
	fd = openat(j->folder, name, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = base_append_all(fd, line, bytes, NULL);
	if (rc == 0 && fdatasync(fd) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

/* So the file is at most twice as long as needed, and with thousands of tables each takes as long as the first. */
int node_journal_add_to_catalogue(struct node_journal *j, json_t *change, struct star_error *err)
{
	const size_t most = j->catalogue_bytes > ADDED_MIN ? j->catalogue_bytes : ADDED_MIN;
	size_t bytes = 0;
	char *line = jsonrpc_summed_line(change, &bytes);
	int rc = line ? 0 : -ENOMEM;

	json_decref(change);
	if (rc == 0 && j->added_bytes + bytes > most)
		rc = -ENOSPC;
	if (rc == 0)
		rc = append_line(j, line, bytes);
	if (rc == 0)
		j->added_bytes += bytes;
	free(line);
	return rc < 0 ? star_error_set(err, rc, "the journal's catalogue cannot be added to: %s", strerror(-rc)) : 0;
}

/* Enters an object into the list, which is indexed by id: from the file's catalogue, or from a later line. */
static int take_object(struct journal_past *past, const json_t *json, struct star_error *err)
{
	struct object_spec spec;

	if (jsonrpc_object_decode(json, &spec, err) < 0)
		return err->code;
	if (spec.id == 0)
		return star_error_set(err, -EBADMSG, "the journal has an object without its id");
	past->specs[spec.id] = spec;
	if (spec.id > past->specs_count)
		past->specs_count = spec.id;
	return 0;
}

static int take_part(struct journal_checkpoints *parts, const json_t *json, struct star_error *err)
{
	struct journal_checkpoint part;

	if (take_checkpoint(json, &part, err) < 0)
		return err->code;
	node_journal_add_checkpoint(parts, part.id, part.sum);
	return 0;
}

static int take_change(struct node_journal *j, const json_t *change, struct star_error *err)
{
	static const char *const members[] = { "object", "forget", "part", NULL };
	const json_t *object = json_object_get(change, "object"), *part = json_object_get(change, "part");
	uint32_t id;

	if (jsonrpc_member_only(change, members, err) < 0)
		return err->code;
	if (object)
		return take_object(&j->past, object, err);
	if (part)
		return take_part(&j->parts, part, err);
	if (jsonrpc_member_u32(change, "forget", 1, WIRE_OBJECTS_MAX, &id, err) < 0)
		return err->code;
	j->past.specs[id].id = 0;
	return 0;
}

static int take_changes(struct node_journal *j, const json_t *changes, struct star_error *err)
{
	const json_t *change;
	size_t i;
	int rc = 0;

	json_array_foreach(changes, i, change) if (rc == 0) rc = take_change(j, change, err);
	return rc;
}

/* Removes unused entries from the list. Its count was the highest id; what is behind that is not touched. */
static void close_up(struct journal_past *past)
{
	const uint32_t last = past->specs_count;

	past->specs_count = 0;
	for (uint32_t id = 1; id <= last; id++)
		if (past->specs[id].id)
			past->specs[past->specs_count++] = past->specs[id];
}

/* Checked, because a changed byte could change how a table learns. */
static json_t *parse_catalogue(const char *text, size_t bytes, struct star_error *why)
{
	size_t at = jsonrpc_summed_end(text, bytes);
	json_t *json = jsonrpc_summed_parse(text, at, why), *changes, *change;

	if (!json)
		return NULL;
	changes = json_array();
	while ((change = jsonrpc_summed_next(text, bytes, &at, why)))
		json_array_append_new(changes, change);
	json_object_set_new(json, "changes", changes);
	if (why->code == 0)
		return json;
	json_decref(json);
	return NULL;
}

static json_t *load_catalogue(const struct node_journal *j, const char *name, struct star_error *err)
{
	const int fd = base_open_file(j->folder, name, O_NOFOLLOW);
	char *text = fd < 0 ? NULL : malloc(CATALOGUE_MAX + 1);
	const ssize_t bytes = fd < 0 ? fd : text ? base_read_all(fd, text, CATALOGUE_MAX + 1) : -ENOMEM;
	struct star_error why = { 0 };
	json_t *json = NULL;

	if (bytes < 0)
		star_error_set(&why, (int)bytes, "%s", base_open_error((int)bytes));
	else if (bytes > CATALOGUE_MAX)
		star_error_set(&why, -EFBIG, "it has more than %d bytes", CATALOGUE_MAX);
	else
		json = parse_catalogue(text, (size_t)bytes, &why);
	if (fd >= 0)
		close(fd);
	free(text);
	if (!json)
		star_error_set(err, -EBADMSG,
			       "the journal's %s cannot be read in %.200s: %.150s. Nothing was restored. To start from "
			       "the last checkpoint, without the journal's changes, move what is in the directory away",
			       name, j->node->config->journal_directory, why.text);
	return json;
}

static int read_objects(struct node_journal *j, const json_t *objects, const json_t *changes, struct star_error *err)
{
	struct journal_past *past = &j->past;
	const json_t *object;
	size_t i;
	int rc = 0;

	/* Memory for ids without an object is never touched. */
	past->specs_count = 0;
	past->specs = calloc(WIRE_OBJECTS_MAX + 1, sizeof(*past->specs));
	if (!past->specs)
		return star_error_set(err, -ENOMEM, "out of memory");
	json_array_foreach(objects, i, object) if (rc == 0) rc = take_object(past, object, err);
	if (rc == 0)
		rc = take_changes(j, changes, err);
	if (rc == 0)
		close_up(past);
	return rc;
}

int node_journal_read_catalogue(struct node_journal *j, uint32_t story, struct star_error *err)
{
	static const char *const members[] = { "lineage", "taken_back", "epoch", "checkpoints", "parts",
					       "objects", "changes",	"began", NULL };
	struct journal_past *past = &j->past;
	const json_t *parts;
	char name[JOURNAL_NAME_MAX];
	json_t *json, *objects;
	int rc = 0;

	catalogue_name(name, story);
	json = load_catalogue(j, name, err);
	if (!json)
		return err->code;
	objects = json_object_get(json, "objects");
	parts = json_object_get(json, "parts");
	past->knows_parts = parts != NULL;
	j->parts.count = 0;
	if (jsonrpc_member_only(json, members, err) < 0 ||
	    jsonrpc_member_u64(json, "lineage", &past->lineage, err) < 0 ||
	    jsonrpc_member_u64(json, "taken_back", &past->taken_back, err) < 0 ||
	    jsonrpc_member_u32(json, "epoch", 0, INT32_MAX, &past->epoch, err) < 0 ||
	    (json_object_get(json, "began") && jsonrpc_member_u64(json, "began", &past->began, err) < 0) ||
	    take_checkpoints(json_object_get(json, "checkpoints"), &j->counted, err) < 0 ||
	    (parts && take_checkpoints(parts, &j->parts, err) < 0))
		rc = err->code;
	else if (!json_is_array(objects) || json_array_size(objects) > WIRE_OBJECTS_MAX)
		rc = star_error_set(err, -EBADMSG, "the journal's %s has no list of objects", name);
	if (rc == 0)
		rc = read_objects(j, objects, json_object_get(json, "changes"), err);
	json_decref(json);
	return rc;
}
