/* SPDX-License-Identifier: BSD-3-Clause */
/* What a primary tells its reactors of their streams. */
#include "base/clock.h"
#include "base/log.h"
#include "node/gate.h"
#include "node/pair.h"

struct stream_message {
	struct reactor_message message;
	struct journal_ring *ring;
	bool is_so;
};

/* A journal that writes goes on, and the standby reads with it. */
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

bool node_pair_tell(struct node_pair *p, enum node_pair_word word)
{
	static void (*const runs[])(void *ctx, struct reactor_message *message) = {
		[NODE_PAIR_ATTACH] = attach_on_reactor, [NODE_PAIR_DETACH] = detach_on_reactor,
		[NODE_PAIR_SETTLE] = settle_on_reactor, [NODE_PAIR_GATE] = gate_on_reactor,
		[NODE_PAIR_COVERED] = cover_on_reactor,
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
