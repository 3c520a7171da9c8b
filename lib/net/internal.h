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

/* A received IP packet of either family, for what is above IP. */
struct net_packet {
	struct net_interface *interface;
	const void *header; /* the IP header: still readable before the mbuf's data */
	struct net_address from, to;
	uint8_t protocol;
	uint8_t tos; /* traffic class; its low two bits are ECN's (RFC 3168) */
};

static inline bool net_is_own(const struct net_interface *interface, const struct net_address *address)
{
	for (unsigned i = 0; i < interface->options.addresses_count; i++)
		if (net_address_equal(&interface->options.addresses[i].address, address))
			return true;
	return false;
}

/* Where packets to an address go. */
struct net_path {
	struct net_interface *interface;
	struct net_address local, remote, next_hop;
	uint16_t mtu; /* of IP packets */
};

/* The address of the interface that has `to` on its own network, or NULL. */
const struct net_interface_address *net_on_link(const struct net_interface *interface, const struct net_address *to);

/* The path to `to`, from one of our addresses (NULL: the one that fits); false: there is none. */
bool net_path_find(struct net *net, const struct net_address *to, const struct net_address *from,
		   struct net_path *path);

/* Bytes of an IP header on this path. */
static inline uint16_t net_path_header(const struct net_path *path)
{
	return net_address_is_v4(&path->remote) ? sizeof(struct rte_ipv4_hdr) : sizeof(struct rte_ipv6_hdr);
}

/* Puts IP and Ethernet headers before a packet of that protocol and sends it, as soon as the next hop's address is known. Owns
 * it. tos: as in net_packet. */
void net_send(struct net *net, const struct net_path *path, struct rte_mbuf *packet, uint8_t protocol, uint8_t tos);

/* Whether a TCP or UDP checksum holds. */
static inline bool net_checksum_holds(const struct net_packet *p, const void *data, uint16_t bytes)
{
	return checksum_transport(&p->from, &p->to, p->protocol, data, bytes) == 0xffff;
}

/* output.c */
void net_transmit(struct net *net, struct rte_mbuf *frame);
/* Frames that net_transmit can still take. */
static inline uint32_t net_room(const struct net *net)
{
	return NET_OUTPUT_MAX - (net->output_tail - net->output_head);
}
/* An mbuf for a packet made here; counted when there is none. */
struct rte_mbuf *net_alloc(struct net *net);

/* arp.c */
void arp_input(struct net *net, struct net_interface *interface, struct rte_mbuf *frame);
/* The address of a neighbour, or NULL: then frame was queued (or dropped), and a request sent. */
const struct rte_ether_addr *arp_resolve(struct net *net, struct net_interface *interface, rte_be32_t address,
					 struct rte_mbuf *frame);
void arp_timer_fire(struct wheel_timer *timer, uint64_t now_ns);
void arp_fini(struct net *net, struct net_interface *interface);

/* The inputs own m, whose data starts at the layer's own header. */
void icmp_input(struct net *net, struct rte_mbuf *m, const struct net_packet *packet);
void udp_input(struct net *net, struct rte_mbuf *m, const struct net_packet *packet);
void tcp_input(struct net *net, struct rte_mbuf *m, const struct net_packet *packet);

#endif
