/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int refuse_ps(const struct cluster_spec *spec, const char *where, struct star_error *err)
{
	return star_error_set(
		err, -EINVAL,
		"%sthis is PS task %u, which must run starserver, not a training program: start starserver here, "
		"which reads TF_CONFIG too",
		where, spec->task);
}

static void configure_session(const struct cluster_spec *spec, struct session_config *config)
{
	if (spec->job != CLUSTER_UNTOLD)
		config->task_index = spec->task;
	config->evaluator = spec->job == CLUSTER_EVALUATOR;
	if (spec->workers_count)
		config->workers = spec->workers_count;
}

int cluster_spec_worker(const struct cluster_spec *spec, struct session_config *config, struct star_error *err)
{
	if (spec->job == CLUSTER_PS)
		return refuse_ps(spec, "", err);
	if (spec->job == CLUSTER_EVALUATOR)
		return star_error_set(err, -EINVAL, "this is the evaluator, but a worker is needed here");
	config->ps = spec->ps;
	configure_session(spec, config);
	return 0;
}

/* A worker's file for the DPDK transport names its port, but neither the worker's index nor the number of workers. */
static bool names_a_port(const struct session_config *config)
{
	return config->ps && !strncmp(config->ps, "dpdk:", 5) && !config->workers;
}

int cluster_spec_take_environment(struct cluster_spec *spec, struct session_config *config, struct star_error *err)
{
	const char *text = getenv("TF_CONFIG");
	int rc;

	memset(spec, 0, sizeof(*spec));
	if ((config->ps && !names_a_port(config)) || !text || !*text)
		return 0;
	rc = cluster_spec_parse(text, spec, err);
	if (rc < 0 || !spec->ps)
		return rc;
	if (spec->job == CLUSTER_PS)
		rc = refuse_ps(spec, "TF_CONFIG: ", err);
	else if (spec->job != CLUSTER_UNTOLD && config->task_index && config->task_index != spec->task)
		rc = star_error_set(
			err, -EINVAL,
			"TF_CONFIG says that this is %s %u, but the program says that it is worker %u: set ps too, "
			"or no task_index",
			spec->job == CLUSTER_EVALUATOR ? "evaluator" : "worker", spec->task, config->task_index);
	if (rc < 0) {
		cluster_spec_fini(spec);
		return rc;
	}
	configure_session(spec, config);
	config->ps = config->ps ? config->ps : spec->ps;
	return 0;
}
