/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections whose lines a test writes itself. */
#include "tests/control/harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

enum { WAIT_US = 10000000 };

static int connect_raw(const struct sockaddr *address, socklen_t bytes)
{
	const struct timeval wait = { .tv_sec = WAIT_US / 1000000 };
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	if (connect(fd, address, bytes) < 0)
		unit_fail(__FILE__, __LINE__, "cannot connect: %s", strerror(errno));
	return fd;
}

int raw_connect_from(const char *source, const char *address)
{
	const struct timeval wait = { .tv_sec = WAIT_US / 1000000 };
	struct sockaddr_in from = { .sin_family = AF_INET }, to = { .sin_family = AF_INET };
	const int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	inet_pton(AF_INET, source, &from.sin_addr);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	to.sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1));
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		unit_fail(__FILE__, __LINE__, "cannot connect from %s: %s", source, strerror(errno));
	return fd;
}

int raw_connect(const char *address)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	if (address[0] != '/') {
		in.sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1));
		return connect_raw((struct sockaddr *)&in, sizeof(in));
	}
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", address);
	return connect_raw((struct sockaddr *)&un, sizeof(un));
}

bool raw_send(int fd, const void *bytes, size_t count)
{
	for (const char *at = bytes; count;) {
		ssize_t n = send(fd, at, count, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		at += n;
		count -= (size_t)n;
	}
	return true;
}

char *raw_line(int fd)
{
	size_t used = 0, size = 4096;
	char *line = malloc(size);

	for (;;) {
		ssize_t n = recv(fd, line + used, 1, 0);

		if (n != 1) {
			free(line);
			return NULL;
		}
		if (line[used] == '\n') {
			line[used] = 0;
			return line;
		}
		if (++used == size)
			line = realloc(line, size *= 2);
	}
}

int raw_code(int fd, const char *line)
{
	json_t *reply, *error;
	char *text;
	int code = 1;

	if (!raw_send(fd, line, strlen(line)) || !raw_send(fd, "\n", 1))
		return 1;
	text = raw_line(fd);
	reply = text ? json_loads(text, 0, NULL) : NULL;
	error = json_object_get(reply, "error");
	if (error && CHECK(json_string_length(json_object_get(error, "message")) > 10))
		code = (int)json_integer_value(json_object_get(error, "code"));
	else if (json_object_get(reply, "result"))
		code = 0;
	json_decref(reply);
	free(text);
	return code;
}
