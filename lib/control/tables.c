/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists the catalogue page by page, as one message cannot have all of it; and requests sweeps of a table on all nodes.
 */
#include <errno.h>
#include <string.h>

#include "base/nearest.h"
#include "control/node.h"
#include "jsonrpc/member.h"

/* Tables with their metrics per message: some milliseconds, in which no other request is answered. */
enum { TABLES_PAGE = 256 };

/* Lists up to this many of them; returns the id of the next one, or 0. */
static uint32_t list_objects(struct control *control, uint32_t from, size_t most, bool with_stats, json_t *objects)
{
	const struct control_data_plane *data_plane = &control->data_plane;
	uint32_t id = from, next = 0;

	pthread_mutex_lock(&control->lock);
	for (; id <= control->objects_last; id++) {
		const struct object_spec *spec = control->objects[id];
		json_t *json;

		if (!spec || (with_stats && spec->kind == OBJECT_PROGRAM))
			continue;
		if (json_array_size(objects) == most) {
			next = id;
			break;
		}
		json = jsonrpc_object_encode(spec);
		if (json && with_stats)
			json_object_set_new(json, "stats", data_plane->object_status(data_plane->ctx, spec, false));
		if (json)
			json_array_append_new(objects, json);
	}
	pthread_mutex_unlock(&control->lock);
	return next;
}

json_t *control_objects_page(struct control *control, uint32_t from, uint32_t *next)
{
	json_t *objects = json_array();

	*next = list_objects(control, from, JSONRPC_OBJECTS_PAGE, false, objects);
	return objects;
}

int control_unknown_table(const struct control *control, const char *name, struct star_error *err)
{
	const char *names[WIRE_OBJECTS_MAX + 1];
	uint32_t count = 0;

	for (uint32_t id = 1; id <= control->objects_last; id++)
		if (control->objects[id] && control->objects[id]->kind != OBJECT_PROGRAM)
			names[count++] = control->objects[id]->name;
	names[count] = NULL;
	return count ? star_error_set(err, -ENOENT, "there is no table or variable \"%s\"; did you mean \"%s\"?", name,
				      nearest_name(name, names, sizeof(names[0])))
		     : star_error_set(err, -ENOENT, "there is no table or variable \"%s\"; the cluster has none at all",
				      name);
}

const struct object_spec *control_table(const struct control *control, const char *name, struct star_error *err)
{
	const struct object_spec *spec = control_find(control, name);

	if (spec && spec->kind != OBJECT_PROGRAM)
		return spec;
	control_unknown_table(control, name, err);
	return NULL;
}

json_t *control_table_json(struct control *control, const char *name, struct star_error *err)
{
	const struct control_data_plane *data_plane = &control->data_plane;
	const struct object_spec *spec;
	json_t *json = NULL;

	pthread_mutex_lock(&control->lock);
	spec = control_table(control, name, err);
	if (spec) {
		json = jsonrpc_object_encode(spec);
		json_object_set_new(json, "stats", data_plane->object_status(data_plane->ctx, spec, true));
	}
	pthread_mutex_unlock(&control->lock);
	return json;
}

const struct object_spec *control_table_by_name(struct control *control, const char *name, struct star_error *err)
{
	const struct object_spec *spec;

	pthread_mutex_lock(&control->lock);
	spec = control_table(control, name, err);
	pthread_mutex_unlock(&control->lock);
	return spec;
}

/* Describes one of them, with the metrics of each reactor. */
static int one_table(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "name", NULL };
	const char *name;
	json_t *table;

	if (jsonrpc_member_only(params, members, err) < 0 ||
	    jsonrpc_member_string(params, "name", WIRE_NAME_MAX, &name, err) < 0)
		return control_invalid(err);
	table = control_table_json(control, name, err);
	if (!table)
		return err->code;
	*result = json_array();
	json_array_append_new(*result, table);
	return 0;
}

int control_tables(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "from", NULL };
	const bool paged = json_object_get(params, "from");
	uint32_t from = 1, next;
	json_t *tables;

	if (json_object_get(params, "name"))
		return one_table(control, params, result, err);
	if (jsonrpc_member_only(params, members, err) < 0 ||
	    (paged && jsonrpc_member_u32(params, "from", 1, WIRE_OBJECTS_MAX, &from, err) < 0))
		return control_invalid(err);
	tables = json_array();
	next = list_objects(control, from, paged ? TABLES_PAGE : JSONRPC_OBJECTS_PAGE, true, tables);
	if (next && !paged) {
		json_decref(tables);
		return star_error_set(err, -EMSGSIZE,
				      "there are more than %d tables, which one answer does not have: ask for them by "
				      "pages, with \"from\": 1, and then what \"next\" says",
				      JSONRPC_OBJECTS_PAGE);
	}
	if (!paged) {
		*result = tables;
		return 0;
	}
	*result = json_pack("{s:o}", "tables", tables);
	if (next)
		json_object_set_new(*result, "next", json_integer(next));
	return 0;
}

int control_leader_sweep(struct control *control, const char *name, json_t **result, struct star_error *err)
{
	int rc = control_sweep(control, name, err);

	for (uint32_t task = 1; rc == 0 && task < control->config->ps_count; task++) {
		struct star_error why = { 0 };

		if (control_is_stopping(control))
			return star_error_set(err, -ECANCELED, "PS task 0 is shutting down");
		rc = control_leader_tell(control, task, json_pack("{s:s}", "sweep", name),
					 control_leader_deadline_us(control), &why);
		if (rc < 0)
			star_error_set(err, rc, "\"%s\" is not swept on PS task %u and those after it: %s", name, task,
				       why.text);
	}
	if (rc == 0)
		*result = json_pack("{s:i}", "nodes", (int)control->config->ps_count);
	return rc;
}
