/* SPDX-License-Identifier: BSD-3-Clause */
/* The fast path of plain segments, in and out, does what the general way does. */
#include "base/hash.h"
#include "base/prng.h"
#include "net/tcp_internal.h"
#include "tests/net/cases.h"
#include "tests/net/link.h"
#include "tests/net/script.h"

enum { ROUNDS = 100, SEGMENTS = 60, HEADERS = 14 + 20 + 32, ETHERNET = 14 };

static struct {
	struct prng prng;
	bool general;
	uint64_t seen[ROUNDS][SEGMENTS]; /* after each segment, by the first way */
	unsigned taken;			 /* by tcp_take_plain */
} plain;

static void note(uint64_t *sum, const void *data, size_t bytes)
{
	const uint8_t *at = data;

	for (size_t i = 0; i < bytes; i++)
		*sum = hash_mix(*sum ^ at[i]);
}

/* All that can be seen of the stack. */
static uint64_t sum_of(void)
{
	uint64_t sum = script.received + 1000003 * script.ends + 7 * script.opens + (uint64_t)script.finished;

	note(&sum, script_counters(), sizeof(struct net_counters));
	for (; script.out_head != script.out_tail; script.out_head++) {
		const struct script_segment *s = &script.out[script.out_head % SCRIPT_FRAMES_MAX];
		const uint32_t words[] = { s->flags,  s->seq,	   s->ack,     s->bytes,
					   s->window, s->ts_value, s->ts_echo, s->sacks_count };

		note(&sum, words, sizeof(words));
	}
	return sum;
}

/* Checksums of what was changed, where its lengths are those of what there is. */
static void mend(struct rte_mbuf *m)
{
	struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(m, struct rte_ipv4_hdr *, ETHERNET);
	struct rte_tcp_hdr *tcp = (struct rte_tcp_hdr *)(ip + 1);

	ip->hdr_checksum = 0;
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	if (ip->version_ihl != RTE_IPV4_VHL_DEF || rte_be_to_cpu_16(ip->total_length) != m->data_len - ETHERNET)
		return;
	tcp->cksum = 0;
	tcp->cksum = rte_ipv4_udptcp_cksum(ip, tcp);
}

/* general: the port says that it took a tag off, of no VLAN: that is not plain. */
static void twist(struct rte_mbuf *m)
{
	uint8_t *bytes = rte_pktmbuf_mtod(m, uint8_t *);
	const unsigned changes = prng_below(&plain.prng, 6) ? 0 : 1 + prng_below(&plain.prng, 2);
	const bool mended = prng_below(&plain.prng, 4), cut = prng_below(&plain.prng, 16) == 0;

	for (unsigned i = 0; i < changes; i++)
		bytes[prng_below(&plain.prng, HEADERS)] = (uint8_t)prng_next(&plain.prng);
	/* Two fragments make one packet, and are another case. */
	bytes[ETHERNET + 6] &= 0xc0;
	bytes[ETHERNET + 7] = 0;
	if (changes && mended)
		mend(m);
	if (cut && prng_below(&plain.prng, 2))
		rte_pktmbuf_trim(m, (uint16_t)prng_below(&plain.prng, m->data_len));
	else if (cut)
		memset(rte_pktmbuf_append(m, 6), 0xee, 6); /* Ethernet's padding */
	m->ol_flags = plain.general ? RTE_MBUF_F_RX_VLAN_STRIPPED | RTE_MBUF_F_RX_VLAN : 0;
	m->vlan_tci = 0;
}

/* A connection, and some segments to it, of which some are changed on the way. */
static void run_round(unsigned round, bool general)
{
	uint32_t next = 1;

	plain.general = general;
	prng_seed(&plain.prng, 1000 + round);
	script_begin(NULL);
	script_connect(
		&(struct script_segment){ .flags = S, .mss = 1460, .stamped = round % 2, .ts_value = 7, .scale = 8 });
	script.twist = twist;
	for (unsigned i = 0; i < SEGMENTS; i++) {
		const uint32_t bytes = prng_below(&plain.prng, 3) ? prng_below(&plain.prng, 300) : 0;
		const uint8_t flags =
			prng_below(&plain.prng, 40) ? A : (uint8_t)(A | (prng_below(&plain.prng, 2) ? U : F));
		uint64_t sum;

		script.now_ns += LINK_MS / 4;
		script_in(&(struct script_segment){ .flags = flags,
						    .seq = next,
						    .ack = 1,
						    .bytes = bytes,
						    .stamped = round % 2,
						    .ts_value = 8 + i,
						    .tos = (uint8_t)prng_below(&plain.prng, 4) });
		next += prng_below(&plain.prng, 8) ? bytes : 0;
		sum = sum_of();
		if (!general)
			plain.seen[round][i] = sum;
		else if (plain.seen[round][i] != sum)
			unit_fail(__FILE__, __LINE__, "round %u, segment %u: the two ways differ", round, i);
	}
	script.wrong = false; /* what the peer has said was changed */
	script_end();
}

void plain_segments_are_taken_as_all_others(void)
{
	uint64_t received = 0;

	for (unsigned round = 0; round < ROUNDS; round++) {
		run_round(round, false);
		received += script.received;
		run_round(round, true);
	}
	CHECK(received > ROUNDS * 100);
}

/* Takes a copy by the fast path: what comes behind it then is old. */
static void take_short(struct rte_mbuf *m)
{
	struct rte_mbuf *copy = rte_pktmbuf_copy(m, script.pool, 0, UINT32_MAX);

	if (!tcp_take_plain(script.net, copy))
		rte_pktmbuf_free(copy);
	else
		plain.taken++;
}

void plain_segments_take_the_fast_path(void)
{
	plain.taken = 0;
	script_begin(NULL);
	script.twist = take_short;
	script_connect(&(struct script_segment){ .flags = S, .mss = 1460 });
	CHECK_UINT(plain.taken, 0); /* a SYN, and the end of a handshake */
	for (unsigned i = 0; i < 5; i++)
		script_in(&(struct script_segment){ .flags = A, .seq = 1 + 10 * i, .ack = 1, .bytes = 10 });
	CHECK_UINT(plain.taken, 5);
	CHECK_UINT(script.received, 50);
	/* Not what may end a connection. */
	script_in(&(struct script_segment){ .flags = R | A, .seq = 51, .ack = 1 });
	CHECK_UINT(plain.taken, 5);
	CHECK_UINT(script.ends, 1);
	script_drop();
	script_end();
}

/* A segment of the connection, without its checksum. */
static struct rte_mbuf *make_segment(uint32_t bytes)
{
	struct rte_mbuf *m = net_alloc(script.net);
	struct rte_tcp_hdr *tcp = (struct rte_tcp_hdr *)rte_pktmbuf_append(m, (uint16_t)(sizeof(*tcp) + bytes));

	*tcp = (struct rte_tcp_hdr){ .src_port = script.conn->local_port,
				     .dst_port = script.conn->remote_port,
				     .sent_seq = bytes,
				     .data_off = sizeof(*tcp) / 4 << 4,
				     .tcp_flags = A };
	memset(tcp + 1, (int)bytes, bytes);
	return m;
}

/* The peer answers where it was asked for, so that its address is certain. */
static void answer_arp(void)
{
	const struct rte_ether_addr mac = { { 2, 0, 0, 0, 0, 2 } };

	net_neighbour_heard(script.net, script.conn->path.interface, link_ip(1), &mac, NEIGHBOUR_ANSWERS);
}

/* By a port that has these offloads: one that cuts segments leaves others to the stack. */
static void compare_ways_out(uint32_t offloads)
{
	struct net_options options = script_options();

	options.interfaces[0].offloads = offloads;
	options.interfaces[0].tso_bytes = UINT16_MAX;
	options.interfaces[0].tso_segments = 16;
	script_begin(&options);
	script_connect(&(struct script_segment){ .flags = S, .mss = 1460 });
	answer_arp();
	for (uint32_t bytes = 0; bytes < 1400; bytes += 7) {
		const struct net_path *path = &script.conn->path;
		struct rte_mbuf *plain_one = make_segment(bytes), *other = make_segment(bytes),
				*out[2] = { NULL, NULL };
		struct rte_tcp_hdr *tcp = rte_pktmbuf_mtod(other, struct rte_tcp_hdr *);

		if (!tcp_send_plain(script.net, path, plain_one, (uint8_t)(bytes % 4))) {
			unit_fail(__FILE__, __LINE__, "%u bytes were not sent", bytes);
			rte_pktmbuf_free(plain_one);
			rte_pktmbuf_free(other);
			break;
		}
		tcp->cksum = net_checksum_to_send(path, other, IPPROTO_TCP, sizeof(*tcp));
		net_send(script.net, path, other, IPPROTO_TCP, (uint8_t)(bytes % 4));
		CHECK_UINT(net_output(script.net, out, 2), 2);
		CHECK_UINT(out[0]->pkt_len, out[1]->pkt_len);
		CHECK_UINT(out[0]->port, out[1]->port);
		CHECK_UINT(out[0]->ol_flags, out[1]->ol_flags);
		CHECK(memcmp(rte_pktmbuf_mtod(out[0], void *), rte_pktmbuf_mtod(out[1], void *), out[0]->data_len) ==
		      0);
		rte_pktmbuf_free_bulk(out, 2);
	}
	script_end();
}

void plain_segments_leave_as_all_others(void)
{
	compare_ways_out(0);
	compare_ways_out(OFFLOAD_TX_SEGMENTS | OFFLOAD_TX_TSO);
}
