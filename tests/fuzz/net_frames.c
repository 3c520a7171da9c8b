/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of all kinds, for the stack and from it. */
#include <sanitizer/asan_interface.h>
#include <string.h>

#include "net/ip6.h"
#include "tests/fuzz/net_world.h"

const struct net_address own_address6 = { .bytes = { 0x20, 1, 0, 2, [15] = 1 } },
			 peer_address6 = { .bytes = { 0x20, 1, 0, 2, [15] = 2 } };
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

/* Where the upper layer of an IP packet begins, and its protocol; 0: it is no packet, or a part of one. */
static uint16_t find_upper(const uint8_t *packet, uint16_t have, uint8_t *protocol, uint16_t *end)
{
	const struct rte_ipv4_hdr *ip4 = (const struct rte_ipv4_hdr *)packet;
	const struct rte_ipv6_hdr *ip6 = (const struct rte_ipv6_hdr *)packet;
	struct ip6_walk walk;
	bool fragment;

	if (have >= sizeof(*ip4) && ip4->version == 4) {
		const uint16_t header = rte_ipv4_hdr_len(ip4);

		*end = rte_be_to_cpu_16(ip4->total_length);
		*protocol = ip4->next_proto_id;
		return header < sizeof(*ip4) || header > *end || *end > have ||
				       ip4->fragment_offset & RTE_BE16(RTE_IPV4_HDR_OFFSET_MASK | RTE_IPV4_HDR_MF_FLAG)
			       ? 0
			       : header;
	}
	if (have < sizeof(*ip6) || packet[0] >> 4 != 6 || rte_be_to_cpu_16(ip6->payload_len) > have - sizeof(*ip6))
		return 0;
	*end = rte_be_to_cpu_16(ip6->payload_len) + (uint16_t)sizeof(*ip6);
	ip6_walk_begin(&walk, ip6, *end);
	if (!ip6_find_upper(&walk, &fragment) || fragment)
		return 0;
	*protocol = walk.next;
	return walk.at;
}

static struct net_address address_in(const uint8_t *packet, bool from)
{
	rte_be32_t v4;

	if (packet[0] >> 4 == 6)
		return net_address_v6(packet + (from ? 8 : 24));
	memcpy(&v4, packet + (from ? 12 : 16), sizeof(v4));
	return net_address_v4(v4);
}

/* Puts right the checksums that are asked for, as far as the frame has them. */
static void mend(uint8_t *frame, uint16_t bytes, uint8_t what)
{
	static const struct {
		uint8_t protocol, at, least;
	} places[] = {
		{ IPPROTO_TCP, 16, 20 }, { IPPROTO_UDP, 6, 8 }, { IPPROTO_ICMP, 2, 4 }, { IPPROTO_ICMPV6, 2, 4 }
	};
	uint8_t *packet = frame + sizeof(struct rte_ether_hdr), protocol = 0;
	const uint16_t have = bytes - (uint16_t)RTE_MIN(sizeof(struct rte_ether_hdr), bytes);
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)packet;
	uint16_t upper, end = 0, sum;

	if (what & 1 && have >= sizeof(*ip) && ip->version == 4 && rte_ipv4_hdr_len(ip) <= have) {
		ip->hdr_checksum = 0;
		ip->hdr_checksum = (uint16_t)~rte_raw_cksum(ip, rte_ipv4_hdr_len(ip));
	}
	upper = what & 2 ? find_upper(packet, have, &protocol, &end) : 0;
	for (unsigned i = 0; i < RTE_DIM(places) && upper; i++) {
		const struct net_address from = address_in(packet, true), to = address_in(packet, false);

		if (places[i].protocol != protocol || end - upper < places[i].least)
			continue;
		memset(packet + upper + places[i].at, 0, 2);
		sum = protocol == IPPROTO_ICMP ? checksum_fold(checksum_add(0, packet + upper, end - upper))
					       : checksum_transport(&from, &to, protocol, packet + upper, end - upper);
		sum = (uint16_t)~sum;
		memcpy(packet + upper + places[i].at, &sum, 2);
	}
}

static void put_ethernet(uint8_t *frame, uint16_t type)
{
	*(struct rte_ether_hdr *)frame = (struct rte_ether_hdr){ own_mac, peer_mac, rte_cpu_to_be_16(type) };
}

/* Headers of a packet from the peers' address to ours; where its contents go. */
static uint8_t *put_ip(uint8_t *frame, bool v6, uint8_t protocol, uint16_t bytes)
{
	struct rte_ipv4_hdr *ip4 = (struct rte_ipv4_hdr *)(frame + sizeof(struct rte_ether_hdr));
	struct rte_ipv6_hdr *ip6 = (struct rte_ipv6_hdr *)ip4;

	put_ethernet(frame, v6 ? RTE_ETHER_TYPE_IPV6 : RTE_ETHER_TYPE_IPV4);
	if (v6) {
		*ip6 = (struct rte_ipv6_hdr){ .vtc_flow = RTE_BE32(0x60000000),
					      .payload_len = rte_cpu_to_be_16(bytes),
					      .proto = protocol,
					      .hop_limits = 255 };
		memcpy(ip6->src_addr, &peer_address6, sizeof(peer_address6));
		memcpy(ip6->dst_addr, &own_address6, sizeof(own_address6));
		return (uint8_t *)(ip6 + 1);
	}
	*ip4 = (struct rte_ipv4_hdr){ .version_ihl = RTE_IPV4_VHL_DEF,
				      .total_length = rte_cpu_to_be_16(sizeof(*ip4) + bytes),
				      .time_to_live = 64,
				      .next_proto_id = protocol,
				      .src_addr = PEER_ADDRESS,
				      .dst_addr = OWN_ADDRESS };
	return (uint8_t *)(ip4 + 1);
}

/* A packet whose contents are the input's, in IPv6's headers: of any kind, or as a part of one. */
static void inject_raw6(struct input *in, uint8_t how)
{
	static const uint8_t protocols[] = { IPPROTO_TCP,     IPPROTO_UDP,     IPPROTO_ICMPV6,	 IPPROTO_HOPOPTS,
					     IPPROTO_DSTOPTS, IPPROTO_ROUTING, IPPROTO_FRAGMENT, IPPROTO_FRAGMENT };
	uint8_t frame[sizeof(struct rte_ether_hdr) + MTU] = { 0 }, *at;
	const uint16_t bytes = (uint16_t)RTE_MIN((size_t)take8(in), input_left(in));
	struct rte_ipv6_hdr *ip;

	at = put_ip(frame, true, protocols[how >> 4 & 7], bytes);
	ip = (struct rte_ipv6_hdr *)at - 1;
	if (how & 4) { /* to the group in which we are asked for */
		const struct net_address group = net_address_solicited_node(&own_address6);

		memcpy(ip->dst_addr, group.bytes, sizeof(ip->dst_addr));
		frame[0] = frame[1] = 0x33;
	}
	if (how & 8)
		memset(ip->src_addr, 0, sizeof(ip->src_addr));
	memcpy(at, in->at, bytes);
	in->at += bytes;
	mend(frame, (uint16_t)(at + bytes - frame), how & 3);
	inject(frame, (uint16_t)(at + bytes - frame));
}

/* A raw frame: its bytes, or its bytes behind right headers. */
void inject_raw(struct input *in)
{
	uint8_t frame[sizeof(struct rte_ether_hdr) + MTU] = { 0 };
	const uint8_t how = take8(in);
	uint16_t at = 0, bytes;

	w.tainted = true;
	if (how & 128) {
		inject_raw6(in, how);
		return;
	}
	bytes = (uint16_t)RTE_MIN((size_t)take8(in), input_left(in));
	if (how & 4) {
		put_ethernet(frame, how & 8 ? RTE_ETHER_TYPE_ARP : RTE_ETHER_TYPE_IPV4);
		at = sizeof(struct rte_ether_hdr);
	}
	if (how & 16) {
		static const uint8_t protocols[] = { IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_ICMP };

		put_ip(frame, false, protocols[how >> 5 & 3], bytes);
		at = sizeof(struct rte_ether_hdr) + sizeof(struct rte_ipv4_hdr);
	}
	memcpy(frame + at, in->at, bytes);
	in->at += bytes;
	mend(frame, at + bytes, how & 3);
	inject(frame, at + bytes);
}

/* A fragment of a datagram, or of any packet. */
static void inject_fragment(struct input *in, bool v6)
{
	static const uint8_t protocols[] = { IPPROTO_UDP, IPPROTO_TCP, IPPROTO_ICMP, IPPROTO_ICMPV6 };
	uint8_t frame[sizeof(struct rte_ether_hdr) + MTU] = { 0 }, *at;
	const uint8_t how = take8(in), id = take8(in) & 7;
	const uint16_t offset = (uint16_t)(how & 8 ? take16(in) : take8(in) % 32u * 8), header = v6 ? 8 : 0;
	const uint16_t bytes = (uint16_t)(take8(in) * 4u),
		       shown = (uint16_t)RTE_MIN((size_t)bytes, RTE_MIN(input_left(in), (size_t)40));

	at = put_ip(frame, v6, v6 ? IPPROTO_FRAGMENT : protocols[how & 3], header + bytes);
	if (v6) {
		const uint8_t fields[8] = { protocols[how & 3],
					    0,
					    (uint8_t)(offset >> 8),
					    (uint8_t)((offset & 0xf8) | (how >> 2 & 1)),
					    0,
					    0,
					    0,
					    id };

		memcpy(at, fields, sizeof(fields));
		at += sizeof(fields);
	} else {
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)at - 1;

		ip->packet_id = id;
		ip->fragment_offset = rte_cpu_to_be_16((uint16_t)(offset / 8 | (how & 4 ? RTE_IPV4_HDR_MF_FLAG : 0)));
	}
	memcpy(at, in->at, shown);
	in->at += shown;
	w.tainted = true;
	mend(frame, (uint16_t)(at - frame) + bytes, 3);
	inject(frame, (uint16_t)(at - frame) + bytes);
}

/* Neighbour discovery that parses. */
static void inject_discovery(struct input *in)
{
	uint8_t frame[sizeof(struct rte_ether_hdr) + MTU] = { 0 };
	const uint8_t how = take8(in);
	uint8_t *at = put_ip(frame, true, IPPROTO_ICMPV6, 32);

	at[0] = how & 1 ? ND_ADVERTISEMENT : ND_SOLICITATION;
	at[4] = how & 0xe0;
	memcpy(at + 8, how & 1 ? &peer_address6 : &own_address6, 16);
	at[24] = how & 1 ? 2 : 1;
	at[25] = 1;
	memcpy(at + 26, &peer_mac, 6);
	if (how & 2)
		at[23] ^= take8(in);
	if (how & 4)
		frame[sizeof(struct rte_ether_hdr) + 23] ^= take8(in);
	if (how & 8)
		at[26 + take8(in) % 6] ^= take8(in);
	mend(frame, (uint16_t)(at + 32 - frame), 2);
	inject(frame, (uint16_t)(at + 32 - frame));
}

/* An error about what a peer was sent last. */
static void inject_error(struct input *in, unsigned peer)
{
	const struct peer *p = &w.peers[peer];
	uint8_t frame[sizeof(struct rte_ether_hdr) + MTU] = { 0 };
	const uint8_t how = take8(in);
	const bool v6 = p->quoted[0] >> 4 == 6;
	uint8_t *at = put_ip(frame, v6, v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP, 8 + p->quoted_bytes);

	at[0] = how & 1 ? (v6 ? 2 : 3) : take8(in) % 13;
	at[1] = how & 1 ? (v6 ? 0 : 4) : take8(in) % 16;
	memcpy(at + 6, &(rte_be16_t){ rte_cpu_to_be_16(how & 2 ? take16(in) : 552 + take8(in) * 8u) }, 2);
	memcpy(at + 8, p->quoted, p->quoted_bytes);
	if (how & 4)
		at[8 + take8(in) % QUOTED_MAX] ^= take8(in);
	mend(frame, (uint16_t)(at + 8 + p->quoted_bytes - frame), 3);
	inject(frame, (uint16_t)(at + 8 + p->quoted_bytes - frame));
}

/* An ARP packet that parses. */
static void inject_resolution(struct input *in, uint8_t how)
{
	uint8_t frame[64] = { 0 };
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

void inject_neighbour(struct input *in)
{
	const uint8_t how = take8(in);

	switch (how >> 4 & 7) {
	case 1:
		inject_discovery(in);
		break;
	case 2:
	case 3:
		inject_fragment(in, how >> 4 & 1);
		break;
	case 4:
	case 5:
		inject_error(in, how & 3);
		break;
	default:
		inject_resolution(in, how);
	}
}

void introduce_peer(void)
{
	static const uint8_t solicitation[] = { 0 };
	struct input none = { NULL, NULL }, in = { solicitation, solicitation + 1 };

	inject_resolution(&none, 0);
	inject_discovery(&in);
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
	uint8_t frame[sizeof(struct rte_ether_hdr) + MTU] = { 0 }, usual[TCP_OPTIONS_MAX];
	const uint8_t usual_bytes = s->options ? 0 : usual_options(s->peer, usual);
	const uint16_t options_bytes = s->options ? s->options_bytes : usual_bytes;
	const uint16_t header = sizeof(struct rte_tcp_hdr) + options_bytes;
	struct rte_tcp_hdr *tcp = (struct rte_tcp_hdr *)put_ip(frame, w.v6, IPPROTO_TCP, header + s->bytes);
	const uint16_t bytes = (uint16_t)((uint8_t *)tcp - frame) + header + s->bytes;
	uint8_t *payload = (uint8_t *)tcp + header;

	*tcp = (struct rte_tcp_hdr){ .src_port = rte_cpu_to_be_16(PEER_PORT + s->peer),
				     .dst_port = rte_cpu_to_be_16(w.peers[s->peer].port),
				     .sent_seq = rte_cpu_to_be_32(s->seq),
				     .recv_ack = rte_cpu_to_be_32(s->ack),
				     .data_off = (uint8_t)(header / 4 << 4),
				     .tcp_flags = s->flags,
				     .rx_win = rte_cpu_to_be_16(s->window) };
	memcpy(tcp + 1, s->options ? s->options : usual, options_bytes);
	if (s->tos && w.v6) /* traffic class and flow label share a word */
		frame[sizeof(struct rte_ether_hdr) + 1] |= (uint8_t)(s->tos << 4);
	else
		frame[sizeof(struct rte_ether_hdr) + 1] |= s->tos;
	for (uint32_t i = 0; i < s->bytes; i++)
		payload[i] = content(s->seq + !!(s->flags & RTE_TCP_SYN_FLAG) + i);
	mend(frame, bytes, 3);
	inject(frame, bytes);
}

void step_segment(struct input *in, unsigned peer)
{
	static const uint8_t common[] = { RTE_TCP_ACK_FLAG, RTE_TCP_ACK_FLAG | RTE_TCP_PSH_FLAG, RTE_TCP_SYN_FLAG,
					  RTE_TCP_FIN_FLAG | RTE_TCP_ACK_FLAG };
	const struct peer *p = &w.peers[peer];
	const uint8_t how = take8(in), more = take8(in);
	struct made_segment s = { .peer = peer, .flags = common[more & 3], .window = 0xffff };
	uint8_t options[TCP_OPTIONS_MAX];

	if (more & 4)
		s.flags = take8(in) & 0x3f;
	s.seq = near(in, p->seq, how);
	s.ack = near(in, p->ack, how >> 2);
	if (how & 0x10)
		s.window = take16(in);
	if (how & 0x20)
		s.bytes = take16(in) % 1400;
	if (more & MADE_TOS)
		s.tos = take8(in) & 3;
	if (more & MADE_ECN)
		s.flags |= take8(in) & 0xc0;
	if (how & 0x40) {
		s.options_bytes = (uint8_t)RTE_MIN(take8(in) % 11u * 4, input_left(in) & ~(size_t)3);
		s.options = in->at;
		in->at += s.options_bytes;
	} else {
		s.options_bytes = made_options(in, peer, more, options);
		s.options = options;
	}
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
	/* A question whether it is there has an old number and no data. */
	if (space || seq_lt(seq, p->taken))
		inject_segment(&(struct made_segment){
			.peer = peer, .flags = RTE_TCP_ACK_FLAG, .seq = p->seq, .ack = p->taken, .window = 0xffff });
}

static void check_segment(const uint8_t *packet, const uint8_t *upper, uint32_t length)
{
	const struct rte_tcp_hdr *tcp = (const struct rte_tcp_hdr *)upper;
	const uint32_t header = (tcp->data_off >> 4) * 4u, bytes = length - header;
	const uint32_t seq = rte_be_to_cpu_32(tcp->sent_seq);
	const uint32_t space = bytes + !!(tcp->tcp_flags & RTE_TCP_SYN_FLAG) + !!(tcp->tcp_flags & RTE_TCP_FIN_FLAG);
	const unsigned i = rte_be_to_cpu_16(tcp->dst_port) - PEER_PORT;
	const struct net_address from = address_in(packet, true), to = address_in(packet, false);
	struct peer *p;

	FUZZ_CHECK(header >= sizeof(*tcp) && header <= length, "a TCP header of %u bytes", header);
	FUZZ_CHECK(checksum_transport(&from, &to, IPPROTO_TCP, tcp, (uint16_t)length) == 0xffff, "a TCP checksum");
	for (uint32_t k = 0; k < bytes; k++)
		FUZZ_CHECK(((const uint8_t *)tcp)[header + k] == content(seq + k), "byte %u of what is sent", seq + k);
	if (i >= PEERS)
		return;
	p = &w.peers[i];
	p->quoted_bytes = (uint16_t)(upper + 8 - packet);
	memcpy(p->quoted, packet, p->quoted_bytes);
	if (tcp->tcp_flags & RTE_TCP_RST_FLAG && !(tcp->tcp_flags & RTE_TCP_ACK_FLAG))
		return;
	if (w.honest && p->port != rte_be_to_cpu_16(tcp->src_port))
		return;
	p->port = rte_be_to_cpu_16(tcp->src_port);
	if (!(tcp->tcp_flags & RTE_TCP_RST_FLAG))
		note_options(p, (const uint8_t *)(tcp + 1), upper + header);
	if (tcp->tcp_flags & RTE_TCP_ACK_FLAG)
		p->seq = rte_be_to_cpu_32(tcp->recv_ack);
	if (!p->known || tcp->tcp_flags & RTE_TCP_SYN_FLAG || seq_lt(p->ack, seq + space))
		p->ack = seq + space;
	p->known = true;
	if (w.honest)
		answer(i, seq, space, tcp->tcp_flags);
}

/* An honest peer answers for its address. */
static void answer_question(const struct rte_ether_hdr *eth)
{
	const struct rte_arp_hdr *arp = (const struct rte_arp_hdr *)(eth + 1);
	const uint8_t *discovery = (const uint8_t *)(eth + 1) + sizeof(struct rte_ipv6_hdr);
	static const uint8_t advertisement[] = { 0x61 };
	struct input in = { advertisement, advertisement + 1 }, none = { NULL, NULL };

	if (eth->ether_type == RTE_BE16(RTE_ETHER_TYPE_ARP)) {
		if (arp->arp_opcode == RTE_BE16(RTE_ARP_OP_REQUEST) && arp->arp_data.arp_tip == PEER_ADDRESS)
			inject_resolution(&none, 1);
	} else if (discovery[0] == ND_SOLICITATION && memcmp(discovery + 8, &peer_address6, 16) == 0) {
		inject_discovery(&in);
	}
}

/* An IP packet that the stack sends: its header, and where it ends. */
static void check_packet(const struct rte_ether_hdr *eth, uint32_t have)
{
	const uint8_t *packet = (const uint8_t *)(eth + 1);
	const struct net_address from = address_in(packet, true);
	uint8_t protocol = 0;
	uint16_t upper, end = 0;

	FUZZ_CHECK(have >= 20 && (packet[0] == 0x45 || packet[0] >> 4 == 6), "an IP header");
	if (packet[0] >> 4 == 4)
		FUZZ_CHECK(eth->ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV4) && rte_raw_cksum(packet, 20) == 0xffff &&
				   (packet[2] << 8 | packet[3]) == (int)have && net_address_to_v4(&from) == OWN_ADDRESS,
			   "an IPv4 packet of %u bytes", have);
	else
		FUZZ_CHECK(eth->ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV6) &&
				   (packet[4] << 8 | packet[5]) + 40 == (int)have &&
				   net_is_own(w.net->interfaces[0], &from),
			   "an IPv6 packet of %u bytes", have);
	upper = find_upper(packet, (uint16_t)have, &protocol, &end);
	if (upper && protocol == IPPROTO_TCP)
		check_segment(packet, packet + upper, (uint32_t)(end - upper));
	else if (upper && protocol == IPPROTO_ICMPV6 && packet[upper] == ND_SOLICITATION && w.honest)
		answer_question(eth);
}

void check_frame(struct rte_mbuf *m)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);

	FUZZ_CHECK(m->nb_segs == 1 && !m->next && m->pkt_len == m->data_len && m->data_len >= sizeof(*eth) &&
			   m->data_len <= sizeof(*eth) + MTU,
		   "a frame of %u bytes", m->data_len);
	FUZZ_CHECK(rte_is_same_ether_addr(&eth->src_addr, &own_mac), "another station's frame");
	if (eth->ether_type != RTE_BE16(RTE_ETHER_TYPE_ARP))
		check_packet(eth, m->data_len - (uint32_t)sizeof(*eth));
	else if (w.honest)
		answer_question(eth);
}
