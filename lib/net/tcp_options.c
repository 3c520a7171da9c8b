/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses and writes TCP's options: maximum segment size (RFC 9293, 3.7.1), window scale and timestamps (RFC 7323),
 * SACK-permitted and SACK (RFC 2018), with the duplicate's block first (RFC 2883).
 */
#include "net/tcp_internal.h"

enum {
	OPTION_END = 0,
	OPTION_NOP = 1,
	OPTION_MSS = 2,
	OPTION_SCALE = 3,
	OPTION_SACK_PERMITTED = 4,
	OPTION_SACK = 5,
	OPTION_TIMESTAMPS = 8,
};

static uint32_t read32(const uint8_t *at)
{
	rte_be32_t value;

	memcpy(&value, at, sizeof(value));
	return rte_be_to_cpu_32(value);
}

static void write32(uint8_t *at, uint32_t value)
{
	const rte_be32_t big = rte_cpu_to_be_32(value);

	memcpy(at, &big, sizeof(big));
}

/* More blocks than fit into a header, or a wrong length, are ignored: it may be some other extension's option. */
static void parse_sack(struct tcp_segment *s, const uint8_t *option, unsigned length)
{
	if (length < 10 || (length - 2) % 8)
		return;
	for (unsigned at = 2; at < length && s->sack_count < TCP_SACK_BLOCKS_MAX; at += 8)
		s->sacks[s->sack_count++] = (struct tcp_sack_block){ read32(option + at), read32(option + at + 4) };
}

/* An option with a wrong length is ignored, like an unknown one. */
static void parse_option(struct tcp_segment *s, const uint8_t *option, unsigned length)
{
	const bool syn = s->flags & RTE_TCP_SYN_FLAG;

	switch (option[0]) {
	case OPTION_MSS:
		if (syn && length == 4)
			s->mss = (uint16_t)(option[2] << 8 | option[3]);
		break;
	case OPTION_SCALE:
		if (syn && length == 3)
			s->scale = (int8_t)RTE_MIN(option[2], (uint8_t)TCP_SCALE_MAX);
		break;
	case OPTION_SACK_PERMITTED:
		if (syn && length == 2)
			s->sack_permitted = true;
		break;
	case OPTION_SACK:
		if (!syn)
			parse_sack(s, option, length);
		break;
	case OPTION_TIMESTAMPS:
		if (length == 10) {
			s->has_timestamp = true;
			s->ts_value = read32(option + 2);
			s->ts_echo = read32(option + 6);
		}
		break;
	default:
		break;
	}
}

bool tcp_options_parse(struct tcp_segment *s, const uint8_t *option, unsigned bytes)
{
	s->scale = -1;
	/* The usual case: two NOPs and timestamps (RFC 7323, appendix A). */
	if (bytes == TCP_TIMESTAMPS_BYTES && read32(option) == 0x0101080a) {
		s->has_timestamp = true;
		s->ts_value = read32(option + 4);
		s->ts_echo = read32(option + 8);
		return true;
	}
	while (bytes && *option != OPTION_END) {
		unsigned length = 1;

		if (*option != OPTION_NOP) {
			if (bytes < 2 || option[1] < 2 || option[1] > bytes)
				return false;
			length = option[1];
			parse_option(s, option, length);
		}
		option += length;
		bytes -= length;
	}
	return true;
}

uint32_t tcp_timestamp_at(const struct tcp_conn *conn, uint64_t ns)
{
	return (uint32_t)(ns / NET_MS) + conn->ts_offset;
}

uint32_t tcp_timestamp(const struct tcp_conn *conn)
{
	return tcp_timestamp_at(conn, conn->net->now_ns);
}

static uint8_t *put_timestamps(const struct tcp_conn *conn, uint8_t flags, uint8_t *at)
{
	at[0] = OPTION_TIMESTAMPS;
	at[1] = 10;
	write32(at + 2, tcp_timestamp(conn));
	write32(at + 6, flags & RTE_TCP_ACK_FLAG ? conn->ts_recent : 0);
	return at + 10;
}

static uint8_t *put_nops(unsigned count, uint8_t *at)
{
	memset(at, OPTION_NOP, count);
	return at + count;
}

/* A SYN offers what is in features; a SYN-ACK has what was agreed on. The order is that of Linux, which middleboxes
 * know best: every option is at a multiple of 4, and SACK-permitted replaces the two NOPs of the timestamps. */
static unsigned put_syn_options(const struct tcp_conn *conn, uint8_t flags, uint8_t *option)
{
	const uint16_t mss =
		conn->path.interface->options.mtu - net_path_header(&conn->path) - sizeof(struct rte_tcp_hdr);
	const bool sack = conn->features & TCP_FEATURE_SACK, timestamps = conn->features & TCP_FEATURE_TIMESTAMP;
	uint8_t *at = option;

	*at++ = OPTION_MSS;
	*at++ = 4;
	*at++ = mss >> 8;
	*at++ = mss & 0xff;
	if (sack != timestamps)
		at = put_nops(2, at);
	if (sack) {
		*at++ = OPTION_SACK_PERMITTED;
		*at++ = 2;
	}
	if (timestamps)
		at = put_timestamps(conn, flags, at);
	if (conn->features & TCP_FEATURE_SCALE) {
		at = put_nops(1, at);
		*at++ = OPTION_SCALE;
		*at++ = 3;
		*at++ = conn->rcv_scale;
	}
	return (unsigned)(at - option);
}

static uint8_t *put_block(uint8_t *at, const struct tcp_sack_block *block)
{
	write32(at, block->begin);
	write32(at + 4, block->end);
	return at + 8;
}

/* The duplicate's block first, then the most recent ones, as many as fit. */
static uint8_t *put_sacks(struct tcp_conn *conn, unsigned room, uint8_t *at)
{
	const unsigned dsack = conn->flags & TCP_DSACK_DUE ? 1 : 0;
	const unsigned fit = room < 12 ? 0 : (room - 4) / 8;
	const unsigned count = RTE_MIN(conn->sacks_count + dsack, fit);

	if (count == 0) {
		conn->flags |= TCP_SACKS_LEFT;
		return at;
	}
	conn->flags &= ~(uint32_t)TCP_SACKS_LEFT;
	at = put_nops(2, at);
	*at++ = OPTION_SACK;
	*at++ = (uint8_t)(2 + 8 * count);
	if (dsack) {
		at = put_block(at, &conn->dsack);
		conn->flags &= ~(uint32_t)TCP_DSACK_DUE;
	}
	for (unsigned i = 0; i < count - dsack; i++)
		at = put_block(at, &conn->sacks[i]);
	conn->sacks_fresh = 0;
	return at;
}

unsigned tcp_options_put(struct tcp_conn *conn, uint8_t flags, unsigned room, uint8_t *option)
{
	uint8_t *at = option;

	if (flags & RTE_TCP_SYN_FLAG)
		return put_syn_options(conn, flags, option);
	if (conn->features & TCP_FEATURE_TIMESTAMP) {
		at = put_nops(2, at);
		at = put_timestamps(conn, flags, at);
	}
	if (unlikely(conn->sacks_count || conn->flags & TCP_DSACK_DUE) && flags & RTE_TCP_ACK_FLAG)
		at = put_sacks(conn, room - (unsigned)(at - option), at);
	return (unsigned)(at - option);
}
