/* SPDX-License-Identifier: BSD-3-Clause */
/* Over a plain TCP connection: epoll-batch's requests. */
#include "bench/peers/batches/batches.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

int stream_dial(const char *address)
{
	const struct timeval patience = { .tv_sec = TIMEOUT_S };
	struct sockaddr_in to = { .sin_family = AF_INET };
	char host[INET_ADDRSTRLEN];
	const int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	unsigned port;

	if (sscanf(address, "%15[0-9.]:%u", host, &port) != 2 || port > UINT16_MAX ||
	    inet_pton(AF_INET, host, &to.sin_addr) != 1)
		die("\"%s\" is not an address: write HOST:PORT", address);
	to.sin_port = htons((uint16_t)port);
	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		die("cannot connect to %s: %s", address, strerror(errno));
	return fd;
}

void stream_send(int fd, const void *data, uint64_t bytes)
{
	const char *from = data;

	while (bytes) {
		const ssize_t sent = send(fd, from, bytes, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			die("sending: %s", strerror(errno));
		from += sent;
		bytes -= (uint64_t)sent;
	}
}

void stream_receive(int fd, void *data, uint64_t bytes)
{
	char *to = data;

	while (bytes) {
		const ssize_t got = recv(fd, to, bytes, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			die("receiving: %s", got ? strerror(errno) : "the server has closed the connection");
		to += got;
		bytes -= (uint64_t)got;
	}
}

static int fd = -1;
static uint64_t begun, ended;

static void epoll_open(const struct worker *w)
{
	fd = stream_dial(w->address);
}

/* Head, keys and gradients in one system call, from where they lie. */
static void epoll_begin(const struct batch *batch, uint32_t depth)
{
	struct batch_head head = { .magic = BATCH_MAGIC,
				   .kind = batch->push ? BATCH_PUSH : BATCH_PULL,
				   .sequence = ++begun,
				   .count = batch->count,
				   .rate = batch->rate };
	struct iovec parts[] = { { &head, sizeof(head) },
				 { (void *)(uintptr_t)batch->keys, batch->count * sizeof(uint64_t) },
				 { (void *)(uintptr_t)batch->payload, batch->count * sizeof(struct batch_row) } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = batch->push ? 3 : 2 };

	while (message.msg_iovlen) {
		ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			die("sending: %s", strerror(errno));
		while (message.msg_iovlen && (size_t)sent >= message.msg_iov->iov_len) {
			sent -= (ssize_t)message.msg_iov->iov_len;
			message.msg_iov++;
			message.msg_iovlen--;
		}
		if (message.msg_iovlen) {
			message.msg_iov->iov_base = (char *)message.msg_iov->iov_base + sent;
			message.msg_iov->iov_len -= (size_t)sent;
		}
	}
}

static void epoll_end(const struct batch *batch)
{
	struct batch_head head;

	stream_receive(fd, &head, sizeof(head));
	if (head.magic != BATCH_MAGIC || head.sequence != ++ended || head.count != batch->count)
		die("a reply to batch %llu of %u keys, where batch %llu of %u is due",
		    (unsigned long long)head.sequence, head.count, (unsigned long long)ended, batch->count);
	if (!batch->push)
		stream_receive(fd, batch->results, batch->count * sizeof(*batch->results));
}

static void epoll_close(void)
{
	close(fd);
}

const struct side side_epoll = {
	.name = "epoll", .open = epoll_open, .begin = epoll_begin, .end = epoll_end, .close = epoll_close
};
