/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The node's metrics on DPDK's telemetry socket, next to those of ethdev and mempools, for dpdk-telemetry.py and
 * similar tools: /star/metrics (the names), /star/metric,NAME (its samples, at most 256, by the values of their labels,
 * with '_' for all characters but letters, digits and '/') and /star/reactor,N (all metrics of a reactor).
 *
 * Threads: main calls begin and end; the commands run on threads of DPDK.
 */
#ifndef NODE_TELEMETRY_H
#define NODE_TELEMETRY_H

#include "control/control.h"

/* Registers the commands. If the EAL has no socket (metrics.telemetry), nobody can call them. 0 or a negative errno
 * with a message. */
int node_telemetry_begin(struct control *control, struct star_error *err);
/* The commands answer no more; when it returns, none uses the control plane. */
void node_telemetry_end(void);

#endif
