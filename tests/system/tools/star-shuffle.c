/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A link that reorders and duplicates: carries frames between two interfaces by packet sockets, and holds some of them
 * back until a few of those behind have passed, or until nothing has come for a while. For test networks. Ends on
 * SIGTERM, and then prints what it did as a JSON object.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/prng.h"

enum {
	FRAME_MAX = 2048,
	HELD_MAX = 16,	   /* in each direction */
	PASS_MAX = 20,	   /* frames that overtake a held one */
	BURST = 64,	   /* frames taken from a side before the other has its turn */
	SILENCE_MS = 2,	   /* then nothing is held any longer */
	BUFFER = 16 << 20, /* of a socket: what does not fit in is lost */
	EXIT_USAGE = 2,
};

struct held {
	uint32_t bytes, left; /* left: frames that are still to pass; bytes 0: free */
	uint8_t frame[FRAME_MAX];
};

struct side {
	int fd;
	struct held held[HELD_MAX]; /* on the way out of this side */
};

struct wire {
	struct prng prng;
	unsigned of_thousand;
	unsigned long carried, reordered, doubled;
	struct side sides[2];
};

static volatile sig_atomic_t ended;

static void end(int number)
{
	ended = 1;
}

static int fail(const char *what)
{
	fprintf(stderr, "star-shuffle: %s: %s\n", what, strerror(errno));
	return EXIT_FAILURE;
}

static int open_side(const char *interface)
{
	const struct sockaddr_ll address = { .sll_family = AF_PACKET,
					     .sll_protocol = htons(ETH_P_ALL),
					     .sll_ifindex = (int)if_nametoindex(interface) };
	const int on = 1, bytes = BUFFER, fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	if (address.sll_ifindex != 0 && setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) == 0 &&
	    bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* What the far side does not take is lost, as on any wire. */
static void put(const struct side *out, const uint8_t *frame, size_t bytes)
{
	while (send(out->fd, frame, bytes, 0) < 0 && errno == EINTR)
		;
}

static void release(struct side *out, bool all)
{
	for (struct held *h = out->held; h < out->held + HELD_MAX; h++)
		if (h->bytes && (all || --h->left == 0)) {
			put(out, h->frame, h->bytes);
			h->bytes = 0;
		}
}

static bool hold(struct wire *w, struct side *out, const uint8_t *frame, uint32_t bytes)
{
	for (struct held *h = out->held; h < out->held + HELD_MAX; h++)
		if (!h->bytes) {
			memcpy(h->frame, frame, bytes);
			h->bytes = bytes;
			h->left = 1 + (uint32_t)prng_below(&w->prng, PASS_MAX);
			w->reordered++;
			return true;
		}
	return false;
}

static void carry(struct wire *w, struct side *out, const uint8_t *frame, uint32_t bytes)
{
	w->carried++;
	if (prng_below(&w->prng, 1000) < w->of_thousand && hold(w, out, frame, bytes))
		return;
	put(out, frame, bytes);
	if (prng_below(&w->prng, 1000) < w->of_thousand) {
		put(out, frame, bytes);
		w->doubled++;
	}
	release(out, false);
}

static void take(struct wire *w, int from)
{
	uint8_t frame[FRAME_MAX];

	for (unsigned i = 0; i < BURST; i++) {
		const ssize_t bytes = recv(w->sides[from].fd, frame, sizeof(frame), 0);

		if (bytes <= 0)
			return;
		carry(w, &w->sides[!from], frame, (uint32_t)bytes);
	}
}

int main(int argc, char **argv)
{
	static struct wire w;

	if (argc != 5) {
		fprintf(stderr, "usage: star-shuffle INTERFACE INTERFACE SEED OF_THOUSAND\n");
		return EXIT_USAGE;
	}
	signal(SIGTERM, end);
	for (int i = 0; i < 2; i++) {
		w.sides[i].fd = open_side(argv[1 + i]);
		if (w.sides[i].fd < 0)
			return fail(argv[1 + i]);
	}
	prng_seed(&w.prng, strtoull(argv[3], NULL, 10));
	w.of_thousand = (unsigned)atoi(argv[4]);
	printf("ready\n");
	fflush(stdout);
	while (!ended) {
		struct pollfd polls[2] = { { w.sides[0].fd, POLLIN, 0 }, { w.sides[1].fd, POLLIN, 0 } };

		if (poll(polls, 2, SILENCE_MS) == 0)
			for (int i = 0; i < 2; i++)
				release(&w.sides[i], true);
		for (int i = 0; i < 2; i++)
			if (polls[i].revents)
				take(&w, i);
	}
	printf("{\"carried\": %lu, \"reordered\": %lu, \"doubled\": %lu}\n", w.carried, w.reordered, w.doubled);
	return EXIT_SUCCESS;
}
