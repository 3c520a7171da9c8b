/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/net share. */
#ifndef NET_INTERNAL_H
#define NET_INTERNAL_H

#include <rte_arp.h>
#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_icmp.h>
#include <rte_ip.h>
#include <rte_tcp.h>
#include <rte_udp.h>

#include "net/checksum.h"
#include "net/net.h"
#include "net/tcp.h"

enum net_internal {
	ARP_SETS = 256,
	ARP_WAYS = 4,
	ARP_PENDING_MAX = 4,	/* frames that wait for one answer */
	ARP_PENDING_SHARE = 16, /* at most 1/16 of the pool may wait for answers */
	TCP_OPTIONS_MAX = 40,
	TCP_REORDER_MAX = 256, /* out-of-order segments of a connection */
	TCP_REORDER_SHARE = 4, /* of all connections: by default 1/4 of the pool */
	TCP_SYN_TRIES = 5,
	TCP_HALF_OPEN_SHARE = 4, /* at most 1/4 of the connections may be half open */
	NET_TTL = 64,
	NET_HEADROOM = sizeof(struct rte_ether_hdr) + sizeof(struct rte_ipv4_hdr) + sizeof(struct rte_tcp_hdr) +
		       TCP_OPTIONS_MAX,
};
_Static_assert(NET_HEADROOM <= RTE_PKTMBUF_HEADROOM, "headers fit before a payload");

#define NET_MS UINT64_C(1000000)
#define NET_US UINT64_C(1000)

/* The private area of an mbuf: how TCP and ARP keep it in their queues. */
struct net_priv {
	struct rte_mbuf *next;
	uint64_t sent_ns;
	uint32_t seq;	      /* of the first payload byte */
	uint16_t payload_off; /* from buf_addr: headers are put before it, again for each transmission */
	uint16_t payload_len;
	uint8_t transmissions;
	uint8_t fin; /* received: the segment carried a FIN */
};
_Static_assert(sizeof(struct net_priv) <= NET_PRIV_BYTES, "net_priv");

static inline struct net_priv *net_priv(struct rte_mbuf *m)
{
	return rte_mbuf_to_priv(m);
}

struct arp_entry {
	rte_be32_t address; /* 0: free */
	struct rte_ether_addr mac;
	uint8_t resolved;
	uint8_t tries; /* requests since the last answer */
	uint8_t pending_count;
	uint64_t updated_ns; /* of the last answer */
	uint64_t asked_ns;   /* of the last request */
	uint64_t queued_ns;  /* of the last frame that waits */
	struct rte_mbuf *pending[ARP_PENDING_MAX];
};

struct net_interface {
	struct net_interface_options options;
	rte_be32_t mask;
	struct arp_entry arp[ARP_SETS][ARP_WAYS];
};

struct tcp_listener {
	uint16_t port;
	const struct tcp_handler *handler;
	void *ctx;
};

struct udp_port {
	uint16_t port;
	net_udp_receive *receive;
	void *ctx;
};

struct net {
	/* constant */
	struct net_options options;
	struct rte_mempool *pool;
	uint32_t hash_mask, hash_seed;
	unsigned interfaces_count, listeners_count, udp_ports_count;
	uint32_t half_open_max;
	/* the turn */
	uint64_t now_ns;
	struct tcp_conn *ack_list,
		**ack_tail; /* connections that owe an ACK, or have output to try; first come, first served */
	uint32_t output_head, output_tail;
	uint16_t ip_id;
	/* ARP: frames that wait for an answer, and what ends their waiting when none comes */
	uint32_t arp_pending;
	struct wheel_timer arp_timer;
	/* connections */
	uint32_t connections, half_open;
	uint32_t reorder_mbufs;
	uint32_t reorder_hand; /* where the search for a queue to give up goes on */
	struct tcp_conn *free_list;
	struct tcp_conn *time_wait_oldest, *time_wait_newest;
	struct tcp_conn **hash;
	struct tcp_conn *conns;
	uint16_t next_port;	 /* of active opens */
	uint32_t challenge_acks; /* left in this second */
	uint64_t challenge_second;
	struct wheel wheel;
	struct net_counters counters;
	struct tcp_listener listeners[NET_LISTENERS_MAX];
	struct udp_port udp_ports[NET_UDP_PORTS_MAX];
	struct net_interface *interfaces;
	struct rte_mbuf *output[NET_OUTPUT_MAX];
};

/* Frees and counts. */
#define NET_DROP(net, m, reason) \
	do { \
		(net)->counters.reason++; \
		rte_pktmbuf_free(m); \
	} while (0)

/* Whether a TCP or UDP checksum holds. */
static inline bool net_checksum_holds(const struct rte_ipv4_hdr *ip, const void *data, uint16_t bytes)
{
	return checksum_transport(ip->src_addr, ip->dst_addr, ip->next_proto_id, data, bytes) == 0xffff;
}

/* output.c */
struct net_interface *net_route(struct net *net, rte_be32_t to, rte_be32_t *next_hop);
void net_transmit(struct net *net, struct rte_mbuf *frame);
/* Frames that net_transmit can still take. */
static inline uint32_t net_room(const struct net *net)
{
	return NET_OUTPUT_MAX - (net->output_tail - net->output_head);
}
/* Puts an Ethernet header before an IPv4 packet and sends it, when the next hop's address is known. */
void net_send_ip(struct net *net, struct net_interface *interface, struct rte_mbuf *packet, rte_be32_t next_hop);
/* Fills an IPv4 header, checksum included, for a packet whose data starts with it. */
void net_fill_ip(struct net *net, struct rte_ipv4_hdr *ip, uint8_t protocol, rte_be32_t from, rte_be32_t to,
		 uint16_t bytes);
/* An mbuf for a packet made here; counted when there is none. */
struct rte_mbuf *net_alloc(struct net *net);

/* arp.c */
void arp_input(struct net *net, struct net_interface *interface, struct rte_mbuf *frame);
/* The address of a neighbour, or NULL: then frame was queued (or dropped), and a request sent. */
const struct rte_ether_addr *arp_resolve(struct net *net, struct net_interface *interface, rte_be32_t address,
					 struct rte_mbuf *frame);
void arp_timer_fire(struct wheel_timer *timer, uint64_t now_ns);
void arp_fini(struct net *net, struct net_interface *interface);

/* The inputs own packet, whose data starts at the layer's own header; ip is still readable before it. */
void icmp_input(struct net *net, struct net_interface *interface, struct rte_mbuf *packet,
		const struct rte_ipv4_hdr *ip);
void udp_input(struct net *net, struct rte_mbuf *packet, const struct rte_ipv4_hdr *ip);
void tcp_input(struct net *net, struct net_interface *interface, struct rte_mbuf *packet,
	       const struct rte_ipv4_hdr *ip);

#endif
