/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client side of memif, for a worker (memif.h is the server side): one queue pair in memory of our own, to and from
 * which frames are copied. It replaces DPDK's driver, whose interrupt thread unmaps that memory when the appliance
 * dies, even while another thread reads it; which has no frames over 1518 bytes; and which never connects again.
 *
 * Threads: it has none of its own. The thread that drives the port makes all calls, one at a time.
 */
#ifndef PORT_MEMIF_WORKER_H
#define PORT_MEMIF_WORKER_H

#include <rte_ether.h>
#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "star_error.h"

struct memif_worker;

/* Opens it, without connecting yet. Frames are received into mbufs of the pool, with mbuf->port set to id. NULL with
 * err. */
struct memif_worker *memif_worker_open(const struct config_port *config, uint16_t id, struct rte_mempool *pool,
				       struct star_error *err);
void memif_worker_close(struct memif_worker *worker);
void memif_worker_mac(const struct memif_worker *worker, struct rte_ether_addr *mac);

/* Whether it is connected. It also notices that the appliance has gone, and takes the next step of connecting: call it
 * every few milliseconds. It makes some system calls, and does not block. */
bool memif_worker_link(struct memif_worker *worker);

/* As port_receive and port_send. */
uint16_t memif_worker_receive(struct memif_worker *worker, struct rte_mbuf **mbufs, uint16_t n);
uint16_t memif_worker_send(struct memif_worker *worker, struct rte_mbuf **mbufs, uint16_t n);

#endif
