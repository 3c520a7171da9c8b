/* SPDX-License-Identifier: BSD-3-Clause */
/* A node's ports at run time. */
#include <errno.h>
#include <string.h>

#include "app/starctl/starctl.h"

static const char *const port_options[] = { "address", "interface", "gateway", "gateway6", "vlan", "mtu", "options" };

void print_port_options(FILE *out)
{
	for (unsigned i = 0; i < sizeof(port_options) / sizeof(port_options[0]); i++)
		fprintf(out, "--%s\n", port_options[i]);
}

static void render_added(const json_t *result, FILE *out)
{
	fprintf(out, "added ");
	print_text(json_string_value(json_object_get(result, "name")), out);
	fputc('\n', out);
}

static void render_removed(const json_t *result, FILE *out)
{
	fprintf(out, "removed ");
	print_text(json_string_value(json_object_get(result, "name")), out);
	fprintf(out, "; %" JSON_INTEGER_FORMAT " connections were ended\n",
		json_integer_value(json_object_get(result, "connections")));
	if (json_is_true(json_object_get(result, "data_address_lost")))
		fprintf(out,
			"the node's data address was on that port: workers cannot connect until another port has it\n");
}

/* The text after the device's name is its option `options`. */
static json_t *port_params(const struct invocation *invocation)
{
	const char *device = invocation->argv[0], *comma = strchr(device, ',');
	json_t *params = json_object();

	json_object_set_new(params, "device",
			    comma ? json_stringn(device, (size_t)(comma - device)) : json_string(device));
	if (comma)
		json_object_set_new(params, "options", json_string(comma + 1));
	for (unsigned i = 0; i < invocation->options_count; i++)
		json_object_set_new(params, invocation->options[i].name, json_string(invocation->options[i].value));
	return params;
}

static bool has_options_twice(const struct invocation *invocation)
{
	bool given = false;

	for (unsigned i = 0; i < invocation->options_count; i++)
		given |= strcmp(invocation->options[i].name, "options") == 0;
	return given && strchr(invocation->argv[0], ',');
}

int run_port_add(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	json_t *result;

	if (has_options_twice(invocation)) {
		star_error_set(&err, -EINVAL,
			       "options are given twice: after the device's name, and by --options: give them "
			       "only once");
		return fail(invocation, &err, STARCTL_USAGE);
	}
	result = ask_within(invocation, "port_add", port_params(invocation), STARCTL_WAIT_US, &err);

	return result ? print(invocation, result, render_added) : fail(invocation, &err, STARCTL_FAILED);
}

int run_port_remove(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	json_t *result = ask_within(invocation, "port_remove", json_pack("{s:s}", "name", invocation->argv[0]),
				    STARCTL_WAIT_US, &err);

	return result ? print(invocation, result, render_removed) : fail(invocation, &err, STARCTL_FAILED);
}

int run_port_list(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	json_t *result = ask(invocation, "ports", NULL, &err);

	return result ? print(invocation, result, render_ports) : fail(invocation, &err, STARCTL_FAILED);
}
