/* SPDX-License-Identifier: BSD-3-Clause */
#include "session/cluster.h"

#include <errno.h>

int cluster_spec_worker(const struct cluster_spec *spec, struct session_config *config, struct star_error *err)
{
	if (spec->job != CLUSTER_WORKER)
		return star_error_set(err, -EINVAL, "this is %s; a worker is wanted here",
				      spec->job == CLUSTER_PS ? "a PS task, which starserver is" : "an evaluator");
	config->ps = spec->ps;
	config->task_index = spec->task;
	config->workers = spec->workers_count;
	return 0;
}

int cluster_spec_read_worker(const char *tf_config, struct cluster_spec *spec, struct star_error *err)
{
	const int status = cluster_spec_parse(tf_config, spec, err);
	struct session_config ignored;
	struct star_error why;

	if (status < 0)
		return status;
	return cluster_spec_worker(spec, &ignored, &why) < 0 ? star_error_set(err, -EINVAL, "TF_CONFIG: %s", why.text)
							     : 0;
}
