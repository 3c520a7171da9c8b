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
/* The same of DPDK's log alone: for what may take long, and standard error must not go nowhere meanwhile. */
void port_chatter_listen(struct port_chatter *chatter);
/* Stops listening, and puts the first line into cause ("" when nothing was said). */
void port_chatter_end(struct port_chatter *chatter, char *cause, size_t bytes);

/* What the EAL complained of when it was started: a NIC that it could not probe is missed only when its port is
 * opened. */
extern char port_eal_said[256];

/* Whether a NUMA node has hugepages that nobody uses. */
bool port_numa_has_hugepages(int numa);

/* Hugepages that nobody uses and nobody has reserved. */
struct port_hugepages {
	uint64_t free_2m, total_2m, free_1g, total_1g; /* pages */
	uint64_t free_bytes;
};

void port_hugepages_read(struct port_hugepages *pages);

/* Notes that something did not get the pages that were free when the EAL was started: port_eal_hugepages_failed. */
void port_hugepages_fail(void);

/* What is asked of them: by the EAL itself, and in this many parts of the same size for mempools and parameters. */
struct port_memory {
	uint64_t eal_bytes, mempool_bytes, arena_bytes;
	unsigned parts;
};

/* Whether they are enough, as pages: who has only pages of 1 GiB gives whole ones. */
bool port_hugepages_hold(const struct port_hugepages *pages, const struct port_memory *memory);

/* Room that a mbuf or a packet socket's ring gives to a frame: the packet, its Ethernet header and VLAN tag, and what
 * the kernel puts before a frame in a packet socket's ring. A multiple of 1024, so that four of them fill whole pages.
 */
uint32_t port_frame_bytes(uint32_t mtu);

/*
 * Whether no mbuf may lie across the end of a page: for NICs, before the first mempool is made. Neighbouring pages may
 * be far from each other in the machine's memory. The IOMMU joins them for a real NIC, but an emulated one maps a frame
 * by one address and drops it where that does not reach its end (qemu's e1000e and vmxnet3): the same frame each time
 * it is sent again.
 */
void port_mempool_within_pages(bool on);
/* Whether mempools are one piece of memory without gaps. */
bool port_mempool_is_whole(void);

/* Has an empty mempool keep what is free in a LIFO (lifo.c); DPDK's return value. */
int port_lifo(struct rte_mempool *pool);
/*
 * Packet buffers that a thread frees while the reactors that own their pools run: between port_strays_begin and _end
 * what this thread frees (it has no lcore's cache) is set aside. port_strays_return is for when the reactors are at
 * rest, or have ended.
 */
void port_strays_begin(struct port_strays *of);
void port_strays_end(void);

/* Fills port->offloads and their limits, and what conf says of them; of a port that has none yet. */
void port_choose_offloads(struct port *port, const struct config_port *config, const struct rte_eth_dev_info *info,
			  struct rte_eth_conf *conf);

/* Of a queue: so that it keeps no more packet buffers than CONFIG_DESCRIPTORS, whatever its driver makes of them. */
uint16_t port_receive_descriptors(const struct rte_eth_dev_info *info);

/* Whether a device of this driver's is not to be asked for what it announces (offload.c). */
const struct port_quirks *port_quirks(const struct rte_eth_dev_info *info);

/* What drivers announce, and do not do. */
struct port_quirks {
	const char *driver;
	uint16_t tso_segments;	   /* at most; 0: as announced */
	bool last_segment_refused; /* one less than announced */
	uint16_t receive_rings;	   /* that a queue fills with packet buffers; 0: one */
	/* the driver inserts tags itself, but not into mbufs that TCP keeps for retransmission */
	bool vlan_by_software;
};

/* Fills port->steers and ->steering: of a port that has been started. */
void port_steer(struct port *port, uint16_t data_port);
/* The same way again, of a device that was reset and has forgotten it: clients know its key and its table. */
void port_steer_again(struct port *port);

/* Has the frames of IPv6's multicast groups let through, as long as the port is open; a port that has been started. */
void port_join_groups(struct port *port, const struct config_port *config);
void port_leave_groups(struct port *port);

/* Adds a virtual device; DPDK's return value. */
int port_hotplug(const char *name, const char *arguments);

/* A kernel interface that carries a port: it exists, is up, has the MTU. Warns of offloads that spoil its frames. */
/* interface.c: whether the port's interface is there, and whether its link is up. */
bool port_interface_is_there(const struct port *port);
bool port_interface_link(const struct port *port);
int port_interface_check(const struct config_port *config, unsigned index, struct star_error *err);

/* This process's sockets that can be waited on for an interface: packet sockets bound to it, and AF_XDP sockets. */
enum { PORT_SOCKETS_MAX = 1024 };
struct port_sockets {
	unsigned count;
	int fds[PORT_SOCKETS_MAX]; /* ascending */
};

void port_sockets_find(const struct config_port *config, struct port_sockets *sockets);
/* Events of a device, from when it is started until it is closed (events.c). */
void port_watch(struct port *port);
void port_unwatch(struct port *port);
/* Once the EAL is started: has its handler of SIGBUS repair the mappings of a NIC by uio that is gone. */
void port_expect_removal(void);

/* Fills port->wait_fds, from what the driver offers or from the sockets that it opened since `before`. */
void port_wait_init(struct port *port, const struct config_port *config, const struct port_sockets *before);

/* Drivers that carry a kernel interface, and whose sockets can be waited on. */
bool port_is_af_packet(const struct config_port *config);
bool port_is_af_xdp(const struct config_port *config);
bool port_is_pci(const struct config_port *config);

#endif
