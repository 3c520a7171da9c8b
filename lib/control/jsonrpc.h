/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A JSON-RPC 2.0 client, one request a line, over kernel TCP or a Unix socket. Blocking, with a deadline; one connection
 * serves one thread at a time.
 */
#ifndef CONTROL_JSONRPC_H
#define CONTROL_JSONRPC_H

#include <jansson.h>
#include <stdint.h>

#include "star_error.h"

enum { JSONRPC_LINE_MAX = 16 << 20 };

struct jsonrpc_client;

/* address: "host:port", or a path with a slash. NULL with a sentence that names the address and what to check. */
struct jsonrpc_client *jsonrpc_connect(const char *address, uint64_t deadline_us, struct star_error *err);
void jsonrpc_close(struct jsonrpc_client *client);

/*
 * Calls a method; steals params (may be NULL). Returns the result (a new reference), or NULL with err: the server's own
 * code (a negative errno in error.data.errno) and message when it answered with an error.
 */
json_t *jsonrpc_call(struct jsonrpc_client *client, const char *method, json_t *params, uint64_t deadline_us,
		     struct star_error *err);

#endif
