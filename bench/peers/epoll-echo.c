/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The least that a server on kernel TCP can do: an epoll loop that never sleeps, reads requests of a fixed size and
 * answers each with a reply of a fixed size that repeats its first 8 bytes. What tcp-pull-rtt is held against.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/peers/listen.h"

enum { EVENTS_MAX = 64, SIZE_MIN = 8, SIZE_MAX_BYTES = 4096, BATCH_MAX = 16, EXIT_USAGE = 2 };

struct peer {
	int fd;
	size_t in_bytes;
	uint8_t in[BATCH_MAX * SIZE_MAX_BYTES];
};

static int fail(const char *what)
{
	fprintf(stderr, "epoll-echo: %s: %s\n", what, strerror(errno));
	return EXIT_FAILURE;
}

static bool parse_size(const char *text, size_t *bytes)
{
	char *end;

	*bytes = strtoul(text, &end, 10);
	return end != text && !*end && *bytes >= SIZE_MIN && *bytes <= SIZE_MAX_BYTES;
}

static void take(int epoll_fd, int listener)
{
	const int on = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct peer *peer = fd < 0 ? NULL : calloc(1, sizeof(*peer));
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = peer };

	if (peer) {
		peer->fd = fd;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
			return;
	}
	free(peer);
	if (fd >= 0)
		close(fd);
}

/* Answers every whole request that has arrived; false when the peer is gone, or does not read its replies. */
static bool serve(struct peer *peer, size_t request_bytes, size_t reply_bytes)
{
	static uint8_t out[BATCH_MAX * SIZE_MAX_BYTES];
	const ssize_t got = recv(peer->fd, peer->in + peer->in_bytes, BATCH_MAX * request_bytes - peer->in_bytes, 0);
	size_t used = 0, out_bytes = 0;

	if (got <= 0)
		return got < 0 && (errno == EAGAIN || errno == EINTR);
	peer->in_bytes += (size_t)got;
	for (; peer->in_bytes - used >= request_bytes; used += request_bytes, out_bytes += reply_bytes)
		memcpy(out + out_bytes, peer->in + used, SIZE_MIN);
	peer->in_bytes -= used;
	if (peer->in_bytes)
		memmove(peer->in, peer->in + used, peer->in_bytes);
	return !out_bytes || send(peer->fd, out, out_bytes, MSG_NOSIGNAL) == (ssize_t)out_bytes;
}

int main(int argc, char **argv)
{
	struct epoll_event events[EVENTS_MAX], event = { .events = EPOLLIN };
	size_t request_bytes, reply_bytes;
	int listener, epoll_fd;

	if (argc != 5 || !parse_size(argv[3], &request_bytes) || !parse_size(argv[4], &reply_bytes)) {
		fprintf(stderr, "usage: epoll-echo ADDRESS PORT REQUEST_BYTES REPLY_BYTES (8 to 4096 each)\n");
		return EXIT_USAGE;
	}
	listener = listen_on(argv[1], argv[2]);
	if (listener < 0)
		return fail("cannot listen");
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event) < 0)
		return fail("epoll");
	for (;;) {
		const int ready = epoll_wait(epoll_fd, events, EVENTS_MAX, 0);

		for (int i = 0; i < ready; i++) {
			struct peer *peer = events[i].data.ptr;

			if (!peer) {
				take(epoll_fd, listener);
			} else if (!serve(peer, request_bytes, reply_bytes)) {
				close(peer->fd);
				free(peer);
			}
		}
	}
}
