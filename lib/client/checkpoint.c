/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints on a worker's request. */
#include "client/client.h"

#include <errno.h>

#include "base/clock.h"
#include "jsonrpc/jsonrpc.h"

enum { LOOK_MS = 20 };

static uint64_t checkpoint_number(const json_t *json, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(json, name));
}

/* Waits until this many checkpoints were written or have failed since PS task 0 started. */
static int await_saved(struct star_cluster *cluster, uint64_t asked, uint64_t deadline_ns, struct star_error *err)
{
	for (;;) {
		json_t *status = client_catalogue_call(cluster, "checkpoint_status", NULL, deadline_ns, err);
		const json_t *error = json_object_get(status, "error");
		const bool done = checkpoint_number(status, "saved") + checkpoint_number(status, "failed") >= asked;
		const bool lost = !done && json_is_false(json_object_get(status, "writing"));
		int rc = 0;

		if (!status)
			return err->code;
		if (done && json_string_length(error))
			rc = star_error_set(err, -EIO, "the checkpoint was not written: %s", json_string_value(error));
		else if (lost) /* it has restarted, and knows of no request */
			rc = star_error_set(err, -ESTALE,
					    "the checkpoint was not written: PS task 0 was restarted meanwhile");
		json_decref(status);
		if (done || lost)
			return rc;
		if (clock_ns() >= deadline_ns)
			return star_error_set(err, -ETIMEDOUT,
					      "the checkpoint is not complete yet: the nodes are still writing it");
		if (client_cluster_pause(cluster, clock_ns() + LOOK_MS * UINT64_C(1000000), err) < 0)
			return err->code;
	}
}

int star_checkpoint(struct star_cluster *cluster, const char *kind, uint64_t deadline_us, struct star_error *err)
{
	return star_checkpoint_keep(cluster, kind, 0, deadline_us, err);
}

int star_checkpoint_keep(struct star_cluster *cluster, const char *kind, uint32_t keep, uint64_t deadline_us,
			 struct star_error *err)
{
	const uint64_t deadline_ns = clock_ns() + (deadline_us ? deadline_us : STAR_DEADLINE_DEFAULT_US) * 1000;
	struct star_error ignored;
	json_t *params, *asked;
	uint64_t count;

	err = err ? err : &ignored;
	params = json_pack("{s:s}", "kind", kind ? kind : "auto");
	if (params && keep && json_object_set_new(params, "keep", json_integer(keep)) < 0) {
		json_decref(params);
		params = NULL;
	}
	asked = params ? client_catalogue_call(cluster, "checkpoint_save", params, deadline_ns, err) : NULL;
	json_decref(params);
	if (!asked)
		return params ? err->code : star_error_set(err, -ENOMEM, "no memory for a question");
	count = checkpoint_number(asked, "asked");
	json_decref(asked);
	return await_saved(cluster, count, deadline_ns, err);
}
