/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's side of a bulk transfer, as plain as can be: an epoll loop that, as its client asks, sends n bytes, as
 * much a send() as the socket takes, or reads them and compares them. What tcp-goodput and tcp-loss are held against.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/peers/bulk.h"
#include "bench/peers/listen.h"

enum { EVENTS_MAX = 64, READ_BYTES = 256 << 10, EXIT_USAGE = 2 };

struct peer {
	int fd;
	uint32_t ask_bytes; /* of the ask that have come */
	struct bulk_ask ask;
	uint64_t done; /* bytes sent or read */
	uint64_t wrong;
};

static uint8_t pattern[BULK_PATTERN_BYTES], in[READ_BYTES];

static int fail(const char *what)
{
	fprintf(stderr, "epoll-bulk: %s: %s\n", what, strerror(errno));
	return EXIT_FAILURE;
}

static void take(int epoll_fd, int listener)
{
	const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct peer *peer = fd < 0 ? NULL : calloc(1, sizeof(*peer));
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = peer };

	if (peer) {
		peer->fd = fd;
		if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
			return;
	}
	free(peer);
	if (fd >= 0)
		close(fd);
}

static bool again(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* The piece of the pattern that is due, at most what is left. */
static uint64_t piece(const struct peer *peer, const uint8_t **at)
{
	const uint64_t offset = peer->done % BULK_PATTERN_BYTES, room = BULK_PATTERN_BYTES - offset;
	const uint64_t left = peer->ask.bytes - peer->done;

	*at = pattern + offset;
	return left < room ? left : room;
}

static bool send_some(struct peer *peer)
{
	while (peer->done < peer->ask.bytes) {
		const uint8_t *at;
		const uint64_t bytes = piece(peer, &at);
		const ssize_t sent = send(peer->fd, at, bytes, MSG_NOSIGNAL);

		if (sent <= 0)
			return again(sent);
		peer->done += (uint64_t)sent;
	}
	return true; /* the client closes */
}

static bool read_some(struct peer *peer)
{
	const uint8_t *at;
	const uint64_t bytes = piece(peer, &at);
	const ssize_t got = recv(peer->fd, in, bytes < READ_BYTES ? bytes : READ_BYTES, 0);
	struct bulk_verdict verdict;

	if (got <= 0)
		return again(got);
	peer->done += (uint64_t)got;
	peer->wrong += memcmp(in, at, (size_t)got) != 0;
	if (peer->done < peer->ask.bytes)
		return true;
	verdict = (struct bulk_verdict){ peer->done, peer->wrong };
	return send(peer->fd, &verdict, sizeof(verdict), MSG_NOSIGNAL) == sizeof(verdict);
}

static bool read_ask(struct peer *peer, int epoll_fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT, .data.ptr = peer };
	const ssize_t got =
		recv(peer->fd, (uint8_t *)&peer->ask + peer->ask_bytes, sizeof(peer->ask) - peer->ask_bytes, 0);

	if (got <= 0)
		return again(got);
	peer->ask_bytes += (uint32_t)got;
	return peer->ask_bytes < sizeof(peer->ask) || peer->ask.kind == BULK_PUSH ||
	       epoll_ctl(epoll_fd, EPOLL_CTL_MOD, peer->fd, &event) == 0;
}

/* false when the peer is gone, or has all that it asked for. */
static bool serve(struct peer *peer, uint32_t events, int epoll_fd)
{
	uint8_t byte;

	if (peer->ask_bytes < sizeof(peer->ask))
		return read_ask(peer, epoll_fd);
	if (peer->ask.kind == BULK_PUSH && peer->done < peer->ask.bytes)
		return read_some(peer);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !again(recv(peer->fd, &byte, 1, 0)))
		return false;
	return peer->done < peer->ask.bytes && send_some(peer);
}

int main(int argc, char **argv)
{
	struct epoll_event events[EVENTS_MAX], event = { .events = EPOLLIN };
	int listener, epoll_fd;

	if (argc != 3) {
		fprintf(stderr, "usage: epoll-bulk ADDRESS PORT\n");
		return EXIT_USAGE;
	}
	bulk_fill(pattern);
	listener = listen_on(argv[1], argv[2]);
	if (listener < 0)
		return fail("cannot listen");
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event) < 0)
		return fail("epoll");
	for (;;) {
		const int ready = epoll_wait(epoll_fd, events, EVENTS_MAX, -1);

		for (int i = 0; i < ready; i++) {
			struct peer *peer = events[i].data.ptr;

			if (!peer) {
				take(epoll_fd, listener);
			} else if (!serve(peer, events[i].events, epoll_fd)) {
				close(peer->fd);
				free(peer);
			}
		}
	}
}
