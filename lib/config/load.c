/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct config_origin *config_load_origin(struct config_load *load, const struct config_option *option)
{
	return &load->origins[option - config_options];
}

static int apply_defaults(enum config_option_scope scope, void *base, struct star_error *err)
{
	int rc = 0;

	for (unsigned i = 0; !rc && i < config_options_count; i++) {
		struct config_target target = { .option = &config_options[i], .base = base };

		if (target.option->scope == scope && target.option->fallback)
			rc = config_value_store_text(&target, target.option->fallback, err);
	}
	return rc;
}

int config_load_port_defaults(struct config_port *port, struct star_error *err)
{
	*port = (struct config_port){ .mtu = 0 };
	return apply_defaults(SCOPE_PORT, port, err);
}

struct config_port *config_load_add_port(struct config_load *load, const struct config_origin *origin,
					 struct star_error *err)
{
	struct config *config = load->config;

	if (config->ports_count == CONFIG_PORTS_MAX) {
		config_fail(origin, err, "ports has more than %d entries", CONFIG_PORTS_MAX);
		return NULL;
	}
	load->ports[config->ports_count] = *origin;
	if (config_load_port_defaults(&config->ports[config->ports_count], err))
		return NULL;
	return &config->ports[config->ports_count++];
}

/* Splits "ports[1].mtu" into "ports[].mtu" and 1. Without brackets the index is 0. False: not a name of this form. */
static bool split_name(const char *given, char *name, size_t bytes, unsigned *index)
{
	const char *open = strchr(given, '[');
	char *end = NULL;

	*index = 0;
	if (!open)
		return snprintf(name, bytes, "%s", given) < (int)bytes;
	*index = (unsigned)strtoul(open + 1, &end, 10);
	if (open[1] < '0' || open[1] > '9' || end - open > 5 || *end != ']')
		return false;
	return snprintf(name, bytes, "%.*s[%s", (int)(open - given), given, end) < (int)bytes;
}

/* --set endpoint_map=control=data,control=data */
static int override_map(struct config_load *load, const char *value, const struct config_origin *origin,
			struct star_error *err)
{
	char *copy = strdup(value), *rest = copy, *entry;
	int rc = 0;

	if (!copy)
		return star_error_set(err, -ENOMEM, "no memory for the endpoint map");
	config_map_fini(&load->map);
	load->map.origin = *origin;
	load->map_file[0] = 0;
	while (!rc && (entry = strsep(&rest, ",")))
		rc = config_map_parse(&load->map, entry, 0, err);
	free(copy);
	return rc;
}

static int override_port(struct config_load *load, struct config_target *target, unsigned index, const char *value,
			 struct star_error *err)
{
	struct config *config = load->config;

	if (index > config->ports_count)
		return config_fail(&target->origin, err,
				   "ports[%u]: there are %u ports; allowed: ports[0] to ports[%u]", index,
				   config->ports_count, config->ports_count);
	if (index == config->ports_count && !config_load_add_port(load, &target->origin, err))
		return -EINVAL;
	target->base = &config->ports[index];
	return config_value_store_text(target, value, err);
}

/* On the command line a port has an index, and the endpoint map is one value. */
static int fail_unknown(const struct config_origin *origin, const char *name, struct star_error *err)
{
	const char *nearest = config_option_nearest(name), *close = strchr(nearest, ']');

	if (!strncmp(nearest, "endpoint_map[", 13))
		nearest = "endpoint_map";
	else if (close)
		return config_fail(origin, err, "unknown key `%.*s`; did you mean `ports[0%s`?", CONFIG_NAME_MAX, name,
				   close);
	return config_fail(origin, err, "unknown key `%.*s`; did you mean `%s`?", CONFIG_NAME_MAX, name, nearest);
}

int config_load_override(struct config_load *load, const struct config_override *override, struct star_error *err)
{
	struct config_target target = { .base = load->config, .origin = { .source = SOURCE_COMMAND_LINE } };
	char name[CONFIG_NAME_MAX + 1];
	unsigned index;

	if (!strcmp(override->name, "endpoint_map"))
		return override_map(load, override->value, &target.origin, err);
	if (split_name(override->name, name, sizeof(name), &index))
		target.option = config_option_find(name);
	if (!target.option || target.option->scope == SCOPE_ENDPOINT)
		return fail_unknown(&target.origin, override->name, err);
	if (target.option->scope == SCOPE_PORT)
		return override_port(load, &target, index, override->value, err);
	*config_load_origin(load, target.option) = target.origin;
	if (target.option->scope == SCOPE_LOAD) {
		config_map_fini(&load->map);
		target.base = load;
	}
	return config_value_store_text(&target, override->value, err);
}

/* The job decides which environment variables apply. No variable sets the job itself, so --set can be read first. */
static int find_job(struct config_load *load, const struct config_override *overrides, unsigned count,
		    enum config_job *job, struct star_error *err)
{
	int rc = 0;

	for (unsigned i = 0; !rc && i < count; i++)
		if (!strcmp(overrides[i].name, "node.job_name"))
			rc = config_load_override(load, &overrides[i], err);
	*job = strcmp(load->config->job_name, "ps") ? JOB_WORKER : JOB_PS;
	return rc;
}

/* A relative path in a configuration file starts at that file's directory. */
static int find_map_path(struct config_load *load, struct star_error *err)
{
	struct config_origin *origin = config_load_origin(load, config_option_find("endpoint_map_file"));
	const char *slash = origin->source == SOURCE_FILE ? strrchr(origin->name, '/') : NULL;
	int folder = slash && load->map_file[0] != '/' ? (int)(slash - origin->name) + 1 : 0;
	int length = snprintf(load->map_path, sizeof(load->map_path), "%.*s%s", folder, folder ? origin->name : "",
			      load->map_file);

	return length < (int)sizeof(load->map_path)
		       ? 0
		       : config_fail(origin, err, "the path of the endpoint map is too long");
}

static int read_map(struct config_load *load, struct star_error *err)
{
	struct config_origin *origin = config_load_origin(load, config_option_find("endpoint_map_file"));
	struct star_error why = { 0 };

	/* DeepRec's users have a file .endpoint_map in the directory that they start in. */
	if (!load->map_file[0] && !load->map.count && !access(".endpoint_map", F_OK))
		snprintf(load->map_file, sizeof(load->map_file), ".endpoint_map");
	if (!load->map_file[0])
		return 0;
	if (find_map_path(load, err))
		return -EINVAL;
	if (access(load->map_path, R_OK))
		return config_fail(origin, err, "cannot read the endpoint map %s: %s", load->map_path, strerror(errno));
	return config_map_read(&load->map, load->map_path, &why) ? star_error_set(err, why.code, "%s", why.text) : 0;
}

static int load_all(struct config_load *load, const char *file, const struct config_override *overrides,
		    unsigned overrides_count, struct star_error *err)
{
	enum config_job job;
	int rc = apply_defaults(SCOPE_CONFIG, load->config, err);

	if (!rc && file)
		rc = config_load_file(load, file, err);
	if (!rc)
		rc = config_load_tf_config(load, err);
	if (!rc)
		rc = find_job(load, overrides, overrides_count, &job, err);
	if (!rc)
		rc = config_load_environment(load, job, err);
	for (unsigned i = 0; !rc && i < overrides_count; i++)
		rc = config_load_override(load, &overrides[i], err);
	if (!rc)
		rc = read_map(load, err);
	return rc ? rc : config_load_check(load, err);
}

/* Options that only a PS, or only a worker without a file, can use. */
static int refuse_foreign(struct config_load *load, struct star_error *err)
{
	for (unsigned i = 0; i < config_options_count; i++) {
		const struct config_option *option = &config_options[i];
		const struct config_origin *origin = config_load_origin(load, option);

		if (!option->worker && origin->source == SOURCE_FILE)
			return config_fail(origin, err, "%s has no meaning for a worker; remove it", option->name);
	}
	return load->map.count ? config_fail(&load->map.origin, err,
					     "endpoint_map has no meaning for a worker, which learns the data "
					     "addresses from the nodes; remove it")
			       : 0;
}

static int load_worker(struct config_load *load, const char *file, struct star_error *err)
{
	int rc = apply_defaults(SCOPE_CONFIG, load->config, err);

	snprintf(load->config->job_name, sizeof(load->config->job_name), "worker");
	if (!rc && access(file, F_OK) != 0)
		rc = star_error_set(err, -errno,
				    "the worker's configuration file %s does not exist; docs/libstar.rst shows one",
				    file);
	if (!rc)
		rc = config_load_file(load, file, err);
	if (!rc)
		rc = refuse_foreign(load, err);
	if (!rc)
		rc = config_load_tf_ps(load, err);
	if (!rc)
		rc = config_load_environment(load, JOB_WORKER, err);
	return rc ? rc : config_load_check_worker(load, err);
}

struct config *config_load_worker(const char *file, struct star_error *err)
{
	struct config *config = calloc(1, sizeof(*config));
	struct config_load load = { .config = config };
	int rc;

	if (!config) {
		star_error_set(err, -ENOMEM, "no memory for the configuration");
		return NULL;
	}
	rc = load_worker(&load, file, err);
	config_map_fini(&load.map);
	if (!rc)
		return config;
	config_free(config);
	return NULL;
}

void config_worker_from(const struct config *config, struct config_worker *worker)
{
	*worker = (struct config_worker){ .io_threads = 1,
					  .polling = config->polling,
					  .pin = config->pin,
					  .connect_timeout_ms = config->connect_timeout_ms,
					  .cores_count = config->cores_count };
	memcpy(worker->cores, config->cores, sizeof(worker->cores));
}

struct config *config_load(const char *file, const struct config_override *overrides, unsigned overrides_count,
			   struct star_error *err)
{
	struct config *config = calloc(1, sizeof(*config));
	struct config_load load = { .config = config };
	int rc;

	if (!config) {
		star_error_set(err, -ENOMEM, "no memory for the configuration");
		return NULL;
	}
	rc = load_all(&load, file, overrides, overrides_count, err);
	config->endpoints = load.map.entries;
	config->endpoints_count = load.map.count;
	load.map.entries = NULL;
	config_map_fini(&load.map);
	if (!rc)
		return config;
	config_free(config);
	return NULL;
}

void config_free(struct config *config)
{
	if (!config)
		return;
	free(config->ps);
	free(config->ps_others);
	free(config->workers);
	free(config->endpoints);
	free(config->standby_etcd);
	free(config);
}
