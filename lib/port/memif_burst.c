/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames from and to a client's memory. The rings' cursors have 16 bits and wrap around. A producer advances head, a
 * consumer tail. On rings to the client, the client offers empty buffers up to head, and we fill them up to tail.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "port/memif_internal.h"

enum { LOCK_LOOKS = 2000, EXPECT_BYTES = 2048 };

/* Reads a field that the client writes exactly once: the compiler must not read it again after a check. */
#define ONCE(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

/* There is a new client, or none any more. The thread waits for `taken`. */
static void __attribute__((noinline)) take_offer(struct memif_queue *q, uint16_t queue, struct memif_link *link)
{
	q->in = link && queue < link->in_count ? &link->in[queue] : NULL;
	q->out = link ? &link->out[queue % link->out_count] : NULL;
	q->shared = link && link->shared;
	q->broken = false;
	__atomic_store_n(&q->taken, link, __ATOMIC_RELEASE);
}

static struct memif_link *current(struct memif *memif, uint16_t queue)
{
	struct memif_queue *q = &memif->queue[queue];
	struct memif_link *link = __atomic_load_n(&q->offered, __ATOMIC_ACQUIRE);

	if (unlikely(link != q->taken))
		take_offer(q, queue, link);
	return unlikely(q->broken) ? NULL : link;
}

/* The bytes to which a descriptor refers; NULL: they are outside of its region. */
static uint8_t *resolve(const struct memif_link *link, uint16_t region, uint32_t offset, uint32_t bytes)
{
	const struct memif_region *r = region < link->regions_count ? &link->regions[region] : NULL;

	if (unlikely(!r || offset > r->bytes || bytes > r->bytes - offset))
		return NULL;
	return r->memory + offset;
}

/* Copies one frame, from at most `ready` descriptors from *at on, to an mbuf. 0: it is complete; -EMSGSIZE: it does not
 * fit, and is skipped; -EAGAIN: the rest has not arrived; -EBADMSG: it is invalid. *at moves past it. */
static int copy_in(const struct memif_link *link, const struct memif_end *end, uint16_t *at, uint16_t ready,
		   struct rte_mbuf *m)
{
	uint32_t room = rte_pktmbuf_tailroom(m), used = 0;
	bool fits = true, more = true;

	for (unsigned segment = 0; more; segment++) {
		const struct memif_descriptor *d = &end->ring->descriptors[*at & end->mask];
		const uint32_t bytes = ONCE(d->bytes);
		const uint8_t *from = resolve(link, ONCE(d->region), ONCE(d->offset), bytes);

		if (unlikely(ready-- == 0))
			return -EAGAIN;
		if (unlikely(!from || segment == MEMIF_SEGMENTS_MAX))
			return -EBADMSG;
		more = ONCE(d->flags) & MEMIF_DESCRIPTOR_NEXT;
		++*at;
		fits = fits && bytes <= room - used;
		if (likely(fits)) {
			memcpy(rte_pktmbuf_mtod_offset(m, uint8_t *, used), from, bytes);
			used += bytes;
		}
	}
	m->data_len = (uint16_t)used;
	m->pkt_len = used;
	return fits && used ? 0 : -EMSGSIZE;
}

/* Prefetches the next frame, and the memory to which it will most likely be copied: its lines are still in the client
 * core's cache, and after a request's rows the TLB has entries for neither. */
__attribute__((target("prfchw"))) static void expect_frame(const struct memif_link *link, const struct memif_end *end,
							   uint16_t at, const struct rte_mbuf *m)
{
	const struct memif_descriptor *d = &end->ring->descriptors[at & end->mask];
	const uint32_t bytes = RTE_MIN(ONCE(d->bytes), (uint32_t)EXPECT_BYTES);
	const uint8_t *from = resolve(link, ONCE(d->region), ONCE(d->offset), bytes);

	for (uint32_t i = 0; from && i < bytes; i += RTE_CACHE_LINE_SIZE)
		__builtin_prefetch(from + i, 0);
	__builtin_prefetch(rte_pktmbuf_mtod(m, const void *), 1);
}

uint16_t memif_receive(struct memif *memif, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	struct memif_queue *q = &memif->queue[queue];
	const struct memif_link *link = current(memif, queue);
	uint16_t taken = 0, ready, at, begin;
	struct memif_end *end;
	int status;

	if (!link || !q->in)
		return 0;
	end = q->in;
	ready = (uint16_t)(__atomic_load_n(&end->ring->head, __ATOMIC_ACQUIRE) - end->at);
	if (ready == 0)
		return 0;
	if (unlikely(ready > end->mask + 1)) {
		q->broken = true;
		return 0;
	}
	n = RTE_MIN(n, ready);
	if (unlikely(rte_pktmbuf_alloc_bulk(q->pool, mbufs, n) != 0))
		return 0;
	at = begin = end->at;
	expect_frame(link, end, at, mbufs[0]);
	while (taken < n && (uint16_t)(at - begin) < ready) {
		uint16_t next = at;

		if ((uint16_t)(at + 1 - begin) < ready)
			expect_frame(link, end, (uint16_t)(at + 1), mbufs[RTE_MIN(taken + 1, n - 1)]);
		status = copy_in(link, end, &next, (uint16_t)(ready - (uint16_t)(at - begin)), mbufs[taken]);

		if (unlikely(status == -EAGAIN || status == -EBADMSG)) {
			q->broken = true; /* a client publishes only complete frames */
			break;
		}
		at = next;
		if (likely(status == 0))
			mbufs[taken++]->port = memif->id;
	}
	if (unlikely(taken < n))
		rte_pktmbuf_free_bulk(mbufs + taken, n - taken);
	end->at = at;
	__atomic_store_n(&end->ring->tail, at, __ATOMIC_RELEASE);
	return taken;
}

/* Prefetches a buffer that will be written next: its lines are still in the cache of the client's core, which has read
 * them last. */
__attribute__((target("prfchw"))) static void fetch_buffer(const struct memif_link *link, const struct memif_end *end,
							   uint16_t at, uint32_t bytes)
{
	const struct memif_descriptor *d = &end->ring->descriptors[at & end->mask];
	const uint8_t *to = resolve(link, ONCE(d->region), ONCE(d->offset), bytes);

	for (uint32_t i = 0; to && i < bytes; i += RTE_CACHE_LINE_SIZE)
		__builtin_prefetch(to + i, 1);
}

/* Copies a frame into the buffers from *at on; 0; -EAGAIN: there is not enough room yet; -EBADMSG: a buffer is
 * invalid. */
static int copy_out(const struct memif_link *link, const struct memif_end *end, uint16_t *at, uint16_t ready,
		    const struct rte_mbuf *m)
{
	uint32_t left = rte_pktmbuf_pkt_len(m), from = 0;

	while (left) {
		struct memif_descriptor *d = &end->ring->descriptors[*at & end->mask];
		const uint32_t room = ONCE(d->bytes), bytes = RTE_MIN(room, left);
		uint8_t *to = resolve(link, ONCE(d->region), ONCE(d->offset), room);
		const void *part;

		if (ready-- == 0)
			return -EAGAIN;
		if (unlikely(!to || room == 0))
			return -EBADMSG;
		part = rte_pktmbuf_read(m, from, bytes, to);
		if (part != to)
			memcpy(to, part, bytes);
		from += bytes;
		left -= bytes;
		d->bytes = bytes;
		d->flags = left ? MEMIF_DESCRIPTOR_NEXT : 0;
		++*at;
	}
	return 0;
}

/* Asks the thread to wake the client; the event fd is not used here: memif_wake.c explains why. */
static void wake(const struct memif *memif, struct memif_end *end)
{
	const uint64_t one = 1;

	/* between the write of tail and the read of flags; pairs with the client's barrier between flags and tail */
	rte_smp_mb();
	if (ONCE(end->ring->flags) & MEMIF_RING_MASKED)
		return;
	/* The request is still pending: the thread will wake the client after this frame too. */
	if (__atomic_load_n(&end->wanted, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&end->wanted, 1, __ATOMIC_RELEASE);
	if (write(memif->ask_fd, &one, sizeof(one)) < 0)
		return; /* its count is near 2^64: it is readable */
}

/* Only used if a client has fewer rings than there are reactors. The lock is held while a burst is copied, some
 * microseconds; a holder that has lost its core meanwhile is not waited for. */
static bool lock(struct memif_end *end)
{
	for (unsigned i = 0; i < LOCK_LOOKS; i++) {
		uint32_t unlocked = 0;

		if (__atomic_compare_exchange_n(&end->locked, &unlocked, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
		rte_pause();
	}
	return false;
}

static uint16_t send_burst(const struct memif *memif, const struct memif_link *link, struct memif_queue *q,
			   struct rte_mbuf **mbufs, uint16_t n)
{
	struct memif_end *end = q->out;
	uint16_t sent = 0, ready, at, begin;
	int status = 0;

	ready = (uint16_t)(__atomic_load_n(&end->ring->head, __ATOMIC_ACQUIRE) - end->at);
	if (unlikely(ready > end->mask + 1)) {
		q->broken = true;
		return 0;
	}
	at = begin = end->at;
	for (; sent < n; sent++) {
		uint16_t next = at;

		if (sent + 1 < n)
			fetch_buffer(link, end, (uint16_t)(at + 1), rte_pktmbuf_data_len(mbufs[sent + 1]));
		status = copy_out(link, end, &next, (uint16_t)(ready - (uint16_t)(at - begin)), mbufs[sent]);
		if (status != 0)
			break;
		at = next;
	}
	if (unlikely(status == -EBADMSG))
		q->broken = true;
	if (sent == 0)
		return 0;
	end->at = at;
	__atomic_store_n(&end->ring->tail, at, __ATOMIC_RELEASE);
	wake(memif, end);
	return sent;
}

uint16_t memif_send(struct memif *memif, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	struct memif_queue *q = &memif->queue[queue];
	const struct memif_link *link = current(memif, queue);
	uint16_t sent;

	if (!link || (unlikely(q->shared) && !lock(q->out)))
		return 0;
	sent = send_burst(memif, link, q, mbufs, n);
	if (unlikely(q->shared))
		__atomic_store_n(&q->out->locked, 0, __ATOMIC_RELEASE);
	if (sent)
		rte_pktmbuf_free_bulk(mbufs, sent);
	return sent;
}

int memif_arm(struct memif *memif, uint16_t queue)
{
	struct memif_queue *q = &memif->queue[queue];
	const struct memif_link *link = current(memif, queue);

	if (!link || !q->in)
		return 0; /* the bell signals when one comes */
	__atomic_store_n(&q->in->ring->flags, 0, __ATOMIC_RELAXED);
	rte_smp_mb(); /* pairs with the client's barrier between head and flags */
	return __atomic_load_n(&q->in->ring->head, __ATOMIC_ACQUIRE) == q->in->at ? 0 : -EAGAIN;
}

void memif_disarm(struct memif *memif, uint16_t queue)
{
	struct memif_queue *q = &memif->queue[queue];
	const struct memif_link *link = current(memif, queue);
	struct epoll_event events[2];
	uint64_t rings;

	if (link && q->in)
		__atomic_store_n(&q->in->ring->flags, MEMIF_RING_MASKED, __ATOMIC_RELAXED);
	if (read(q->bell, &rings, sizeof(rings)) < 0)
		rings = 0; /* it was not signalled */
	/* The client's event fd is watched edge-triggered: reading its event from our own epoll set clears it. The fd
	 * itself is never read, because only the kernel may touch it on a reactor. */
	if (epoll_wait(q->wait_fd, events, RTE_DIM(events), 0) < 0)
		return;
}
