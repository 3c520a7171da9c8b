/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DPDK's side of the appliance: the EAL, network ports, their queues and mempools, and how an idle reactor waits for
 * them. The only library that knows NICs and hugepages. Set up and torn down on the control path; port_receive and
 * port_send belong to the reactor that owns the queue.
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
	PORT_NUMBERS_MAX = 64, /* a port's name ends with one: less than that */
	PORT_IDS_MAX = RTE_MAX_ETHPORTS + PORT_NUMBERS_MAX,
};

/*
 * Starts the EAL as the configuration says: hugepages or none, no PCI unless a port asks for it, no telemetry socket
 * unless it says so unless configured. memory_bytes: what mempools (port_mempool_bytes) and parameters
 * (config->parameter_mib) will take together. Once a process; the calling thread keeps its affinity. Refuses, with what
 * is available and what was asked and the command that mends it, when hugepages are required and missing, or when it is
 * not root. When hugepages are preferred and missing it says so in one line of the log and goes on without.
 */
int port_eal_start(const struct config *config, uint64_t memory_bytes, struct star_error *err);
void port_eal_stop(void);

/* Whether the EAL runs on hugepages. */
bool port_eal_hugepages(void);
/* Whether there were enough of them, as it seemed, and then too few after all: another program took them meanwhile. What
 * the process has begun with them cannot be undone; it may be executed again, and do without. */
bool port_eal_hugepages_failed(void);

/* Zeroed memory for a reactor's parameters, from hugepages where there are any; aligned to 2 MiB. port_memory_free
 * gives it back, and wants the same number of bytes. */
void *port_memory_alloc(const char *name, size_t bytes, unsigned reactor, struct star_error *err);
void port_memory_free(void *memory, size_t bytes);
/* Before it is touched: its pages come from this NUMA node as long as that has some (-1: from any). */
void port_memory_prefer(void *memory, size_t bytes, int numa);

/* The NUMA node of a core, and that of a port's NIC; -1: unknown, or the port has no NIC. */
int port_numa_of_core(int core);
int port_numa_of_device(const struct config_port *config);

/* What port_mempool_create takes, for the sum that port_eal_start is told. */
uint64_t port_mempool_bytes(uint32_t mbufs, uint32_t mtu);

/* A pool's store (lifo.c): what is not in the cache of a thread. */
struct port_lifo {
	unsigned count, size;
	void *objects[];
};

/*
 * A reactor's mbufs: one producer and one consumer (the reactor's own thread), PORT_PRIV_BYTES of private area each,
 * and room for a full frame of the mtu behind the headroom.
 */
struct rte_mempool *port_mempool_create(unsigned reactor, uint32_t mbufs, uint32_t mtu, struct star_error *err);
/* The same with memory of a NUMA node (-1: any), where it has some. */
struct rte_mempool *port_mempool_create_on(unsigned reactor, uint32_t mbufs, uint32_t mtu, int numa,
					   struct star_error *err);

/* What a device has said of itself (events.c). */
enum port_state {
	PORT_WORKS,
	PORT_NEEDS_RESET, /* its driver asks for one */
	PORT_IS_REMOVED,  /* it has been taken out of the machine; an interface: it was deleted */
};
const char *port_state_text(enum port_state state);

/* Whether one of port_mempool_create's has less left than a burst or two. For its thread: a look at a counter. */
static inline bool port_mempool_low(const struct rte_mempool *pool)
{
	return ((const struct port_lifo *)pool->pool_data)->count < PORT_BURST;
}

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
	char interface[IFNAMSIZ]; /* of the kernel, that net_af_packet and net_af_xdp work on; "": there is none */
	unsigned interface_index; /* another one of the same name is not it */
	bool sends_itself;	  /* by send_fds, and not by the driver */
	bool rx_interrupts;	  /* wait_fds are the driver's interrupts, and not sockets */
	bool counts;		  /* the driver can tell whether frames came while the interrupt was turned on */
	uint8_t ring_bytes;	  /* that a read of such a descriptor takes */
	uint32_t offloads;	  /* enum offload: those that are on */
	uint16_t tso_bytes;	  /* of TX_TSO: the longest frame to be cut, */
	uint16_t tso_segments;	  /* and the most mbufs of its chain */
	int groups_fd;		  /* the member of IPv6's multicast groups, or -1 */
	bool gone;		  /* port_gone */
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

/* Opens a port with a queue pair for each of `queues` mempools (one a reactor), starts it, finds what its queues can be
 * waited on with, and steers flows to data_port + queue (0: the port has no data ports) as well as the NIC can. Its
 * name is the device's and the number, or the PCI address. A NIC must have been known when the EAL was started. NULL
 * with a message and the command that mends it (interface missing, busy, no root). */
struct port *port_open(const struct config_port *config, unsigned number, struct rte_mempool *const *pools,
		       uint16_t queues, uint16_t data_port, struct star_error *err);
/* Whether it is a NIC: a PCI device. */
bool port_is_nic(const struct port *port);
/* Whether it has a link that goes up and down: a NIC's, or an interface's of the kernel. */
bool port_has_link(const struct port *port);
/* Whether its link is up, as its driver says: net_af_packet and net_af_xdp always say so. A worker's memif is connected
 * by it, step by step: for the thread that bursts, every few milliseconds. */
bool port_link(struct port *port);
/* The same for control threads: of an interface the kernel is asked, in the calling thread's network namespace, which
 * is to be port_open's. */
bool port_carrier(struct port *port);
/* enum port_state, as of now. */
enum port_state port_state(const struct port *port);
/* What wakes a reactor that sleeps: for people. */
const char *port_wakes_text(const struct port *port);
/* Has the driver free what it has sent and still keeps in the queue's ring, where it can. For the reactor that owns the
 * queue. */
void port_clean(const struct port *port, uint16_t queue);
/* Stops the device, resets it and starts it again: no reactor may run meanwhile. 0, or a negative errno with a
 * message. */
int port_reset(struct port *port, const struct config_port *config, struct rte_mempool *const *pools,
	       struct star_error *err);
/* Of a port that was taken out: port_link and port_state make no call to its driver any more. Not while one does. */
void port_gone(struct port *port);
/*
 * Closes the device of a port that is gone and that no reactor uses any more; port_close is all that may follow.
 * Drivers ask registers that nobody answers any more, again and again: it takes seconds. So reactors go on meanwhile,
 * and what the driver's rings held is set aside in *strays: port_strays_return gives it back when they are at rest.
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
/* Whether port_open and port_close may take mbufs from the pools, or give some back: then no reactor may run
 * meanwhile. */
bool port_needs_rest(const struct config_port *config);
/* Whether port_close gives back all that the port took. net_af_xdp's driver keeps the mbufs of its rings. */
bool port_can_close(const struct config_port *config);

/* Calls gone with the port's id whenever its client has gone, on a thread of the port's own, until port_close: which
 * waits for a call that is in progress. Of a port without clients: never. */
void port_on_gone(struct port *port, void (*gone)(void *ctx, uint16_t id), void *ctx);

static inline uint16_t port_receive(const struct port *port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	if (unlikely(port->id >= RTE_MAX_ETHPORTS))
		return port->memif ? memif_receive(port->memif, queue, mbufs, n)
				   : memif_worker_receive(port->worker, mbufs, n);
	return rte_eth_rx_burst(port->id, queue, mbufs, n);
}

/* The rest of port_transmit, when the driver refuses mbufs[good]. */
uint16_t port_send_refused(const struct port *port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n, uint16_t good,
			   uint64_t *refused);

/* Sends what it can; the rest is freed by the caller, and counted. A driver may want to look at frames first that leave
 * it something to do (rte_eth_tx_prepare: each its own way to begin a checksum). A frame that it refuses is freed and
 * counted in *refused, as if it had been sent: it does not hold up those behind it. */
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

/* The same for who does not count them apart. */
static inline uint16_t port_send(const struct port *port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	uint64_t refused = 0;

	return port_transmit(port, queue, mbufs, n, &refused);
}

/* Before a sleep: 0 when the queue's wait_fd will ring (rx interrupt armed where the driver has one); -EAGAIN when
 * frames are there already; another negative errno when it may not ring: sleep shortly. After it, whatever it returned:
 * disarm. */
int port_wait_arm(const struct port *port, uint16_t queue);
void port_wait_disarm(const struct port *port, uint16_t queue);

#endif
