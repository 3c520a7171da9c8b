/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports the node's state to a service manager (sd_notify(3)): that it serves, what it is waiting for, that it stops,
 * and, if the manager has a watchdog, that it is alive. A thread of its own watches the reactors. Keepalives are sent
 * as long as every reactor makes turns, also while the node loads a checkpoint. If a reactor is stuck, they stop, and
 * the service manager restarts the node.
 *
 * Threads: only main calls these functions.
 */
#ifndef STARSERVER_SUPERVISE_H
#define STARSERVER_SUPERVISE_H

#include "control/control.h"
#include "node/node.h"

struct supervise;

/* Starts reporting; the node's reactors run already. NULL: there is no service manager, or (with a warning in the log)
 * the thread could not be created. The other calls accept NULL. */
struct supervise *supervise_start(const struct node *node);

/* The node's control plane has started. */
void supervise_control(struct supervise *supervise, struct control *control);

/* Reports that the node stops, or (again) restarts in this process. Neither control plane nor reactors are used after
 * this. */
void supervise_stop(struct supervise *supervise, bool again);

#endif
