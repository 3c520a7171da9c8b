/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets by io_uring. The kernel has mbufs (a ring of provided buffers), and a receive of each connection that stays
 * submitted (multishot): arriving data is already in mbufs when the reactor looks. One io_uring_enter in a turn sends
 * what was queued on all connections, and has the kernel deliver what has arrived meanwhile (DEFER_TASKRUN: it does so
 * only then, on the reactor's core).
 *
 * A socket stays open as long as an operation on it is under way, and an operation that waits to be submitted names its
 * socket by number. So before a socket is closed its operations are cancelled, and those that were not submitted yet
 * are made no-ops: the number may be another socket's by then. Sends do not wait in the kernel (MSG_DONTWAIT): when
 * io_uring_enter returns, it is done with their mbufs.
 */
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ksock/internal.h"

enum {
	SUBMISSIONS = 256,
	COMPLETIONS = 4096, /* more are kept by the kernel, and cost a call */
	SENDS = 128,	    /* of one io_uring_enter */
	BUFFERS_MIN = 32,   /* that the kernel has; more with more connections */
	BUFFERS_MAX = 4096,
	BUFFERS_SHARE = 8, /* but at most an eighth of the pool's mbufs */
	BUFFER_GROUP = 0,
};

/* What a completion belongs to: bits 28 to 31 of its user_data. Above is the connection's generation, below its index.
 * RECEIVE, ERROR and ROOM are bits of ksock_conn.armed. */
enum { NOTHING = 0, RECEIVE = 1, ERROR = 2, ROOM = 4, SEND, LISTENER, WAKE };
enum { KIND_SHIFT = 28, GENERATION_SHIFT = 32, INDEX_MASK = (1 << KIND_SHIFT) - 1 };

struct send {
	struct msghdr message;
	struct iovec pieces[KSOCK_PIECES];
};

struct ksock_uring {
	struct io_uring ring;
	bool made, enabled;
	struct io_uring_buf_ring *buffers;
	unsigned buffers_size;	 /* a power of two */
	struct rte_mbuf **mbufs; /* by buffer id; NULL: the kernel does not have it */
	uint16_t *free_ids;
	unsigned free_ids_count;
	/* A connection lacks an operation that it should have: there was no mbuf, or no room to submit it. */
	bool behind;
	bool tight;	    /* ksock_is_tight, as the receives that are under way suppose it */
	int listener_epoll; /* contains the listening socket while it is watched */
	bool listener_armed;
	int wake_fd;	    /* the one that is watched; -1: none */
	struct send *sends; /* the kernel reads them when they are submitted */
	unsigned sends_count;
};

static uint64_t user_data(uint32_t generation, unsigned kind, uint32_t index)
{
	return (uint64_t)generation << GENERATION_SHIFT | (uint64_t)kind << KIND_SHIFT | index;
}

static unsigned kind_of(uint64_t data)
{
	return data >> KIND_SHIFT & 15;
}

/* ---- submitting ---- */

static void enter_ring(struct ksock *ks)
{
	struct ksock_uring *u = ks->uring;

	ks->counters.enters++;
	io_uring_submit_and_get_events(&u->ring);
	if (io_uring_sq_ready(&u->ring) == 0)
		u->sends_count = 0;
}

/* NULL: the kernel accepts no more now. */
static struct io_uring_sqe *new_operation(struct ksock *ks)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ks->uring->ring);

	if (sqe)
		return sqe;
	if (ks->uring->enabled)
		enter_ring(ks);
	return io_uring_get_sqe(&ks->uring->ring);
}

/* False: there is no room for the request to the kernel. */
static bool cancel_operation(struct ksock *ks, uint64_t what)
{
	struct io_uring_sqe *sqe = new_operation(ks);

	if (!sqe)
		return false;
	io_uring_prep_cancel64(sqe, what, 0);
	sqe->user_data = user_data(0, NOTHING, 0);
	return true;
}

/* ---- mbufs for the kernel ---- */

static void give_buffer(struct ksock_uring *u, struct rte_mbuf *m, uint16_t segment, unsigned offset)
{
	const uint16_t id = u->free_ids[--u->free_ids_count];

	u->mbufs[id] = m;
	io_uring_buf_ring_add(u->buffers, rte_pktmbuf_mtod(m, void *), segment, id,
			      io_uring_buf_ring_mask(u->buffers_size), (int)offset);
}

/* As many as there are connections, because each may send something in the same turn. Fewer would stay in the
 * caches. While much waits unread, only a few: mbufs are wanted for replies. */
static void give_buffers(struct ksock *ks)
{
	struct ksock_uring *u = ks->uring;
	const unsigned all = u->tight ? BUFFERS_MIN : RTE_MAX(ks->open_count, (unsigned)BUFFERS_MIN);
	const unsigned wanted = RTE_MIN(all, u->buffers_size);
	unsigned missing = wanted > ks->buffers ? wanted - ks->buffers : 0, n = 0;

	if (missing)
		missing = RTE_MIN(missing, ksock_spare_mbufs(ks));
	for (; n < missing; n++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(ks->pool);

		if (!m)
			break;
		give_buffer(u, m, ks->segment_bytes, n);
	}
	if (n == 0)
		return;
	io_uring_buf_ring_advance(u->buffers, (int)n);
	ks->buffers += n;
}

static struct rte_mbuf *take_buffer(struct ksock *ks, uint32_t flags)
{
	struct ksock_uring *u = ks->uring;
	const uint16_t id = (uint16_t)(flags >> IORING_CQE_BUFFER_SHIFT);
	struct rte_mbuf *m = u->mbufs[id];

	u->mbufs[id] = NULL;
	u->free_ids[u->free_ids_count++] = id;
	ks->buffers--;
	return m;
}

/* ---- what is watched ---- */

static void arm(struct ksock_conn *conn, unsigned kind)
{
	struct io_uring_sqe *sqe = new_operation(conn->ks);

	if (!sqe) {
		conn->ks->uring->behind = true;
		return;
	}
	if (kind == RECEIVE) {
		/* One mbuf, or as many as available. */
		conn->goes_on = !conn->ks->uring->tight;
		if (likely(conn->goes_on))
			io_uring_prep_recv_multishot(sqe, conn->fd, NULL, 0, 0);
		else
			io_uring_prep_recv(sqe, conn->fd, NULL, conn->ks->segment_bytes, 0);
		sqe->flags |= IOSQE_BUFFER_SELECT;
		sqe->buf_group = BUFFER_GROUP;
	} else {
		/* Errors are always reported; that the peer has closed its side is reported each time a poll is
		 * submitted. So it is submitted once (multishot). */
		io_uring_prep_poll_multishot(sqe, conn->fd, kind == ROOM ? POLLOUT : 0);
	}
	sqe->user_data = user_data(conn->generation, kind, ksock_index(conn));
	conn->armed |= kind;
}

/* Room is reported once it was lacking. */
static void uring_watch(struct ksock_conn *conn)
{
	const unsigned room = conn->full ? ROOM : conn->armed & ROOM;
	const unsigned wanted = (ksock_reads(conn) ? RECEIVE : ERROR) | room;
	/* The kernel would go on filling mbufs for it before it is told that the window is small. */
	const unsigned wrong = conn->ks->uring->tight && conn->goes_on ? RECEIVE : 0;

	for (unsigned kind = RECEIVE; kind <= ROOM; kind <<= 1) {
		if (wanted & ~conn->armed & kind) {
			arm(conn, kind);
		} else if (conn->armed & (~wanted | wrong) & ~(unsigned)conn->stopped & kind) {
			if (cancel_operation(conn->ks, user_data(conn->generation, kind, ksock_index(conn))))
				conn->stopped |= (uint8_t)kind;
			else
				conn->ks->uring->behind = true;
		}
	}
}

static int uring_add(struct ksock_conn *conn)
{
	uring_watch(conn);
	return 0;
}

static void unsubmit(struct ksock_uring *u, const struct ksock_conn *conn)
{
	const struct io_uring_sq *sq = &u->ring.sq;

	for (unsigned at = sq->sqe_tail - io_uring_sq_ready(&u->ring); at != sq->sqe_tail; at++) {
		struct io_uring_sqe *sqe = &sq->sqes[at & sq->ring_mask];

		if (sqe->user_data >> GENERATION_SHIFT != conn->generation ||
		    (sqe->user_data & INDEX_MASK) != ksock_index(conn) || kind_of(sqe->user_data) == NOTHING ||
		    kind_of(sqe->user_data) > SEND)
			continue;
		io_uring_prep_nop(sqe);
		sqe->user_data = user_data(0, NOTHING, 0);
	}
}

static void uring_remove(struct ksock_conn *conn)
{
	unsubmit(conn->ks->uring, conn);
	for (unsigned kind = RECEIVE; kind <= ROOM; kind <<= 1)
		if (conn->armed & kind &&
		    !cancel_operation(conn->ks, user_data(conn->generation, kind, ksock_index(conn))))
			shutdown(conn->fd, SHUT_RDWR); /* also ends the operations */
	conn->armed = 0;
}

static void arm_listener(struct ksock *ks)
{
	struct ksock_uring *u = ks->uring;
	struct io_uring_sqe *sqe;

	if (u->listener_armed)
		return;
	sqe = new_operation(ks);
	if (!sqe) {
		u->behind = true;
		return;
	}
	io_uring_prep_poll_add(sqe, u->listener_epoll, POLLIN);
	sqe->user_data = user_data(0, LISTENER, 0);
	u->listener_armed = true;
}

/* By way of an epoll descriptor, which does not keep the listening socket open. A poll of the socket would: a killed
 * process would be gone before the kernel frees its port, and the next one could not bind it. */
static int uring_watch_listener(struct ksock *ks, bool on)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (epoll_ctl(ks->uring->listener_epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, ks->listen_fd, &event) < 0)
		return -errno;
	arm_listener(ks);
	return 0;
}

/* ---- receiving ---- */

/* The mbuf is returned to its pool, or passed to the reader. */
static void take_bytes(struct ksock_conn *conn, struct rte_mbuf *m, uint32_t bytes)
{
	const uint32_t generation = conn->generation;

	conn->ks->counters.reads++;
	if (conn->state == KSOCK_OPEN)
		ksock_count_read(conn, bytes);
	ksock_deliver(conn, generation, m, (uint16_t)bytes);
	if (conn->generation == generation && conn->state == KSOCK_OPEN && !conn->paused)
		ksock_has_window(conn);
}

/* A receive that has ended: the peer has closed its side, or it failed. */
static void receive_ended(struct ksock_conn *conn, int result)
{
	switch (result) {
	case 0:
		if (conn->shut)
			ksock_end(conn, 0, false);
		else if (conn->state == KSOCK_OPEN && !conn->finished)
			ksock_finish(conn);
		break;
	case -ENOBUFS:
	case -EAGAIN:
	case -EINTR:
	case -ECANCELED:
		break;
	default:
		if (conn->shut)
			ksock_end(conn, -result, false);
		else
			ksock_fail(conn, -result);
	}
}

static void take_of_connection(struct ksock_conn *conn, unsigned kind, const struct io_uring_cqe *cqe,
			       struct rte_mbuf *m)
{
	const uint32_t generation = conn->generation, events = cqe->res > 0 ? (uint32_t)cqe->res : 0;

	if (kind != SEND && !(cqe->flags & IORING_CQE_F_MORE)) {
		conn->armed &= ~kind;
		conn->stopped &= (uint8_t)~kind;
	}
	if (kind == SEND) {
		conn->sending = 0;
		ksock_sent(conn, cqe->res);
	} else if (m) {
		take_bytes(conn, m, (uint32_t)cqe->res);
	} else if (kind == RECEIVE) {
		receive_ended(conn, cqe->res);
	} else if (kind == ROOM && conn->full && events & (POLLOUT | POLLERR | POLLHUP)) {
		ksock_has_room(conn);
	} else if (kind == ERROR && events & (POLLERR | POLLHUP) && !ksock_reads(conn)) {
		ksock_fail_unknown(conn); /* which a read does not report */
	}
	if (conn->generation != generation)
		return;
	if (kind == RECEIVE && cqe->res == -ENOBUFS)
		conn->ks->uring->behind = true; /* not before there are mbufs */
	else
		uring_watch(conn);
}

static void take_wake(struct ksock_uring *u, uint32_t flags)
{
	ksock_read_wake(u->wake_fd);
	if (!(flags & IORING_CQE_F_MORE))
		u->wake_fd = -1;
}

/* Returns whether there was work. */
static unsigned take_completion(struct ksock *ks, const struct io_uring_cqe *cqe)
{
	struct ksock_uring *u = ks->uring;
	const unsigned kind = kind_of(cqe->user_data);
	const uint32_t generation = (uint32_t)(cqe->user_data >> GENERATION_SHIFT);
	struct rte_mbuf *m = cqe->flags & IORING_CQE_F_BUFFER ? take_buffer(ks, cqe->flags) : NULL;
	struct ksock_conn *conn;

	if (kind == NOTHING)
		return 0;
	if (kind == WAKE) {
		take_wake(u, cqe->flags);
		return 0;
	}
	if (kind == LISTENER) {
		u->listener_armed = false;
		if (ks->listens)
			ksock_accept(ks);
		arm_listener(ks);
		return 1;
	}
	conn = ksock_find(ks, (uint32_t)(cqe->user_data & INDEX_MASK), generation);
	if (m && (!conn || cqe->res <= 0)) {
		rte_pktmbuf_free(m);
		m = NULL;
	}
	if (!conn)
		return 0;
	take_of_connection(conn, kind, cqe, m);
	return kind != SEND;
}

/* Submits what could not be submitted earlier. */
static void catch_up(struct ksock *ks)
{
	struct ksock_uring *u = ks->uring;
	struct ksock_conn *conn;

	if (ks->buffers == 0) {
		ks->counters.no_mbuf++;
		return; /* an mbuf is returned when a request was answered */
	}
	u->behind = false;
	TAILQ_FOREACH(conn, &ks->open, by_age)
	{
		uring_watch(conn);
	}
	arm_listener(ks);
}

/* The ring belongs to the thread that enables it. Debian's liburing does not export io_uring_enable_rings. */
static void enable(struct ksock_uring *u)
{
	u->enabled = syscall(__NR_io_uring_register, u->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) == 0;
}

static unsigned uring_receive(struct ksock *ks)
{
	struct ksock_uring *u = ks->uring;
	struct io_uring *ring = &u->ring;
	unsigned done = 0, n;

	if (!u->enabled)
		enable(u);
	if (!io_uring_cq_ready(ring) &&
	    IO_URING_READ_ONCE(*ring->sq.kflags) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) {
		ks->counters.enters++;
		io_uring_get_events(ring);
	}
	/* Completions of sends are among them: all available ones are taken. */
	for (n = io_uring_cq_ready(ring); n; n--) {
		struct io_uring_cqe *cqe, taken;

		if (io_uring_peek_cqe(ring, &cqe) != 0)
			break;
		taken = *cqe;
		io_uring_cqe_seen(ring, cqe);
		done += take_completion(ks, &taken);
	}
	if (unlikely(u->tight != ksock_is_tight(ks))) {
		u->tight = !u->tight;
		u->behind |= u->tight; /* each receive is another one now */
	}
	give_buffers(ks);
	if (unlikely(u->behind)) {
		catch_up(ks);
		done++;
	}
	return done;
}

/* ---- sending ---- */

/* False: the kernel accepts no more now. */
static bool prepare_send(struct ksock_conn *conn)
{
	struct ksock_uring *u = conn->ks->uring;
	const int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
	struct io_uring_sqe *sqe;

	if (u->sends_count == SENDS)
		enter_ring(conn->ks);
	if (u->sends_count == SENDS)
		return false;
	/* This may submit earlier ones too, and free their entries: so ours is taken afterwards. */
	sqe = new_operation(conn->ks);
	if (!sqe)
		return false;
	if (!conn->head->next) {
		io_uring_prep_send(sqe, conn->fd, rte_pktmbuf_mtod(conn->head, void *), conn->head->data_len, flags);
	} else {
		struct send *send = &u->sends[u->sends_count++];

		send->message = (struct msghdr){ .msg_iov = send->pieces };
		send->message.msg_iovlen = ksock_pieces(conn, send->pieces);
		io_uring_prep_sendmsg(sqe, conn->fd, &send->message, (unsigned)flags);
	}
	sqe->user_data = user_data(conn->generation, SEND, ksock_index(conn));
	conn->sending = 1;
	return true;
}

static void uring_transmit(struct ksock *ks)
{
	unsigned left = ks->unsent_count;
	struct ksock_conn *conn;

	while ((conn = ksock_next_unsent(ks, &left))) {
		if (conn->sending)
			continue; /* its completion causes the rest to be sent */
		if (!prepare_send(conn)) {
			ksock_will_send(conn);
			break;
		}
	}
	if (io_uring_sq_ready(&ks->uring->ring))
		enter_ring(ks);
}

/* ---- sleeping ---- */

static void uring_sleep(struct ksock *ks, int wake_fd, uint64_t ns)
{
	struct __kernel_timespec timeout = { .tv_sec = (long long)(ns / 1000000000), .tv_nsec = ns % 1000000000 };
	struct ksock_uring *u = ks->uring;
	struct io_uring_cqe *cqe;

	if (u->wake_fd != wake_fd) {
		struct io_uring_sqe *sqe = new_operation(ks);

		if (!sqe)
			return;
		io_uring_prep_poll_multishot(sqe, wake_fd, POLLIN);
		sqe->user_data = user_data(0, WAKE, 0);
		u->wake_fd = wake_fd;
	}
	ks->counters.enters++;
	io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1, &timeout, NULL);
}

/* ---- creation and destruction ---- */

static int make_buffers(struct ksock *ks)
{
	struct ksock_uring *u = ks->uring;
	struct io_uring_buf_reg reg = { .bgid = BUFFER_GROUP };
	unsigned size = BUFFERS_MIN;

	while (size < BUFFERS_MAX && size * 2 * BUFFERS_SHARE <= ks->pool->size + 1)
		size *= 2;
	u->buffers_size = size;
	u->buffers = aligned_alloc((size_t)sysconf(_SC_PAGESIZE),
				   RTE_ALIGN_CEIL(size * sizeof(struct io_uring_buf), (size_t)sysconf(_SC_PAGESIZE)));
	u->mbufs = calloc(size, sizeof(struct rte_mbuf *));
	u->free_ids = calloc(size, sizeof(*u->free_ids));
	u->sends = calloc(SENDS, sizeof(*u->sends));
	if (!u->buffers || !u->mbufs || !u->free_ids || !u->sends)
		return -ENOMEM;
	io_uring_buf_ring_init(u->buffers);
	while (u->free_ids_count < size) {
		u->free_ids[u->free_ids_count] = (uint16_t)u->free_ids_count;
		u->free_ids_count++;
	}
	reg.ring_addr = (uintptr_t)u->buffers;
	reg.ring_entries = size;
	return io_uring_register_buf_ring(&u->ring, &reg, 0);
}

static int uring_open(struct ksock *ks)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
			 IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE,
		.cq_entries = COMPLETIONS,
	};
	int status;

	ks->uring = calloc(1, sizeof(*ks->uring));
	if (!ks->uring)
		return -ENOMEM;
	ks->uring->wake_fd = -1;
	ks->uring->listener_epoll = epoll_create1(EPOLL_CLOEXEC);
	if (ks->uring->listener_epoll < 0)
		return -errno;
	status = io_uring_queue_init_params(SUBMISSIONS, &ks->uring->ring, &params);
	if (status < 0)
		return status;
	ks->uring->made = true;
	return make_buffers(ks);
}

/* The kernel closes a ring in the background, so sockets would stay open for a moment. The operations of a thread that
 * has ended no longer exist, and another thread may not do this. */
static void cancel_all(struct ksock_uring *u)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

	if (!sqe)
		return;
	io_uring_prep_cancel64(sqe, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
	io_uring_submit_and_get_events(&u->ring);
	io_uring_get_events(&u->ring);
}

static void uring_close(struct ksock *ks)
{
	struct ksock_uring *u = ks->uring;

	if (!u)
		return;
	if (u->made) {
		cancel_all(u);
		io_uring_queue_exit(&u->ring);
	}
	for (unsigned id = 0; u->mbufs && id < u->buffers_size; id++)
		rte_pktmbuf_free(u->mbufs[id]); /* also of NULL */
	if (u->listener_epoll >= 0)
		close(u->listener_epoll);
	free(u->buffers);
	free(u->mbufs);
	free(u->free_ids);
	free(u->sends);
	free(u);
	ks->uring = NULL;
}

const struct ksock_io ksock_io_uring = {
	.name = "io_uring",
	.open = uring_open,
	.close = uring_close,
	.watch_listener = uring_watch_listener,
	.add = uring_add,
	.remove = uring_remove,
	.watch = uring_watch,
	.receive = uring_receive,
	.transmit = uring_transmit,
	.sleep = uring_sleep,
};
