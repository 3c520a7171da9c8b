/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/net/sender.h"

#include <stdarg.h>

#include "tests/net/sender_check.h"

static unsigned peer; /* enum sender_features */

struct net_options sender_options(void)
{
	struct net_options o = script_options();

	o.ecn = NET_ECN_ACCEPT;
	return o;
}

static struct script_segment segment(uint8_t flags, uint32_t ack)
{
	return (struct script_segment){ .flags = flags,
					.seq = 1,
					.ack = ack,
					.stamped = peer & PEER_STAMPS,
					.ts_value = (uint32_t)(script.now_ns / 1000000) };
}

void sender_begin(const struct net_options *options, unsigned features, uint64_t rtt_ms)
{
	const struct net_options usual = sender_options();
	struct script_segment s;

	script_begin(options ? options : &usual);
	peer = features;
	s = segment(S | (features & PEER_ECN ? E | W : 0), 0);
	s.seq = 0;
	s.mss = features & PEER_STAMPS ? MSS + TCP_TIMESTAMPS_BYTES : MSS;
	s.scale = 1 + 7;
	s.sack_permitted = features & PEER_SACK;
	script_in(&s);
	script_drop();
	script_wait(rtt_ms);
	sender_ack(1);
	script_drop();
	CHECK(script.conn);
}

void sender_ack(uint32_t ack)
{
	const struct script_segment s = segment(A, ack);

	script_in(&s);
}

static void put_blocks(struct script_segment *s, unsigned count, va_list list)
{
	s->sacks_count = count;
	for (unsigned i = 0; i < count; i++) {
		s->sacks[i].begin = va_arg(list, uint32_t);
		s->sacks[i].end = va_arg(list, uint32_t);
	}
}

void sender_sack(uint32_t ack, unsigned count, ...)
{
	struct script_segment s = segment(A, ack);
	va_list list;

	va_start(list, count);
	put_blocks(&s, count, list);
	va_end(list);
	script_in(&s);
}

void sender_stamped_ack(uint32_t ack, uint32_t ms_ago, unsigned count, ...)
{
	struct script_segment s = segment(A, ack);
	va_list list;

	s.ts_echo = tcp_timestamp(script.conn) - ms_ago;
	va_start(list, count);
	put_blocks(&s, count, list);
	va_end(list);
	script_in(&s);
}

const struct script_segment *sender_sent_at(const char *file, int line, uint32_t seq, uint32_t bytes)
{
	static const struct script_segment none;
	const struct script_segment *s;

	if (script.out_head == script.out_tail) {
		unit_fail(file, line, "the stack has sent nothing more, and should have sent %u to %u", seq,
			  seq + bytes);
		return &none;
	}
	s = &script.out[script.out_head++ % SCRIPT_FRAMES_MAX];
	if (s->seq != seq || s->bytes != bytes)
		unit_fail(file, line, "sent %u to %u, not %u to %u", s->seq, s->seq + s->bytes, seq, seq + bytes);
	return s;
}

uint32_t sender_sent_bytes(void)
{
	uint32_t bytes = 0;

	while (script.out_head != script.out_tail)
		bytes += script.out[script.out_head++ % SCRIPT_FRAMES_MAX].bytes;
	return bytes;
}

void sender_check_at(const char *file, int line)
{
	const char *fault = script.conn ? sender_fault(script.conn) : NULL;

	if (fault)
		unit_fail(file, line, "%s", fault);
}

void sender_end(void)
{
	sender_check();
	script_end();
}
