/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "wire/checkpoint.h"

enum { LOOK_US = 200 };

struct snapshot_message {
	struct reactor_message message;
	struct service_snapshot *snapshot;
	enum store_snapshot_kind kind;
	bool kept;
	int status;
};

static void begin_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct snapshot_message *m = (struct snapshot_message *)message;

	m->status = service_snapshot_begin(shard->service, m->kind, m->snapshot);
}

static void end_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	const struct snapshot_message *m = (const struct snapshot_message *)message;

	if (service_snapshot_is(shard->service, m->snapshot))
		service_snapshot_end(shard->service, m->kept);
}

static void give_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;

	service_snapshot_give(shard->service,
			      &((struct node_block *)((char *)message - offsetof(struct node_block, message)))->block);
}

int node_snapshot_make(struct node_snapshot *s, const char *name, unsigned reactor, struct star_error *err)
{
	char ring[32];
	bool made;

	snprintf(ring, sizeof(ring), "%s_full_%u", name, reactor);
	s->snapshot.full =
		rte_ring_create(ring, NODE_SNAPSHOT_BLOCKS * 2, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
	made = s->snapshot.full != NULL;
	for (unsigned b = 0; b < NODE_SNAPSHOT_BLOCKS && made; b++) {
		s->blocks[b].message.run = give_on_reactor;
		s->blocks[b].block.memory = aligned_alloc(CHECKPOINT_ALIGN, CHECKPOINT_BLOCK_MAX);
		s->snapshot.blocks[s->snapshot.blocks_count++] = &s->blocks[b].block;
		made = s->blocks[b].block.memory != NULL;
	}
	return made ? 0 : star_error_set(err, -ENOMEM, "no memory for the blocks of a snapshot");
}

void node_snapshot_free(struct node_snapshot *s)
{
	rte_ring_free(s->snapshot.full);
	for (unsigned b = 0; b < NODE_SNAPSHOT_BLOCKS; b++)
		free(s->blocks[b].block.memory);
	*s = (struct node_snapshot){ 0 };
}

int node_snapshot_begin(struct shard *shard, struct node_snapshot *s, enum store_snapshot_kind kind, uint64_t id,
			struct star_error *err)
{
	struct snapshot_message m = { .message.run = begin_on_reactor, .snapshot = &s->snapshot, .kind = kind };
	int rc;

	while (node_snapshot_take(s))
		;
	s->snapshot.status = 0;
	s->snapshot.id = id;
	s->snapshot.wait_max_ns = shard->node->config->checkpoint_wait_s * UINT64_C(1000000000);
	rc = node_ask_copy(shard, &m.message, sizeof(m), err);
	if (rc == 0 && m.status < 0)
		rc = star_error_set(err, m.status, "reactor %u cannot begin: %s", shard->index,
				    strerrordesc_np(-m.status));
	return rc;
}

struct service_block *node_snapshot_take(struct node_snapshot *s)
{
	void *block;

	return rte_ring_dequeue(s->snapshot.full, &block) == 0 ? block : NULL;
}

/* The reactor may be sleeping until it gets this block back. */
int node_snapshot_give(struct shard *shard, struct service_block *written, bool (*goes_on)(void *ctx), void *ctx,
		       struct star_error *err)
{
	struct node_block *block = (struct node_block *)written;
	int rc;

	while ((rc = reactor_post(shard->reactor, &block->message)) == -EAGAIN && goes_on(ctx))
		usleep(LOOK_US);
	return rc < 0 ? star_error_set(err, rc, "reactor %u accepts no messages: it is overloaded or stopping",
				       shard->index)
		      : 0;
}

void node_snapshot_end(struct shard *shard, struct node_snapshot *s, bool kept)
{
	struct snapshot_message m = { .message.run = end_on_reactor, .snapshot = &s->snapshot, .kept = kept };
	struct star_error err = { 0 };

	if (node_ask_copy(shard, &m.message, sizeof(m), &err) < 0)
		log_warn("a snapshot does not end: %s", err.text);
}
