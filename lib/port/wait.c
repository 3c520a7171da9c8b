/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an idle reactor waits on. DPDK has no receive interrupts for net_af_packet and net_af_xdp, but each of their
 * queues is a socket of this process, whose file descriptor is readable while the queue has frames: that of an
 * AF_PACKET ring while the frame before the kernel's next one is still ours (packet_poll), that of an AF_XDP socket
 * while its receive ring is not empty (xsk_poll). The drivers do not report the descriptors, so they are searched for:
 * both drivers open one socket per queue, in the order of the queues, and the kernel always assigns the lowest free
 * number, so ascending numbers are ascending queues.
 */
#include "port/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

static int ascending(const void *a, const void *b)
{
	const int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

static bool can_be_waited_on(int fd, const struct config_port *config)
{
	struct sockaddr_ll address = { 0 };
	socklen_t bytes = sizeof(address);
	int domain;
	socklen_t domain_bytes = sizeof(domain);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_bytes) != 0)
		return false;
	if (port_is_af_xdp(config))
		return domain == AF_XDP;
	return domain == AF_PACKET && getsockname(fd, (struct sockaddr *)&address, &bytes) == 0 &&
	       address.sll_ifindex == (int)if_nametoindex(config->interface) &&
	       address.sll_protocol; /* without a protocol it only sends (packet.c) */
}

void port_sockets_find(const struct config_port *config, struct port_sockets *sockets)
{
	struct dirent *entry;
	DIR *dir;

	sockets->count = 0;
	if (!port_is_af_packet(config) && !port_is_af_xdp(config))
		return;
	dir = opendir("/proc/self/fd");
	if (!dir)
		return;
	while (sockets->count < PORT_SOCKETS_MAX && (entry = readdir(dir))) {
		const int fd = atoi(entry->d_name);

		if (entry->d_name[0] != '.' && fd != dirfd(dir) && can_be_waited_on(fd, config))
			sockets->fds[sockets->count++] = fd;
	}
	closedir(dir);
	qsort(sockets->fds, sockets->count, sizeof(int), ascending);
}

/* Returns how many of the descriptors in `now` are not in `before`, and keeps those. */
static unsigned keep_new(struct port_sockets *now, const struct port_sockets *before)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < now->count; i++)
		if (!bsearch(&now->fds[i], before->fds, before->count, sizeof(int), ascending))
			now->fds[kept++] = now->fds[i];
	now->count = kept;
	return kept;
}

/* For uio's descriptors, which are read by 4 bytes; event fds are read by 8. */
static bool is_uio(int fd)
{
	static const char folder[] = "/dev/uio";
	char link[64], path[64] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return readlink(link, path, sizeof(path) - 1) > 0 && strncmp(path, folder, strlen(folder)) == 0;
}

static bool has_interrupt(const struct port *port, uint16_t queue)
{
	const int fd = rte_eth_dev_rx_intr_ctl_q_get_fd(port->id, queue);
	int flags;

	if (fd < 0 || rte_eth_dev_rx_intr_enable(port->id, queue) != 0)
		return false;
	rte_eth_dev_rx_intr_disable(port->id, queue);
	/* port_wait_disarm reads it, and must not block. */
	flags = fcntl(fd, F_GETFL);
	return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

void port_wait_init(struct port *port, const struct config_port *config, const struct port_sockets *before)
{
	struct port_sockets sockets;
	uint16_t queue;

	for (queue = 0; queue < port->queues; queue++)
		port->wait_fds[queue] = -1;
	if (port_is_pci(config)) {
		for (queue = 0; queue < port->queues && has_interrupt(port, queue); queue++)
			port->wait_fds[queue] = rte_eth_dev_rx_intr_ctl_q_get_fd(port->id, queue);
		port->rx_interrupts = queue == port->queues;
		port->counts = port->rx_interrupts && rte_eth_rx_queue_count(port->id, 0) >= 0;
		port->ring_bytes =
			port->rx_interrupts && is_uio(port->wait_fds[0]) ? sizeof(uint32_t) : sizeof(uint64_t);
		if (!port->rx_interrupts)
			while (queue-- > 0)
				port->wait_fds[queue] = -1;
		return;
	}
	port_sockets_find(config, &sockets);
	if (keep_new(&sockets, before) != port->queues) {
		log_debug("port %s: nothing to wait on; an idle reactor polls every millisecond", port->name);
		return;
	}
	memcpy(port->wait_fds, sockets.fds, port->queues * sizeof(int));
}

const char *port_wakes_text(const struct port *port)
{
	if (port->rx_interrupts)
		return port->counts ? "interrupts" : "interrupts and a timer";
	return port->worker || port->wait_fds[0] < 0 ? "a timer" : "its sockets";
}

int port_wait_arm(const struct port *port, uint16_t queue)
{
	int ret;

	if (port->memif)
		return memif_arm(port->memif, queue);
	if (port->wait_fds[queue] < 0)
		return -ENOTSUP;
	if (!port->rx_interrupts)
		return 0;
	ret = rte_eth_dev_rx_intr_enable(port->id, queue);
	if (ret != 0)
		return ret;
	/* A frame that arrived after the last burst, and before the interrupt was enabled, may never raise it. */
	ret = rte_eth_rx_queue_count(port->id, queue);
	return ret > 0 ? -EAGAIN : ret;
}

void port_wait_disarm(const struct port *port, uint16_t queue)
{
	uint64_t events;

	if (port->memif)
		memif_disarm(port->memif, queue);
	if (!port->rx_interrupts)
		return;
	rte_eth_dev_rx_intr_disable(port->id, queue);
	if (read(port->wait_fds[queue], &events, port->ring_bytes) < 0)
		return; /* it was not signalled */
}
