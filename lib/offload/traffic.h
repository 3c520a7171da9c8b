/* SPDX-License-Identifier: BSD-3-Clause */
/* What a session sends of a cut's PS parts: the operations and programs that it makes of them (compile.h, template.h)
 * say so. Pure. */
#ifndef OFFLOAD_TRAFFIC_H
#define OFFLOAD_TRAFFIC_H

#include "graph/ps.h"

/*
 * graph_cut_options.count. Bytes of keys, rows, segments and values; not those of heads, nor what padding takes. Ids
 * that come more than once in a batch count as often, although they may go once (dedup.h): that is the data's.
 * The
 * plan's cut keeps what it was counted from, so that nothing is compiled a second time to be executed.
 * -ENOTSUP: PS tasks cannot do it, and the session cuts again.
 */
int offload_traffic_count(const struct graph_ps_plan *plan, struct graph_traffic *traffic, struct star_error *err);

#endif
