/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a node leaves behind when it crashes, or when one of its reactors is stuck: the file of lib/recorder, with its
 * last requests. There is one node a process, as there is one handler of signals.
 */
#ifndef NODE_CRASH_H
#define NODE_CRASH_H

#include "node/node.h"

/* From here on a crash (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT) writes the file, and then does what it did before.
 * Main's, before there are other threads; node_crash_end before the reactors' memory goes. */
void node_crash_begin(struct node *node);
void node_crash_end(void);

/* A reactor is stuck: writes the file now, and a crash that follows before node_crash_moves leaves it as it is, since
 * what ends a node that is stuck is a signal. One thread at a time. */
void node_crash_stuck(unsigned reactor);
void node_crash_moves(void);

#endif
