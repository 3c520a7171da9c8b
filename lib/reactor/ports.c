/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports that are added and removed while the reactor runs. */
#include "reactor/internal.h"

#include <errno.h>

int reactor_add_port(struct reactor *r, struct port *port)
{
	if (r->ports_count == CONFIG_PORTS_MAX)
		return -ENOSPC;
	r->port_of[port->id] = port;
	if (port->id < RTE_DIM(r->backlogs))
		r->backlogs[port->id].stuck = false; /* left from an earlier port with this id */
	r->ports[r->ports_count++] = port;
	return 0;
}

void reactor_remove_port(struct reactor *r, const struct port *port)
{
	unsigned i = 0;

	reactor_transmit_all(r, port);
	while (i < r->ports_count && r->ports[i] != port)
		i++;
	if (i == r->ports_count)
		return;
	r->port_of[port->id] = NULL;
	r->ports_count--;
	for (; i < r->ports_count; i++)
		r->ports[i] = r->ports[i + 1];
}

void reactor_set_capture(struct reactor *r, struct reactor_capture *capture)
{
	r->capture = capture;
}
