/* SPDX-License-Identifier: BSD-3-Clause */
/* Logs what an administrator should know of events in reactors, which do not log: checked once a second. */
#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/capture.h"
#include "node/history.h"
#include "node/journal.h"

#define READ(counter) __atomic_load_n(&(counter), __ATOMIC_RELAXED)

enum { AGAIN_US = 60000000 }; /* a condition that lasts is logged again after a minute */
enum { FULL_PERCENT = 90, ROOM_PERCENT = 85 };

static uint64_t rows_refused(const struct shard *shard)
{
	return service_store_stats(shard->service).refused;
}

/* How often there were no mbufs. Nothing is lost by that: the peer asks again, only later than necessary. */
static uint64_t without_buffers(const struct shard *shard)
{
	const struct rpc_counters *rpc = rpc_counters(shard->rpc);
	const struct dgram *sessions = rpc_datagrams(shard->rpc);
	uint64_t count = READ(rpc->no_buffers) + READ(rpc->starved);

	if (shard->sockets)
		return count + READ(ksock_counters(shard->sockets)->no_mbuf);
	if (sessions)
		count += READ(dgram_counters(sessions)->starved);
	return count + READ(net_counters(shard->net)->out_no_mbuf);
}

static uint64_t frames_dropped(const struct shard *shard)
{
	const struct reactor_stats *stats = reactor_stats(shard->reactor);

	return READ(stats->hand_over_full) + READ(stats->transmit_dropped);
}

static const struct {
	enum log_level level;
	uint64_t (*count)(const struct shard *shard);
	const char *what, *happened, *advice;
} looked_at[NODE_WATCHED] = {
	{ LOG_ERROR, rows_refused, "the parameter memory is full, or what a table may have of it", "rows were not made",
	  "raise memory.parameter_mib, or rows_max" },
	{ LOG_ERROR, without_buffers, "packet buffers ran out", "requests or packets had to wait or were refused",
	  "raise memory.mbufs" },
	{ LOG_WARN, frames_dropped, "frames were dropped for lack of room", "of them",
	  "a link is down (`starctl port list`), or a reactor or a port cannot keep up: give the node more reactors" },
};

static void look_at_counter(const struct node *node, struct node_watch *watch, unsigned which, uint64_t now_us)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < node->shards_count; i++)
		count += looked_at[which].count(&node->shards[i]);
	if (count < watch->count)
		watch->count = count; /* dropped tables have taken their counts with them */
	if (count == watch->count || (watch->logged_us && now_us - watch->logged_us < AGAIN_US))
		return;
	log_write(looked_at[which].level, "%s: %" PRIu64 " %s%s; %s", looked_at[which].what, count - watch->count,
		  looked_at[which].happened, watch->logged_us ? " since this was last logged" : "",
		  looked_at[which].advice);
	watch->count = count;
	watch->logged_us = now_us;
}

/* Logged before rows are refused, and again if there was room meanwhile. */
static void look_at_memory(struct node *node)
{
	uint64_t most = 0;

	for (unsigned i = 0; i < node->shards_count; i++)
		most = RTE_MAX(most, service_store_stats(node->shards[i].service).memory_bytes);
	if (!node->nearly_full && most > node->arena_bytes / 100 * FULL_PERCENT) {
		node->nearly_full = true;
		log_warn("the parameter memory of a reactor is %.0f %% full: `starctl tables` shows which table grows; "
			 "memory.parameter_mib is the limit",
			 100.0 * (double)most / (double)node->arena_bytes);
	} else if (most < node->arena_bytes / 100 * ROOM_PERCENT) {
		node->nearly_full = false;
	}
}

void node_watch(void *ctx)
{
	struct node *node = ctx;
	const uint64_t now_us = clock_us();

	look_at_memory(node);
	node_journal_watch(node);
	node_capture_watch(node);
	node_history_watch(node);
	for (unsigned i = 0; i < NODE_WATCHED; i++)
		look_at_counter(node, &node->watch[i], i, now_us);
}
