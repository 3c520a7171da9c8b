/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads datagrams by recvmmsg, as many at a time as there are, and counts them: what of bare-send's frames a receiver
 * on the kernel takes in. From the first one on, for n seconds; then prints a JSON object.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

enum { BATCH = 64, DATAGRAM_MAX = 2048, BUFFER = 4 << 20, PATIENCE_S = 10, EXIT_USAGE = 2 };

static int fail(const char *what)
{
	fprintf(stderr, "udp-count: %s: %s\n", what, strerror(errno));
	return EXIT_FAILURE;
}

static int open_socket(const char *host, const char *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	const int bytes = BUFFER, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
		errno = EINVAL;
	else if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) == 0 &&
		 setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
		 bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	return -1;
}

int main(int argc, char **argv)
{
	static uint8_t in[BATCH][DATAGRAM_MAX];
	static struct mmsghdr messages[BATCH];
	static struct iovec pieces[BATCH];
	uint64_t began_ns = 0, now_ns = 0, count = 0, bytes = 0;
	double seconds;
	int fd;

	if (argc != 4 || (seconds = strtod(argv[3], NULL)) <= 0) {
		fprintf(stderr, "usage: udp-count ADDRESS PORT SECONDS\n");
		return EXIT_USAGE;
	}
	fd = open_socket(argv[1], argv[2]);
	if (fd < 0)
		return fail("cannot listen");
	for (int i = 0; i < BATCH; i++) {
		pieces[i] = (struct iovec){ in[i], DATAGRAM_MAX };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &pieces[i], .msg_iovlen = 1 };
	}
	do {
		const int n = recvmmsg(fd, messages, BATCH, MSG_WAITFORONE, NULL);

		if (n < 0)
			return fail("reading");
		now_ns = clock_ns();
		if (began_ns == 0) {
			began_ns = now_ns;
			continue;
		}
		for (int i = 0; i < n; i++)
			bytes += messages[i].msg_len;
		count += (uint64_t)n;
	} while ((double)(now_ns - began_ns) * 1e-9 < seconds);
	printf("{\"datagrams\": %llu, \"bytes\": %llu, \"seconds\": %.6f}\n", (unsigned long long)count,
	       (unsigned long long)bytes, (double)(now_ns - began_ns) * 1e-9);
	return EXIT_SUCCESS;
}
