/* SPDX-License-Identifier: BSD-3-Clause */
/* What precedes the loop: keys, addresses, connections, and the values of the keys. */
#include "app/starbench/starbench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

int bench_parse_address(const char *text, struct sockaddr_in *address, struct star_error *err)
{
	const char *colon = strrchr(text, ':');
	char host[INET_ADDRSTRLEN];
	char *end = NULL;
	const unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;

	*address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	if (colon && (size_t)(colon - text) < sizeof(host) && end != colon + 1 && !*end && port >= 1 && port <= 65535) {
		memcpy(host, text, (size_t)(colon - text));
		host[colon - text] = 0;
		if (inet_pton(AF_INET, host, &address->sin_addr) == 1)
			return 0;
	}
	return star_error_set(err, -EINVAL,
			      "\"%s\" is not an address: write an IPv4 address and a port, as 198.18.0.1:6379", text);
}

int bench_single_target(struct bench *b, const char *address, struct star_error *err)
{
	b->targets = calloc(1, sizeof(*b->targets));
	if (!b->targets)
		return star_error_set(err, -ENOMEM, "out of memory");
	b->targets_count = 1;
	b->targets->keys = calloc(b->options->keys, sizeof(*b->targets->keys));
	if (!b->targets->keys)
		return star_error_set(err, -ENOMEM, "out of memory for %u keys", b->options->keys);
	b->targets->keys_count = b->options->keys;
	for (uint32_t key = 0; key < b->options->keys; key++)
		b->targets->keys[key] = key;
	return bench_parse_address(address, &b->targets->address, err);
}

int bench_wrong(struct bench *b, const char *format, ...)
{
	char text[sizeof(b->why.text)];
	va_list args;

	if (b->why.code)
		return -1;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	star_error_set(&b->why, -EPROTO, "%s", text);
	return -1;
}

/* A connected socket that blocks, with a time limit; negative errno with err. */
static int dial(const struct sockaddr_in *address, struct star_error *err)
{
	const struct timeval timeout = { .tv_sec = BENCH_TIMEOUT_S };
	const int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int code;

	if (fd < 0)
		return star_error_set(err, -errno, "socket: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)); /* of connect too: socket(7) */
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
		return fd;
	code = errno == EINPROGRESS ? -ETIMEDOUT : -errno;
	close(fd);
	return star_error_set(err, code, "cannot connect to %s:%u: %s", inet_ntoa(address->sin_addr),
			      ntohs(address->sin_port), strerror(-code));
}

static int send_all(int fd, const uint8_t *out, size_t bytes)
{
	while (bytes) {
		const ssize_t sent = send(fd, out, bytes, MSG_NOSIGNAL);

		if (sent < 0)
			return -errno;
		out += sent;
		bytes -= (size_t)sent;
	}
	return 0;
}

/* One batch of filling requests, and its replies in order. */
static int fill_batch(struct bench *b, struct connection *c, const uint32_t *keys, uint32_t count, uint8_t *buffer,
		      size_t room, struct star_error *err)
{
	uint32_t out_bytes = 0, in_bytes = 0, used_bytes = 0;
	int code;

	for (uint32_t i = 0; i < count; i++, c->sent++)
		out_bytes += b->protocol->fill(b, c, keys[i], buffer + out_bytes);
	code = send_all(c->fd, buffer, out_bytes);
	for (uint32_t i = 0; i < count && !code;) {
		const int used = b->protocol->filled(b, c, keys[i], buffer + used_bytes, in_bytes - used_bytes);

		if (used > 0) {
			used_bytes += (uint32_t)used;
			c->answered++;
			i++;
		} else if (used < 0) {
			*err = b->why;
			return err->code;
		} else {
			const ssize_t got = recv(c->fd, buffer + in_bytes, room - in_bytes, 0);

			if (got > 0)
				in_bytes += (uint32_t)got;
			else
				code = got < 0 ? -errno : -ECONNRESET;
		}
	}
	if (code)
		star_error_set(err, code, "filling the keys of %s:%u: %s", inet_ntoa(c->target->address.sin_addr),
			       ntohs(c->target->address.sin_port), code == -EAGAIN ? "no answer" : strerror(-code));
	return code;
}

/* Stores a value for each key of a target, over a separate connection. */
static int fill_target(struct bench *b, const struct target *target, struct star_error *err)
{
	const size_t room = BENCH_FILL_BATCH * (BENCH_FILL_BYTES + b->options->dim * sizeof(float)) + BENCH_ROOM_BYTES;
	struct connection c = { .target = target, .session = prng_next(&b->connections[0].prng) };
	uint8_t *buffer = malloc(room);
	int code = 0;

	if (!buffer)
		return star_error_set(err, -ENOMEM, "out of memory");
	c.fd = dial(&target->address, err);
	if (c.fd < 0) {
		code = c.fd;
		goto free_buffer;
	}
	for (uint32_t first = 0; first < target->keys_count && !code; first += BENCH_FILL_BATCH) {
		const uint32_t left = target->keys_count - first;

		code = fill_batch(b, &c, target->keys + first, left < BENCH_FILL_BATCH ? left : BENCH_FILL_BATCH,
				  buffer, room, err);
	}
	close(c.fd);
free_buffer:
	free(buffer);
	return code;
}

static int open_connection(struct bench *b, struct connection *c, struct star_error *err)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };

	c->fd = dial(&c->target->address, err);
	if (c->fd < 0)
		return c->fd;
	b->live++;
	if (fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0 || epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, c->fd, &event) < 0)
		return star_error_set(err, -errno, "cannot watch a connection: %s", strerror(errno));
	for (uint32_t slot = 0; slot < b->options->depth; slot++)
		b->protocol->prepare(b, c, c->out + slot * b->request_bytes);
	return 0;
}

static int open_connections(struct bench *b, struct star_error *err)
{
	const uint32_t depth = b->options->depth;

	b->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (b->epoll_fd < 0)
		return star_error_set(err, -errno, "epoll_create1: %s", strerror(errno));
	for (uint32_t i = 0; i < b->options->connections; i++) {
		struct connection *c = &b->connections[i];
		int code;

		c->target = &b->targets[i % b->targets_count];
		c->session = prng_next(&c->prng);
		c->flights = calloc(depth, sizeof(*c->flights));
		c->in = calloc(1, (size_t)depth * b->reply_bytes + BENCH_ROOM_BYTES);
		c->out = calloc(depth, b->request_bytes);
		if (!c->flights || !c->in || !c->out)
			return star_error_set(err, -ENOMEM, "out of memory for %u connections",
					      b->options->connections);
		code = open_connection(b, c, err);
		if (code)
			return code;
	}
	return 0;
}

/* Each connection takes a file descriptor; the limit is raised as far as possible. */
static void allow_files(uint64_t files)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= files)
		return;
	limit.rlim_cur = limit.rlim_max < files ? limit.rlim_max : files;
	setrlimit(RLIMIT_NOFILE, &limit); /* if that is not enough, socket() fails with the reason */
}

/* They are closed by a RST: thousands in TIME_WAIT would leave the next run without ports. */
static int open_idle(struct bench *b, struct star_error *err)
{
	const struct linger reset = { .l_onoff = 1 };

	b->idle = calloc(b->options->idle + 1, sizeof(*b->idle));
	if (!b->idle)
		return star_error_set(err, -ENOMEM, "out of memory for %u idle connections", b->options->idle);
	for (; b->idle_count < b->options->idle; b->idle_count++) {
		const int fd = dial(&b->targets[b->idle_count % b->targets_count].address, err);

		if (fd < 0)
			return fd;
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		b->idle[b->idle_count] = fd;
	}
	return 0;
}

/* An idle connection that did not last until the end was lost. */
void bench_check_idle(struct bench *b)
{
	char byte;

	for (uint32_t i = 0; i < b->idle_count; i++)
		if (recv(b->idle[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK) >= 0 || errno != EAGAIN) {
			bench_wrong(b, "an idle connection was lost");
			b->errors++;
		}
}

struct bench *bench_create(const struct options *options, struct star_error *err)
{
	struct bench *b = calloc(1, sizeof(*b));
	struct prng prng;
	int code = 0;

	if (!b) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	b->options = options;
	allow_files((uint64_t)options->connections + options->idle + BENCH_FILES);
	b->protocol = options->protocol;
	b->epoll_fd = -1;
	b->keys = calloc(options->keys, sizeof(*b->keys));
	b->stamps = calloc(options->keys, sizeof(*b->stamps));
	b->connections = calloc(options->connections, sizeof(*b->connections));
	if (!b->keys || !b->stamps || !b->connections) {
		star_error_set(err, -ENOMEM, "out of memory for %u keys and %u connections", options->keys,
			       options->connections);
		goto destroy;
	}
	prng_seed(&prng, options->seed);
	for (uint32_t key = 0; key < options->keys; key++)
		b->keys[key] = prng_next(&prng);
	for (uint32_t i = 0; i < options->connections; i++) {
		b->connections[i].fd = -1;
		prng_seed(&b->connections[i].prng, prng_next(&prng));
	}
	code = b->protocol->open(b, err);
	for (uint32_t t = 0; b->protocol->fill && t < b->targets_count && !code; t++)
		code = fill_target(b, &b->targets[t], err);
	if (!code && !open_idle(b, err) && !open_connections(b, err))
		return b;
destroy:
	bench_destroy(b);
	return NULL;
}

void bench_destroy(struct bench *b)
{
	for (uint32_t i = 0; b->connections && i < b->options->connections; i++) {
		struct connection *c = &b->connections[i];

		if (c->fd >= 0)
			close(c->fd);
		free(c->flights);
		free(c->in);
		free(c->out);
	}
	for (uint32_t i = 0; i < b->idle_count; i++)
		close(b->idle[i]);
	free(b->idle);
	if (b->epoll_fd >= 0)
		close(b->epoll_fd);
	if (b->protocol->close)
		b->protocol->close(b);
	for (uint32_t t = 0; t < b->targets_count; t++)
		free(b->targets[t].keys);
	free(b->targets);
	free(b->connections);
	free(b->stamps);
	free(b->keys);
	free(b);
}
