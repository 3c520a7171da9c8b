/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of a peer that lies. It knows all that a peer may know of a session, token included, and says in each field
 * what is true, nearly true, or nothing of the kind. Most values lie near the session's own: what lies far from them is
 * dropped at once and reaches no state. For the simulator and for the fuzz target, which choose the bytes.
 */
#ifndef TESTS_RPC_DGRAM_LIAR_H
#define TESTS_RPC_DGRAM_LIAR_H

#include "rpc/dgram_internal.h"

enum { LIAR_BYTES_MAX = sizeof(struct wire_packet) + 1200 };

/* Where its choices come from. */
struct liar {
	uint8_t (*byte)(void *ctx);
	void *ctx;
	uint64_t now_ns;
};

static inline uint64_t liar_word(const struct liar *l)
{
	uint64_t word = 0;

	for (int i = 0; i < 8; i++)
		word = word << 8 | l->byte(l->ctx);
	return word;
}

/* A number near one of two, seldom any. */
static inline uint32_t liar_near(const struct liar *l, uint32_t low, uint32_t high)
{
	const uint8_t b = l->byte(l->ctx);

	if (b < 128)
		return low + b % 4;
	if (b < 192)
		return high - b % 3;
	return b < 224 ? low + 8 - b % 32 : b < 252 ? high + b % 64 : (uint32_t)liar_word(l);
}

/* Few bits of those that follow ack, or many. */
static inline uint64_t liar_bits(const struct liar *l)
{
	const uint8_t b = l->byte(l->ctx);

	if (b < 96)
		return 0;
	return b < 224 ? b % 16 : b < 248 ? UINT64_MAX : liar_word(l);
}

static inline enum wire_packet_kind liar_kind(const struct liar *l)
{
	static const uint8_t kinds[16] = {
		WIRE_PACKET_ACK,  WIRE_PACKET_ACK,    WIRE_PACKET_ACK,	  WIRE_PACKET_ACK,
		WIRE_PACKET_ACK,  WIRE_PACKET_DATA,   WIRE_PACKET_DATA,	  WIRE_PACKET_DATA,
		WIRE_PACKET_DATA, WIRE_PACKET_PING,   WIRE_PACKET_PING,	  WIRE_PACKET_CLOSE,
		WIRE_PACKET_OPEN, WIRE_PACKET_COOKIE, WIRE_PACKET_OPENED, WIRE_PACKET_UNKNOWN
	};

	return kinds[l->byte(l->ctx) % 16];
}

static inline uint16_t liar_open(const struct liar *l, const struct dgram_session *s, uint8_t *body)
{
	struct wire_packet_open open = { .client = s->client,
					 .token = liar_word(l),
					 .cookie = s->cookie,
					 .session = liar_near(l, s->peer_number, s->number),
					 .edge = liar_near(l, s->tx_edge, s->tx_next) };

	open.cookie += l->byte(l->ctx) % 2;
	memcpy(body, &open, sizeof(open));
	return sizeof(open);
}

/* To a client: that the session is the one it knows, or another one. */
static inline uint16_t liar_opened(const struct liar *l, const struct dgram_session *s, uint8_t *body)
{
	const uint8_t b = l->byte(l->ctx);
	const struct wire_packet_opened opened = { .client = s->client,
						   .token = b & 1 ? s->peer_token : liar_word(l),
						   .session = b & 2 ? s->peer_number : l->byte(l->ctx),
						   .incarnation = b >> 4,
						   .lease_ms = 10000,
						   .resumed = b & 1 };

	memcpy(body, &opened, sizeof(opened));
	return sizeof(opened);
}

/* A frame and its payload, whole or a part, or bytes that are not a frame. The content is arbitrary. */
static inline uint16_t liar_data(const struct liar *l, uint8_t *body, uint16_t *flags)
{
	const uint8_t b = l->byte(l->ctx);
	struct wire_frame frame = { .magic = WIRE_MAGIC, .version = WIRE_VERSION, .opcode = WIRE_EXECUTE };
	uint16_t bytes = (uint16_t)(sizeof(frame) + l->byte(l->ctx) * 4);

	frame.sequence = l->byte(l->ctx);
	frame.payload_bytes = (uint32_t)(bytes - sizeof(frame));
	*flags = WIRE_PACKET_FIRST | WIRE_PACKET_LAST;
	if (b & 1) {
		frame.payload_bytes += l->byte(l->ctx) * 16;
		*flags = l->byte(l->ctx) % 4;
	}
	if (b >= 250)
		frame.opcode = b;
	memcpy(body, &frame, sizeof(frame));
	return bytes;
}

/* Writes the payload of a datagram to a session; returns its length. What it is for 0 to LIAR_BYTES_MAX. */
static inline uint16_t liar_packet(const struct liar *l, const struct dgram_session *s, uint8_t *to)
{
	uint8_t *body = to + sizeof(struct wire_packet);
	struct wire_packet p = { .magic = WIRE_PACKET_MAGIC,
				 .version = WIRE_PACKET_VERSION,
				 .kind = (uint8_t)liar_kind(l),
				 .session = s->number,
				 .token = s->state == DGRAM_OPEN ? s->token : s->open_token };
	const uint8_t twist = l->byte(l->ctx);
	uint16_t bytes = 0;

	memset(to, 0, LIAR_BYTES_MAX);
	p.number = liar_near(l, s->rx_next, s->rx_edge);
	p.ack = liar_near(l, s->tx_una, s->tx_next);
	p.sack = liar_bits(l);
	p.edge = liar_near(l, s->tx_edge, s->tx_next);
	p.stamp = dgram_stamp(l->now_ns) - (twist & 3 ? 0 : l->byte(l->ctx));
	p.echo = twist & 4 ? dgram_stamp(l->now_ns) - l->byte(l->ctx) * 16u : 0;
	p.wants = twist & 8 ? l->byte(l->ctx) : 0;
	if (p.kind == WIRE_PACKET_DATA)
		bytes = liar_data(l, body, &p.flags);
	else if (p.kind == WIRE_PACKET_ACK && twist & 16)
		for (; bytes < l->byte(l->ctx) % 17 * 8; bytes += 8) {
			const uint64_t bits = liar_bits(l);

			memcpy(body + bytes, &bits, sizeof(bits));
		}
	else if (p.kind == WIRE_PACKET_OPEN || p.kind == WIRE_PACKET_COOKIE)
		bytes = liar_open(l, s, body);
	else if (p.kind == WIRE_PACKET_OPENED)
		bytes = liar_opened(l, s, body);
	p.flags |= (uint16_t)(twist & 32 ? WIRE_PACKET_ACK_NOW : 0) | (twist & 64 ? WIRE_PACKET_MARKED : 0);
	if (p.kind == WIRE_PACKET_OPEN || p.kind == WIRE_PACKET_UNKNOWN) {
		p.session = p.kind == WIRE_PACKET_OPEN ? 0 : s->peer_number;
		p.token = p.kind == WIRE_PACKET_OPEN ? 0 : s->peer_token;
	} else if (twist >= 240) { /* another session's number, or a wrong token */
		p.session ^= l->byte(l->ctx) % 4;
		p.token ^= l->byte(l->ctx);
	}
	memcpy(to, &p, sizeof(p));
	return (uint16_t)(sizeof(p) + bytes);
}

#endif
