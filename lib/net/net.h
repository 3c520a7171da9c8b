/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network stack over mbufs: Ethernet and VLANs, ARP and neighbour discovery, IPv4 and IPv6, ICMP, UDP and TCP. It
 * knows neither NICs nor reactors: frames come in by net_input, go out by net_output, and time is what it is handed.
 * One stack belongs to one thread; nothing is shared between stacks. It allocates at creation only.
 *
 * What is refused is dropped, freed and counted under a reason of NET_COUNTERS.
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

/* X(name, its name for people, what it counts): the kernel's name, as nstat prints it, where there is one. F: the same,
 * of what went wrong: `errors` of a node's status. */
#define NET_COUNTERS(X, F) \
	X(in_frames, "NetInFrames", "frames received") \
	X(out_frames, "NetOutFrames", "frames sent") \
	F(out_no_mbuf, "NetOutNoBuffer", "not sent: no mbuf left") \
	F(out_queue_full, "NetOutQueueFull", "not sent: the output queue was full") \
	F(eth_short, "NetEthShort", "dropped: shorter than its headers") \
	X(eth_not_mine, "NetEthNotMine", "dropped: another station's address") \
	X(eth_unknown_type, "NetEthUnknownType", "dropped: neither IPv4 nor IPv6 nor ARP") \
	X(eth_other_vlan, "NetEthOtherVlan", "dropped: of a VLAN that is not ours, or of a port that was removed") \
	X(arp_bad, "NetArpBad", "dropped: malformed ARP") \
	X(nd_bad, "NetNdBad", "dropped: malformed neighbour discovery, or from beyond the link") \
	X(neighbour_solicits, "NetNeighbourSolicits", "questions for a neighbour's link address sent") \
	X(neighbour_unresolved, "NetNeighbourUnresolved", "dropped: no answer with the neighbour's link address") \
	X(neighbour_limited, "NetNeighbourLimited", "dropped: too many neighbours to ask for at once") \
	X(neighbour_conflicts, "NetNeighbourConflicts", \
	  "claims that a neighbour's link address has changed: verified first") \
	F(address_conflicts, "NetAddressConflicts", "another station claims one of our addresses") \
	F(ip_bad_header, "IpInHdrErrors", "dropped: malformed IP header") \
	F(ip_bad_checksum, "IpExtInCsumErrors", "dropped: IPv4 header checksum") \
	X(ip_not_mine, "IpInAddrErrors", "dropped: another host's IP address") \
	X(ip_bad_source, "NetIpBadSource", "dropped: from an address that no host has, or from our own") \
	F(ip_bad_extension, "NetIp6BadExtension", "dropped: IPv6 extension headers malformed, or refused") \
	X(ip_reasm_reqds, "IpReasmReqds", "fragments received") \
	X(ip_reasm_oks, "IpReasmOKs", "packets put together") \
	F(ip_reasm_fails, "IpReasmFails", "fragments dropped: malformed, overlapping, too many, or too late") \
	X(ip_reasm_timeouts, "IpReasmTimeout", "of these, too late") \
	X(ip_frag_creates, "IpFragCreates", "fragments sent") \
	X(ip_unknown_protocol, "IpInUnknownProtos", "dropped: protocol other than ICMP, UDP and TCP") \
	X(ip_no_route, "IpOutNoRoutes", "not sent: no route") \
	X(icmp_echos, "IcmpOutEchoReps", "echo requests answered") \
	X(icmp_bad, "IcmpInErrors", "dropped: ICMP length or checksum") \
	X(icmp_in_errors, "NetIcmpErrorsIn", "ICMP errors about what we had just sent") \
	X(icmp_ignored, "NetIcmpIgnored", "ICMP messages of other kinds, and errors about nothing of ours") \
	X(icmp_out_errors, "NetIcmpErrorsOut", "ICMP errors sent") \
	X(icmp_limited, "IcmpOutRateLimitGlobal", "ICMP errors not sent: too many") \
	X(pmtu_updates, "NetPmtuUpdates", "path MTUs learnt") \
	X(pmtu_refused, "NetPmtuRefused", "path MTUs not believed: too small, or too large to be a reason") \
	X(udp_in, "UdpInDatagrams", "datagrams delivered") \
	X(udp_out, "UdpOutDatagrams", "datagrams sent") \
	X(udp_bad, "UdpInErrors", "dropped: UDP length or checksum") \
	X(udp_no_port, "UdpNoPorts", "dropped: no such UDP port") \
	X(tcp_in, "TcpInSegs", "TCP segments received") \
	X(tcp_out, "TcpOutSegs", "TCP segments sent") \
	X(tcp_cut, "NetTcpOutCut", "of these, left to the port to cut from a larger frame") \
	F(tcp_bad_checksum, "TcpInCsumErrors", "dropped: TCP checksum") \
	F(tcp_bad_header, "TcpInErrs", "dropped: TCP header length") \
	F(tcp_bad_option, "NetTcpBadOption", "dropped: malformed TCP options") \
	F(tcp_no_port, "NetTcpNoPort", "segments to a closed port, answered by RST") \
	X(tcp_no_flags, "NetTcpNoFlags", "dropped: to a port where we listen, without SYN, ACK or RST") \
	F(tcp_listen_overflow, "TcpExtListenOverflows", "SYNs dropped: no free connection or too many half open") \
	X(tcp_passive_opens, "TcpPassiveOpens", "connections accepted") \
	X(tcp_active_opens, "TcpActiveOpens", "connections opened") \
	X(tcp_attempt_fails, "TcpAttemptFails", "connections that never were established") \
	F(tcp_estab_resets, "TcpEstabResets", "established connections reset by the peer") \
	X(tcp_out_rsts, "TcpOutRsts", "RSTs sent") \
	F(tcp_timeouts, "TcpExtTCPAbortOnTimeout", "established connections given up") \
	X(tcp_rtos, "TcpExtTCPTimeouts", "retransmission timeouts") \
	F(tcp_retrans_segs, "TcpRetransSegs", "segments retransmitted") \
	X(tcp_fast_retrans, "NetTcpFastRecoveries", "fast recoveries begun") \
	X(tcp_loss_probes, "TcpExtTCPLossProbes", "tail-loss probes sent (RFC 8985)") \
	X(tcp_loss_probe_recoveries, "TcpExtTCPLossProbeRecovery", "losses that such a probe repaired") \
	X(tcp_timeout_undos, "TcpExtTCPSpuriousRTOs", "timeouts found to be mistakes, and undone") \
	X(tcp_recovery_undos, "NetTcpRecoveryUndos", "fast recoveries found to be mistakes, and undone") \
	X(tcp_dsacks_in, "TcpExtTCPDSACKRecv", "duplicates that peers have reported (RFC 2883)") \
	X(tcp_sack_steps, "NetTcpSackSteps", "segments looked at for SACK blocks") \
	X(tcp_sack_reneged, "TcpExtTCPSACKReneging", "peers that took back what they had SACKed") \
	X(tcp_ecn_reductions, "NetTcpEcnReductions", "windows reduced for a congestion mark") \
	X(tcp_mtu_fails, "TcpExtTCPMTUPFail", "segment sizes lowered because large segments vanish (RFC 4821)") \
	X(tcp_zero_window_probes, "TcpExtTCPWinProbe", "probes of a closed window") \
	X(tcp_out_of_order, "TcpExtTCPOFOQueue", "segments queued out of order") \
	F(tcp_out_of_order_dropped, "TcpExtTCPOFODrop", "out-of-order segments dropped: over the budget") \
	X(tcp_old_segs, "NetTcpOldSegs", "segments that had been received before") \
	F(tcp_outside_window, "NetTcpOutsideWindow", "dropped: outside the receive window") \
	X(tcp_challenge_acks, "TcpExtTCPChallengeACK", "challenge ACKs sent (RFC 5961)") \
	X(tcp_delayed_acks, "TcpExtDelayedACKs", "ACKs sent by the delayed-ACK timer") \
	X(tcp_time_wait_reused, "TcpExtTWRecycled", "TIME_WAIT connections given up for a new one") \
	F(tcp_idle_closed, "NetTcpIdleClosed", "idle connections closed for a new one: the table was full") \
	F(tcp_listen_drops, "TcpExtListenDrops", "SYNs dropped: mbufs were short, or it was a FIN, too") \
	F(tcp_cookies_sent, "TcpExtSyncookiesSent", "SYNs answered by a cookie: too many half open") \
	X(tcp_cookies_received, "TcpExtSyncookiesRecv", "connections opened by a cookie that came back") \
	F(tcp_cookies_failed, "TcpExtSyncookiesFailed", "ACKs whose cookie was none of ours, or too old") \
	F(tcp_paws, "TcpExtPAWSEstab", "dropped: an old timestamp (RFC 7323, PAWS)") \
	X(tcp_paws_old_acks, "TcpExtPAWSOldAck", "ACKs that a newer segment overtook: dropped") \
	X(tcp_paws_active, "TcpExtPAWSActive", "answers to our SYN refused: they echo no timestamp of ours") \
	X(tcp_no_timestamp, "NetTcpNoTimestamp", "dropped: without the timestamp that was agreed on (RFC 7323, 3.2)") \
	X(tcp_acks_skipped, "NetTcpAcksSkipped", "answers to unacceptable segments that were not sent: too many") \
	X(tcp_dsack_old_sent, "TcpExtTCPDSACKOldSent", "duplicates reported: received before (RFC 2883)") \
	X(tcp_dsack_ofo_sent, "TcpExtTCPDSACKOfoSent", "duplicates reported: received out of order before (RFC 2883)") \
	X(tcp_keepalives, "TcpExtTCPKeepAlive", "keepalive probes sent") \
	X(tcp_abort_on_data, "TcpExtTCPAbortOnData", "connections reset: data came that nobody would read") \
	X(tcp_window_tight, "NetTcpWindowTight", "windows held small: unread data over its budget, or mbufs short") \
	X(tcp_ce_segs, "NetTcpCeSegs", "segments received with a congestion mark (RFC 3168)") \
	X(tcp_icmp_stale, "TcpExtOutOfWindowIcmps", "ICMP errors ignored: about no segment in flight") \
	X(tcp_urgent, "NetTcpUrgent", "segments with urgent data, taken as any other")

struct net_counters {
#define X(name, kernel, text) uint64_t name;
	NET_COUNTERS(X, X)
#undef X
};

struct net_interface_options {
	uint16_t port;	       /* DPDK's id: frames come in and go out with mbuf->port set to it */
	uint16_t mtu;	       /* of IP packets; with IPv6 at least 1280 */
	uint16_t vlan;	       /* 802.1Q id of all its frames; 0: untagged */
	uint32_t offloads;     /* enum offload: what the port does, asked by the mbuf's flags as DPDK defines them */
	uint16_t tso_bytes;    /* with OFFLOAD_TX_TSO: of the longest frame that the port cuts, */
	uint16_t tso_segments; /* and the most mbufs of its chain */
	struct rte_ether_addr mac;
	unsigned addresses_count;
	struct net_interface_address {
		struct net_address address;
		unsigned prefix; /* up to 32 or 128 */
	} addresses[NET_ADDRESSES_MAX];
	struct net_address gateway4, gateway6; /* none: all zero */
};

/* NICs refuse to cut into segments of less (i40e, iavf: 256) or more (igb: 9216): those leave one by one. */
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
	NET_ECN_ASK, /* and our own SYNs ask */
};

enum net_congestion { NET_CUBIC, NET_NEWRENO, NET_DCTCP };

struct net_options {
	struct rte_mempool *pool; /* all mbufs that the stack makes; private area of NET_PRIV_BYTES */
	struct net_interface_options interfaces[NET_INTERFACES_MAX];
	unsigned interfaces_count;
	/* learns from ARP and ND, but leaves the answers to another stack with the same addresses */
	bool neighbours_silent;
	bool announce; /* tells neighbours at once whose its addresses are, unasked; one stack of an interface */
	bool mld;      /* tells switches and routers of its IPv6 groups (RFC 3810); one stack of an interface */
	uint32_t reassembly_mbufs_max; /* fragments that wait for others; 0: 1/32 of the pool */
	/* A packet was put together from fragments, and made a frame again: true takes it, for another stack (steering
	 * sends all fragments to one, because only the first shows a port). NULL: all are ours. */
	bool (*reassembled)(void *ctx, struct rte_mbuf *frame);
	void *reassembled_ctx;
	/* TCP. What is 0 has the value that stands behind. */
	uint32_t connections_max;
	uint32_t half_open_max;		/* from there on SYNs are answered by cookies; 1/4 of the connections */
	bool cookies_always;		/* every SYN is answered by a cookie */
	uint32_t receive_window_bytes;	/* a connection's most unread and out-of-order bytes */
	uint32_t receive_initial_bytes; /* the same before its reader has taken much; 64 KiB */
	/* by which the windows of all connections may have grown together; half of the pool */
	uint64_t receive_grown_bytes;
	uint64_t unread_bytes;	    /* of all connections: beyond, windows are held small; half of the pool */
	uint32_t reorder_mbufs_max; /* out-of-order segments of all connections; 1/4 of the pool */
	uint32_t without;	    /* enum net_without: what is neither offered nor accepted */
	uint32_t ecn;		    /* enum net_ecn */
	uint32_t fin_wait_ms;	    /* in FIN_WAIT_2, once the user has closed; user_timeout_ms */
	uint32_t idle_ms;	    /* a connection without data for so long may be closed for a new one; 300 s */
	uint32_t keepalive_idle_s, keepalive_interval_s,
		keepalive_probes; /* of new connections; no keepalive, 75 s, 9 */
	uint32_t rto_min_us, rto_max_us;
	uint32_t congestion;	/* enum net_congestion, of new connections; CUBIC */
	bool idle_keeps_window; /* a congestion window does not decay while nothing is sent */
	uint32_t delayed_ack_us;
	uint32_t time_wait_ms;
	/* unacknowledged data for that long ends a connection, unless its user says otherwise */
	uint32_t user_timeout_ms;
	uint64_t secret[2];	/* random, and no other stack's: numbers that a peer sees are made with it */
	uint32_t stack, stacks; /* which one of how many with the same addresses this is; 0 of 0: it is alone */
	uint64_t now_ns;
};

struct net;

struct net *net_create(const struct net_options *options, struct star_error *err);
/* Connections end without a word to their peers or handlers. */
void net_destroy(struct net *net);

/*
 * Interfaces of a running stack. They are made and freed on any thread (a table of neighbours takes 256 KiB), and used
 * by the stack's own. net_interface_create checks the options against those of the stack: -EADDRINUSE when an address
 * is another interface's; -ENOSPC when there are NET_INTERFACES_MAX.
 */
struct net_interface;
struct net_interface *net_interface_create(const struct net *net, const struct net_interface_options *options,
					   struct star_error *err);
void net_interface_add(struct net *net, struct net_interface *interface);
/* Takes the interface of a port away: it receives no more, and no path leads there. NULL: there is none. Then
 * net_interface_end, again and again until it returns true: each call ends some of its connections (ENETDOWN; their
 * peers hear of it by RST), and the last drops the frames that wait for its neighbours. RSTs leave by net_output.
 * Fragments that have come by it expire. */
struct net_interface *net_interface_remove(struct net *net, uint16_t port);
bool net_interface_end(struct net *net, struct net_interface *interface, uint32_t *cursor, unsigned *ended);
/* Tells neighbours some times whose the interfaces' addresses are, with options.announce: when a link has come up. */
void net_announce(struct net *net);
/* That of a port, to be ended without being taken away: all that lived behind it is gone, and others come. NULL:
 * none. */
struct net_interface *net_interface_find(const struct net *net, uint16_t port);
/* Of one that was never added, or has ended. */
void net_interface_free(struct net_interface *interface);

/* Takes n frames, and owns them. */
void net_input(struct net *net, struct rte_mbuf **frames, unsigned n, uint64_t now_ns);

/* Starts loading n bytes, of which nothing may be true: a pointer to nowhere does no harm. */
static inline void net_fetch(const void *from, size_t bytes)
{
	for (uintptr_t at = (uintptr_t)from & ~(uintptr_t)(RTE_CACHE_LINE_SIZE - 1); at < (uintptr_t)from + bytes;
	     at += RTE_CACHE_LINE_SIZE)
		rte_prefetch0((const void *)at);
}

/* Sets the time of a turn, which net_input and the timers do too. */
void net_turn(struct net *net, uint64_t now_ns);

/* Hands out at most max frames to send; the caller owns them. Due ACKs are made here: call it last in a turn, until it
 * returns 0. */
unsigned net_output(struct net *net, struct rte_mbuf **frames, unsigned max);

/* The stack's timers; the caller advances them (wheel_advance) with the time of its turn. */
struct wheel *net_wheel(struct net *net);
const struct net_counters *net_counters(const struct net *net);
unsigned net_connections(const struct net *net);

/* The mempool of what the stack makes. */
struct rte_mempool *net_pool(const struct net *net);

/* How short its mbufs were when frames came in last: 0 not, 1 under 1/16 of them was free, 2 under 1/32. */
unsigned net_pressure(const struct net *net);

/* The time that the stack was handed last. */
uint64_t net_now_ns(const struct net *net);

/* Where a frame is headed: for steering. Reads it only. */
enum net_flow_kind {
	NET_FLOW_NEIGHBOUR, /* ARP, neighbour and listener discovery: every stack hears it */
	NET_FLOW_TCP,
	NET_FLOW_UDP,
	NET_FLOW_ERROR,	   /* an ICMP error; port is the one that its cause came from */
	NET_FLOW_FRAGMENT, /* belongs with the others of its packet */
	NET_FLOW_OTHER,
};
struct net_flow {
	enum net_flow_kind kind;
	uint16_t port; /* ours, host order */
};
struct net_flow net_flow(const struct rte_mbuf *frame);

/* UDP. Ports are in host order. */
struct net_udp_address {
	struct net_address local, remote; /* to send, local may be none: the one that fits */
	uint16_t local_port, remote_port;
};

/* payload's data is the datagram's; the callee owns it. address is where an answer goes from and to; tos as the IP
 * header had it: its low two bits are ECN's (RFC 3168). */
typedef void net_udp_receive(void *ctx, struct net *net, const struct net_udp_address *address,
			     struct rte_mbuf *payload, uint8_t tos);
int net_udp_bind(struct net *net, uint16_t port, net_udp_receive *receive, void *ctx);
/*
 * For a port that is bound: an ICMP error quotes a datagram of ours, of whose payload these are the first bytes, as
 * many as it quotes: perhaps none. refused: it says that nobody has the port that it went to (RFC 1122, 4.1.3.3); else
 * that it is too big for the path. Anybody can forge it who knows both ports: true only when what is quoted is in
 * flight (RFC 8899, 4.6.1). Without a watcher no error is believed.
 */
typedef bool net_udp_quoted(void *ctx, struct net *net, const struct net_udp_address *address, const void *payload,
			    uint32_t bytes, bool refused);
void net_udp_watch(struct net *net, uint16_t port, net_udp_quoted *quoted);
/* For a port that is bound, where what the datagrams of a burst need lies all over the memory: before the first of them
 * is received, prefetch is called for each, in two passes, and starts loading it: in the first pass what a datagram
 * names, in the second what that points to. Nothing of a datagram is checked yet. NULL: no more. */
typedef void net_udp_prefetch_fn(void *ctx, const void *payload, uint32_t bytes, unsigned pass);
void net_udp_prefetch(struct net *net, uint16_t port, net_udp_prefetch_fn *prefetch);
void net_udp_unbind(struct net *net, uint16_t port);
/* 0, or -ENOMEM, -EHOSTUNREACH, -EMSGSIZE (it would have to be fragmented). */
int net_udp_send(struct net *net, const struct net_udp_address *address, const void *payload, uint16_t bytes);

/* Where packets to an address go. */
struct net_interface;
struct net_path {
	struct net_interface *interface;
	struct net_address local, remote, next_hop;
	uint16_t mtu; /* of IP packets */
	bool memory;  /* the peer is the other end of a shared memory (net_path_find) */
};

enum { NET_UDP_PLAIN_HEADERS = sizeof(struct rte_ether_hdr) + 20 + 8 /* IPv4, UDP */ };
struct neighbour;

/* Datagrams to one peer, many of them: the path is looked up once, and again when there is news of one. */
struct net_udp_flow {
	struct net_path path;
	uint16_t local_port, remote_port;
	uint32_t path_news; /* of the stack, when the path was looked up */
	/* Headers made ahead (udp_plain.c), but for lengths, sums and the hop's link address. hop NULL: there are
	 * none. */
	const struct neighbour *hop;
	uint16_t ip_sum, udp_sum;
	uint8_t headers[NET_UDP_PLAIN_HEADERS];
};
/* 0, or -EHOSTUNREACH. */
int net_udp_flow_init(struct net *net, struct net_udp_flow *flow, const struct net_udp_address *address);
/* Bytes of a datagram that the path carries whole, as far as is known now; a larger one goes in fragments. Where the
 * link carries NET_UDP_PAYLOAD_BASE bytes it is never less: what is said of the path beyond is then met by
 * fragments. */
uint16_t net_udp_flow_payload(struct net *net, struct net_udp_flow *flow);
/* payload's data is the datagram's, in one segment, with room before it for the headers (NET_UDP_HEADERS). Owns it. */
void net_udp_flow_send(struct net *net, struct net_udp_flow *flow, struct rte_mbuf *payload, uint8_t tos);

enum {
	NET_UDP_PAYLOAD_BASE = 1200,				     /* RFC 8899, 5.1.2: BASE_PLPMTU */
	NET_UDP_HEADERS = sizeof(struct rte_ether_hdr) + 4 + 40 + 8, /* at most: Ethernet, VLAN, IPv6, UDP */
};

/* An mbuf for a packet to be sent; NULL, and counted, when the pool is empty. */
struct rte_mbuf *net_alloc(struct net *net);
/* What a stack begins with: its mbufs, and the cache of them of the thread whose turn it is, which net_input looks up;
 * NULL: none. So that mbufs come and go without a look at whose cache it is. */
struct net_memory {
	struct rte_mempool *pool;
	struct rte_mempool_cache *cache;
};
/* On the stack's thread, or when that has ended: the cache has no lock. What nearly every mbuf is that a session or a
 * connection frees: one of the stack's, of one segment, that nobody else holds. */
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
/* Frames that can be sent still before net_output must take some. */
uint32_t net_room(const struct net *net);

#endif
