/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The best that a parameter server could do on the kernel's TCP: an epoll loop that never sleeps, one recv and one send
 * a batch, rows in hugepages behind an open-addressing hash, found in passes with prefetching, and nothing else: no
 * checksums, no sessions, no types, no other optimizer than a subtraction. What store-end-to-end's ratio_best is held
 * against.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/hash.h"
#include "bench/peers/batch.h"
#include "bench/peers/listen.h"

enum {
	EVENTS_MAX = 64,
	GROUP = 64, /* keys between two passes: their rows stay in the first cache */
	ROWS_MAX = 1 << 28,
	REQUEST_MAX = sizeof(struct batch_head) + BATCH_KEYS_MAX * (sizeof(uint64_t) + sizeof(struct batch_row)),
	REPLY_MAX = sizeof(struct batch_head) + BATCH_KEYS_MAX * sizeof(struct batch_row),
	EXIT_USAGE = 2,
};

struct slot {
	uint64_t key;
	uint64_t row; /* 0: free */
};

struct table {
	struct slot *slots;
	struct batch_row *rows; /* row 0 is that of keys that are not there */
	uint64_t mask, rows_count, rows_max;
};

struct peer {
	int fd;
	uint32_t in_bytes, out_bytes, out_sent;
	_Alignas(64) uint8_t in[REQUEST_MAX];
	_Alignas(64) uint8_t out[REPLY_MAX];
};

static int fail(const char *what)
{
	fprintf(stderr, "epoll-batch: %s: %s\n", what, strerror(errno));
	return EXIT_FAILURE;
}

static void *map_memory(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, bytes, MADV_HUGEPAGE); /* where there are none it is slower, and still right */
	return memory;
}

static bool table_init(struct table *t, uint64_t rows_max)
{
	uint64_t slots = 1;

	while (slots < 2 * rows_max)
		slots *= 2;
	*t = (struct table){ .mask = slots - 1, .rows_max = rows_max };
	t->slots = map_memory(slots * sizeof(*t->slots));
	t->rows = map_memory((rows_max + 1) * sizeof(*t->rows));
	return t->slots && t->rows;
}

/* The row of a key, made if `make` and there is room; else 0. At most half of the slots are used, so there is a free
 * one. */
static uint64_t find(struct table *t, uint64_t key, bool make)
{
	uint64_t at = hash_mix(key) & t->mask;

	while (t->slots[at].row && t->slots[at].key != key)
		at = (at + 1) & t->mask;
	if (!t->slots[at].row && make && t->rows_count < t->rows_max)
		t->slots[at] = (struct slot){ key, ++t->rows_count };
	return t->slots[at].row;
}

/* Finds a group's rows: all slots are on their way before the first is looked at, and all rows before the first is
 * used. */
static void find_group(struct table *t, const uint64_t *keys, uint32_t n, bool make, struct batch_row **rows)
{
	for (uint32_t i = 0; i < n; i++)
		__builtin_prefetch(&t->slots[hash_mix(keys[i]) & t->mask]);
	for (uint32_t i = 0; i < n; i++) {
		rows[i] = &t->rows[find(t, keys[i], make)];
		__builtin_prefetch(rows[i], 1);
	}
}

/* A request that is whole; false when a row has no room. */
static bool execute(struct table *t, const struct batch_head *head, const uint64_t *keys, struct peer *peer)
{
	const struct batch_row *gradients = (const struct batch_row *)(const void *)(keys + head->count);
	struct batch_row *rows[GROUP], *out = (struct batch_row *)(void *)(peer->out + sizeof(*head));

	for (uint32_t at = 0; at < head->count; at += GROUP) {
		const uint32_t n = head->count - at < GROUP ? head->count - at : GROUP;

		find_group(t, keys + at, n, head->kind == BATCH_PUSH, rows);
		for (uint32_t i = 0; i < n; i++) {
			if (head->kind == BATCH_PULL) {
				out[at + i] = *rows[i];
				continue;
			}
			if (rows[i] == t->rows)
				return false;
			for (int e = 0; e < BATCH_DIM; e++)
				rows[i]->values[e] -= head->rate * gradients[at + i].values[e];
		}
	}
	memcpy(peer->out, head, sizeof(*head));
	peer->out_bytes = (uint32_t)sizeof(*head);
	if (head->kind == BATCH_PULL)
		peer->out_bytes += head->count * (uint32_t)sizeof(*out);
	peer->out_sent = 0;
	return true;
}

static bool flush(struct peer *peer)
{
	while (peer->out_sent < peer->out_bytes) {
		const ssize_t sent =
			send(peer->fd, peer->out + peer->out_sent, peer->out_bytes - peer->out_sent, MSG_NOSIGNAL);

		if (sent < 0)
			return errno == EAGAIN || errno == EINTR;
		peer->out_sent += (uint32_t)sent;
	}
	return true;
}

/* Executes what is whole, as long as replies go out; false when the peer makes no sense. */
static bool work(struct table *t, struct peer *peer)
{
	uint32_t used = 0;

	while (peer->out_sent == peer->out_bytes && peer->in_bytes - used >= sizeof(struct batch_head)) {
		const uint8_t *at = peer->in + used;
		struct batch_head head;
		uint32_t bytes;

		memcpy(&head, at, sizeof(head));
		if (!batch_head_good(&head))
			return false;
		bytes = (uint32_t)sizeof(head) + head.count * (uint32_t)sizeof(uint64_t);
		if (head.kind == BATCH_PUSH)
			bytes += head.count * (uint32_t)sizeof(struct batch_row);
		if (peer->in_bytes - used < bytes)
			break;
		/* Aligned: requests are multiples of 8 bytes, and the first one begins the buffer. */
		if (!execute(t, &head, (const uint64_t *)(const void *)(at + sizeof(head)), peer) || !flush(peer))
			return false;
		used += bytes;
	}
	peer->in_bytes -= used;
	if (used && peer->in_bytes)
		memmove(peer->in, peer->in + used, peer->in_bytes);
	return true;
}

static bool serve(struct table *t, struct peer *peer)
{
	ssize_t got;

	if (peer->out_sent < peer->out_bytes) {
		if (!flush(peer))
			return false;
		if (peer->out_sent < peer->out_bytes)
			return true;
	}
	/* What came behind a reply that did not go out at once is here already. */
	if (!work(t, peer))
		return false;
	if (peer->out_sent < peer->out_bytes || peer->in_bytes == REQUEST_MAX)
		return true;
	got = recv(peer->fd, peer->in + peer->in_bytes, REQUEST_MAX - peer->in_bytes, 0);
	if (got <= 0)
		return got < 0 && (errno == EAGAIN || errno == EINTR);
	peer->in_bytes += (uint32_t)got;
	return work(t, peer);
}

static void take(int epoll_fd, int listener)
{
	const int on = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct peer *peer = fd < 0 ? NULL : aligned_alloc(64, sizeof(*peer));
	/* Level triggered on both: as long as a reply waits, or a request behind one, the loop comes by. */
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT, .data.ptr = peer };

	if (peer) {
		peer->fd = fd;
		peer->in_bytes = peer->out_bytes = peer->out_sent = 0;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
			return;
	}
	free(peer);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	struct epoll_event events[EVENTS_MAX], event = { .events = EPOLLIN };
	int listener, epoll_fd;
	struct table table;
	long rows;

	rows = argc == 4 ? atol(argv[3]) : 0;
	if (rows < 1 || rows > ROWS_MAX) {
		fprintf(stderr, "usage: epoll-batch ADDRESS PORT ROWS (1 to %d)\n", ROWS_MAX);
		return EXIT_USAGE;
	}
	if (!table_init(&table, (uint64_t)rows))
		return fail("no memory");
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
			} else if (!serve(&table, peer)) {
				close(peer->fd);
				free(peer);
			}
		}
	}
}
