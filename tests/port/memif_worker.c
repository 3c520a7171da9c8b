/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's end of a memif, against the appliance's: both in this process. */
#include "port/memif_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/prng.h"
#include "tests/port/cases.h"
#include "tests/port/child.h"
#include "tests/unit.h"

enum { MTU = 9000, FRAME_MAX = MTU + 14, WAIT_US = 3000000, FRAMES = 3000, NONSENSE = 20000 };

static const char path[] = "/tmp/star-test-memif-worker.sock";

static struct config config;
static struct rte_mempool *pools[2]; /* the appliance's, the worker's */
static struct port *appliance, *worker;
static struct prng prng;

static struct port *open_end(const char *role, struct rte_mempool **pool)
{
	struct star_error err = { 0 };
	struct port *port;

	snprintf(config.ports[0].options, sizeof(config.ports[0].options), "socket=%s,id=3,secret=psst,role=%s", path,
		 role);
	port = port_open(&config.ports[0], 0, pool, 1, 7000, &err);
	if (!port)
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	return port;
}

static bool begin(void)
{
	struct star_error err = { 0 };

	child_capture();
	child_config(&config, "net_memif", MTU);
	config.ports[0].interface[0] = 0;
	if (!child_eal(&config))
		return false;
	for (unsigned i = 0; i < 2; i++)
		pools[i] = port_mempool_create(i, CHILD_MBUFS, MTU, &err);
	appliance = open_end("server", &pools[0]);
	worker = open_end("client", &pools[1]);
	prng_seed(&prng, 7);
	return appliance && worker;
}

static unsigned drop_all(struct port *port)
{
	struct rte_mbuf *mbufs[PORT_BURST];
	const uint16_t n = port_receive(port, 0, mbufs, PORT_BURST);

	rte_pktmbuf_free_bulk(mbufs, n);
	return n;
}

/* Both look after it, as their threads would. */
static bool becomes(bool up)
{
	const uint64_t until_us = clock_us() + WAIT_US;

	while (clock_us() < until_us) {
		if (appliance)
			drop_all(appliance);
		if (port_link(worker) == up)
			return true;
	}
	return false;
}

/* A frame of n bytes, in mbufs of at most `part`. */
static struct rte_mbuf *make_frame(struct rte_mempool *pool, unsigned bytes, unsigned part, uint8_t mark)
{
	struct rte_mbuf *first = NULL, *last = NULL;

	for (unsigned at = 0; at < bytes;) {
		const unsigned n = RTE_MIN(part, bytes - at);
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

		for (unsigned i = 0; m && i < n; i++)
			rte_pktmbuf_mtod(m, uint8_t *)[i] = (uint8_t)(mark + (at + i) * 7);
		if (!CHECK(m != NULL))
			return first;
		m->data_len = (uint16_t)n;
		if (last)
			last->next = m;
		else
			first = m;
		last = m;
		first->nb_segs = (uint16_t)(m == first ? 1 : first->nb_segs + 1);
		first->pkt_len = at + n;
		at += n;
	}
	return first;
}

static void check_frame(struct rte_mbuf *m, const struct port *at, unsigned bytes, uint8_t mark)
{
	unsigned wrong = 0;

	CHECK_UINT(m->pkt_len, bytes);
	CHECK_UINT(m->nb_segs, 1);
	CHECK_UINT(m->port, at->id);
	for (unsigned i = 0; i < RTE_MIN(bytes, (unsigned)m->data_len); i++)
		wrong += rte_pktmbuf_mtod(m, uint8_t *)[i] != (uint8_t)(mark + i * 7);
	CHECK_UINT(wrong, 0);
	rte_pktmbuf_free(m);
}

/* Bursts of frames of all sizes, whole or in pieces, more of them than a ring has places. */
static void carry(struct port *from, struct rte_mempool *pool, struct port *to)
{
	struct rte_mbuf *mbufs[PORT_BURST];

	for (unsigned sent = 0; sent < FRAMES;) {
		unsigned bytes[PORT_BURST];
		const unsigned n = 1 + (unsigned)prng_below(&prng, PORT_BURST);

		for (unsigned i = 0; i < n; i++) {
			bytes[i] = 60 + (unsigned)prng_below(&prng, FRAME_MAX - 59);
			mbufs[i] = make_frame(pool, bytes[i], i % 2 ? FRAME_MAX : 3000, (uint8_t)(sent + i));
		}
		if (!CHECK_UINT(port_send(from, 0, mbufs, (uint16_t)n), n) ||
		    !CHECK_UINT(port_receive(to, 0, mbufs, PORT_BURST), n))
			return;
		for (unsigned i = 0; i < n; i++)
			check_frame(mbufs[i], to, bytes[i], (uint8_t)(sent + i));
		sent += n;
	}
}

static void end(void)
{
	port_close(worker);
	port_close(appliance);
	for (unsigned i = 0; i < 2; i++)
		CHECK_UINT(rte_mempool_in_use_count(pools[i]), 0);
	port_eal_stop();
}

/* As often as the appliance goes and comes back. */
void memif_worker_carries_frames(void)
{
	unsigned before = 0;

	if (!begin())
		return;
	for (int life = 0; life < 5; life++) {
		struct rte_mbuf *m;

		if (!CHECK(becomes(true)))
			return;
		carry(worker, pools[1], appliance);
		carry(appliance, pools[0], worker);
		port_close(appliance);
		appliance = NULL;
		m = make_frame(pools[1], 100, 100, 0);
		CHECK(becomes(false));
		CHECK_UINT(port_send(worker, 0, &m, 1), 0);
		CHECK_UINT(drop_all(worker), 0);
		rte_pktmbuf_free(m);
		if (life == 0)
			before = unit_entries("/proc/self/fd");
		CHECK_UINT(unit_entries("/proc/self/fd"), before);
		appliance = open_end("server", &pools[0]);
	}
	end();
}

/* A full ring takes no more, until the appliance has read. */
void memif_worker_waits_for_room(void)
{
	struct rte_mbuf *m = NULL;
	unsigned sent = 0, received = 0, n;

	if (!begin() || !CHECK(becomes(true)))
		return;
	for (; sent < 5000 && (m = make_frame(pools[1], 60, 60, 0)) && port_send(worker, 0, &m, 1) == 1; sent++)
		;
	CHECK_UINT(sent, 1024);
	CHECK_UINT(drop_all(appliance), PORT_BURST);
	CHECK_UINT(port_send(worker, 0, &m, 1), 1);
	while ((n = drop_all(appliance)))
		received += n;
	CHECK_UINT(received, 1024 - PORT_BURST + 1);
	end();
}

/* The appliance's memory errors are not the worker's: nothing that stands in the rings makes it read or write
 * elsewhere. */
void memif_worker_survives_nonsense(void)
{
	if (!begin() || !CHECK(becomes(true)))
		return;
	for (unsigned i = 0; i < NONSENSE; i++) {
		struct memif_link *link = appliance->memif->link;
		struct memif_ring *ring = prng_below(&prng, 2) ? link->in[0].ring : link->out[0].ring;
		struct memif_descriptor *d = &ring->descriptors[prng_below(&prng, 1024)];
		struct rte_mbuf *m = make_frame(pools[1], 60, 60, 0);

		switch (prng_below(&prng, 4)) {
		case 0:
			*d = (struct memif_descriptor){ .flags = (uint16_t)prng_next(&prng),
							.region = (uint16_t)prng_next(&prng),
							.bytes = (uint32_t)prng_next(&prng),
							.offset = (uint32_t)prng_next(&prng) };
			break;
		case 1:
			ring->tail = (uint16_t)prng_next(&prng);
			break;
		case 2:
			ring->head = (uint16_t)prng_next(&prng);
			break;
		default:
			ring->tail++;
		}
		drop_all(worker);
		if (m && port_send(worker, 0, &m, 1) == 0)
			rte_pktmbuf_free(m);
	}
	CHECK(becomes(true));
	end();
}
