/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that make, connect and end sockets. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "tests/packetdrill/so/shim.h"

int shim_socket(void *self, int domain, int type, int protocol)
{
	struct sock *sock;
	int fd;

	if ((domain != AF_INET && domain != AF_INET6) || (type & 0xf) != SOCK_STREAM ||
	    (protocol != 0 && protocol != IPPROTO_TCP)) {
		errno = domain == AF_INET || domain == AF_INET6 ? EPROTONOSUPPORT : EAFNOSUPPORT;
		return -1;
	}
	shim_enter();
	sock = sock_new(domain);
	sock->object.nonblocking = type & SOCK_NONBLOCK;
	fd = shim_install(&sock->object);
	if (fd < 0)
		sock_free(sock);
	return (int)shim_leave(fd);
}

static int bind_sock(struct sock *sock, const struct sockaddr *address, socklen_t bytes)
{
	struct endpoint local;

	if (sock->state != SOCK_NEW || sock->local.family != AF_UNSPEC) {
		errno = EINVAL;
		return -1;
	}
	if (endpoint_from(&local, sock, address, bytes) < 0 || !shim_stack_for(&local))
		return -1;
	sock->local = local;
	return 0;
}

int shim_bind(void *self, int fd, const struct sockaddr *address, socklen_t bytes)
{
	struct sock *sock;

	shim_enter();
	sock = shim_sock(fd);
	return (int)shim_leave(sock ? bind_sock(sock, address, bytes) : -1);
}

static int listen_sock(struct sock *sock)
{
	int result;

	if (sock->state == SOCK_LISTENING)
		return 0;
	if (sock->state != SOCK_NEW || sock->local.family == AF_UNSPEC || !shim_stack_for(&sock->local)) {
		errno = EINVAL;
		return -1;
	}
	result = stack_listen(sock->local.port, sock, sock_receive_bytes(sock));
	if (result < 0) {
		errno = -result;
		return -1;
	}
	sock->state = SOCK_LISTENING;
	return 0;
}

int shim_listen(void *self, int fd, int backlog)
{
	struct sock *sock;

	shim_enter();
	sock = shim_sock(fd);
	return (int)shim_leave(sock ? listen_sock(sock) : -1);
}

static bool has_waiting(void *ctx)
{
	const struct sock *sock = ctx;

	return sock->waiting != NULL || sock->state != SOCK_LISTENING;
}

static int accept_sock(struct sock *listener, struct sockaddr *address, socklen_t *bytes)
{
	struct sock *sock;

	if (listener->state != SOCK_LISTENING) {
		errno = EINVAL;
		return -1;
	}
	if (!listener->waiting &&
	    (listener->object.nonblocking || !shim_wait(has_waiting, listener, SHIM_FOREVER) || !listener->waiting)) {
		errno = EAGAIN;
		return -1;
	}
	sock = listener->waiting;
	if (shim_install(&sock->object) < 0)
		return -1;
	listener->waiting = sock->next;
	sock->next = sock->listener = NULL;
	endpoint_to(&sock->remote, sock, address, bytes);
	return sock->object.fd;
}

int shim_accept(void *self, int fd, struct sockaddr *address, socklen_t *bytes)
{
	struct sock *sock;

	shim_enter();
	sock = shim_sock(fd);
	return (int)shim_leave(sock ? accept_sock(sock, address, bytes) : -1);
}

static bool has_connected(void *ctx)
{
	return ((const struct sock *)ctx)->state != SOCK_CONNECTING;
}

static int wait_connected(struct sock *sock)
{
	if (sock->object.nonblocking) {
		errno = EINPROGRESS;
		return -1;
	}
	if (!shim_wait(has_connected, sock, SHIM_FOREVER)) {
		errno = EINTR;
		return -1;
	}
	if (sock->state == SOCK_OPEN)
		return 0;
	errno = sock->error ? sock->error : ECONNABORTED;
	sock->error = 0;
	sock->state = SOCK_NEW;
	return -1;
}

int sock_connect(struct sock *sock, const struct sockaddr *address, socklen_t bytes)
{
	struct endpoint any = { .family = AF_INET };
	int result;

	if (sock->state == SOCK_OPEN || sock->state == SOCK_CONNECTING || sock->state == SOCK_LISTENING) {
		errno = sock->state == SOCK_CONNECTING ? EALREADY : EISCONN;
		return -1;
	}
	if (sock->error) {
		errno = sock->error;
		sock->error = 0;
		return -1;
	}
	if (endpoint_from(&sock->remote, sock, address, bytes) < 0)
		return -1;
	any.family = sock->family = sock->remote.family;
	if (!shim_stack_for(sock->local.family == AF_UNSPEC ? &any : &sock->local))
		return -1;
	result = stack_connect(sock, &sock->local, &sock->remote, sock_receive_bytes(sock), &sock->conn);
	if (result < 0) {
		errno = -result;
		return -1;
	}
	stack_addresses(sock->conn, &sock->local, &sock->remote);
	sock->state = SOCK_CONNECTING;
	sock->eof = sock->ended_by_error = false;
	return wait_connected(sock);
}

int shim_connect(void *self, int fd, const struct sockaddr *address, socklen_t bytes)
{
	struct sock *sock;

	shim_enter();
	sock = shim_sock(fd);
	return (int)shim_leave(sock ? sock_connect(sock, address, bytes) : -1);
}

/* Unread data, or a linger time of 0, makes the end a reset (RFC 2525, 2.17). */
static void close_sock(struct sock *sock)
{
	if (sock->state == SOCK_LISTENING) {
		stack_unlisten(sock->local.port);
		while (sock->waiting) {
			struct sock *waiting = sock->waiting;

			sock->waiting = waiting->next;
			waiting->close = true;
			if (waiting->conn)
				stack_abort(waiting->conn);
			else
				sock_free(waiting);
		}
	}
	if (!sock->conn) {
		sock_free(sock);
		return;
	}
	sock->close = true;
	if (sock->state == SOCK_OPEN &&
	    (sock->in.count || (sock->options.linger.l_onoff && !sock->options.linger.l_linger)))
		stack_abort(sock->conn);
	else if (sock->state == SOCK_CONNECTING)
		stack_close(sock->conn);
	else
		sock_push(sock);
}

int shim_close(void *self, int fd)
{
	struct object *object;

	shim_enter();
	object = shim_object(fd);
	if (!object)
		return (int)shim_leave(-1);
	shim_remove(object);
	if (object->kind == KIND_SOCKET)
		close_sock((struct sock *)object);
	else
		object_free(object);
	return (int)shim_leave(0);
}

static int shutdown_sock(struct sock *sock, int how)
{
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) {
		errno = EINVAL;
		return -1;
	}
	if (sock->state != SOCK_OPEN) {
		errno = ENOTCONN;
		return -1;
	}
	if (how != SHUT_WR)
		sock->read_shut = true;
	if (how != SHUT_RD && !sock->write_shut) {
		sock->write_shut = sock->finish = true;
		sock_push(sock);
	}
	sock->in_edges++;
	sock->out_edges++;
	return 0;
}

int shim_shutdown(void *self, int fd, int how)
{
	struct sock *sock;

	shim_enter();
	sock = shim_sock(fd);
	return (int)shim_leave(sock ? shutdown_sock(sock, how) : -1);
}
