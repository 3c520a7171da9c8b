/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/net/emulate.h"

#include <rte_ip.h>
#include <rte_tcp.h>
#include <rte_udp.h>
#include <stdlib.h>

#include "tests/unit.h"

#define ASKS (RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_L4_MASK | RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_VLAN)

/* A frame's headers, wherever they lie. */
struct headers {
	struct rte_ipv4_hdr *ip4; /* one of the two */
	struct rte_ipv6_hdr *ip6;
	struct rte_tcp_hdr *tcp; /* at most one of the two */
	struct rte_udp_hdr *udp;
	unsigned l2, l3;
};

static struct rte_mbuf *wire_alloc(void)
{
	static struct rte_mempool *pool;
	struct rte_mbuf *m;

	if (!pool)
		pool = rte_pktmbuf_pool_create("wire", 255, 0, 0, UINT16_MAX, SOCKET_ID_ANY);
	m = pool ? rte_pktmbuf_alloc(pool) : NULL;
	if (!m)
		exit(EXIT_FAILURE);
	return m;
}

/* false: neither TCP nor UDP, or a fragment. */
static bool find(struct rte_mbuf *m, struct headers *h)
{
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
	uint16_t type = (uint16_t)(frame[12] << 8 | frame[13]);
	uint8_t protocol;

	*h = (struct headers){ .l2 = sizeof(struct rte_ether_hdr) };
	if (type == RTE_ETHER_TYPE_VLAN) {
		type = (uint16_t)(frame[16] << 8 | frame[17]);
		h->l2 += sizeof(struct rte_vlan_hdr);
	}
	if (type == RTE_ETHER_TYPE_IPV4 && m->data_len >= h->l2 + sizeof(*h->ip4)) {
		h->ip4 = (struct rte_ipv4_hdr *)(frame + h->l2);
		h->l3 = rte_ipv4_hdr_len(h->ip4);
		protocol = h->ip4->next_proto_id;
		if (h->ip4->fragment_offset & RTE_BE16(RTE_IPV4_HDR_OFFSET_MASK | RTE_IPV4_HDR_MF_FLAG))
			return false;
	} else if (type == RTE_ETHER_TYPE_IPV6 && m->data_len >= h->l2 + sizeof(*h->ip6)) {
		h->ip6 = (struct rte_ipv6_hdr *)(frame + h->l2);
		h->l3 = sizeof(*h->ip6);
		protocol = h->ip6->proto;
	} else {
		return false;
	}
	if (protocol == IPPROTO_TCP && m->data_len >= h->l2 + h->l3 + sizeof(*h->tcp))
		h->tcp = (struct rte_tcp_hdr *)(frame + h->l2 + h->l3);
	else if (protocol == IPPROTO_UDP && m->data_len >= h->l2 + h->l3 + sizeof(*h->udp))
		h->udp = (struct rte_udp_hdr *)(frame + h->l2 + h->l3);
	return h->tcp || h->udp;
}

static uint16_t *checksum_of(const struct headers *h)
{
	return (uint16_t *)((uint8_t *)(h->tcp ? (void *)h->tcp : h->udp) +
			    (h->tcp ? offsetof(struct rte_tcp_hdr, cksum) : offsetof(struct rte_udp_hdr, dgram_cksum)));
}

static void count(struct link *link, enum offload offload)
{
	link->did[__builtin_ctz(offload)]++;
}

static void fault(const char *what, const struct rte_mbuf *m)
{
	unit_fail(__FILE__, __LINE__, "%s: flags %#llx, %u bytes of %u in the first of %u mbufs", what,
		  (unsigned long long)m->ol_flags, m->data_len, m->pkt_len, m->nb_segs);
}

/* Whether the chain is one, and no more is asked for than the port has. */
static void check_frame(const struct link *link, int side, const struct rte_mbuf *m)
{
	const uint64_t has = link->offloads[side], l4 = m->ol_flags & RTE_MBUF_F_TX_L4_MASK;
	uint32_t bytes = 0, count = 0;

	for (const struct rte_mbuf *part = m; part; part = part->next, count++)
		bytes += part->data_len;
	if (bytes != m->pkt_len || count != m->nb_segs)
		fault("a chain that is none", m);
	if ((count > 1 && !(has & OFFLOAD_TX_SEGMENTS)) || count > EMULATED_SEGMENTS)
		fault("too many mbufs", m);
	if ((m->ol_flags & RTE_MBUF_F_TX_IP_CKSUM && !(has & OFFLOAD_TX_IP4_CHECKSUM)) ||
	    (l4 == RTE_MBUF_F_TX_TCP_CKSUM && !(has & OFFLOAD_TX_TCP_CHECKSUM) &&
	     !(m->ol_flags & RTE_MBUF_F_TX_TCP_SEG)) ||
	    (l4 == RTE_MBUF_F_TX_UDP_CKSUM && !(has & OFFLOAD_TX_UDP_CHECKSUM)) ||
	    (m->ol_flags & RTE_MBUF_F_TX_TCP_SEG && !(has & OFFLOAD_TX_TSO)) ||
	    (m->ol_flags & RTE_MBUF_F_TX_VLAN && !(has & OFFLOAD_TX_VLAN)))
		fault("asked for what the port does not have", m);
}

/* Whether headers and flags are what rte_mbuf_core.h requires for a checksum or segmentation offload. */
static void check_request(struct rte_mbuf *m, const struct headers *h)
{
	const uint64_t flags = m->ol_flags, l4 = flags & RTE_MBUF_F_TX_L4_MASK;
	const unsigned l4_len = h->tcp ? h->tcp->data_off / 16 * 4u : (unsigned)sizeof(*h->udp);
	uint16_t pseudo;

	if (flags & RTE_MBUF_F_TX_IP_CKSUM && (!h->ip4 || h->ip4->hdr_checksum))
		fault("IPv4 checksum", m);
	if (m->l2_len != h->l2 || m->l3_len != h->l3 || (l4 && m->l4_len != l4_len) ||
	    m->data_len < h->l2 + h->l3 + (l4 ? l4_len : 0))
		fault("lengths of headers", m);
	if (!(flags & (h->ip4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6)))
		fault("IP version", m);
	if (flags & RTE_MBUF_F_TX_TCP_SEG &&
	    (l4 != RTE_MBUF_F_TX_TCP_CKSUM || m->tso_segsz < NET_TSO_MSS_MIN || m->nb_segs < 2 ||
	     (h->ip4 && !(flags & RTE_MBUF_F_TX_IP_CKSUM) && rte_ipv4_cksum(h->ip4) != 0xffff &&
	      rte_ipv4_cksum(h->ip4) != 0)))
		fault("segmentation", m);
	if (!l4)
		return;
	pseudo = h->ip4 ? rte_ipv4_phdr_cksum(h->ip4, flags) : rte_ipv6_phdr_cksum(h->ip6, flags);
	if (*checksum_of(h) != pseudo)
		fault("sum of the pseudo header", m);
}

/* Sums up what stands there, the pseudo header's sum included; bytes: from TCP's or UDP's header on. */
static void fill_transport(const struct headers *h, unsigned bytes)
{
	const void *at = h->tcp ? (void *)h->tcp : h->udp;
	const uint16_t sum = (uint16_t)~rte_raw_cksum(at, bytes);

	*checksum_of(h) = sum == 0 && h->udp ? 0xffff : sum;
}

static void insert_tag(struct rte_mbuf *m)
{
	uint8_t macs[12], *to = (uint8_t *)rte_pktmbuf_prepend(m, 4);

	memcpy(macs, to + 4, sizeof(macs));
	memcpy(to, macs, sizeof(macs));
	memcpy(to + 12, (uint8_t[]){ 0x81, 0, (uint8_t)(m->vlan_tci >> 8), (uint8_t)m->vlan_tci }, 4);
}

/* What is left to do when a frame has its length. */
static struct rte_mbuf *finish(struct link *link, struct rte_mbuf *m, const struct headers *h, uint64_t flags,
			       uint16_t tci)
{
	if (flags & RTE_MBUF_F_TX_IP_CKSUM) {
		h->ip4->hdr_checksum = rte_ipv4_cksum(h->ip4);
		count(link, OFFLOAD_TX_IP4_CHECKSUM);
	}
	if (flags & RTE_MBUF_F_TX_L4_MASK) {
		count(link, h->tcp ? OFFLOAD_TX_TCP_CHECKSUM : OFFLOAD_TX_UDP_CHECKSUM);
		if (!link->partial)
			fill_transport(h, m->data_len - h->l2 - h->l3);
	}
	if (flags & RTE_MBUF_F_TX_VLAN) {
		count(link, OFFLOAD_TX_VLAN);
		m->vlan_tci = tci;
		insert_tag(m);
	}
	return m;
}

/* The i-th segment of a chain that lies in whole; h: its headers. */
static struct rte_mbuf *cut(struct link *link, const struct rte_mbuf *whole, const struct headers *h,
			    const struct rte_mbuf *asked, unsigned i)
{
	const unsigned headers = h->l2 + h->l3 + (h->tcp->data_off >> 4 << 2), at = headers + i * asked->tso_segsz;
	const unsigned bytes = RTE_MIN((unsigned)asked->tso_segsz, whole->data_len - at);
	struct rte_mbuf *m = wire_alloc();
	struct headers own;

	memcpy(rte_pktmbuf_append(m, (uint16_t)headers), rte_pktmbuf_mtod(whole, void *), headers);
	memcpy(rte_pktmbuf_append(m, (uint16_t)bytes), rte_pktmbuf_mtod_offset(whole, void *, at), bytes);
	find(m, &own);
	own.tcp->sent_seq = rte_cpu_to_be_32(rte_be_to_cpu_32(own.tcp->sent_seq) + i * asked->tso_segsz);
	if (i)
		own.tcp->tcp_flags &= (uint8_t)~RTE_TCP_CWR_FLAG;
	if (at + bytes < whole->data_len)
		own.tcp->tcp_flags &= (uint8_t) ~(RTE_TCP_PSH_FLAG | RTE_TCP_FIN_FLAG);
	if (own.ip4) {
		own.ip4->total_length = rte_cpu_to_be_16((uint16_t)(m->data_len - own.l2));
		own.ip4->packet_id = rte_cpu_to_be_16((uint16_t)(rte_be_to_cpu_16(own.ip4->packet_id) + i));
		own.tcp->cksum = rte_ipv4_phdr_cksum(own.ip4, 0);
		if (!(asked->ol_flags & RTE_MBUF_F_TX_IP_CKSUM)) {
			own.ip4->hdr_checksum = 0;
			own.ip4->hdr_checksum = rte_ipv4_cksum(own.ip4);
		}
	} else {
		own.ip6->payload_len = rte_cpu_to_be_16((uint16_t)(m->data_len - own.l2 - own.l3));
		own.tcp->cksum = rte_ipv6_phdr_cksum(own.ip6, 0);
	}
	return finish(link, m, &own, asked->ol_flags, asked->vlan_tci);
}

static void keep(struct link *link, int side, struct rte_mbuf *m)
{
	struct rte_mbuf **place = &link->kept[side][link->kept_count[side]++ % RTE_MAX(link->keeps[side], 1u)];

	rte_pktmbuf_free(*place);
	*place = m;
}

void emulate_send(struct link *link, int side, struct rte_mbuf *m,
		  void (*wire)(struct link *link, int side, struct rte_mbuf *m))
{
	struct rte_mbuf *whole;
	struct headers h;

	if (!link->offloads[side] && !link->keeps[side]) {
		if (m->nb_segs != 1)
			fault("too many mbufs", m);
		wire(link, side, m);
		return;
	}
	check_frame(link, side, m);
	whole = wire_alloc();
	whole->port = m->port;
	for (const struct rte_mbuf *part = m; part; part = part->next)
		memcpy(rte_pktmbuf_append(whole, part->data_len), rte_pktmbuf_mtod(part, void *), part->data_len);
	if (m->nb_segs == 2 && RTE_MBUF_CLONED(m->next))
		count(link, OFFLOAD_TX_SEGMENTS);
	find(whole, &h);
	if (m->ol_flags & ASKS & ~RTE_MBUF_F_TX_VLAN)
		check_request(m, &h);
	if (m->ol_flags & RTE_MBUF_F_TX_TCP_SEG) {
		const unsigned bytes = m->pkt_len - m->l2_len - m->l3_len - m->l4_len;

		count(link, OFFLOAD_TX_TSO);
		for (unsigned i = 0; i * m->tso_segsz < bytes; i++)
			wire(link, side, cut(link, whole, &h, m, i));
		rte_pktmbuf_free(whole);
	} else {
		wire(link, side, finish(link, whole, &h, m->ol_flags, m->vlan_tci));
	}
	if (link->keeps[side])
		keep(link, side, m);
	else
		rte_pktmbuf_free(m);
}

void emulate_receive(struct link *link, int side, struct rte_mbuf *m)
{
	struct headers h;
	uint32_t sum;
	bool any, good;

	if (!(link->offloads[side] & OFFLOAD_RX_CHECKSUM))
		return;
	any = find(m, &h);
	if (h.ip4 && h.l3 >= sizeof(*h.ip4) && h.l2 + h.l3 <= m->data_len)
		m->ol_flags |= rte_raw_cksum(h.ip4, h.l3) == UINT16_MAX ? RTE_MBUF_F_RX_IP_CKSUM_GOOD
									: RTE_MBUF_F_RX_IP_CKSUM_BAD;
	if (!any)
		return;
	if (link->partial && link->offloads[!side] & (h.tcp ? OFFLOAD_TX_TCP_CHECKSUM : OFFLOAD_TX_UDP_CHECKSUM)) {
		m->ol_flags |= RTE_MBUF_F_RX_L4_CKSUM_NONE;
		return;
	}
	/* A length that was damaged: what was not looked at is unknown. */
	if (h.ip4 ? rte_be_to_cpu_16(h.ip4->total_length) + h.l2 != m->data_len || h.l3 != sizeof(*h.ip4)
		  : rte_be_to_cpu_16(h.ip6->payload_len) + h.l2 + h.l3 != m->data_len)
		return;
	sum = h.ip4 ? rte_ipv4_phdr_cksum(h.ip4, 0) : rte_ipv6_phdr_cksum(h.ip6, 0);
	sum += rte_raw_cksum(h.tcp ? (void *)h.tcp : h.udp, m->data_len - h.l2 - h.l3);
	good = sum % UINT16_MAX == 0;
	count(link, OFFLOAD_RX_CHECKSUM);
	m->ol_flags |= good ? RTE_MBUF_F_RX_L4_CKSUM_GOOD : RTE_MBUF_F_RX_L4_CKSUM_BAD;
}

void emulate_release(struct link *link)
{
	for (int side = 0; side < 2; side++)
		for (unsigned i = 0; i < LINK_KEPT_MAX; i++) {
			rte_pktmbuf_free(link->kept[side][i]);
			link->kept[side][i] = NULL;
		}
}
