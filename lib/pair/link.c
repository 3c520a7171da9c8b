/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair/link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "jsonrpc/jsonrpc.h"

enum { POLL_US_MAX = 100000 };

struct pair_link {
	int fd;
	struct secure_link *tls;       /* NULL: not encrypted */
	struct jsonrpc_client *client; /* owns fd and tls on the connecting side */
};

struct pair_link *pair_link_connect(const char *source, const struct secure_keys *keys, const char *address,
				    uint64_t until_us, struct star_error *err)
{
	const uint64_t now_us = clock_us();
	struct pair_link *link = calloc(1, sizeof(*link));

	if (!link) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	link->client = jsonrpc_connect_from(source, keys, address, until_us > now_us ? until_us - now_us : 0, err);
	if (!link->client) {
		free(link);
		return NULL;
	}
	jsonrpc_stream(link->client, &link->fd, &link->tls);
	return link;
}

static int shake_hands(struct pair_link *link, uint64_t until_us, struct star_error *err)
{
	short events;
	int rc;

	while ((rc = secure_link_handshake(link->tls, &events, err)) == -EAGAIN) {
		if (clock_us() >= until_us)
			return star_error_set(err, -ETIMEDOUT, "its TLS handshake took too long");
		pair_link_wait(link, events == POLLOUT, POLL_US_MAX, -1);
	}
	if (rc == 0 && secure_link_peer(link->tls)->role != SECURE_NODE)
		rc = star_error_set(err, -EPERM, "it has no key of role node");
	return rc;
}

struct pair_link *pair_link_accept(int fd, struct secure_context *context, uint64_t until_us, struct star_error *err)
{
	struct pair_link *link = calloc(1, sizeof(*link));
	const int on = 1;
	int rc = link ? 0 : star_error_set(err, -ENOMEM, "out of memory");

	if (rc < 0) {
		close(fd);
		return NULL;
	}
	link->fd = fd;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (!context)
		return link;
	link->tls = secure_link_accept(context, fd);
	rc = link->tls ? shake_hands(link, until_us, err) : star_error_set(err, -ENOMEM, "out of memory");
	if (rc == 0)
		return link;
	pair_link_close(link);
	return NULL;
}

void pair_link_close(struct pair_link *link)
{
	if (!link)
		return;
	if (link->client) {
		jsonrpc_close(link->client);
	} else {
		secure_link_close(link->tls);
		close(link->fd);
	}
	free(link);
}

ssize_t pair_link_read(struct pair_link *link, void *to, size_t room)
{
	const ssize_t n = link->tls ? secure_link_read(link->tls, to, room) : recv(link->fd, to, room, MSG_DONTWAIT);

	return n < 0 && !link->tls ? -errno : n;
}

ssize_t pair_link_write(struct pair_link *link, const void *from, size_t bytes)
{
	const ssize_t n = link->tls ? secure_link_write(link->tls, from, bytes)
				    : send(link->fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

	return n < 0 && !link->tls ? -errno : n;
}

void pair_link_wait(const struct pair_link *link, int writes, uint32_t us, int fd)
{
	struct pollfd p[] = { { .fd = link->fd, .events = (short)(writes ? POLLIN | POLLOUT : POLLIN) },
			      { .fd = fd, .events = POLLIN } };
	const struct timespec time = { .tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000 };

	if (!link->tls || secure_link_pending(link->tls) == 0)
		ppoll(p, fd < 0 ? 1 : 2, &time, NULL);
}

/* The result of an attempt: 1: try again. */
static int await_link(const struct pair_link *link, ssize_t n, int writes, uint64_t until_us)
{
	struct pollfd p = { .fd = link->fd, .events = writes ? POLLOUT : POLLIN };
	const uint64_t now_us = clock_us();

	if (n > 0)
		return 1;
	if (n == 0)
		return -ECONNRESET;
	if (n != -EAGAIN && n != -EINTR)
		return (int)n;
	if (now_us >= until_us)
		return -ETIMEDOUT;
	poll(&p, 1, (int)((until_us - now_us < POLL_US_MAX ? until_us - now_us : POLL_US_MAX) / 1000 + 1));
	return 1;
}

int pair_link_read_all(struct pair_link *link, void *to, size_t bytes, uint64_t until_us)
{
	int rc = 1;

	for (size_t done = 0; done < bytes && rc > 0;) {
		const ssize_t n = pair_link_read(link, (char *)to + done, bytes - done);

		done += n > 0 ? (size_t)n : 0;
		rc = await_link(link, n, 0, until_us);
	}
	return rc < 0 ? rc : 0;
}

int pair_link_write_all(struct pair_link *link, const void *from, size_t bytes, uint64_t until_us)
{
	int rc = 1;

	for (size_t done = 0; done < bytes && rc > 0;) {
		const ssize_t n = pair_link_write(link, (const char *)from + done, bytes - done);

		done += n > 0 ? (size_t)n : 0;
		rc = await_link(link, n, 1, until_us);
	}
	return rc < 0 ? rc : 0;
}

/*
 * Reads a hello or an answer. If it does not begin as this version's do, only the head is read, by which it is refused.
 */
static int read_from_head(struct pair_link *link, void *to, size_t bytes, uint64_t until_us)
{
	const size_t head_bytes = offsetof(struct pair_hello, checksum);
	int rc = pair_link_read_all(link, to, head_bytes, until_us);
	uint64_t magic;
	uint32_t version;

	if (rc < 0)
		return rc;
	memcpy(&magic, to, sizeof(magic));
	memcpy(&version, (uint8_t *)to + offsetof(struct pair_hello, version), sizeof(version));
	if (magic != PAIR_MAGIC || version != PAIR_VERSION)
		return 0;
	return pair_link_read_all(link, (uint8_t *)to + head_bytes, bytes - head_bytes, until_us);
}

int pair_link_hear(struct pair_link *link, struct pair_hello *hello, uint64_t until_us, struct star_error *err)
{
	const int rc = read_from_head(link, hello, sizeof(*hello), until_us);

	return rc < 0 ? star_error_set(err, rc, "%s", strerrordesc_np(-rc)) : pair_hello_check(hello, err);
}

int pair_link_ask(struct pair_link *link, const struct pair_hello *hello, struct pair_answer *answer, uint64_t until_us,
		  struct star_error *err)
{
	int rc = pair_link_write_all(link, hello, sizeof(*hello), until_us);

	if (rc == 0)
		rc = read_from_head(link, answer, sizeof(*answer), until_us);
	if (rc < 0)
		return star_error_set(err, rc, "the other node of the pair does not answer: %s", strerrordesc_np(-rc));
	return pair_answer_check(answer, err);
}
