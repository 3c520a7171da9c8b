/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Path MTUs reported by routers (RFC 1191, RFC 8201): a bounded table by destination. Whoever sent the packet in
 * question has checked the report. An entry is dropped after ten minutes, in case the path's MTU has grown.
 */
#include "net/internal.h"

#include "base/hash.h"

#define KEPT_NS (600 * 1000 * NET_MS) /* RFC 8201, 4: not less than 5 minutes, 10 recommended */

static struct pmtu_entry *find_set(struct net *net, const struct net_address *to)
{
	const uint64_t hash = hash_mix(to->halves[1] ^ hash_mix(to->halves[0] ^ net->options.secret[0]));

	return net->pmtus[hash % PMTU_SETS];
}

uint16_t net_path_mtu(struct net *net, const struct net_path *path)
{
	const struct pmtu_entry *set = find_set(net, &path->remote);
	const uint16_t mtu = path->interface->options.mtu;

	for (int i = 0; i < PMTU_WAYS; i++)
		if (net->now_ns < set[i].until_ns && net_address_equal(&set[i].to, &path->remote))
			return RTE_MIN(mtu, set[i].mtu);
	return mtu;
}

void net_pmtu_learn(struct net *net, const struct net_address *to, uint16_t mtu)
{
	struct pmtu_entry *set = find_set(net, to), *entry = &set[0];

	for (int i = 0; i < PMTU_WAYS; i++) {
		if (net_address_equal(&set[i].to, to)) {
			entry = &set[i];
			if (net->now_ns < entry->until_ns && entry->mtu <= mtu)
				return; /* a report never increases the MTU (RFC 8201, 4) */
			break;
		}
		if (set[i].until_ns < entry->until_ns)
			entry = &set[i];
	}
	net->counters.pmtu_updates++;
	net->path_news++;
	*entry = (struct pmtu_entry){ .to = *to, .mtu = mtu, .until_ns = net->now_ns + KEPT_NS };
}
