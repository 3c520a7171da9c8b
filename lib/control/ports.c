/* SPDX-License-Identifier: BSD-3-Clause */
/* Adding ports at run time: turns a request's members into a port of lib/config, with the checks of a configuration's
 * ports. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jsonrpc/member.h"
#include "control/node.h"

enum { OPTIONS_MAX = 16, VALUE_BYTES = 512 };

/* A member in the form of a --set value. */
static int value_text(const char *name, const json_t *value, char *text, struct star_error *err)
{
	const json_t *member;
	size_t i, used = 0;

	text[0] = 0;
	if (json_is_integer(value)) {
		snprintf(text, VALUE_BYTES, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		return 0;
	}
	if (json_is_string(value) && strlen(json_string_value(value)) < VALUE_BYTES) {
		strcpy(text, json_string_value(value));
		return 0;
	}
	if (!json_is_array(value))
		return star_error_set(err, -EINVAL, "\"%.64s\" takes a text or a number, of at most %d bytes", name,
				      VALUE_BYTES - 1);
	json_array_foreach(value, i, member)
	{
		const char *part = json_string_value(member);

		if (!part || used + strlen(part) + 2 > VALUE_BYTES)
			return star_error_set(err, -EINVAL, "\"%.64s\" takes a list of texts, of at most %d bytes",
					      name, VALUE_BYTES - 1);
		used += (size_t)snprintf(text + used, VALUE_BYTES - used, "%s%s", i ? "," : "", part);
	}
	return 0;
}

/* Splits "net_memif3" into "net_memif" and 3; -1: there is no number. */
static int cut_number(char *device, struct star_error *err)
{
	size_t at = strlen(device);
	unsigned long number;

	while (at > 0 && device[at - 1] >= '0' && device[at - 1] <= '9')
		at--;
	if (device[at] == 0)
		return -1;
	number = strtoul(device + at, NULL, 10);
	if (strlen(device + at) > 3)
		return star_error_set(err, -EINVAL, "the number of \"%.64s\" is out of range; allowed: 0 to 63",
				      device);
	device[at] = 0;
	return (int)number;
}

int control_ports_add(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	const struct control_data_plane *data_plane = &control->data_plane;
	struct config_override options[OPTIONS_MAX];
	char values[OPTIONS_MAX][VALUE_BYTES];
	struct config_port port;
	unsigned count = 0;
	const char *name;
	int number = -1;
	json_t *value;

	if (params && !json_is_object(params)) {
		star_error_set(err, -EINVAL, "parameters are given by name");
		return control_invalid(err);
	}
	json_object_foreach((json_t *)params, name, value)
	{
		if (count == OPTIONS_MAX) {
			star_error_set(err, -EINVAL, "a port has not that many options");
			return control_invalid(err);
		}
		if (value_text(name, value, values[count], err) < 0)
			return control_invalid(err);
		if (strcmp(name, "device") == 0) {
			number = cut_number(values[count], err);
			if (number < -1)
				return control_invalid(err);
		}
		options[count] = (struct config_override){ name, values[count] };
		count++;
	}
	if (config_port_read(options, count, &port, err) < 0)
		return control_invalid(err);
	return data_plane->port_add(data_plane->ctx, &port, number, result, err);
}

int control_ports_remove(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "name", NULL };
	const struct control_data_plane *data_plane = &control->data_plane;
	const char *name;

	if (jsonrpc_member_only(params, members, err) < 0 || jsonrpc_member_string(params, "name", 64, &name, err) < 0)
		return control_invalid(err);
	return data_plane->port_remove(data_plane->ctx, name, result, err);
}
