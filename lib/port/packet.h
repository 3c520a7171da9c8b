/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How frames leave through a kernel interface that net_af_packet receives from: a packet socket a queue, and a system call a
 * burst, in which the kernel copies them. DPDK's driver would copy each frame into a ring; the kernel makes pages of that
 * ring into its own packet, and has to copy them again where the packet stays on this machine (veth), with pages that it
 * allocates one by one: half of the time that a frame takes.
 *
 * Set up on the control path; packet_send is its queue's reactor's.
 */
#ifndef PORT_PACKET_H
#define PORT_PACKET_H

#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdint.h>

/* A socket that sends through the interface, past its queueing discipline or not, and receives nothing. A negative errno. */
int packet_open(const char *interface, bool bypass);

/* As port_send: frames may be chains. */
uint16_t packet_send(int fd, struct rte_mbuf **mbufs, uint16_t n);

#endif
