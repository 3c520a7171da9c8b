/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "app/starctl/starctl.h"
#include "base/clock.h"
#include "config/config.h"
#include "jsonrpc/jsonrpc.h"

enum { WATCH_S = 1, GONE_POLL_US = 20000 };

void print_json(json_t *json, FILE *out)
{
	json_dumpf(json, out, JSON_INDENT(2) | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
	fputc('\n', out);
	fflush(out);
	json_decref(json);
}

int fail(const struct invocation *invocation, const struct star_error *err, int status)
{
	if (invocation->json)
		print_json(json_pack("{s:s, s:i}", "error", err->text, "errno", -err->code), invocation->out);
	fprintf(invocation->errors, "starctl: ");
	print_text(err->text, invocation->errors);
	fprintf(invocation->errors, "\n");
	return status;
}

struct jsonrpc_client *connect_node(const char *address, uint64_t timeout_us, struct star_error *err)
{
	return jsonrpc_connect_by(getenv(STARCTL_KEY), address, timeout_us, err);
}

struct jsonrpc_client *open_node(const struct invocation *invocation, bool may_guess, struct star_error *err)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	const char *node = choose_node(invocation, may_guess, path, sizeof(path), err);

	return node ? connect_node(node, STARCTL_CALL_US, err) : NULL;
}

json_t *ask_within(const struct invocation *invocation, const char *method, json_t *params, uint64_t timeout_us,
		   struct star_error *err)
{
	struct jsonrpc_client *client = open_node(invocation, true, err);
	json_t *result = NULL;

	if (client)
		result = jsonrpc_call(client, method, params, timeout_us, err);
	else
		json_decref(params);
	jsonrpc_close(client);
	return result;
}

json_t *ask(const struct invocation *invocation, const char *method, json_t *params, struct star_error *err)
{
	return ask_within(invocation, method, params, STARCTL_CALL_US, err);
}

int print(const struct invocation *invocation, json_t *result, void (*render)(const json_t *, FILE *))
{
	if (invocation->json) {
		print_json(result, invocation->out);
		return STARCTL_OK;
	}
	render(result, invocation->out);
	json_decref(result);
	return STARCTL_OK;
}

int show(const struct invocation *invocation, const char *method, json_t *params,
	 void (*render)(const json_t *, FILE *))
{
	struct star_error err = { 0 };
	json_t *result = ask(invocation, method, params, &err);

	return result ? print(invocation, result, render) : fail(invocation, &err, STARCTL_FAILED);
}

/* Until Ctrl-C, or until the node is gone. */
static int watch_status(const struct invocation *invocation)
{
	const bool terminal = isatty(fileno(invocation->out));
	struct star_error err = { 0 };
	struct jsonrpc_client *client = open_node(invocation, true, &err);
	json_t *status = NULL;

	while (client && (status = jsonrpc_call(client, "status", NULL, STARCTL_CALL_US, &err))) {
		if (invocation->json) {
			json_dumpf(status, invocation->out, JSON_COMPACT);
		} else {
			if (terminal)
				fprintf(invocation->out, "\033[H\033[2J");
			render_status(status, invocation->out);
		}
		fputc('\n', invocation->out);
		json_decref(status);
		if (fflush(invocation->out) != 0)
			break;
		sleep(WATCH_S);
	}
	jsonrpc_close(client);
	if (client && status)
		return STARCTL_FAILED; /* the reader has gone */
	return fail(invocation, &err, STARCTL_FAILED);
}

static unsigned report_silence(const struct invocation *invocation, size_t task, const json_t *node)
{
	const char *since = json_string_value(json_object_get(node, "away_since"));
	char text[24];

	if (!json_is_true(json_object_get(node, "away")))
		return 0;
	fprintf(invocation->errors, "starctl: PS task %zu is away: nothing was heard of it for %s, since ", task,
		human_time(json_number_value(json_object_get(node, "silent_ms")) / 1000, text));
	print_text(since ? since : "?", invocation->errors);
	fputc('\n', invocation->errors);
	return 1;
}

/* Reports nodes that PS task 0 has not heard of for some time, and PS task 0 itself if another node is asked; returns
 * their number. */
static unsigned report_away(const struct invocation *invocation, const json_t *status)
{
	const json_t *leader = json_object_get(status, "leader"), *node;
	unsigned away = report_silence(invocation, 0, leader);
	size_t task;

	json_array_foreach(json_object_get(status, "nodes"), task, node)
	{
		away += report_silence(invocation, task, node);
	}
	return away;
}

int run_status(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	unsigned away;
	json_t *status;
	int rc;

	if (invocation->watch)
		return watch_status(invocation);
	status = ask(invocation, "status", NULL, &err);
	if (!status)
		return fail(invocation, &err, STARCTL_FAILED);
	away = report_away(invocation, status);
	rc = print(invocation, status, render_status);
	return away ? STARCTL_FAILED : rc;
}

int run_connections(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	json_t *params = connection_filters(invocation->argc, invocation->argv, &err);

	return params ? show(invocation, "connections", params, render_connections)
		      : fail(invocation, &err, STARCTL_USAGE);
}

int run_counters(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	json_t *status = ask(invocation, "status", NULL, &err), *sums;

	if (!status)
		return fail(invocation, &err, STARCTL_FAILED);
	sums = sum_counters(status);
	json_decref(status);
	return print(invocation, sums, render_counters);
}

int run_endpoint_map(const struct invocation *invocation)
{
	return show(invocation, "endpoint_map", NULL, render_endpoints);
}

static struct config_address_text address_text(const struct config_address *address)
{
	return config_show(address->host, address->port);
}

/* A map has no roles. A loopback address is right for a worker, and for a PS task on the kernel's sockets; no task can
 * have another one that only the kernel owns. */
static int check_owners(const struct config_endpoint *endpoints, uint32_t count, const char *file, FILE *out,
			struct star_error *err)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct config_endpoint *e = &endpoints[i];
		const char *why = config_address_kernel_owned(e->data.host);

		if (why && strcmp(why, "loopback") != 0)
			return star_error_set(err, -EINVAL,
					      "%s: the data address %s of %s is %s: write an address that the node's "
					      "machine or port has, as in %s=198.18.0.1:%u",
					      file, address_text(&e->data).text, address_text(&e->control).text, why,
					      address_text(&e->control).text, e->data.port);
		if (why && out)
			fprintf(out,
				"note: the data address %s of %s is %s: a PS task can have it with network.stack = "
				"\"kernel\", but not with DPDK's ports\n",
				address_text(&e->data).text, address_text(&e->control).text, why);
	}
	return 0;
}

int run_endpoint_map_check(const struct invocation *invocation)
{
	const char *file = invocation->argv[0];
	struct config_endpoint *endpoints = NULL;
	struct star_error err = { 0 };
	uint32_t count = 0;
	json_t *list;

	if (config_read_endpoint_map(file, &endpoints, &count, &err) < 0)
		return fail(invocation, &err, STARCTL_USAGE);
	if (check_owners(endpoints, count, file, invocation->json ? NULL : invocation->out, &err) < 0) {
		free(endpoints);
		return fail(invocation, &err, STARCTL_USAGE);
	}
	list = json_array();
	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(list, json_pack("{s:s, s:s}", "control", address_text(&endpoints[i].control).text,
						      "data", address_text(&endpoints[i].data).text));
	free(endpoints);
	if (invocation->json) {
		print_json(json_pack("{s:s, s:b, s:o}", "file", file, "ok", true, "endpoints", list), invocation->out);
		return STARCTL_OK;
	}
	render_endpoints(list, invocation->out);
	json_decref(list);
	fprintf(invocation->out, "%s is correct: %u endpoint%s\n", file, count, count == 1 ? "" : "s");
	return STARCTL_OK;
}

int run_config_check(const struct invocation *invocation)
{
	const char *file = invocation->argv[0];
	struct star_error err = { 0 };
	struct config *config = config_load(file, NULL, 0, &err);

	if (!config)
		return fail(invocation, &err, STARCTL_USAGE);
	config_free(config);
	if (invocation->json)
		print_json(json_pack("{s:s, s:b}", "file", file, "ok", true), invocation->out);
	else
		fprintf(invocation->out, "%s is correct\n", file);
	return STARCTL_OK;
}

int run_config_print(const struct invocation *invocation)
{
	const char *file = invocation->argv[0];
	struct star_error err = { 0 };
	struct config *config = config_load(file, NULL, 0, &err);
	char *text = NULL;
	size_t bytes;
	FILE *memory;

	if (!config)
		return fail(invocation, &err, STARCTL_USAGE);
	memory = open_memstream(&text, &bytes);
	if (memory) {
		config_print(config, memory);
		fclose(memory);
	}
	if (text && invocation->json)
		print_json(json_pack("{s:s, s:s}", "file", file, "config", text), invocation->out);
	else if (text)
		fputs(text, invocation->out);
	free(text);
	config_free(config);
	return text ? STARCTL_OK : STARCTL_FAILED;
}

/* Waits until the process has ended; or, if it cannot be seen (another namespace), until its socket is gone. */
static bool wait_gone(int pid_fd, const char *node)
{
	const uint64_t until_us = clock_us() + STARCTL_WAIT_US;
	struct pollfd process = { .fd = pid_fd, .events = POLLIN };

	if (pid_fd >= 0)
		return poll(&process, 1, STARCTL_WAIT_US / 1000) == 1;
	while (clock_us() < until_us) {
		struct jsonrpc_client *client = connect_node(node, STARCTL_CALL_US, NULL);

		if (!client)
			return true;
		jsonrpc_close(client);
		usleep(GONE_POLL_US);
	}
	return false;
}

static int stop(const struct invocation *invocation, const char *node, struct jsonrpc_client *client)
{
	struct star_error err = { 0 };
	const pid_t pid = jsonrpc_peer(client);
	/* Opened before the shutdown, so that the number cannot refer to another process later. */
	const int pid_fd = pid > 0 ? pidfd_open(pid, 0) : -1;
	json_t *result = jsonrpc_call(client, "shutdown", NULL, STARCTL_CALL_US, &err);
	int exit_status = STARCTL_OK;

	if (!result) {
		exit_status = fail(invocation, &err, STARCTL_FAILED);
	} else if (!wait_gone(pid_fd, node)) {
		star_error_set(
			&err, -ETIMEDOUT,
			"the node (process %d) is still there after %d s; `kill -9 %d` ends it, without a checkpoint",
			pid, STARCTL_WAIT_US / 1000000, pid);
		exit_status = fail(invocation, &err, STARCTL_FAILED);
	} else if (invocation->json) {
		print_json(json_pack("{s:b, s:I}", "stopped", true, "pid", (json_int_t)pid), invocation->out);
	} else {
		fprintf(invocation->out, "the node has stopped\n");
	}
	if (pid_fd >= 0)
		close(pid_fd);
	json_decref(result);
	return exit_status;
}

int run_shutdown(const struct invocation *invocation)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct star_error err = { 0 };
	const char *node = choose_node(invocation, false, path, sizeof(path), &err);
	struct jsonrpc_client *client = node ? connect_node(node, STARCTL_CALL_US, &err) : NULL;
	int exit_status;

	if (!client)
		return fail(invocation, &err, node || err.code == -ENOENT ? STARCTL_FAILED : STARCTL_USAGE);
	exit_status = stop(invocation, node, client);
	jsonrpc_close(client);
	return exit_status;
}
