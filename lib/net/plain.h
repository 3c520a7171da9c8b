/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fast paths of UDP and TCP share (udp_plain.c, tcp_plain.c). Nearly all frames are "plain": untagged IPv4 to
 * an address of ours, without options and not fragmented. A frame with the same headers as an earlier one is recognized
 * by three comparisons of 16 bytes.
 */
#ifndef NET_PLAIN_H
#define NET_PLAIN_H

#include "net/internal.h"

/* Three overlapping pieces of the headers, with masks for the bytes that are the same in all plain frames of one
 * protocol to one address: Ethernet destination and type; IP version, header length, fragment fields, protocol and
 * destination; and for UDP the destination port, in the last piece. */
enum plain_kind { PLAIN_UDP, PLAIN_TCP };
static const uint8_t plain_piece_at[3] = { 0, 16, 26 };
static const uint8_t plain_piece_mask[3][16] = {
	{ 255, 255, 255, 255, 255, 255, [12] = 255, 255, 255 },
	{ [4] = 0x3f, 255, [7] = 255, [14] = 255, 255 },
	{ [4] = 255, 255, 255, 255, [10] = 255, 255 },
};
static const uint8_t plain_last_mask_tcp[16] = { [4] = 255, 255, 255, 255 };

static inline __m128i plain_piece(const void *headers, unsigned i, enum plain_kind kind)
{
	const uint8_t *mask = i == 2 && kind == PLAIN_TCP ? plain_last_mask_tcp : plain_piece_mask[i];

	return _mm_and_si128(_mm_loadu_si128((const __m128i *)((const uint8_t *)headers + plain_piece_at[i])),
			     _mm_loadu_si128((const __m128i *)mask));
}

/* Whether a frame of at least 42 bytes has the headers that plain_learn has stored. */
static inline bool plain_is_like(const struct net *net, const struct plain_like *like, const struct rte_mbuf *frame,
				 enum plain_kind kind)
{
	const void *h = rte_pktmbuf_mtod(frame, const void *);
	const __m128i differs = _mm_or_si128(_mm_xor_si128(plain_piece(h, 0, kind), like->pieces[0]),
					     _mm_or_si128(_mm_xor_si128(plain_piece(h, 1, kind), like->pieces[1]),
							  _mm_xor_si128(plain_piece(h, 2, kind), like->pieces[2])));

	return like->interface && like->path_news == net->path_news && like->frame_port == frame->port &&
	       _mm_testz_si128(differs, differs);
}

/* Whether a frame of at least 42 bytes, of the right type and protocol, is plain and for us. If so, its headers are
 * stored in *like, and frames with the same ones are recognized from now on. */
static inline bool plain_learn(const struct net *net, struct plain_like *like, const struct rte_mbuf *frame,
			       enum plain_kind kind)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(frame, const struct rte_ether_hdr *);
	const struct rte_ipv4_hdr *ip = (const struct rte_ipv4_hdr *)(eth + 1);
	struct net_interface *interface = net_interface_of(net, frame->port, 0);
	const struct net_address to = net_address_v4(ip->dst_addr);

	if (!interface || !rte_is_same_ether_addr(&eth->dst_addr, &interface->options.mac) ||
	    !net_is_own(interface, &to) || ip->version_ihl != RTE_IPV4_VHL_DEF ||
	    ip->fragment_offset & RTE_BE16(RTE_IPV4_HDR_OFFSET_MASK | RTE_IPV4_HDR_MF_FLAG))
		return false;
	*like = (struct plain_like){ .interface = interface,
				     .to = to,
				     .path_news = net->path_news,
				     .frame_port = frame->port,
				     .pieces = { plain_piece(eth, 0, kind), plain_piece(eth, 1, kind),
						 plain_piece(eth, 2, kind) } };
	return true;
}

#endif
