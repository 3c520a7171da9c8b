/* SPDX-License-Identifier: BSD-3-Clause */
/* Control addresses as text, "host:port", to socket addresses of the kernel. Thread-safe. */
#ifndef JSONRPC_ADDRESS_H
#define JSONRPC_ADDRESS_H

#include <netdb.h>
#include <stdbool.h>

#include "star_error.h"

/*
 * text is "host:port"; host a literal or a name. passive: to listen on, otherwise to connect to. 0 and a list for
 * freeaddrinfo, or -EINVAL (malformed) or -EHOSTUNREACH (unknown host) with a message.
 */
int jsonrpc_address_resolve(const char *text, bool passive, struct addrinfo **list, struct star_error *err);

#endif
