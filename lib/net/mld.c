/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast listener discovery, version 2 (RFC 3810), for a host that listens to any source. It reports the groups of
 * our addresses at its start, and when a router or switch queries them. Without it, switches with MLD snooping would
 * not forward neighbour solicitations to us.
 */
#include "net/internal.h"

#include "net/siphash.h"

enum {
	REPORT = 143,
	REPORT_BYTES = 8,
	RECORD_BYTES = 20,
	RECORD_IS_EXCLUDE = 2,	    /* MODE_IS_EXCLUDE: we listen to all sources; in an answer */
	RECORD_CHANGES_EXCLUDE = 4, /* CHANGE_TO_EXCLUDE_MODE: the same, unsolicited */
	ALERT_BYTES = 8,
	ROBUSTNESS = 2, /* how often an unsolicited report is sent */
	QUERY_BYTES = 24,
	CODE_PLAIN = 32768,
	DELAY_MAX_MS = 10000,
};

#define NEWS_NS (1000 * NET_MS) /* between unsolicited reports (RFC 3810, 9.11) */

struct query {
	uint8_t type, code;
	rte_be16_t checksum, delay, reserved;
	uint8_t group[16];
} __rte_packed;
_Static_assert(sizeof(struct query) == QUERY_BYTES, "query");

/* A record for the group of each of our addresses. If several addresses have the same group it is repeated, which does
 * no harm. */
static uint16_t put_records(const struct net_interface *interface, uint8_t type, uint8_t *at)
{
	uint16_t count = 0;

	for (unsigned i = 0; i < interface->addresses_count; i++) {
		const struct net_address *own = &interface->addresses[i].address;
		const struct net_address group = net_address_solicited_node(own);

		if (net_address_is_v4(own))
			continue;
		memset(at, 0, RECORD_BYTES);
		at[0] = type;
		memcpy(at + 4, group.bytes, sizeof(group.bytes));
		at += RECORD_BYTES;
		count++;
	}
	return count;
}

static void report_listener(struct net *net, struct net_interface *interface, uint8_t type)
{
	static const struct rte_ether_addr mac = { { 0x33, 0x33, 0, 0, 0, 0x16 } };
	static const uint8_t alert[ALERT_BYTES] = { IPPROTO_ICMPV6, 0, 5, 2, 0, 0, 1, 0 }; /* RFC 2711 */
	const struct net_path path = { .interface = interface,
				       .local = interface->link_local,
				       .remote = { .bytes = { 0xff, 2, [15] = 0x16 } } };
	struct rte_mbuf *m = interface->addresses6_count ? net_alloc(net) : NULL;
	uint8_t *at;
	uint16_t count, bytes, sum;

	if (!m)
		return;
	at = (uint8_t *)rte_pktmbuf_append(m, REPORT_BYTES + (NET_ADDRESSES_MAX + 1) * RECORD_BYTES);
	memset(at, 0, REPORT_BYTES);
	count = put_records(interface, type, at + REPORT_BYTES);
	bytes = REPORT_BYTES + count * RECORD_BYTES;
	rte_pktmbuf_trim(m, (uint16_t)(rte_pktmbuf_data_len(m) - bytes));
	at[0] = REPORT;
	at[7] = (uint8_t)count;
	sum = (uint16_t)~checksum_transport(&path.local, &path.remote, IPPROTO_ICMPV6, at, bytes);
	memcpy(at + 2, &sum, sizeof(sum));
	memcpy(rte_pktmbuf_prepend(m, ALERT_BYTES), alert, ALERT_BYTES);
	net_send_link(net, &path, m, IPPROTO_HOPOPTS, 1, &mac);
}

void mld_timer_fire(struct wheel_timer *timer, uint64_t now_ns)
{
	struct net *net = (struct net *)((char *)timer - offsetof(struct net, mld_timer));
	const bool news = net->mld_news > 0;

	net->now_ns = now_ns;
	for (unsigned i = 0; i < net->interfaces_count; i++)
		report_listener(net, net->interfaces[i], news ? RECORD_CHANGES_EXCLUDE : RECORD_IS_EXCLUDE);
	if (news && --net->mld_news)
		wheel_arm(&net->wheel, timer, now_ns + NEWS_NS);
}

void mld_news(struct net *net)
{
	if (!net->options.mld)
		return;
	net->mld_timer.fire = mld_timer_fire;
	net->mld_news = ROBUSTNESS;
	wheel_arm(&net->wheel, &net->mld_timer, net->now_ns);
}

/* The maximum response delay in milliseconds (RFC 3810, 5.1.3). */
static uint32_t delay_of(uint16_t code)
{
	const uint32_t ms = code < CODE_PLAIN ? code : ((code & 0xfffu) | 0x1000) << ((code >> 12 & 7) + 3);

	return RTE_MIN(ms, (uint32_t)DELAY_MAX_MS);
}

bool mld_query(struct net *net, const struct net_packet *packet, const void *message, uint16_t bytes)
{
	const struct rte_ipv6_hdr *ip = packet->header;
	const struct query *query = message;
	uint64_t delay_ns;

	if (bytes < sizeof(*query) || ip->hop_limits != 1 || !net_address_is_link_local(&packet->from))
		return false;
	if (!net->options.mld || wheel_armed(&net->mld_timer))
		return true; /* an answer is already scheduled */
	/* A random delay, so that the hosts of a link do not answer all at once. The groups of all interfaces are
	 * reported, whichever was queried. */
	delay_ns = (delay_of(rte_be_to_cpu_16(query->delay)) + UINT64_C(1)) * NET_MS;
	wheel_arm(&net->wheel, &net->mld_timer, net->now_ns + siphash(net->options.secret, &net->now_ns, 1) % delay_ns);
	return true;
}
