/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's side of memif, the shared-memory packet interface of VPP and DPDK: a port of the device net_memif, for a
 * worker on this machine. Ours, and not DPDK's driver, which unmaps a client's memory while other threads still read it
 * when the client dies, believes what the client writes into its rings, cannot wake a sleeper, and keeps its socket
 * open when its port is gone.
 *
 * The client makes the memory: rings of descriptors, and buffers. We map it, copy, and share none of ours. The protocol
 * is that of libmemif 4.0 (memif version 2.0): 128-byte messages over a SOCK_SEQPACKET socket, memory and event fds
 * passed along.
 *
 * Threads: memif_receive, memif_send, memif_arm and memif_disarm belong to the reactor of the queue; the rest to the
 * control path. A thread of the port's own speaks with the client. It gives a connection to the reactors by
 * queue->offered, and takes it back by offering none; a reactor takes what is offered in its next burst and says so in
 * queue->taken. Only then is memory unmapped.
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

/* Listens, and serves the clients that come, one after the other, with as many rings as it likes up to one a queue and
 * direction: where there are fewer, reactors take turns in sending. Frames are received into the
 * queues' pools with mbuf->port set to id. NULL with a message. */
struct memif *memif_open(const struct config_port *config, const char *name, uint16_t id,
			 struct rte_mempool *const *pools, uint16_t queues, struct star_error *err);
/* No reactor uses it any more. */
void memif_close(struct memif *memif);

/* As port_on_gone. */
void memif_on_gone(struct memif *memif, void (*gone)(void *ctx, uint16_t id), void *ctx);

void memif_mac(const struct memif *memif, struct rte_ether_addr *mac);
/* Readable when the queue has frames, or its client has come or gone. */
int memif_wait_fd(const struct memif *memif, uint16_t queue);
bool memif_connected(const struct memif *memif);

uint16_t memif_receive(struct memif *memif, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
uint16_t memif_send(struct memif *memif, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
/* As port_wait_arm and port_wait_disarm. */
int memif_arm(struct memif *memif, uint16_t queue);
void memif_disarm(struct memif *memif, uint16_t queue);

#endif
