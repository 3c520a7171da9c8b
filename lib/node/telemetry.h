/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The node's metrics over DPDK's telemetry socket, beside those of ethdev and mempools, for dpdk-telemetry.py and what
 * reads it: /star/metrics (the names), /star/metric,NAME (its samples by the values of their labels, in which other
 * characters than letters, digits and '/' are '_'; 256 at most) and /star/reactor,N (all of a reactor).
 *
 * Threads: begin and end on main's; the commands run on threads of DPDK's.
 */
#ifndef NODE_TELEMETRY_H
#define NODE_TELEMETRY_H

#include "control/control.h"

/* Answers from now on; where the EAL has no socket (metrics.telemetry), nobody asks. 0 or a negative errno with a
 * message. */
int node_telemetry_begin(struct control *control, struct star_error *err);
/* Answers no more, and nothing of the control plane is used when it returns. */
void node_telemetry_end(void);

#endif
