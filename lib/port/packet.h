/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How frames leave through a kernel interface that net_af_packet receives from: a packet socket a queue, and a system
 * call a burst, in which the kernel copies them. DPDK's driver would copy each frame into a ring; the kernel makes
 * pages of that ring into its own packet, and has to copy them again where the packet stays on this machine (veth),
 * with pages that it allocates one by one: half of the time that a frame takes.
 *
 * Set up on the control path; port_packet_send is its queue's reactor's.
 */
#ifndef PORT_PACKET_H
#define PORT_PACKET_H

#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdint.h>

/* A socket that sends through the interface, past its queueing discipline or not, and receives nothing. A negative
 * errno. */
int port_packet_open(const char *interface, bool bypass);
/* The same, for frames that the interface, or the kernel in its stead, is to cut into segments of TCP. */
int port_packet_open_cutting(const char *interface);

/* Has a packet socket not hear what leaves through its interface. (PACKET_IGNORE_OUTGOING is not looked at in a fanout
 * group, in which the driver puts its sockets.) 0 or a negative errno. */
int port_packet_deafen(int fd);

/* As port_send: frames may be chains. Those to be cut (RTE_MBUF_F_TX_TCP_SEG) go to cutting_fd. */
uint16_t port_packet_send(int fd, int cutting_fd, struct rte_mbuf **mbufs, uint16_t n);

#endif
