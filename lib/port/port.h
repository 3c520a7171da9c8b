/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The appliance's interface to DPDK: the EAL, network ports with their queues and mempools, and how an idle reactor
 * waits for packets. The only library that knows NICs and hugepages. Ports are set up and closed on the control path;
 * port_receive, port_send and port_transmit are for the reactor that owns the queue.
 */
#ifndef PORT_PORT_H
#define PORT_PORT_H

#include <net/if.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/offload.h"
#include "base/steering.h"
#include "config/config.h"
#include "port/memif.h"
#include "port/memif_worker.h"
#include "port/packet.h"
#include "star_error.h"

enum {
	PORT_BURST = 32,
	PORT_QUEUES_MAX = 64,
	PORT_PRIV_BYTES = 64,
	PORT_NUMBERS_MAX = 64, /* the number at the end of a port's name is less than this */
	PORT_IDS_MAX = RTE_MAX_ETHPORTS + PORT_NUMBERS_MAX,
};

/*
 * Starts the EAL as configured: with or without hugepages; with PCI only if a port needs it; with DPDK's telemetry
 * socket only if the configuration says so. memory_bytes: what mempools (port_mempool_bytes) and parameters
 * (config->parameter_mib) will take together. At most once in a process; the calling thread keeps its affinity. 0, or a
 * negative errno with err, which names what is available, what was requested, and the command that helps: hugepages are
 * required and missing, or it is not root. If hugepages are preferred and missing, one line of the log says so, and the
 * EAL starts without them.
 */
int port_eal_start(const struct config *config, uint64_t memory_bytes, struct star_error *err);
void port_eal_stop(void);

/* Whether the EAL runs on hugepages. */
bool port_eal_hugepages(void);
/* Whether there seemed to be enough hugepages, but another program took them meanwhile. What the process has begun with
 * hugepages cannot be undone; but it may be executed again (exec), without them. */
bool port_eal_hugepages_failed(void);

/* Zeroed memory for a reactor's parameters, aligned to 2 MiB, from hugepages if there are any. NULL with err. Free it
 * by port_memory_free, with the same number of bytes. */
void *port_memory_alloc(const char *name, size_t bytes, unsigned reactor, struct star_error *err);
void port_memory_free(void *memory, size_t bytes);
/* Call it before the memory is touched: its pages are taken from this NUMA node as long as that has some (-1: from
 * any). */
void port_memory_prefer(void *memory, size_t bytes, int numa);

/* The NUMA node of a core, and that of a port's NIC; -1: unknown, or the port has no NIC. */
int port_numa_of_core(int core);
int port_numa_of_device(const struct config_port *config);

/* The memory that port_mempool_create takes, to be counted in port_eal_start's memory_bytes. */
uint64_t port_mempool_bytes(uint32_t mbufs, uint32_t mtu);

/* The free mbufs of a pool that are not in a thread's cache (lifo.c). */
struct port_lifo {
	unsigned count, size;
	void *objects[];
};

/*
 * A reactor's mempool: one producer and one consumer (the reactor's own thread). Each mbuf has PORT_PRIV_BYTES of
 * private area, and room for a full frame of the MTU behind the headroom. NULL with err.
 */
struct rte_mempool *port_mempool_create(unsigned reactor, uint32_t mbufs, uint32_t mtu, struct star_error *err);
/* The same with memory of a NUMA node (-1: any), if it has some. */
struct rte_mempool *port_mempool_create_on(unsigned reactor, uint32_t mbufs, uint32_t mtu, int numa,
					   struct star_error *err);

/* The state that a device reports (events.c). */
enum port_state {
	PORT_WORKS,
	PORT_NEEDS_RESET, /* its driver asks for one */
	PORT_IS_REMOVED,  /* it was removed from the machine; a kernel interface: it was deleted */
};
const char *port_state_text(enum port_state state);

/* Whether fewer than PORT_BURST mbufs of such a pool are free, apart from those in the cache. For the pool's thread; it
 * only reads a counter. */
static inline bool port_mempool_low(const struct rte_mempool *pool)
{
	return ((const struct port_lifo *)pool->pool_data)->count < PORT_BURST;
}

/* How flows reach the reactor whose data port they name. */
enum port_steers {
	PORT_ONE_QUEUE,
	PORT_RULES,	   /* by a rule of the NIC for each data port */
	PORT_SOURCE_PORTS, /* clients choose source ports with the help of `steering` */
	PORT_HANDS_OVER,   /* the reactor that receives a frame hands it over (software) */
};
const char *port_steers_text(enum port_steers how);

struct port {
	uint16_t id;		     /* DPDK's; a memif port has one from RTE_MAX_ETHPORTS on */
	struct memif *memif;	     /* NULL: DPDK drives it, */
	struct memif_worker *worker; /* unless this is not NULL: a worker's memif */
	uint16_t queues;
	uint16_t mtu;
	struct rte_ether_addr mac;
	char name[RTE_ETH_NAME_MAX_LEN];
	char interface[IFNAMSIZ]; /* the kernel's interface that net_af_packet or net_af_xdp uses; "": none */
	unsigned interface_index; /* recognizes another interface with the same name */
	bool sends_itself;	  /* frames are sent by send_fds, and not by the driver */
	bool rx_interrupts;	  /* wait_fds are the driver's interrupts, and not sockets */
	bool counts;		  /* the driver can tell whether frames came while the interrupt was being enabled */
	uint8_t ring_bytes;	  /* bytes that a read of such a descriptor takes */
	uint32_t offloads;	  /* enum offload: those that are on */
	uint16_t tso_bytes;	  /* of TX_TSO: the longest frame to be cut, */
	uint16_t tso_segments;	  /* and the most mbufs of its chain */
	int groups_fd;		  /* socket that is a member of the IPv6 multicast groups, or -1 */
	bool gone;		  /* port_gone was called */
	bool shut;		  /* the device is closed, and the port only a name */
	uint32_t state;		  /* enum port_state; written by the EAL's thread */
	enum port_steers steers;
	uint16_t data_port;		  /* of queue 0; 0: the port has none */
	struct steering steering;	  /* of PORT_SOURCE_PORTS */
	int wait_fds[PORT_QUEUES_MAX];	  /* readable when the queue has packets; -1 where the driver cannot tell */
	int send_fds[PORT_QUEUES_MAX];	  /* port_packet_open's */
	int cutting_fds[PORT_QUEUES_MAX]; /* port_packet_open_cutting's, with TX_TSO */
};

/* The name of the offload of bit i; NULL: there is none. */
const char *port_offload_text(unsigned i);

/* Opens a port with a queue pair for each of `queues` mempools (one for each reactor), starts it, finds the descriptors
 * on which its queues can be waited for, and steers flows to data_port + queue (0: the port has no data ports) as well
 * as the NIC can. Its name is the device's and `number`, or the PCI address. A NIC must have been there when the EAL
 * was started. NULL with err, which also names the command that helps (interface missing, busy, not root). */
struct port *port_open(const struct config_port *config, unsigned number, struct rte_mempool *const *pools,
		       uint16_t queues, uint16_t data_port, struct star_error *err);
/* Whether it is a NIC, that is, a PCI device. */
bool port_is_nic(const struct port *port);
/* Whether it has a link that can go up and down: a NIC, or a kernel interface. */
bool port_has_link(const struct port *port);
/* Whether its link is up according to its driver; net_af_packet and net_af_xdp always say so. For a worker's memif each
 * call also takes a step of connecting: call it every few milliseconds, on the thread that sends and receives. */
bool port_link(struct port *port);
/* The same for control threads. For a kernel interface it asks the kernel, in the calling thread's network namespace,
 * which must be that of port_open. */
bool port_carrier(struct port *port);
/* The state of its device now. */
enum port_state port_state(const struct port *port);
/* What wakes a sleeping reactor, as text for people. */
const char *port_wakes_text(const struct port *port);
/* Makes the driver free mbufs that were sent and are still in the queue's ring, if it can. For the reactor that owns
 * the queue. */
void port_clean(const struct port *port, uint16_t queue);
/* Stops the device, resets it and starts it again. No reactor may run meanwhile. 0, or a negative errno with err. */
int port_reset(struct port *port, const struct config_port *config, struct rte_mempool *const *pools,
	       struct star_error *err);
/* Marks a port whose device was removed: from now on port_link and port_state do not call its driver. Not while one of
 * them is running. */
void port_gone(struct port *port);
/*
 * Closes the device of a port for which port_gone was called and that no reactor uses; after it only port_close may be
 * called. It takes seconds, because drivers poll registers of a device that is gone. So reactors may run meanwhile, and
 * mbufs from the driver's rings are collected in *strays: port_strays_return returns them to their pools when no
 * reactor runs.
 */
struct port_stray {
	struct rte_mempool *pool;
	void *object;
};
struct port_strays {
	struct port_stray *all;
	unsigned count, size;
};
void port_shut(struct port *port, struct port_strays *strays);
void port_strays_return(struct port_strays *strays);
/* No reactor uses it any more. */
void port_close(struct port *port);
/* Whether port_open and port_close may take mbufs from the pools or return some. If so, no reactor may run
 * meanwhile. */
bool port_needs_rest(const struct config_port *config);
/* Whether port_close returns all mbufs that the port took. The driver net_af_xdp keeps those of its rings. */
bool port_can_close(const struct config_port *config);

/* `gone` is called with the port's id whenever its client has gone, on a thread of the port, until port_close, which
 * waits for a call in progress. Only memif ports have clients. */
void port_on_gone(struct port *port, void (*gone)(void *ctx, uint16_t id), void *ctx);

static inline uint16_t port_receive(const struct port *port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	if (unlikely(port->id >= RTE_MAX_ETHPORTS))
		return port->memif ? memif_receive(port->memif, queue, mbufs, n)
				   : memif_worker_receive(port->worker, mbufs, n);
	return rte_eth_rx_burst(port->id, queue, mbufs, n);
}

/* Continues port_transmit after the driver has refused mbufs[good]. */
uint16_t port_send_refused(const struct port *port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n, uint16_t good,
			   uint64_t *refused);

/* Sends as many frames as possible and returns their number; the caller frees and counts the rest. Frames for which the
 * driver has work to do go through rte_eth_tx_prepare first, because drivers start checksums in different ways. A frame
 * that this refuses is freed, counted in *refused, and returned as sent, so that it does not block those behind it. */
static inline uint16_t port_transmit(const struct port *port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n,
				     uint64_t *refused)
{
	if (unlikely(port->id >= RTE_MAX_ETHPORTS))
		return port->memif ? memif_send(port->memif, queue, mbufs, n)
				   : memif_worker_send(port->worker, mbufs, n);
	if (port->sends_itself)
		return port_packet_send(port->send_fds[queue], port->cutting_fds[queue], mbufs, n);
	if (port->offloads & (OFFLOAD_TX_CHECKSUMS | OFFLOAD_TX_VLAN)) {
		const uint16_t good = rte_eth_tx_prepare(port->id, queue, mbufs, n);

		if (unlikely(good < n))
			return port_send_refused(port, queue, mbufs, n, good, refused);
	}
	return rte_eth_tx_burst(port->id, queue, mbufs, n);
}

/* The same for callers that do not count refused frames. */
static inline uint16_t port_send(const struct port *port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	uint64_t refused = 0;

	return port_transmit(port, queue, mbufs, n, &refused);
}

/* Call it before a sleep. 0: the queue's wait_fd becomes readable when frames come (the driver's receive interrupt is
 * enabled, if it has one); -EAGAIN: there are frames already; another negative errno: it may not become readable, so
 * sleep only briefly. Afterwards call port_wait_disarm, whatever it returned. */
int port_wait_arm(const struct port *port, uint16_t queue);
void port_wait_disarm(const struct port *port, uint16_t queue);

#endif
