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

int transport_parse(const char *text, bool *dpdk, struct star_error *err)
{
	*dpdk = strcmp(text, "dpdk") == 0;
	return *dpdk || strcmp(text, "tcp") == 0
		       ? 0
		       : star_error_set(err, -EINVAL, "--transport %s: it is tcp or dpdk", text);
}
