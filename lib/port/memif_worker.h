/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client's side of memif, for a worker (memif.h is the appliance's): one queue pair, whose memory is ours, and into
 * and out of which we copy. Not DPDK's driver, whose interrupt thread unmaps that memory when the appliance dies, also
 * while another thread is reading it; which carries no frame over 1518 bytes, and never connects again.
 *
 * No thread of its own: all calls are those of whoever drives the port, one at a time.
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

/* Frames are received into the pool with mbuf->port set to id. It is not connected yet. NULL with a message. */
struct memif_worker *memif_worker_open(const struct config_port *config, uint16_t id, struct rte_mempool *pool,
				       struct star_error *err);
void memif_worker_close(struct memif_worker *worker);
void memif_worker_mac(const struct memif_worker *worker, struct rte_ether_addr *mac);

/* Whether it is connected. Notices that the appliance has gone, and takes the next step of connecting to one that is
 * there: to be called every few milliseconds. Some system calls; waits for nothing. */
bool memif_worker_link(struct memif_worker *worker);

/* As port_receive and port_send. */
uint16_t memif_worker_receive(struct memif_worker *worker, struct rte_mbuf **mbufs, uint16_t n);
uint16_t memif_worker_send(struct memif_worker *worker, struct rte_mbuf **mbufs, uint16_t n);

#endif
