/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/peers/bare-loop.h"

#include <math.h>
#include <netinet/in.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_tcp.h>
#include <rte_udp.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/appliance.h"
#include "wire/frame.h"
#include "wire/packet.h"

enum { BURST = 256 };

static struct {
	struct rte_mempool *pool;
	uint64_t rows;
	uint32_t dim;
	float *values, *sums;
} bare;

void bare_loop_start(struct rte_mempool *pool, uint64_t rows, uint32_t dim)
{
	bare.pool = pool;
	bare.rows = rows;
	bare.dim = dim;
	bare.values = calloc(rows * dim, sizeof(float));
	bare.sums = calloc(rows * dim, sizeof(float));
	if (!bare.values || !bare.sums)
		appliance_fail("no memory for the bare loop's rows");
}

/* Where a request's frame begins; 0: it is none. */
static uint32_t find_frame(const struct rte_mbuf *m)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
	const struct rte_ipv4_hdr *ip = (const struct rte_ipv4_hdr *)(eth + 1);
	uint32_t at = sizeof(*eth) + sizeof(*ip);

	if (m->data_len < at + sizeof(struct rte_tcp_hdr) || eth->ether_type != RTE_BE16(RTE_ETHER_TYPE_IPV4) ||
	    ip->version_ihl != RTE_IPV4_VHL_DEF)
		return 0;
	if (ip->next_proto_id == IPPROTO_UDP)
		at += (uint32_t)(sizeof(struct rte_udp_hdr) + sizeof(struct wire_packet));
	else
		at += ((const struct rte_tcp_hdr *)(ip + 1))->data_off / 16 * 4u;
	return at + sizeof(struct wire_frame) + sizeof(struct wire_op) + sizeof(uint64_t) <= m->data_len ? at : 0;
}

static void bare_push(uint64_t key, const uint8_t *from)
{
	float *w = bare.values + key * bare.dim, *sum = bare.sums + key * bare.dim;

	for (uint32_t i = 0; i < bare.dim; i++) {
		float g;

		memcpy(&g, from + i * sizeof(g), sizeof(g));
		sum[i] += g * g;
		w[i] -= 0.01f * g / (sqrtf(sum[i]) + 1e-8f);
	}
}

/* NULL: it is no request. */
static struct rte_mbuf *bare_answer(const struct rte_mbuf *m)
{
	const uint32_t at = find_frame(m), row = bare.dim * (uint32_t)sizeof(float);
	const uint32_t begin = at + (uint32_t)sizeof(struct wire_frame);
	const uint8_t *from = rte_pktmbuf_mtod(m, const uint8_t *);
	struct wire_frame frame;
	struct rte_mbuf *reply;
	struct wire_op op;
	uint64_t key;
	uint8_t *to;

	if (!at)
		return NULL;
	memcpy(&frame, from + at, sizeof(frame));
	memcpy(&op, from + begin, sizeof(op));
	memcpy(&key, from + begin + sizeof(op), sizeof(key));
	if (frame.magic != WIRE_MAGIC || key >= bare.rows || op.dim != bare.dim)
		return NULL;
	reply = rte_pktmbuf_alloc(bare.pool);
	if (!reply)
		appliance_fail("no mbuf");
	to = (uint8_t *)rte_pktmbuf_append(reply, (uint16_t)(begin + sizeof(struct wire_result) + row));
	memcpy(to, from, begin);
	memcpy(to + begin, &op, sizeof(struct wire_result));
	if (op.kind == WIRE_PUSH && m->data_len >= begin + sizeof(op) + sizeof(key) + row)
		bare_push(key, from + begin + sizeof(op) + sizeof(key));
	else
		memcpy(to + begin + sizeof(struct wire_result), bare.values + key * bare.dim, row);
	return reply;
}

unsigned bare_loop_turn(struct rte_mbuf *const *frames, unsigned n)
{
	struct rte_mbuf *replies[BURST];
	unsigned answered = 0;

	for (unsigned i = 0; i < n && answered < BURST; i++) {
		struct rte_mbuf *reply = bare_answer(frames[i]);

		if (reply)
			replies[answered++] = reply;
	}
	for (unsigned i = 0; i < answered; i++)
		rte_pktmbuf_free(replies[i]);
	return answered;
}
