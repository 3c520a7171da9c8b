/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets by epoll: one call for what is ready, and one readv and one sendmsg for each connection with data. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "ksock/internal.h"

enum {
	EVENTS = 64,	 /* maximum that one epoll_wait returns */
	SEGMENTS = 16,	 /* mbufs that one readv fills */
	DRAIN = 1 << 20, /* bytes of a closing connection that one turn drops */
};

struct ksock_epoll {
	int fd;
	struct rte_mbuf *spare[SEGMENTS]; /* for the next readv */
	unsigned spares;
};

/* ---- what is watched ---- */

static int epoll_open(struct ksock *ks)
{
	ks->epoll = calloc(1, sizeof(*ks->epoll));
	if (!ks->epoll)
		return -ENOMEM;
	ks->epoll->fd = epoll_create1(EPOLL_CLOEXEC);
	return ks->epoll->fd < 0 ? -errno : 0;
}

static void epoll_close(struct ksock *ks)
{
	if (!ks->epoll)
		return;
	if (ks->epoll->spares)
		rte_pktmbuf_free_bulk(ks->epoll->spare, ks->epoll->spares);
	if (ks->epoll->fd >= 0)
		close(ks->epoll->fd);
	free(ks->epoll);
	ks->epoll = NULL;
}

static int epoll_watch_listener(struct ksock *ks, bool on)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = UINT64_MAX };

	return epoll_ctl(ks->epoll->fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, ks->listen_fd, &event) < 0 ? -errno : 0;
}

static int set_events(struct ksock_conn *conn, int operation, uint32_t events)
{
	struct epoll_event event = {
		.events = events,
		.data.u64 = (uint64_t)conn->generation << 32 | ksock_index(conn),
	};

	conn->armed = events;
	return epoll_ctl(conn->ks->epoll->fd, operation, conn->fd, &event) < 0 ? -errno : 0;
}

static int epoll_add(struct ksock_conn *conn)
{
	return set_events(conn, EPOLL_CTL_ADD, EPOLLIN);
}

/* Closing the descriptor does it, because there is no duplicate. */
static void epoll_remove(struct ksock_conn *conn)
{
}

static void epoll_watch(struct ksock_conn *conn)
{
	const uint32_t events = (ksock_reads(conn) ? EPOLLIN : 0u) | (conn->full ? EPOLLOUT : 0u);

	if (events != conn->armed)
		set_events(conn, EPOLL_CTL_MOD, events);
}

/* ---- receiving ---- */

/* Keeps mbufs for one readv, so that a turn without data takes none. */
static bool fill_spares(struct ksock *ks)
{
	struct ksock_epoll *e = ks->epoll;
	const unsigned missing = SEGMENTS - e->spares;

	if (ksock_spare_mbufs(ks) < missing)
		return false;
	if (missing && rte_pktmbuf_alloc_bulk(ks->pool, &e->spare[e->spares], missing) == 0)
		e->spares = SEGMENTS;
	while (e->spares < SEGMENTS) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(ks->pool);

		if (!m)
			break;
		e->spare[e->spares++] = m;
	}
	return e->spares != 0;
}

/* Delivers what the last spares contain now; the connection may end meanwhile. */
static void deliver_read(struct ksock_conn *conn, size_t bytes)
{
	struct ksock_epoll *e = conn->ks->epoll;
	const uint16_t segment = conn->ks->segment_bytes;
	const uint32_t generation = conn->generation;

	/* The spares are used from the last one on, so that the remaining ones stay in front. */
	while (bytes) {
		const uint16_t part = (uint16_t)RTE_MIN(bytes, (size_t)segment);

		bytes -= part;
		ksock_deliver(conn, generation, e->spare[--e->spares], part);
	}
}

static unsigned read_pieces(struct ksock_conn *conn, struct iovec *pieces)
{
	const struct ksock_epoll *e = conn->ks->epoll;
	size_t room = ksock_window(conn->ks) - conn->unread;
	unsigned n = 0;

	for (; n < e->spares && room; n++) {
		struct rte_mbuf *m = e->spare[e->spares - 1 - n];

		pieces[n].iov_base = rte_pktmbuf_mtod(m, void *);
		pieces[n].iov_len = RTE_MIN(room, (size_t)conn->ks->segment_bytes);
		room -= pieces[n].iov_len;
	}
	return n;
}

static unsigned read_conn(struct ksock_conn *conn)
{
	struct ksock *ks = conn->ks;
	struct iovec pieces[SEGMENTS];
	ssize_t bytes;

	if (!ksock_has_window(conn))
		return 0;
	if (!fill_spares(ks)) {
		ks->counters.no_mbuf++;
		return 0;
	}
	bytes = readv(conn->fd, pieces, (int)read_pieces(conn, pieces));
	ks->counters.reads++;
	if (bytes > 0) {
		ksock_count_read(conn, (size_t)bytes);
		deliver_read(conn, (size_t)bytes);
	} else if (bytes == 0) {
		ksock_finish(conn);
	} else if (errno != EAGAIN && errno != EINTR) {
		ksock_fail(conn, errno);
	}
	return 1;
}

/* Data after a close. If it stayed unread, the kernel would answer the close with a RST, and drop what is still in
 * flight to the peer: often the reply with the reason why the connection ends. */
static void drain(struct ksock_conn *conn)
{
	const ssize_t bytes = recv(conn->fd, NULL, DRAIN, MSG_TRUNC | MSG_DONTWAIT);

	if (bytes == 0)
		ksock_end(conn, 0, false);
	else if (bytes < 0 && errno != EAGAIN && errno != EINTR)
		ksock_end(conn, errno, false);
}

static unsigned take_event(struct ksock *ks, const struct epoll_event *event)
{
	struct ksock_conn *conn;

	if (event->data.u64 == UINT64_MAX) {
		ksock_accept(ks);
		return 1;
	}
	conn = ksock_find(ks, (uint32_t)event->data.u64, (uint32_t)(event->data.u64 >> 32));
	if (!conn)
		return 0; /* it ended in this turn */
	if (event->events & EPOLLOUT)
		ksock_has_room(conn);
	if (event->events & EPOLLIN && conn->state == KSOCK_OPEN)
		return read_conn(conn);
	if (event->events & EPOLLIN && conn->shut)
		drain(conn);
	else if (event->events & (EPOLLERR | EPOLLHUP))
		ksock_fail_unknown(conn); /* which a read does not report: nothing more is read from this one */
	return 1;
}

static unsigned epoll_receive(struct ksock *ks)
{
	struct ksock_epoll *e = ks->epoll;
	struct epoll_event events[EVENTS];
	unsigned done = 0;
	int n;

	n = epoll_wait(e->fd, events, EVENTS, 0);
	if (n <= 0 && e->spares) {
		rte_pktmbuf_free_bulk(e->spare, e->spares);
		e->spares = 0;
	}
	for (int i = 0; i < n; i++)
		done += take_event(ks, &events[i]);
	return done;
}

/* ---- sending ---- */

static void epoll_transmit(struct ksock *ks)
{
	struct iovec pieces[KSOCK_PIECES];
	struct msghdr message = { .msg_iov = pieces };
	unsigned left = ks->unsent_count;
	struct ksock_conn *conn;

	while ((conn = ksock_next_unsent(ks, &left))) {
		ssize_t bytes;

		message.msg_iovlen = ksock_pieces(conn, pieces);
		bytes = sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
		ksock_sent(conn, bytes < 0 ? -errno : bytes);
	}
}

/* ---- sleeping ---- */

static void epoll_sleep(struct ksock *ks, int wake_fd, uint64_t ns)
{
	const struct timespec timeout = clock_timespec(ns);
	struct pollfd fds[] = { { .fd = wake_fd, .events = POLLIN }, { .fd = ks->epoll->fd, .events = POLLIN } };

	if (ppoll(fds, RTE_DIM(fds), &timeout, NULL) > 0 && fds[0].revents & POLLIN)
		ksock_read_wake(wake_fd);
}

const struct ksock_io ksock_io_epoll = {
	.name = "epoll",
	.open = epoll_open,
	.close = epoll_close,
	.watch_listener = epoll_watch_listener,
	.add = epoll_add,
	.remove = epoll_remove,
	.watch = epoll_watch,
	.receive = epoll_receive,
	.transmit = epoll_transmit,
	.sleep = epoll_sleep,
};
