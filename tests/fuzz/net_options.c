/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP options of made segments: what an honest peer of that connection would send, and how far it is from that. */
#include <string.h>

#include "tests/fuzz/net_world.h"

enum { SYN_SACK = 1 << 4, SYN_STAMP = 1 << 5, SYN_ECN = 1 << 6, STAMPS_BYTES = 12 };

static uint8_t *put32(uint8_t *at, uint32_t value)
{
	const rte_be32_t big = rte_cpu_to_be_32(value);

	memcpy(at, &big, sizeof(big));
	return at + sizeof(big);
}

static uint32_t get32(const uint8_t *at)
{
	rte_be32_t big;

	memcpy(&big, at, sizeof(big));
	return rte_be_to_cpu_32(big);
}

static uint8_t *put_stamps(uint8_t *at, uint32_t value, uint32_t echo)
{
	memcpy(at, (const uint8_t[]){ 1, 1, 8, 10 }, 4);
	return put32(put32(at + 4, value), echo);
}

static uint32_t peers_clock(void)
{
	return (uint32_t)(w.now_ns / NET_MS) + 0xfffff000u;
}

uint8_t usual_options(unsigned peer, uint8_t *to)
{
	return w.peers[peer].stamped ? (uint8_t)(put_stamps(to, peers_clock(), w.peers[peer].stamp) - to) : 0;
}

uint8_t syn_options(uint8_t mss, uint8_t how, uint8_t *to, uint8_t *flags)
{
	uint8_t *at = to;

	memcpy(at, (const uint8_t[]){ 2, 4, 5, mss, 1, 3, 3, how & 15 }, 8);
	at += 8;
	if (how & SYN_SACK) {
		memcpy(at, (const uint8_t[]){ 1, 1, 4, 2 }, 4);
		at += 4;
	}
	if (how & SYN_STAMP)
		at = put_stamps(at, peers_clock(), 0);
	if (how & SYN_ECN)
		*flags |= RTE_TCP_ECE_FLAG | RTE_TCP_CWR_FLAG;
	return (uint8_t)(at - to);
}

/* Blocks of what the stack has sent, or nearly. */
static uint8_t *put_sacks(struct input *in, const struct peer *p, uint8_t *at)
{
	const uint8_t how = take8(in), count = 1 + how % 3;

	memcpy(at, (const uint8_t[]){ 1, 1, 5, 2 + 8 * count }, 4);
	at += 4;
	for (unsigned i = 0; i < count; i++) {
		const uint32_t begin = p->ack - (how & 0x40 ? take32(in) : take16(in) * 4u);

		at = put32(at, begin);
		at = put32(at, begin + (how & 0x80 ? take32(in) : take16(in)));
	}
	return at;
}

uint8_t made_options(struct input *in, unsigned peer, uint8_t how, uint8_t *to)
{
	const struct peer *p = &w.peers[peer];
	uint8_t *at = to;

	if (p->stamped && !(how & MADE_UNSTAMPED))
		at = put_stamps(at,
				peers_clock() +
					(how & MADE_STAMP ? (uint32_t)(int16_t)take16(in) << take8(in) % 16 : 0),
				p->stamp + (how & MADE_STAMP ? (uint32_t)(int8_t)take8(in) : 0));
	if (how & MADE_SACKS)
		at = put_sacks(in, p, at);
	return (uint8_t)(at - to);
}

void note_options(struct peer *p, const uint8_t *at, const uint8_t *end)
{
	p->stamped = false;
	while (at < end) {
		unsigned length = 1;

		if (*at == 0)
			return;
		if (*at != 1) {
			FUZZ_CHECK(end - at >= 2 && at[1] >= 2 && at[1] <= end - at, "an option that does not parse");
			length = at[1];
		}
		if (*at == 8) {
			p->stamped = true;
			p->stamp = get32(at + 2);
		}
		at += length;
	}
}
