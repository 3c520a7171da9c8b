/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/line_share.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

void control_line_address(const struct sockaddr *from, uint8_t address[static LINE_ADDRESS_BYTES])
{
	memset(address, 0, LINE_ADDRESS_BYTES);
	if (from->sa_family == AF_INET6) {
		memcpy(address, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, LINE_ADDRESS_BYTES);
	} else if (from->sa_family == AF_INET) {
		address[10] = address[11] = 0xff;
		memcpy(address + 12, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
	}
}

struct line_share *control_line_share_take(struct line_share **shares, const uint8_t address[static LINE_ADDRESS_BYTES])
{
	struct line_share *s = *shares;

	while (s && memcmp(s->address, address, LINE_ADDRESS_BYTES) != 0)
		s = s->next;
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return NULL;
		memcpy(s->address, address, LINE_ADDRESS_BYTES);
		s->next = *shares;
		*shares = s;
	}
	s->connections++;
	return s;
}

void control_line_share_release(struct line_share **shares, struct line_share *share)
{
	if (--share->connections)
		return;
	while (*shares != share)
		shares = &(*shares)->next;
	*shares = share->next;
	free(share);
}

uint32_t control_line_share_handshakes_max(const struct line_share *shares)
{
	uint32_t most = 0;

	for (; shares; shares = shares->next)
		most = shares->handshakes > most ? shares->handshakes : most;
	return most;
}

uint32_t control_line_share_connections_max(const struct line_share *shares)
{
	uint32_t most = 0;

	for (; shares; shares = shares->next)
		most = shares->connections > most ? shares->connections : most;
	return most;
}

size_t control_line_share_bytes_max(const struct line_share *shares)
{
	size_t most = 0;

	for (; shares; shares = shares->next)
		most = shares->bytes > most ? shares->bytes : most;
	return most;
}
