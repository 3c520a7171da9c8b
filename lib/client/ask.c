/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends any request to a node's control plane, as given by the caller. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "client/client.h"
#include "jsonrpc/jsonrpc.h"

char *star_ask(const char *address, const char *method, const char *params, uint64_t deadline_us,
	       struct star_error *err)
{
	const uint64_t until_us = clock_us() + (deadline_us ? deadline_us : STAR_DEADLINE_DEFAULT_US);
	json_t *json = params ? json_loads(params, JSON_REJECT_DUPLICATES, NULL) : NULL, *result;
	struct jsonrpc_client *client;
	char *text = NULL;
	uint64_t now_us;

	if (params && !json_is_object(json)) {
		json_decref(json);
		star_error_set(err, -EINVAL, "the parameters of \"%.64s\" are not a JSON object", method);
		return NULL;
	}
	client = jsonrpc_connect_by(getenv("STAR_KEY"), address, until_us - clock_us(), err);
	if (!client) {
		json_decref(json);
		return NULL;
	}
	now_us = clock_us();
	result = jsonrpc_call(client, method, json, now_us < until_us ? until_us - now_us : 0, err);
	jsonrpc_close(client);
	if (result) {
		text = json_dumps(result, JSON_ENCODE_ANY | JSON_COMPACT);
		if (!text)
			star_error_set(err, -ENOMEM, "out of memory");
	}
	json_decref(result);
	return text;
}
