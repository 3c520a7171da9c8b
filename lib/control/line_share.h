/* SPDX-License-Identifier: BSD-3-Clause */
/* What each peer address holds of a line server: connections and bytes of buffers. The server's thread only. */
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

/* IPv4 addresses as IPv6 writes them (::ffff:a.b.c.d); all zeroes for another family. */
void control_line_address(const struct sockaddr *from, uint8_t address[static LINE_ADDRESS_BYTES]);

/* The share of an address, with one connection more; NULL: out of memory. */
struct line_share *control_line_share_take(struct line_share **shares,
					   const uint8_t address[static LINE_ADDRESS_BYTES]);
/* One connection fewer; frees the share with its last one. */
void control_line_share_release(struct line_share **shares, struct line_share *share);

uint32_t control_line_share_handshakes_max(const struct line_share *shares);
uint32_t control_line_share_connections_max(const struct line_share *shares);
size_t control_line_share_bytes_max(const struct line_share *shares);

#endif
