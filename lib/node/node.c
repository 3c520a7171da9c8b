/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/node.h"

#include <errno.h>
#include <rte_cycles.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/capture.h"
#include "node/checkpoint.h"
#include "node/crash.h"
#include "node/gate.h"
#include "node/history.h"
#include "node/journal.h"
#include "node/pair.h"
#include "port/net_interface.h"
#include "secure/ticket.h"
#include "wire/layout.h"

enum {
	RPC_SLICES_PER_TURN = 8,
	STALL_S = 30,
	END_S = 5,
	END_PAUSE_US = 500,
	DELAYED_ACK_US = 1000,
	KEEPALIVE_INTERVAL_S = 10,
	KEEPALIVE_PROBES = 6
};

enum {
	DATAGRAM_WINDOW = 256,	    /* packets per session */
	DATAGRAM_ACTIVE_MAX = 1024, /* sessions with something in flight */
	DATAGRAM_RTO_MIN_NS = 50000,
	DATAGRAM_RTO_MIN_ASLEEP_NS = 1000000, /* a reactor may have to wake up first */
	DATAGRAM_ACK_DELAY_NS = 100000,
};
_Static_assert((int)CONFIG_DATA_SEALED == (int)SECURE_DATA_SEALED &&
		       (int)CONFIG_DATA_SEALED_256 == (int)SECURE_DATA_SEALED_256 &&
		       (int)CONFIG_DATA_CHECKED == (int)SECURE_DATA_CHECKED,
	       "the option's choices");
#define DATAGRAM_LEASE_NS UINT64_C(10000000000)

/* ---- what a reactor runs ---- */

static unsigned shard_steer(void *ctx, const struct rte_mbuf *frame)
{
	const struct shard *shard = ctx;
	const struct node *node = shard->node;
	const struct net_flow flow = net_flow(frame);
	const unsigned index = (unsigned)flow.port - node->config->own.data.port;

	switch (flow.kind) {
	case NET_FLOW_NEIGHBOUR:
		return REACTOR_ALL;
	case NET_FLOW_FRAGMENT:
		return 0; /* only the first fragment has a port, so one reactor reassembles all packets */
	case NET_FLOW_OTHER:
		return REACTOR_HERE;
	default:
		return index < node->shards_count ? index : REACTOR_HERE;
	}
}

/* Passes a packet that reactor 0 has reassembled to the reactor that it is for. */
static bool shard_reassembled(void *ctx, struct rte_mbuf *frame)
{
	struct shard *shard = ctx;
	const unsigned to = shard_steer(shard, frame);

	if (to >= shard->node->shards_count || to == shard->index)
		return false;
	reactor_give(shard->reactor, to, frame);
	return true;
}

/* tests.loss_ppm: frees some of n frames; returns how many are left. */
static unsigned lose_frames(struct shard *shard, struct rte_mbuf **frames, unsigned n)
{
	unsigned left = 0;

	for (unsigned i = 0; i < n; i++) {
		if (prng_below(&shard->losses, 1000000) < shard->node->config->loss_ppm)
			rte_pktmbuf_free(frames[i]);
		else
			frames[left++] = frames[i];
	}
	return left;
}

static void shard_receive(void *ctx, struct rte_mbuf **frames, unsigned n, uint64_t now_ns)
{
	struct shard *shard = ctx;

	if (unlikely(shard->node->config->loss_ppm))
		n = lose_frames(shard, frames, n);
	net_input(shard->net, frames, n, now_ns);
}

static unsigned shard_work(void *ctx, uint64_t now_ns)
{
	struct shard *shard = ctx;

	net_turn(shard->net, now_ns);
	if (unlikely(shard->journal != NULL))
		node_gate_turn(shard, now_ns);
	shard->slices = rpc_run(shard->rpc, RPC_SLICES_PER_TURN, now_ns);
	return shard->slices + rpc_datagrams_due(shard->rpc);
}

static void shard_sent(void *ctx, uint64_t begun, uint64_t ended)
{
	const struct shard *shard = ctx;

	rpc_turn_sent(shard->rpc, begun, ended);
}

static unsigned shard_housekeeping(void *ctx, uint64_t now_ns)
{
	struct shard *shard = ctx;

	unsigned hurry = service_sweep(shard->service, now_ns) +
			 service_snapshot_turn(shard->service, now_ns, shard->slices != 0);

	if (shard->observe && !shard->slices)
		observe_idle(shard->observe);
	if (unlikely(shard->journal))
		hurry += node_journal_turn(shard, now_ns);
	return hurry;
}

/* A restart goes back to the journal's last mark: it comes after everything that was acknowledged, so that an ordinary
 * stop loses nothing, whatever journal.durability says. A large request that has begun is completed before. */
static void shard_end(void *ctx)
{
	struct shard *shard = ctx;
	const uint64_t until_ns = clock_ns() + END_S * UINT64_C(1000000000);
	uint64_t now_ns = clock_ns();

	if (!shard->journal)
		return;
	for (; !service_journal_settle(shard->service, now_ns) && !shard->journal->lost; now_ns = clock_ns()) {
		if (now_ns > until_ns) {
			log_warn("reactor %u: a large request was not completed within %d s: the journal lacks the "
				 "changes of the last moments",
				 shard->index, END_S);
			return;
		}
		if (shard_work(shard, now_ns) + shard_housekeeping(shard, now_ns) == 0)
			usleep(END_PAUSE_US); /* it waits for the disk */
	}
}

static unsigned shard_transmit(void *ctx, struct rte_mbuf **frames, unsigned max)
{
	struct shard *shard = ctx;

	unsigned n;

	do {
		rpc_transmit(shard->rpc, net_now_ns(shard->net));
		n = net_output(shard->net, frames, max);
		if (likely(!shard->node->config->loss_ppm || n == 0))
			return n;
		n = lose_frames(shard, frames, n);
	} while (n == 0);
	return n;
}

/* ---- start and stop ---- */

bool node_port_has(const struct node_port *port, const char *host)
{
	for (unsigned i = 0; i < port->config.addresses_count; i++)
		if (strcmp(port->config.addresses[i].host, host) == 0)
			return true;
	return false;
}

static void fill_net_options(const struct node *node, struct shard *shard, struct net_options *o)
{
	const struct config *config = node->config;

	*o = (struct net_options){
		.pool = shard->pool,
		.interfaces_count = node->ports_count,
		.neighbours_silent = shard->index != 0,
		.mld = shard->index == 0,
		.announce = shard->index == 0,
		.reassembled = shard_reassembled,
		.reassembled_ctx = shard,
		.connections_max = config->stack == CONFIG_STACK_KERNEL ? 1 : config->connections_max,
		.receive_window_bytes = config->receive_window_kib << 10,
		.rto_min_us = config->rto_min_us,
		.rto_max_us = config->rto_max_us,
		.delayed_ack_us = DELAYED_ACK_US,
		.time_wait_ms = config->time_wait_ms,
		.user_timeout_ms = config->user_timeout_ms,
		.congestion = config->congestion,
		.ecn = config->ecn,
		.keepalive_idle_s = config->keepalive_s,
		.keepalive_interval_s = KEEPALIVE_INTERVAL_S,
		.keepalive_probes = KEEPALIVE_PROBES,
		.stack = shard->index,
		.stacks = config->reactors,
		.now_ns = clock_ns(),
	};
	for (unsigned i = 0; i < node->ports_count; i++)
		o->interfaces[i] = port_net_interface(node->ports[i].port, &node->ports[i].config);
}

static void fill_datagram_options(const struct node *node, const struct shard *shard, struct dgram_options *o)
{
	const struct config *config = node->config;

	*o = (struct dgram_options){
		.incarnation = node->incarnation,
		.sessions_max = config->sessions_max,
		.memory_in_clear = config->security_memif == CONFIG_MEMIF_TICKETS,
		.active_max = RTE_MIN(config->sessions_max, (uint32_t)DATAGRAM_ACTIVE_MAX),
		.window_max = DATAGRAM_WINDOW,
		.credits = config->credits,
		.rto_min_ns = config->polling ? DATAGRAM_RTO_MIN_NS : DATAGRAM_RTO_MIN_ASLEEP_NS,
		.rto_max_ns = UINT64_C(1000000000),
		.lease_ns = DATAGRAM_LEASE_NS,
		.heartbeat_ns = DATAGRAM_LEASE_NS / 10,
		.ack_delay_ns = DATAGRAM_ACK_DELAY_NS,
		.target_delay_ns = config->target_delay_us * UINT64_C(1000),
	};
}

/* The largest share of all partitions that a reactor has if all nodes have as many reactors as this one. */
static double largest_share(const struct config *config)
{
	const uint64_t reactors = (uint64_t)config->ps_count * config->reactors;

	return (double)((config->partitions + reactors - 1) / reactors) / config->partitions;
}

/* Each reactor's stack and endpoint has its own secret: what a peer sees of one reveals nothing about another. */
static int draw_secret(uint64_t secret[2], struct star_error *err)
{
	const size_t bytes = 2 * sizeof(secret[0]);

	if (getrandom(secret, bytes, 0) != (ssize_t)bytes)
		return star_error_set(err, -EIO, "the kernel provides no random numbers (getrandom)");
	return 0;
}

static struct service *create_service(const struct shard *shard, struct star_error *err)
{
	const struct node *node = shard->node;
	const struct config *config = node->config;
	const struct service_options options = {
		.rights = node->tickets ? rpc_request_rights : NULL,
		.account = node->tickets ? rpc_request_account : NULL,
		.over_quota = rpc_request_over_quota,
		.incarnation = config->journal_directory[0] || config->standby_peer[0] ? 0 : node->incarnation,
		.partitions = config->partitions,
		.store = shard->store,
		.payload_max = config->request_mib << 20,
		.kept_bytes = (uint64_t)config->kept_mib << 20,
		.kept_lease_ns = config->kept_lease_ms * UINT64_C(1000000),
		.share = largest_share(config),
	};

	return service_create(&options, err);
}

/* Builds the stack and the shard of one reactor; its mempool exists. */
static int shard_build(struct shard *shard, struct star_error *err)
{
	struct node *node = shard->node;
	const struct config *config = node->config;
	struct net_options net_options;
	struct rpc_server_options rpc = {
		.port = (uint16_t)(config->own.data.port + shard->index),
		/* Repeated requests would be refused, and then sent as if they were new, before the node knows what it
		 * has executed. */
		.closed = config->standby_peer[0] || config->journal_directory[0],
		.streams_max = config->connections_max,
		.payload_max = config->request_mib << 20,
		.send_queue_bytes = config->send_queue_kib << 10,
		.held_mbufs_max = config->mbufs / 2,
		.stall_ns = STALL_S * UINT64_C(1000000000),
	};

	shard->arena = port_memory_alloc("parameters", node->arena_bytes, shard->index, err);
	if (!shard->arena)
		return err->code;
	port_memory_prefer(shard->arena, node->arena_bytes, shard->numa);
	shard->store = store_create(shard->arena, node->arena_bytes, err);
	if (!shard->store)
		return err->code;
	if ((config->checkpoint_directory[0] || config->standby_peer[0]) && node_shard_add_snapshots(shard, err) < 0)
		return err->code;
	shard->service = create_service(shard, err);
	if (!shard->service)
		return err->code;
	prng_seed(&shard->losses, node->incarnation + shard->index);
	fill_net_options(node, shard, &net_options);
	if (draw_secret(net_options.secret, err) < 0)
		return err->code;
	shard->net = net_create(&net_options, err);
	if (!shard->net)
		return err->code;
	if (config->stack == CONFIG_STACK_KERNEL && node_shard_add_sockets(shard, err) < 0)
		return err->code;
	if (shard->sockets && rpc.closed && node_shard_reserve_port(shard, rpc.port, err) < 0)
		return err->code;
	rpc.transport = shard->sockets ? &ksock_transport : NULL;
	rpc.transport_ctx = shard->sockets;
	if (config->observe_requests) {
		shard->observe = observe_create(rte_get_tsc_hz(), err);
		if (!shard->observe)
			return err->code;
	}
	rpc.observe = shard->observe;
	rpc.net = shard->net;
	rpc.service = service_rpc(shard->service);
	rpc.tickets = node->tickets;
	rpc.reactors = node->shards_count;
	if (!shard->sockets)
		fill_datagram_options(node, shard, &rpc.datagrams);
	/* Also without sessions: rpc's tables of peers use it for their hashes. */
	if (draw_secret(rpc.datagrams.secret, err) < 0)
		return err->code;
	shard->rpc = rpc_server_create(&rpc, err);
	if (!shard->rpc && shard->sockets)
		node_shard_explain_sockets(shard, err);
	return shard->rpc ? 0 : err->code;
}

static int shard_make_reactor(struct shard *shard, struct star_error *err)
{
	const struct node *node = shard->node;
	const struct config *config = node->config;
	struct port *ports[CONFIG_PORTS_MAX];
	struct reactor_options options = {
		.index = shard->index,
		.polling = config->polling,
		.core = config->pin ? (int)config->cores[shard->index] : -1,
		.spin_us = config->spin_us,
		.ports = ports,
		.ports_count = node->ports_count,
		.pool = shard->pool,
		.ops = { .ctx = shard,
			 .steer = shard_steer,
			 .receive = shard_receive,
			 .work = shard_work,
			 .transmit = shard_transmit,
			 .sent = shard->observe ? shard_sent : NULL,
			 .housekeeping = shard_housekeeping,
			 .end = shard_end,
			 .wheel = net_wheel(shard->net) },
	};

	for (unsigned i = 0; i < node->ports_count; i++)
		ports[i] = node->ports[i].port;
	if (shard->sockets) {
		options.ops.poll = node_shard_poll_sockets;
		options.ops.sleep = node_shard_sleep;
		options.ops.transmit = node_shard_transmit_sockets;
	}
	shard->reactor = reactor_create(&options, err);
	return shard->reactor ? 0 : err->code;
}

static uint32_t largest_mtu(const struct config *config)
{
	uint32_t mtu = config->stack == CONFIG_STACK_KERNEL ? node_kernel_mtu() : 0;

	for (unsigned i = 0; i < config->ports_count; i++)
		mtu = RTE_MAX(mtu, config->ports[i].mtu);
	return mtu;
}

/* The NUMA node of the core to which a reactor is pinned, else that of the first NIC; -1: unknown, or irrelevant. */
static int numa_of(const struct config *config, unsigned reactor)
{
	int numa = config->pin ? port_numa_of_core((int)config->cores[reactor]) : -1;

	for (unsigned i = 0; numa < 0 && i < config->ports_count; i++)
		numa = port_numa_of_device(&config->ports[i]);
	return numa;
}

static int open_ports(struct node *node, struct star_error *err)
{
	const struct config *config = node->config;
	struct rte_mempool *pools[WIRE_REACTORS_MAX];

	for (unsigned i = 0; i < node->shards_count; i++) {
		struct shard *shard = &node->shards[i];

		*shard = (struct shard){ .node = node, .index = i };
		shard->numa = numa_of(config, i);
		shard->pool = port_mempool_create_on(i, config->mbufs, largest_mtu(config), shard->numa, err);
		if (!shard->pool)
			return err->code;
		pools[i] = shard->pool;
	}
	for (; node->ports_count < config->ports_count; node->ports_count++) {
		struct node_port *port = &node->ports[node->ports_count];

		port->port = port_open(&port->config, node->ports_count, pools, (uint16_t)node->shards_count,
				       config->own.data.port, err);
		if (!port->port)
			return err->code;
	}
	return 0;
}

/* Sets the affinity to the cores of cores.list, which may be in no process's mask (isolcpus). Other threads must not
 * inherit it. */
static int join_reactors(const struct node *node, struct reactor *const *reactors, struct star_error *err)
{
	const struct config *config = node->config;
	cpu_set_t before, with;
	int status;

	if (sched_getaffinity(0, sizeof(before), &before) != 0)
		return star_error_set(err, -errno, "cannot read the cores that this process may use: %m");
	with = before;
	for (unsigned i = 0; config->pin && i < node->shards_count; i++)
		if (config->cores[i] < CPU_SETSIZE)
			CPU_SET(config->cores[i], &with);
	sched_setaffinity(0, sizeof(with), &with); /* if the kernel refuses this, pinning fails below, and reports it */
	status = reactor_join(reactors, node->shards_count, err);
	sched_setaffinity(0, sizeof(before), &before);
	return status;
}

static int start_reactors(struct node *node, struct star_error *err)
{
	struct reactor *reactors[WIRE_REACTORS_MAX];
	int status;

	for (unsigned i = 0; i < node->shards_count; i++) {
		status = shard_make_reactor(&node->shards[i], err);
		if (status < 0)
			return status;
		reactors[i] = node->shards[i].reactor;
	}
	node_claim_cores(node);
	status = join_reactors(node, reactors, err);
	for (unsigned i = 0; status == 0 && i < node->shards_count; i++)
		status = reactor_start(reactors[i], err);
	return status;
}

static void tell_port(const struct port *port)
{
	char offloads[256] = "";
	size_t used = 0;

	for (unsigned i = 0; port_offload_text(i) && used < sizeof(offloads); i++)
		if (port->offloads >> i & 1)
			used += (size_t)snprintf(offloads + used, sizeof(offloads) - used, "%s%s", used ? ", " : "",
						 port_offload_text(i));
	log_info("port %s: flows reach their reactors by %s; offloads: %s", port->name, port_steers_text(port->steers),
		 used ? offloads : "none");
}

int node_start(struct node *node, const struct config *config, struct star_error *err)
{
	const uint64_t mempools = config->reactors * port_mempool_bytes(config->mbufs, largest_mtu(config));
	uint32_t random;
	int status;

	*node = (struct node){ .config = config };
	pthread_mutex_init(&node->ports_lock, NULL);
	pthread_mutex_init(&node->ports_change, NULL);
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return star_error_set(err, -EIO, "the kernel provides no random numbers (getrandom)");
	node->incarnation = random | 1;
	node_crash_begin(node);
	node->capture = node_capture_create(err);
	node->history = node_history_create(err);
	if (!node->capture || !node->history)
		return err->code;
	if (config->security_data != CONFIG_DATA_OPEN) {
		node->tickets = secure_tickets_create((enum secure_data)config->security_data, err);
		if (!node->tickets)
			return err->code;
	}
	node->arena_bytes = ((size_t)config->parameter_mib << 20) / config->reactors & ~(size_t)4095;
	status = port_eal_start(config, mempools + ((uint64_t)config->parameter_mib << 20), err);
	node->eal_started = status == 0;
	for (unsigned i = 0; status == 0 && i < config->ports_count; i++) {
		node->ports[i].config = config->ports[i];
		status = node_claim(&node->ports[i], err);
	}
	if (status < 0)
		return status;
	node->shards_count = config->reactors;
	if (config->checkpoint_key[0])
		status = ckpt_use_keys(config->checkpoint_key, err);
	if (status == 0)
		status = open_ports(node, err);
	for (unsigned i = 0; status == 0 && i < node->shards_count; i++)
		status = shard_build(&node->shards[i], err);
	if (status == 0)
		status = node_touch(node, err);
	if (status == 0)
		status = node_journal_open(node, err);
	if (status == 0)
		status = node_pair_open(node, err);
	if (status == 0)
		status = start_reactors(node, err);
	if (status == 0 && config->checkpoint_directory[0]) {
		node->checkpoint = node_checkpoint_create(node, err);
		status = node->checkpoint ? 0 : err->code;
	}
	for (unsigned i = 0; status == 0 && i < node->ports_count; i++)
		port_on_gone(node->ports[i].port, node_port_gone, node);
	for (unsigned i = 0; status == 0 && i < node->ports_count; i++)
		tell_port(node->ports[i].port);
	if (status == 0 && config->stack == CONFIG_STACK_KERNEL)
		node_tell_sockets(&node->shards[0]);
	return status == 0 ? node_nics_begin(node, err) : status;
}

bool node_told_to_stop(const struct node *node)
{
	sigset_t pending;

	/* All threads block these signals, and main does not take them until the node serves. */
	return __atomic_load_n(&node->stopping, __ATOMIC_RELAXED) ||
	       (sigpending(&pending) == 0 && (sigismember(&pending, SIGTERM) > 0 || sigismember(&pending, SIGINT) > 0 ||
					      sigismember(&pending, SIGHUP) > 0));
}

void node_fail(struct node *node, const struct star_error *why)
{
	if (__atomic_load_n(&node->failed, __ATOMIC_RELAXED))
		return;
	node->failure = *why;
	__atomic_store_n(&node->failed, true, __ATOMIC_RELEASE);
	kill(getpid(), SIGTERM);
}

void node_stop(struct node *node)
{
	node_crash_end();
	node_nics_end(node);
	node_checkpoint_destroy(node->checkpoint);
	for (unsigned i = 0; i < node->shards_count; i++)
		if (node->shards[i].reactor)
			reactor_stop(node->shards[i].reactor);
	node_journal_close(node);
	node_pair_close(node);
	/* A port's thread may still send a request to a reactor that has stopped. */
	for (unsigned i = 0; i < node->ports_count; i++)
		port_close(node->ports[i].port);
	for (unsigned i = 0; i < node->shards_count; i++) {
		struct shard *shard = &node->shards[i];

		if (shard->reactor)
			reactor_destroy(shard->reactor);
		rpc_server_destroy(shard->rpc);
		observe_destroy(shard->observe);
		ksock_destroy(shard->sockets);
		net_destroy(shard->net);
		service_destroy(shard->service);
		if (shard->store)
			store_destroy(shard->store);
		if (shard->arena)
			port_memory_free(shard->arena, node->arena_bytes);
		node_shard_remove_snapshots(shard);
	}
	for (unsigned i = 0; i < CONFIG_PORTS_MAX; i++)
		node_disclaim(&node->ports[i]);
	node_disclaim_cores(node);
	secure_tickets_destroy(node->tickets);
	node_capture_destroy(node->capture);
	node_history_destroy(node->history);
	/* The mempools are freed with the EAL: freeing them one by one would zero all their memory first. */
	if (node->eal_started)
		port_eal_stop();
}
