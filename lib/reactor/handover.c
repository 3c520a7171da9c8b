/* SPDX-License-Identifier: BSD-3-Clause */
#include "reactor/internal.h"

#include <errno.h>
#include <rte_prefetch.h>
#include <stdlib.h>

/* Frames taken from others in a turn: as many as four ports could bring, so that 63 others cannot starve one's own. */
enum { TAKE_MAX = 4 * PORT_BURST };

int reactor_hand_over_create(struct reactor *owner, struct reactor *taker)
{
	const unsigned size = owner->count > HAND_OVER_FEW ? HAND_OVER_RING_MANY : HAND_OVER_RING;
	const size_t bytes = (size_t)rte_ring_get_memsize(size);
	struct link *link = &owner->out[taker->index];
	/* From the heap, and not by rte_ring_create: 64 reactors need more rings than the EAL has memory zones. */
	uint8_t *memory = aligned_alloc(RTE_CACHE_LINE_SIZE, 2 * bytes);
	const unsigned flags = RING_F_SP_ENQ | RING_F_SC_DEQ;

	if (!memory)
		return -ENOMEM;
	link->there = (struct rte_ring *)memory;
	link->back = (struct rte_ring *)(memory + bytes);
	rte_ring_init(link->there, "there", size, flags);
	rte_ring_init(link->back, "back", size, flags);
	taker->in[owner->index] = *link;
	return 0;
}

static void drain(struct rte_ring *ring)
{
	void *frame;

	while (rte_ring_sc_dequeue(ring, &frame) == 0)
		rte_pktmbuf_free(frame);
}

void reactor_hand_over_destroy(struct reactor *owner, unsigned taker)
{
	struct link *link = &owner->out[taker];

	if (!link->there)
		return;
	drain(link->there);
	drain(link->back);
	free(link->there); /* one allocation for both */
	*link = (struct link){ 0 };
	if (owner->peers[taker])
		owner->peers[taker]->in[owner->index] = (struct link){ 0 };
}

void reactor_hand_over_give(struct reactor *r, unsigned taker, struct rte_mbuf *frame)
{
	struct rte_ring *there = r->out[taker].there;

	if (r->lent[taker] == rte_ring_get_capacity(there) || rte_ring_sp_enqueue(there, frame) != 0) {
		rte_pktmbuf_free(frame);
		r->stats.hand_over_full++;
		return;
	}
	r->lent[taker]++;
	r->stats.handed_over++;
}

void reactor_give(struct reactor *r, unsigned to, struct rte_mbuf *frame)
{
	reactor_hand_over_give(r, to, frame);
	reactor_idle_wake(r->peers[to]);
}

void reactor_hand_over_give_all(struct reactor *r, struct rte_mbuf *frame)
{
	for (unsigned taker = 0; taker < r->count; taker++) {
		struct rte_mbuf *copy;

		if (taker == r->index)
			continue;
		copy = rte_pktmbuf_copy(frame, r->pool, 0, UINT32_MAX);
		if (copy)
			reactor_hand_over_give(r, taker, copy);
		else
			r->stats.hand_over_full++;
	}
}

static unsigned take_from(struct reactor *r, const struct link *link, uint64_t now_ns)
{
	struct rte_mbuf *originals[PORT_BURST], *copies[PORT_BURST];
	unsigned n, copied = 0;

	n = rte_ring_sc_dequeue_burst(link->there, (void **)originals, PORT_BURST, NULL);
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
	/* All of them fit: the owner lends no more than this ring holds. */
	rte_ring_sp_enqueue_bulk(link->back, (void *const *)originals, n, NULL);
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

	for (unsigned taker = 0; taker < r->count; taker++) {
		/* Ends by itself: nothing is lent meanwhile, and what is lent fits the ring. */
		while (r->lent[taker]) {
			const unsigned n =
				rte_ring_sc_dequeue_burst(r->out[taker].back, (void **)frames, PORT_BURST, NULL);

			if (n == 0)
				break;
			rte_pktmbuf_free_bulk(frames, n);
			r->lent[taker] -= n;
		}
	}
}

bool reactor_hand_over_waiting(const struct reactor *r)
{
	for (unsigned peer = 0; peer < r->count; peer++)
		if (peer != r->index && !rte_ring_empty(r->in[peer].there))
			return true;
	return false;
}
