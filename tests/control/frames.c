/* SPDX-License-Identifier: BSD-3-Clause */
/* What a fake data plane says of its ports, and of captured frames. */
#include <errno.h>
#include <string.h>

#include "harness.h"

/* Two frames and then none: the one of a reactor's, and its answer. */
int fake_capture(void *ctx, const json_t *params, json_t **result, struct star_error *err)
{
	const json_t *proto = json_object_get(params, "proto");

	if (proto && strcmp(json_string_value(proto), "tcp") != 0)
		return star_error_set(err, -EINVAL, "there is no protocol");
	*result = json_pack("{s:i, s:i, s:I, s:[{s:i, s:s}, {s:i, s:s}]}", "capture", 3, "snap", 96, "offset_ns",
			    (json_int_t)1000000000, "ports", "id", 0, "name", "net_memif0", "id", 33, "name", "x\033");
	return 0;
}

int fake_capture_take(void *ctx, const json_t *params, json_t **result, struct star_error *err)
{
	const bool ends = json_is_true(json_object_get(params, "end"));

	*result = json_loads("{\"frames\": [[5, 1, 0, 1, 60, \"000102\"], [7, 1, 33, 2, 1514, \"0a0b0c0d\"]], "
			     "\"more\": false, \"matched\": 9, \"dropped\": 7}",
			     0, NULL);
	if (ends)
		json_array_clear(json_object_get(*result, "frames"));
	return 0;
}

json_t *fake_ports(void *ctx)
{
	return json_pack("[{s:s, s:[s, s], s:i, s:b}]", "name", "net_memif0", "addresses", "198.18.4.1/24",
			 "2001:2::4/64", "mtu", 1500, "client", true);
}
