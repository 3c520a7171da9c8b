/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DPDK's side of the appliance: the EAL, network ports, their queues and mempools, and how an idle reactor waits for
 * them. The only library that knows NICs and hugepages. Set up and torn down on the control path; port_receive and
 * port_send belong to the reactor that owns the queue.
 */
#ifndef PORT_PORT_H
#define PORT_PORT_H

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
	PORT_NUMBERS_MAX = 64, /* a port's name ends with one: less than that */
	PORT_IDS_MAX = RTE_MAX_ETHPORTS + PORT_NUMBERS_MAX,
};

/*
 * Starts the EAL as the configuration says: hugepages or none, no PCI unless a port asks for it, no telemetry socket
 * unless configured. memory_bytes: what mempools (port_mempool_bytes) and parameters (config->parameter_mib) will take
 * together. Once a process; the calling thread keeps its affinity. Refuses, with what there is and what was asked and
 * the command that mends it, when hugepages are required and missing, or when it is not root. When hugepages are
 * preferred and missing it says so in one line of the log and goes on without.
 */
int port_eal_start(const struct config *config, uint64_t memory_bytes, struct star_error *err);
void port_eal_stop(void);

/* Whether the EAL runs on hugepages. */
bool port_eal_hugepages(void);

/* Zeroed memory for a reactor's parameters, from hugepages where there are any; aligned to 2 MiB. port_memory_free
 * gives it back, and wants the same number of bytes. */
void *port_memory_alloc(const char *name, size_t bytes, unsigned reactor, struct star_error *err);
void port_memory_free(void *memory, size_t bytes);

/* What port_mempool_create takes, for the sum that port_eal_start is told. */
uint64_t port_mempool_bytes(uint32_t mbufs, uint32_t mtu);

/*
 * A reactor's mbufs: one producer and one consumer (the reactor's own thread), PORT_PRIV_BYTES of private area each,
 * and room for a full frame of the mtu behind the headroom.
 */
struct rte_mempool *port_mempool_create(unsigned reactor, uint32_t mbufs, uint32_t mtu, struct star_error *err);

/* How flows reach the reactor whose data port they name. */
enum port_steers {
	PORT_ONE_QUEUE,
	PORT_RULES,	   /* a rule of the NIC a data port */
	PORT_SOURCE_PORTS, /* clients choose them by `steering` */
	PORT_HANDS_OVER,   /* in software */
};
const char *port_steers_text(enum port_steers how);

struct port {
	uint16_t id;		     /* DPDK's; of a memif port one from RTE_MAX_ETHPORTS on */
	struct memif *memif;	     /* NULL: DPDK drives it, */
	struct memif_worker *worker; /* unless this is not NULL: a worker's memif */
	uint16_t queues;
	uint16_t mtu;
	struct rte_ether_addr mac;
	char name[RTE_ETH_NAME_MAX_LEN];
	bool sends_itself;     /* by send_fds, and not by the driver */
	bool rx_interrupts;    /* wait_fds are the driver's interrupts, and not sockets */
	uint32_t offloads;     /* enum offload: those that are on */
	uint16_t tso_bytes;    /* of TX_TSO: the longest frame to be cut, */
	uint16_t tso_segments; /* and the most mbufs of its chain */
	int groups_fd;	       /* the member of IPv6's multicast groups, or -1 */
	enum port_steers steers;
	struct steering steering;	  /* of PORT_SOURCE_PORTS */
	int wait_fds[PORT_QUEUES_MAX];	  /* readable when the queue has packets; -1 where the driver cannot tell */
	int send_fds[PORT_QUEUES_MAX];	  /* packet_open's */
	int cutting_fds[PORT_QUEUES_MAX]; /* packet_open_cutting's, with TX_TSO */
};

/* The name of the offload of bit i; NULL: there is none. */
const char *port_offload_text(unsigned i);

/* Opens a port with a queue pair for each of `queues` mempools (one a reactor), starts it, finds what its queues can be
 * waited on with, and steers flows to data_port + queue (0: the port has no data ports) as well as the NIC can. Its name is the
 * device's and the number, or the PCI address. A NIC must have been known when the EAL was started.
 * NULL with a sentence and the command that mends it (interface missing, busy, no root). */
struct port *port_open(const struct config_port *config, unsigned number, struct rte_mempool *const *pools,
		       uint16_t queues, uint16_t data_port, struct star_error *err);
/* Whether its link is up. A worker's memif is connected by it, step by step: for the thread that bursts, every few milliseconds. */
bool port_link(struct port *port);
/* No reactor uses it any more. */
void port_close(struct port *port);
/* Whether port_open and port_close may take mbufs from the pools, or give some back: then no reactor may run meanwhile. */
bool port_needs_rest(const struct config_port *config);
/* Whether port_close gives back all that the port took. net_af_xdp's driver keeps the mbufs of its rings. */
bool port_can_close(const struct config_port *config);

/* Calls gone with the port's id whenever its client has gone, on a thread of the port's own, until port_close: which waits for a
 * call that is in progress. Of a port without clients: never. */
void port_on_gone(struct port *port, void (*gone)(void *ctx, uint16_t id), void *ctx);

static inline uint16_t port_receive(const struct port *port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	if (unlikely(port->id >= RTE_MAX_ETHPORTS))
		return port->memif ? memif_receive(port->memif, queue, mbufs, n)
				   : memif_worker_receive(port->worker, mbufs, n);
	return rte_eth_rx_burst(port->id, queue, mbufs, n);
}

/* Sends what it can; the rest is freed by the caller, and counted. A driver may want to look at frames first that leave it
 * something to do (rte_eth_tx_prepare: each its own way to begin a checksum). */
static inline uint16_t port_send(const struct port *port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	if (unlikely(port->id >= RTE_MAX_ETHPORTS))
		return port->memif ? memif_send(port->memif, queue, mbufs, n)
				   : memif_worker_send(port->worker, mbufs, n);
	if (port->sends_itself)
		return packet_send(port->send_fds[queue], port->cutting_fds[queue], mbufs, n);
	if (port->offloads & (OFFLOAD_TX_CHECKSUMS | OFFLOAD_TX_VLAN))
		n = rte_eth_tx_prepare(port->id, queue, mbufs, n);
	return rte_eth_tx_burst(port->id, queue, mbufs, n);
}

/* Before a sleep: 0 when the queue's wait_fd will ring (rx interrupt armed where the driver has one); -EAGAIN when
 * frames are there already; another negative errno when it may not ring: sleep shortly. After it, whatever it returned:
 * disarm. */
int port_wait_arm(const struct port *port, uint16_t queue);
void port_wait_disarm(const struct port *port, uint16_t queue);

#endif
