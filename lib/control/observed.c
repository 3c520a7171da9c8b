/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions about the requests that the node's reactors remember. */
#include "control/node.h"
#include "jsonrpc/member.h"

/* A member that may be missing. */
static int take_param(const json_t *params, const char *name, uint32_t min, uint32_t max, uint32_t *value,
		      struct star_error *err)
{
	return json_object_get(params, name) ? jsonrpc_member_u32(params, name, min, max, value, err) : 0;
}

int control_observed(struct control *control, enum control_observed_what what, const json_t *params, json_t **result,
		     struct star_error *err)
{
	static const char *const members[][5] = {
		[CONTROL_LATENCY] = { "seconds", NULL },
		[CONTROL_SLOW] = { "reactor", "limit", "seconds", NULL },
		[CONTROL_TRACE] = { "reactor", "from", NULL },
		[CONTROL_HOT] = { "limit", NULL },
	};
	const struct control_data_plane *plane = &control->data_plane;
	struct control_observed which = {
		.what = what,
		.reactor = -1,
		.limit = CONTROL_SLOW_USUAL,
		.seconds = what == CONTROL_SLOW ? CONTROL_SLOW_SECONDS : 0,
	};
	uint32_t reactor = 0;

	if (jsonrpc_member_only(params, members[what], err) < 0 ||
	    take_param(params, "reactor", 0, WIRE_REACTORS_MAX - 1, &reactor, err) < 0 ||
	    take_param(params, "limit", 1, CONTROL_SLOW_MAX, &which.limit, err) < 0 ||
	    take_param(params, "seconds", 1, UINT32_MAX, &which.seconds, err) < 0 ||
	    (json_object_get(params, "from") && jsonrpc_member_u64(params, "from", &which.from, err) < 0))
		return control_invalid(err);
	if (json_object_get(params, "reactor"))
		which.reactor = (int)reactor;
	return plane->observed(plane->ctx, &which, result, err);
}
