/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/port share. Control path only. */
#ifndef PORT_INTERNAL_H
#define PORT_INTERNAL_H

#include <rte_mempool.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "port/port.h"

/* What DPDK and its drivers say while they work on a call of ours: none of it reaches the terminal, and when the call
 * fails, the first line (the cause; the others are its consequences) goes into our sentence. libxdp and libbpf, and the
 * EAL when it gives up, write to standard error past DPDK's log: until the end it goes nowhere, for the whole process.
 */
struct port_chatter {
	int stderr_fd; /* the real one, meanwhile; -1: there is none */
	FILE *stream;
	char *text;
	size_t bytes;
};

void port_chatter_begin(struct port_chatter *chatter);
/* Stops listening, and puts the first line into cause ("" when nothing was said). */
void port_chatter_end(struct port_chatter *chatter, char *cause, size_t bytes);

/* Hugepages that nobody uses and nobody has reserved. */
struct port_hugepages {
	uint64_t free_2m, total_2m, free_1g, total_1g; /* pages */
	uint64_t free_bytes;
};

void port_hugepages_read(struct port_hugepages *pages);

/* Room that a mbuf or a packet socket's ring gives to a frame: the packet, its Ethernet header and VLAN tag, and what
 * the kernel puts before a frame in a packet socket's ring. A multiple of 1024, so that four of them fill whole pages.
 */
uint32_t port_frame_bytes(uint32_t mtu);

/* Has an empty mempool keep what is free in a LIFO (lifo.c); DPDK's return value. */
int port_lifo(struct rte_mempool *pool);
/* Fills port->offloads and their limits, and what conf says of them; of a port that has none yet. */
void port_choose_offloads(struct port *port, const struct config_port *config, const struct rte_eth_dev_info *info,
			  struct rte_eth_conf *conf);

/* Fills port->steers and ->steering: of a port that has been started. */
void port_steer(struct port *port, uint16_t data_port);

/* Has the frames of IPv6's multicast groups let through, as long as the port is open; a port that has been started. */
void port_join_groups(struct port *port, const struct config_port *config);
void port_leave_groups(struct port *port);

/* Adds a virtual device; DPDK's return value. */
int port_hotplug(const char *name, const char *arguments);

/* A kernel interface that carries a port: it exists, is up, has the MTU. Warns of offloads that spoil its frames. */
int port_interface_check(const struct config_port *config, unsigned index, struct star_error *err);

/* This process's sockets that can be waited on for an interface: packet sockets bound to it, and AF_XDP sockets. */
enum { PORT_SOCKETS_MAX = 1024 };
struct port_sockets {
	unsigned count;
	int fds[PORT_SOCKETS_MAX]; /* ascending */
};

void port_sockets_find(const struct config_port *config, struct port_sockets *sockets);
/* Fills port->wait_fds, from what the driver offers or from the sockets that it opened since `before`. */
void port_wait_init(struct port *port, const struct config_port *config, const struct port_sockets *before);

/* Drivers that carry a kernel interface, and whose sockets can be waited on. */
bool port_is_af_packet(const struct config_port *config);
bool port_is_af_xdp(const struct config_port *config);
bool port_is_pci(const struct config_port *config);

#endif
