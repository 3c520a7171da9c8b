/* SPDX-License-Identifier: BSD-3-Clause */
/* What stands in for lib/net: streams without segments, which keep to the contract of net/tcp.h, and see that rpc
 * does. */
#include <errno.h>

#include "tests/fuzz/rpc_world.h"

struct wheel *net_wheel(struct net *net)
{
	return &w.wheel;
}

struct rte_mempool *net_pool(const struct net *net)
{
	return w.pool;
}

unsigned net_pressure(const struct net *net)
{
	return 0;
}

/* Connections come from two addresses by turns. */
struct tcp_address tcp_address(const struct tcp_conn *c)
{
	return (struct tcp_address){ .remote = net_address_v4((rte_be32_t)(1 + ((uintptr_t)c / sizeof(*c) & 1))) };
}

uint64_t net_now_ns(const struct net *net)
{
	return w.now_ns;
}

int tcp_listen(struct net *net, uint16_t port, const struct tcp_handler *handler, void *ctx)
{
	w.handler = handler;
	w.ctx = ctx;
	return 0;
}

void tcp_unlisten(struct net *net, uint16_t port)
{
	FUZZ_CHECK(false, "no node leaves its place here");
}

uint32_t tcp_mss(const struct tcp_conn *c)
{
	return c->mss;
}

struct rte_mbuf *tcp_alloc(struct tcp_conn *c)
{
	FUZZ_CHECK(c->open, "an mbuf for a connection that is gone");
	return rte_pktmbuf_alloc(w.pool);
}

uint32_t tcp_queued(const struct tcp_conn *c)
{
	return c->queued;
}

uint64_t tcp_stalled_ns(const struct tcp_conn *c)
{
	return c->queued ? w.now_ns - c->moved_ns : 0;
}

bool tcp_send(struct tcp_conn *c, struct rte_mbuf *m)
{
	FUZZ_CHECK(c->open, "sent on a connection that is gone");
	FUZZ_CHECK(m->data_len >= 1 && m->data_len <= c->mss && m->nb_segs == 1 && !m->next, "a payload of %u bytes",
		   m->data_len);
	if (c->closing) {
		rte_pktmbuf_free(m);
		return false;
	}
	FUZZ_CHECK(c->queue_tail - c->queue_head < SENT_MAX, "more unread replies than anybody asked for");
	if (!c->queued)
		c->moved_ns = w.now_ns;
	c->queue[c->queue_tail++ % SENT_MAX] = m;
	c->queued += m->data_len;
	return true;
}

void tcp_consumed(struct tcp_conn *c, uint32_t bytes)
{
	FUZZ_CHECK(c->open, "consumed from a connection that is gone");
	FUZZ_CHECK(bytes <= c->unread, "%u bytes consumed of %u", bytes, c->unread);
	c->unread -= bytes;
}

void tcp_will_answer(struct tcp_conn *c)
{
	FUZZ_CHECK(c->open, "an answer for a connection that is gone");
}

void tcp_prefetch(const struct tcp_conn *c)
{
	FUZZ_CHECK(c->open, "something is to be sent to a connection that is gone");
}

static void forget(struct tcp_conn *c)
{
	for (unsigned i = 0; i < c->sent_count && !c->refused; i++)
		for (unsigned j = 0; j < c->sent[i].pushes; j++)
			for (uint32_t k = 0; k < c->sent[i].push[j].count; k++)
				w.unknown[c->sent[i].push[j].table]
					 [(c->sent[i].push[j].key + (k & c->sent[i].push[j].mask)) % KEYS] = true;
	c->sent_count = 0;
}

void conn_end(struct tcp_conn *c, int reason)
{
	while (c->queue_head != c->queue_tail)
		rte_pktmbuf_free(c->queue[c->queue_head++ % SENT_MAX]);
	c->queued = 0;
	forget(c);
	w.handler->closed(c->user, reason);
	c->open = false;
}

void tcp_close(struct tcp_conn *c)
{
	FUZZ_CHECK(c->open, "closed a connection that is gone");
	c->closing = true;
}

void tcp_abort(struct tcp_conn *c)
{
	FUZZ_CHECK(c->open, "aborted a connection that is gone");
	conn_end(c, ECONNABORTED);
}
