/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints of a running cluster. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#include "app/starctl/starctl.h"
#include "jsonrpc/jsonrpc.h"

enum { POLL_US = 100000 };

static double save_number(const json_t *json, const char *name)
{
	return json_number_value(json_object_get(json, name));
}

static void render_progress(const json_t *now, FILE *out)
{
	const double rows = save_number(now, "rows"), left = save_number(now, "left");
	char count[24], bytes[24];

	fprintf(out, "checkpoint %.0f (%s): %s rows, %s, %.0f %%", save_number(now, "id"),
		json_is_true(json_object_get(now, "delta")) ? "delta" : "full", human_count(rows, count),
		human_bytes(save_number(now, "bytes"), bytes), rows + left > 0 ? 100 * rows / (rows + left) : 0);
}

static void render_last(const json_t *last, FILE *out)
{
	char count[24], bytes[24], time[24];

	fprintf(out, "checkpoint %.0f (%s): %s rows, %s in %s\n", save_number(last, "id"),
		json_is_true(json_object_get(last, "delta")) ? "delta" : "full",
		human_count(save_number(last, "rows"), count), human_bytes(save_number(last, "bytes"), bytes),
		human_time(save_number(last, "seconds"), time));
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
	fprintf(out, "\nwritten    %.0f since PS task 0 started; %.0f failed\n", save_number(status, "saved"),
		save_number(status, "failed"));
	if (last) {
		fprintf(out, "last       ");
		render_last(last, out);
	}
	if (now) {
		fprintf(out, "now        ");
		render_progress(now, out);
		fprintf(out, ", %.0f rows copied, %.0f pushes waited\n", save_number(now, "copied"),
			save_number(now, "waited"));
	}
	if (error && error[0]) {
		fprintf(out, "error      ");
		print_text(error, out);
		fputc('\n', out);
	}
}

/* The outcome of the attempt with that number; NULL: it has not ended, or is no longer known. */
static json_t *find_end(const json_t *status, json_int_t asked)
{
	const json_t *ended = json_object_get(status, "ended");
	json_t *end;
	size_t i;

	json_array_foreach(ended, i, end) if (json_integer_value(json_object_get(end, "asked")) == asked) return end;
	return NULL;
}

/* Polls until the attempt with that number has ended (0: until no checkpoint is being written); shows the progress on a
 * terminal. */
static json_t *wait_written(const struct invocation *invocation, struct jsonrpc_client *client, json_int_t asked,
			    struct star_error *err)
{
	const bool terminal = isatty(fileno(invocation->errors)) && !invocation->json;
	json_t *status;

	while ((status = jsonrpc_call(client, "checkpoint_status", NULL, STARCTL_CALL_US, err))) {
		const json_t *now = json_object_get(status, "now");

		if (!json_is_true(json_object_get(status, "writing")) || (asked && find_end(status, asked)))
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

json_t *wait_saved(const struct invocation *invocation, struct jsonrpc_client *client, struct star_error *err)
{
	json_t *status = wait_written(invocation, client, 0, err);
	const char *error = json_string_value(json_object_get(status, "error"));

	if (!error || !error[0])
		return status;
	star_error_set(err, -EIO, "there is no new checkpoint: %s", error);
	json_decref(status);
	return NULL;
}

int run_checkpoint_save(const struct invocation *invocation)
{
	const char *kind = invocation->argc ? invocation->argv[0] : "auto";
	struct star_error err = { 0 };
	struct jsonrpc_client *client = open_node(invocation, true, &err);
	json_t *asked = NULL, *status = NULL, *end;
	json_int_t number = 0;

	if (client)
		asked = jsonrpc_call(client, "checkpoint_save", json_pack("{s:s}", "kind", kind), STARCTL_CALL_US,
				     &err);
	if (asked) {
		number = json_integer_value(json_object_get(asked, "asked"));
		status = wait_written(invocation, client, number, &err);
	}
	json_decref(asked);
	jsonrpc_close(client);
	/* The outcome of this one, not of another one that was requested since. */
	end = find_end(status, number);
	if (status && !end)
		star_error_set(&err, -ENOENT,
			       "the outcome of this save is unknown: others have been requested since. See starctl "
			       "checkpoint list");
	else if (json_object_get(end, "error"))
		star_error_set(&err, -EIO, "there is no new checkpoint: %s",
			       json_string_value(json_object_get(end, "error")));
	else if (status)
		json_object_del(end, "asked");
	if (!status || err.code) {
		json_decref(status);
		return fail(invocation, &err, STARCTL_FAILED);
	}
	if (invocation->json)
		print_json(json_incref(end), invocation->out);
	else
		render_last(end, invocation->out);
	json_decref(status);
	return STARCTL_OK;
}

/* Polls PS task 0 once; it may be gone for a while. NULL: there is nothing new; otherwise its status if it serves again
 * (*back), or if it reports why it cannot. */
static json_t *look_back(const char *node, json_int_t before, bool *back, struct star_error *err)
{
	struct jsonrpc_client *client = connect_node(node, STARCTL_CALL_US, err);
	json_t *own = client ? jsonrpc_call(client, "status", NULL, STARCTL_CALL_US, err) : NULL;
	json_t *layout = own ? jsonrpc_call(client, "layout", NULL, STARCTL_CALL_US, err) : NULL;
	json_t *status = own ? jsonrpc_call(client, "checkpoint_status", NULL, STARCTL_CALL_US, err) : NULL;

	*back = own && json_integer_value(json_object_get(own, "incarnation")) != before;
	if (status && (*back ? !layout : json_is_true(json_object_get(status, "restoring")))) {
		json_decref(status);
		status = NULL;
	}
	json_decref(own);
	json_decref(layout);
	jsonrpc_close(client);
	return status;
}

/* Waits as long as PS task 0 exists; returns the checkpoint to which it has rolled back, or NULL with the reason why it
 * has not. */
static json_t *wait_back(const char *node, pid_t pid, json_int_t before, struct star_error *err)
{
	const char *why;
	json_t *status, *id;
	bool back;

	while (!(status = look_back(node, before, &back, err))) {
		if (kill(pid, 0) < 0 && errno == ESRCH) {
			star_error_set(err, -ESRCH, "PS task 0 (process %d) has ended: see its log", (int)pid);
			return NULL;
		}
		usleep(POLL_US);
	}
	id = back ? json_incref(json_object_get(status, "gone_back_to")) : NULL;
	why = json_string_value(json_object_get(status, "error")); /* "" again after the next checkpoint */
	if (!id)
		star_error_set(err, -EIO, "the cluster cannot roll back: %s",
			       back	       ? "PS task 0 was restarted for another reason"
			       : why && why[0] ? why
					       : "see the log of PS task 0");
	json_decref(status);
	return id;
}

/* "7"; 0: none; -1: it is not an id. */
static json_int_t parse_id(const struct invocation *invocation)
{
	char *end;
	long long id;

	if (!invocation->argc)
		return 0;
	id = strtoll(invocation->argv[0], &end, 10);
	return *end || id < 1 ? -1 : id;
}

int run_checkpoint_restore(const struct invocation *invocation)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct star_error err = { 0 };
	const json_int_t id = parse_id(invocation);
	const char *node = choose_node(invocation, false, path, sizeof(path), &err);
	struct jsonrpc_client *client = node ? connect_node(node, STARCTL_CALL_US, &err) : NULL;
	json_t *own = NULL, *asked = NULL, *back = NULL;

	if (id < 0) {
		star_error_set(&err, -EINVAL, "\"%.60s\" is not the id of a checkpoint, such as 7",
			       invocation->argv[0]);
		jsonrpc_close(client);
		return fail(invocation, &err, STARCTL_USAGE);
	}
	if (client)
		own = jsonrpc_call(client, "status", NULL, STARCTL_CALL_US, &err);
	if (own)
		asked = jsonrpc_call(client, "checkpoint_restore", id ? json_pack("{s:I}", "id", id) : json_object(),
				     STARCTL_CALL_US, &err);
	jsonrpc_close(client);
	if (asked)
		back = wait_back(node, (pid_t)json_integer_value(json_object_get(own, "pid")),
				 json_integer_value(json_object_get(asked, "incarnation")), &err);
	json_decref(own);
	json_decref(asked);
	if (!back)
		return fail(invocation, &err, node ? STARCTL_FAILED : STARCTL_USAGE);
	if (invocation->json) {
		print_json(json_pack("{s:o}", "gone_back_to", back), invocation->out);
	} else {
		fprintf(invocation->out, "all nodes have rolled back to checkpoint %.0f\n", json_number_value(back));
		json_decref(back);
	}
	return STARCTL_OK;
}

int run_checkpoint_status(const struct invocation *invocation)
{
	return show(invocation, "checkpoint_status", NULL, render_checkpoints);
}
