/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports on a veth pair; the table of all cases. */
#include "port/port.h"

#include <errno.h>
#include <net/if.h>
#include <rte_lcore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "reactor/reactor.h"
#include "tests/port/cases.h"
#include "tests/port/child.h"
#include "tests/unit.h"

const char *const unit_suite = "port";

struct opened {
	struct config config;
	struct rte_mempool *pools[4];
	struct port *port;
	int peer;
};

/* The EAL, pools and a port of a driver on star0. */
static bool open_port(struct opened *o, const char *device, unsigned mtu, uint16_t queues)
{
	struct star_error err = { 0 };

	child_config(&o->config, device, mtu);
	if (!child_eal(&o->config))
		return false;
	for (uint16_t queue = 0; queue < queues; queue++)
		o->pools[queue] = port_mempool_create(queue, CHILD_MBUFS, mtu, &err);
	o->port = port_open(&o->config.ports[0], 0, o->pools, queues, 7000, &err);
	if (!o->port)
		return unit_fail(__FILE__, __LINE__, "%s", err.text);
	o->peer = child_peer();
	return true;
}

static void close_port(struct opened *o)
{
	/* net_af_xdp keeps what is in its rings; the pool goes with the EAL. */
	const bool keeps = strcmp(o->config.ports[0].device, "net_af_xdp") == 0;

	port_close(o->port);
	for (unsigned i = 0; i < 4 && o->pools[i] && !keeps; i++)
		CHECK_UINT(rte_mempool_in_use_count(o->pools[i]), 0);
	port_eal_stop();
	CHECK_STR(child_captured(), "");
}

/* A frame there and the same one back. */
static void echo(struct opened *o, uint16_t queue, unsigned bytes)
{
	uint8_t sent[CHILD_FRAME_MAX], back[CHILD_FRAME_MAX];
	struct rte_mbuf *mbuf;

	child_frame(sent, o->port, 1000, bytes);
	CHECK_INT(send(o->peer, sent, bytes, 0), bytes);
	mbuf = child_receive(o->port, queue);
	if (!CHECK(mbuf))
		return;
	CHECK_UINT(mbuf->pkt_len, bytes);
	CHECK_UINT(mbuf->data_len, bytes);
	CHECK_UINT(mbuf->port, o->port->id);
	CHECK(rte_pktmbuf_headroom(mbuf) >= RTE_PKTMBUF_HEADROOM);
	CHECK_UINT(rte_pktmbuf_priv_size(mbuf->pool), PORT_PRIV_BYTES);
	CHECK_MEM(rte_pktmbuf_mtod(mbuf, uint8_t *), sent, bytes);
	CHECK_UINT(port_send(o->port, queue, &mbuf, 1), 1);
	CHECK_INT(recv(o->peer, back, sizeof(back), 0), bytes);
	CHECK_MEM(back, sent, bytes);
}

/* Two frames, each in two pieces. */
static void send_chains(struct opened *o)
{
	struct rte_mbuf *mbufs[4];
	uint8_t sent[300], back[CHILD_FRAME_MAX];

	child_frame(sent, o->port, 1, 300);
	for (int i = 0; i < 4; i++) {
		mbufs[i] = rte_pktmbuf_alloc(o->pools[0]);
		memcpy(rte_pktmbuf_append(mbufs[i], i < 2 ? 100 : 200), sent + (i < 2 ? 0 : 100), i < 2 ? 100 : 200);
		CHECK_INT(i < 2 ? 0 : rte_pktmbuf_chain(mbufs[i - 2], mbufs[i]), 0);
	}
	CHECK_UINT(port_send(o->port, 0, mbufs, 2), 2);
	for (int i = 0; i < 2; i++)
		CHECK(recv(o->peer, back, sizeof(back), 0) == 300 && memcmp(back, sent, 300) == 0);
}

static void carry_frames(const char *device, unsigned mtu)
{
	struct ifreq request = { .ifr_name = "star0" };
	struct opened o = { 0 };

	child_veth(mtu, 1, false);
	child_capture();
	if (!open_port(&o, device, mtu, 1))
		return;
	CHECK_INT(ioctl(o.peer, SIOCGIFHWADDR, &request), 0);
	CHECK_MEM(o.port->mac.addr_bytes, request.ifr_hwaddr.sa_data, 6);
	CHECK_UINT(o.port->queues, 1);
	CHECK_UINT(o.port->mtu, mtu);
	echo(&o, 0, 60);
	echo(&o, 0, mtu + 14);
	for (int i = 0; i < 3000; i++) /* more than any ring holds */
		echo(&o, 0, 100);
	if (o.port->sends_itself)
		send_chains(&o);
	close_port(&o);
}

static void ring_for_frames(const char *device)
{
	uint8_t frame[CHILD_FRAME_MAX];
	struct opened o = { 0 };
	struct rte_mbuf *mbuf;

	child_veth(1500, 1, false);
	child_capture();
	if (!open_port(&o, device, 1500, 1) || !CHECK(o.port->wait_fds[0] >= 0))
		return;
	for (int i = 0; i < 1500; i++) { /* around the driver's ring */
		CHECK_INT(port_wait_arm(o.port, 0), 0);
		if (!CHECK(!child_rings(o.port, 0, i == 0 ? 50 : 0)))
			break;
		CHECK_INT(send(o.peer, frame, child_frame(frame, o.port, 1, 100), 0), 100);
		CHECK_INT(send(o.peer, frame, child_frame(frame, o.port, 2, 100), 0), 100);
		if (!CHECK(child_rings(o.port, 0, 5000)))
			break;
		port_wait_disarm(o.port, 0);
		for (int n = 0; n < 2; n++) {
			mbuf = child_receive(o.port, 0);
			CHECK(mbuf);
			rte_pktmbuf_free(mbuf);
		}
	}
	close_port(&o);
}

static void af_packet_carries(void)
{
	carry_frames("net_af_packet", 1500);
}

static void af_packet_carries_large(void)
{
	carry_frames("net_af_packet", 3900);
}

/* Wherever in the pool an mbuf lies, it can be sent. */
static void send_every_mbuf(const char *device)
{
	uint8_t sent[CHILD_FRAME_MAX], got[CHILD_FRAME_MAX];
	static struct rte_mbuf *mbufs[CHILD_MBUFS];
	struct opened o = { 0 };
	unsigned n = 0;

	child_veth(1500, 1, false);
	child_capture();
	if (!open_port(&o, device, 1500, 1))
		return;
	while (n < CHILD_MBUFS && (mbufs[n] = rte_pktmbuf_alloc(o.pools[0])))
		n++;
	CHECK(n >= CHILD_MBUFS / 4); /* the driver has some */
	for (unsigned i = 0; i < n; i++) {
		child_frame(sent, o.port, (uint16_t)i, 200);
		memcpy(rte_pktmbuf_append(mbufs[i], 200), sent, 200);
		if (!CHECK_UINT(port_send(o.port, 0, &mbufs[i], 1), 1) ||
		    !CHECK_INT(recv(o.peer, got, sizeof(got), 0), 200))
			return;
		CHECK_MEM(got, sent, 200);
	}
	close_port(&o);
}

static void af_packet_sends_all(void)
{
	send_every_mbuf("net_af_packet");
}

static void af_xdp_sends_all(void)
{
	send_every_mbuf("net_af_xdp");
}

static void af_packet_rings(void)
{
	ring_for_frames("net_af_packet");
}

static void af_xdp_carries(void)
{
	carry_frames("net_af_xdp", 1500);
}

static void af_xdp_rings(void)
{
	ring_for_frames("net_af_xdp");
}

/* Each of four queues' wait fds must be the one of that queue. */
static void af_packet_rings_by_queue(void)
{
	unsigned received[4] = { 0 };
	uint8_t frame[CHILD_FRAME_MAX];
	struct opened o = { 0 };

	child_veth(1500, 1, false);
	child_capture();
	if (!open_port(&o, "net_af_packet", 1500, 4))
		return;
	for (uint16_t flow = 1000; flow < 1200; flow++) {
		CHECK_INT(send(o.peer, frame, child_frame(frame, o.port, flow, 100), 0), 100);
		for (uint16_t queue = 0; queue < 4; queue++) {
			const bool rings = child_rings(o.port, queue, 0);
			struct rte_mbuf *mbuf = NULL;

			CHECK_UINT(port_receive(o.port, queue, &mbuf, 1), rings);
			received[queue] += rings;
			rte_pktmbuf_free(mbuf);
		}
	}
	CHECK_UINT(received[0] + received[1] + received[2] + received[3], 200);
	for (unsigned queue = 0; queue < 4; queue++)
		CHECK(received[queue] > 0);
	close_port(&o);
}

static void driver_without_interface(void)
{
	struct star_error err = { 0 };
	struct opened o = { 0 };
	struct rte_mbuf *mbuf;

	child_capture();
	child_config(&o.config, "net_null", 1500);
	o.config.ports[0].interface[0] = '\0';
	strcpy(o.config.ports[0].options, "size=80");
	if (!child_eal(&o.config))
		return;
	o.pools[0] = port_mempool_create(0, CHILD_MBUFS, 1500, &err);
	for (int life = 0; life < 3; life++) {
		o.port = port_open(&o.config.ports[0], 0, o.pools, 1, 7000, &err);
		if (!CHECK(o.port))
			break;
		CHECK_INT(o.port->wait_fds[0], -1);
		CHECK_INT(port_wait_arm(o.port, 0), -ENOTSUP);
		port_wait_disarm(o.port, 0);
		CHECK_UINT(port_receive(o.port, 0, &mbuf, 1), 1);
		CHECK_UINT(mbuf->pkt_len, 80);
		CHECK_UINT(port_send(o.port, 0, &mbuf, 1), 1);
		if (life < 2)
			port_close(o.port);
	}
	close_port(&o);
}

static bool is_member(const char *interface, const char *group)
{
	char line[128], name[32], address[32];
	FILE *file = fopen("/proc/net/dev_mcast", "r");
	bool found = false;

	while (file && fgets(line, sizeof(line), file))
		found |= sscanf(line, "%*d %31s %*d %*d %31s", name, address) == 2 && !strcmp(name, interface) &&
			 !strcmp(address, group);
	if (file)
		fclose(file);
	return found;
}

/* The kernel lets the groups through in which IPv6 addresses are asked for, for as long as the port is open. */
static void ipv6_groups(void)
{
	static const char *const groups[] = { "3333ff000a01", "3333ff00beef", "333300000001" };
	struct star_error err = { 0 };
	struct opened o = { 0 };
	char own[16];

	child_veth(1500, 1, false);
	child_capture();
	child_config(&o.config, "net_af_packet", 1500);
	o.config.ports[0].addresses[1] = (struct config_network){ "2001:2::a01", 64 };
	o.config.ports[0].addresses[2] = (struct config_network){ "2001:2:0:1::beef", 64 };
	o.config.ports[0].addresses_count = 3;
	if (!child_eal(&o.config))
		return;
	o.pools[0] = port_mempool_create(0, CHILD_MBUFS, 1500, &err);
	o.port = port_open(&o.config.ports[0], 0, o.pools, 1, 7000, &err);
	if (!CHECK(o.port))
		return;
	for (unsigned i = 0; i < 3; i++)
		CHECK(is_member("star0", groups[i]));
	snprintf(own, sizeof(own), "3333ff%02x%02x%02x", o.port->mac.addr_bytes[3], o.port->mac.addr_bytes[4],
		 o.port->mac.addr_bytes[5]);
	CHECK(is_member("star0", own));
	CHECK(!is_member("star0", "3333ff000a02"));
	close_port(&o);
	CHECK(!is_member("star0", groups[0]));
}

/* What a NIC without flow rules tells of its hash, so that clients can choose their ports. */
static void rss_is_read(void)
{
	struct star_error err = { 0 };
	struct opened o = { 0 };
	bool seen[2] = { false };

	child_capture();
	child_config(&o.config, "net_null", 1500);
	o.config.ports[0].interface[0] = '\0';
	if (!child_eal(&o.config))
		return;
	for (unsigned i = 0; i < 2; i++)
		o.pools[i] = port_mempool_create(i, CHILD_MBUFS, 1500, &err);
	o.port = port_open(&o.config.ports[0], 0, o.pools, 1, 7000, &err);
	if (!CHECK(o.port))
		return;
	CHECK_INT(o.port->steers, PORT_ONE_QUEUE);
	port_close(o.port);
	o.port = port_open(&o.config.ports[0], 0, o.pools, 2, 7000, &err);
	if (!CHECK(o.port))
		return;
	CHECK_INT(o.port->steers, PORT_SOURCE_PORTS);
	CHECK_UINT(o.port->steering.key_bytes, 40);
	CHECK(o.port->steering.entries > 0);
	for (unsigned i = 0; i < o.port->steering.entries; i++)
		if (CHECK(o.port->steering.table[i] < 2))
			seen[o.port->steering.table[i]] = true;
	CHECK(seen[0] && seen[1]);
	close_port(&o);
}

/* Some drivers return -1 for all that goes wrong, and some whatever errno was. */
enum { DRIVERS_OWN = 0 };

static void refused(struct opened *o, uint16_t queues, int code, const char *part)
{
	struct star_error err = { 0 };

	CHECK(!port_open(&o->config.ports[0], 3, o->pools, queues, 7000, &err));
	if (code == DRIVERS_OWN)
		CHECK(err.code < 0);
	else
		CHECK_INT(err.code, code);
	CHECK_HAS(err.text, "port 3: ");
	CHECK_HAS(err.text, part);
}

static void bad_interfaces(void)
{
	struct opened o = { 0 };

	child_veth(1400, 1, false);
	child_config(&o.config, "net_af_packet", 1500);
	refused(&o, 0, -EINVAL, "0 queues requested");
	refused(&o, PORT_QUEUES_MAX + 1, -EINVAL, "1 to 64 are possible");
	refused(&o, 1, -EINVAL,
		"has an mtu of 1400, but the configuration needs 1500: run `ip link set star0 mtu 1500`");
	child_command("ip link set star0 down");
	refused(&o, 1, -ENETDOWN, "interface star0 is down: run `ip link set star0 up`");
	strcpy(o.config.ports[0].interface, "star7");
	refused(&o, 1, -ENODEV, "there is no interface \"star7\"");
	strcpy(o.config.ports[0].interface, "an-interface-name");
	refused(&o, 1, -EINVAL, "longer than an interface's name");
	o.config.ports[0].interface[0] = '\0';
	refused(&o, 1, -EINVAL, "net_af_packet needs the name of a kernel interface");
	o.config.ports[0].mtu = 70000;
	refused(&o, 1, -EINVAL, "mtu of 70000");
}

static void bad_devices(void)
{
	struct star_error err = { 0 };
	struct opened o = { 0 };

	child_veth(1500, 1, false);
	child_capture();
	child_config(&o.config, "net_nonsense", 1500);
	if (!child_eal(&o.config))
		return;
	o.pools[0] = port_mempool_create(0, CHILD_MBUFS, 1500, &err);
	o.pools[1] = port_mempool_create(1, 2047, 1500, &err);
	refused(&o, 1, DRIVERS_OWN, "net_nonsense on star0 cannot be opened");
	strcpy(o.config.ports[0].device, "net_af_packet");
	strcpy(o.config.ports[0].options, "qpairs=1");
	refused(&o, 2, -ERANGE,
		"cannot offer a queue pair for each reactor (its driver has fewer; lower cores.number)");
	strcpy(o.config.ports[0].options, "framesz=100");
	refused(&o, 1, DRIVERS_OWN, "net_af_packet on star0 cannot be opened");
	strcpy(o.config.ports[0].options, "colour=red");
	refused(&o, 1, DRIVERS_OWN, "net_af_packet on star0 cannot be opened");
	o.config.ports[0].options[0] = '\0';
	strcpy(o.config.ports[0].device, "net_af_xdp");
	refused(&o, 2, -EINVAL, "and there are 2047: set memory.mbufs to 4095 or more");
	o.pools[1] = port_mempool_create(2, CHILD_MBUFS, 1500, &err);
	refused(&o, 2, DRIVERS_OWN, "needs a queue for each reactor");
	strcpy(o.config.ports[0].device, "pci");
	strcpy(o.config.ports[0].pci, "0000:7f:00.0");
	refused(&o, 1, -ENODEV, "pci on 0000:7f:00.0 cannot be opened");
	/* And none of that spoils what is asked rightly then. */
	strcpy(o.config.ports[0].device, "net_af_packet");
	o.port = port_open(&o.config.ports[0], 0, o.pools, 2, 7000, &err);
	CHECK(o.port);
	port_close(o.port);
	port_eal_stop();
}

static void offloads_are_told(void)
{
	struct star_error err = { 0 };
	struct opened o = { 0 };

	child_veth(1500, 1, true);
	child_config(&o.config, "net_af_packet", 1500);
	if (!child_eal(&o.config))
		return;
	o.pools[0] = port_mempool_create(0, CHILD_MBUFS, 1500, &err);
	child_capture();
	o.port = port_open(&o.config.ports[0], 0, o.pools, 1, 7000, &err);
	CHECK(o.port);
	CHECK_HAS(child_captured(), "star0 has the offloads tx, tso, gso");
	CHECK_HAS(child_captured(), "run `ethtool -K star0 tx off tso off gso off");
	CHECK(strchr(child_captured(), '\n') == strrchr(child_captured(), '\n'));
	port_close(o.port);
	port_eal_stop();
}

struct node {
	struct wheel wheel;
	uint64_t received;
};

static unsigned here(void *ctx, const struct rte_mbuf *frame)
{
	return REACTOR_HERE;
}

static void count_frames(void *ctx, struct rte_mbuf **frames, unsigned n, uint64_t now_ns)
{
	struct node *node = ctx;

	rte_pktmbuf_free_bulk(frames, n);
	__atomic_store_n(&node->received, node->received + n, __ATOMIC_RELEASE);
}

static unsigned no_work(void *ctx, uint64_t now_ns)
{
	return 0;
}

static unsigned no_frames(void *ctx, struct rte_mbuf **frames, unsigned max)
{
	return 0;
}

/* Sends a frame to a sleeping reactor; it must come long before the second after which it would look by itself. */
static void wakes(struct opened *o, struct node *node)
{
	const uint64_t before = __atomic_load_n(&node->received, __ATOMIC_ACQUIRE), begin_us = clock_us();
	uint8_t frame[CHILD_FRAME_MAX];

	CHECK_INT(send(o->peer, frame, child_frame(frame, o->port, 1, 100), 0), 100);
	while (__atomic_load_n(&node->received, __ATOMIC_ACQUIRE) == before && clock_us() - begin_us < 500000)
		usleep(100);
	CHECK_UINT(node->received, before + 1);
}

static uint64_t turns_in_half_a_second(const struct reactor *reactor)
{
	const uint64_t *turns = &reactor_stats(reactor)->turns, before = __atomic_load_n(turns, __ATOMIC_ACQUIRE);

	usleep(500000);
	return __atomic_load_n(turns, __ATOMIC_ACQUIRE) - before;
}

static void sleeping_reactor_hears_its_port(void)
{
	struct reactor_options options = { .core = -1, .spin_us = 50, .ports_count = 1 };
	struct star_error err = { 0 };
	struct reactor *reactor;
	struct opened o = { 0 };
	struct node node = { 0 };

	child_veth(1500, 1, false);
	child_capture();
	if (!open_port(&o, "net_af_packet", 1500, 1))
		return;
	wheel_init(&node.wheel, clock_ns());
	options.ports = &o.port;
	options.pool = o.pools[0];
	options.ops = (struct reactor_ops){ .ctx = &node,
					    .steer = here,
					    .receive = count_frames,
					    .work = no_work,
					    .transmit = no_frames,
					    .wheel = &node.wheel };
	reactor = reactor_create(&options, &err);
	if (!CHECK(reactor))
		return;
	CHECK_INT(reactor_join(&reactor, 1, &err), 0);
	CHECK_INT(reactor_start(reactor, &err), 0);
	CHECK(turns_in_half_a_second(reactor) < 50);
	for (int i = 0; i < 50; i++) {
		usleep(1000);
		wakes(&o, &node);
	}
	CHECK(reactor_stats(reactor)->sleeps >= 25);
	/* An interface that goes down leaves an error on the socket, which must not keep the reactor awake. */
	child_command("ip link set star0 down");
	CHECK(turns_in_half_a_second(reactor) < 100);
	child_command("ip link set star0 up");
	CHECK(turns_in_half_a_second(reactor) < 100);
	wakes(&o, &node);
	reactor_stop(reactor);
	reactor_destroy(reactor);
	close_port(&o);
}

#define CASE(name, run) \
	static void name(void) \
	{ \
		child_run(run); \
	}

CASE(af_packet_sends_and_receives, af_packet_carries)
CASE(af_packet_carries_large_frames, af_packet_carries_large)
CASE(af_packet_can_be_waited_on, af_packet_rings)
CASE(af_packet_queues_have_their_own_wait_fds, af_packet_rings_by_queue)
CASE(af_xdp_sends_and_receives, af_xdp_carries)
CASE(af_xdp_can_be_waited_on, af_xdp_rings)
CASE(memif_carries_frames_both_ways, memif_carries_frames)
CASE(memif_wakes_a_sleeping_reactor, memif_wakes_the_sleeper)
CASE(memif_refuses_clients_that_are_wrong, memif_refuses_wrong_clients)
CASE(memif_is_not_held_up, memif_is_not_held_up_by_its_client)
CASE(memif_refuses_memory_that_may_be_taken_away, memif_refuses_memory_that_may_go)
CASE(memif_survives_what_clients_write, memif_survives_nonsense)
CASE(memif_workers_carry_frames_and_connect_again, memif_worker_carries_frames)
CASE(memif_workers_wait_for_room, memif_worker_waits_for_room)
CASE(memif_workers_survive_what_appliances_write, memif_worker_survives_nonsense)
CASE(af_packet_sends_every_mbuf, af_packet_sends_all)
CASE(af_xdp_sends_every_mbuf, af_xdp_sends_all)
CASE(drivers_without_interface_open, driver_without_interface)
CASE(devices_ask_for_a_reset_or_are_taken_out, device_events)
CASE(a_reset_device_spreads_flows_as_before, steering_survives_a_reset)
CASE(hash_of_a_nic_is_published, rss_is_read)
CASE(ipv6_groups_are_joined_while_a_port_is_open, ipv6_groups)
CASE(bad_interfaces_are_refused, bad_interfaces)
CASE(bad_devices_are_refused, bad_devices)
CASE(offloads_are_warned_of, offloads_are_told)
CASE(sleeping_reactor_is_woken_by_af_packet, sleeping_reactor_hears_its_port)
CASE(start_is_quiet_and_leaves_no_trace, quiet_start)
CASE(packet_buffers_have_addresses_for_devices, devices_addresses)
CASE(packet_buffers_for_nics_lie_within_pages, buffers_for_nics)
CASE(packet_buffers_for_virtio_user_can_be_shared, buffers_that_are_shared)
CASE(a_removed_device_is_closed_beside_the_reactors, freed_aside)
CASE(a_refused_frame_does_not_hold_up_others, refused_frames)
CASE(second_start_is_refused, second_start)
CASE(start_without_root_is_refused, start_without_root)
CASE(required_hugepages_are_refused_when_missing, required_and_missing)
CASE(preferred_hugepages_are_optional, preferred_and_missing)
CASE(memory_is_not_touched_before_its_use, two_gib)
CASE(parameter_memory_without_hugepages, ordinary_memory)
CASE(last_freed_packet_buffer_comes_first, last_freed_comes_first)
CASE(offloads_of_virtio_are_used, virtio_offloads)

const struct unit_case unit_cases[] = {
	{ "start_is_quiet_and_leaves_no_trace", start_is_quiet_and_leaves_no_trace },
	{ "packet_buffers_have_addresses_for_devices", packet_buffers_have_addresses_for_devices },
	{ "packet_buffers_for_nics_lie_within_pages", packet_buffers_for_nics_lie_within_pages },
	{ "packet_buffers_for_virtio_user_can_be_shared", packet_buffers_for_virtio_user_can_be_shared },
	{ "a_removed_device_is_closed_beside_the_reactors", a_removed_device_is_closed_beside_the_reactors },
	{ "whole_hugepages_are_counted", whole_pages },
	{ "segments_are_as_many_as_the_device_takes", segment_limits },
	{ "a_queue_keeps_what_memory_is_checked_against", receive_rings },
	{ "a_refused_frame_does_not_hold_up_others", a_refused_frame_does_not_hold_up_others },
	{ "second_start_is_refused", second_start_is_refused },
	{ "start_without_root_is_refused", start_without_root_is_refused },
	{ "required_hugepages_are_refused_when_missing", required_hugepages_are_refused_when_missing },
	{ "preferred_hugepages_are_optional", preferred_hugepages_are_optional },
	{ "hugepages_are_used_if_available", hugepages_are_used_if_available },
	{ "memory_is_not_touched_before_its_use", memory_is_not_touched_before_its_use },
	{ "parameter_memory_without_hugepages", parameter_memory_without_hugepages },
	{ "last_freed_packet_buffer_comes_first", last_freed_packet_buffer_comes_first },
	{ "af_packet_sends_and_receives", af_packet_sends_and_receives },
	{ "af_packet_carries_large_frames", af_packet_carries_large_frames },
	{ "af_packet_can_be_waited_on", af_packet_can_be_waited_on },
	{ "af_packet_queues_have_their_own_wait_fds", af_packet_queues_have_their_own_wait_fds },
	{ "af_xdp_sends_and_receives", af_xdp_sends_and_receives },
	{ "af_xdp_can_be_waited_on", af_xdp_can_be_waited_on },
	{ "af_packet_sends_every_mbuf", af_packet_sends_every_mbuf },
	{ "af_xdp_sends_every_mbuf", af_xdp_sends_every_mbuf },
	{ "memif_carries_frames_both_ways", memif_carries_frames_both_ways },
	{ "memif_wakes_a_sleeping_reactor", memif_wakes_a_sleeping_reactor },
	{ "memif_refuses_clients_that_are_wrong", memif_refuses_clients_that_are_wrong },
	{ "memif_is_not_held_up", memif_is_not_held_up },
	{ "memif_refuses_memory_that_may_be_taken_away", memif_refuses_memory_that_may_be_taken_away },
	{ "memif_survives_what_clients_write", memif_survives_what_clients_write },
	{ "memif_workers_carry_frames_and_connect_again", memif_workers_carry_frames_and_connect_again },
	{ "memif_workers_wait_for_room", memif_workers_wait_for_room },
	{ "memif_workers_survive_what_appliances_write", memif_workers_survive_what_appliances_write },
	{ "drivers_without_interface_open", drivers_without_interface_open },
	{ "devices_ask_for_a_reset_or_are_taken_out", devices_ask_for_a_reset_or_are_taken_out },
	{ "a_reset_device_spreads_flows_as_before", a_reset_device_spreads_flows_as_before },
	{ "hash_of_a_nic_is_published", hash_of_a_nic_is_published },
	{ "ipv6_groups_are_joined_while_a_port_is_open", ipv6_groups_are_joined_while_a_port_is_open },
	{ "bad_interfaces_are_refused", bad_interfaces_are_refused },
	{ "bad_devices_are_refused", bad_devices_are_refused },
	{ "offloads_are_warned_of", offloads_are_warned_of },
	{ "offloads_of_virtio_are_used", offloads_of_virtio_are_used },
	{ "sleeping_reactor_is_woken_by_af_packet", sleeping_reactor_is_woken_by_af_packet },
	{ NULL, NULL },
};
