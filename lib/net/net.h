/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network stack over mbufs: Ethernet, ARP, IPv4, ICMP echo, UDP and TCP. It knows neither NICs nor reactors: frames come in
 * by net_input, go out by net_output, and time is what it is handed. One stack belongs to one thread; nothing is shared
 * between stacks. It allocates at creation only.
 *
 * What is refused is dropped, freed and counted under a reason of NET_COUNTERS.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include <rte_ether.h>
#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/wheel.h"
#include "net/address.h"
#include "star_error.h"

enum net_limits {
	NET_INTERFACES_MAX = 8,
	NET_ADDRESSES_MAX = 8, /* of an interface */
	NET_PRIV_BYTES = 64,   /* private area that each mbuf of the pool must have */
	NET_OUTPUT_MAX = 1024, /* frames waiting for net_output */
	NET_LISTENERS_MAX = 16,
	NET_UDP_PORTS_MAX = 16,
};

/* X(name, what it counts). Names follow the kernel's (nstat) where there is one. */
#define NET_COUNTERS(X) \
	X(in_frames, "frames received") \
	X(out_frames, "frames sent") \
	X(out_no_mbuf, "not sent: no mbuf left") \
	X(out_queue_full, "not sent: the output queue was full") \
	X(eth_short, "dropped: shorter than its headers") \
	X(eth_not_mine, "dropped: another station's address") \
	X(eth_unknown_type, "dropped: neither IPv4 nor ARP") \
	X(arp_bad, "dropped: malformed ARP") \
	X(arp_unresolved, "dropped: no answer to ARP") \
	X(arp_requests, "ARP requests sent") \
	X(ip_bad_header, "dropped: malformed IPv4 header") \
	X(ip_bad_checksum, "dropped: IPv4 header checksum") \
	X(ip_not_mine, "dropped: another host's IPv4 address") \
	X(ip_bad_source, "dropped: from an address that no host has, or from our own") \
	X(ip_fragment, "dropped: a fragment") \
	X(ip_unknown_protocol, "dropped: protocol other than ICMP, UDP and TCP") \
	X(ip_no_route, "not sent: no route") \
	X(icmp_echos, "echo requests answered") \
	X(icmp_ignored, "ICMP messages of other kinds, or damaged") \
	X(udp_in, "datagrams delivered") \
	X(udp_out, "datagrams sent") \
	X(udp_bad, "dropped: UDP length or checksum") \
	X(udp_no_port, "dropped: no such UDP port") \
	X(tcp_in, "TCP segments received") \
	X(tcp_out, "TCP segments sent") \
	X(tcp_bad_checksum, "dropped: TCP checksum") \
	X(tcp_bad_header, "dropped: TCP header length") \
	X(tcp_bad_option, "dropped: malformed TCP options") \
	X(tcp_no_port, "segments to a closed port, answered by RST") \
	X(tcp_listen_overflow, "SYNs dropped: no free connection or too many half open") \
	X(tcp_passive_opens, "connections accepted") \
	X(tcp_active_opens, "connections opened") \
	X(tcp_attempt_fails, "connections that never were established") \
	X(tcp_estab_resets, "established connections reset by the peer") \
	X(tcp_out_rsts, "RSTs sent") \
	X(tcp_timeouts, "established connections given up") \
	X(tcp_rtos, "retransmission timeouts") \
	X(tcp_retrans_segs, "segments retransmitted") \
	X(tcp_fast_retrans, "fast retransmissions") \
	X(tcp_zero_window_probes, "probes of a closed window") \
	X(tcp_out_of_order, "segments queued out of order") \
	X(tcp_out_of_order_dropped, "out-of-order segments dropped: over the budget") \
	X(tcp_old_segs, "segments that had been received before") \
	X(tcp_outside_window, "dropped: outside the receive window") \
	X(tcp_challenge_acks, "challenge ACKs sent (RFC 5961)") \
	X(tcp_delayed_acks, "ACKs sent by the delayed-ACK timer") \
	X(tcp_time_wait_reused, "TIME_WAIT connections given up for a new one")

struct net_counters {
#define X(name, text) uint64_t name;
	NET_COUNTERS(X)
#undef X
};

struct net_interface_options {
	uint16_t port; /* DPDK's id: frames come in and go out with mbuf->port set to it */
	uint16_t mtu;
	struct rte_ether_addr mac;
	unsigned addresses_count;
	struct net_interface_address {
		struct net_address address;
		unsigned prefix; /* up to 32 or 128 */
	} addresses[NET_ADDRESSES_MAX];
	struct net_address gateway4, gateway6; /* none: all zero */
};

struct net_options {
	struct rte_mempool *pool; /* all mbufs that the stack makes; private area of NET_PRIV_BYTES */
	struct net_interface_options interfaces[NET_INTERFACES_MAX];
	unsigned interfaces_count;
	bool arp_silent; /* learns from ARP, but leaves the answers to another stack with the same address */
	uint32_t connections_max;
	uint32_t receive_window_bytes; /* a connection's most unread and out-of-order bytes */
	uint32_t reorder_mbufs_max;    /* out-of-order segments of all connections; 0: a quarter of the pool */
	uint32_t rto_min_us, rto_max_us;
	uint32_t delayed_ack_us;
	uint32_t time_wait_ms;
	uint32_t user_timeout_ms; /* unacknowledged data for that long ends a connection */
	uint64_t secret[2];	  /* random */
	uint64_t now_ns;
};

struct net;

struct net *net_create(const struct net_options *options, struct star_error *err);
/* Connections end without a word to their peers or handlers. */
void net_destroy(struct net *net);

/* Takes n frames, and owns them. */
void net_input(struct net *net, struct rte_mbuf **frames, unsigned n, uint64_t now_ns);

/* Sets the time of a turn, which net_input and the timers do too. */
void net_turn(struct net *net, uint64_t now_ns);

/* Hands out at most max frames to send; the caller owns them. Due ACKs are made here: call it last in a turn, until it
 * returns 0. */
unsigned net_output(struct net *net, struct rte_mbuf **frames, unsigned max);

/* The stack's timers; the caller advances them (wheel_advance) with the time of its turn. */
struct wheel *net_wheel(struct net *net);
const struct net_counters *net_counters(const struct net *net);
unsigned net_connections(const struct net *net);

/* The time that the stack was handed last. */
uint64_t net_now_ns(const struct net *net);

/* Where a frame is headed: for steering. Reads it only. */
enum net_flow_kind { NET_FLOW_ARP, NET_FLOW_TCP, NET_FLOW_UDP, NET_FLOW_OTHER };
struct net_flow {
	enum net_flow_kind kind;
	uint16_t port; /* destination, host order */
};
struct net_flow net_flow(const struct rte_mbuf *frame);

/* UDP. payload is the callee's to read during the call; addresses and ports are the peer's. */
typedef void net_udp_receive(void *ctx, struct net *net, const struct net_address *address, rte_be16_t port,
			     const void *payload, uint16_t bytes);
int net_udp_bind(struct net *net, uint16_t port, net_udp_receive *receive, void *ctx);
/* 0, or -ENOMEM, -EHOSTUNREACH, -EMSGSIZE. */
int net_udp_send(struct net *net, uint16_t from_port, const struct net_address *address, rte_be16_t port,
		 const void *payload, uint16_t bytes);

#endif
