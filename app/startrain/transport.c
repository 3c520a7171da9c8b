/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/transport.h"

#include <errno.h>
#include <stdio.h>
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

int transport_read_environment(struct cluster_spec *cluster, struct session_config *told, struct star_error *err)
{
	*told = (struct session_config){ .ps = NULL };
	if (cluster_spec_take_environment(cluster, told, err) < 0)
		return err->code;
	if (!told->ps)
		return star_error_set(err, -EINVAL,
				      "--ps is missing: the control addresses of the PS tasks, as in --ps "
				      "tcp:198.18.1.1:3333; or set TF_CONFIG");
	if (!told->evaluator)
		return 0;
	cluster_spec_fini(cluster);
	*told = (struct session_config){ .ps = NULL };
	return star_error_set(
		err, -EINVAL,
		"TF_CONFIG: this is the evaluator, and startrain has none: with --test it evaluates when it "
		"has trained");
}

int transport_parse(const char *text, bool *dpdk, struct star_error *err)
{
	*dpdk = strcmp(text, "dpdk") == 0;
	return *dpdk || strcmp(text, "tcp") == 0
		       ? 0
		       : star_error_set(err, -EINVAL, "--transport %s: it is tcp or dpdk", text);
}
