/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports that come and go while the reactor runs. */
#include "reactor/internal.h"

#include <errno.h>

int reactor_add_port(struct reactor *r, struct port *port)
{
	if (r->ports_count == CONFIG_PORTS_MAX)
		return -ENOSPC;
	r->port_of[port->id] = port;
	r->ports[r->ports_count++] = port;
	return 0;
}

void reactor_remove_port(struct reactor *r, const struct port *port)
{
	unsigned i = 0;

	reactor_transmit_all(r);
	while (i < r->ports_count && r->ports[i] != port)
		i++;
	if (i == r->ports_count)
		return;
	r->port_of[port->id] = NULL;
	r->ports_count--;
	for (; i < r->ports_count; i++)
		r->ports[i] = r->ports[i + 1];
}
