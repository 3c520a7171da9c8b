/* SPDX-License-Identifier: BSD-3-Clause */
/* How a job reaches its PS tasks: --transport, and what it makes of --ps. Any thread. */
#ifndef STARTRAIN_TRANSPORT_H
#define STARTRAIN_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/star_error.h"

/*
 * What star_open takes, for a job's --ps: addresses as they are; with --transport dpdk the name of a worker's file, since each has a port
 * of its own, where % stands for the worker's number. 0, or -EINVAL: it is too long.
 */
enum { TRANSPORT_PS_TEXT = 4096 };
int transport_ps(const char *ps, bool dpdk, uint32_t worker, char address[static TRANSPORT_PS_TEXT],
		 struct star_error *err);

/* --transport: tcp or dpdk. */
int transport_parse(const char *text, bool *dpdk, struct star_error *err);

#endif
