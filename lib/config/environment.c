/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/load.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/cluster_spec.h"

uint32_t config_cores(uint32_t *cores, uint32_t max)
{
	/* As large as the largest kernel's mask: sched_getaffinity refuses a smaller one with EINVAL there. */
	cpu_set_t sets[8];
	uint32_t count = 0;

	memset(sets, 0, sizeof(sets));
	if (sched_getaffinity(0, sizeof(sets), sets) < 0)
		return 0;
	for (uint32_t core = 0; core < 8 * sizeof(sets); core++)
		if (CPU_ISSET_S(core, sizeof(sets), sets)) {
			if (count < max)
				cores[count] = core;
			count++;
		}
	return count;
}

bool config_core_exists(uint32_t core)
{
	cpu_set_t before[8], only[8];
	bool can;

	memset(before, 0, sizeof(before));
	memset(only, 0, sizeof(only));
	if (core >= 8 * sizeof(only) || sched_getaffinity(0, sizeof(before), before) < 0)
		return false;
	/* Only the kernel knows whether the core exists, is online, and is allowed by the cpuset. */
	CPU_SET_S(core, sizeof(only), only);
	can = sched_setaffinity(0, sizeof(only), only) == 0;
	sched_setaffinity(0, sizeof(before), before);
	return can;
}

uint32_t config_usable_cores(void)
{
	return config_cores(NULL, 0);
}

static int store_folder(struct config_load *load, const char *folder, const struct config_origin *origin,
			struct star_error *err)
{
	int length = snprintf(load->map_file, sizeof(load->map_file), "%s/.endpoint_map", folder);

	if (!*folder)
		return config_fail(origin, err, "it is empty; give the directory of .endpoint_map, or unset it");
	if (length >= (int)sizeof(load->map_file))
		return config_fail(origin, err, "the path is longer than %d bytes", CONFIG_TEXT_MAX);
	config_map_fini(&load->map); /* the one of the file, which the environment overrides */
	return 0;
}

static int store_variable(struct config_load *load, const struct config_target *target, const char *text,
			  struct star_error *err)
{
	bool negated;

	switch (target->option->variable_means) {
	case ENVIRONMENT_FOLDER:
		return store_folder(load, text, &target->origin, err);
	case ENVIRONMENT_NEGATED:
		if (config_value_bool(text, &negated, &target->origin, err))
			return -EINVAL;
		return config_value_store_text(target, negated ? "false" : "true", err);
	default:
		return config_value_store_text(target, text, err);
	}
}

static int store_named(struct config_load *load, const char *name, const char *text, struct star_error *err)
{
	const struct config_target target = {
		.option = config_option_find(name),
		.base = load->config,
		.origin = { .source = SOURCE_ENVIRONMENT, .name = "TF_CONFIG" },
	};

	*config_load_origin(load, target.option) = target.origin;
	return config_value_store_text(&target, text, err);
}

/* The cluster of a PS task; what TF_CONFIG leaves out comes from the file or --set. */
static int store_cluster(struct config_load *load, const struct cluster_spec *spec, struct star_error *err)
{
	char task[16];
	int rc = 0;

	snprintf(task, sizeof(task), "%u", spec->task);
	if (spec->job == CLUSTER_PS)
		rc = store_named(load, "node.job_name", "ps", err);
	if (!rc && spec->job == CLUSTER_PS)
		rc = store_named(load, "node.task_index", task, err);
	if (!rc)
		rc = store_named(load, "cluster.ps", strchr(spec->ps, ':') + 1, err);
	if (!rc && *spec->workers)
		rc = store_named(load, "cluster.worker", spec->workers, err);
	return rc;
}

/* TF_CONFIG without a cluster counts as unset: spec->ps is NULL then. */
static int read_tf_config(struct cluster_spec *spec, struct star_error *err)
{
	const char *text = getenv("TF_CONFIG");

	memset(spec, 0, sizeof(*spec));
	return text && *text ? cluster_spec_parse(text, spec, err) : 0;
}

int config_load_tf_config(struct config_load *load, struct star_error *err)
{
	struct cluster_spec spec;
	int rc = read_tf_config(&spec, err);

	if (!rc && spec.ps && (spec.job == CLUSTER_WORKER || spec.job == CLUSTER_EVALUATOR))
		rc = star_error_set(err, -EINVAL,
				    "TF_CONFIG: this process is %s %u of its cluster, but starserver is a PS task: "
				    "give it a task of type ps, or unset TF_CONFIG",
				    spec.job == CLUSTER_WORKER ? "worker" : "evaluator", spec.task);
	if (!rc && spec.ps)
		rc = store_cluster(load, &spec, err);
	cluster_spec_fini(&spec);
	return rc;
}

int config_load_tf_ps(struct config_load *load, struct star_error *err)
{
	struct cluster_spec spec;
	int rc;

	if (load->config->ps_count)
		return 0;
	rc = read_tf_config(&spec, err);
	if (!rc && spec.ps)
		rc = store_named(load, "cluster.ps", strchr(spec.ps, ':') + 1, err);
	cluster_spec_fini(&spec);
	return rc;
}

int config_load_environment(struct config_load *load, enum config_job job, struct star_error *err)
{
	int rc = 0;

	for (unsigned i = 0; !rc && i < config_options_count; i++) {
		const struct config_option *option = &config_options[i];
		const char *variable = option->variables[job], *text = variable ? getenv(variable) : NULL;
		struct config_target target = {
			.option = option,
			.base = load->config,
			.origin = { .source = SOURCE_ENVIRONMENT, .name = variable },
		};

		if (!text)
			continue;
		*config_load_origin(load, option) = target.origin;
		rc = store_variable(load, &target, text, err);
	}
	return rc;
}

int config_worker_environment(struct config_worker *worker, struct star_error *err)
{
	const struct config_option *timeout = config_option_find("control.connect_timeout_ms");
	struct config config = { 0 };
	struct config_load load = { .config = &config };
	struct config_target target = { .option = timeout, .base = &config };
	uint32_t usable = config_usable_cores();
	int rc = config_value_store_text(&target, timeout->fallback, err);

	if (!rc)
		rc = config_load_environment(&load, JOB_WORKER, err);
	if (rc)
		return rc;
	if ((config.polling || config.pin) && config.reactors > usable)
		return star_error_set(err, -EINVAL,
				      "environment variable NETWORK_WORKER_CORE_NUMBER: %u %s I/O threads were asked "
				      "for, but there are %u usable cores; ask for no more",
				      config.reactors, config.polling ? "polling" : "pinned", usable);
	*worker = (struct config_worker){ .io_threads = config.reactors,
					  .polling = config.polling,
					  .pin = config.pin,
					  .connect_timeout_ms = config.connect_timeout_ms };
	return 0;
}
