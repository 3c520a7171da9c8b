/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening, and new connections. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ksock/internal.h"

enum { KEEPALIVE_INTERVAL_S = 10, KEEPALIVE_PROBES = 6 };

union socket_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t fill_address(const struct net_address *host, uint16_t port, union socket_address *a)
{
	memset(a, 0, sizeof(*a));
	if (net_address_is_v4(host)) {
		a->v4 = (struct sockaddr_in){ .sin_family = AF_INET,
					      .sin_port = htons(port),
					      .sin_addr.s_addr = net_address_to_v4(host) };
		return sizeof(a->v4);
	}
	a->v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(port) };
	memcpy(&a->v6.sin6_addr, host->bytes, sizeof(host->bytes));
	return sizeof(a->v6);
}

static void set_socket(int fd, int level, int option, int value)
{
	setsockopt(fd, level, option, &value, sizeof(value)); /* advice: a connection works without it */
}

/* Connections left by an earlier process must not prevent this, hence SO_REUSEADDR at this moment; if it remained set,
 * another process could bind and listen while this one does not. */
int ksock_reserve(struct ksock *ks, uint16_t port)
{
	union socket_address a;
	const socklen_t bytes = fill_address(&ks->host, port, &a);
	int fd, status;

	fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
	if (fd < 0)
		return -errno;
	set_socket(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (bind(fd, &a.any, bytes) < 0) {
		status = -errno;
		close(fd);
		return status;
	}
	set_socket(fd, SOL_SOCKET, SO_REUSEADDR, 0);
	ks->listen_fd = fd;
	ks->port = port;
	return 0;
}

int ksock_listen(void *ctx, uint16_t port, const struct tcp_handler *handler, void *handler_ctx)
{
	struct ksock *ks = ctx;
	int status = 0;

	if (ks->listen_fd >= 0 && (ks->listens || ks->port != port))
		return -EADDRINUSE;
	if (ks->listen_fd < 0)
		status = ksock_reserve(ks, port);
	if (status < 0)
		return status;
	set_socket(ks->listen_fd, SOL_SOCKET, SO_REUSEADDR, 1);
	status = listen(ks->listen_fd, KSOCK_BACKLOG) < 0 ? -errno : ks->io->watch_listener(ks, true);
	if (status < 0) {
		close(ks->listen_fd);
		ks->listen_fd = -1;
		return status;
	}
	ks->handler = handler;
	ks->handler_ctx = handler_ctx;
	ks->listens = true;
	return 0;
}

/* The port stays this process's: new connections are refused, and those that wait to be accepted are reset. */
void ksock_unlisten(void *ctx)
{
	struct ksock *ks = ctx;

	wheel_cancel(ks->wheel, &ks->accept_timer);
	if (ks->listen_fd < 0 || !ks->listens)
		return;
	ks->listens = false;
	ks->io->watch_listener(ks, false);
	set_socket(ks->listen_fd, SOL_SOCKET, SO_REUSEADDR, 0);
	shutdown(ks->listen_fd, SHUT_RDWR);
}

static void accept_again(struct wheel_timer *timer, uint64_t now_ns)
{
	struct ksock *ks = (struct ksock *)((char *)timer - offsetof(struct ksock, accept_timer));

	if (ks->io->watch_listener(ks, true) < 0)
		wheel_arm(ks->wheel, timer, now_ns + KSOCK_ACCEPT_PAUSE_MS * UINT64_C(1000000));
}

/* Without descriptors the listening socket would remain readable, and the reactor awake. */
static void rest(struct ksock *ks)
{
	ks->counters.accept_failed++;
	ks->io->watch_listener(ks, false);
	ks->accept_timer.fire = accept_again;
	wheel_arm(ks->wheel, &ks->accept_timer, ks->now_ns + KSOCK_ACCEPT_PAUSE_MS * UINT64_C(1000000));
}

/* Nothing is in progress on it. */
static bool is_idle(const struct ksock_conn *conn)
{
	return conn->queued == 0 && conn->unread == 0;
}

/* The connection that was silent for the longest time, if that is long enough; NULL: there is none. */
static struct ksock_conn *find_idle(const struct ksock *ks)
{
	struct ksock_conn *conn;
	unsigned looks = 0;

	TAILQ_FOREACH(conn, &ks->open, by_age)
	{
		if (++looks > KSOCK_LOOKS || ks->now_ns - conn->received_ns < KSOCK_IDLE_MIN_MS * UINT64_C(1000000))
			break;
		if (is_idle(conn))
			return conn;
	}
	return NULL;
}

/* As lib/net's TCP does: of those examined, one whose address has many more connections than the newcomer's; an idle
 * one if possible, and among those the one that was silent for the longest time. */
static struct ksock_conn *find_crowded(struct ksock *ks, uint32_t newcomers)
{
	struct ksock_conn *worst = NULL;

	for (unsigned i = 0; i < KSOCK_LOOKS; i++) {
		struct ksock_conn *conn = &ks->conns[ks->hand++ % ks->connections_max];

		if (conn->state == KSOCK_FREE || !crowd_gives_way(*conn->crowd, newcomers))
			continue;
		if (!worst || is_idle(conn) > is_idle(worst) ||
		    (is_idle(conn) == is_idle(worst) && conn->received_ns < worst->received_ns))
			worst = conn;
	}
	return worst;
}

/* False: no connection can be closed. */
static bool make_conn_place(struct ksock *ks, uint32_t newcomers)
{
	struct ksock_conn *conn = find_idle(ks);

	if (!conn)
		conn = find_crowded(ks, newcomers);
	if (!conn)
		return false;
	ks->counters.idle_closed++;
	ksock_end(conn, ETIMEDOUT, true);
	return true;
}

static void open_conn(struct ksock *ks, int fd, uint32_t *crowd)
{
	struct ksock_conn *conn = TAILQ_FIRST(&ks->free);

	set_socket(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	if (ks->user_timeout_ms)
		set_socket(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)ks->user_timeout_ms);
	if (ks->keepalive_s) {
		set_socket(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
		set_socket(fd, IPPROTO_TCP, TCP_KEEPIDLE, (int)ks->keepalive_s);
		set_socket(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
		set_socket(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
	}
	*conn = (struct ksock_conn){
		.ks = ks,
		.fd = fd,
		.generation = conn->generation,
		.state = KSOCK_OPEN,
		.crowd = crowd,
		.received_ns = ks->now_ns,
		.by_age = conn->by_age,
	};
	if (ks->io->add(conn) < 0) {
		conn->state = KSOCK_FREE;
		close(fd);
		rest(ks);
		return;
	}
	TAILQ_REMOVE(&ks->free, conn, by_age);
	TAILQ_INSERT_TAIL(&ks->open, conn, by_age);
	ks->open_count++;
	++*crowd;
	ks->counters.accepted++;
	if (ks->handler->opened(ks->handler_ctx, ksock_foreign(conn), &conn->user))
		return;
	ks->counters.refused++;
	conn->user = NULL;
	ksock_end(conn, 0, true);
}

/* Without a descriptor nothing can be accepted, and the newcomer is not known: an address with more than half of all
 * connections has to give one up. */
static bool make_descriptor(struct ksock *ks)
{
	return make_conn_place(ks, ks->open_count / 4);
}

void ksock_accept(struct ksock *ks)
{
	bool made = false; /* a descriptor: without one the kernel does not say whether a connection waits, so one
			    * per turn */
	bool accepted = false;

	for (unsigned i = 0; i < KSOCK_ACCEPTS; i++) {
		struct sockaddr_storage from = { 0 };
		socklen_t bytes = sizeof(from);
		struct net_address remote = { 0 };
		uint32_t *crowd;
		uint16_t port;
		int fd = accept4(ks->listen_fd, (struct sockaddr *)&from, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
			if (accepted)
				return; /* the next turn shows whether another one waits */
			if (errno == EMFILE && !made && make_descriptor(ks)) {
				made = true;
				continue;
			}
			rest(ks); /* it was used by another thread, or the machine has none left */
			return;
		}
		if (fd < 0)
			return; /* none waits, or it has gone */
		accepted = true;
		ksock_read_address(&from, &remote, &port);
		crowd = crowd_of(&ks->crowds, &remote);
		if (TAILQ_EMPTY(&ks->free) && !make_conn_place(ks, *crowd)) {
			ks->counters.refused++;
			close(fd);
		} else {
			open_conn(ks, fd, crowd);
		}
	}
}
