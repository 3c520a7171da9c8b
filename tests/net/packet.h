/* SPDX-License-Identifier: BSD-3-Clause */
/* Hand-written packets of either family, given to side 0 of the link, and what side 0 sends. */
#ifndef TESTS_NET_PACKET_H
#define TESTS_NET_PACKET_H

#include "tests/net/link.h"

enum { PACKET_ETHERNET = 14, PACKETS_SENT_MAX = 64 };

struct packet {
	uint8_t bytes[9200];
	unsigned length;
	unsigned named; /* where the next header's number goes */
	unsigned upper; /* where the upper layer begins; 0: not yet */
	uint8_t protocol;
	struct net_address from, to;
};

/* Ethernet and IP headers, from side 1's station to side 0's (or to the group of a multicast address). */
void packet_begin(struct packet *p, const struct net_address *from, const struct net_address *to);
/* Appends bytes (NULL: zeros); where they are. */
uint8_t *packet_append(struct packet *p, const void *bytes, unsigned n);
/* Appends an IPv6 extension header: its first two bytes are filled in, body follows; together a multiple of 8. */
uint8_t *packet_extension(struct packet *p, uint8_t type, const void *body, unsigned n);
/* From here on it is the upper layer. */
void packet_upper(struct packet *p, uint8_t protocol);
/* Sets lengths and checksums. */
void packet_end(struct packet *p);
/* Checksums of a packet whose bytes were changed, lengths left as they are. */
void packet_mend(struct packet *p);
void packet_give(const struct packet *p);

/* Whole packets. */
void packet_udp(struct packet *p, const struct net_address *from, const struct net_address *to, uint16_t from_port,
		uint16_t to_port, unsigned payload);
void packet_tcp(struct packet *p, const struct net_address *from, const struct net_address *to, uint16_t from_port,
		uint16_t to_port, uint8_t flags, uint32_t seq);
/* ICMP or ICMPv6, by the addresses' family. word: the header's second half. */
void packet_icmp(struct packet *p, const struct net_address *from, const struct net_address *to, uint8_t type,
		 uint8_t code, uint32_t word, const void *body, unsigned n);
/* Cuts a packet into fragments of n bytes of payload (a multiple of 8). cut makes the i-th; false when there is
 * none. */
bool packet_cut(const struct packet *whole, unsigned step, unsigned i, uint32_t id, struct packet *fragment);

/* The packets that side 0 has sent, and that went nowhere. */
struct packets_sent {
	unsigned count;
	struct {
		uint8_t bytes[2048];
		unsigned length;
		uint64_t flags;
		uint16_t vlan_tci;
	} sent[PACKETS_SENT_MAX];
};

extern struct packets_sent packets_sent;
/* What arrived at port 53 of side 0. */
extern unsigned packets_received;
extern struct net_udp_address packets_received_by;
extern uint8_t packets_received_bytes[9200];

/* A link of which only side 0 is of interest: it hears datagrams at port 53, and what it sends is caught. options: its
 * own, of an earlier link (NULL: the usual ones). */
void packets_alone(uint64_t seed, const struct net_options *options);
#define COUNTER(name) (net_counters(net_link.net[0])->name)
/* Lets side 0 send what it has, and forget what it sent before. */
void packets_turn(void);
/* This many milliseconds pass; what is sent meanwhile is kept with the rest. */
void packets_pass(unsigned ms);
/* Side 0 knows side 1's addresses, as after an exchange with it; and is answered whenever it asks for them. */
void packets_introduce(void);
extern bool packets_answer;
/* Neighbour discovery, as it must be; flags: of an advertisement (0x40 solicited, 0x20 override). */
void packet_solicitation(struct packet *p, const struct net_address *from, const struct net_address *to,
			 const struct net_address *target, const struct rte_ether_addr *mac);
void packet_advertisement(struct packet *p, const struct net_address *from, const struct net_address *to,
			  const struct net_address *target, uint8_t flags, const struct rte_ether_addr *mac);
void packet_arp(struct packet *p, uint16_t opcode, rte_be32_t from, const struct rte_ether_addr *mac, rte_be32_t to);
/* The IP header's, of the i-th packet sent. */
const uint8_t *packets_ip(unsigned i);
/* The i-th packet's protocol and upper layer (without IPv6 extension headers). */
uint8_t packets_protocol(unsigned i);
const uint8_t *packets_upper(unsigned i);
/* How many IP packets of a protocol were sent, neighbour discovery apart; *last is the last one's place. */
unsigned packets_count(uint8_t protocol, unsigned *last);
/* The same of ARP and neighbour discovery. */
unsigned packets_questions(unsigned *last);

#endif
