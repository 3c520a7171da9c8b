/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of all kinds, for the stack and from it. */
#include <sanitizer/asan_interface.h>
#include <string.h>

#include "tests/fuzz/net_world.h"

const struct rte_ether_addr own_mac = { { 2, 0, 0, 0, 0, 1 } }, peer_mac = { { 2, 0, 0, 0, 0, 2 } };

/* ---- frames in ---- */

static void inject(const uint8_t *frame, uint16_t bytes)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(w.pool);
	uint8_t *end;

	if (!m)
		return;
	memcpy(rte_pktmbuf_append(m, bytes), frame, bytes);
	end = rte_pktmbuf_mtod(m, uint8_t *) + bytes;
	/* Nothing behind a frame is the stack's to read. */
	ASAN_POISON_MEMORY_REGION(end, (size_t)((uint8_t *)m->buf_addr + m->buf_len - end));
	w.in_frames++;
	net_flow(m);
	net_input(w.net, &m, 1, w.now_ns);
}

/* Puts right the checksums that are asked for, as far as the frame has them. */
static void mend(uint8_t *frame, uint16_t bytes, uint8_t what)
{
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(frame + sizeof(struct rte_ether_hdr));
	const uint16_t have = bytes - (uint16_t)RTE_MIN(sizeof(struct rte_ether_hdr), bytes);
	uint16_t header, total;
	uint8_t *l4;

	if (have < sizeof(*ip))
		return;
	header = rte_ipv4_hdr_len(ip);
	total = rte_be_to_cpu_16(ip->total_length);
	if (header < sizeof(*ip) || header > total || total > have)
		return;
	if (what & 1) {
		ip->hdr_checksum = 0;
		ip->hdr_checksum = (uint16_t)~rte_raw_cksum(ip, header);
	}
	l4 = (uint8_t *)ip + header;
	if (what & 2 && ip->next_proto_id == IPPROTO_TCP && total - header >= 20) {
		memset(l4 + 16, 0, 2);
		memcpy(l4 + 16, &(uint16_t){ rte_ipv4_udptcp_cksum(ip, l4) }, 2);
	} else if (what & 2 && ip->next_proto_id == IPPROTO_UDP && total - header >= 8) {
		memset(l4 + 6, 0, 2);
		memcpy(l4 + 6, &(uint16_t){ rte_ipv4_udptcp_cksum(ip, l4) }, 2);
	} else if (what & 2 && ip->next_proto_id == IPPROTO_ICMP && total - header >= 4) {
		memset(l4 + 2, 0, 2);
		memcpy(l4 + 2, &(uint16_t){ (uint16_t)~rte_raw_cksum(l4, total - header) }, 2);
	}
}

static void put_ethernet(uint8_t *frame, uint16_t type)
{
	*(struct rte_ether_hdr *)frame = (struct rte_ether_hdr){ own_mac, peer_mac, rte_cpu_to_be_16(type) };
}

static struct rte_ipv4_hdr *put_ip(uint8_t *frame, uint8_t protocol, uint16_t bytes)
{
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(frame + sizeof(struct rte_ether_hdr));

	put_ethernet(frame, RTE_ETHER_TYPE_IPV4);
	*ip = (struct rte_ipv4_hdr){ .version_ihl = RTE_IPV4_VHL_DEF,
				     .total_length = rte_cpu_to_be_16(sizeof(*ip) + bytes),
				     .time_to_live = 64,
				     .next_proto_id = protocol,
				     .src_addr = PEER_ADDRESS,
				     .dst_addr = OWN_ADDRESS };
	return ip;
}

/* A raw frame: its bytes, or its bytes behind right headers. */
void inject_raw(struct input *in)
{
	uint8_t frame[sizeof(struct rte_ether_hdr) + MTU] = { 0 };
	const uint8_t how = take8(in);
	uint16_t at = 0, bytes = (uint16_t)RTE_MIN((size_t)take8(in), input_left(in));

	if (how & 4) {
		put_ethernet(frame, how & 8 ? RTE_ETHER_TYPE_ARP : RTE_ETHER_TYPE_IPV4);
		at = sizeof(struct rte_ether_hdr);
	}
	if (how & 16) {
		static const uint8_t protocols[] = { IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_ICMP };

		put_ip(frame, protocols[how >> 5 & 3], bytes);
		at = sizeof(struct rte_ether_hdr) + sizeof(struct rte_ipv4_hdr);
	}
	memcpy(frame + at, in->at, bytes);
	in->at += bytes;
	mend(frame, at + bytes, how & 3);
	w.tainted = true;
	inject(frame, at + bytes);
}

/* An ARP packet that parses. */
void inject_arp(struct input *in)
{
	uint8_t frame[64] = { 0 };
	const uint8_t how = take8(in);
	struct rte_arp_hdr *arp = (struct rte_arp_hdr *)(frame + sizeof(struct rte_ether_hdr));

	put_ethernet(frame, RTE_ETHER_TYPE_ARP);
	*arp = (struct rte_arp_hdr){ RTE_BE16(RTE_ARP_HRD_ETHER),
				     RTE_BE16(RTE_ETHER_TYPE_IPV4),
				     RTE_ETHER_ADDR_LEN,
				     4,
				     how & 1 ? RTE_BE16(RTE_ARP_OP_REPLY) : RTE_BE16(RTE_ARP_OP_REQUEST),
				     { peer_mac, PEER_ADDRESS, own_mac, OWN_ADDRESS } };
	if (how & 2)
		arp->arp_data.arp_sip = OWN_ADDRESS ^ rte_cpu_to_be_32(take8(in));
	if (how & 4)
		arp->arp_data.arp_tip = OWN_ADDRESS ^ rte_cpu_to_be_32(take8(in));
	if (how & 8)
		arp->arp_data.arp_sha.addr_bytes[take8(in) % 6] ^= take8(in);
	inject(frame, sizeof(struct rte_ether_hdr) + sizeof(*arp));
}

/* A number near a known one. */
static uint32_t near(struct input *in, uint32_t number, unsigned how)
{
	switch (how & 3) {
	case 1:
		return number + (uint32_t)(int8_t)take8(in);
	case 2:
		return number + (uint32_t)((int16_t)take16(in) * 8);
	case 3:
		return number + take32(in);
	default:
		return number;
	}
}

void inject_segment(const struct made_segment *s)
{
	uint8_t frame[sizeof(struct rte_ether_hdr) + MTU] = { 0 };
	const uint16_t header = sizeof(struct rte_tcp_hdr) + s->options_bytes;
	struct rte_ipv4_hdr *ip = put_ip(frame, IPPROTO_TCP, header + s->bytes);
	struct rte_tcp_hdr *tcp = (struct rte_tcp_hdr *)(ip + 1);
	uint8_t *payload = (uint8_t *)tcp + header;

	*tcp = (struct rte_tcp_hdr){ .src_port = rte_cpu_to_be_16(PEER_PORT + s->peer),
				     .dst_port = rte_cpu_to_be_16(w.peers[s->peer].port),
				     .sent_seq = rte_cpu_to_be_32(s->seq),
				     .recv_ack = rte_cpu_to_be_32(s->ack),
				     .data_off = (uint8_t)(header / 4 << 4),
				     .tcp_flags = s->flags,
				     .rx_win = rte_cpu_to_be_16(s->window) };
	if (s->options_bytes)
		memcpy(tcp + 1, s->options, s->options_bytes);
	for (uint32_t i = 0; i < s->bytes; i++)
		payload[i] = content(s->seq + !!(s->flags & RTE_TCP_SYN_FLAG) + i);
	mend(frame, sizeof(struct rte_ether_hdr) + sizeof(*ip) + header + s->bytes, 3);
	inject(frame, sizeof(struct rte_ether_hdr) + sizeof(*ip) + header + s->bytes);
}

void step_segment(struct input *in, unsigned peer)
{
	static const uint8_t common[] = { RTE_TCP_ACK_FLAG, RTE_TCP_ACK_FLAG | RTE_TCP_PSH_FLAG, RTE_TCP_SYN_FLAG,
					  RTE_TCP_FIN_FLAG | RTE_TCP_ACK_FLAG };
	const struct peer *p = &w.peers[peer];
	const uint8_t how = take8(in), more = take8(in);
	struct made_segment s = { .peer = peer, .flags = common[more & 3], .window = 0xffff };

	if (more & 4)
		s.flags = take8(in) & 0x3f;
	s.seq = near(in, p->seq, how);
	s.ack = near(in, p->ack, how >> 2);
	if (how & 0x10)
		s.window = take16(in);
	if (how & 0x20)
		s.bytes = take16(in) % 1400;
	if (how & 0x40)
		s.options_bytes = (uint8_t)RTE_MIN(take8(in) % 11u * 4, input_left(in) & ~(size_t)3);
	s.options = in->at;
	in->at += s.options_bytes;
	inject_segment(&s);
}

/* ---- frames out ---- */

/* An honest peer acknowledges what it has got in order, and reads at once. */
static void answer(unsigned peer, uint32_t seq, uint32_t space, uint8_t flags)
{
	struct peer *p = &w.peers[peer];

	if (flags & RTE_TCP_RST_FLAG)
		return;
	if (seq_le(seq, p->taken) && seq_lt(p->taken, seq + space))
		p->taken = seq + space;
	if (space)
		inject_segment(&(struct made_segment){
			.peer = peer, .flags = RTE_TCP_ACK_FLAG, .seq = p->seq, .ack = p->taken, .window = 0xffff });
}

static void check_segment(const struct rte_ipv4_hdr *ip)
{
	const struct rte_tcp_hdr *tcp = (const struct rte_tcp_hdr *)(ip + 1);
	const uint32_t total = rte_be_to_cpu_16(ip->total_length), header = (tcp->data_off >> 4) * 4u;
	const uint32_t seq = rte_be_to_cpu_32(tcp->sent_seq), bytes = total - (uint32_t)sizeof(*ip) - header;
	const uint32_t space = bytes + !!(tcp->tcp_flags & RTE_TCP_SYN_FLAG) + !!(tcp->tcp_flags & RTE_TCP_FIN_FLAG);
	const unsigned i = rte_be_to_cpu_16(tcp->dst_port) - PEER_PORT;
	const struct net_address from = net_address_v4(ip->src_addr), to = net_address_v4(ip->dst_addr);
	struct peer *p;

	FUZZ_CHECK(header >= sizeof(*tcp) && sizeof(*ip) + header <= total, "a TCP header of %u bytes", header);
	FUZZ_CHECK(checksum_transport(&from, &to, IPPROTO_TCP, tcp, (uint16_t)(total - sizeof(*ip))) == 0xffff,
		   "a TCP checksum");
	for (uint32_t k = 0; k < bytes; k++)
		FUZZ_CHECK(((const uint8_t *)tcp)[header + k] == content(seq + k), "byte %u of what is sent", seq + k);
	if (i >= PEERS)
		return;
	p = &w.peers[i];
	if (tcp->tcp_flags & RTE_TCP_RST_FLAG && !(tcp->tcp_flags & RTE_TCP_ACK_FLAG))
		return;
	if (w.honest && p->port != rte_be_to_cpu_16(tcp->src_port))
		return;
	p->port = rte_be_to_cpu_16(tcp->src_port);
	if (tcp->tcp_flags & RTE_TCP_ACK_FLAG)
		p->seq = rte_be_to_cpu_32(tcp->recv_ack);
	if (!p->known || tcp->tcp_flags & RTE_TCP_SYN_FLAG || seq_lt(p->ack, seq + space))
		p->ack = seq + space;
	p->known = true;
	if (w.honest)
		answer(i, seq, space, tcp->tcp_flags);
}

void check_frame(struct rte_mbuf *m)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
	const struct rte_ipv4_hdr *ip = (const struct rte_ipv4_hdr *)(eth + 1);
	uint32_t total;

	FUZZ_CHECK(m->nb_segs == 1 && !m->next && m->pkt_len == m->data_len && m->data_len >= sizeof(*eth) &&
			   m->data_len <= sizeof(*eth) + MTU,
		   "a frame of %u bytes", m->data_len);
	FUZZ_CHECK(rte_is_same_ether_addr(&eth->src_addr, &own_mac), "another station's frame");
	if (eth->ether_type == RTE_BE16(RTE_ETHER_TYPE_ARP))
		return;
	total = rte_be_to_cpu_16(ip->total_length);
	FUZZ_CHECK(eth->ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV4) && m->data_len == sizeof(*eth) + total,
		   "an IPv4 packet of %u bytes", total);
	FUZZ_CHECK(ip->src_addr == OWN_ADDRESS && rte_raw_cksum(ip, sizeof(*ip)) == 0xffff, "an IPv4 header");
	if (ip->next_proto_id == IPPROTO_TCP)
		check_segment(ip);
}
