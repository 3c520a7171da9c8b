/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports that come and go while the reactor runs. */
#include "reactor/internal.h"

#include <errno.h>

enum { FLUSH_ROUNDS = 16 }; /* of what ops have queued: they bound it, but a round may bring about the next */

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

	for (unsigned round = 0; round < FLUSH_ROUNDS && reactor_transmit(r) > 0; round++)
		;
	while (i < r->ports_count && r->ports[i] != port)
		i++;
	if (i == r->ports_count)
		return;
	r->port_of[port->id] = NULL;
	r->ports_count--;
	for (; i < r->ports_count; i++)
		r->ports[i] = r->ports[i + 1];
}
