/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/packetdrill/so/stack.h"

#include <dlfcn.h>
#include <errno.h>
#include <rte_arp.h>
#include <rte_eal.h>
#include <rte_mempool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/net.h"
#include "net/tcp.h"
#include "net/tcp_internal.h" /* for what tcp.h does not tell yet: stack_info and stack_unsent */

enum { MBUFS = 8192, LONG_MBUFS = 64, TIMERS_PER_TURN = 1000 };

static const struct rte_ether_addr own_mac = { { 2, 0, 0, 0, 0, 1 } }, peer_mac = { { 2, 0, 0, 0, 0, 2 } };

static struct {
	struct net *net;
	struct rte_mempool *pool, *long_pool;
	int family;
	uint64_t now_ns;
	void (*output)(void *ctx, const void *packet, size_t bytes);
	void *ctx;
	struct {
		uint16_t port;
		struct sock *sock;
		uint32_t receive_bytes;
	} listeners[NET_LISTENERS_MAX];
	unsigned listeners_count;
	uint32_t receive_window_bytes, receive_initial_bytes; /* as the stack began */
} stack;

static bool start_eal(void)
{
	static bool done;
	static const char *const args[] = { "packetdrill", "--no-huge",	  "--no-pci", "--no-telemetry",
					    "--no-shconf", "-m",	  "64",	      "--lcores",
					    "0@(0-1)",	   "--log-level", "error" };
	static char text[RTE_DIM(args)][32], *argv[RTE_DIM(args) + 1]; /* the EAL moves them about */

	if (done)
		return true;
	/* The EAL reads its options by getopt: not possible where symbols were bound apart from the program's. */
	if (dlsym(RTLD_DEFAULT, "optarg") != &optarg) {
		fprintf(stderr, "packetdrill.so: preload it, too: LD_PRELOAD=<this file>\n");
		return false;
	}
	for (unsigned i = 0; i < RTE_DIM(args); i++)
		argv[i] = strcpy(text[i], args[i]);
	if (rte_eal_init(RTE_DIM(args), argv) < 0)
		return false;
	stack.pool = rte_pktmbuf_pool_create("packetdrill", MBUFS, 0, NET_PRIV_BYTES, RTE_MBUF_DEFAULT_BUF_SIZE,
					     SOCKET_ID_ANY);
	stack.long_pool =
		rte_pktmbuf_pool_create("packetdrill-long", LONG_MBUFS, 0, NET_PRIV_BYTES, UINT16_MAX, SOCKET_ID_ANY);
	done = stack.pool && stack.long_pool;
	return done;
}

static struct net_address address_of(const struct endpoint *e)
{
	rte_be32_t v4;

	if (e->family == AF_INET6)
		return net_address_v6(e->address);
	memcpy(&v4, e->address, sizeof(v4));
	return net_address_v4(v4);
}

static struct endpoint endpoint_of(const struct net_address *address, uint16_t port)
{
	const bool v4 = net_address_is_v4(address);
	struct endpoint e = { .family = v4 ? AF_INET : AF_INET6, .port = port };

	memcpy(e.address, address->bytes + (v4 ? 12 : 0), v4 ? 4 : 16);
	return e;
}

static const struct {
	const char *name;
	enum net_congestion which;
} congestions[] = { { "cubic", NET_CUBIC }, { "reno", NET_NEWRENO }, { "dctcp", NET_DCTCP } };

static const enum net_congestion *find_congestion(const char *name)
{
	for (size_t i = 0; i < RTE_DIM(congestions); i++)
		if (strcmp(congestions[i].name, name) == 0)
			return &congestions[i].which;
	return NULL;
}

bool stack_has_congestion(const char *name)
{
	return find_congestion(name);
}

static uint32_t without(const struct stack_options *o)
{
	return (o->sack ? 0 : NET_WITHOUT_SACK) | (o->timestamps ? 0 : NET_WITHOUT_TIMESTAMPS) |
	       (o->scale ? 0 : NET_WITHOUT_SCALE);
}

/* Everybody else is behind a gateway next to it. */
static void add_address(struct net_interface_options *interface, const struct endpoint *local)
{
	const bool v4 = local->family == AF_INET;
	struct net_address gateway = address_of(local);

	interface->addresses[interface->addresses_count++] =
		(struct net_interface_address){ address_of(local), v4 ? 24 : 64 };
	gateway.bytes[15] ^= 2;
	*(v4 ? &interface->gateway4 : &interface->gateway6) = gateway;
}

bool stack_up(const struct stack_options *options, void (*output)(void *ctx, const void *packet, size_t bytes),
	      void *ctx)
{
	struct star_error err = { 0 };
	struct net_options o = {
		.interfaces_count = 1,
		.connections_max = 256,
		.receive_window_bytes = options->receive_window_bytes,
		.receive_initial_bytes = options->receive_initial_bytes,
		.without = without(options),
		.ecn = options->ecn == 1   ? NET_ECN_ASK
		       : options->ecn == 0 ? NET_ECN_OFF
					   : NET_ECN_ACCEPT,
		.idle_keeps_window = !options->idle_restart,
		.rto_min_us = options->rto_min_us,
		.rto_max_us = 120000000,
		.delayed_ack_us = 40000,
		.time_wait_ms = 60000,
		.user_timeout_ms = 900000,
		.secret = { 0x0123456789abcdefu, 0xfedcba9876543210u },
		.now_ns = options->now_ns,
	};

	if (!start_eal()) {
		fprintf(stderr, "packetdrill.so: the EAL does not start\n");
		return false;
	}
	if (find_congestion(options->congestion))
		o.congestion = *find_congestion(options->congestion);
	o.pool = stack.pool;
	o.interfaces[0] = (struct net_interface_options){ .mtu = (uint16_t)options->mtu, .mac = own_mac };
	add_address(&o.interfaces[0], &options->local);
	stack.net = net_create(&o, &err);
	if (!stack.net) {
		fprintf(stderr, "packetdrill.so: %s\n", err.text);
		return false;
	}
	stack.receive_window_bytes = stack.net->options.receive_window_bytes;
	stack.receive_initial_bytes = stack.net->options.receive_initial_bytes;
	stack.family = options->local.family;
	stack.now_ns = options->now_ns;
	stack.output = output;
	stack.ctx = ctx;
	return true;
}

void stack_down(void)
{
	net_destroy(stack.net);
	stack.net = NULL;
	stack.family = AF_UNSPEC;
	stack.listeners_count = 0;
}

int stack_family(void)
{
	return stack.family;
}

static struct rte_mbuf *frame_new(uint16_t type, const void *data, size_t bytes)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(bytes > RTE_MBUF_DEFAULT_DATAROOM / 2 ? stack.long_pool : stack.pool);
	struct rte_ether_hdr *eth;

	if (!m)
		return NULL;
	eth = (struct rte_ether_hdr *)rte_pktmbuf_append(m, (uint16_t)(sizeof(*eth) + bytes));
	if (!eth) {
		rte_pktmbuf_free(m);
		return NULL;
	}
	eth->dst_addr = own_mac;
	eth->src_addr = peer_mac;
	eth->ether_type = rte_cpu_to_be_16(type);
	memcpy(eth + 1, data, bytes);
	return m;
}

static void frame_in(uint16_t type, const void *data, size_t bytes)
{
	struct rte_mbuf *m = frame_new(type, data, bytes);

	if (m)
		net_input(stack.net, &m, 1, stack.now_ns);
}

/* ---- receive buffers: tcp.h has one size for all connections, SO_RCVBUF one for each socket ---- */

/* What connections begin with from now on, and may grow to; 0: as the stack began. The first window that Linux offers
 * is of whole segments. */
static void size_new(uint32_t bytes)
{
	struct net_options *o = &stack.net->options;
	const uint32_t mss = o->interfaces[0].mtu - (stack.family == AF_INET ? 40u : 60u);

	o->receive_window_bytes = bytes ? bytes : stack.receive_window_bytes;
	o->receive_initial_bytes = bytes < mss ? bytes : bytes / mss * mss;
	if (bytes == 0)
		o->receive_initial_bytes = stack.receive_initial_bytes;
}

/* What a buffer of this size has of the budget that all share. */
static uint64_t grown(uint32_t bytes)
{
	return bytes > stack.receive_initial_bytes ? bytes - stack.receive_initial_bytes : 0;
}

static void size_conn(struct tcp_conn *conn, uint32_t bytes)
{
	if (bytes == 0)
		return;
	stack.net->grown_bytes += grown(bytes) - grown(conn->rcv_buf);
	conn->rcv_buf = bytes;
}

/* The size that the listener of a packet's port gives to connections, 0 when it is of no such port. */
static uint32_t size_of_listener(const uint8_t *packet, size_t bytes)
{
	const bool v6 = packet[0] >> 4 == 6;
	const size_t header = v6 ? sizeof(struct rte_ipv6_hdr) : (packet[0] & 0xfu) * 4u;
	rte_be16_t port;

	if (bytes < header + 4 || packet[v6 ? 6 : 9] != IPPROTO_TCP)
		return 0;
	memcpy(&port, packet + header + 2, sizeof(port));
	for (unsigned i = 0; i < stack.listeners_count; i++)
		if (stack.listeners[i].port == rte_be_to_cpu_16(port))
			return stack.listeners[i].receive_bytes;
	return 0;
}

void stack_input(const void *packet, size_t bytes, uint64_t now_ns)
{
	stack.now_ns = now_ns;
	if (!stack.net || bytes < sizeof(struct rte_ipv4_hdr) || bytes > STACK_PACKET_MAX)
		return;
	size_new(size_of_listener(packet, bytes));
	frame_in(*(const uint8_t *)packet >> 4 == 6 ? RTE_ETHER_TYPE_IPV6 : RTE_ETHER_TYPE_IPV4, packet, bytes);
	size_new(0);
}

/* Every address is at the same neighbour. */
static void answer_arp(const struct rte_arp_hdr *request)
{
	struct rte_arp_hdr reply = *request;

	if (request->arp_opcode != RTE_BE16(RTE_ARP_OP_REQUEST))
		return;
	reply.arp_opcode = RTE_BE16(RTE_ARP_OP_REPLY);
	reply.arp_data.arp_sha = peer_mac;
	reply.arp_data.arp_sip = request->arp_data.arp_tip;
	reply.arp_data.arp_tha = request->arp_data.arp_sha;
	reply.arp_data.arp_tip = request->arp_data.arp_sip;
	frame_in(RTE_ETHER_TYPE_ARP, &reply, sizeof(reply));
}

/* The same for IPv6 (RFC 4861, 4.3 and 4.4): what a neighbour advertisement has after its IP header. */
struct advertisement {
	struct rte_ipv6_hdr ip;
	uint8_t type, code;
	rte_be16_t checksum;
	rte_be32_t flags;
	uint8_t target[16];
	uint8_t option, option_words;
	struct rte_ether_addr mac;
};
_Static_assert(sizeof(struct advertisement) == sizeof(struct rte_ipv6_hdr) + 32, "no holes");

static void answer_solicitation(const struct rte_ipv6_hdr *ip, const uint8_t *target)
{
	struct advertisement a = {
		.ip = { .vtc_flow = RTE_BE32(6u << 28),
			.payload_len = rte_cpu_to_be_16(sizeof(a) - sizeof(a.ip)),
			.proto = IPPROTO_ICMPV6,
			.hop_limits = 255 },
		.type = 136,
		.flags = RTE_BE32(0x60000000), /* solicited, override */
		.option = 2,
		.option_words = 1,
		.mac = peer_mac,
	};

	memcpy(a.ip.src_addr, target, 16);
	memcpy(a.ip.dst_addr, ip->src_addr, 16);
	memcpy(a.target, target, 16);
	a.checksum = rte_ipv6_udptcp_cksum(&a.ip, &a.type);
	frame_in(RTE_ETHER_TYPE_IPV6, &a, sizeof(a));
}

/* Neighbour discovery's messages are the link's business, and no packets of the script's: 133 to 137. */
static bool is_discovery(const uint8_t *packet, uint32_t bytes)
{
	const struct rte_ipv6_hdr *ip = (const struct rte_ipv6_hdr *)packet;
	const uint8_t *icmp = packet + sizeof(*ip);

	if (bytes < sizeof(*ip) + 8 || packet[0] >> 4 != 6 || ip->proto != IPPROTO_ICMPV6 || *icmp < 133 || *icmp > 137)
		return false;
	if (*icmp == 135 && bytes >= sizeof(*ip) + 24)
		answer_solicitation(ip, icmp + 8);
	return true;
}

static void frame_out(struct rte_mbuf *m)
{
	uint8_t data[sizeof(struct rte_ether_hdr) + STACK_PACKET_MAX];
	const struct rte_ether_hdr *eth = rte_pktmbuf_read(m, 0, sizeof(*eth), data);
	const uint16_t type = eth->ether_type;
	const uint32_t bytes = m->pkt_len - (uint32_t)sizeof(*eth);
	const void *packet = rte_pktmbuf_read(m, sizeof(*eth), bytes, data);

	if (type == RTE_BE16(RTE_ETHER_TYPE_ARP))
		answer_arp(packet);
	else if (!is_discovery(packet, bytes))
		stack.output(stack.ctx, packet, bytes);
	rte_pktmbuf_free(m);
}

void stack_turn(uint64_t now_ns)
{
	struct rte_mbuf *frames[32];
	unsigned n;

	stack.now_ns = now_ns;
	if (!stack.net)
		return;
	while (wheel_advance(net_wheel(stack.net), now_ns, TIMERS_PER_TURN) == TIMERS_PER_TURN)
		;
	net_turn(stack.net, now_ns);
	while ((n = net_output(stack.net, frames, RTE_DIM(frames))) > 0)
		for (unsigned i = 0; i < n; i++)
			frame_out(frames[i]);
}

uint64_t stack_next_ns(void)
{
	return stack.net ? wheel_next(net_wheel(stack.net)) : UINT64_MAX;
}

static bool opened(void *ctx, struct tcp_conn *conn, void **user)
{
	struct sock *listener = NULL;

	if (ctx) {
		const uint16_t port = tcp_address(conn).local_port;

		for (unsigned i = 0; i < stack.listeners_count; i++)
			if (stack.listeners[i].port == port)
				listener = stack.listeners[i].sock;
		if (!listener)
			return false;
	}
	*user = socket_opened(listener, *user, conn);
	return *user != NULL;
}

static void received(void *user, struct rte_mbuf *payload)
{
	for (const struct rte_mbuf *m = payload; m; m = m->next)
		socket_received(user, rte_pktmbuf_mtod(m, const void *), m->data_len);
	rte_pktmbuf_free(payload);
}

static const struct tcp_handler handler = {
	.opened = opened,
	.received = received,
	.acknowledged = (void (*)(void *))socket_acknowledged,
	.finished = (void (*)(void *))socket_finished,
	.closed = (void (*)(void *, int))socket_closed,
};

/* tcp.h cannot end a listener: a port that was given up stays, and refuses. */
int stack_listen(uint16_t port, struct sock *listener, uint32_t receive_bytes)
{
	int result;

	for (unsigned i = 0; i < stack.listeners_count; i++)
		if (stack.listeners[i].port == port) {
			if (stack.listeners[i].sock)
				return -EADDRINUSE;
			stack.listeners[i].sock = listener;
			stack.listeners[i].receive_bytes = receive_bytes;
			return 0;
		}
	result = tcp_listen(stack.net, port, &handler, &stack);
	if (result < 0)
		return result;
	stack.listeners[stack.listeners_count].port = port;
	stack.listeners[stack.listeners_count].receive_bytes = receive_bytes;
	stack.listeners[stack.listeners_count++].sock = listener;
	return 0;
}

void stack_unlisten(uint16_t port)
{
	for (unsigned i = 0; i < stack.listeners_count; i++)
		if (stack.listeners[i].port == port)
			stack.listeners[i].sock = NULL;
}

int stack_connect(struct sock *sock, const struct endpoint *local, const struct endpoint *remote,
		  uint32_t receive_bytes, struct tcp_conn **conn)
{
	const struct net_address address = address_of(remote);
	struct star_error err = { 0 };

	size_new(receive_bytes);
	*conn = tcp_connect(stack.net, &address, remote->port, &handler, NULL, sock, &err);
	size_new(0);
	return *conn ? 0 : err.code;
}

void stack_addresses(const struct tcp_conn *conn, struct endpoint *local, struct endpoint *remote)
{
	const struct tcp_address a = tcp_address(conn);

	*local = endpoint_of(&a.local, a.local_port);
	*remote = endpoint_of(&a.remote, a.remote_port);
}

uint32_t stack_mss(const struct tcp_conn *conn)
{
	return tcp_mss(conn);
}

uint32_t stack_unacked(const struct tcp_conn *conn)
{
	return tcp_queued(conn);
}

uint32_t stack_unsent(const struct tcp_conn *conn)
{
	return conn->send_next ? conn->snd_end - conn->snd_nxt : 0;
}

bool stack_send(struct tcp_conn *conn, const void *data, uint32_t bytes)
{
	struct rte_mbuf *m = tcp_alloc(conn);
	char *to;

	if (!m)
		return false;
	to = rte_pktmbuf_append(m, (uint16_t)bytes);
	if (!to) {
		rte_pktmbuf_free(m);
		return false;
	}
	memcpy(to, data, bytes);
	return tcp_send(conn, m);
}

void stack_consumed(struct tcp_conn *conn, uint32_t bytes, uint32_t receive_bytes)
{
	size_new(receive_bytes); /* it may grow so far */
	tcp_consumed(conn, bytes);
	size_new(0);
}

void stack_finish(struct tcp_conn *conn)
{
	tcp_shutdown(conn);
}

void stack_set(struct tcp_conn *conn, const struct stack_conn_options *o)
{
	if (o->congestion && find_congestion(o->congestion))
		tcp_set_congestion(conn, *find_congestion(o->congestion));
	tcp_set_user_timeout(conn, o->user_timeout_ms);
	tcp_set_keepalive(conn, o->keepalive_idle_s, o->keepalive_interval_s, o->keepalive_probes);
	size_conn(conn, o->receive_bytes);
}

void stack_close(struct tcp_conn *conn)
{
	tcp_close(conn);
}

void stack_abort(struct tcp_conn *conn)
{
	tcp_abort(conn);
}

static uint32_t segments(const struct tcp_conn *conn, uint32_t bytes)
{
	return (bytes + conn->mss - 1) / conn->mss;
}

void stack_info(const struct tcp_conn *conn, struct stack_info *info)
{
	/* Linux's numbers of states */
	static const uint8_t states[] = {
		[TCP_CLOSED] = 7,     [TCP_SYN_SENT] = 2,   [TCP_SYN_RECEIVED] = 3, [TCP_ESTABLISHED] = 1,
		[TCP_FIN_WAIT_1] = 4, [TCP_FIN_WAIT_2] = 5, [TCP_CLOSE_WAIT] = 8,   [TCP_CLOSING] = 11,
		[TCP_LAST_ACK] = 9,   [TCP_TIME_WAIT] = 6,
	};

	*info = (struct stack_info){
		.state = states[conn->state],
		.ca_state = conn->recovery,
		.sack = conn->features & TCP_FEATURE_SACK,
		.timestamps = conn->features & TCP_FEATURE_TIMESTAMP,
		.scale = conn->features & TCP_FEATURE_SCALE,
		.ecn = conn->features & TCP_FEATURE_ECN,
		.snd_scale = conn->snd_scale,
		.rcv_scale = conn->rcv_scale,
		.retransmits = conn->tries,
		.backoff = conn->tries,
		.rto_us = conn->rto_us,
		.mss = conn->mss,
		.rcv_mss = conn->rcv_mss,
		.advmss = conn->path.interface->options.mtu - 40u,
		.unacked = segments(conn, conn->snd_nxt - conn->snd_una),
		.sacked = conn->sacked_segs,
		.lost = conn->lost_segs,
		.retrans = conn->retrans_segs,
		.total_retrans = conn->total_retrans,
		.rtt_us = tcp_srtt_us(conn),
		.rttvar_us = tcp_rttvar_us(conn),
		.min_rtt_us = conn->min_rtt_us,
		.ssthresh = conn->ssthresh == UINT32_MAX ? 0x7fffffff : conn->ssthresh / conn->mss,
		.cwnd = conn->cwnd / conn->mss,
		.reordering = 3,
		.unsent_bytes = stack_unsent(conn),
		.snd_wnd = conn->snd_wnd,
		.snd_wnd_max = conn->snd_wnd_max,
	};
}
