/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipes, and what moves data between descriptors. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/packetdrill/so/shim.h"

enum { SPLICE_MAX = 65536 };

int shim_pipe(void *self, int fds[2])
{
	struct pipe_end *ends[2] = { 0 };

	shim_enter();
	for (int i = 0; i < 2; i++) {
		ends[i] = calloc(1, sizeof(*ends[i]));
		if (!ends[i])
			abort();
		ends[i]->object.kind = KIND_PIPE;
		ends[i]->writes = i == 1;
		fds[i] = shim_install(&ends[i]->object);
	}
	ends[0]->other = ends[1];
	ends[1]->other = ends[0];
	return (int)shim_leave(fds[0] < 0 || fds[1] < 0 ? -1 : 0);
}

static ssize_t splice_in(struct sock *from, struct pipe_end *to, size_t bytes)
{
	uint8_t data[SPLICE_MAX];
	const struct iovec part = { data, bytes < sizeof(data) ? bytes : sizeof(data) };
	const ssize_t n = sock_read(from, &part, 1, 0);

	if (n > 0)
		bytes_put(&to->other->bytes, data, (size_t)n);
	return n;
}

static ssize_t splice_out(struct pipe_end *from, struct sock *to, size_t bytes)
{
	const struct iovec part = { from->bytes.data + from->bytes.start,
				    bytes < from->bytes.count ? bytes : from->bytes.count };
	const ssize_t n = sock_write(to, &part, 1, 0);

	if (n > 0)
		bytes_take(&from->bytes, NULL, (size_t)n, false);
	return n;
}

int shim_splice(void *self, int from, loff_t *from_offset, int to, loff_t *to_offset, size_t bytes, unsigned int flags)
{
	struct object *a, *b;
	ssize_t result = -1;

	shim_enter();
	a = shim_object(from);
	b = shim_object(to);
	if (a && b && a->kind == KIND_SOCKET && b->kind == KIND_PIPE && ((struct pipe_end *)b)->other)
		result = splice_in((struct sock *)a, (struct pipe_end *)b, bytes);
	else if (a && b && a->kind == KIND_PIPE && b->kind == KIND_SOCKET)
		result = splice_out((struct pipe_end *)a, (struct sock *)b, bytes);
	else if (a && b)
		errno = EINVAL;
	return (int)shim_leave(result);
}

/* A file to a socket. */
ssize_t shim_sendfile(int to, int from, off_t *offset, size_t bytes)
{
	struct iovec part = { .iov_base = malloc(bytes) };
	struct sock *sock;
	ssize_t n;

	if (!part.iov_base)
		return -1;
	n = offset ? pread(from, part.iov_base, bytes, *offset) : read(from, part.iov_base, bytes);
	if (n > 0) {
		part.iov_len = (size_t)n;
		shim_enter();
		sock = shim_sock(to);
		n = shim_leave(sock ? sock_write(sock, &part, 1, 0) : -1);
		if (n > 0 && offset)
			*offset += n;
	}
	free(part.iov_base);
	return n;
}
