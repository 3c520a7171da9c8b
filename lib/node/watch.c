/* SPDX-License-Identifier: BSD-3-Clause */
/* What an administrator should read in the log, though it happens in reactors, which write none: looked at once a second. */
#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/node.h"

enum { AGAIN_US = 60000000 }; /* what goes on is logged again after a minute */

void node_watch(void *ctx)
{
	struct node *node = ctx;
	struct node_watch *watch = &node->watch;
	const uint64_t now_us = clock_us();
	uint64_t refused = 0;

	for (unsigned i = 0; i < node->shards_count; i++)
		refused += service_store_stats(node->shards[i].service).refused;
	if (refused < watch->refused)
		watch->refused = refused; /* tables that were dropped have taken their counts with them */
	if (refused == watch->refused || (watch->logged_us && now_us - watch->logged_us < AGAIN_US))
		return;
	log_error("the parameter memory is full, or what a table may have of it: %" PRIu64
		  " rows were not made%s; raise memory.parameter_mib, or rows_max",
		  refused - watch->refused, watch->logged_us ? " since this was last logged" : "");
	watch->refused = refused;
	watch->logged_us = now_us;
}
