/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int transport_ps(const char *ps, bool dpdk, uint32_t worker, char address[static TRANSPORT_PS_TEXT],
		 struct star_error *err)
{
	const char *sign = dpdk ? strchr(ps, '%') : NULL;
	int n;

	if (sign)
		n = snprintf(address, TRANSPORT_PS_TEXT, "dpdk:%.*s%u%s", (int)(sign - ps), ps, worker, sign + 1);
	else
		n = snprintf(address, TRANSPORT_PS_TEXT, "%s%s", dpdk ? "dpdk:" : "", ps);
	return n < TRANSPORT_PS_TEXT ? 0
				     : star_error_set(err, -EINVAL, "--ps: more than %d bytes", TRANSPORT_PS_TEXT - 1);
}

static int fail_alone(struct star_error *err)
{
	const char *text = getenv("TF_CONFIG");

	return star_error_set(err, -EINVAL,
			      "--ps is missing: the control addresses of the PS tasks, as in --ps "
			      "tcp:198.18.1.1:3333%s",
			      text && *text ? "; TF_CONFIG has no cluster. --ps local trains in this process only"
					    : "; or set TF_CONFIG");
}

/* Takes the place from TF_CONFIG. */
static int place_worker(const struct transport_place *p, const struct cluster_spec *cluster,
			const struct session_config *told, struct star_error *err)
{
	if (told->evaluator && !p->evaluator)
		return star_error_set(err, -EINVAL,
				      "TF_CONFIG says that this is the evaluator; startrain has one only with a MODEL");
	if (*p->workers && *p->workers < told->workers)
		return star_error_set(err, -EINVAL, "--workers %u: TF_CONFIG has %u workers", *p->workers,
				      told->workers);
	if (!*p->workers)
		*p->workers = told->workers;
	if (p->evaluator)
		*p->evaluator = told->evaluator;
	if (cluster->job == CLUSTER_UNTOLD) /* all of them run here, unless --worker is given */
		return 0;
	if (*p->together && *p->worker != told->task_index)
		return star_error_set(err, -EINVAL, "--worker %u: TF_CONFIG says that this is worker %u", *p->worker,
				      told->task_index);
	*p->worker = told->task_index;
	*p->together = 1;
	return 0;
}

int transport_take_environment(const struct transport_place *p, struct cluster_spec *cluster, struct star_error *err)
{
	struct session_config told = { .ps = p->dpdk ? "dpdk:" : NULL };
	int rc;

	if (*p->ps && (!p->dpdk || *p->workers || *p->together))
		return 0;
	if (p->dpdk && !*p->ps)
		return star_error_set(err, -EINVAL, "--transport dpdk needs --ps with a worker's file");
	rc = cluster_spec_take_environment(cluster, &told, err);
	if (rc == 0 && !told.ps)
		rc = fail_alone(err);
	if (rc == 0 && cluster->ps)
		rc = place_worker(p, cluster, &told, err);
	if (rc == 0 && !*p->ps)
		*p->ps = told.ps;
	return rc;
}

int transport_parse(const char *text, bool *dpdk, struct star_error *err)
{
	*dpdk = strcmp(text, "dpdk") == 0;
	return *dpdk || strcmp(text, "tcp") == 0
		       ? 0
		       : star_error_set(err, -EINVAL, "--transport %s: it must be tcp or dpdk", text);
}

int transport_place_workers(uint32_t workers, uint32_t worker, uint32_t *together, struct star_error *err)
{
	if (worker >= workers)
		return star_error_set(err, -EINVAL, "--worker %u: with --workers %u it must be 0 to %u", worker,
				      workers, workers - 1);
	if (!*together)
		*together = workers;
	if (*together <= TRANSPORT_TOGETHER_MAX)
		return 0;
	return star_error_set(err, -EINVAL,
			      "--workers %u: they would all run on this machine, where at most %d can; start them one "
			      "by one on their machines, also with --worker",
			      workers, TRANSPORT_TOGETHER_MAX);
}
