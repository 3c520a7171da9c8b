/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which table a call means: the one with a name or, if the caller has a handle of it, the one that had this id and
 * generation under that name. Otherwise a call for a dropped table would reach the next one of its name.
 */
#include <errno.h>

#include "jsonrpc/member.h"
#include "control/node.h"

int control_handle_read(const json_t *params, struct control_handle *handle, struct star_error *err)
{
	int rc;

	*handle = (struct control_handle){ .exact = json_object_get(params, "id") ||
						    json_object_get(params, "generation") };
	rc = jsonrpc_member_string(params, "name", WIRE_NAME_MAX, &handle->name, err);
	if (rc == 0 && handle->exact)
		rc = jsonrpc_member_u32(params, "id", 1, WIRE_OBJECTS_MAX, &handle->id, err);
	if (rc == 0 && handle->exact)
		rc = jsonrpc_member_u32(params, "generation", 0, OBJECT_GENERATION_MAX, &handle->generation, err);
	return rc;
}

const struct object_spec *control_handle_table(const struct control *control, const struct control_handle *handle,
					       struct star_error *err)
{
	const struct object_spec *spec = control_table(control, handle->name, err);

	if (!spec || !handle->exact || (spec->id == handle->id && spec->generation == handle->generation))
		return spec;
	star_error_set(err, -ENOENT, "\"%s\" is another table by now: the one that is meant was dropped before",
		       handle->name);
	return NULL;
}
