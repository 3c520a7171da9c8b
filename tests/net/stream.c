/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/net/stream.h"

#include "tests/unit.h"

static uint8_t byte_at(uint64_t seed, uint64_t position)
{
	return (uint8_t)hash_mix(seed + position / 8) ^ (uint8_t)(position * 7);
}

void stream_pump(struct stream *s)
{
	while (s->conn && s->sent < s->send_total &&
	       tcp_queued(s->conn) < (s->queue_bytes ? s->queue_bytes : 64 * 1024)) {
		struct rte_mbuf *m = tcp_alloc(s->conn);
		uint32_t n = s->full ? UINT32_MAX : (uint32_t)(1 + hash_mix(s->sent) % 3000);
		uint8_t *to;

		if (!m)
			return;
		n = RTE_MIN(n, tcp_mss(s->conn));
		n = (uint32_t)RTE_MIN((uint64_t)n, s->send_total - s->sent);
		to = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)n);
		for (uint32_t i = 0; i < n; i++)
			to[i] = byte_at(s->send_seed, s->sent + i);
		s->sent += n;
		if (!tcp_send(s->conn, m))
			return;
	}
	if (s->conn && s->close_at_end && s->sent == s->send_total) {
		s->close_at_end = false;
		if (s->shut && !s->finished)
			tcp_shutdown(s->conn);
		else
			tcp_close(s->conn);
	}
}

static bool on_opened(void *ctx, struct tcp_conn *conn, void **user)
{
	struct stream *s = ctx;

	s->conn = conn;
	s->opened = true;
	*user = s;
	tcp_set_nagle(conn, s->nagle);
	stream_pump(s);
	return true;
}

static void on_received(void *user, struct rte_mbuf *payload)
{
	struct stream *s = user;
	const uint8_t *from = rte_pktmbuf_mtod(payload, const uint8_t *);

	for (uint32_t i = 0; i < payload->data_len && !s->wrong; i++)
		if (from[i] != byte_at(s->expect_seed, s->received + i))
			s->wrong = true;
	s->received += payload->data_len;
	if (s->hold)
		s->held += payload->data_len;
	else
		tcp_consumed(s->conn, payload->data_len);
	rte_pktmbuf_free(payload);
}

static void on_acknowledged(void *user)
{
	stream_pump(user);
}

static void on_finished(void *user)
{
	struct stream *s = user;

	s->finished = true;
	if (s->sent == s->send_total)
		tcp_close(s->conn);
	else
		s->close_at_end = true;
}

static void on_closed(void *user, int reason)
{
	struct stream *s = user;

	s->closed = true;
	s->reason = reason;
	s->conn = NULL;
}

const struct tcp_handler stream_handler = { on_opened, on_received, on_acknowledged, on_finished, on_closed };
