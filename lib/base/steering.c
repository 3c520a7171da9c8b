/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/steering.h"

#include <string.h>

/* The 32 bits of the key from bit i on. */
static uint32_t window(const struct steering *s, unsigned i)
{
	uint64_t bits = 0;

	for (unsigned k = 0; k < 5; k++)
		bits = bits << 8 | (i / 8 + k < s->key_bytes ? s->key[i / 8 + k] : 0);
	return (uint32_t)(bits >> (8 - i % 8));
}

uint32_t steering_hash(const struct steering *s, const struct steering_flow *flow)
{
	const unsigned n = flow->address_bytes;
	uint8_t input[2 * 16 + 4];
	uint32_t hash = 0;

	memcpy(input, flow->from, n);
	memcpy(input + n, flow->to, n);
	input[2 * n] = (uint8_t)(flow->from_port >> 8);
	input[2 * n + 1] = (uint8_t)flow->from_port;
	input[2 * n + 2] = (uint8_t)(flow->to_port >> 8);
	input[2 * n + 3] = (uint8_t)flow->to_port;
	for (unsigned i = 0; i < (2 * n + 4) * 8; i++)
		if (input[i / 8] & 0x80 >> i % 8)
			hash ^= window(s, i);
	return hash;
}

uint16_t steering_port(const struct steering *s, const struct steering_flow *flow, unsigned queue, uint16_t low,
		       uint16_t high)
{
	struct steering_flow tried = *flow;
	const unsigned ports = high - low + 1u;

	for (unsigned i = 0; i < ports; i++) {
		tried.from_port = (uint16_t)(low + (flow->from_port - low + i) % ports);
		if (s->table[steering_hash(s, &tried) & (s->entries - 1u)] == queue)
			return tried.from_port;
	}
	return 0;
}
