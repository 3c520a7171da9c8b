/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/port share. Only for the control path. */
#ifndef PORT_INTERNAL_H
#define PORT_INTERNAL_H

#include <rte_mempool.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "port/port.h"

/* Captures what DPDK and its drivers print during a call of ours, so that none of it reaches the terminal. If the call
 * fails, the first line, which is usually the cause, becomes part of our error message. libxdp and libbpf, and the EAL
 * when it gives up, write to standard error directly: between port_chatter_begin and _end it is discarded, for the
 * whole process.
 */
struct port_chatter {
	int stderr_fd; /* a copy of the real one meanwhile; -1: there is none */
	FILE *stream;
	char *text;
	size_t bytes;
};

void port_chatter_begin(struct port_chatter *chatter);
/* The same for DPDK's log alone: for calls that may take long, during which standard error must not be discarded. */
void port_chatter_listen(struct port_chatter *chatter);
/* Stops capturing, and copies the first line to cause ("" if there was none). */
void port_chatter_end(struct port_chatter *chatter, char *cause, size_t bytes);

/* The EAL's first complaint when it was started: a NIC that it could not probe is missed only later, when its port is
 * opened. */
extern char port_eal_said[256];

/* Whether a NUMA node has hugepages that nobody uses. */
bool port_numa_has_hugepages(int numa);

/* Hugepages that are neither used nor reserved. */
struct port_hugepages {
	uint64_t free_2m, total_2m, free_1g, total_1g; /* pages */
	uint64_t free_bytes;
};

void port_hugepages_read(struct port_hugepages *pages);

/* Notes that hugepages which were free when the EAL was started could not be had: for port_eal_hugepages_failed. */
void port_hugepages_fail(void);

/* The demand for hugepages: that of the EAL itself, and of mempools and parameters, in this many parts of equal
 * size. */
struct port_memory {
	uint64_t eal_bytes, mempool_bytes, arena_bytes;
	unsigned parts;
};

/* Whether they are enough, counted in pages: with pages of 1 GiB only, each part takes whole ones. */
bool port_hugepages_hold(const struct port_hugepages *pages, const struct port_memory *memory);

/* Bytes for a frame in an mbuf or in a packet socket's ring: the packet, its Ethernet header and VLAN tag, and what the
 * kernel puts before a frame in that ring. A multiple of 1024, so that four of them fill whole pages.
 */
uint32_t port_frame_bytes(uint32_t mtu);

/*
 * Whether no mbuf may cross the end of a page; needed for NICs, and set before the first mempool is created.
 * Neighbouring pages need not be neighbours in physical memory. For a real NIC the IOMMU joins them. But an emulated
 * NIC (qemu's e1000e and vmxnet3) maps a frame by one address, and drops it if the mapping ends before the frame does,
 * each time that it is sent again.
 */
void port_mempool_within_pages(bool on);
/*
 * Whether mempools are in anonymous memory instead of DPDK's, if devices use virtual addresses; set before the first
 * one is created. Only for ports whose drivers copy packets, or hand the kernel the memory's address.
 */
void port_mempool_in_ordinary_memory(bool on);
bool port_mempool_is_ordinary(void);
/* Whether mempools are one piece of memory without gaps. */
bool port_mempool_is_whole(void);

/* Makes an empty mempool keep its free objects in a LIFO (lifo.c). DPDK's return value. */
int port_lifo(struct rte_mempool *pool);
/*
 * For a thread that frees mbufs while the reactors that own their pools run: what the calling thread frees between
 * port_strays_begin and _end (it must have no cache of an lcore) is collected. Call port_strays_return when no reactor
 * runs.
 */
void port_strays_begin(struct port_strays *of);
void port_strays_end(void);

/* Chooses a port's offloads: sets port->offloads, their limits, and conf. */
void port_choose_offloads(struct port *port, const struct config_port *config, const struct rte_eth_dev_info *info,
			  struct rte_eth_conf *conf);

/* The number of receive descriptors of a queue: such that it holds at most CONFIG_DESCRIPTORS mbufs, whatever its
 * driver does with them. */
uint16_t port_receive_descriptors(const struct rte_eth_dev_info *info);

/* What is known to be wrong with what this device's driver announces (offload.c); NULL: nothing. */
const struct port_quirks *port_quirks(const struct rte_eth_dev_info *info);

/* Capabilities that a driver announces but does not have. */
struct port_quirks {
	const char *driver;
	uint16_t tso_segments;	   /* segments of a frame at most; 0: as announced */
	bool last_segment_refused; /* one segment less than announced works */
	uint16_t receive_rings;	   /* how many rings a queue fills with mbufs; 0: one */
	/* the driver inserts tags itself, but not into mbufs that TCP keeps for retransmission */
	bool vlan_by_software;
};

/* Sets port->steers and ->steering. The port must have been started. */
void port_steer(struct port *port, uint16_t data_port);
/* Restores the same steering on a device that was reset, because clients know its key and its table. */
void port_steer_again(struct port *port);

/* Makes the device accept frames of the IPv6 multicast groups while the port is open. The port must have been
 * started. */
void port_join_groups(struct port *port, const struct config_port *config);
void port_leave_groups(struct port *port);

/* Adds a virtual device; DPDK's return value. */
int port_hotplug(const char *name, const char *arguments);

/* interface.c: whether the port's kernel interface exists, and whether its link is up. */
bool port_interface_is_there(const struct port *port);
bool port_interface_link(const struct port *port);
/* Checks the kernel interface of a port: it must exist, be up, and have the MTU. Warns of offloads that spoil frames.
 * 0, or a negative errno with err. */
int port_interface_check(const struct config_port *config, unsigned index, struct star_error *err);

/* This process's sockets on which one can wait for an interface's frames: packet sockets bound to it, and AF_XDP
 * sockets. */
enum { PORT_SOCKETS_MAX = 1024 };
struct port_sockets {
	unsigned count;
	int fds[PORT_SOCKETS_MAX]; /* ascending */
};

void port_sockets_find(const struct config_port *config, struct port_sockets *sockets);
/* Watches events of a device, from when it is started until it is closed (events.c). */
void port_watch(struct port *port);
void port_unwatch(struct port *port);
/* Call it once the EAL is started: makes its SIGBUS handler repair the mappings of a NIC under uio that was removed. */
void port_expect_removal(void);

/* Sets port->wait_fds, from the driver's interrupts or from the sockets that it has opened since `before`. */
void port_wait_init(struct port *port, const struct config_port *config, const struct port_sockets *before);

/* Which kind of device a port has. The first two use a kernel interface, and sockets on which one can wait. */
bool port_is_af_packet(const struct config_port *config);
bool port_is_af_xdp(const struct config_port *config);
bool port_is_virtio_user(const struct config_port *config);
/* Whether its driver works with packet buffers in any memory of the process. */
bool port_takes_any_memory(const struct config_port *config);
bool port_is_pci(const struct config_port *config);

#endif
