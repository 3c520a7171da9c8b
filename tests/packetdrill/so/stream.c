/* SPDX-License-Identifier: BSD-3-Clause */
/* A socket's two streams, between its user and its connection. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/packetdrill/so/shim.h"

struct sock *sock_new(int domain)
{
	struct sock *sock = calloc(1, sizeof(*sock));

	if (!sock)
		abort();
	sock->object.kind = KIND_SOCKET;
	sock->object.fd = -1;
	sock->domain = domain;
	options_init(&sock->options);
	return sock;
}

void sock_free(struct sock *sock)
{
	bytes_free(&sock->in);
	bytes_free(&sock->out);
	free(sock);
}

/* How long Linux holds what TCP_CORK or MSG_MORE keep back when nothing is on its way. */
#define HOLD_NS UINT64_C(200000000)

static bool corked(const struct sock *sock)
{
	return sock->options.cork || sock->more;
}

/* Whether a last segment that is not full waits for more data: by Nagle's algorithm, by TCP_CORK, or behind what the
 * windows hold back anyhow, where a kernel would add to it. */
static bool hold(struct sock *sock)
{
	if (sock->writing)
		return true;
	if (sock->finish || sock->close)
		return false;
	if (stack_unsent(sock->conn) > 0 || corked(sock))
		return true;
	return !sock->options.nodelay && stack_unacked(sock->conn) > 0;
}

static void finish(struct sock *sock)
{
	if (sock->out.count || !sock->conn)
		return;
	if (sock->close) {
		stack_close(sock->conn);
	} else if (sock->finish) {
		sock->finish = false;
		stack_finish(sock->conn);
	}
}

void sock_push(struct sock *sock)
{
	if (!sock->conn || sock->state != SOCK_OPEN)
		return;
	while (sock->out.count) {
		const uint32_t mss = stack_mss(sock->conn);
		const size_t next = sock->record ? sock->record : sock->out.count;
		const uint32_t bytes = next < mss ? (uint32_t)next : mss;

		if (bytes < mss && (!sock->record || sock->writing) && hold(sock))
			break;
		if (!stack_send(sock->conn, sock->out.data + sock->out.start, bytes))
			break;
		bytes_take(&sock->out, NULL, bytes, false);
		sock->record -= sock->record ? bytes : 0;
	}
	finish(sock);
	if (!sock->out.count || !sock->conn || !corked(sock) || stack_unacked(sock->conn))
		sock->held_ns = 0;
	else if (!sock->held_ns)
		sock->held_ns = shim.now_ns + HOLD_NS;
}

void sock_release(struct sock *sock)
{
	const int cork = sock->options.cork;

	sock->held_ns = 0;
	sock->options.cork = sock->more = 0;
	sock_push(sock);
	sock->options.cork = cork;
}

static size_t queued(const struct sock *sock)
{
	return sock->out.count + (sock->conn ? stack_unacked(sock->conn) : 0);
}

/* A buffer of Linux holds at most half of the largest window, in whole segments, and has this much memory besides. */
enum { BUFFER_OVERHEAD = 1280, BUFFER_MAX = 65000 };

static size_t buffer_bytes(const struct sock *sock)
{
	struct stack_info info;
	size_t bytes = BUFFER_MAX;
	const size_t mss = stack_mss(sock->conn);

	stack_info(sock->conn, &info);
	if (info.snd_wnd_max / 2 < bytes)
		bytes = info.snd_wnd_max / 2;
	return bytes < mss ? mss : bytes / mss * mss;
}

static size_t charged(const struct sock *sock)
{
	const size_t all = queued(sock);

	if (!sock->conn || !all)
		return all;
	return all + (all + buffer_bytes(sock) - 1) / buffer_bytes(sock) * BUFFER_OVERHEAD;
}

static unsigned unsent(const struct sock *sock)
{
	return (unsigned)sock->out.count + (sock->conn ? stack_unsent(sock->conn) : 0);
}

/* How much may be unsent: the option's, or else the sysctl's. */
static unsigned lowat(const struct sock *sock)
{
	return sock->options.notsent_lowat ? sock->options.notsent_lowat
					   : (unsigned)shim_setting("net/ipv4/tcp_notsent_lowat", 0, UINT32_MAX);
}

static bool sock_lowat_reached(const struct sock *sock)
{
	return unsent(sock) >= lowat(sock);
}

/* While there is any room, Linux begins a buffer and fills it; it also fills the one that it has begun. */
size_t sock_room(const struct sock *sock)
{
	const size_t waiting = sock->out.count + (sock->conn ? stack_unsent(sock->conn) : 0);
	const size_t buffer = sock->conn ? buffer_bytes(sock) : BUFFER_MAX;

	if (waiting % buffer)
		return buffer - waiting % buffer;
	return charged(sock) < (size_t)sock->options.sndbuf && !sock_lowat_reached(sock) ? buffer : 0;
}

/* A third of the buffer must be free before a writer is woken, and less than half of the low-water mark unsent. */
bool sock_writable(const struct sock *sock)
{
	if (sock->state == SOCK_ENDED || sock->write_shut || sock->state == SOCK_NEW)
		return true;
	if (sock->state != SOCK_OPEN)
		return false;
	return (size_t)sock->options.sndbuf >= charged(sock) + charged(sock) / 2 &&
	       2 * (uint64_t)unsent(sock) < lowat(sock);
}

bool sock_readable(const struct sock *sock)
{
	if (sock->state == SOCK_LISTENING)
		return sock->waiting != NULL;
	return sock->in.count > 0 || sock->eof || sock->read_shut || sock->state == SOCK_ENDED ||
	       sock->state == SOCK_NEW;
}

unsigned sock_events(const struct sock *sock)
{
	unsigned events = 0;

	if (sock->state == SOCK_LISTENING)
		return sock->waiting ? EPOLLIN | EPOLLRDNORM : 0;
	if (sock->error || sock->notices.count)
		events |= EPOLLERR;
	if (sock->state == SOCK_NEW)
		return events | EPOLLOUT | EPOLLWRNORM | EPOLLHUP;
	if (sock->state == SOCK_ENDED || ((sock->eof || sock->read_shut) && sock->write_shut))
		events |= EPOLLHUP;
	if (sock->eof || sock->read_shut || sock->state == SOCK_ENDED)
		events |= EPOLLIN | EPOLLRDNORM | EPOLLRDHUP;
	if (sock->in.count)
		events |= EPOLLIN | EPOLLRDNORM;
	if (sock_writable(sock))
		events |= EPOLLOUT | EPOLLWRNORM;
	return events;
}

struct sock *socket_opened(struct sock *listener, struct sock *sock, struct tcp_conn *conn)
{
	if (listener) {
		struct sock **end = &listener->waiting;

		sock = sock_new(listener->domain);
		sock->options = listener->options;
		sock->listener = listener;
		while (*end)
			end = &(*end)->next;
		*end = sock;
		listener->in_edges++;
	}
	sock->conn = conn;
	sock->state = SOCK_OPEN;
	stack_addresses(conn, &sock->local, &sock->remote);
	sock->family = sock->remote.family;
	sock->received_ns = shim.now_ns;
	sock->out_edges++;
	sock_apply(sock);
	sock_push(sock);
	return sock;
}

void socket_received(struct sock *sock, const void *data, uint32_t bytes)
{
	bytes_put(&sock->in, data, bytes);
	sock->received_ns = shim.now_ns;
	sock->in_edges++;
}

void socket_acknowledged(struct sock *sock)
{
	sock->more = false;
	sock_push(sock);
	notices_acknowledged(sock, sock->written - queued(sock));
	if (sock->full && sock_writable(sock)) {
		sock->full = false;
		sock->out_edges++;
	}
}

void socket_finished(struct sock *sock)
{
	sock->eof = true;
	sock->in_edges++;
}

void socket_closed(struct sock *sock, int reason)
{
	sock->conn = NULL;
	sock->state = SOCK_ENDED;
	sock->eof = true;
	sock->in_edges++;
	sock->out_edges++;
	if (reason) {
		sock->error = reason;
		sock->ended_by_error = true;
	}
	if (sock->close)
		sock_free(sock);
}
