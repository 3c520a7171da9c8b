/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts what a session sends for a cut's PS parts, from the operations and programs that they become (compile.h,
 * template.h). Pure function. */
#ifndef OFFLOAD_TRAFFIC_H
#define OFFLOAD_TRAFFIC_H

#include "graph/ps.h"

/*
 * For graph_cut_options.count. Counts bytes of keys, rows, segments and values, without headers and padding. Ids that
 * occur more than once in a batch are counted each time, although they may be sent once (train/dedup.h): that depends
 * on the data. The plan's cut keeps the compiled programs, so that nothing is compiled again for execution. -ENOTSUP:
 * PS tasks cannot execute it; then the session cuts again.
 */
int offload_traffic_count(const struct graph_ps_plan *plan, struct graph_traffic *traffic, struct star_error *err);

#endif
