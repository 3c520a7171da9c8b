/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of a network stack's interface, from a port. Pure function. */
#ifndef PORT_NET_INTERFACE_H
#define PORT_NET_INTERFACE_H

#include "net/net.h"
#include "port/port.h"

/* The port must be open. The addresses are those of its configuration, which lib/config has checked. */
struct net_interface_options port_net_interface(const struct port *port, const struct config_port *config);

#endif
