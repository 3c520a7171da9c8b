/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a service manager is told of the node (sd_notify(3)): that it serves, what it waits for, that it stops, and,
 * where it wants that, that the node is alive. A thread of its own looks at the reactors: keepalives go on while each
 * of them takes its turns, also while the node loads a checkpoint. A reactor that is stuck ends them, and the service
 * manager restarts the node.
 *
 * Threads: the calls are main's.
 */
#ifndef STARSERVER_SUPERVISE_H
#define STARSERVER_SUPERVISE_H

#include "control/control.h"
#include "node/node.h"

struct supervise;

/* While the node's reactors run. NULL: nobody asked to be told, or (with a warning in the log) there is no thread for
 * it. The other calls take NULL. */
struct supervise *supervise_start(const struct node *node);

/* The node's control plane is there. */
void supervise_control(struct supervise *supervise, struct control *control);

/* The node stops, or (again) restarts in this process: says so, and looks at neither control plane nor reactors any
 * more. */
void supervise_stop(struct supervise *supervise, bool again);

#endif
