/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `starctl rolling-restart`: restarts all nodes of a cluster, one after the other, while it serves: each standby, then
 * its primary, whose place the standby has taken by then. Each next step follows from the nodes' answers, so an
 * interrupted restart continues when it is started again. It stops at the first problem.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app/starctl/rolling.h"
#include "base/clock.h"
#include "config/config.h"
#include "jsonrpc/member.h"
#include "wire/frame.h"

enum { LOOK_AGAIN_US = 200000, TIMEOUT_S = 600, TIMEOUT_MAX_S = 86400, PROMOTE_US = 80000000, STEPS_MAX = 6 };

#define RESTART "ssh {host} sudo systemctl restart \"'starserver@*'\""
#define PROMOTE "ssh {host} sudo starctl promote"

static const struct {
	const char *name;
	bool is_switch;
} rolling_options[] = { { "restart", false }, { "promote", false }, { "timeout", false },    { "allow-restart", false },
			{ "state", false },   { "dry-run", true },  { "from-scratch", true } };

enum { OPTIONS = sizeof(rolling_options) / sizeof(rolling_options[0]) };

bool rolling_option_is_switch(const char *name)
{
	for (unsigned i = 0; i < OPTIONS; i++)
		if (strcmp(name, rolling_options[i].name) == 0)
			return rolling_options[i].is_switch;
	return false;
}

void print_rolling_options(FILE *out)
{
	for (unsigned i = 0; i < OPTIONS; i++)
		fprintf(out, "--%s\n", rolling_options[i].name);
}

/* ---- output ---- */

/* Reports a step: a line of text, or a JSON object. */
static void __attribute__((format(printf, 5, 6)))
tell_step(const struct rolling *rolling, unsigned task, const char *node, const char *step, const char *format, ...)
{
	FILE *out = rolling->invocation->out;
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (rolling->invocation->json) {
		json_t *line = json_pack("{s:i, s:s, s:s, s:o}", "task", (int)task, "node", node, "step", step, "text",
					 jsonrpc_member_from_text(text));

		json_dumpf(line, out, JSON_COMPACT);
		json_decref(line);
	} else {
		fprintf(out, "ps:%u %s: ", task, node);
		print_text(text, out);
	}
	fputc('\n', out);
	fflush(out);
}

/* Stops: reports what is wrong, and what to do next. */
static int stop(const struct rolling *rolling, const struct star_error *err)
{
	FILE *errors = rolling->invocation->errors;

	if (rolling->invocation->json) {
		json_t *line =
			json_pack("{s:s, s:o, s:s, s:i}", "result", "stopped", "why",
				  jsonrpc_member_from_text(err->text), "next", rolling->next, "errno", -err->code);

		json_dumpf(line, rolling->invocation->out, JSON_COMPACT);
		fputc('\n', rolling->invocation->out);
		fflush(rolling->invocation->out);
		json_decref(line);
	}
	fputs("starctl: stopped: ", errors);
	print_text(err->text, errors);
	fputs("\nstarctl: next: ", errors);
	print_text(rolling->next, errors);
	fputc('\n', errors);
	return STARCTL_FAILED;
}

/* ---- waiting ---- */

static const char *after(uint64_t since_us, char text[static 24])
{
	return human_time((double)(clock_us() - since_us) / 1e6, text);
}

static json_int_t pair_version(const json_t *status)
{
	return json_integer_value(json_object_get(json_object_get(status, "pair"), "version"));
}

/* Detects problems that waiting does not solve. */
static int check_hope(struct rolling *rolling, unsigned task, unsigned node, const struct rolling_look *look,
		      struct star_error *err)
{
	const struct rolling_node *nodes = rolling->tasks[task].nodes;
	const json_t *status = look->status[node], *other;
	json_int_t mine, its;

	if (rolling->tasks[task].count == 1)
		return 0;
	other = look->status[1 - node];
	if (other && strcmp(rolling_pair_text(other, "role"), "primary") != 0)
		return star_error_set(err, -EREMOTEIO, "PS task %u: %s was the primary, and is now %s (%s)", task,
				      nodes[1 - node].control, rolling_pair_text(other, "role"),
				      rolling_pair_text(other, "why"));
	mine = pair_version(status);
	its = pair_version(other);
	if (status && other && mine && its && mine != its) {
		rolling->next =
			"install the former release on that node again and restart it: the cluster serves, without "
			"that standby; to change to the other release, stop all nodes (docs/maintenance.rst, Upgrade)";
		return star_error_set(
			err, -EPROTONOSUPPORT,
			"PS task %u: %s speaks version %lld between the nodes of a pair, and %s, which serves, version "
			"%lld: they are not a pair, and these two releases cannot replace each other node by node",
			task, nodes[node].control, (long long)mine, nodes[1 - node].control, (long long)its);
	}
	return 0;
}

/* Waits until the node is another process, and its task is complete. */
static int wait_restarted(struct rolling *rolling, unsigned task, unsigned node, struct star_error *err)
{
	const uint64_t since_us = clock_us();
	const char *control = rolling->tasks[task].nodes[node].control;
	char why[ROLLING_WHY], text[24];
	int rc = -EAGAIN;

	while (rc == -EAGAIN) {
		struct rolling_look look;
		bool done;

		rolling_look(rolling, task, &look);
		done = rolling_is_done(rolling, task, node, &look);
		if (done && rolling_is_whole(rolling, task, &look)) {
			const char *version = json_string_value(json_object_get(look.status[node], "version"));

			tell_step(rolling, task, control, "restarted", "%s, of version %s, after %s",
				  rolling->tasks[task].count == 2 ? "it is up to date again" : "it serves again",
				  version ? version : "?", after(since_us, text));
			rc = 0;
		} else {
			rc = check_hope(rolling, task, node, &look, err);
			rc = rc ? rc : -EAGAIN;
		}
		if (rc == -EAGAIN && clock_us() - since_us > rolling->timeout_us) {
			rolling_explain(rolling, task, &look, why);
			rc = star_error_set(err, -ETIMEDOUT, "PS task %u: %s %s, %llu s after its restart: %s", task,
					    control,
					    look.status[node] && !done	      ? "is still the same process"
					    : rolling->tasks[task].count == 2 ? "is not an up-to-date standby"
									      : "does not serve",
					    (unsigned long long)(rolling->timeout_us / 1000000), why);
		}
		rolling_look_end(&look);
		if (rc == -EAGAIN)
			usleep(LOOK_AGAIN_US);
	}
	return rc;
}

/* Waits until that node of a pair serves, and the other one does not. */
static int wait_switched(const struct rolling *rolling, unsigned task, unsigned node, struct star_error *err)
{
	const uint64_t since_us = clock_us();
	char why[ROLLING_WHY];

	for (;;) {
		struct rolling_look look;
		bool serves;

		rolling_look(rolling, task, &look);
		serves = look.primary == (int)node && look.status[1 - node];
		rolling_explain(rolling, task, &look, why);
		rolling_look_end(&look);
		if (serves)
			return 0;
		if (clock_us() - since_us > rolling->timeout_us)
			return star_error_set(err, -ETIMEDOUT, "PS task %u: %s has not taken its primary's place: %s",
					      task, rolling->tasks[task].nodes[node].control, why);
		usleep(LOOK_AGAIN_US);
	}
}

/* ---- steps ---- */

static int run_for(const struct rolling *rolling, unsigned task, unsigned node, const char *command, const char *step,
		   const char *what, struct star_error *err)
{
	const char *control = rolling->tasks[task].nodes[node].control;
	char *text = rolling_command_for(command, control, task, err);
	int rc = text ? 0 : err->code;

	if (rc == 0) {
		tell_step(rolling, task, control, step, "%s: %s", what, text);
		rc = rolling_command_run(rolling, text, err);
	}
	free(text);
	return rc;
}

static int restart(struct rolling *rolling, unsigned task, unsigned node, struct star_error *err)
{
	int rc;

	rolling->next = "read the log of that node, and start it, with the former release if necessary: the others "
			"serve meanwhile; then run this again, it continues where it stopped";
	rc = run_for(rolling, task, node, rolling->restart, "restart",
		     rolling->tasks[task].count == 2 ? "restarting the standby" : "restarting the only node", err);

	return rc ? rc : wait_restarted(rolling, task, node, err);
}

/* Makes the standby the primary. */
static int switch_to(struct rolling *rolling, unsigned task, unsigned node, struct star_error *err)
{
	const char *control = rolling->tasks[task].nodes[node].control;
	const uint64_t since_us = clock_us();
	struct jsonrpc_client *client;
	json_t *result = NULL;
	char text[24];
	int rc;

	rolling->next = "one of the two serves (starctl health, on both): solve the problem above, and run this again, "
			"it continues where it stopped";
	if (rolling->promote) {
		rc = run_for(rolling, task, node, rolling->promote, "switch", "it is told to serve", err);
	} else {
		tell_step(rolling, task, control, "switch", "it is told to serve");
		client = connect_node(control, STARCTL_CALL_US, err);
		result = client ? jsonrpc_call(client, "promote", NULL, PROMOTE_US, err) : NULL;
		jsonrpc_close(client);
		rc = result ? 0 : err->code;
		json_decref(result);
	}
	if (rc == 0)
		rc = wait_switched(rolling, task, node, err);
	if (rc == 0)
		tell_step(rolling, task, control, "switched", "it serves, after %s", after(since_us, text));
	return rc;
}

/* Takes the next step of a task: 1. 0: there was none. */
static int take_step(struct rolling *rolling, unsigned task, struct star_error *err)
{
	const struct rolling_task *of = &rolling->tasks[task];
	struct rolling_look look;
	char why[ROLLING_WHY];
	bool done[2];
	unsigned primary, standby;
	int rc = 0;

	rolling_look(rolling, task, &look);
	rolling_explain(rolling, task, &look, why);
	for (unsigned i = 0; i < 2; i++)
		done[i] = i >= of->count || rolling_is_done(rolling, task, i, &look);
	rolling_look_end(&look);
	rolling->next = "find out which node should serve (starctl health, on both), and run this again";
	if (look.primary < 0)
		return star_error_set(err, -EREMOTEIO, "PS task %u: not exactly one node serves: %s", task, why);
	primary = (unsigned)look.primary;
	standby = 1 - primary;
	if (done[0] && done[1])
		return 0;
	if (of->count == 1)
		rc = restart(rolling, task, primary, err);
	else if (done[standby])
		rc = switch_to(rolling, task, standby, err);
	else
		rc = restart(rolling, task, standby, err);
	return rc < 0 ? rc : 1;
}

static int roll_task(struct rolling *rolling, unsigned task, struct star_error *err)
{
	for (unsigned step = 0; step < STEPS_MAX; step++) {
		const int rc = take_step(rolling, task, err);

		if (rc <= 0)
			return rc;
	}
	return star_error_set(err, -EREMOTEIO, "PS task %u: its nodes keep changing roles", task);
}

/* ---- checks before anything is done ---- */

static bool is_allowed(const struct rolling *rolling, unsigned task)
{
	const char *at = rolling->allowed;

	while (at && *at) {
		char *end;

		if (strtoul(at, &end, 10) == task)
			return true;
		at = *end ? end + 1 : end;
	}
	return false;
}

/* Refuses what workers would notice. */
static int refuse_alone(struct rolling *rolling, unsigned task, struct star_error *err)
{
	rolling->next = "give the task a standby (docs/availability.rst), or allow it; nothing has been done";
	return star_error_set(
		err, -EPERM,
		"PS task %u has no standby: requests to it wait until its node is back, as long as their deadlines "
		"allow; without a journal it starts from its last checkpoint (a current one with checkpoint.on_stop), "
		"and workers open the cluster again (-ESTALE). --allow-restart %u allows it",
		task, task);
}

/* Waits for a pair that is being formed. */
static int check_task(struct rolling *rolling, unsigned task, struct star_error *err)
{
	const uint64_t since_us = clock_us();
	char why[ROLLING_WHY];

	if (rolling->tasks[task].count == 1 && !is_allowed(rolling, task))
		return refuse_alone(rolling, task, err);
	rolling->next =
		"starctl health, on the nodes of that task, says more; run this again when it reports no problem";
	for (;;) {
		struct rolling_look look;
		bool whole, made;

		rolling_look(rolling, task, &look);
		whole = rolling_is_whole(rolling, task, &look);
		made = look.untold ||
		       (look.primary >= 0 && rolling->tasks[task].count == 2 && look.status[1 - look.primary] &&
			strcmp(rolling_pair_text(look.status[look.primary], "state"), "syncing") == 0);
		rolling_explain(rolling, task, &look, why);
		rolling_look_end(&look);
		if (whole)
			return 0;
		if (!made || clock_us() - since_us > rolling->timeout_us)
			return star_error_set(err, -EAGAIN, "PS task %u %s: %s", task,
					      rolling->tasks[task].count == 1 ? "is not well"
									      : "has no up-to-date standby",
					      why);
		usleep(LOOK_AGAIN_US);
	}
}

/* The default commands affect all nodes of a machine. */
static int check_machines(const struct rolling *rolling, struct star_error *err)
{
	struct config_address a, b;

	if (strcmp(rolling->restart, RESTART) != 0 && (!rolling->promote || strcmp(rolling->promote, PROMOTE) != 0))
		return 0;
	for (unsigned i = 0; i < 2 * rolling->count; i++)
		for (unsigned j = 0; j < i; j++)
			if (config_parse_address(rolling->tasks[i / 2].nodes[i % 2].control, &a, NULL) == 0 &&
			    config_parse_address(rolling->tasks[j / 2].nodes[j % 2].control, &b, NULL) == 0 &&
			    strcmp(a.host, b.host) == 0)
				return star_error_set(
					err, -EINVAL,
					"%s and %s are on one machine, and the usual commands restart all nodes of "
					"one: give --restart and --promote with {control} or {task}, as in --restart "
					"'ssh {host} sudo systemctl restart starserver@ps{task}'",
					rolling->tasks[j / 2].nodes[j % 2].control,
					rolling->tasks[i / 2].nodes[i % 2].control);
	return 0;
}

static int check_all(struct rolling *rolling, struct star_error *err)
{
	int rc = check_machines(rolling, err);

	for (unsigned task = 0; rc == 0 && task < rolling->count; task++) {
		for (unsigned i = 0; rc == 0 && i < rolling->tasks[task].count; i++) {
			char *text = rolling->tasks[task].nodes[i].control[0]
					     ? rolling_command_for(rolling->restart,
								   rolling->tasks[task].nodes[i].control, task, err)
					     : NULL;

			rc = text || !rolling->tasks[task].nodes[i].control[0] ? 0 : err->code;
			free(text);
		}
		if (rc == 0)
			rc = check_task(rolling, task, err);
	}
	return rc;
}

/* ---- the plan ---- */

static void note_time(struct rolling *rolling)
{
	const time_t now = time(NULL);
	char text[32] = "?";
	struct tm parts;

	if (gmtime_r(&now, &parts))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
	rolling->begun = json_string(text);
}

/* From the nodes' answers, or from the file of an interrupted restart. */
static int make_plan(struct rolling *rolling, struct star_error *err)
{
	struct rolling found = *rolling;
	int rc = rolling_find_nodes(&found, err);

	found.fd = -1;
	if (rc == 0 && !found.file[0])
		rc = rolling_name_file(&found, err);
	memcpy(rolling->file, found.file, sizeof(rolling->file));
	if (rc == 0)
		rc = rolling_plan_open(rolling, err);
	if (rc > 0 && !rolling_are_same(&found, rolling))
		rc = star_error_set(err, -EINVAL,
				    "the cluster has other nodes than when the rolling restart in %s began (%s): "
				    "--from-scratch ignores that",
				    rolling->file, json_string_value(rolling->begun));
	if (rc > 0) {
		fprintf(rolling->invocation->errors,
			"starctl: continuing the rolling restart of %s (%s): %u of %u nodes have been restarted\n",
			json_string_value(rolling->begun), rolling->file, rolling_count(rolling, true),
			rolling_count(rolling, false));
		rc = 0;
	} else if (rc == 0) {
		rolling->tasks = found.tasks;
		rolling->count = found.count;
		found.tasks = NULL;
		note_time(rolling);
		rc = check_all(rolling, err);
		if (rc == 0)
			rc = rolling_find_standbys(rolling, err);
		return rc == 0 && !rolling->dry ? rolling_plan_write(rolling, err) : rc;
	}
	free(found.tasks);
	return rc == 0 ? check_all(rolling, err) : rc;
}

/* ---- all of it ---- */

/* Prints what would be done. */
static int show_plan(const struct rolling *rolling, struct star_error *err)
{
	int rc = 0;

	for (unsigned task = rolling->count; rc == 0 && task-- > 0;) {
		struct rolling_look look;

		rolling_look(rolling, task, &look);
		for (unsigned k = 0; rc == 0 && k < rolling->tasks[task].count; k++) {
			/* The standby comes first. */
			const unsigned i = rolling->tasks[task].count == 1 ? 0 : look.primary == 0 ? 1 - k : k;
			const char *control = rolling->tasks[task].nodes[i].control;
			char *text = rolling_command_for(rolling->restart, control, task, err);

			if (!text)
				rc = err->code;
			else if (rolling_is_done(rolling, task, i, &look))
				tell_step(rolling, task, control, "done", "it has been restarted");
			else
				tell_step(rolling, task, control, "restart", "%sit would be restarted: %s",
					  k ? "when the other one serves " : "", text);
			free(text);
		}
		rolling_look_end(&look);
	}
	return rc;
}

static int roll(struct rolling *rolling, struct star_error *err)
{
	int rc = make_plan(rolling, err);

	if (rc == 0 && rolling->dry)
		return show_plan(rolling, err);
	/* PS task 0, which the others ask, is the last one. */
	for (unsigned task = rolling->count; rc == 0 && task-- > 0;)
		rc = roll_task(rolling, task, err);
	if (rc == 0)
		rolling_plan_end(rolling);
	return rc;
}

/* An empty item between commas does not mean task 0. */
static bool is_list_of_tasks(const char *text)
{
	for (;; text++) {
		char *end;

		if (*text < '0' || *text > '9' || strtoul(text, &end, 10) >= WIRE_NODES_MAX || (*end && *end != ','))
			return false;
		if (!*end)
			return true;
		text = end;
	}
}

static int take_rolling_option(struct rolling *rolling, const struct option_word *option, struct star_error *err)
{
	unsigned long seconds;
	char *end;

	if (strcmp(option->name, "restart") == 0) {
		rolling->restart = option->value;
		return rolling_command_check(option->name, option->value, err);
	} else if (strcmp(option->name, "promote") == 0) {
		rolling->promote = option->value;
		return rolling_command_check(option->name, option->value, err);
	} else if (strcmp(option->name, "timeout") == 0) {
		seconds = strtoul(option->value, &end, 10);
		if (*end || end == option->value || seconds < 1 || seconds > TIMEOUT_MAX_S)
			return star_error_set(err, -EINVAL, "--timeout %s: seconds for each step, 1 to %d",
					      option->value, TIMEOUT_MAX_S);
		rolling->timeout_us = seconds * 1000000;
	} else if (strcmp(option->name, "allow-restart") == 0) {
		rolling->allowed = option->value;
		if (!is_list_of_tasks(option->value))
			return star_error_set(err, -EINVAL,
					      "--allow-restart \"%s\": numbers of PS tasks, 0 to %d, as in 1,3",
					      option->value, WIRE_NODES_MAX - 1);
	} else if (strcmp(option->name, "state") == 0) {
		if (snprintf(rolling->file, sizeof(rolling->file), "%s", option->value) >= (int)sizeof(rolling->file))
			return star_error_set(err, -ENAMETOOLONG, "--state: the name is too long");
	} else if (strcmp(option->name, "dry-run") == 0) {
		rolling->dry = true;
	} else if (strcmp(option->name, "from-scratch") == 0) {
		rolling->from_scratch = true;
	} else {
		return star_error_set(err, -EINVAL, "there is no option --%s", option->name);
	}
	return 0;
}

int run_rolling_restart(const struct invocation *invocation)
{
	struct rolling rolling = { .invocation = invocation,
				   .restart = RESTART,
				   .promote = getenv(STARCTL_KEY) ? NULL : PROMOTE,
				   .timeout_us = TIMEOUT_S * UINT64_C(1000000),
				   .next = "solve the problem above, and run this again",
				   .fd = -1 };
	struct star_error err = { 0 };
	unsigned nodes;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < invocation->options_count; i++)
		rc = take_rolling_option(&rolling, &invocation->options[i], &err);
	if (rc < 0)
		return fail(invocation, &err, STARCTL_USAGE);
	rc = roll(&rolling, &err);
	nodes = rc == 0 ? rolling_count(&rolling, false) : 0;
	rolling_plan_close(&rolling);
	if (rc < 0)
		return stop(&rolling, &err);
	if (invocation->json)
		fprintf(invocation->out, "{\"result\":\"%s\",\"nodes\":%u}\n", rolling.dry ? "dry run" : "done", nodes);
	else
		fprintf(invocation->out,
			rolling.dry ? "%u nodes; nothing has been done\n" : "all %u nodes have been restarted\n",
			nodes);
	fflush(invocation->out);
	return STARCTL_OK;
}
