/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors, addresses, and byte queues. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "tests/packetdrill/so/shim.h"

void bytes_put(struct bytes *b, const void *data, size_t count)
{
	if (b->start + b->count + count > b->room) {
		if (b->count)
			memmove(b->data, b->data + b->start, b->count);
		b->start = 0;
		if (b->count + count > b->room) {
			b->room = 2 * (b->count + count);
			b->data = realloc(b->data, b->room);
			if (!b->data)
				abort();
		}
	}
	if (count)
		memcpy(b->data + b->start + b->count, data, count);
	b->count += count;
}

size_t bytes_take(struct bytes *b, void *data, size_t count, bool keep)
{
	if (count > b->count)
		count = b->count;
	if (data && count)
		memcpy(data, b->data + b->start, count);
	if (!keep) {
		b->start += count;
		b->count -= count;
	}
	return count;
}

void bytes_free(struct bytes *b)
{
	free(b->data);
	*b = (struct bytes){ 0 };
}

/* A real descriptor keeps the number: packetdrill has others open, and closes ours by the C library when it ends. */
int shim_install(struct object *object)
{
	const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (fd >= SHIM_FDS) {
		close(fd);
		errno = EMFILE;
		return -1;
	}
	object->fd = fd;
	shim.objects[fd] = object;
	return fd;
}

struct object *shim_object(int fd)
{
	if (fd >= 0 && fd < SHIM_FDS && shim.objects[fd])
		return shim.objects[fd];
	errno = EBADF;
	return NULL;
}

struct sock *shim_sock(int fd)
{
	struct object *object = shim_object(fd);

	if (object && object->kind != KIND_SOCKET) {
		errno = ENOTSOCK;
		return NULL;
	}
	return (struct sock *)object;
}

void shim_remove(struct object *object)
{
	close(object->fd);
	shim.objects[object->fd] = NULL;
	object->fd = -1;
}

/* Of a socket, only when its connection is gone. */
void object_free(struct object *object)
{
	if (object->kind == KIND_SOCKET) {
		sock_free((struct sock *)object);
		return;
	}
	if (object->kind == KIND_PIPE) {
		struct pipe_end *end = (struct pipe_end *)object;

		if (end->other)
			end->other->other = NULL;
		bytes_free(&end->bytes);
	}
	free(object);
}

static bool unspecified(const struct endpoint *e)
{
	static const uint8_t zero[16];

	return memcmp(e->address, zero, sizeof(zero)) == 0;
}

enum { RECEIVE_INITIAL_MAX = 65536 }; /* what a window without a scale can say, as Linux begins */

/* The stack is made when its first address is known: only then have the script's commands run. */
bool shim_stack_for(const struct endpoint *local)
{
	char congestion[16] = "cubic";
	struct stack_options o = { .mtu = shim.mtu, .now_ns = shim.now_ns, .local = *local, .congestion = congestion };

	if (stack_family() != AF_UNSPEC)
		return true;
	if (unspecified(local))
		o.local = shim.local;
	shim_setting_text("net/ipv4/tcp_congestion_control", congestion, sizeof(congestion));
	o.receive_window_bytes = (uint32_t)shim_setting("net/ipv4/tcp_rmem", 2, 6 * 1024 * 1024);
	o.receive_initial_bytes = (uint32_t)shim_setting("net/ipv4/tcp_rmem", 1, 131072) / 2;
	if (o.receive_initial_bytes > RECEIVE_INITIAL_MAX)
		o.receive_initial_bytes = RECEIVE_INITIAL_MAX;
	o.rto_min_us = (uint32_t)shim_setting("route/rto_min", 0, 200) * 1000;
	o.sack = shim_setting("net/ipv4/tcp_sack", 0, 1);
	o.timestamps = shim_setting("net/ipv4/tcp_timestamps", 0, 1);
	o.scale = shim_setting("net/ipv4/tcp_window_scaling", 0, 1);
	o.ecn = (int)shim_setting("net/ipv4/tcp_ecn", 0, 2);
	o.idle_restart = shim_setting("net/ipv4/tcp_slow_start_after_idle", 0, 1);
	if (stack_up(&o, shim_output, NULL))
		return true;
	errno = ENETDOWN;
	return false;
}

int endpoint_from(struct endpoint *e, const struct sock *sock, const struct sockaddr *address, socklen_t bytes)
{
	*e = (struct endpoint){ 0 };
	if (!address || bytes < sizeof(sa_family_t)) {
		errno = address ? EINVAL : EFAULT;
		return -1;
	}
	if (address->sa_family != sock->domain) {
		errno = address->sa_family == AF_UNSPEC ? EAFNOSUPPORT : EINVAL;
		return -1;
	}
	if (address->sa_family == AF_INET && bytes >= sizeof(struct sockaddr_in)) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)address;

		e->family = AF_INET;
		e->port = ntohs(in->sin_port);
		memcpy(e->address, &in->sin_addr, 4);
		return 0;
	}
	if (address->sa_family == AF_INET6 && bytes >= sizeof(struct sockaddr_in6)) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;

		e->family = IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr) ? AF_INET : AF_INET6;
		e->port = ntohs(in6->sin6_port);
		if (e->family == AF_INET)
			memcpy(e->address, in6->sin6_addr.s6_addr + 12, 4);
		else
			memcpy(e->address, &in6->sin6_addr, 16);
		return 0;
	}
	errno = EINVAL;
	return -1;
}

void endpoint_to(const struct endpoint *e, const struct sock *sock, struct sockaddr *address, socklen_t *bytes)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(e->port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(e->port) };
	const void *from = sock->domain == AF_INET ? (const void *)&in : &in6;
	const socklen_t size = sock->domain == AF_INET ? sizeof(in) : sizeof(in6);

	if (!address || !bytes)
		return;
	memcpy(&in.sin_addr, e->address, 4);
	if (e->family == AF_INET) {
		in6.sin6_addr.s6_addr[10] = in6.sin6_addr.s6_addr[11] = 0xff;
		memcpy(in6.sin6_addr.s6_addr + 12, e->address, 4);
	} else {
		memcpy(&in6.sin6_addr, e->address, 16);
	}
	memcpy(address, from, *bytes < size ? *bytes : size);
	*bytes = size;
}

uint64_t shim_next_release(void)
{
	uint64_t next = UINT64_MAX;

	for (int fd = 0; fd < SHIM_FDS; fd++) {
		const struct sock *sock = (const struct sock *)shim.objects[fd];

		if (sock && sock->object.kind == KIND_SOCKET && sock->held_ns && sock->held_ns < next)
			next = sock->held_ns;
	}
	return next;
}

void shim_release(void)
{
	for (int fd = 0; fd < SHIM_FDS; fd++) {
		struct sock *sock = (struct sock *)shim.objects[fd];

		if (sock && sock->object.kind == KIND_SOCKET && sock->held_ns && sock->held_ns <= shim.now_ns)
			sock_release(sock);
	}
}
