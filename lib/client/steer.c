/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the source port of a channel if the node's NIC would otherwise steer the flow to another reactor. */
#include "client/connect.h"

#include <string.h>
#include <unistd.h>

enum { LOW = 32768, HIGH = 60999, TRIES = 16 }; /* the kernel's own range of ephemeral ports */

static uint16_t *port_of(struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET ? &((struct sockaddr_in *)address)->sin_port
					     : &((struct sockaddr_in6 *)address)->sin6_port;
}

static unsigned copy_address(const struct sockaddr_storage *address, uint8_t to[16])
{
	if (address->ss_family == AF_INET) {
		memcpy(to, &((const struct sockaddr_in *)address)->sin_addr, 4);
		return 4;
	}
	memcpy(to, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
	return 16;
}

/* The address that the kernel would send from; connecting a datagram socket sends nothing. */
static bool own_address(const struct channel *ch, struct sockaddr_storage *own)
{
	const int fd = socket(ch->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t bytes = sizeof(*own);
	bool found;

	if (fd < 0)
		return false;
	found = connect(fd, (const struct sockaddr *)&ch->address, ch->address_bytes) == 0 &&
		getsockname(fd, (struct sockaddr *)own, &bytes) == 0;
	close(fd);
	return found;
}

void client_steer_bind(struct channel *ch)
{
	struct sockaddr_storage own, to = ch->address;
	struct steering_flow flow = { 0 };

	if (!ch->steering || !own_address(ch, &own))
		return;
	flow.address_bytes = copy_address(&own, flow.from);
	copy_address(&to, flow.to);
	flow.to_port = ntohs(*port_of(&to));
	flow.from_port = (uint16_t)(LOW + prng_below(&ch->prng, HIGH - LOW + 1));
	for (int i = 0; i < TRIES; i++) {
		const uint16_t port = steering_port(ch->steering, &flow, ch->reactor, LOW, HIGH);

		if (port == 0)
			return; /* no port leads there, so frames will be handed over */
		*port_of(&own) = htons(port);
		if (bind(ch->fd, (const struct sockaddr *)&own, ch->address_bytes) == 0)
			return;
		flow.from_port = (uint16_t)(port == HIGH ? LOW : port + 1);
	}
}
