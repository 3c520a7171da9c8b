/* SPDX-License-Identifier: BSD-3-Clause */
/* ICMP errors about datagrams of sessions, which anybody can forge; and what peers see of an endpoint's secret. */
#include <errno.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "net/checksum.h"
#include "tests/rpc/cases.h"
#include "tests/rpc/dgram_rig.h"

enum {
	ETH = sizeof(struct rte_ether_hdr),
	HEADERS = sizeof(struct rte_ipv4_hdr) + sizeof(struct rte_udp_hdr),
	QUOTED = 200,
	NUMBER = HEADERS + (int)offsetof(struct wire_packet, number),
	TOKEN = HEADERS + (int)offsetof(struct wire_packet, token),
	SESSION = HEADERS + (int)offsetof(struct wire_packet, session),
};

static struct {
	uint8_t bytes[QUOTED]; /* the last large datagram of the server, from its IP header */
	bool have;
	bool cut; /* the server's frames are lost */
} seen;

static bool keep(struct link *link, int from, struct rte_mbuf *m)
{
	if (from == 0 && net_flow(m).kind == NET_FLOW_UDP && m->data_len > 1400) {
		memcpy(seen.bytes, rte_pktmbuf_mtod(m, const uint8_t *) + ETH, QUOTED);
		seen.have = true;
	}
	return seen.cut && from == 0;
}

/* "Destination unreachable" to a side, about a packet of which n bytes are quoted. */
static void unreachable(int to, uint8_t code, uint16_t mtu, const uint8_t *quoted, unsigned bytes)
{
	uint8_t frame[ETH + sizeof(struct rte_ipv4_hdr) + 8 + QUOTED] = { 0 };
	struct rte_ether_hdr *eth = (struct rte_ether_hdr *)frame;
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(eth + 1);
	uint8_t *icmp = (uint8_t *)(ip + 1);
	uint16_t sum;

	*eth = (struct rte_ether_hdr){ .dst_addr = *link_mac(to),
				       .src_addr = *link_mac(!to),
				       .ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4) };
	*ip = (struct rte_ipv4_hdr){ .version_ihl = RTE_IPV4_VHL_DEF,
				     .total_length = rte_cpu_to_be_16((uint16_t)(sizeof(*ip) + 8 + bytes)),
				     .time_to_live = 64,
				     .next_proto_id = IPPROTO_ICMP,
				     .src_addr = link_address(!to),
				     .dst_addr = link_address(to) };
	ip->hdr_checksum = (uint16_t)~checksum_fold(checksum_add(0, ip, sizeof(*ip)));
	icmp[0] = 3, icmp[1] = code, icmp[6] = (uint8_t)(mtu >> 8), icmp[7] = (uint8_t)mtu;
	memcpy(icmp + 8, quoted, bytes);
	sum = (uint16_t)~checksum_fold(checksum_add(0, icmp, 8 + bytes));
	memcpy(icmp + 2, &sum, sizeof(sum));
	link_inject(&dg.link, to, frame, (unsigned)(ETH + sizeof(*ip) + 8 + bytes));
	dg_wait(20000);
}

static void too_big(const uint8_t *quoted, unsigned bytes)
{
	unreachable(0, 4, 600, quoted, bytes);
}

static uint64_t learnt(void)
{
	return net_counters(dg.link.net[0])->pmtu_updates;
}

void dgram_forged_errors_change_nothing(void)
{
	static const struct {
		unsigned at, bytes;
	} forged[] = { { 0, HEADERS }, { 0, NUMBER }, { NUMBER, QUOTED }, { TOKEN, QUOTED }, { SESSION, QUOTED } };
	struct dg_end *client;

	memset(&seen, 0, sizeof(seen));
	dg_init(220);
	dg_up();
	client = dg_open(0);
	dg.link.tap = keep;
	dg_send(client, 100, 1 + 1000);
	CHECK(dg_run(DG_S, dg_answered, client));
	seen.cut = true;
	dg_send(client, 100, 1 + 4000);
	dg_wait(LINK_MS);
	CHECK(seen.have && dg_server_of(client)->session->tx_held > 0);
	for (unsigned i = 0; i < RTE_DIM(forged); i++) {
		uint8_t quoted[QUOTED];

		memcpy(quoted, seen.bytes, sizeof(quoted));
		if (forged[i].at)
			quoted[forged[i].at] ^= 0x40;
		too_big(quoted, forged[i].bytes);
		if (!CHECK_UINT(learnt(), 0))
			printf("# forged %u\n", i);
	}
	too_big(seen.bytes, QUOTED);
	CHECK_UINT(learnt(), 1);
	/* Larger packets go in fragments from now on; those of new sessions shrink to RFC 8899's base. */
	seen.cut = false;
	CHECK(dg_run(DG_S, dg_answered, client));
	CHECK_UINT(dgram_payload(dg_server_of(dg_open(2))->session), NET_UDP_PAYLOAD_BASE - sizeof(struct wire_packet));
	too_big(seen.bytes, QUOTED); /* it is acknowledged */
	CHECK_UINT(learnt(), 1);
	dg_down();
}

static bool keep_open(struct link *link, int from, struct rte_mbuf *m)
{
	const bool ours = from == 1 && net_flow(m).kind == NET_FLOW_UDP;

	if (ours) {
		memset(seen.bytes, 0, sizeof(seen.bytes));
		memcpy(seen.bytes, rte_pktmbuf_mtod(m, const uint8_t *) + ETH, RTE_MIN(m->data_len - ETH, (int)QUOTED));
		seen.have = true;
	}
	return ours;
}

/* That nobody is at the port ends an attempt to open a session: only who has seen the attempt can say so. */
void dgram_forged_refusals_end_nothing(void)
{
	enum {
		OPEN = HEADERS + (int)sizeof(struct wire_packet),
		CLIENT = OPEN + (int)offsetof(struct wire_packet_open, client),
		OPEN_TOKEN = OPEN + (int)offsetof(struct wire_packet_open, token),
		PORT_TO = sizeof(struct rte_ipv4_hdr) + (int)offsetof(struct rte_udp_hdr, dst_port),
		KIND = HEADERS + (int)offsetof(struct wire_packet, kind),
		WHOLE = OPEN + (int)sizeof(struct wire_packet_open),
	};
	static const struct {
		unsigned at, bytes;
	} forged[] = { { 0, HEADERS },	      { 0, OPEN },	  { 0, WHOLE - 1 }, { CLIENT, WHOLE },
		       { OPEN_TOKEN, WHOLE }, { PORT_TO, WHOLE }, { KIND, WHOLE } };
	struct dg_end *client, *open;

	memset(&seen, 0, sizeof(seen));
	dg_init(223);
	dg_up();
	open = dg_open(0);
	dg.link.tap = keep_open;
	client = dg_client(1);
	dg_wait(LINK_MS);
	CHECK(seen.have);
	for (unsigned i = 0; i < RTE_DIM(forged); i++) {
		uint8_t quoted[QUOTED];

		memcpy(quoted, seen.bytes, sizeof(quoted));
		if (forged[i].at)
			quoted[forged[i].at] ^= 0x40;
		unreachable(1, 3, 0, quoted, forged[i].bytes);
		if (!CHECK_UINT(client->closes, 0))
			printf("# forged %u\n", i);
	}
	unreachable(1, 3, 0, seen.bytes, WHOLE);
	CHECK_UINT(client->closes, 1);
	CHECK_INT(client->reason, ECONNREFUSED);
	CHECK_UINT(open->closes, 0);
	dg_down();
}

/* Session numbers are of 12 bits that were drawn, and an index: nothing that a secret is made of. */
void dgram_numbers_do_not_show_the_secret(void)
{
	const uint64_t secret = UINT64_C(0x123456789abcdef0);
	unsigned same = 0;

	dg_init(221);
	dg.options[0].secret[0] = secret;
	dg_up();
	for (unsigned i = 0; i < 16; i++)
		same += dg_server_of(dg_open(i))->session->number >> DGRAM_INDEX_BITS == (secret >> 52) + 1;
	CHECK(same < 4);
	dg_down();
}
