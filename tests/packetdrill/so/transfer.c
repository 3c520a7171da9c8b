/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that move data. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>

#include "tests/packetdrill/so/shim.h"

static size_t parts_bytes(const struct iovec *parts, size_t count)
{
	size_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += parts[i].iov_len;
	return bytes;
}

/* Whether memory is there to be read or written, asked of the kernel: a script passes NULL to see EFAULT. */
static bool faulty(const struct iovec *parts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (parts[i].iov_len && !parts[i].iov_base)
			return true;
	return false;
}

static bool may_write(void *ctx)
{
	const struct sock *sock = ctx;

	return sock->state != SOCK_CONNECTING && sock_writable(sock);
}

static int write_error(struct sock *sock)
{
	errno = sock->error ? sock->error : EPIPE;
	sock->error = 0;
	return -1;
}

/* Puts what there is room for; returns how much of it all is done then. */
static size_t put(struct sock *sock, const struct iovec *parts, size_t count, size_t done)
{
	size_t before = done;

	sock->writing = true;
	for (size_t i = 0; i < count; i++) {
		const size_t length = parts[i].iov_len;

		if (before >= length) {
			before -= length;
			continue;
		}
		while (before < length) {
			const size_t room = sock_room(sock);
			const size_t part = length - before < room ? length - before : room;

			if (room == 0) {
				sock->writing = false;
				return done;
			}
			bytes_put(&sock->out, (const char *)parts[i].iov_base + before, part);
			sock->written += part;
			before += part;
			done += part;
			sock_push(sock);
			stack_turn(shim.now_ns); /* what goes at once leaves its buffer to the next bytes */
		}
		before = 0;
	}
	sock->writing = false;
	return done;
}

ssize_t sock_write(struct sock *sock, const struct iovec *parts, size_t count, int flags)
{
	const size_t all = parts_bytes(parts, count);
	const bool nonblocking = sock->object.nonblocking || flags & MSG_DONTWAIT;
	size_t done = 0;

	if (sock->state == SOCK_NEW || sock->state == SOCK_LISTENING || sock->state == SOCK_ENDED || sock->write_shut)
		return write_error(sock);
	if (all == 0)
		return 0;
	if (faulty(parts, count)) {
		errno = EFAULT;
		return -1;
	}
	sock->more = flags & MSG_MORE;
	for (;;) {
		if (sock->state == SOCK_OPEN)
			done = put(sock, parts, count, done);
		if (done == all)
			break;
		sock->full = true;
		if (nonblocking) {
			if (done)
				break;
			errno = EAGAIN;
			return -1;
		}
		if (!shim_wait(may_write, sock, SHIM_FOREVER) || sock->state != SOCK_OPEN || sock->write_shut)
			return done ? (ssize_t)done : write_error(sock);
	}
	if (flags & MSG_EOR && done == all)
		sock->record = sock->out.count;
	if (flags & MSG_ZEROCOPY)
		notices_sent(sock, done);
	sock_push(sock);
	return (ssize_t)done;
}

static bool may_read(void *ctx)
{
	return sock_readable(ctx);
}

ssize_t sock_read(struct sock *sock, const struct iovec *parts, size_t count, int flags)
{
	const bool nonblocking = sock->object.nonblocking || flags & MSG_DONTWAIT;
	size_t done = 0;

	if (sock->state == SOCK_NEW || sock->state == SOCK_LISTENING) {
		errno = ENOTCONN;
		return -1;
	}
	if (!sock_readable(sock) && parts_bytes(parts, count) > 0 &&
	    (nonblocking || !shim_wait(may_read, sock, SHIM_FOREVER))) {
		errno = EAGAIN;
		return -1;
	}
	if (sock->in.count == 0 && sock->error) {
		errno = sock->error;
		sock->error = 0;
		return -1;
	}
	if (sock->in.count && faulty(parts, count)) {
		errno = EFAULT;
		return -1;
	}
	for (size_t i = 0; i < count; i++)
		done += bytes_take(&sock->in, parts[i].iov_base, parts[i].iov_len, flags & MSG_PEEK);
	if (sock->conn && !(flags & MSG_PEEK))
		stack_consumed(sock->conn, (uint32_t)done, sock_receive_bytes(sock));
	return (ssize_t)done;
}

static ssize_t pipe_write(struct pipe_end *end, const void *data, size_t bytes)
{
	if (!end->writes || !end->other) {
		errno = end->writes ? EPIPE : EBADF;
		return -1;
	}
	bytes_put(&end->other->bytes, data, bytes);
	return (ssize_t)bytes;
}

static ssize_t pipe_read(struct pipe_end *end, void *data, size_t bytes)
{
	if (end->writes) {
		errno = EBADF;
		return -1;
	}
	return (ssize_t)bytes_take(&end->bytes, data, bytes, false);
}

static ssize_t transfer(int fd, const struct iovec *parts, size_t count, int flags, bool writes)
{
	struct object *object;
	ssize_t result = -1;

	shim_enter();
	object = shim_object(fd);
	if (object && object->kind == KIND_SOCKET && writes)
		result = sock_write((struct sock *)object, parts, count, flags);
	else if (object && object->kind == KIND_SOCKET)
		result = sock_read((struct sock *)object, parts, count, flags);
	else if (object && object->kind == KIND_PIPE && count == 1)
		result = writes ? pipe_write((struct pipe_end *)object, parts[0].iov_base, parts[0].iov_len)
				: pipe_read((struct pipe_end *)object, parts[0].iov_base, parts[0].iov_len);
	else if (object)
		errno = EINVAL;
	return shim_leave(result);
}

ssize_t shim_read(void *self, int fd, void *data, size_t bytes)
{
	const struct iovec part = { data, bytes };

	return transfer(fd, &part, 1, 0, false);
}

ssize_t shim_readv(void *self, int fd, const struct iovec *parts, int count)
{
	return transfer(fd, parts, (size_t)count, 0, false);
}

ssize_t shim_recv(void *self, int fd, void *data, size_t bytes, int flags)
{
	const struct iovec part = { data, bytes };

	return transfer(fd, &part, 1, flags, false);
}

ssize_t shim_recvfrom(void *self, int fd, void *data, size_t bytes, int flags, struct sockaddr *address,
		      socklen_t *address_bytes)
{
	return shim_recv(self, fd, data, bytes, flags);
}

/* TCP_INQ: how much is still unread. */
static void put_unread(const struct sock *sock, struct msghdr *message)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(message);
	const int unread = (int)sock->in.count + (sock->in.count == 0 && sock->eof);

	if (!c || message->msg_controllen < CMSG_SPACE(sizeof(unread))) {
		message->msg_controllen = 0;
		return;
	}
	c->cmsg_level = IPPROTO_TCP;
	c->cmsg_type = TCP_CM_INQ;
	c->cmsg_len = CMSG_LEN(sizeof(unread));
	memcpy(CMSG_DATA(c), &unread, sizeof(unread));
	message->msg_controllen = CMSG_SPACE(sizeof(unread));
}

ssize_t shim_recvmsg(void *self, int fd, struct msghdr *message, int flags)
{
	ssize_t result;
	struct sock *sock;

	if (flags & MSG_ERRQUEUE) {
		shim_enter();
		sock = shim_sock(fd);
		return shim_leave(sock ? notices_read(sock, message) : -1);
	}
	result = transfer(fd, message->msg_iov, message->msg_iovlen, flags, false);
	shim_enter();
	sock = shim_sock(fd);
	message->msg_flags = 0;
	message->msg_namelen = 0;
	if (sock && result >= 0 && sock->options.inq)
		put_unread(sock, message);
	else
		message->msg_controllen = 0;
	return shim_leave(result);
}

ssize_t shim_write(void *self, int fd, const void *data, size_t bytes)
{
	const struct iovec part = { (void *)(uintptr_t)data, bytes };

	return transfer(fd, &part, 1, 0, true);
}

ssize_t shim_writev(void *self, int fd, const struct iovec *parts, int count)
{
	return transfer(fd, parts, (size_t)count, 0, true);
}

ssize_t shim_send(void *self, int fd, const void *data, size_t bytes, int flags)
{
	const struct iovec part = { (void *)(uintptr_t)data, bytes };

	return transfer(fd, &part, 1, flags, true);
}

ssize_t shim_sendto(void *self, int fd, const void *data, size_t bytes, int flags, const struct sockaddr *address,
		    socklen_t address_bytes)
{
	if (flags & MSG_FASTOPEN) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return shim_send(self, fd, data, bytes, flags);
}

ssize_t shim_sendmsg(void *self, int fd, const struct msghdr *message, int flags)
{
	if (flags & MSG_FASTOPEN) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return transfer(fd, message->msg_iov, message->msg_iovlen, flags, true);
}
