/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/load.h"

#include <errno.h>
#include <libconfig.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/literals.h"

/* The file that is being read. */
struct walk {
	struct config_load *load;
	const char *file;
	struct star_error *err;
};

/* A group of the file: its options are named prefix.leaf and stored in base. */
struct place {
	const char *prefix;
	void *base;
	struct config_origin *port; /* set for a group of ports */
};

static struct config_origin origin_of(const struct walk *w, const config_setting_t *setting)
{
	return (struct config_origin){ .source = SOURCE_FILE,
				       .name = w->file,
				       .line = config_setting_source_line(setting) };
}

static struct config_value value_of(const config_setting_t *s)
{
	switch (config_setting_type(s)) {
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		return (struct config_value){ .kind = VALUE_NUMBER, .number = config_setting_get_int64(s) };
	case CONFIG_TYPE_BOOL:
		return (struct config_value){ .kind = VALUE_BOOL, .number = config_setting_get_bool(s) };
	case CONFIG_TYPE_STRING:
		return (struct config_value){ .kind = VALUE_TEXT, .text = config_setting_get_string(s) };
	case CONFIG_TYPE_FLOAT:
		return (struct config_value){ .kind = VALUE_OTHER, .text = "a number with a fraction" };
	case CONFIG_TYPE_GROUP:
		return (struct config_value){ .kind = VALUE_OTHER, .text = "a group" };
	default:
		return (struct config_value){ .kind = VALUE_OTHER, .text = "a list" };
	}
}

static int fail_unknown(const struct walk *w, const config_setting_t *setting, const char *name)
{
	struct config_origin origin = origin_of(w, setting);

	return config_fail(&origin, w->err, "unknown key `%.*s`; did you mean `%s`?", CONFIG_NAME_MAX, name,
			   config_option_nearest(name));
}

static int store(const struct walk *w, struct config_target *target, const config_setting_t *setting)
{
	struct config_value value = value_of(setting);

	target->origin = origin_of(w, setting);
	return config_value_store(target, &value, w->err);
}

static int store_list(const struct walk *w, struct config_target *target, const config_setting_t *setting)
{
	const struct config_value lone = { .kind = VALUE_OTHER, .text = "a value without brackets" };
	int rc = 0;

	target->origin = origin_of(w, setting);
	if (!config_setting_is_array(setting) && !config_setting_is_list(setting)) {
		if (target->option->type != OPTION_NETWORKS)
			return config_value_store(target, &lone, w->err);
		config_value_clear(target); /* most ports have one address, which needs no brackets */
		return store(w, target, setting);
	}
	config_value_clear(target);
	for (int i = 0; !rc && i < config_setting_length(setting); i++)
		rc = store(w, target, config_setting_get_elem(setting, (unsigned)i));
	return rc;
}

static int read_option(const struct walk *w, const config_setting_t *setting, const struct config_option *option,
		       const struct place *place)
{
	struct config_target target = { .option = option, .base = place->base };

	if (option->scope == SCOPE_CONFIG || option->scope == SCOPE_LOAD)
		*config_load_origin(w->load, option) = origin_of(w, setting);
	return config_option_is_list(option) ? store_list(w, &target, setting) : store(w, &target, setting);
}

static int read_group(const struct walk *w, const config_setting_t *group, const struct place *place)
{
	char name[512];
	int rc = 0;

	for (int i = 0; !rc && i < config_setting_length(group); i++) {
		const config_setting_t *setting = config_setting_get_elem(group, (unsigned)i);
		const struct config_option *option;

		snprintf(name, sizeof(name), "%s.%s", place->prefix, config_setting_name(setting));
		option = config_option_find(name);
		rc = option ? read_option(w, setting, option, place) : fail_unknown(w, setting, name);
	}
	return rc;
}

static int read_port(const struct walk *w, const config_setting_t *group)
{
	struct config_origin origin = origin_of(w, group);
	struct config_port *port = config_load_add_port(w->load, &origin, w->err);
	struct place place = { .prefix = "ports[]", .base = port };

	return port ? read_group(w, group, &place) : -EINVAL;
}

static int read_endpoint(const struct walk *w, const config_setting_t *group)
{
	struct config_origin origin = origin_of(w, group);
	struct config_endpoint entry = { 0 };
	struct place place = { .prefix = "endpoint_map[]", .base = &entry };
	int rc = read_group(w, group, &place);

	if (rc)
		return rc;
	if (!entry.control.port || !entry.data.port)
		return config_fail(&origin, w->err,
				   "an entry of endpoint_map has no %s; write { control = \"198.18.1.1:3333\"; data = "
				   "\"198.18.0.1:5555\"; }",
				   entry.control.port ? "data" : "control");
	w->load->map.origin = origin;
	return config_map_add(&w->load->map, &entry, origin.line, w->err);
}

static int read_list(const struct walk *w, const config_setting_t *list, const struct config_group *known)
{
	bool ports = !strcmp(known->name, "ports");
	struct config_origin origin = origin_of(w, list);
	int rc = 0;

	if (!ports)
		w->load->map.origin = origin;
	if (!config_setting_is_list(list) && (!config_setting_is_array(list) || config_setting_length(list)))
		return config_fail(&origin, w->err, "%s must be a list of groups; write %s = ( { ... }, { ... } );",
				   known->name, known->name);
	for (int i = 0; !rc && i < config_setting_length(list); i++) {
		const config_setting_t *group = config_setting_get_elem(list, (unsigned)i);

		origin = origin_of(w, group);
		if (!config_setting_is_group(group))
			return config_fail(&origin, w->err,
					   "an entry of %s is not a group; write %s = ( { ... }, { ... } );",
					   known->name, known->name);
		rc = ports ? read_port(w, group) : read_endpoint(w, group);
	}
	return rc;
}

static int read_top(const struct walk *w, const config_setting_t *setting)
{
	const char *name = config_setting_name(setting);
	const struct config_group *group = config_group_find(name);
	const struct config_option *option = config_option_find(name);
	struct config_origin origin = origin_of(w, setting);
	struct place place = { .prefix = name, .base = w->load->config };

	if (group && group->list)
		return read_list(w, setting, group);
	if (group && !config_setting_is_group(setting))
		return config_fail(&origin, w->err, "%s must be a group; write %s = { ... };", name, name);
	if (group)
		return read_group(w, setting, &place);
	place.base = w->load;
	return option ? read_option(w, setting, option, &place) : fail_unknown(w, setting, name);
}

static int read_root(const struct walk *w, const config_t *parsed)
{
	const config_setting_t *root = config_root_setting(parsed), *map_file;
	struct config_origin origin;
	int rc = 0;

	for (int i = 0; !rc && i < config_setting_length(root); i++)
		rc = read_top(w, config_setting_get_elem(root, (unsigned)i));
	map_file = config_lookup(parsed, "endpoint_map_file");
	if (rc || !map_file || !config_lookup(parsed, "endpoint_map"))
		return rc;
	origin = origin_of(w, map_file);
	return config_fail(&origin, w->err, "endpoint_map_file and endpoint_map are both given; keep one of them");
}

static int parse_config_text(const struct walk *w, const char *text)
{
	config_t parsed;
	int rc;

	config_init(&parsed);
	if (config_read_string(&parsed, text))
		rc = read_root(w, &parsed);
	else
		rc = star_error_set(w->err, -EINVAL,
				    "%s:%d: %s (look for a missing ; = \" or bracket in this line or the one before)",
				    w->file, config_error_line(&parsed), config_error_text(&parsed));
	config_destroy(&parsed);
	return rc;
}

int config_load_file(struct config_load *load, const char *file, struct star_error *err)
{
	struct walk walk = { .load = load, .file = file, .err = err };
	struct star_error why = { 0 };
	char *text = config_read_text(file, &why), *wide;
	const char *wrong;
	unsigned line;
	int rc;

	if (!text && why.code == -ENOENT)
		return star_error_set(err, -ENOENT,
				      "there is no configuration file %s; pass one with -c FILE (drivers-config/ has "
				      "one for each kind of NIC)",
				      file);
	if (!text)
		return star_error_set(err, why.code, "%s", why.text);
	wide = config_widen_literals(text, &line, &wrong);
	free(text);
	if (wrong)
		return star_error_set(err, -EINVAL, "%s:%u: %s", file, line, wrong);
	if (!wide)
		return star_error_set(err, -ENOMEM, "no memory to read %s", file);
	rc = parse_config_text(&walk, wide);
	free(wide);
	return rc;
}
