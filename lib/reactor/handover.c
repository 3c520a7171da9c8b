/* SPDX-License-Identifier: BSD-3-Clause */
#include "reactor/internal.h"

#include <errno.h>
#include <rte_prefetch.h>
#include <stdlib.h>

/*
 * Frames taken from others per turn: as many as four ports could bring, so that 63 other reactors cannot starve the own
 * ports.
 */
enum { TAKE_MAX = 4 * PORT_BURST };

int reactor_hand_over_create(struct reactor *owner, struct reactor *consumer)
{
	const unsigned size = owner->count > HAND_OVER_FEW ? HAND_OVER_RING_MANY : HAND_OVER_RING;
	const size_t bytes = (size_t)rte_ring_get_memsize(size);
	struct link *link = &owner->out[consumer->index];
	/* From the heap, not by rte_ring_create: 64 reactors need more rings than the EAL has memory zones. */
	uint8_t *memory = aligned_alloc(RTE_CACHE_LINE_SIZE, 2 * bytes);
	const unsigned flags = RING_F_SP_ENQ | RING_F_SC_DEQ;

	if (!memory)
		return -ENOMEM;
	link->hand_over_ring = (struct rte_ring *)memory;
	link->return_ring = (struct rte_ring *)(memory + bytes);
	rte_ring_init(link->hand_over_ring, "hand-over", size, flags);
	rte_ring_init(link->return_ring, "return", size, flags);
	consumer->in[owner->index] = *link;
	return 0;
}

static void drain(struct rte_ring *ring)
{
	void *frame;

	while (rte_ring_sc_dequeue(ring, &frame) == 0)
		rte_pktmbuf_free(frame);
}

void reactor_hand_over_destroy(struct reactor *owner, unsigned consumer)
{
	struct link *link = &owner->out[consumer];

	if (!link->hand_over_ring)
		return;
	drain(link->hand_over_ring);
	drain(link->return_ring);
	free(link->hand_over_ring); /* both rings are one allocation */
	*link = (struct link){ 0 };
	if (owner->peers[consumer])
		owner->peers[consumer]->in[owner->index] = (struct link){ 0 };
}

void reactor_hand_over_give(struct reactor *r, unsigned consumer, struct rte_mbuf *frame)
{
	struct rte_ring *hand_over_ring = r->out[consumer].hand_over_ring;

	if (r->in_flight[consumer] == rte_ring_get_capacity(hand_over_ring) ||
	    rte_ring_sp_enqueue(hand_over_ring, frame) != 0) {
		rte_pktmbuf_free(frame);
		r->stats.hand_over_full++;
		return;
	}
	r->in_flight[consumer]++;
	r->stats.handed_over++;
}

void reactor_give(struct reactor *r, unsigned to, struct rte_mbuf *frame)
{
	reactor_hand_over_give(r, to, frame);
	reactor_idle_wake(r->peers[to]);
}

void reactor_hand_over_give_all(struct reactor *r, struct rte_mbuf *frame)
{
	for (unsigned consumer = 0; consumer < r->count; consumer++) {
		struct rte_mbuf *copy;

		if (consumer == r->index)
			continue;
		copy = rte_pktmbuf_copy(frame, r->pool, 0, UINT32_MAX);
		if (copy)
			reactor_hand_over_give(r, consumer, copy);
		else
			r->stats.hand_over_full++;
	}
}

static unsigned take_from(struct reactor *r, const struct link *link, uint64_t now_ns)
{
	struct rte_mbuf *originals[PORT_BURST], *copies[PORT_BURST];
	unsigned n, copied = 0;

	n = rte_ring_sc_dequeue_burst(link->hand_over_ring, (void **)originals, PORT_BURST, NULL);
	if (n == 0)
		return 0;
	for (unsigned i = 0; i < n; i++)
		rte_prefetch0(originals[i]);
	for (unsigned i = 0; i < n; i++)
		rte_prefetch0(rte_pktmbuf_mtod(originals[i], void *));
	for (unsigned i = 0; i < n; i++) {
		copies[copied] = rte_pktmbuf_copy(originals[i], r->pool, 0, UINT32_MAX);
		if (copies[copied])
			copied++;
		else
			r->stats.hand_over_full++;
	}
	/* All of them fit: the owner never has more in flight than this ring holds. */
	rte_ring_sp_enqueue_bulk(link->return_ring, (void *const *)originals, n, NULL);
	r->stats.handed_in += copied;
	if (copied)
		r->ops.receive(r->ops.ctx, copies, copied, now_ns);
	return n;
}

unsigned reactor_hand_over_take(struct reactor *r, uint64_t now_ns)
{
	unsigned taken = 0, peer = r->next_peer;

	for (unsigned i = 0; i < r->count && taken < TAKE_MAX; i++) {
		if (peer != r->index)
			taken += take_from(r, &r->in[peer], now_ns);
		peer = peer + 1 < r->count ? peer + 1 : 0;
	}
	r->next_peer = peer;
	return taken;
}

void reactor_hand_over_reclaim(struct reactor *r)
{
	struct rte_mbuf *frames[PORT_BURST];

	for (unsigned consumer = 0; consumer < r->count; consumer++) {
		/* Terminates: nothing new is handed over meanwhile, and what is in flight fits into the ring. */
		while (r->in_flight[consumer]) {
			const unsigned n = rte_ring_sc_dequeue_burst(r->out[consumer].return_ring, (void **)frames,
								     PORT_BURST, NULL);

			if (n == 0)
				break;
			rte_pktmbuf_free_bulk(frames, n);
			r->in_flight[consumer] -= n;
		}
	}
}

bool reactor_hand_over_waiting(const struct reactor *r)
{
	for (unsigned peer = 0; peer < r->count; peer++)
		if (peer != r->index && !rte_ring_empty(r->in[peer].hand_over_ring))
			return true;
	return false;
}
