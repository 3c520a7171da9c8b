/* SPDX-License-Identifier: BSD-3-Clause */
/* What a network stack is told of a port. Pure. */
#ifndef PORT_NET_INTERFACE_H
#define PORT_NET_INTERFACE_H

#include "net/net.h"
#include "port/port.h"

/* Of a port that is open, with the addresses of its configuration, which lib/config has checked. */
struct net_interface_options port_net_interface(const struct port *port, const struct config_port *config);

#endif
