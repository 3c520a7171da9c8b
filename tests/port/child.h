/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The EAL starts once a process, so each case that needs one runs in a child, in a network namespace of its own:
 * nothing of it can stay behind. There a veth pair on which the kernel says nothing by itself: star0 is the port's,
 * star1 the peer's.
 */
#ifndef TESTS_PORT_CHILD_H
#define TESTS_PORT_CHILD_H

#include "port/port.h"

enum { CHILD_MBUFS = 4095, CHILD_FRAME_MAX = 4096 };

/* Runs a case in a child, and fails when a check in it failed or when it did not end within a minute. */
void child_run(void (*run)(void));

/* Makes the pair: its mtu, its queues, and whether its offloads stay on. */
void child_veth(unsigned mtu, unsigned queues, bool offloads);
/* Runs a shell command that must succeed. */
void child_command(const char *command);

/* A configuration with one port on star0, without hugepages. */
void child_config(struct config *config, const char *device, unsigned mtu);
/* Starts the EAL for it, or fails. */
bool child_eal(const struct config *config);

/* What was written to standard error since child_capture. */
void child_capture(void);
const char *child_captured(void);

/* A raw socket on star1. */
int child_peer(void);
/* A UDP frame from source port `flow` to the port's MAC, bytes long, marked with a number; returns bytes. */
unsigned child_frame(uint8_t *frame, const struct port *port, uint16_t flow, unsigned bytes);

/* Waits until the queue has a frame; NULL after five seconds. */
struct rte_mbuf *child_receive(const struct port *port, uint16_t queue);
/* Whether the queue's wait fd rings within that time. */
bool child_rings(const struct port *port, uint16_t queue, int timeout_ms);

#endif
