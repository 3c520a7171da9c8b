/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/net/packet.h"

#include <rte_ip.h>
#include <rte_tcp.h>

#include "net/checksum.h"
#include "tests/net/cases.h"
#include "tests/unit.h"

struct packets_sent packets_sent;
bool packets_answer;
unsigned packets_received;
struct net_udp_address packets_received_by;
uint8_t packets_received_bytes[9200];

static void put16(uint8_t *at, unsigned value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value)
{
	put16(at, value >> 16);
	put16(at + 2, value & 0xffff);
}

void packet_begin(struct packet *p, const struct net_address *from, const struct net_address *to)
{
	uint8_t *ip = p->bytes + PACKET_ETHERNET;
	const bool v4 = net_address_is_v4(to);

	*p = (struct packet){ .length = PACKET_ETHERNET + (v4 ? 20 : 40), .from = *from, .to = *to };
	memcpy(p->bytes, link_mac(0), 6);
	memcpy(p->bytes + 6, link_mac(1), 6);
	put16(p->bytes + 12, v4 ? RTE_ETHER_TYPE_IPV4 : RTE_ETHER_TYPE_IPV6);
	if (v4) {
		ip[0] = 0x45;
		ip[8] = 64;
		memcpy(ip + 12, &from->words[3], 4);
		memcpy(ip + 16, &to->words[3], 4);
		p->named = PACKET_ETHERNET + 9;
		return;
	}
	ip[0] = 0x60;
	ip[7] = 64;
	memcpy(ip + 8, from, 16);
	memcpy(ip + 24, to, 16);
	p->named = PACKET_ETHERNET + 6;
	if (to->bytes[0] == 0xff) {
		p->bytes[0] = p->bytes[1] = 0x33;
		memcpy(p->bytes + 2, to->bytes + 12, 4);
	}
}

uint8_t *packet_append(struct packet *p, const void *bytes, unsigned n)
{
	uint8_t *at = p->bytes + p->length;

	if (bytes && n)
		memcpy(at, bytes, n);
	p->length += n;
	return at;
}

uint8_t *packet_extension(struct packet *p, uint8_t type, const void *body, unsigned n)
{
	uint8_t *at = packet_append(p, NULL, 2);

	packet_append(p, body, n);
	p->bytes[p->named] = type;
	p->named = (unsigned)(at - p->bytes);
	at[1] = type == IPPROTO_FRAGMENT ? 0 : (uint8_t)((n + 2) / 8 - 1);
	return at;
}

void packet_upper(struct packet *p, uint8_t protocol)
{
	p->bytes[p->named] = protocol;
	p->protocol = protocol;
	p->upper = p->length;
}

void packet_mend(struct packet *p)
{
	uint8_t *ip = p->bytes + PACKET_ETHERNET, *upper = p->bytes + p->upper, *at = NULL;
	const uint16_t bytes = p->length < p->upper ? 0 : (uint16_t)(p->length - p->upper);
	const bool v4 = net_address_is_v4(&p->to);
	uint16_t sum;

	if (v4) {
		put16(ip + 10, 0);
		sum = (uint16_t)~checksum_fold(checksum_add(0, ip, (ip[0] & 15) * 4));
		memcpy(ip + 10, &sum, 2);
	}
	if (p->upper && p->protocol == IPPROTO_TCP && bytes >= 20)
		at = upper + 16;
	else if (p->upper && p->protocol == IPPROTO_UDP && bytes >= 8)
		at = upper + 6;
	else if (p->upper && (p->protocol == IPPROTO_ICMP || p->protocol == IPPROTO_ICMPV6) && bytes >= 4)
		at = upper + 2;
	if (!at)
		return;
	put16(at, 0);
	if (p->protocol == IPPROTO_ICMP)
		sum = (uint16_t)~checksum_fold(checksum_add(0, upper, bytes));
	else
		sum = (uint16_t)~checksum_transport(&p->from, &p->to, p->protocol, upper, bytes);
	memcpy(at, &sum, 2);
}

void packet_end(struct packet *p)
{
	uint8_t *ip = p->bytes + PACKET_ETHERNET;
	const unsigned bytes = p->length - PACKET_ETHERNET;

	if (net_address_is_v4(&p->to))
		put16(ip + 2, bytes);
	else
		put16(ip + 4, bytes - 40);
	packet_mend(p);
}

void packet_give(const struct packet *p)
{
	link_inject(&net_link, 0, p->bytes, p->length);
}

void packet_udp(struct packet *p, const struct net_address *from, const struct net_address *to, uint16_t from_port,
		uint16_t to_port, unsigned payload)
{
	uint8_t *udp;

	packet_begin(p, from, to);
	packet_upper(p, IPPROTO_UDP);
	udp = packet_append(p, NULL, 8 + payload);
	put16(udp, from_port);
	put16(udp + 2, to_port);
	put16(udp + 4, 8 + payload);
	for (unsigned i = 0; i < payload; i++)
		udp[8 + i] = (uint8_t)(i * 7 + i / 256);
	packet_end(p);
}

void packet_tcp(struct packet *p, const struct net_address *from, const struct net_address *to, uint16_t from_port,
		uint16_t to_port, uint8_t flags, uint32_t seq)
{
	uint8_t *tcp;

	packet_begin(p, from, to);
	packet_upper(p, IPPROTO_TCP);
	tcp = packet_append(p, NULL, 20);
	put16(tcp, from_port);
	put16(tcp + 2, to_port);
	put32(tcp + 4, seq);
	tcp[12] = 5 << 4;
	tcp[13] = flags;
	put16(tcp + 14, 65535);
	packet_end(p);
}

void packet_icmp(struct packet *p, const struct net_address *from, const struct net_address *to, uint8_t type,
		 uint8_t code, uint32_t word, const void *body, unsigned n)
{
	uint8_t *icmp;

	packet_begin(p, from, to);
	packet_upper(p, net_address_is_v4(to) ? IPPROTO_ICMP : IPPROTO_ICMPV6);
	icmp = packet_append(p, NULL, 8);
	icmp[0] = type;
	icmp[1] = code;
	put32(icmp + 4, word);
	packet_append(p, body, n);
	packet_end(p);
}

bool packet_cut(const struct packet *whole, unsigned step, unsigned i, uint32_t id, struct packet *fragment)
{
	const unsigned bytes = whole->length - whole->upper, offset = i * step;
	const unsigned n = RTE_MIN(step, bytes - offset);
	const bool more = offset + n < bytes;

	if (offset >= bytes)
		return false;
	packet_begin(fragment, &whole->from, &whole->to);
	if (net_address_is_v4(&whole->to)) {
		fragment->bytes[fragment->named] = whole->protocol;
		put16(fragment->bytes + PACKET_ETHERNET + 4, id);
		put16(fragment->bytes + PACKET_ETHERNET + 6, offset / 8 | (more ? RTE_IPV4_HDR_MF_FLAG : 0u));
	} else {
		uint8_t *header = packet_extension(fragment, IPPROTO_FRAGMENT, NULL, 6);

		put16(header + 2, offset | more);
		put32(header + 4, id);
		header[0] = whole->protocol;
	}
	packet_append(fragment, whole->bytes + whole->upper + offset, n);
	packet_end(fragment);
	return true;
}

static void discover(struct packet *p, const struct net_address *from, const struct net_address *to, uint8_t type,
		     uint32_t word, const struct net_address *target, const struct rte_ether_addr *mac)
{
	uint8_t body[24];

	memcpy(body, target, 16);
	body[16] = type == 135 ? 1 : 2;
	body[17] = 1;
	if (mac)
		memcpy(body + 18, mac, 6);
	packet_icmp(p, from, to, type, 0, word, body, mac ? sizeof(body) : 16);
	p->bytes[PACKET_ETHERNET + 7] = 255;
}

void packet_solicitation(struct packet *p, const struct net_address *from, const struct net_address *to,
			 const struct net_address *target, const struct rte_ether_addr *mac)
{
	discover(p, from, to, 135, 0, target, mac);
}

void packet_advertisement(struct packet *p, const struct net_address *from, const struct net_address *to,
			  const struct net_address *target, uint8_t flags, const struct rte_ether_addr *mac)
{
	discover(p, from, to, 136, (uint32_t)flags << 24, target, mac);
}

void packet_arp(struct packet *p, uint16_t opcode, rte_be32_t from, const struct rte_ether_addr *mac, rte_be32_t to)
{
	uint8_t *arp;

	*p = (struct packet){ .length = PACKET_ETHERNET };
	memcpy(p->bytes, link_mac(0), 6);
	memcpy(p->bytes + 6, mac, 6);
	put16(p->bytes + 12, RTE_ETHER_TYPE_ARP);
	arp = packet_append(p, "\0\1\10\0\6\4", 6);
	packet_append(p, NULL, 22);
	put16(arp + 6, opcode);
	memcpy(arp + 8, mac, 6);
	memcpy(arp + 14, &from, 4);
	memcpy(arp + 24, &to, 4);
}

/* Side 1's answer to a question for one of its addresses. */
static void answer(const uint8_t *eth)
{
	const uint8_t *ip = eth + PACKET_ETHERNET;
	struct packet p;

	if (eth[13] == 0x06 && ip[7] == 1 && memcmp(ip + 24, &link_ip(1)->words[3], 4) == 0) {
		packet_arp(&p, 2, link_address(1), link_mac(1), link_address(0));
		packet_give(&p);
	} else if (eth[13] == 0xdd && ip[6] == IPPROTO_ICMPV6 && ip[40] == 135) {
		const struct net_address target = net_address_v6(ip + 48), from = net_address_v6(ip + 8);

		if (!net_address_equal(&target, link_ip6(1)) && !net_address_equal(&target, link_local(1)))
			return;
		packet_advertisement(&p, &target, &from, &target, 0x60, link_mac(1));
		packet_give(&p);
	}
}

static bool catch_sent(struct link *l, int from, struct rte_mbuf *m)
{
	struct packets_sent *s = &packets_sent;

	if (from != 0)
		return true;
	if (s->count == PACKETS_SENT_MAX || m->data_len > sizeof(s->sent[0].bytes)) {
		unit_fail(__FILE__, __LINE__, "%u packets sent, the last of %u bytes", s->count, m->data_len);
		return true;
	}
	memcpy(s->sent[s->count].bytes, rte_pktmbuf_mtod(m, void *), m->data_len);
	s->sent[s->count].length = m->data_len;
	s->sent[s->count].flags = m->ol_flags;
	s->sent[s->count].vlan_tci = m->vlan_tci;
	s->count++;
	if (packets_answer)
		answer(s->sent[s->count - 1].bytes);
	return true;
}

static void receive(void *ctx, struct net *net, const struct net_udp_address *address, struct rte_mbuf *payload,
		    uint8_t tos)
{
	packets_received++;
	packets_received_by = *address;
	memcpy(packets_received_bytes, rte_pktmbuf_mtod(payload, void *), payload->data_len);
	rte_pktmbuf_free(payload);
}

void packets_alone(uint64_t seed, const struct net_options *options)
{
	struct net_options own, other;

	link_init(&net_link, seed);
	own = options ? *options : link_options(&net_link, 0);
	own.pool = net_link.pool[0];
	other = link_options(&net_link, 1);
	net_link.tap = catch_sent;
	link_up_with(&net_link, &own, &other);
	packets_sent.count = packets_received = 0;
	packets_answer = false;
	CHECK_INT(net_udp_bind(net_link.net[0], 53, receive, NULL), 0);
}

void packets_turn(void)
{
	packets_sent.count = 0;
	link_run(&net_link, 1000, NULL, NULL);
}

void packets_pass(unsigned ms)
{
	link_run(&net_link, ms * LINK_MS, NULL, NULL);
	net_turn(net_link.net[0], net_link.now_ns);
}

const uint8_t *packets_ip(unsigned i)
{
	return packets_sent.sent[i].bytes + PACKET_ETHERNET;
}

uint8_t packets_protocol(unsigned i)
{
	const uint8_t *ip = packets_ip(i);

	return ip[0] >> 4 == 4 ? ip[9] : ip[6];
}

const uint8_t *packets_upper(unsigned i)
{
	const uint8_t *ip = packets_ip(i);

	return ip + (ip[0] >> 4 == 4 ? 20 : 40);
}

static bool is_question(unsigned i)
{
	const uint8_t *eth = packets_sent.sent[i].bytes;

	if (eth[12] == 0x08 && eth[13] == 0x06)
		return true;
	return eth[12] == 0x86 && packets_protocol(i) == IPPROTO_ICMPV6 && packets_upper(i)[0] >= 133 &&
	       packets_upper(i)[0] <= 137;
}

unsigned packets_count(uint8_t protocol, unsigned *last)
{
	unsigned n = 0;

	for (unsigned i = 0; i < packets_sent.count; i++)
		if (!is_question(i) && packets_protocol(i) == protocol) {
			n++;
			*last = i;
		}
	return n;
}

unsigned packets_questions(unsigned *last)
{
	unsigned n = 0;

	for (unsigned i = 0; i < packets_sent.count; i++)
		if (is_question(i)) {
			n++;
			*last = i;
		}
	return n;
}

void packets_introduce(void)
{
	struct packet p;

	packets_answer = true;
	packet_arp(&p, 1, link_address(1), link_mac(1), link_address(0));
	packet_give(&p);
	packet_solicitation(&p, link_ip6(1), link_ip6(0), link_ip6(0), link_mac(1));
	packet_give(&p);
	packet_solicitation(&p, link_local(1), link_local(0), link_local(0), link_mac(1));
	packet_give(&p);
	packets_turn();
}
