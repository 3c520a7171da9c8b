/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wake-ups must not be lost, as in lib/reactor/idle.c: a thread that wants to sleep says so, and checks once more; a
 * thread that has something writes it, and checks whether the other one sleeps. Both have a full barrier between the
 * two.
 */
#include "node/gate.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { PIECE_BYTES = 128 << 10 };

/* The turn that follows a message checks the ring. */
static void look_again(void *ctx, struct reactor_message *message)
{
}

/* On a reader's thread. If a message is still on its way, the check follows it, too. */
static void tail_moved(void *ctx, enum journal_reader reader)
{
	struct shard *shard = ctx;

	if (!(__atomic_load_n(&shard->waits_for, __ATOMIC_RELAXED) >> reader & 1))
		return;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (shard->nudges[reader].sent && !__atomic_load_n(&shard->nudges[reader].message.done, __ATOMIC_ACQUIRE))
		return;
	/* If the reactor has just begun to wait, rpc's own timer wakes it at the latest. */
	if (__atomic_load_n(&shard->retains, __ATOMIC_RELAXED) && !rpc_held(shard->rpc))
		return;
	shard->nudges[reader].message = (struct reactor_message){ .run = look_again };
	shard->nudges[reader].sent = reactor_post(shard->reactor, &shard->nudges[reader].message) == 0;
}

void node_gate_watch(struct shard *shard, struct journal_ring *ring, struct node_bell *bell)
{
	if (!shard->node->config->polling) {
		ring->moved = tail_moved;
		ring->moved_ctx = shard;
	}
	shard->bell = bell;
}

/* Whether replies wait for the journal, too. */
static unsigned disk_of(const struct shard *shard)
{
	return shard->node->config->journal_durability != CONFIG_DURABILITY_ASYNC && shard->disk_counts &&
			       journal_reads(shard->journal, JOURNAL_DISK)
		       ? 1u << JOURNAL_DISK
		       : 0;
}

static void wait_for(struct shard *shard, unsigned readers, enum config_durability durability)
{
	const bool retained = durability == CONFIG_DURABILITY_RETAINED;

	journal_gate_begin(shard->journal, readers);
	shard->gated_at = shard->journal->head;
	shard->published = shard->journal->published;
	__atomic_store_n(&shard->waits_for, readers, __ATOMIC_RELAXED);
	__atomic_store_n(&shard->retains, retained, __ATOMIC_RELAXED);
	rpc_hold(shard->rpc, true, retained);
}

void node_gate_standby(struct shard *shard)
{
	wait_for(shard, 1u << JOURNAL_LINK | disk_of(shard), shard->node->config->standby_durability);
}

bool node_gate_disk(struct shard *shard)
{
	const struct journal_gate *gate = shard->journal ? &shard->journal->gate : NULL;

	if (!gate || !disk_of(shard))
		return false;
	wait_for(shard, disk_of(shard) | (gate->on ? gate->readers : 0), shard->node->config->journal_durability);
	return true;
}

void node_gate_leave_standby(struct shard *shard)
{
	if (disk_of(shard))
		wait_for(shard, disk_of(shard), shard->node->config->journal_durability);
	else
		node_gate_end(shard);
}

bool node_gate_covers(struct shard *shard)
{
	return !shard->journal || journal_covered(shard->journal) >= shard->gated_at;
}

void node_gate_end(struct shard *shard)
{
	if (shard->journal)
		journal_gate_end(shard->journal);
	rpc_hold(shard->rpc, false, false);
}

void node_gate_turn(struct shard *shard, uint64_t now_ns)
{
	struct journal_ring *ring = shard->journal;
	const bool held = rpc_held(shard->rpc) != 0, retained = rpc_retains(shard->rpc);

	if (ring->lease_ns || held || retained)
		journal_look(ring, now_ns); /* the process may not have run for a long time */
	if (!held && !retained)
		return;
	journal_gate_wait(ring, now_ns);
	rpc_release(shard->rpc, journal_durable(ring));
}

void node_gate_patience(struct shard *shard)
{
	shard->journal->gate.patient = rpc_retains(shard->rpc) && !rpc_held(shard->rpc);
}

void node_gate_published(struct shard *shard)
{
	const struct journal_ring *ring = shard->journal;
	const uint64_t one = 1;

	if (!ring->gate.on || !shard->bell || ring->published == shard->published)
		return;
	/* If clients keep the changes, they are written in larger pieces. */
	if (rpc_retains(shard->rpc) && !rpc_held(shard->rpc))
		return;
	/* So are the slices of a large request, whose reply waits for the mark after them. */
	if (ring->marked != ring->published && ring->published - shard->published < PIECE_BYTES)
		return;
	shard->published = ring->published;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	/* One system call in a turn that has changed something, and only if the thread sleeps. */
	if (__atomic_load_n(&shard->bell->sleeps, __ATOMIC_RELAXED) && write(shard->bell->fd, &one, sizeof(one)) < 0)
		return; /* the counter is full, so the thread is woken already */
}

const char *node_gate_name(enum config_durability durability)
{
	return durability == CONFIG_DURABILITY_SYNC	  ? "sync"
	       : durability == CONFIG_DURABILITY_RETAINED ? "retained"
							  : "async";
}

uint32_t node_gate_held(const struct node *node)
{
	uint32_t held = 0;

	for (unsigned i = 0; i < node->shards_count; i++)
		held += rpc_held(node->shards[i].rpc);
	return held;
}

int node_bell_make(struct node_bell *bell, struct star_error *err)
{
	bell->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return bell->fd < 0 ? star_error_set(err, -errno, "cannot create an event descriptor for the pair: %s",
					     strerror(errno))
			    : 0;
}

void node_bell_free(struct node_bell *bell)
{
	if (bell->fd >= 0)
		close(bell->fd);
	bell->fd = -1;
}

void node_bell_sleeps(struct node_bell *bell)
{
	__atomic_store_n(&bell->sleeps, 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void node_bell_woke(struct node_bell *bell)
{
	uint64_t rings;

	__atomic_store_n(&bell->sleeps, 0, __ATOMIC_RELAXED);
	if (read(bell->fd, &rings, sizeof(rings)) < 0)
		return; /* nobody has woken it */
}
