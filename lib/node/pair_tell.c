/* SPDX-License-Identifier: BSD-3-Clause */
/* What a primary tells its reactors about their streams, and about the connections of their workers. */
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/gate.h"
#include "node/pair.h"

enum { HANG_UP_US = 100000, HANG_UP_LOOK_US = 500, HANG_UP_AT_ONCE = 1024 };

struct stream_message {
	struct reactor_message message;
	struct journal_ring *ring;
	bool is_so;
};

/* A journal that is being written goes on, and the standby reads beside it. */
static void attach_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct journal_ring *ring = ((struct stream_message *)message)->ring;
	const bool shared = shard->journal && journal_reads(ring, JOURNAL_DISK);

	if (!shared) {
		node_gate_end(shard);
		journal_ring_restart(ring);
		shard->journal = ring;
		shard->sessions_of = 0;
	}
	journal_reader_begin(ring, JOURNAL_LINK, shard->node->config->standby_wait_s * UINT64_C(1000000000));
	if (shared)
		service_journal_joined(shard->service);
	else
		service_journal_begin(shard->service, ring);
}

static void detach_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct journal_ring *ring = ((struct stream_message *)message)->ring;

	if (!shard->journal)
		return;
	journal_reader_end(ring, JOURNAL_LINK);
	if (!journal_reads(ring, JOURNAL_DISK)) {
		shard->journal = NULL;
		service_journal_begin(shard->service, NULL);
		node_gate_end(shard);
		return;
	}
	node_gate_leave_standby(shard);
}

static void settle_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;

	((struct stream_message *)message)->is_so =
		!shard->journal || service_journal_settle(shard->service, clock_ns());
}

static void gate_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;

	if (shard->journal)
		node_gate_standby(shard);
}

static void cover_on_reactor(void *ctx, struct reactor_message *message)
{
	((struct stream_message *)message)->is_so = node_gate_covers(ctx);
}

static void leave_on_reactor(void *ctx, struct reactor_message *message)
{
	rpc_server_leave(((struct shard *)ctx)->rpc);
}

bool node_pair_tell(struct node_pair *p, enum node_pair_word word)
{
	static void (*const runs[])(void *ctx, struct reactor_message *message) = {
		[NODE_PAIR_ATTACH] = attach_on_reactor, [NODE_PAIR_DETACH] = detach_on_reactor,
		[NODE_PAIR_SETTLE] = settle_on_reactor, [NODE_PAIR_GATE] = gate_on_reactor,
		[NODE_PAIR_COVERED] = cover_on_reactor, [NODE_PAIR_LEAVE] = leave_on_reactor,
	};
	struct star_error err = { 0 };
	bool all = true;

	for (unsigned i = 0; i < p->node->shards_count; i++) {
		struct stream_message m = { .message.run = runs[word], .ring = p->rings[i] };

		if (node_ask_copy(&p->node->shards[i], &m.message, sizeof(m), &err) < 0) {
			log_warn("the pair: %s", err.text);
			all = false;
		}
		all &= m.is_so;
	}
	return all;
}

struct hang_up_message {
	struct reactor_message message;
	uint32_t at, left;
	bool waits, more;
};

static void hang_up_on_reactor(void *ctx, struct reactor_message *message)
{
	struct hang_up_message *m = (struct hang_up_message *)message;
	struct rpc_server *rpc = ((struct shard *)ctx)->rpc;

	rpc_server_leave(rpc);
	m->more = rpc_server_hang_up(rpc, &m->at, HANG_UP_AT_ONCE, m->waits ? &m->left : NULL);
}

/* One round; returns how many have something left to send. */
static uint32_t hang_up_round(struct shard *shard, bool waits)
{
	struct hang_up_message m = { .message.run = hang_up_on_reactor, .waits = waits };
	struct star_error err;

	do {
		m.message = (struct reactor_message){ .run = hang_up_on_reactor };
		if (node_ask_copy(shard, &m.message, sizeof(m), &err) < 0)
			return 0; /* it sleeps for good, and its workers will find out by themselves */
	} while (m.more);
	return m.left;
}

void node_pair_hang_up(struct node_pair *p)
{
	const uint64_t until_us = clock_us() + HANG_UP_US;

	for (unsigned i = 0; i < p->node->shards_count; i++) {
		while (hang_up_round(&p->node->shards[i], true) && clock_us() < until_us)
			usleep(HANG_UP_LOOK_US);
		hang_up_round(&p->node->shards[i], false);
	}
}
