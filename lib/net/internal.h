/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/net share, beyond net.h. Everything belongs to the stack's thread. */
#ifndef NET_INTERNAL_H
#define NET_INTERNAL_H

#include <rte_arp.h>
#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_icmp.h>
#include <rte_ip.h>
#include <rte_ip_frag.h>
#include <rte_tcp.h>
#include <rte_udp.h>

#include "base/bucket.h"
#include "net/checksum.h"
#include "net/crowd.h"
#include "net/net.h"
#include "net/tcp.h"

enum net_internal {
	NEIGHBOUR_SETS = 1024,
	NEIGHBOUR_WAYS = 4,
	NEIGHBOUR_PENDING_MAX = 3,    /* frames that wait for the address of one neighbour */
	NEIGHBOUR_PENDING_SHARE = 16, /* at most 1/16 of the pool may wait for neighbours' addresses */
	FRAGMENT_COUNTERS = 64,
	REASSEMBLY_SHARE = 32, /* fragments may hold 1/32 of the pool by default */
	PMTU_SETS = 64,
	PMTU_WAYS = 4,
	NET_MTU4_MIN = 552, /* lower values in ICMP errors are ignored, as by Linux's min_pmtu */
	NET_MTU6_MIN = 1280,
	NET_LINK_HOP_LIMIT = 255, /* of messages that must not have passed a router */
	TCP_OPTIONS_MAX = 40,
	TCP_REORDER_SHARE = 4,	   /* out-of-order segments of all connections: by default 1/4 of the pool */
	TCP_REORDER_RUNS_MAX = 64, /* gaps in the data of a connection */
	TCP_SYN_TRIES = 5,
	TCP_HALF_OPEN_SHARE = 4, /* by default 1/4 of the connections may be half open */
	TCP_RECEIVE_INITIAL = 64 * 1024,
	TCP_IDLE_MS = 300000,
	NET_TTL = 64,
	NET_HEADROOM = sizeof(struct rte_ether_hdr) + sizeof(struct rte_vlan_hdr) + sizeof(struct rte_ipv6_hdr) +
		       sizeof(struct rte_tcp_hdr) + TCP_OPTIONS_MAX,
};
_Static_assert(NET_HEADROOM <= RTE_PKTMBUF_HEADROOM, "headers fit before a payload");

#define NET_MS UINT64_C(1000000)
#define NET_US UINT64_C(1000)

/* The private area of an mbuf in TCP's send queue (tcp_sender.h), which has its states. */
struct net_priv {
	struct rte_mbuf *next;
	struct rte_mbuf *newer,
		*older; /* in the order of sending, or of loss; for `newer` of a SACKed one see tcp_scoreboard.c */
	struct rte_mbuf *skip;
	uint64_t sent_ns;     /* the last time */
	uint32_t seq;	      /* of the first payload byte */
	uint16_t payload_off; /* from buf_addr: headers are written before it again for each transmission */
	uint16_t payload_len;
	uint8_t transmissions;
	uint8_t segment; /* enum tcp_segment_state */
};
_Static_assert(sizeof(struct net_priv) <= NET_PRIV_BYTES, "net_priv");

static inline struct net_priv *net_priv(struct rte_mbuf *m)
{
	return rte_mbuf_to_priv(m);
}

/* A neighbour on the link (neighbour.c). Times are in units of 2^20 ns. */
struct neighbour {
	struct net_address address; /* none: free */
	struct rte_ether_addr mac;
	uint8_t known;	   /* mac is used, though it may need verification */
	uint8_t confirmed; /* it has answered us with this mac */
	uint8_t tries;	   /* requests since the last answer */
	uint8_t pending_count;
	uint32_t heard;	 /* when it was last confirmed, or the entry was created */
	uint32_t asked;	 /* when the last request was sent */
	uint32_t queued; /* when a frame was last queued */
	struct rte_mbuf *pending[NEIGHBOUR_PENDING_MAX];
} __rte_cache_aligned;
_Static_assert(sizeof(struct neighbour) == RTE_CACHE_LINE_SIZE, "a neighbour is a cache line");

/* Times in units of 2^20 ns (about a millisecond). They wrap after 52 days: then an old entry may look new once. */
#define NEIGHBOUR_TICKS(ms) ((uint32_t)((ms)*NET_MS >> 20))
#define NEIGHBOUR_FRESH NEIGHBOUR_TICKS(30000) /* REACHABLE_TIME: an older entry is verified when it is used */

struct net_interface {
	struct net_interface_options options;
	/* all addresses: those of the options, then the link-local one, if there is IPv6 */
	struct net_interface_address addresses[NET_ADDRESSES_MAX + 1];
	unsigned addresses_count, addresses6_count;
	struct net_address link_local;
	struct neighbour *last_neighbour; /* that was resolved */
	struct neighbour neighbours[NEIGHBOUR_SETS][NEIGHBOUR_WAYS];
};

struct pmtu_entry {
	struct net_address to;
	uint64_t until_ns;
	uint16_t mtu;
};

struct reassembly {
	struct rte_ip_frag_tbl *table;
	uint32_t packets_max;
	uint32_t mbufs; /* in the table */
	struct wheel_timer timer;
	struct rte_ip_frag_death_row row;
};

/* Shortage of mbufs. What hurts established connections least is refused first. */
enum net_pressure {
	NET_PRESSURE_NONE,
	NET_PRESSURE_LOW,  /* less than 1/16 of the pool is free: no new connections, and windows are kept small */
	NET_PRESSURE_HIGH, /* less than 1/32: out-of-order segments are dropped too */
	NET_PRESSURE_FULL, /* less than 1/64: so is all data; replies free what was received before */
};

struct tcp_listener {
	uint16_t port;
	const struct tcp_handler *handler;
	void *ctx;
};

struct udp_port {
	uint16_t port;
	net_udp_receive *receive;
	net_udp_quoted *quoted;	       /* may be NULL */
	net_udp_prefetch_fn *prefetch; /* the same */
	void *ctx;
};

/* The header bytes that a frame for the fast path must have (plain.h), and where such frames go. */
struct plain_like {
	__m128i pieces[3];		 /* the expected bytes, masked */
	struct net_interface *interface; /* NULL: nothing has been learnt */
	struct net_address to;
	uint32_t path_news; /* net->path_news when it was learnt */
	uint16_t frame_port;
};

/* The destination of the last datagram on the fast path (udp_plain.c). */
struct udp_last {
	struct plain_like like;
	struct udp_port port;
	struct net_udp_address address; /* with its sender */
	rte_be32_t from;		/* the sender's address */
};

struct net {
	struct net_memory memory;
	/* constant */
	struct net_options options;
	uint32_t hash_mask, hash_seed;
	unsigned interfaces_count, listeners_count, udp_ports_count;
	unsigned udp_prefetches; /* how many ports have a prefetch callback */
	/* the turn */
	uint64_t now_ns;
	enum net_pressure pressure;	       /* when frames came in last */
	struct tcp_conn *ack_list, **ack_tail; /* connections that owe an ACK or may have something to send, in order */
	uint32_t output_head, output_tail;
	uint32_t fragments[FRAGMENT_COUNTERS]; /* packets sent in fragments, by a hash of their addresses: for IP ids */
	/* neighbours: frames that wait for an address, and the timer that drops them */
	uint32_t neighbour_pending;
	struct wheel_timer neighbour_timer;
	struct bucket neighbour_asks, icmp_errors;
	struct wheel_timer mld_timer;
	uint32_t mld_news; /* how many more times our groups are to be reported */
	/* connections */
	uint32_t connections, half_open;
	uint32_t reorder_mbufs;
	uint32_t reorder_hand; /* where the search for a queue to drop continues */
	struct tcp_conn *free_list;
	struct tcp_conn *time_wait_oldest, *time_wait_newest;
	uint32_t *hash;		/* connection numbers, from 1; 0: none */
	struct tcp_conn *found; /* the last one looked up; NULL: none, or it is gone */
	struct tcp_conn *conns;
	uint64_t unread_bytes;	 /* of all connections */
	uint64_t grown_bytes;	 /* by which their windows have grown */
	uint32_t grown_hand;	 /* where the search for unused windows continues */
	uint32_t idle_hand;	 /* where the search for an idle connection continues */
	uint16_t next_port;	 /* next local port of active opens */
	uint32_t challenge_acks; /* that may still be sent in this second */
	uint64_t challenge_second;
	uint64_t cookie_ns; /* when the last cookie was sent; 0: never */
	struct wheel wheel;
	struct net_counters counters;
	struct crowds crowds;
	struct tcp_listener listeners[NET_LISTENERS_MAX];
	struct udp_port udp_ports[NET_UDP_PORTS_MAX];
	struct udp_last udp_last;
	struct plain_like tcp_last; /* the destination of the last segment on the fast path (tcp_plain.c) */
	struct net_interface *interfaces[NET_INTERFACES_MAX];
	struct rte_mbuf *output[NET_OUTPUT_MAX];
	uint32_t path_news; /* counts changes of paths: an MTU was learnt, an interface was added or removed */
	struct pmtu_entry pmtus[PMTU_SETS][PMTU_WAYS];
	struct reassembly reassembly;
	struct wheel_timer announce_timer;
	uint32_t announcements; /* how many more times our addresses are to be announced */
};
_Static_assert(offsetof(struct net, memory) == 0, "net_free finds it so");

/* Frees and counts. */
#define NET_DROP(net, m, reason) \
	do { \
		(net)->counters.reason++; \
		rte_pktmbuf_free(m); \
	} while (0)

/* A received IP packet of either family, for the layers above IP. */
struct net_packet {
	struct net_interface *interface;
	const void *header; /* the IP header: still readable before the mbuf's data */
	struct net_address from, to;
	uint8_t protocol;
	uint8_t tos; /* traffic class; its low two bits are ECN's (RFC 3168) */
};

static inline bool net_is_own(const struct net_interface *interface, const struct net_address *address)
{
	for (unsigned i = 0; i < interface->addresses_count; i++)
		if (net_address_equal(&interface->addresses[i].address, address))
			return true;
	return false;
}

/* interface.c: whether any interface of the stack has the address. A packet to it is ours through whichever interface
 * it came (RFC 1122, 3.3.4.2): workers behind a port that was added later reach the node's data address through that
 * port. */
bool net_is_ours(const struct net *net, const struct net_address *address);

/* The address of the interface whose prefix contains `to`, or NULL. */
const struct net_interface_address *net_on_link(const struct net_interface *interface, const struct net_address *to);

/* Finds the path to `to`, from one of our addresses (NULL: any that fits). false: there is none. */
bool net_path_find(struct net *net, const struct net_address *to, const struct net_address *from,
		   struct net_path *path);

/* The MTU of the path now: that of the interface, or what routers on the way have reported (pmtu.c). path->mtu has the
 * value at the time of net_path_find. A connection that keeps its path should ask again from time to time, because
 * reports expire (RFC 8201, 4). */
uint16_t net_path_mtu(struct net *net, const struct net_path *path);

/* Bytes of an IP header on this path. */
static inline uint16_t net_path_header(const struct net_path *path)
{
	return net_address_is_v4(&path->remote) ? sizeof(struct rte_ipv4_hdr) : sizeof(struct rte_ipv6_hdr);
}

/* Adds IP and Ethernet headers to a packet and sends it, as soon as the next hop's link address is known; in fragments
 * if it is larger than path->mtu. Owns it. protocol: IPPROTO_*. tos: as in net_packet. */
void net_send(struct net *net, const struct net_path *path, struct rte_mbuf *packet, uint8_t protocol, uint8_t tos);

/* Whether a TCP or UDP checksum is correct. */
static inline bool net_checksum_holds(const struct net_packet *p, const void *data, uint16_t bytes)
{
	return checksum_transport(&p->from, &p->to, p->protocol, data, bytes) == 0xffff;
}

/* The same for data in m, whose checksum the port may have verified. RTE_MBUF_F_RX_L4_CKSUM_NONE means that the data is
 * intact and the checksum was never filled in, as between guests of one machine. */
static inline bool net_checksum_seen_holds(const struct net_packet *p, const struct rte_mbuf *m, const void *data,
					   uint16_t bytes)
{
	const uint64_t seen = m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;

	if (seen != RTE_MBUF_F_RX_L4_CKSUM_UNKNOWN && p->interface->options.offloads & OFFLOAD_RX_CHECKSUM)
		return seen != RTE_MBUF_F_RX_L4_CKSUM_BAD;
	return net_checksum_holds(p, data, bytes);
}

/* The same for an IPv4 header of `header` bytes. */
static inline bool net_ip4_checksum_holds(const struct net_interface *interface, const struct rte_mbuf *m,
					  const struct rte_ipv4_hdr *ip, uint16_t header)
{
	const uint64_t seen = m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK;

	if (seen != RTE_MBUF_F_RX_IP_CKSUM_UNKNOWN && interface->options.offloads & OFFLOAD_RX_CHECKSUM)
		return seen != RTE_MBUF_F_RX_IP_CKSUM_BAD;
	return (likely(header == sizeof(*ip)) ? checksum_ip4(ip) : checksum_fold(checksum_add(0, ip, header))) ==
	       0xffff;
}

/* output.c: the sum of the pseudo header, with which a port that fills in checksums starts; sets m's flags for that. */
uint16_t net_leave_checksum(const struct net_path *path, struct rte_mbuf *m, uint8_t protocol, uint8_t header);

/* The checksum for m's data, a TCP segment or UDP datagram whose checksum field is 0; or, if the port fills it in, what
 * the field must have for that. header: bytes of the TCP or UDP header. */
static inline uint16_t net_checksum_to_send(const struct net_path *path, struct rte_mbuf *m, uint8_t protocol,
					    uint8_t header)
{
	const uint32_t whose = protocol == IPPROTO_TCP ? OFFLOAD_TX_TCP_CHECKSUM : OFFLOAD_TX_UDP_CHECKSUM;
	uint64_t sum;

	if (path->interface->options.offloads & whose || m->ol_flags & RTE_MBUF_F_TX_TCP_SEG)
		return net_leave_checksum(path, m, protocol, header);
	sum = checksum_pseudo(&path->local, &path->remote, protocol, (uint16_t)rte_pktmbuf_pkt_len(m));
	sum = checksum_add(sum, rte_pktmbuf_mtod(m, const void *), rte_pktmbuf_data_len(m));
	for (unsigned left = m->nb_segs; unlikely(--left);
	     sum = checksum_add(sum, rte_pktmbuf_mtod(m, const void *), rte_pktmbuf_data_len(m)))
		m = m->next; /* all segments but the last have an even length */
	return (uint16_t)~checksum_fold(sum);
}

/* pressure.c: sets net->pressure from the number of free mbufs. */
void net_watch_pool(struct net *net);

static inline void net_transmit(struct net *net, struct rte_mbuf *frame)
{
	if (unlikely(net->output_tail - net->output_head == NET_OUTPUT_MAX))
		NET_DROP(net, frame, out_queue_full);
	else
		net->output[net->output_tail++ % NET_OUTPUT_MAX] = frame;
}

/* Adds an Ethernet header and the interface's VLAN tag to a packet. The caller fills in the destination. */
struct rte_ether_hdr *net_put_ethernet(struct net_interface *interface, struct rte_mbuf *packet, rte_be16_t type);
/* Sends an IPv6 packet to a link address on the same link. */
void net_send_link(struct net *net, const struct net_path *path, struct rte_mbuf *packet, uint8_t protocol,
		   uint8_t hop_limit, const struct rte_ether_addr *mac);

/* The interface of a port and VLAN. NULL: there is none, or it was removed. */
static inline struct net_interface *net_interface_of(const struct net *net, uint16_t port, uint16_t vlan)
{
	for (unsigned i = 0; i < net->interfaces_count; i++) {
		struct net_interface *interface = net->interfaces[i];

		if (interface->options.port == port && interface->options.vlan == vlan)
			return interface;
	}
	/* Frames that came from no port are the first interface's. */
	if (port == RTE_MBUF_PORT_INVALID && net->interfaces_count > 0 && net->interfaces[0]->options.vlan == vlan)
		return net->interfaces[0];
	return NULL;
}

/* udp_plain.c, the fast path. udp_take_plain receives a frame of more than 42 bytes with UDP in IPv4, and
 * udp_send_plain sends a payload. true: they own it then; false: it is unchanged, for the general path. udp_make_plain
 * prepares a flow's headers, after something was sent to it. */
bool udp_take_plain(struct net *net, struct rte_mbuf *frame);
void udp_make_plain(struct net_udp_flow *flow);
/* Calls the prefetch callbacks for a burst's datagrams. */
void udp_fetch(const struct net *net, struct rte_mbuf **frames, unsigned n);
bool udp_send_plain(struct net *net, struct net_udp_flow *flow, struct rte_mbuf *payload, uint8_t tos);

/* tcp_plain.c, the fast path: receives a frame of more than 42 bytes with TCP in IPv4. true: it owns the frame then;
 * false: it is unchanged, for the general path. */
bool tcp_take_plain(struct net *net, struct rte_mbuf *frame);

/* input.c: receives one frame, by the general path */
void net_frame_input(struct net *net, struct rte_mbuf *frame);

/* neighbour.c */
enum neighbour_news {
	NEIGHBOUR_ASKS,	     /* it asks for one of our addresses */
	NEIGHBOUR_ANSWERS,   /* it answers a request of ours */
	NEIGHBOUR_ANNOUNCES, /* it announces itself, to all or to others */
};
/* A neighbour has stated its link address. */
void net_neighbour_heard(struct net *net, struct net_interface *interface, const struct net_address *address,
			 const struct rte_ether_addr *mac, enum neighbour_news news);
/* The link address of a neighbour. NULL: it is being requested, and the frame was queued or dropped. */
const struct rte_ether_addr *net_neighbour_resolve(struct net *net, struct net_interface *interface,
						   const struct net_address *address, struct rte_mbuf *frame);
/* Whether an entry that was found earlier is still that of the address, and needs no verification. */
static inline bool neighbour_is_sure(const struct net *net, const struct neighbour *n,
				     const struct net_address *address)
{
	return net_address_equal(&n->address, address) && n->known && n->confirmed && n->tries == 0 &&
	       (uint32_t)(net->now_ns >> 20) - n->heard < NEIGHBOUR_FRESH;
}
/* What the table has, without a request, or NULL. */
const struct rte_ether_addr *net_neighbour_known(const struct net *net, struct net_interface *interface,
						 const struct net_address *address);
void net_neighbour_timer_fire(struct wheel_timer *timer, uint64_t now_ns);
void net_neighbour_fini(struct net *net, struct net_interface *interface);

/* arp.c, nd.c. arp_ask and nd_ask request the link address of an IP address; mac: only from the station that had it,
 * NULL: from everybody. nd_input takes messages whose checksum is correct. */
enum { ND_SOLICITATION = 135, ND_ADVERTISEMENT = 136 };
void arp_input(struct net *net, struct net_interface *interface, struct rte_mbuf *m);
void arp_ask(struct net *net, struct net_interface *interface, const struct net_address *address,
	     const struct rte_ether_addr *mac);
/* Announce to all neighbours that an address is ours. */
void arp_announce(struct net *net, struct net_interface *interface, const struct net_address *own);
void nd_announce(struct net *net, struct net_interface *interface, const struct net_address *own);
void nd_input(struct net *net, struct rte_mbuf *m, const struct net_packet *packet);
void nd_ask(struct net *net, struct net_interface *interface, const struct net_address *address,
	    const struct rte_ether_addr *mac);

/* announce.c */
void net_announce_timer_fire(struct wheel_timer *timer, uint64_t now_ns);

/* mld.c: Multicast Listener Discovery. mld_query answers a query whose checksum is correct; false: it is malformed, or
 * came from beyond the link. */
enum { MLD_QUERY = 130 };
/* Reports the groups of all interfaces now. */
void mld_news(struct net *net);
void mld_timer_fire(struct wheel_timer *timer, uint64_t now_ns);
bool mld_query(struct net *net, const struct net_packet *packet, const void *message, uint16_t bytes);

/* reassembly.c: m's data is exactly the packet, from its IP header on. */
struct ip6_walk;
int net_reassembly_init(struct net *net);
void net_reassembly_fini(struct net *net);
void net_reassembly_put4(struct net *net, struct rte_mbuf *m, const struct net_packet *packet);
void net_reassembly_put6(struct net *net, struct rte_mbuf *m, const struct net_packet *packet,
			 const struct ip6_walk *at_fragment);
void net_reassembly_timer_fire(struct wheel_timer *timer, uint64_t now_ns);

/* pmtu.c: records that the path to an address carries at most mtu bytes. */
void net_pmtu_learn(struct net *net, const struct net_address *to, uint16_t mtu);

static inline uint16_t net_mtu_min(const struct net_address *to)
{
	return net_address_is_v4(to) ? NET_MTU4_MIN : NET_MTU6_MIN;
}

/* Errors that we send (icmp_error.c). */
enum icmp_error_out {
	ICMP_PROTOCOL_UNREACHABLE,
	ICMP_PORT_UNREACHABLE,
	ICMP_REASSEMBLY_TIME,
	ICMP6_BAD_FIELD,
	ICMP6_UNKNOWN_HEADER,
	ICMP6_UNKNOWN_OPTION,
};
/* Sends an ICMP error to a packet's sender, if that is allowed and the rate limit permits it. The packet is what is in
 * m from its IP header on; the caller keeps it. word: the offset of what is wrong, for the kinds that have one. */
void icmp_send_error(struct net *net, const struct rte_mbuf *m, const struct net_packet *packet,
		     enum icmp_error_out what, uint32_t word);

/* What an ICMP or ICMPv6 error says of a packet that we have sent. */
enum net_icmp_error {
	NET_ICMP_NET_UNREACHABLE,
	NET_ICMP_HOST_UNREACHABLE,
	NET_ICMP_PROTOCOL_UNREACHABLE,
	NET_ICMP_PORT_UNREACHABLE,
	NET_ICMP_PROHIBITED, /* by an administrator or a policy */
	NET_ICMP_TOO_BIG,    /* mtu: of IP packets, within what is possible, and less than the packet had */
	NET_ICMP_TIME_EXCEEDED,
	NET_ICMP_PARAMETER_PROBLEM,
};

/*
 * An ICMP error quotes a segment from local to remote. Its checksum and lengths are correct, and local is ours. Anybody
 * can forge it, so it is accepted, and true is returned, only if seq, the segment's first sequence number, is that of
 * data in flight on such a connection (RFC 5927, 4). Then the MTU that it reports is used for other connections too.
 */
bool tcp_icmp_error(struct net *net, const struct net_address *local, rte_be16_t local_port,
		    const struct net_address *remote, rte_be16_t remote_port, uint32_t seq, enum net_icmp_error kind,
		    uint16_t mtu);

/* The inputs of each layer own m, whose data starts at the layer's own header. multicast: the frame's destination was a
 * group. */
void ip4_input(struct net *net, struct net_interface *interface, struct rte_mbuf *m);
void ip6_input(struct net *net, struct net_interface *interface, struct rte_mbuf *m, bool multicast);
void icmp6_input(struct net *net, struct rte_mbuf *m, const struct net_packet *packet);
void icmp_input(struct net *net, struct rte_mbuf *m, const struct net_packet *packet);
void udp_input(struct net *net, struct rte_mbuf *m, const struct net_packet *packet);
void tcp_input(struct net *net, struct rte_mbuf *m, const struct net_packet *packet);

/* tcp_fetch.c: prefetches what the segments of a burst will need. Worth its cost only with at least TCP_FETCH_FROM
 * connections, which the first-level cache cannot hold. The frames are unchecked. */
enum { TCP_FETCH_FROM = 64 };
void tcp_fetch(const struct net *net, struct rte_mbuf **frames, unsigned n);

#endif
