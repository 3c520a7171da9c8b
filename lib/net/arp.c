/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ARP (RFC 826): a bounded, set-associative table for each interface. An entry is made for an address that was asked for,
 * or for a neighbour that asks for us; anything else only refreshes what is there. Entries age when they are used; only the
 * frames that wait for an answer need a timer.
 */
#include "net/internal.h"

#include "base/hash.h"

enum { ARP_TRIES = 5 };
#define ARP_RETRY_NS (1000 * NET_MS)  /* between two requests for one address */
#define ARP_WAIT_NS (3000 * NET_MS)   /* how long a frame waits for an answer */
#define ARP_FRESH_NS (60000 * NET_MS) /* after which a used entry is asked for again */

static struct arp_entry *arp_find(struct net_interface *interface, rte_be32_t address)
{
	struct arp_entry *set = interface->arp[hash_mix(address) % ARP_SETS];

	for (int i = 0; i < ARP_WAYS; i++)
		if (set[i].address == address)
			return &set[i];
	return NULL;
}

static void drop_pending(struct net *net, struct arp_entry *entry)
{
	net->arp_pending -= entry->pending_count;
	for (int i = 0; i < entry->pending_count; i++)
		NET_DROP(net, entry->pending[i], arp_unresolved);
	entry->pending_count = 0;
}

/* Frames wait a few seconds only: answers to forged addresses would stay for ever. */
static void arm_timer(struct net *net)
{
	if (net->arp_pending && !wheel_armed(&net->arp_timer))
		wheel_arm(&net->wheel, &net->arp_timer, net->now_ns + ARP_WAIT_NS);
}

void arp_timer_fire(struct wheel_timer *timer, uint64_t now_ns)
{
	struct net *net = (struct net *)((char *)timer - offsetof(struct net, arp_timer));

	net->now_ns = now_ns;
	for (unsigned i = 0; i < net->interfaces_count; i++)
		for (unsigned j = 0; j < ARP_SETS * ARP_WAYS; j++) {
			struct arp_entry *entry = &net->interfaces[i].arp[j / ARP_WAYS][j % ARP_WAYS];

			if (entry->pending_count && now_ns - entry->queued_ns >= ARP_WAIT_NS)
				drop_pending(net, entry);
		}
	arm_timer(net);
}

static void queue(struct net *net, struct arp_entry *entry, struct rte_mbuf *frame)
{
	if (entry->pending_count == ARP_PENDING_MAX || net->arp_pending >= net->pool->size / ARP_PENDING_SHARE) {
		NET_DROP(net, frame, arp_unresolved);
		return;
	}
	entry->pending[entry->pending_count++] = frame;
	entry->queued_ns = net->now_ns;
	net->arp_pending++;
	arm_timer(net);
}

/* The entry of an address, made if need be in place of the set's oldest one. */
static struct arp_entry *arp_make(struct net *net, struct net_interface *interface, rte_be32_t address)
{
	struct arp_entry *set = interface->arp[hash_mix(address) % ARP_SETS], *victim = &set[0];
	struct arp_entry *entry = arp_find(interface, address);

	if (entry)
		return entry;
	for (int i = 0; i < ARP_WAYS; i++) {
		if (set[i].address == 0) {
			victim = &set[i];
			break;
		}
		if (set[i].updated_ns < victim->updated_ns)
			victim = &set[i];
	}
	drop_pending(net, victim);
	*victim = (struct arp_entry){ .address = address };
	return victim;
}

static void arp_send(struct net *net, struct net_interface *interface, uint16_t opcode, rte_be32_t from,
		     const struct rte_ether_addr *to_mac, rte_be32_t to)
{
	static const struct rte_ether_addr broadcast = { { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } };
	struct rte_mbuf *frame = net_alloc(net);
	struct rte_ether_hdr *eth;
	struct rte_arp_hdr *arp;

	if (!frame)
		return;
	eth = (struct rte_ether_hdr *)rte_pktmbuf_append(frame, sizeof(*eth) + sizeof(*arp));
	arp = (struct rte_arp_hdr *)(eth + 1);
	eth->dst_addr = to_mac ? *to_mac : broadcast;
	eth->src_addr = interface->options.mac;
	eth->ether_type = RTE_BE16(RTE_ETHER_TYPE_ARP);
	arp->arp_hardware = RTE_BE16(RTE_ARP_HRD_ETHER);
	arp->arp_protocol = RTE_BE16(RTE_ETHER_TYPE_IPV4);
	arp->arp_hlen = RTE_ETHER_ADDR_LEN;
	arp->arp_plen = sizeof(rte_be32_t);
	arp->arp_opcode = rte_cpu_to_be_16(opcode);
	arp->arp_data.arp_sha = interface->options.mac;
	arp->arp_data.arp_sip = from;
	memset(&arp->arp_data.arp_tha, 0, sizeof(arp->arp_data.arp_tha));
	if (to_mac)
		arp->arp_data.arp_tha = *to_mac;
	arp->arp_data.arp_tip = to;
	frame->port = interface->options.port;
	net_transmit(net, frame);
}

static void arp_ask(struct net *net, struct net_interface *interface, struct arp_entry *entry)
{
	const struct net_address to = net_address_v4(entry->address);
	const struct net_interface_address *own = net_on_link(interface, &to);

	entry->asked_ns = net->now_ns;
	entry->tries++;
	net->counters.arp_requests++;
	arp_send(net, interface, RTE_ARP_OP_REQUEST, own ? net_address_to_v4(&own->address) : 0,
		 entry->resolved ? &entry->mac : NULL, entry->address);
}

static void arp_learn(struct net *net, struct arp_entry *entry, const struct rte_ether_addr *mac)
{
	entry->mac = *mac;
	entry->resolved = 1;
	entry->tries = 0;
	entry->updated_ns = net->now_ns;
	for (int i = 0; i < entry->pending_count; i++) {
		rte_pktmbuf_mtod(entry->pending[i], struct rte_ether_hdr *)->dst_addr = *mac;
		net_transmit(net, entry->pending[i]);
	}
	net->arp_pending -= entry->pending_count;
	entry->pending_count = 0;
}

void arp_input(struct net *net, struct net_interface *interface, struct rte_mbuf *frame)
{
	const struct rte_arp_hdr *arp =
		(const struct rte_arp_hdr *)(rte_pktmbuf_mtod(frame, const struct rte_ether_hdr *) + 1);
	const struct rte_arp_ipv4 *data = &arp->arp_data;
	struct net_address from, to;
	struct arp_entry *entry;
	bool for_us;

	if (rte_pktmbuf_data_len(frame) < sizeof(struct rte_ether_hdr) + sizeof(*arp) ||
	    arp->arp_hardware != RTE_BE16(RTE_ARP_HRD_ETHER) || arp->arp_protocol != RTE_BE16(RTE_ETHER_TYPE_IPV4) ||
	    arp->arp_hlen != RTE_ETHER_ADDR_LEN || arp->arp_plen != sizeof(rte_be32_t) ||
	    !rte_is_valid_assigned_ether_addr(&data->arp_sha)) {
		NET_DROP(net, frame, arp_bad);
		return;
	}
	from = net_address_v4(data->arp_sip);
	to = net_address_v4(data->arp_tip);
	if (net_is_own(interface, &from) || !net_on_link(interface, &from)) {
		NET_DROP(net, frame, arp_bad);
		return;
	}
	for_us = net_is_own(interface, &to);
	entry = arp_find(interface, data->arp_sip);
	if (!entry && for_us && arp->arp_opcode == RTE_BE16(RTE_ARP_OP_REQUEST) && data->arp_sip)
		entry = arp_make(net, interface, data->arp_sip); /* who asks for us will be answered by more than ARP */
	if (entry && for_us)
		arp_learn(net, entry, &data->arp_sha);
	if (for_us && arp->arp_opcode == RTE_BE16(RTE_ARP_OP_REQUEST) && !net->options.arp_silent)
		arp_send(net, interface, RTE_ARP_OP_REPLY, data->arp_tip, &data->arp_sha, data->arp_sip);
	rte_pktmbuf_free(frame);
}

const struct rte_ether_addr *arp_resolve(struct net *net, struct net_interface *interface, rte_be32_t address,
					 struct rte_mbuf *frame)
{
	struct arp_entry *entry = arp_find(interface, address);

	if (likely(entry && entry->resolved)) {
		if (likely(net->now_ns - entry->updated_ns < ARP_FRESH_NS))
			return &entry->mac;
		if (entry->tries < ARP_TRIES) {
			if (entry->tries == 0 || net->now_ns - entry->asked_ns >= ARP_RETRY_NS)
				arp_ask(net, interface, entry);
			return &entry->mac;
		}
		entry->resolved = 0; /* five requests unanswered: the neighbour is gone, or has moved */
		entry->tries = 0;
	}
	if (!entry)
		entry = arp_make(net, interface, address);
	queue(net, entry, frame);
	if (entry->tries == 0 || net->now_ns - entry->asked_ns >= ARP_RETRY_NS) {
		if (entry->tries >= ARP_TRIES) {
			drop_pending(net, entry);
			entry->tries = 0;
		}
		arp_ask(net, interface, entry);
	}
	return NULL;
}

void arp_fini(struct net *net, struct net_interface *interface)
{
	for (int i = 0; i < ARP_SETS; i++)
		for (int j = 0; j < ARP_WAYS; j++)
			drop_pending(net, &interface->arp[i][j]);
}
