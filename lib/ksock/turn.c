/* SPDX-License-Identifier: BSD-3-Clause */
/* A turn's system calls: one look at what is ready, one readv and one sendmsg for each connection that has
 * something. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "ksock/internal.h"

/* ---- receiving ---- */

/* Mbufs for one readv are at hand, so that a turn without data takes none. */
static bool fill_spares(struct ksock *ks)
{
	const unsigned missing = KSOCK_SEGMENTS - ks->spares;

	if (missing && rte_pktmbuf_alloc_bulk(ks->pool, &ks->spare[ks->spares], missing) == 0)
		ks->spares = KSOCK_SEGMENTS;
	while (ks->spares < KSOCK_SEGMENTS) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(ks->pool);

		if (!m)
			break;
		ks->spare[ks->spares++] = m;
	}
	return ks->spares != 0;
}

/* Hands up what the last spares now hold; the connection may end meanwhile. */
static void deliver_read(struct ksock_conn *conn, size_t bytes)
{
	struct ksock *ks = conn->ks;
	const uint32_t generation = conn->generation;
	struct rte_mbuf *filled[KSOCK_SEGMENTS];
	unsigned n = 0;

	/* The spares are filled from the last one on, so that those left stay in front. */
	for (; bytes; n++) {
		struct rte_mbuf *m = ks->spare[--ks->spares];
		const uint16_t part = (uint16_t)RTE_MIN(bytes, (size_t)ks->segment_bytes);

		m->data_len = part;
		m->pkt_len = part;
		bytes -= part;
		filled[n] = m;
	}
	for (unsigned i = 0; i < n; i++) {
		if (conn->generation == generation && conn->state == KSOCK_OPEN)
			ks->handler->received(conn->user, filled[i]);
		else
			rte_pktmbuf_free(filled[i]);
	}
}

static unsigned read_pieces(struct ksock_conn *conn, struct iovec *pieces)
{
	struct ksock *ks = conn->ks;
	size_t room = ks->window - conn->unread;
	unsigned n = 0;

	for (; n < ks->spares && room; n++) {
		struct rte_mbuf *m = ks->spare[ks->spares - 1 - n];

		pieces[n].iov_base = rte_pktmbuf_mtod(m, void *);
		pieces[n].iov_len = RTE_MIN(room, (size_t)ks->segment_bytes);
		room -= pieces[n].iov_len;
	}
	return n;
}

static void finish_connection(struct ksock_conn *conn)
{
	conn->finished = 1;
	ksock_watch(conn);
	conn->ks->handler->finished(conn->user);
}

static unsigned read_conn(struct ksock_conn *conn)
{
	struct ksock *ks = conn->ks;
	struct iovec pieces[KSOCK_SEGMENTS];
	ssize_t bytes;

	if (conn->unread >= ks->window) {
		conn->paused = 1;
		ksock_watch(conn);
		return 0;
	}
	if (!fill_spares(ks)) {
		ks->counters.no_mbuf++;
		return 0;
	}
	bytes = readv(conn->fd, pieces, (int)read_pieces(conn, pieces));
	ks->counters.reads++;
	if (bytes > 0) {
		ks->counters.bytes_in += (uint64_t)bytes;
		conn->bytes_in += (uint64_t)bytes;
		conn->unread += (uint32_t)bytes;
		conn->received_ns = ks->now_ns;
		TAILQ_REMOVE(&ks->open, conn, by_age);
		TAILQ_INSERT_TAIL(&ks->open, conn, by_age);
		deliver_read(conn, (size_t)bytes);
	} else if (bytes == 0) {
		finish_connection(conn);
	} else if (errno != EAGAIN && errno != EINTR) {
		ks->counters.resets++;
		ksock_end(conn, errno, false);
	}
	return 1;
}

/* What comes after a close. Where it stayed unread, the kernel would answer the close with a RST, and drop what is
 * still under way to the peer: often the reply that says why the connection ends. */
static void drain(struct ksock_conn *conn)
{
	const ssize_t bytes = recv(conn->fd, NULL, KSOCK_DRAIN, MSG_TRUNC | MSG_DONTWAIT);

	if (bytes == 0)
		ksock_end(conn, 0, false);
	else if (bytes < 0 && errno != EAGAIN && errno != EINTR)
		ksock_end(conn, errno, false);
}

/* An error that no read shows: nothing more is read from this one. */
static void take_error(struct ksock_conn *conn)
{
	int error = 0;
	socklen_t bytes = sizeof(error);

	getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
	conn->ks->counters.resets++;
	ksock_end(conn, error ? error : ECONNRESET, false);
}

static unsigned take_event(struct ksock *ks, const struct epoll_event *event)
{
	const uint32_t index = (uint32_t)event->data.u64, generation = (uint32_t)(event->data.u64 >> 32);
	struct ksock_conn *conn;

	if (event->data.u64 == UINT64_MAX) {
		ksock_accept(ks);
		return 1;
	}
	conn = &ks->conns[index];
	if (conn->state == KSOCK_FREE || conn->generation != generation)
		return 0; /* it ended in this turn */
	if (event->events & EPOLLOUT) {
		conn->full = 0;
		ksock_will_send(conn);
		ksock_watch(conn);
	}
	if (event->events & EPOLLIN && conn->state == KSOCK_OPEN)
		return read_conn(conn);
	if (event->events & EPOLLIN && conn->shut)
		drain(conn);
	else if (event->events & (EPOLLERR | EPOLLHUP))
		take_error(conn);
	return 1;
}

unsigned ksock_receive(struct ksock *ks, uint64_t now_ns)
{
	struct epoll_event events[KSOCK_EVENTS];
	unsigned done = 0;
	int n;

	ks->now_ns = now_ns;
	n = epoll_wait(ks->epoll_fd, events, KSOCK_EVENTS, 0);
	if (n <= 0 && ks->spares) {
		rte_pktmbuf_free_bulk(ks->spare, ks->spares);
		ks->spares = 0;
	}
	for (int i = 0; i < n; i++)
		done += take_event(ks, &events[i]);
	return done + ks->unsent_count; /* what can be sent now is work, too: the reactor must not sleep on it */
}

/* ---- sending ---- */

static unsigned write_pieces(const struct ksock_conn *conn, struct iovec *pieces)
{
	unsigned n = 0;

	for (struct rte_mbuf *m = conn->head; m && n < KSOCK_PIECES; m = m->next, n++)
		pieces[n] = (struct iovec){ .iov_base = rte_pktmbuf_mtod(m, void *), .iov_len = m->data_len };
	return n;
}

/* The kernel has taken n bytes. */
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

/* All of a closing connection was sent. */
static void shut_conn(struct ksock_conn *conn)
{
	if (conn->finished || shutdown(conn->fd, SHUT_WR) < 0) {
		ksock_end(conn, 0, false);
		return;
	}
	conn->shut = 1;
	wheel_arm(conn->ks->wheel, &conn->close_timer, conn->ks->now_ns + KSOCK_LINGER_MS * UINT64_C(1000000));
	ksock_watch(conn);
}

static void send_conn(struct ksock_conn *conn)
{
	struct ksock *ks = conn->ks;
	struct iovec pieces[KSOCK_PIECES];
	struct msghdr message = { .msg_iov = pieces };
	ssize_t bytes;

	if (!conn->head) {
		if (conn->state == KSOCK_CLOSING && !conn->shut)
			shut_conn(conn);
		return;
	}
	message.msg_iovlen = write_pieces(conn, pieces);
	bytes = sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	ks->counters.writes++;
	if (bytes < 0 && errno != EAGAIN && errno != EINTR) {
		ks->counters.resets++;
		ksock_end(conn, errno == EPIPE ? ECONNRESET : errno, false);
		return;
	}
	if (bytes > 0) {
		ks->counters.bytes_out += (uint64_t)bytes;
		conn->bytes_out += (uint64_t)bytes;
		conn->progress_ns = ks->now_ns;
		drop_sent(conn, (size_t)bytes);
	}
	conn->full = bytes < 0 && errno == EAGAIN;
	if (conn->full)
		ksock_watch(conn);
	else if (conn->head || conn->state == KSOCK_CLOSING)
		ksock_will_send(conn); /* the rest in the next turn */
	if (bytes > 0 && conn->state == KSOCK_OPEN)
		ks->handler->acknowledged(conn->user);
}

unsigned ksock_transmit(struct ksock *ks, uint64_t now_ns)
{
	const unsigned n = ks->unsent_count;
	struct ksock_conn *conn;

	ks->now_ns = now_ns;
	for (unsigned i = 0; i < n && (conn = TAILQ_FIRST(&ks->unsent)); i++) {
		TAILQ_REMOVE(&ks->unsent, conn, to_send);
		conn->listed = 0;
		ks->unsent_count--;
		send_conn(conn);
	}
	return n;
}
