/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests for what the node records: requests of its reactors, metrics of the last hour, and events. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "control/node.h"
#include "jsonrpc/jsonrpc_message.h"
#include "jsonrpc/member.h"

enum { EVENTS_SECONDS = 3600 };

/* An optional member. */
static int take_param(const json_t *params, const char *name, uint32_t min, uint32_t max, uint32_t *value,
		      struct star_error *err)
{
	return json_object_get(params, name) ? jsonrpc_member_u32(params, name, min, max, value, err) : 0;
}

int control_observed(struct control *control, enum control_observed_what what, const json_t *params, json_t **result,
		     struct star_error *err)
{
	static const char *const members[][5] = {
		[CONTROL_LATENCY] = { "seconds", NULL },       [CONTROL_SLOW] = { "reactor", "limit", "seconds", NULL },
		[CONTROL_TRACE] = { "reactor", "from", NULL }, [CONTROL_HOT] = { "limit", NULL },
		[CONTROL_HISTORY] = { "seconds", NULL },
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

static json_t *event_json(const struct log_event *event)
{
	const time_t seconds = (time_t)(event->ms / 1000);
	char at[40] = "";
	struct tm parts;
	size_t used;

	if (gmtime_r(&seconds, &parts)) {
		used = strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%S", &parts);
		snprintf(at + used, sizeof(at) - used, ".%03uZ", (unsigned)(event->ms % 1000));
	}
	return json_pack("{s:s, s:s, s:o}", "at", at, "level", log_level_name(event->level), "text",
			 jsonrpc_member_from_text(event->text));
}

int control_events(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "seconds", "level", NULL };
	struct log_event *events = malloc(LOG_KEPT * sizeof(*events));
	uint32_t seconds = EVENTS_SECONDS;
	enum log_level level = LOG_INFO;
	const char *name = NULL;
	char node[32];
	unsigned n;
	int rc = 0;

	if (jsonrpc_member_only(params, members, err) < 0 ||
	    take_param(params, "seconds", 1, UINT32_MAX, &seconds, err) < 0 ||
	    (json_object_get(params, "level") && jsonrpc_member_string(params, "level", 16, &name, err) < 0))
		rc = control_invalid(err);
	else if (name && !log_level_from(name, &level))
		rc = star_error_set(err, JSONRPC_INVALID_PARAMS,
				    "there is no log level \"%s\": debug, info, warning or error", name);
	else if (!events)
		rc = star_error_set(err, -ENOMEM, "no memory for a copy of the last events");
	if (rc == 0) {
		const int64_t since_ms = ((int64_t)time(NULL) - seconds) * 1000;

		n = log_events(since_ms > 0 ? (uint64_t)since_ms : 0, level, events, LOG_KEPT);
		snprintf(node, sizeof(node), "%s:%u", control->config->job_name, control->task);
		*result = json_pack("{s:s, s:[]}", "node", node, "events");
		for (unsigned i = 0; i < n; i++)
			json_array_append_new(json_object_get(*result, "events"), event_json(&events[i]));
	}
	free(events);
	return rc;
}
