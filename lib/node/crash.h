/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the file of lib/recorder, with the node's last requests, when the node crashes or one of its reactors is
 * stuck. One node per process, because signal handlers belong to the process.
 */
#ifndef NODE_CRASH_H
#define NODE_CRASH_H

#include "node/node.h"

/* From now on a crash (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT) writes the file, and then has the effect that it had
 * before. Main calls begin before there are other threads, and end before the reactors' memory is freed. */
void node_crash_begin(struct node *node);
void node_crash_end(void);

/* A reactor is stuck: writes the file now. A crash before node_crash_moves does not overwrite it, because a stuck node
 * is usually ended by a signal. One thread at a time. */
void node_crash_stuck(unsigned reactor);
/* No reactor is stuck any more. */
void node_crash_moves(void);

#endif
