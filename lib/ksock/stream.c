/* SPDX-License-Identifier: BSD-3-Clause */
/* What both implementations do with the kernel's answers. */
#include <errno.h>
#include <sys/socket.h>

#include "ksock/internal.h"

/* ---- receiving ---- */

void ksock_count_read(struct ksock_conn *conn, size_t bytes)
{
	struct ksock *ks = conn->ks;

	ks->counters.bytes_in += bytes;
	conn->bytes_in += bytes;
	conn->unread += (uint32_t)bytes;
	ks->unread += bytes;
	conn->received_ns = ks->now_ns;
	TAILQ_REMOVE(&ks->open, conn, by_age);
	TAILQ_INSERT_TAIL(&ks->open, conn, by_age);
}

void ksock_deliver(struct ksock_conn *conn, uint32_t generation, struct rte_mbuf *m, uint16_t bytes)
{
	m->data_len = bytes;
	m->pkt_len = bytes;
	if (conn->generation == generation && conn->state == KSOCK_OPEN)
		conn->ks->handler->received(conn->user, m);
	else
		rte_pktmbuf_free(m);
}

bool ksock_has_window(struct ksock_conn *conn)
{
	if (conn->unread < ksock_window(conn->ks))
		return true;
	conn->paused = 1;
	conn->ks->io->watch(conn);
	return false;
}

void ksock_finish(struct ksock_conn *conn)
{
	conn->finished = 1;
	conn->ks->io->watch(conn);
	conn->ks->handler->finished(conn->user);
}

void ksock_fail(struct ksock_conn *conn, int error)
{
	conn->ks->counters.resets++;
	ksock_end(conn, error, false);
}

void ksock_fail_unknown(struct ksock_conn *conn)
{
	int error = 0;
	socklen_t bytes = sizeof(error);

	getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
	ksock_fail(conn, error ? error : ECONNRESET);
}

/* ---- sending ---- */

void ksock_has_room(struct ksock_conn *conn)
{
	conn->full = 0;
	ksock_will_send(conn);
	conn->ks->io->watch(conn);
}

/* All of a closing connection was sent. */
static void shut_conn(struct ksock_conn *conn)
{
	if (conn->finished || shutdown(conn->fd, SHUT_WR) < 0) {
		ksock_end(conn, 0, false);
		return;
	}
	conn->shut = 1;
	wheel_arm(conn->ks->wheel, &conn->close_timer, conn->ks->now_ns + KSOCK_LINGER_MS * UINT64_C(1000000));
	conn->ks->io->watch(conn);
}

struct ksock_conn *ksock_next_unsent(struct ksock *ks, unsigned *left)
{
	struct ksock_conn *conn;

	while (*left && (conn = TAILQ_FIRST(&ks->unsent))) {
		--*left;
		TAILQ_REMOVE(&ks->unsent, conn, to_send);
		conn->listed = 0;
		ks->unsent_count--;
		if (conn->head)
			return conn;
		if (conn->state == KSOCK_CLOSING && !conn->shut)
			shut_conn(conn);
	}
	return NULL;
}

unsigned ksock_pieces(const struct ksock_conn *conn, struct iovec *pieces)
{
	unsigned n = 0;

	for (struct rte_mbuf *m = conn->head; m && n < KSOCK_PIECES; m = m->next, n++)
		pieces[n] = (struct iovec){ .iov_base = rte_pktmbuf_mtod(m, void *), .iov_len = m->data_len };
	return n;
}

/* The kernel has accepted n bytes. */
static void drop_sent(struct ksock_conn *conn, size_t bytes)
{
	conn->queued -= (uint32_t)bytes;
	while (bytes) {
		struct rte_mbuf *m = conn->head;
		const uint16_t part = (uint16_t)RTE_MIN(bytes, (size_t)m->data_len);

		bytes -= part;
		if (part < m->data_len) {
			rte_pktmbuf_adj(m, part);
			break;
		}
		conn->head = m->next;
		if (!conn->head)
			conn->tail = NULL;
		m->next = NULL;
		rte_pktmbuf_free(m);
	}
}

void ksock_sent(struct ksock_conn *conn, ssize_t result)
{
	struct ksock *ks = conn->ks;

	ks->counters.writes++;
	if (result < 0 && result != -EAGAIN && result != -EINTR) {
		ksock_fail(conn, result == -EPIPE ? ECONNRESET : (int)-result);
		return;
	}
	if (result > 0) {
		ks->counters.bytes_out += (uint64_t)result;
		conn->bytes_out += (uint64_t)result;
		conn->progress_ns = ks->now_ns;
		drop_sent(conn, (size_t)result);
	}
	conn->full = result == -EAGAIN;
	if (conn->full)
		ks->io->watch(conn);
	else if (conn->head || conn->state == KSOCK_CLOSING)
		ksock_will_send(conn); /* the rest in the next turn */
	if (result > 0 && conn->state == KSOCK_OPEN)
		ks->handler->acknowledged(conn->user);
}
