/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A JSON-RPC 2.0 client, with one request per line, over kernel TCP (with TLS if there is a key: secure/link.h) or a
 * Unix socket. Calls block, with a deadline. A connection is used by one thread at a time.
 */
#ifndef JSONRPC_JSONRPC_H
#define JSONRPC_JSONRPC_H

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "star_error.h"

enum { JSONRPC_LINE_MAX = 16 << 20, JSONRPC_REQUEST_MAX = 2 << 20 };

struct jsonrpc_client;
struct secure_keys;

/*
 * Connects without encryption. address: "host:port", or a path with a slash. deadline_us counts from now; only
 * resolving a host name is bounded by the resolver's own limits instead. NULL with err, which names the address and
 * what to check.
 */
struct jsonrpc_client *jsonrpc_connect(const char *address, uint64_t deadline_us, struct star_error *err);

/*
 * The same with TLS, and the key of a key file, which is read for each connection. NULL or "", and Unix sockets:
 * without encryption. Otherwise it never falls back to plain text: -EACCES if the node does not accept the key; -EPROTO
 * if it does not use TLS; -EINVAL if the file has several principals. If the current key is not accepted, the next one
 * is tried.
 */
struct jsonrpc_client *jsonrpc_connect_by(const char *key_file, const char *address, uint64_t deadline_us,
					  struct star_error *err);

/* The same with one principal's keys (NULL: without encryption), and from an address of this machine, "host:port",
 * whose port is ignored: nodes are recognized by their addresses. */
struct jsonrpc_client *jsonrpc_connect_from(const char *source, const struct secure_keys *keys, const char *address,
					    uint64_t deadline_us, struct star_error *err);

/* client may be NULL. */
void jsonrpc_close(struct jsonrpc_client *client);

/* The connection itself, which still belongs to the client, for callers that use it for something other than JSON-RPC.
 * Nothing may have been called. *link NULL: without encryption. */
struct secure_link;
void jsonrpc_stream(const struct jsonrpc_client *client, int *fd, struct secure_link **link);

/* The process that listens at the other end of a Unix socket; 0: unknown, or TCP. */
pid_t jsonrpc_peer(const struct jsonrpc_client *client);

/* Makes the call in progress, and every later one, fail at once. From any thread while the client exists. */
void jsonrpc_interrupt(struct jsonrpc_client *client);

/*
 * Calls a method; steals params (may be NULL). deadline_us counts from now. Returns the result (a new reference), or
 * NULL with err: the server's own code (a negative errno, from error.data.number) and message when it answered with an
 * error. After a failure of the connection itself (a deadline that passed included) every further call fails with
 * -ENOTCONN: close it and connect again.
 */
json_t *jsonrpc_call(struct jsonrpc_client *client, const char *method, json_t *params, uint64_t deadline_us,
		     struct star_error *err);

#endif
