/* SPDX-License-Identifier: BSD-3-Clause */
#include "reactor/capture.h"

#include <errno.h>
#include <netinet/in.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum {
	RING = REACTOR_CAPTURE_RING_BYTES,
	LOOK = 128,	/* bytes of a frame that a filter may read: two tags, IPv6 with an extension, ports */
	WRAP = 0xffff,	/* in place of a port's id: the next record is at the beginning of the ring */
	EXTENSIONS = 4, /* extension headers of IPv6 that are skipped */
};

/* In the ring: this header, and the first bytes of the frame, padded to its alignment. */
struct record {
	struct reactor_capture_frame frame;
};
_Static_assert(sizeof(struct record) == 24 && REACTOR_CAPTURE_SNAP_MAX + sizeof(struct record) < RING / 4,
	       "records fit");

struct reactor_capture {
	struct reactor_capture_filter filter;
	uint32_t snap;
	/* written by the reactor, read by the reader */
	uint64_t head __rte_cache_aligned; /* bytes written since the start */
	uint64_t matched, dropped;
	/* written by the reader, read by the reactor */
	uint64_t tail __rte_cache_aligned; /* bytes read since the start */
	uint8_t ring[RING] __rte_cache_aligned;
};

struct reactor_capture *reactor_capture_create(const struct reactor_capture_filter *filter, uint32_t snap,
					       struct star_error *err)
{
	struct reactor_capture *c = aligned_alloc(RTE_CACHE_LINE_SIZE, sizeof(*c));

	if (!c) {
		star_error_set(err, -ENOMEM, "no memory for a ring of captured frames");
		return NULL;
	}
	memset(c, 0, sizeof(*c)); /* also makes the memory resident before the reactor writes to it */
	c->filter = *filter;
	c->snap = snap < REACTOR_CAPTURE_SNAP_MAX ? snap : REACTOR_CAPTURE_SNAP_MAX;
	return c;
}

void reactor_capture_destroy(struct reactor_capture *c)
{
	free(c);
}

/* ---- the filter ---- */

/* The fields of a frame that a filter compares, as far as the frame has them. */
struct seen {
	uint8_t source[16], destination[16];
	uint16_t type, from, to;
	uint8_t protocol;
	bool ip, ports;
};

static void see_ports(struct seen *s, const uint8_t *at, const uint8_t *end)
{
	if ((s->protocol != IPPROTO_TCP && s->protocol != IPPROTO_UDP) || end - at < 4)
		return;
	s->from = (uint16_t)(at[0] << 8 | at[1]);
	s->to = (uint16_t)(at[2] << 8 | at[3]);
	s->ports = true;
}

static void see_ip4(struct seen *s, const uint8_t *at, const uint8_t *end)
{
	const unsigned length = end - at >= 20 ? (at[0] & 15u) * 4 : 0;

	if (length < 20)
		return;
	s->ip = true;
	s->protocol = at[9];
	s->source[10] = s->source[11] = s->destination[10] = s->destination[11] = 0xff;
	memcpy(s->source + 12, at + 12, 4);
	memcpy(s->destination + 12, at + 16, 4);
	/* Only the first fragment has ports. */
	if (((at[6] & 0x1f) | at[7]) == 0 && end - at > length)
		see_ports(s, at + length, end);
}

static void see_ip6(struct seen *s, const uint8_t *at, const uint8_t *end)
{
	uint8_t next;

	if (end - at < 40)
		return;
	s->ip = true;
	next = at[6];
	memcpy(s->source, at + 8, 16);
	memcpy(s->destination, at + 24, 16);
	at += 40;
	for (unsigned i = 0; i < EXTENSIONS && end - at >= 8; i++) {
		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS)
			break;
		next = at[0];
		if (end - at < (at[1] + 1) * 8)
			return;
		at += (at[1] + 1) * 8;
	}
	s->protocol = next;
	see_ports(s, at, end);
}

static struct seen see(const uint8_t *frame, unsigned n)
{
	const uint8_t *at = frame + 12, *end = frame + n;
	struct seen s = { 0 };

	if (n < RTE_ETHER_HDR_LEN)
		return s;
	while ((s.type = (uint16_t)(at[0] << 8 | at[1])) == RTE_ETHER_TYPE_VLAN && end - at >= 6)
		at += 4;
	at += 2;
	if (s.type == RTE_ETHER_TYPE_IPV4)
		see_ip4(&s, at, end);
	else if (s.type == RTE_ETHER_TYPE_IPV6)
		see_ip6(&s, at, end);
	return s;
}

static bool matches(const struct reactor_capture_filter *f, const struct rte_mbuf *frame)
{
	static const uint8_t any[16];
	uint8_t copy[LOOK];
	const unsigned n = RTE_MIN(rte_pktmbuf_pkt_len(frame), (uint32_t)LOOK);
	const uint8_t *bytes = rte_pktmbuf_read(frame, 0, n, copy);
	struct seen s;

	if (!bytes)
		return false;
	s = see(bytes, n);
	if (f->type && f->type != s.type)
		return false;
	if (f->protocol && !(s.ip && f->protocol == s.protocol))
		return false;
	if (f->port && !(s.ports && (f->port == s.from || f->port == s.to)))
		return false;
	return memcmp(f->host, any, sizeof(any)) == 0 || (s.ip && (memcmp(f->host, s.source, sizeof(any)) == 0 ||
								   memcmp(f->host, s.destination, sizeof(any)) == 0));
}

/* ---- the ring ---- */

static uint32_t record_bytes(uint32_t taken)
{
	return (uint32_t)sizeof(struct record) + ((taken + 7) & ~7u);
}

/* Contiguous room for a record; NULL: there is none. *begin: its position, in bytes since the start. */
static struct record *take_room(struct reactor_capture *c, uint32_t bytes, uint64_t *begin)
{
	const uint64_t tail = __atomic_load_n(&c->tail, __ATOMIC_ACQUIRE);
	const uint32_t at = (uint32_t)(c->head % RING), left = RING - at;
	const uint32_t skip = bytes > left ? left : 0;

	if (c->head + skip + bytes - tail > RING)
		return NULL;
	/* Records are multiples of 8 bytes: if less than one is left, the reader skips it by itself. */
	if (skip >= sizeof(struct record))
		((struct record *)&c->ring[at])->frame.port = WRAP;
	*begin = c->head + skip;
	return (struct record *)&c->ring[*begin % RING];
}

static void put(struct reactor_capture *c, uint16_t port, enum reactor_capture_way way, const struct rte_mbuf *frame,
		uint64_t now_ns)
{
	const uint32_t bytes = rte_pktmbuf_pkt_len(frame), taken = RTE_MIN(bytes, c->snap);
	uint64_t begin;
	struct record *r = take_room(c, record_bytes(taken), &begin);
	const void *from;

	c->matched++;
	if (!r) {
		c->dropped++;
		return;
	}
	r->frame = (struct reactor_capture_frame){ now_ns, bytes, taken, port, (uint8_t)way };
	from = rte_pktmbuf_read(frame, 0, taken, r + 1);
	if (from && from != r + 1)
		memcpy(r + 1, from, taken);
	__atomic_store_n(&c->head, begin + record_bytes(taken), __ATOMIC_RELEASE);
}

void reactor_capture_frames(struct reactor_capture *c, uint16_t port, enum reactor_capture_way way,
			    struct rte_mbuf *const *frames, unsigned n)
{
	const uint64_t now_ns = clock_ns();

	if (c->filter.ways && !(c->filter.ways & way))
		return;
	for (unsigned i = 0; i < n; i++)
		if (matches(&c->filter, frames[i]))
			put(c, port, way, frames[i], now_ns);
}

/* The position of the next record, in bytes since the start. */
static uint64_t at_next(const struct reactor_capture *c)
{
	const uint32_t at = (uint32_t)(c->tail % RING), left = RING - at;

	if (left < sizeof(struct record) || ((const struct record *)&c->ring[at])->frame.port == WRAP)
		return c->tail + left;
	return c->tail;
}

bool reactor_capture_next(const struct reactor_capture *c, struct reactor_capture_frame *frame, const uint8_t **head)
{
	const struct record *r;

	if (__atomic_load_n(&c->head, __ATOMIC_ACQUIRE) == c->tail)
		return false;
	r = (const struct record *)&c->ring[at_next(c) % RING];
	*frame = r->frame;
	*head = (const uint8_t *)(r + 1);
	return true;
}

void reactor_capture_done(struct reactor_capture *c)
{
	const uint64_t at = at_next(c);
	const struct record *r = (const struct record *)&c->ring[at % RING];

	__atomic_store_n(&c->tail, at + record_bytes(r->frame.taken), __ATOMIC_RELEASE);
}

void reactor_capture_count(const struct reactor_capture *c, uint64_t *matched, uint64_t *dropped)
{
	*matched = __atomic_load_n(&c->matched, __ATOMIC_RELAXED);
	*dropped = __atomic_load_n(&c->dropped, __ATOMIC_RELAXED);
}
