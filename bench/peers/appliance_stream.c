/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker of an appliance whose requests come over TCP. */
#include "bench/peers/appliance_stream.h"

#include <string.h>

#include "net/tcp.h"
#include "wire/frame.h"

enum {
	REPLY_MAX = sizeof(struct wire_frame) + 4096, /* of a row, or nothing */
	OPENING_TURNS = 1000,
};

static struct {
	struct appliance *a;
	struct tcp_conn *conn;
	bool open;
	uint8_t reply[REPLY_MAX];
	uint32_t have, need; /* of it; need 0: its header is not whole yet */
} stream;

static bool stream_opened(void *ctx, struct tcp_conn *conn, void **user)
{
	stream.open = true;
	*user = ctx;
	return true;
}

/* Takes as much of the reply as is there; returns how many bytes. */
static uint32_t take_part(const uint8_t *at, uint32_t bytes)
{
	const uint32_t header = (uint32_t)sizeof(struct wire_frame);
	const uint32_t want = (stream.need ? stream.need : header) - stream.have, part = bytes < want ? bytes : want;
	struct wire_frame frame;

	memcpy(stream.reply + stream.have, at, part);
	stream.have += part;
	memcpy(&frame, stream.reply, sizeof(frame));
	if (!stream.need && stream.have == header) {
		if (frame.payload_bytes > REPLY_MAX - header)
			appliance_fail("a reply is longer than a row");
		stream.need = header + frame.payload_bytes;
	}
	if (stream.need && stream.have == stream.need) {
		stream.a->answered++;
		stream.a->bad += frame.status != WIRE_OK || frame.sequence != stream.a->answered;
		stream.have = stream.need = 0;
	}
	return part;
}

static void stream_received(void *user, struct rte_mbuf *payload)
{
	const uint32_t bytes = payload->data_len;

	for (uint32_t at = 0; at < bytes;)
		at += take_part(rte_pktmbuf_mtod_offset(payload, const uint8_t *, at), bytes - at);
	rte_pktmbuf_free(payload);
	tcp_consumed(stream.conn, bytes);
}

static void stream_acknowledged(void *user)
{
}

static void stream_finished(void *user)
{
	appliance_fail("the connection has ended");
}

static void stream_closed(void *user, int reason)
{
	appliance_fail("the connection is gone");
}

static const struct tcp_handler handler = {
	.opened = stream_opened,
	.received = stream_received,
	.acknowledged = stream_acknowledged,
	.finished = stream_finished,
	.closed = stream_closed,
};

void appliance_stream_open(struct appliance *a)
{
	const struct net_address to = net_address_v4(rte_cpu_to_be_32(APPLIANCE_ADDRESS));
	struct star_error err;

	stream.a = a;
	stream.conn = tcp_connect(a->worker_net, &to, APPLIANCE_PORT, &handler, a, a, &err);
	if (!stream.conn)
		appliance_fail(err.text);
	for (unsigned turns = 0; !stream.open; turns++) {
		if (turns == OPENING_TURNS)
			appliance_fail("the connection does not open");
		appliance_turn(a);
	}
}

void appliance_stream_send(const uint8_t *message, uint32_t bytes)
{
	struct rte_mbuf *m;

	for (uint32_t at = 0, n; at < bytes; at += n) {
		n = RTE_MIN(bytes - at, tcp_mss(stream.conn));
		m = tcp_alloc(stream.conn);
		if (!m)
			appliance_fail("no mbuf");
		memcpy(rte_pktmbuf_append(m, (uint16_t)n), message + at, n);
		if (!tcp_send(stream.conn, m))
			appliance_fail("the connection cannot send");
	}
}
