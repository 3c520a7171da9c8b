/* SPDX-License-Identifier: BSD-3-Clause */
/* A line server's resources per peer address: connections, TLS handshakes, and bytes of buffers. Only the server's
 * thread calls these. */
#ifndef CONTROL_LINE_SHARE_H
#define CONTROL_LINE_SHARE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { LINE_ADDRESS_BYTES = 16 };

struct line_share {
	struct line_share *next;
	uint8_t address[LINE_ADDRESS_BYTES];
	uint32_t connections, handshakes;
	size_t bytes;
};

/* Returns an IPv4 address as an IPv4-mapped one (::ffff:a.b.c.d); all zeros for other families. */
void control_line_address(const struct sockaddr *from, uint8_t address[static LINE_ADDRESS_BYTES]);

/* Adds a connection to the share of an address, and returns the share; NULL: out of memory. */
struct line_share *control_line_share_take(struct line_share **shares,
					   const uint8_t address[static LINE_ADDRESS_BYTES]);
/* Removes a connection; frees the share with the last one. */
void control_line_share_release(struct line_share **shares, struct line_share *share);

/* The largest value among all shares. */
uint32_t control_line_share_handshakes_max(const struct line_share *shares);
uint32_t control_line_share_connections_max(const struct line_share *shares);
size_t control_line_share_bytes_max(const struct line_share *shares);

#endif
