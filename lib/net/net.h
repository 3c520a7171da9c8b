/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network stack over mbufs: Ethernet and VLANs, ARP and neighbour discovery, IPv4 and IPv6, ICMP, UDP and TCP. It
 * does not know NICs or reactors: frames enter by net_input and leave by net_output, and the caller passes the time. A
 * stack belongs to one thread, and stacks share nothing. It allocates memory only when it is created. Times are
 * nanoseconds of a monotonic clock unless a name says otherwise; ports are in host order unless their type is
 * rte_be16_t.
 *
 * Frames that are refused are freed, and counted under a reason of NET_COUNTERS.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include <rte_ether.h>
#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/offload.h"
#include "base/wheel.h"
#include "net/address.h"
#include "net/counters.h"
#include "star_error.h"

enum net_limits {
	NET_INTERFACES_MAX = 8,
	NET_ADDRESSES_MAX = 8, /* of an interface */
	NET_PRIV_BYTES = 64,   /* private area that each mbuf of the pool must have */
	NET_OUTPUT_MAX = 1024, /* frames waiting for net_output */
	NET_LISTENERS_MAX = 16,
	NET_UDP_PORTS_MAX = 16,
	NET_VLAN_MAX = 4095, /* 4095 is reserved, 0 is none */
};

struct net_interface_options {
	uint16_t port;	       /* DPDK's id: frames come in and go out with mbuf->port set to it */
	uint16_t mtu;	       /* of IP packets, in bytes; with IPv6 at least 1280 */
	uint16_t vlan;	       /* 802.1Q id of all its frames; 0: untagged */
	uint32_t offloads;     /* enum offload: what the port does when the mbuf's flags request it */
	uint16_t tso_bytes;    /* with OFFLOAD_TX_TSO: bytes of the longest frame that the port cuts, */
	uint16_t tso_segments; /* and the most mbufs of its chain */
	struct rte_ether_addr mac;
	unsigned addresses_count;
	struct net_interface_address {
		struct net_address address;
		unsigned prefix; /* up to 32 or 128 */
	} addresses[NET_ADDRESSES_MAX];
	struct net_address gateway4, gateway6; /* none: all zero */
};

/* Some NICs refuse to cut a frame into smaller (i40e, iavf: 256) or larger segments (igb: 9216): the stack sends those
 * one by one. */
enum { NET_TSO_MSS_MIN = 256, NET_TSO_MSS_MAX = 9216 };

enum net_without {
	NET_WITHOUT_SACK = 1 << 0,
	NET_WITHOUT_TIMESTAMPS = 1 << 1,
	NET_WITHOUT_SCALE = 1 << 2,
};

/* Explicit congestion notification (RFC 3168). */
enum net_ecn {
	NET_ECN_ACCEPT, /* where the peer asks for it */
	NET_ECN_OFF,
	NET_ECN_ASK, /* the same, and our own SYNs ask for it */
};

enum net_congestion { NET_CUBIC, NET_NEWRENO, NET_DCTCP };

struct net_options {
	struct rte_mempool *pool; /* for all mbufs that the stack allocates; their private area has NET_PRIV_BYTES */
	struct net_interface_options interfaces[NET_INTERFACES_MAX];
	unsigned interfaces_count;
	/* learns from ARP and ND, but does not answer them: another stack with the same addresses does */
	bool neighbours_silent;
	bool announce;		       /* announces its addresses (gratuitous ARP, ND); one stack of an interface */
	bool mld;		       /* reports its IPv6 groups (MLDv2, RFC 3810); one stack of an interface */
	uint32_t reassembly_mbufs_max; /* that hold incomplete packets; 0: 1/32 of the pool */
	/* Called with a frame made of a reassembled packet. true: the callee owns it, and passes it to another stack.
	 * (All fragments are steered to one stack, because only the first one has a port.) NULL: all packets are
	 * ours. */
	bool (*reassembled)(void *ctx, struct rte_mbuf *frame);
	void *reassembled_ctx;
	/* TCP. 0 means the default, which is given after the semicolon. */
	uint32_t connections_max;
	uint32_t half_open_max; /* when this many are half open, SYNs are answered by cookies; 1/4 of the connections */
	bool cookies_always;	/* every SYN is answered by a cookie */
	uint32_t receive_window_bytes;	/* the most unread and out-of-order bytes of a connection */
	uint32_t receive_initial_bytes; /* the same at first, until its reader has consumed much; 64 KiB */
	/* total by which the windows of all connections may grow beyond that; half of the pool */
	uint64_t receive_grown_bytes;
	uint64_t unread_bytes;	    /* of all connections: above that, windows are kept small; half of the pool */
	uint32_t reorder_mbufs_max; /* out-of-order segments of all connections; 1/4 of the pool */
	uint32_t without;	    /* enum net_without: what is neither offered nor accepted */
	uint32_t ecn;		    /* enum net_ecn */
	uint32_t fin_wait_ms;	    /* limit of FIN_WAIT_2 once the user has closed; user_timeout_ms */
	uint32_t idle_ms;	    /* a connection that had no data for so long may be closed for a new one; 300 s */
	uint32_t keepalive_idle_s, keepalive_interval_s,
		keepalive_probes; /* of new connections; no keepalive, 75 s, 9 */
	uint32_t rto_min_us, rto_max_us;
	uint32_t congestion;	/* enum net_congestion, of new connections; CUBIC */
	bool idle_keeps_window; /* the congestion window does not decay while nothing is sent */
	uint32_t delayed_ack_us;
	uint32_t time_wait_ms;
	/* a connection whose data is unacknowledged for so long ends, unless its user has set another limit */
	uint32_t user_timeout_ms;
	/* random, different for each stack: sequence numbers, cookies and timestamp offsets are derived from it */
	uint64_t secret[2];
	/* index of this stack among those with the same addresses, and their number; 0 and 0: it is the only one */
	uint32_t stack, stacks;
	uint64_t now_ns;
};

struct net;

struct net *net_create(const struct net_options *options, struct star_error *err);
/* Ends all connections without notifying peers or handlers. */
void net_destroy(struct net *net);

/*
 * Interfaces of a running stack. net_interface_create and _free may be called on any thread (the table of neighbours
 * takes 256 KiB); all other calls are for the stack's thread. net_interface_create returns NULL, with err: -EADDRINUSE
 * if another interface has one of the addresses; -ENOSPC if there are NET_INTERFACES_MAX.
 */
struct net_interface;
struct net_interface *net_interface_create(const struct net *net, const struct net_interface_options *options,
					   struct star_error *err);
void net_interface_add(struct net *net, struct net_interface *interface);
/* Removes the interface of a port: it receives no more, and no path leads to it. NULL: there is none. Then call
 * net_interface_end until it returns true, with *cursor 0 at first: each call ends some of its connections (ENETDOWN;
 * peers get a RST), adds their number to *ended, and the last one drops the frames that wait for neighbours. RSTs leave
 * by net_output. Fragments that came in by the interface expire. */
struct net_interface *net_interface_remove(struct net *net, uint16_t port);
bool net_interface_end(struct net *net, struct net_interface *interface, uint32_t *cursor, unsigned *ended);
/* Announces the interfaces' addresses a few times, if options.announce is set. Call it when a link has come up. */
void net_announce(struct net *net);
/* The interface of a port, for net_interface_end without removing it: when all peers behind it are gone, and new ones
 * come. NULL: there is none. */
struct net_interface *net_interface_find(const struct net *net, uint16_t port);
/* For an interface that was never added, or for which net_interface_end has returned true. */
void net_interface_free(struct net_interface *interface);

/* Receives n frames, and owns them. */
void net_input(struct net *net, struct rte_mbuf **frames, unsigned n, uint64_t now_ns);

/* The number of free mbufs, on the reactor of the pool: rte_mempool_avail_count without its loop over all lcores, since
 * only this one has a cache (NULL: none has). */
static inline uint32_t net_mempool_free(const struct rte_mempool *pool, const struct rte_mempool_cache *cache)
{
	return rte_mempool_get_ops(pool->ops_index)->get_count(pool) + (cache ? cache->len : 0);
}

/* Prefetches memory. The pointer may be wrong: prefetching an invalid address does no harm. */
static inline void net_fetch(const void *from, size_t bytes)
{
	for (uintptr_t at = (uintptr_t)from & ~(uintptr_t)(RTE_CACHE_LINE_SIZE - 1); at < (uintptr_t)from + bytes;
	     at += RTE_CACHE_LINE_SIZE)
		rte_prefetch0((const void *)at);
}

/* Sets the time of a turn. net_input and the timers do that too. */
void net_turn(struct net *net, uint64_t now_ns);

/* Returns at most max frames to send, which the caller owns then. Due ACKs are created here, so call it at the end of a
 * turn, until it returns 0. */
unsigned net_output(struct net *net, struct rte_mbuf **frames, unsigned max);

/* The stack's timers; the caller advances them (wheel_advance) with the time of its turn. */
struct wheel *net_wheel(struct net *net);
const struct net_counters *net_counters(const struct net *net);
unsigned net_connections(const struct net *net);

/* The mempool from which the stack allocates. */
struct rte_mempool *net_pool(const struct net *net);

/* Shortage of mbufs when frames last came in: 0 none; 1 less than 1/16 of them was free; 2 less than 1/32. */
unsigned net_pressure(const struct net *net);

/* The time that was last passed to the stack. */
uint64_t net_now_ns(const struct net *net);

/* Which flow a frame belongs to, for steering it to a stack. Does not change the frame. */
enum net_flow_kind {
	NET_FLOW_NEIGHBOUR, /* ARP, neighbour and listener discovery: for every stack */
	NET_FLOW_TCP,
	NET_FLOW_UDP,
	NET_FLOW_ERROR,	   /* an ICMP error; port is the source port of the packet that caused it */
	NET_FLOW_FRAGMENT, /* a fragment: to where the other fragments of its packet go */
	NET_FLOW_OTHER,
};
struct net_flow {
	enum net_flow_kind kind;
	uint16_t port; /* ours, host order */
};
struct net_flow net_flow(const struct rte_mbuf *frame);

/* UDP. Ports are in host order. */
struct net_udp_address {
	struct net_address local, remote; /* for sending, local may be all zeros: the stack chooses it */
	uint16_t local_port, remote_port;
};

/* A datagram has arrived: payload's data, which the callee owns. An answer can be sent to `address` as it is. tos is
 * that of the IP header; its low two bits are ECN's (RFC 3168). */
typedef void net_udp_receive(void *ctx, struct net *net, const struct net_udp_address *address,
			     struct rte_mbuf *payload, uint8_t tos);
int net_udp_bind(struct net *net, uint16_t port, net_udp_receive *receive, void *ctx);
/*
 * Callback for a bound port: an ICMP error quotes a datagram of ours. payload has the first bytes of that datagram's
 * payload, as many as are quoted, perhaps none. refused: nobody listens on the destination port (RFC 1122, 4.1.3.3);
 * otherwise the datagram is too big for the path. Anybody who knows both ports can forge such an error, so return true
 * only if what is quoted is in flight (RFC 8899, 4.6.1). Without this callback no error is believed.
 */
typedef bool net_udp_quoted(void *ctx, struct net *net, const struct net_udp_address *address, const void *payload,
			    uint32_t bytes, bool refused);
void net_udp_watch(struct net *net, uint16_t port, net_udp_quoted *quoted);
/* Prefetching for a bound port. Before the first datagram of a burst is delivered, prefetch is called for each of them,
 * in two passes: in the first it should load what the datagram refers to, in the second what that points to. The
 * datagram has not been checked at all yet. NULL switches it off. */
typedef void net_udp_prefetch_fn(void *ctx, const void *payload, uint32_t bytes, unsigned pass);
void net_udp_prefetch(struct net *net, uint16_t port, net_udp_prefetch_fn *prefetch);
void net_udp_unbind(struct net *net, uint16_t port);
/* Sends a copy of the payload. 0, or -ENOMEM, -EHOSTUNREACH, -EMSGSIZE (it would have to be fragmented). */
int net_udp_send(struct net *net, const struct net_udp_address *address, const void *payload, uint16_t bytes);

/* The route to an address. */
struct net_interface;
struct net_path {
	struct net_interface *interface;
	struct net_address local, remote, next_hop;
	uint16_t mtu; /* of IP packets */
	bool memory;  /* the peer is on the other side of shared memory (memif), see net_path_find */
};

enum { NET_UDP_PLAIN_HEADERS = sizeof(struct rte_ether_hdr) + 20 + 8 /* IPv4, UDP */ };
struct neighbour;

/* For sending many datagrams to one peer. The path is looked up once, and again after any path has changed. */
struct net_udp_flow {
	struct net_path path;
	uint16_t local_port, remote_port;
	uint32_t path_news; /* the stack's path_news when the path was looked up */
	/* Prepared headers (udp_plain.c), without lengths, checksums and the hop's link address. hop NULL: none are
	 * prepared. */
	const struct neighbour *hop;
	uint16_t ip_sum, udp_sum;
	uint8_t headers[NET_UDP_PLAIN_HEADERS];
};
/* Looks the path up. 0, or -EHOSTUNREACH. */ int net_udp_flow_init(struct net *net, struct net_udp_flow *flow,
								    const struct net_udp_address *address);
/* Payload bytes of the largest datagram that, as far as is known, needs no fragmentation on this path. It is at least
 * NET_UDP_PAYLOAD_BASE if the link itself carries that; if the path beyond carries less, datagrams are fragmented. */
uint16_t net_udp_flow_payload(struct net *net, struct net_udp_flow *flow);
/* Sends payload, which must be one segment with NET_UDP_HEADERS bytes of headroom. Owns it. */
void net_udp_flow_send(struct net *net, struct net_udp_flow *flow, struct rte_mbuf *payload, uint8_t tos);

enum {
	NET_UDP_PAYLOAD_BASE = 1200,				     /* RFC 8899, 5.1.2: BASE_PLPMTU */
	NET_UDP_HEADERS = sizeof(struct rte_ether_hdr) + 4 + 40 + 8, /* at most: Ethernet, VLAN, IPv6, UDP */
};

/* An mbuf for a packet to be sent. NULL, and counted, if the pool is empty. */
struct rte_mbuf *net_alloc(struct net *net);
/* The first member of struct net: the pool, and the pool's cache of the thread that called net_input last (NULL: it has
 * none). So freeing an mbuf does not have to look the cache up. */
struct net_memory {
	struct rte_mempool *pool;
	struct rte_mempool_cache *cache;
};
/* Frees an mbuf. Only on the stack's thread, or when that has ended, because the cache has no lock. Fast for what
 * nearly every mbuf is: from the stack's own pool, of one segment, with one reference. */
static inline void net_free(struct net *net, struct rte_mbuf *m)
{
	const struct net_memory *memory = (const struct net_memory *)net;
	void *object = m;

	if (likely(rte_mbuf_refcnt_read(m) == 1 && m->nb_segs == 1 && !m->next && RTE_MBUF_DIRECT(m) &&
		   m->pool == memory->pool))
		rte_mempool_generic_put(memory->pool, &object, 1, memory->cache);
	else
		rte_pktmbuf_free(m);
}
/* How many more frames can be queued before net_output must be called. */
uint32_t net_room(const struct net *net);

#endif
