/* SPDX-License-Identifier: BSD-3-Clause */
/* This node's rows of a table, for administrators. */
#include <errno.h>
#include <stdlib.h>

#include "jsonrpc/member.h"
#include "control/node.h"

static const struct object_spec *find_table(struct control *control, const struct control_handle *handle,
					    struct star_error *err)
{
	const struct object_spec *spec;

	pthread_mutex_lock(&control->lock);
	spec = control_handle_table(control, handle, err);
	pthread_mutex_unlock(&control->lock);
	return spec;
}

int control_rows_keys(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "name", "id", "generation", "reactor", "at", NULL };
	const struct control_data_plane *plane = &control->data_plane;
	struct control_row_keys which = { 0 };
	const struct object_spec *spec;
	struct control_handle handle;
	json_t *keys;
	int rc;

	if (jsonrpc_member_only(params, members, err) < 0 || control_handle_read(params, &handle, err) < 0 ||
	    jsonrpc_member_u32(params, "reactor", 0, WIRE_REACTORS_MAX - 1, &which.reactor, err) < 0 ||
	    (json_object_get(params, "at") && jsonrpc_member_u64(params, "at", &which.at, err) < 0))
		return control_invalid(err);
	spec = find_table(control, &handle, err);
	if (!spec)
		return err->code;
	keys = json_array();
	pthread_mutex_lock(&control->plane);
	rc = plane->row_keys(plane->ctx, spec, &which, keys, err);
	pthread_mutex_unlock(&control->plane);
	if (rc == 0)
		*result = json_pack("{s:O, s:o}", "keys", keys, "at", jsonrpc_member_from_u64(which.at));
	json_decref(keys);
	return rc;
}

/* Reads an array of 1 to CONTROL_ROWS_KEYS keys; NULL with an error that names the member. */
static uint64_t *read_keys(const json_t *params, uint32_t *count, struct star_error *err)
{
	const json_t *list = json_object_get(params, "keys"), *key;
	const size_t n = json_array_size(list);
	uint64_t *keys = n && n <= CONTROL_ROWS_KEYS ? malloc(n * sizeof(*keys)) : NULL;
	size_t i;

	if (!keys) {
		star_error_set(err, -EINVAL, "member \"keys\" must be an array of 1 to %d keys", CONTROL_ROWS_KEYS);
		return NULL;
	}
	json_array_foreach(list, i, key)
	{
		if (jsonrpc_member_to_u64(key, &keys[i]))
			continue;
		star_error_set(err, -EINVAL, "member \"keys\": element %zu is not a key (a number from 0 to 2^64 - 1)",
			       i);
		free(keys);
		return NULL;
	}
	*count = (uint32_t)n;
	return keys;
}

int control_rows_read(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "name", "id", "generation", "keys", NULL };
	const struct control_data_plane *plane = &control->data_plane;
	const struct object_spec *spec;
	uint64_t *keys = NULL;
	struct control_handle handle;
	uint32_t count = 0;
	json_t *records;
	int rc = 0;

	if (jsonrpc_member_only(params, members, err) < 0 || control_handle_read(params, &handle, err) < 0)
		return control_invalid(err);
	keys = read_keys(params, &count, err);
	if (!keys)
		return control_invalid(err);
	spec = find_table(control, &handle, err);
	if (!spec)
		rc = err->code;
	records = json_array();
	pthread_mutex_lock(&control->plane);
	if (rc == 0)
		rc = plane->rows(plane->ctx, spec, keys, count, records, err);
	pthread_mutex_unlock(&control->plane);
	if (rc == 0)
		*result = json_pack("{s:O}", "rows", records);
	json_decref(records);
	free(keys);
	return rc;
}
