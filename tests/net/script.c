/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/net/script.h"

#include <rte_arp.h>
#include <rte_ip.h>
#include <rte_mempool.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/checksum.h"
#include "tests/net/link.h"

enum { ETH = 14, IP = 20, TCP = 20, PEER_ISS = 0xfffff000 };

struct script script;

struct net_options script_options(void)
{
	struct net_options o = { .interfaces_count = 1,
				 .connections_max = 16,
				 .receive_window_bytes = 65535,
				 .rto_min_us = 200000,
				 .rto_max_us = 60000000,
				 .delayed_ack_us = 1000,
				 .time_wait_ms = 60000,
				 .user_timeout_ms = 120000,
				 .secret = { 0x0123456789abcdefu, 0xfedcba9876543210u } };

	o.interfaces[0] = (struct net_interface_options){
		.mtu = 1500, .mac = { { 2, 0, 0, 0, 0, 1 } }, .addresses_count = 1, .addresses = { { *link_ip(0), 24 } }
	};
	return o;
}

static uint8_t byte_at(uint64_t position)
{
	return (uint8_t)(position * 31 + (position >> 8));
}

/* ---- the user ---- */

static bool on_opened(void *ctx, struct tcp_conn *conn, void **user)
{
	*user = &script;
	if (script.refuse)
		return false;
	script.conn = conn;
	script.opens++;
	return true;
}

static void on_received(void *user, struct rte_mbuf *payload)
{
	const uint8_t *at = rte_pktmbuf_mtod(payload, const uint8_t *);

	for (uint32_t i = 0; i < payload->data_len; i++)
		script.wrong |= at[i] != byte_at(1 + script.received + i);
	script.received += payload->data_len;
	if (script.hold)
		script.held += payload->data_len;
	else
		tcp_consumed(script.conn, payload->data_len);
	rte_pktmbuf_free(payload);
	if (script.closes)
		tcp_close(script.conn);
}

static void on_acknowledged(void *user)
{
}

static void on_finished(void *user)
{
	script.finished = true;
}

static void on_closed(void *user, int reason)
{
	script.conn = NULL;
	script.ends++;
	script.reason = reason;
}

static const struct tcp_handler handler = { on_opened, on_received, on_acknowledged, on_finished, on_closed };

/* ---- frames out ---- */

static uint32_t read32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void read_option(struct script_segment *s, const uint8_t *at)
{
	switch (at[0]) {
	case 2:
		s->mss = (uint16_t)(at[2] << 8 | at[3]);
		break;
	case 3:
		s->scale = at[2] + 1;
		break;
	case 4:
		s->sack_permitted = true;
		break;
	case 5:
		s->sacks_count = (at[1] - 2u) / 8;
		for (unsigned i = 0; i < s->sacks_count && i < RTE_DIM(s->sacks); i++)
			s->sacks[i] = (struct script_block){ read32(at + 2 + 8 * i) - script.peer_iss,
							     read32(at + 6 + 8 * i) - script.peer_iss };
		break;
	case 8:
		s->stamped = true;
		s->ts_value = script.last_stamp = read32(at + 2);
		s->ts_echo = read32(at + 6);
		break;
	default:
		unit_fail(__FILE__, __LINE__, "an option %u of %u bytes", at[0], at[1]);
	}
}

static void read_options(struct script_segment *s, const uint8_t *at, const uint8_t *end)
{
	while (at < end) {
		if (*at == 1) {
			at++;
			continue;
		}
		if (end - at < 2 || at[1] < 2 || at + at[1] > end) {
			unit_fail(__FILE__, __LINE__, "options that do not parse");
			return;
		}
		read_option(s, at);
		at += at[1];
	}
}

/* The peer tells its hardware address, by a question of its own. */
static void inject_arp(void)
{
	uint8_t frame[60] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6 };
	struct rte_arp_hdr *arp = (struct rte_arp_hdr *)(frame + ETH);
	struct rte_mbuf *m = rte_pktmbuf_alloc(script.pool);

	*arp = (struct rte_arp_hdr){
		RTE_BE16(RTE_ARP_HRD_ETHER),  RTE_BE16(RTE_ETHER_TYPE_IPV4),
		RTE_ETHER_ADDR_LEN,	      4,
		RTE_BE16(RTE_ARP_OP_REQUEST), { { { 2, 0, 0, 0, 0, 2 } }, link_address(1), { { 0 } }, link_address(0) }
	};
	memcpy(rte_pktmbuf_append(m, sizeof(frame)), frame, sizeof(frame));
	net_input(script.net, &m, 1, script.now_ns);
}

static void capture(const struct rte_mbuf *m)
{
	const uint8_t *ip = rte_pktmbuf_mtod(m, const uint8_t *) + ETH, *tcp = ip + IP;
	const struct rte_tcp_hdr *h = (const struct rte_tcp_hdr *)tcp;
	const unsigned header = (h->data_off >> 4) * 4u;
	struct script_segment *s;

	if (ip[-1] == (RTE_ETHER_TYPE_ARP & 0xff) && ip[7] == RTE_ARP_OP_REQUEST)
		inject_arp();
	if (net_flow(m).kind != NET_FLOW_TCP)
		return;
	if (script.out_tail - script.out_head == SCRIPT_FRAMES_MAX) {
		unit_fail(__FILE__, __LINE__, "too many segments");
		return;
	}
	if (checksum_transport(link_ip(0), link_ip(1), IPPROTO_TCP, tcp, (uint16_t)(m->data_len - ETH - IP)) != 0xffff)
		unit_fail(__FILE__, __LINE__, "a wrong checksum");
	if (h->tcp_flags & RTE_TCP_SYN_FLAG)
		script.stack_iss = rte_be_to_cpu_32(h->sent_seq);
	s = &script.out[script.out_tail++ % SCRIPT_FRAMES_MAX];
	*s = (struct script_segment){ .flags = h->tcp_flags,
				      .seq = rte_be_to_cpu_32(h->sent_seq) - script.stack_iss,
				      .ack = h->tcp_flags & A ? rte_be_to_cpu_32(h->recv_ack) - script.peer_iss : 0,
				      .bytes = m->data_len - ETH - IP - header,
				      .port = rte_be_to_cpu_16(h->dst_port),
				      .window = rte_be_to_cpu_16(h->rx_win),
				      .closed = h->rx_win == 0,
				      .tos = ip[1] };
	read_options(s, tcp + TCP, tcp + header);
}

void script_turn(void)
{
	struct rte_mbuf *frames[64];
	unsigned n;

	while ((n = net_output(script.net, frames, RTE_DIM(frames))) > 0)
		for (unsigned i = 0; i < n; i++) {
			capture(frames[i]);
			rte_pktmbuf_free(frames[i]);
		}
}

const struct script_segment *script_out_at(const char *file, int line, uint8_t flags, uint32_t seq, uint32_t ack,
					   uint32_t bytes)
{
	static const struct script_segment none;
	const struct script_segment *s;

	if (script.out_head == script.out_tail) {
		unit_fail(file, line, "the stack has sent nothing more");
		return &none;
	}
	s = &script.out[script.out_head++ % SCRIPT_FRAMES_MAX];
	if (s->flags != flags || s->seq != seq || s->ack != ack || s->bytes != bytes)
		unit_fail(file, line, "sent flags %#x seq %u ack %u bytes %u, not %#x %u %u %u", s->flags, s->seq,
			  s->ack, s->bytes, flags, seq, ack, bytes);
	return s;
}

void script_drop(void)
{
	script_turn();
	script.out_head = script.out_tail;
}

/* ---- frames in ---- */

static uint8_t *write32(uint8_t *at, uint32_t value)
{
	const rte_be32_t big = rte_cpu_to_be_32(value);

	memcpy(at, &big, 4);
	return at + 4;
}

static unsigned write_options(const struct script_segment *s, uint8_t *option)
{
	uint8_t *at = option;

	if (s->options) {
		memcpy(at, s->options, s->options_bytes);
		return s->options_bytes;
	}
	if (s->mss) {
		*at++ = 2, *at++ = 4;
		*at++ = (uint8_t)(s->mss >> 8), *at++ = (uint8_t)s->mss;
	}
	if (s->sack_permitted)
		*at++ = 4, *at++ = 2;
	if (s->scale)
		*at++ = 3, *at++ = 3, *at++ = (uint8_t)(s->scale - 1);
	if (s->stamped) {
		*at++ = 8, *at++ = 10;
		at = write32(at, s->ts_value);
		at = write32(at, s->flags & A ? (s->ts_echo ? s->ts_echo : script.last_stamp) : 0);
	}
	if (s->sacks_count) {
		*at++ = 5, *at++ = (uint8_t)(2 + 8 * s->sacks_count);
		for (unsigned i = 0; i < s->sacks_count; i++) {
			at = write32(at, s->sacks[i].begin + script.stack_iss);
			at = write32(at, s->sacks[i].end + script.stack_iss);
		}
	}
	while ((at - option) % 4)
		*at++ = 1;
	return (unsigned)(at - option);
}

void script_put(const struct script_segment *s)
{
	uint8_t frame[ETH + 1500] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0 };
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(frame + ETH);
	struct rte_tcp_hdr *tcp = (struct rte_tcp_hdr *)(ip + 1);
	const unsigned header = TCP + write_options(s, (uint8_t *)(tcp + 1));
	const uint16_t total = (uint16_t)(IP + header + s->bytes);
	struct rte_mbuf *m = rte_pktmbuf_alloc(script.pool);
	const uint32_t first = s->seq + !!(s->flags & S);

	if (!m)
		return;
	*ip = (struct rte_ipv4_hdr){ .version_ihl = 0x45,
				     .type_of_service = s->tos,
				     .total_length = rte_cpu_to_be_16(total),
				     .time_to_live = 64,
				     .next_proto_id = IPPROTO_TCP,
				     .src_addr = link_address(1),
				     .dst_addr = link_address(0) };
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	*tcp = (struct rte_tcp_hdr){ .src_port = rte_cpu_to_be_16(s->port ? s->port : SCRIPT_PEER_PORT),
				     .dst_port = rte_cpu_to_be_16(script.conn ? tcp_address(script.conn).local_port
									      : SCRIPT_PORT),
				     .sent_seq = rte_cpu_to_be_32(s->seq + script.peer_iss),
				     .recv_ack = s->flags & A ? rte_cpu_to_be_32(s->ack + script.stack_iss) : 0,
				     .data_off = (uint8_t)(header / 4 << 4),
				     .tcp_flags = s->flags,
				     .rx_win = rte_cpu_to_be_16(s->closed   ? 0
								: s->window ? s->window
									    : 65535) };
	for (uint32_t i = 0; i < s->bytes; i++)
		((uint8_t *)tcp)[header + i] = byte_at(first + i);
	tcp->cksum = rte_ipv4_udptcp_cksum(ip, tcp);
	memcpy(rte_pktmbuf_append(m, (uint16_t)(ETH + total)), frame, ETH + total);
	if (script.twist)
		script.twist(m);
	net_input(script.net, &m, 1, script.now_ns);
}

void script_in(const struct script_segment *s)
{
	script_put(s);
	script_turn();
}

/* ---- the course of things ---- */

void script_begin(const struct net_options *options)
{
	const struct net_options usual = script_options();
	struct net_options o = options ? *options : usual;
	struct star_error err = { 0 };
	static unsigned count;
	char name[32];

	link_eal();
	memset(&script, 0, sizeof(script));
	snprintf(name, sizeof(name), "script%u", count++);
	script.pool = rte_pktmbuf_pool_create(name, SCRIPT_MBUFS, 0, NET_PRIV_BYTES, RTE_MBUF_DEFAULT_BUF_SIZE,
					      SOCKET_ID_ANY);
	script.now_ns = 100000 * LINK_MS;
	script.peer_iss = PEER_ISS;
	o.pool = script.pool;
	o.now_ns = script.now_ns;
	script.net = script.pool ? net_create(&o, &err) : NULL;
	if (!script.net || tcp_listen(script.net, SCRIPT_PORT, &handler, NULL) < 0) {
		fprintf(stderr, "%s\n", err.text);
		exit(EXIT_FAILURE);
	}
	inject_arp();
	script_turn();
}

void script_end(void)
{
	CHECK(!script.wrong);
	net_destroy(script.net);
	CHECK_UINT(rte_mempool_in_use_count(script.pool), 0);
	rte_mempool_free(script.pool);
}

void script_wait_us(uint64_t us)
{
	const uint64_t end_ns = script.now_ns + us * 1000;

	do {
		uint64_t next = wheel_next(net_wheel(script.net));

		next = RTE_MAX(next, script.now_ns + 1000);
		script.now_ns = RTE_MIN(end_ns, next);
		net_turn(script.net, script.now_ns);
		wheel_advance(net_wheel(script.net), script.now_ns, 1000);
		script_turn();
	} while (script.now_ns < end_ns);
}

void script_wait(uint64_t ms)
{
	script_wait_us(ms * 1000);
}

void script_connect(const struct script_segment *options)
{
	struct script_segment syn = options ? *options : (struct script_segment){ 0 };
	struct script_segment ack = { .flags = A, .seq = 1, .ack = 1, .port = syn.port };

	syn.flags = syn.flags ? syn.flags : S;
	script_in(&syn);
	script.out_head = script.out_tail;
	ack.stamped = syn.stamped;
	ack.ts_value = syn.ts_value;
	script_in(&ack);
	script.out_head = script.out_tail;
	CHECK(script.conn);
}

void script_open(void)
{
	struct star_error err = { 0 };

	script.conn = tcp_connect(script.net, link_ip(1), SCRIPT_PEER_PORT, &handler, NULL, &script, &err);
	CHECK(script.conn);
	script_turn();
}

void script_write(uint32_t bytes)
{
	while (bytes && script.conn) {
		struct rte_mbuf *m = tcp_alloc(script.conn);
		const uint32_t part = RTE_MIN(bytes, tcp_mss(script.conn));

		memset(rte_pktmbuf_append(m, (uint16_t)part), 'w', part);
		CHECK(tcp_send(script.conn, m));
		bytes -= part;
	}
	script_turn();
}

const struct net_counters *script_counters(void)
{
	return net_counters(script.net);
}
