/* SPDX-License-Identifier: BSD-3-Clause */
/* poll and epoll. */
#include <errno.h>
#include <stdlib.h>

#include "tests/packetdrill/so/shim.h"

static unsigned object_events(const struct object *object)
{
	const struct pipe_end *end = (const struct pipe_end *)object;

	if (object->kind == KIND_SOCKET)
		return sock_events((const struct sock *)object);
	if (object->kind == KIND_PIPE)
		return end->writes ? EPOLLOUT : end->bytes.count ? EPOLLIN : 0;
	return 0;
}

struct polled {
	struct pollfd *fds;
	nfds_t count;
	int ready;
};

static bool any_polled(void *ctx)
{
	struct polled *p = ctx;

	p->ready = 0;
	for (nfds_t i = 0; i < p->count; i++) {
		struct pollfd *fd = &p->fds[i];

		fd->revents = 0;
		if (fd->fd < 0)
			continue;
		if (fd->fd >= SHIM_FDS || !shim.objects[fd->fd])
			fd->revents = POLLNVAL;
		else
			fd->revents = (short)(object_events(shim.objects[fd->fd]) &
					      ((unsigned)fd->events | POLLERR | POLLHUP));
		p->ready += fd->revents != 0;
	}
	return p->ready > 0;
}

int shim_poll(void *self, struct pollfd *fds, nfds_t count, int timeout_ms)
{
	struct polled p = { .fds = fds, .count = count };

	shim_enter();
	if (!any_polled(&p) && timeout_ms != 0)
		shim_wait(any_polled, &p, shim_deadline(timeout_ms));
	return (int)shim_leave(p.ready);
}

int shim_epoll_create(void *self, int size)
{
	struct epoll *epoll;
	int fd;

	if (size <= 0) {
		errno = EINVAL;
		return -1;
	}
	shim_enter();
	epoll = calloc(1, sizeof(*epoll));
	if (!epoll)
		return (int)shim_leave(-1);
	epoll->object.kind = KIND_EPOLL;
	for (int i = 0; i < SHIM_WATCHES; i++)
		epoll->watches[i].fd = -1;
	fd = shim_install(&epoll->object);
	if (fd < 0)
		free(epoll);
	return (int)shim_leave(fd);
}

static struct watch *find_watch(struct epoll *epoll, int fd)
{
	for (int i = 0; i < SHIM_WATCHES; i++)
		if (epoll->watches[i].fd == fd)
			return &epoll->watches[i];
	return NULL;
}

static int control_watch(struct epoll *epoll, int operation, int fd, const struct epoll_event *event)
{
	struct watch *watch = find_watch(epoll, fd);

	if (!shim_sock(fd))
		return -1;
	if (operation == EPOLL_CTL_ADD) {
		if (watch) {
			errno = EEXIST;
			return -1;
		}
		watch = find_watch(epoll, -1);
	}
	if (!watch) {
		errno = operation == EPOLL_CTL_ADD ? ENOSPC : ENOENT;
		return -1;
	}
	if (operation == EPOLL_CTL_DEL)
		watch->fd = -1;
	else
		*watch = (struct watch){ .fd = fd, .event = *event, .fresh = true };
	return 0;
}

static struct epoll *epoll_of(int fd)
{
	struct object *object = shim_object(fd);

	if (object && object->kind != KIND_EPOLL) {
		errno = EINVAL;
		return NULL;
	}
	return (struct epoll *)object;
}

int shim_epoll_ctl(void *self, int epfd, int operation, int fd, struct epoll_event *event)
{
	struct epoll *epoll;

	shim_enter();
	epoll = epoll_of(epfd);
	return (int)shim_leave(epoll ? control_watch(epoll, operation, fd, event) : -1);
}

/* The events to report of one watch; with take, they count as reported. */
static unsigned watched(struct watch *watch, bool take)
{
	const struct sock *sock;
	unsigned events;

	if (watch->event.events == 0) /* reported once, by EPOLLONESHOT */
		return 0;
	if (watch->fd < 0 || !shim.objects[watch->fd])
		return 0;
	sock = (const struct sock *)shim.objects[watch->fd];
	events = sock_events(sock) & (watch->event.events | EPOLLERR | EPOLLHUP);
	if (watch->event.events & EPOLLET && !watch->fresh && watch->in_edges == sock->in_edges &&
	    watch->out_edges == sock->out_edges)
		return 0;
	if (events && take) {
		watch->fresh = false;
		watch->in_edges = sock->in_edges;
		watch->out_edges = sock->out_edges;
		if (watch->event.events & EPOLLONESHOT)
			watch->event.events = 0;
	}
	return events;
}

static bool any_watched(void *ctx)
{
	struct epoll *epoll = ctx;

	for (int i = 0; i < SHIM_WATCHES; i++)
		if (watched(&epoll->watches[i], false))
			return true;
	return false;
}

static int collect(struct epoll *epoll, struct epoll_event *events, int max)
{
	int n = 0;

	for (int i = 0; i < SHIM_WATCHES && n < max; i++) {
		const unsigned found = watched(&epoll->watches[i], true);

		if (found)
			events[n++] = (struct epoll_event){ found, epoll->watches[i].event.data };
	}
	return n;
}

int shim_epoll_wait(void *self, int epfd, struct epoll_event *events, int max, int timeout_ms)
{
	struct epoll *epoll;

	shim_enter();
	epoll = epoll_of(epfd);
	if (!epoll)
		return (int)shim_leave(-1);
	if (!any_watched(epoll) && timeout_ms != 0)
		shim_wait(any_watched, epoll, shim_deadline(timeout_ms));
	return (int)shim_leave(collect(epoll, events, max));
}
