/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending through a kernel interface from which net_af_packet receives: one packet socket for each queue, and one
 * system call for each burst, in which the kernel copies the frames. DPDK's driver would copy each frame into a ring.
 * The kernel then refers to pages of that ring, and has to copy them again if the packet stays on this machine (veth),
 * into pages that it allocates one by one: that is half of the cost of a frame.
 *
 * Sockets are opened on the control path; port_packet_send is for the reactor that owns the queue.
 */
#ifndef PORT_PACKET_H
#define PORT_PACKET_H

#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdint.h>

/* Opens a socket that sends through the interface, and receives nothing. bypass: without the interface's queueing
 * discipline. The descriptor, or a negative errno. */
int port_packet_open(const char *interface, bool bypass);
/* The same, for frames that the interface, or the kernel, has to cut into TCP segments. */
int port_packet_open_cutting(const char *interface);

/* Makes a packet socket ignore outgoing frames of its interface. (PACKET_IGNORE_OUTGOING has no effect in a fanout
 * group, into which the driver puts its sockets.) 0 or a negative errno. */
int port_packet_deafen(int fd);

/* As port_send. Frames may be chains. Those to be cut (RTE_MBUF_F_TX_TCP_SEG) go to cutting_fd. */
uint16_t port_packet_send(int fd, int cutting_fd, struct rte_mbuf **mbufs, uint16_t n);

#endif
