/* SPDX-License-Identifier: BSD-3-Clause */
/* The process's one poller: DPDK, the port, the stack and the endpoint. Control path. */
#include "client_dpdk/poller.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "port/net_interface.h"

/* Of the worker's endpoint of datagrams. */
enum {
	SESSIONS_MAX = 4096,
	ACTIVE_MAX = 512,
	WINDOW_MAX = 512,
	RTO_MIN_NS = 50000,
	RTO_MAX_NS = 1000000000,
	LINK_WAIT_MS = 500,
	TARGET_ASLEEP_US = 2 * DOZE_MAX_NS / 1000,
};
static const uint64_t lease_ns = UINT64_C(10000000000), heartbeat_ns = 1000000000;

static pthread_mutex_t setup_lock = PTHREAD_MUTEX_INITIALIZER;
static struct poller *the_poller;
static bool eal_started; /* once a process: DPDK cannot be started again after its end */

static int make_net(struct poller *p, const struct config_port *config, struct star_error *err)
{
	struct net_options o = {
		.pool = p->pool,
		.interfaces_count = 1,
		.mld = true,
		.connections_max = 1,
		.receive_window_bytes = 1 << 16,
		.rto_min_us = 200000,
		.rto_max_us = 60000000,
		.delayed_ack_us = 1000,
		.time_wait_ms = 1000,
		.user_timeout_ms = 30000,
		.now_ns = clock_ns(),
	};

	o.interfaces[0] = port_net_interface(p->port, config);
	if (getrandom(o.secret, sizeof(o.secret), 0) != sizeof(o.secret))
		return star_error_set(err, -EIO, "the kernel has no random numbers");
	p->net = net_create(&o, err);
	return p->net ? 0 : err->code;
}

static int make_dgram(struct poller *p, const struct config *config, struct star_error *err)
{
	struct dgram_options o = {
		.net = p->net,
		.sessions_max = SESSIONS_MAX,
		.active_max = ACTIVE_MAX,
		.window_max = WINDOW_MAX,
		.credits = config->credits,
		.held_mbufs_max = config->mbufs / 2,
		.message_max = sizeof(struct wire_frame) + WIRE_PAYLOAD_MAX,
		.rto_min_ns = RTO_MIN_NS,
		.rto_max_ns = RTO_MAX_NS,
		.lease_ns = lease_ns,
		.heartbeat_ns = heartbeat_ns,
		.ack_delay_ns = ACK_DELAY_NS,
		/* Threads that sleep, or share their core, cause more delay than a network path: that is not
		 * congestion. */
		.target_delay_ns =
			RTE_MAX(config->target_delay_us, config->polling ? 0u : TARGET_ASLEEP_US) * UINT64_C(1000),
		.handler = &dpdk_stream_handler,
	};

	if (getrandom(o.secret, sizeof(o.secret), 0) != sizeof(o.secret))
		return star_error_set(err, -EIO, "the kernel has no random numbers");
	p->dgram = dgram_create(&o, err);
	return p->dgram ? 0 : err->code;
}

static void destroy(struct poller *p)
{
	if (p->dgram)
		dgram_destroy(p->dgram);
	if (p->net) {
		struct rte_mbuf *frames[PORT_BURST];
		unsigned n;

		/* Tells the peers that this process closes. */
		while ((n = net_output(p->net, frames, PORT_BURST))) {
			const unsigned sent = port_send(p->port, 0, frames, (uint16_t)n);

			rte_pktmbuf_free_bulk(frames + sent, n - sent);
		}
		net_destroy(p->net);
	}
	port_close(p->port);
	rte_mempool_free(p->pool);
	pthread_mutex_destroy(&p->sleepers_lock);
	free(p);
}

/* A memif connects in several steps; the first frame, a neighbour solicitation, would be lost before that. */
static void await_link(const struct poller *p)
{
	const struct timespec moment = { 0, 1000000 };

	for (int i = 0; i < LINK_WAIT_MS && !port_link(p->port); i++)
		nanosleep(&moment, NULL);
}

static struct poller *create_poller(const struct config *config, struct star_error *err)
{
	struct poller *p = aligned_alloc(64, (sizeof(*p) + 63) & ~(size_t)63);
	int rc = 0;

	if (!p) {
		star_error_set(err, -ENOMEM, "out of memory for the network port");
		return NULL;
	}
	memset(p, 0, sizeof(*p));
	TAILQ_INIT(&p->dirty);
	pthread_mutex_init(&p->sleepers_lock, NULL);
	p->config = config->ports[0];
	p->viewed_max = config->mbufs / 8 * 3;
	p->now_ns = p->busy_ns = clock_ns();
	if (!eal_started)
		rc = port_eal_start(config, port_mempool_bytes(config->mbufs, config->ports[0].mtu), err);
	eal_started = rc == 0;
	if (rc == 0) {
		p->pool = port_mempool_create(0, config->mbufs, config->ports[0].mtu, err);
		p->port = p->pool ? port_open(&config->ports[0], 0, &p->pool, 1, 0, err) : NULL;
		rc = p->port ? make_net(p, &config->ports[0], err) : err->code;
	}
	if (rc == 0)
		rc = make_dgram(p, config, err);
	if (rc == 0) {
		await_link(p);
		return p;
	}
	destroy(p);
	return NULL;
}

struct poller *dpdk_poller_get(const struct config *config, struct star_error *err)
{
	struct poller *p;
	bool same;

	pthread_mutex_lock(&setup_lock);
	p = the_poller;
	if (p && p->users == 0)
		dpdk_poller_reclaim(p);
	same = p && memcmp(&p->config, &config->ports[0], sizeof(p->config)) == 0;
	if (p && !same && (p->users || p->viewed)) {
		star_error_set(err, -EBUSY,
			       "this process has a cluster%s open with another port: all open clusters share one port",
			       p->users ? "" : "'s view");
		p = NULL;
	} else if (!same) {
		if (p)
			destroy(p);
		p = the_poller = create_poller(config, err);
	}
	if (p)
		p->users++;
	pthread_mutex_unlock(&setup_lock);
	return p;
}

/* The port stays open, because opening and closing are the weakest points of drivers and of the EAL's interrupt
 * thread. */
void dpdk_poller_put(struct poller *p)
{
	pthread_mutex_lock(&setup_lock);
	p->users--;
	pthread_mutex_unlock(&setup_lock);
}

/* After the link was down there may be another appliance: its link-layer address is resolved again. */
static void forget_neighbours(struct poller *p)
{
	struct net_interface *interface = net_interface_find(p->net, p->port->id);
	uint32_t cursor = 0;
	unsigned ended = 0;

	while (!net_interface_end(p->net, interface, &cursor, &ended))
		; /* it has no connections: one call is enough */
}

void dpdk_poller_link(struct poller *p)
{
	const bool up = port_link(p->port);

	p->link_ns = p->now_ns + (up ? LINK_CHECK_NS : LINK_RETRY_NS);
	if (up && p->link_down)
		forget_neighbours(p);
	p->link_down = !up;
}
