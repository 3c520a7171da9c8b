/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints of a running cluster. */
#include <errno.h>
#include <unistd.h>

#include "app/starctl/starctl.h"
#include "control/jsonrpc.h"

enum { POLL_US = 100000 };

static double number(const json_t *json, const char *name)
{
	return json_number_value(json_object_get(json, name));
}

static void render_progress(const json_t *now, FILE *out)
{
	const double rows = number(now, "rows"), left = number(now, "left");
	char count[24], bytes[24];

	fprintf(out, "checkpoint %.0f (%s): %s rows, %s, %.0f %%", number(now, "id"),
		json_is_true(json_object_get(now, "delta")) ? "delta" : "full", human_count(rows, count),
		human_bytes(number(now, "bytes"), bytes), rows + left > 0 ? 100 * rows / (rows + left) : 0);
}

static void render_last(const json_t *last, FILE *out)
{
	char count[24], bytes[24], time[24];

	fprintf(out, "checkpoint %.0f (%s): %s rows, %s in %s\n", number(last, "id"),
		json_is_true(json_object_get(last, "delta")) ? "delta" : "full",
		human_count(number(last, "rows"), count), human_bytes(number(last, "bytes"), bytes),
		human_time(number(last, "seconds"), time));
}

static void render_checkpoints(const json_t *status, FILE *out)
{
	const json_t *now = json_object_get(status, "now"), *last = json_object_get(status, "last");
	const char *directory = json_string_value(json_object_get(status, "directory"));
	const char *error = json_string_value(json_object_get(status, "error"));

	if (!directory || !directory[0]) {
		fprintf(out, "this cluster keeps no checkpoints: set checkpoint.directory\n");
		return;
	}
	fprintf(out, "directory  ");
	print_text(directory, out);
	fprintf(out, "\nwritten    %.0f since PS task 0 began; %.0f failed\n", number(status, "saved"),
		number(status, "failed"));
	if (last) {
		fprintf(out, "last       ");
		render_last(last, out);
	}
	if (now) {
		fprintf(out, "now        ");
		render_progress(now, out);
		fprintf(out, ", %.0f rows copied, %.0f pushes waited\n", number(now, "copied"), number(now, "waited"));
	}
	if (error && error[0]) {
		fprintf(out, "error      ");
		print_text(error, out);
		fputc('\n', out);
	}
}

/* Asks until nothing is being written any more; shows how far it is on a terminal. */
static json_t *wait_written(const struct invocation *invocation, struct jsonrpc_client *client, struct star_error *err)
{
	const bool terminal = isatty(fileno(invocation->errors)) && !invocation->json;
	json_t *status;

	while ((status = jsonrpc_call(client, "checkpoint_status", NULL, STARCTL_CALL_US, err))) {
		const json_t *now = json_object_get(status, "now");

		if (!json_is_true(json_object_get(status, "writing")))
			break;
		if (terminal && now) {
			fputs("\r\33[K", invocation->errors);
			render_progress(now, invocation->errors);
			fflush(invocation->errors);
		}
		json_decref(status);
		usleep(POLL_US);
	}
	if (terminal)
		fputs("\r\33[K", invocation->errors);
	return status;
}

int run_checkpoint_save(const struct invocation *invocation)
{
	const char *kind = invocation->argc ? invocation->argv[0] : "auto";
	struct star_error err = { 0 };
	struct jsonrpc_client *client = open_node(invocation, true, &err);
	json_t *asked = NULL, *status = NULL;
	const char *error;

	if (client)
		asked = jsonrpc_call(client, "checkpoint_save", json_pack("{s:s}", "kind", kind), STARCTL_CALL_US,
				     &err);
	if (asked)
		status = wait_written(invocation, client, &err);
	json_decref(asked);
	jsonrpc_close(client);
	if (!status)
		return fail(invocation, &err, STARCTL_FAILED);
	error = json_string_value(json_object_get(status, "error"));
	if (error && error[0]) {
		star_error_set(&err, -EIO, "there is no new checkpoint: %s", error);
		json_decref(status);
		return fail(invocation, &err, STARCTL_FAILED);
	}
	if (invocation->json)
		print_json(json_incref(json_object_get(status, "last")), invocation->out);
	else
		render_last(json_object_get(status, "last"), invocation->out);
	json_decref(status);
	return STARCTL_OK;
}

int run_checkpoint_status(const struct invocation *invocation)
{
	return show(invocation, "checkpoint_status", NULL, render_checkpoints);
}
