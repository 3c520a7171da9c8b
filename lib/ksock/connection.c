/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection, as rpc uses it. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ksock/internal.h"

void ksock_will_send(struct ksock_conn *conn)
{
	if (conn->listed)
		return;
	conn->listed = 1;
	conn->ks->unsent_count++;
	TAILQ_INSERT_TAIL(&conn->ks->unsent, conn, to_send);
}

void ksock_free_queue(struct rte_mbuf *m)
{
	while (m) {
		struct rte_mbuf *next = m->next;

		m->next = NULL;
		rte_pktmbuf_free(m);
		m = next;
	}
}

void ksock_end(struct ksock_conn *conn, int reason, bool reset)
{
	const struct linger at_once = { .l_onoff = 1 };
	struct ksock *ks = conn->ks;
	void *user = conn->user;

	wheel_cancel(ks->wheel, &conn->close_timer);
	if (conn->listed) {
		TAILQ_REMOVE(&ks->unsent, conn, to_send);
		ks->unsent_count--;
	}
	ksock_free_queue(conn->head);
	if (reset)
		setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	ks->io->remove(conn);
	close(conn->fd);
	TAILQ_REMOVE(&ks->open, conn, by_age);
	ks->open_count--;
	ks->unread -= conn->unread;
	conn->unread = 0;
	conn->paused = 0;
	--*conn->crowd;
	conn->state = KSOCK_FREE;
	conn->listed = 0;
	conn->fd = -1;
	conn->head = conn->tail = NULL;
	conn->generation++;
	TAILQ_INSERT_TAIL(&ks->free, conn, by_age);
	if (user)
		ks->handler->closed(user, reason);
}

static struct rte_mbuf *conn_alloc(struct tcp_conn *c)
{
	return rte_pktmbuf_alloc(ksock_own(c)->ks->pool);
}

static uint32_t conn_mss(const struct tcp_conn *c)
{
	return ksock_own(c)->ks->segment_bytes;
}

static bool conn_send(struct tcp_conn *c, struct rte_mbuf *payload)
{
	struct ksock_conn *conn = ksock_own(c);

	if (conn->state != KSOCK_OPEN || payload->data_len == 0) {
		const bool open = conn->state == KSOCK_OPEN;

		rte_pktmbuf_free(payload);
		return open; /* with nothing to send, it would never leave the queue */
	}
	if (conn->tail)
		conn->tail->next = payload;
	else
		conn->head = payload;
	conn->tail = payload;
	if (conn->queued == 0)
		conn->progress_ns = conn->ks->now_ns;
	conn->queued += payload->data_len;
	if (!conn->full)
		ksock_will_send(conn);
	return true;
}

static uint32_t conn_queued(const struct tcp_conn *c)
{
	return ksock_own(c)->queued;
}

static uint64_t conn_stalled_ns(const struct tcp_conn *c)
{
	const struct ksock_conn *conn = ksock_own(c);

	return conn->queued ? conn->ks->now_ns - conn->progress_ns : 0;
}

static void conn_consumed(struct tcp_conn *c, uint32_t bytes)
{
	struct ksock_conn *conn = ksock_own(c);

	bytes = RTE_MIN(bytes, conn->unread);
	conn->unread -= bytes;
	conn->ks->unread -= bytes;
	if (conn->paused && conn->unread <= ksock_window(conn->ks) / 2) {
		conn->paused = 0;
		conn->ks->io->watch(conn);
	}
}

static void close_timeout(struct wheel_timer *timer, uint64_t now_ns)
{
	struct ksock_conn *conn = (struct ksock_conn *)((char *)timer - offsetof(struct ksock_conn, close_timer));

	/* After everything was sent, the kernel does the rest. */
	conn->ks->counters.unsent_timeouts += !conn->shut;
	ksock_end(conn, conn->shut ? 0 : ETIMEDOUT, !conn->shut);
}

static void conn_close(struct tcp_conn *c)
{
	struct ksock_conn *conn = ksock_own(c);

	if (conn->state != KSOCK_OPEN)
		return;
	conn->state = KSOCK_CLOSING;
	conn->ks->io->watch(conn);
	conn->close_timer.fire = close_timeout;
	wheel_arm(conn->ks->wheel, &conn->close_timer, conn->ks->now_ns + KSOCK_CLOSE_MS * UINT64_C(1000000));
	if (!conn->full)
		ksock_will_send(conn);
}

static void conn_abort(struct tcp_conn *c)
{
	ksock_end(ksock_own(c), ECONNABORTED, true);
}

void ksock_read_address(const struct sockaddr_storage *from, struct net_address *address, uint16_t *port)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;

	if (from->ss_family == AF_INET) {
		*address = net_address_v4(v4->sin_addr.s_addr);
		*port = ntohs(v4->sin_port);
	} else if (from->ss_family == AF_INET6) {
		*address = net_address_v6(&v6->sin6_addr);
		*port = ntohs(v6->sin6_port);
	}
}

static struct tcp_address conn_address(const struct tcp_conn *c)
{
	const struct ksock_conn *conn = ksock_own(c);
	struct tcp_address address = { .local = conn->ks->host, .local_port = conn->ks->port };
	struct sockaddr_storage peer = { 0 };
	socklen_t bytes = sizeof(peer);

	if (getpeername(conn->fd, (struct sockaddr *)&peer, &bytes) == 0)
		ksock_read_address(&peer, &address.remote, &address.remote_port);
	return address;
}

const struct rpc_transport ksock_transport = {
	.listen = ksock_listen,
	.unlisten = ksock_unlisten,
	.alloc = conn_alloc,
	.mss = conn_mss,
	.send = conn_send,
	.queued = conn_queued,
	.stalled_ns = conn_stalled_ns,
	.consumed = conn_consumed,
	.close = conn_close,
	.abort = conn_abort,
	.address = conn_address,
};
