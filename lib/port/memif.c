/* SPDX-License-Identifier: BSD-3-Clause */
/* A memif port: its socket, and the thread that serves it. */
#include "port/memif.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/signals.h"
#include "port/memif_internal.h"

enum { BACKLOG = 8 };

/* ---- the socket ---- */

socklen_t memif_address(const struct config_memif *options, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(address->sun_path + (options->abstract ? 1 : 0), options->socket, strlen(options->socket));
	/* As DPDK's client names an abstract socket: everything except the family, up to the end of the name. */
	return (socklen_t)(options->abstract ? offsetof(struct sockaddr_un, sun_path) + 1 + strlen(options->socket)
					     : sizeof(*address));
}

/* Removes a stale socket; refuses if a process uses it. */
static int clear_path(const struct sockaddr_un *address, struct star_error *err)
{
	struct stat there;
	int fd, code = 0;

	if (lstat(address->sun_path, &there) != 0)
		return 0;
	if (!S_ISSOCK(there.st_mode))
		return star_error_set(err, -EEXIST, "%s exists and is not a socket: remove it, or give another socket=",
				      address->sun_path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
		code = errno;
	if (fd >= 0)
		close(fd);
	if (code != ECONNREFUSED)
		return star_error_set(err, -EADDRINUSE,
				      "the socket %s is in use by another process (`ss -xlp | grep %s` shows it): give "
				      "another socket=",
				      address->sun_path, address->sun_path);
	return unlink(address->sun_path) == 0
		       ? 0
		       : star_error_set(err, -errno, "the stale socket %s cannot be removed: %m", address->sun_path);
}

static void make_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];

	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
	if (folder[0] && mkdir(folder, 0755) != 0)
		return; /* it is in use; if not, bind fails with the reason */
}

static int open_socket(const struct config_memif *options, struct star_error *err)
{
	struct sockaddr_un address;
	const socklen_t bytes = memif_address(options, &address);
	int fd, ret;

	if (!options->abstract) {
		make_folder(options->socket);
		ret = clear_path(&address, err);
		if (ret < 0)
			return ret;
	}
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	/* The file gets the socket's mode: for root only, until an administrator changes it. */
	if (fd >= 0 && fchmod(fd, 0600) == 0 && bind(fd, (const struct sockaddr *)&address, bytes) == 0 &&
	    listen(fd, BACKLOG) == 0)
		return fd;
	ret = star_error_set(err, -errno, "cannot listen at the socket %s%s: %m%s", options->abstract ? "@" : "",
			     options->socket, errno == EADDRINUSE ? "; give another socket=" : "");
	if (fd >= 0)
		close(fd);
	return ret;
}

static void close_socket(const struct config_memif *options, int fd)
{
	if (!options->abstract)
		unlink(options->socket);
	close(fd);
}

/* ---- the thread ---- */

static void *serve_memif(void *argument)
{
	struct memif *memif = argument;
	char name[16];

	snprintf(name, sizeof(name), "%.15s", memif->name + strlen("net_"));
	pthread_setname_np(pthread_self(), name);
	while (!__atomic_load_n(&memif->stopping, __ATOMIC_ACQUIRE)) {
		const bool waits = memif->client_fd >= 0 && !memif->connected;
		const uint64_t now_us = clock_us();
		struct pollfd fds[] = { { .fd = memif->stop_fd, .events = POLLIN },
					{ .fd = memif->client_fd, .events = POLLIN },
					{ .fd = memif->listen_fd, .events = POLLIN },
					{ .fd = memif->ask_fd, .events = POLLIN } };

		if (waits && now_us >= memif->patience_us) {
			memif_client_end(memif, "it has not connected in time");
			continue;
		}
		if (poll(fds, RTE_DIM(fds), waits ? (int)((memif->patience_us - now_us) / 1000) + 1 : -1) <= 0)
			continue;
		if (fds[3].revents)
			memif_wake_asked(memif);
		/* The client that has gone comes first: the next one may be waiting already. */
		if (fds[1].revents)
			memif_client_serve(memif);
		else if (fds[2].revents)
			memif_client_accept(memif);
	}
	memif_client_end(memif, "the port is closed");
	return NULL;
}

static int start_thread(struct memif *memif)
{
	sigset_t all, before;
	int ret;

	base_signals_of_others(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&memif->thread, NULL, serve_memif, memif);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -ret;
}

/* ---- open and close ---- */

static int open_queues(struct memif *memif, struct rte_mempool *const *pools)
{
	for (unsigned i = 0; i < memif->queues; i++) {
		struct memif_queue *q = &memif->queue[i];
		struct epoll_event event = { .events = EPOLLIN };

		q->pool = pools[i];
		q->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		q->wait_fd = epoll_create1(EPOLL_CLOEXEC);
		if (q->bell < 0 || q->wait_fd < 0 || epoll_ctl(q->wait_fd, EPOLL_CTL_ADD, q->bell, &event) != 0)
			return -errno;
	}
	memif->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	memif->ask_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return memif->stop_fd < 0 || memif->ask_fd < 0 ? -errno : 0;
}

static void free_memif(struct memif *memif)
{
	for (unsigned i = 0; i < memif->queues; i++) {
		if (memif->queue[i].bell >= 0)
			close(memif->queue[i].bell);
		if (memif->queue[i].wait_fd >= 0)
			close(memif->queue[i].wait_fd);
	}
	memif_wake_fini(memif);
	if (memif->stop_fd >= 0)
		close(memif->stop_fd);
	if (memif->ask_fd >= 0)
		close(memif->ask_fd);
	if (memif->listen_fd >= 0)
		close_socket(&memif->options, memif->listen_fd);
	free(memif);
}

struct memif *memif_open(const struct config_port *config, const char *name, uint16_t id,
			 struct rte_mempool *const *pools, uint16_t queues, struct star_error *err)
{
	const size_t bytes = sizeof(struct memif) + queues * sizeof(struct memif_queue);
	struct memif *memif = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(bytes, RTE_CACHE_LINE_SIZE));
	int ret;

	if (!memif) {
		star_error_set(err, -ENOMEM, "out of memory for a memif port");
		return NULL;
	}
	memset(memif, 0, bytes);
	memif->id = id;
	memif->queues = queues;
	memif->client_fd = memif->listen_fd = memif->stop_fd = memif->ask_fd = -1;
	for (unsigned i = 0; i < queues; i++)
		memif->queue[i].bell = memif->queue[i].wait_fd = -1;
	snprintf(memif->name, sizeof(memif->name), "%s", name);
	ret = config_memif_read(config, &memif->options, err);
	if (ret == 0) {
		rte_eth_random_addr(memif->mac.addr_bytes);
		if (memif->options.has_mac)
			memcpy(memif->mac.addr_bytes, memif->options.mac, sizeof(memif->options.mac));
		ret = open_queues(memif, pools);
		if (ret < 0)
			star_error_set(err, ret, "no descriptors for a memif port: %s", strerror(-ret));
	}
	if (ret == 0) {
		memif->listen_fd = open_socket(&memif->options, err);
		ret = memif->listen_fd < 0 ? memif->listen_fd : 0;
	}
	if (ret == 0) {
		memif_wake_init(memif);
		ret = start_thread(memif);
		if (ret < 0)
			star_error_set(err, ret, "no thread for a memif port: %s", strerror(-ret));
	}
	if (ret == 0)
		return memif;
	free_memif(memif);
	return NULL;
}

void memif_close(struct memif *memif)
{
	const uint64_t one = 1;

	__atomic_store_n(&memif->stopping, true, __ATOMIC_RELEASE);
	/* It cannot block: nobody else writes to it. */
	if (write(memif->stop_fd, &one, sizeof(one)) == sizeof(one))
		pthread_join(memif->thread, NULL);
	free_memif(memif);
}

void memif_on_gone(struct memif *memif, void (*gone)(void *ctx, uint16_t id), void *ctx)
{
	memif->gone_ctx = ctx;
	__atomic_store_n(&memif->gone, gone, __ATOMIC_RELEASE);
}

void memif_mac(const struct memif *memif, struct rte_ether_addr *mac)
{
	*mac = memif->mac;
}

int memif_wait_fd(const struct memif *memif, uint16_t queue)
{
	return memif->queue[queue].wait_fd;
}

bool memif_connected(const struct memif *memif)
{
	return __atomic_load_n(&memif->connected, __ATOMIC_RELAXED);
}
