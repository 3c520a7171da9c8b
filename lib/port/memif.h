/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server side of memif, the shared-memory packet interface of VPP and DPDK: a port with the device net_memif, for a
 * worker on this machine. It replaces DPDK's driver, which unmaps a client's memory when the client dies, while other
 * threads may still read it; trusts what the client writes into its rings; cannot wake a sleeping peer; and keeps its
 * socket open when its port is gone.
 *
 * The client creates the memory: rings of descriptors, and buffers. The server maps it, copies frames, and shares no
 * memory of its own. The protocol is that of libmemif 4.0 (memif version 2.0): 128-byte messages over a SOCK_SEQPACKET
 * socket, which also passes memory and event descriptors.
 *
 * Threads: memif_receive, memif_send, memif_arm and memif_disarm are for the reactor that owns the queue, the rest for
 * the control path. A thread of the port talks to the client. It offers a connection to the reactors by queue->offered,
 * and withdraws it by setting that to NULL; a reactor follows in its next burst, and confirms it by queue->taken. Only
 * then is memory unmapped.
 */
#ifndef PORT_MEMIF_H
#define PORT_MEMIF_H

#include <rte_ether.h>
#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "star_error.h"

struct memif;

/* Listens, and serves one client after the other. A client has up to one ring for each queue and direction; if it has
 * fewer, reactors share them for sending. Frames are received into mbufs of the queues' pools, with mbuf->port set to
 * id. NULL with err. */
struct memif *memif_open(const struct config_port *config, const char *name, uint16_t id,
			 struct rte_mempool *const *pools, uint16_t queues, struct star_error *err);
/* No reactor may use it any more. */
void memif_close(struct memif *memif);

/* As port_on_gone. */
void memif_on_gone(struct memif *memif, void (*gone)(void *ctx, uint16_t id), void *ctx);

void memif_mac(const struct memif *memif, struct rte_ether_addr *mac);
/* A descriptor that is readable when the queue has frames, or its client has come or gone. */
int memif_wait_fd(const struct memif *memif, uint16_t queue);
bool memif_connected(const struct memif *memif);

uint16_t memif_receive(struct memif *memif, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
uint16_t memif_send(struct memif *memif, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
/* As port_wait_arm and port_wait_disarm. */
int memif_arm(struct memif *memif, uint16_t queue);
void memif_disarm(struct memif *memif, uint16_t queue);

#endif
