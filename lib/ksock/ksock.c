/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation and destruction of a reactor's sockets. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "ksock/internal.h"

static void make_free_list(struct ksock *ks)
{
	TAILQ_INIT(&ks->free);
	TAILQ_INIT(&ks->open);
	TAILQ_INIT(&ks->unsent);
	for (uint32_t i = 0; i < ks->connections_max; i++) {
		ks->conns[i].ks = ks;
		ks->conns[i].fd = -1;
		TAILQ_INSERT_TAIL(&ks->free, &ks->conns[i], by_age);
	}
}

static int open_as(struct ksock *ks, const struct ksock_io *io)
{
	const int status = io->open(ks);

	if (status < 0)
		io->close(ks);
	else
		ks->io = io;
	return status;
}

static int open_io(struct ksock *ks, enum ksock_io_choice choice, struct star_error *err)
{
	int status = 0;

	if (choice != KSOCK_IO_EPOLL && (status = open_as(ks, &ksock_io_uring)) == 0)
		return 0;
	if (choice == KSOCK_IO_URING)
		return star_error_set(err, status,
				      "io_uring is not available (%s): the kernel must be 6.1 or newer, and sysctl "
				      "kernel.io_uring_disabled and the container must allow it; with "
				      "network.sockets = \"auto\" the node uses epoll then",
				      strerror(-status));
	ks->io_refused = status;
	status = open_as(ks, &ksock_io_epoll);
	if (status < 0)
		star_error_set(err, status, "cannot create an epoll descriptor: %s", strerror(-status));
	return status;
}

struct ksock *ksock_create(const struct ksock_options *o, struct star_error *err)
{
	struct ksock *ks = calloc(1, sizeof(*ks));

	if (!ks || !(ks->conns = calloc(o->connections_max, sizeof(*ks->conns)))) {
		free(ks);
		star_error_set(err, -ENOMEM, "out of memory for %u connections: lower limits.connections",
			       o->connections_max);
		return NULL;
	}
	base_cores_without_rest(ks->conns, o->connections_max * sizeof(*ks->conns));
	ks->pool = o->pool;
	ks->wheel = o->wheel;
	net_address_parse(o->host, &ks->host);
	ks->now_ns = o->now_ns;
	ks->listen_fd = -1;
	ks->segment_bytes = (uint16_t)(rte_pktmbuf_data_room_size(o->pool) - RTE_PKTMBUF_HEADROOM);
	ks->window = o->receive_window_bytes;
	ks->unread_max = (uint64_t)o->pool->size * ks->segment_bytes / KSOCK_UNREAD_SHARE;
	ks->user_timeout_ms = o->user_timeout_ms;
	ks->keepalive_s = o->keepalive_s;
	ks->connections_max = o->connections_max;
	if (getrandom(&ks->crowds.seed, sizeof(ks->crowds.seed), GRND_NONBLOCK) < 0)
		ks->crowds.seed = (uint32_t)clock_cycles(); /* early in the boot */
	make_free_list(ks);
	if (net_address_is_none(&ks->host)) {
		star_error_set(err, -EINVAL, "\"%s\" is not an IP address at which a node can listen", o->host);
		ksock_destroy(ks);
		return NULL;
	}
	if (open_io(ks, o->io, err) < 0) {
		ksock_destroy(ks);
		return NULL;
	}
	return ks;
}

void ksock_destroy(struct ksock *ks)
{
	if (!ks)
		return;
	if (ks->io)
		ks->io->close(ks);
	for (uint32_t i = 0; i < ks->connections_max; i++) {
		struct ksock_conn *conn = &ks->conns[i];

		if (conn->state == KSOCK_FREE)
			continue;
		wheel_cancel(ks->wheel, &conn->close_timer);
		ksock_free_queue(conn->head);
		close(conn->fd);
	}
	wheel_cancel(ks->wheel, &ks->accept_timer);
	if (ks->listen_fd >= 0)
		close(ks->listen_fd);
	free(ks->conns);
	free(ks);
}

void ksock_sleep(struct ksock *ks, int wake_fd, uint64_t ns)
{
	ks->io->sleep(ks, wake_fd, ns);
}

const char *ksock_io_name(const struct ksock *ks)
{
	return ks->io->name;
}

int ksock_io_refused(const struct ksock *ks)
{
	return ks->io_refused;
}

unsigned ksock_receive(struct ksock *ks, uint64_t now_ns)
{
	ks->now_ns = now_ns;
	/* Connections with something to send count as work: the reactor must not sleep. */
	return ks->io->receive(ks) + ks->unsent_count;
}

unsigned ksock_transmit(struct ksock *ks, uint64_t now_ns)
{
	const unsigned n = ks->unsent_count;

	ks->now_ns = now_ns;
	ks->io->transmit(ks);
	return n;
}

unsigned ksock_buffers(const struct ksock *ks)
{
	return __atomic_load_n(&ks->buffers, __ATOMIC_RELAXED);
}

const struct ksock_counters *ksock_counters(const struct ksock *ks)
{
	return &ks->counters;
}

uint32_t ksock_connections(const struct ksock *ks)
{
	return __atomic_load_n(&ks->open_count, __ATOMIC_RELAXED);
}
