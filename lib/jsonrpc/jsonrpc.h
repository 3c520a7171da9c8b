/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A JSON-RPC 2.0 client, one request a line, over kernel TCP, in TLS where there is a key (secure/link.h), or a Unix
 * socket. Blocking, with a deadline; one connection serves one thread at a time.
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
 * In clear. address: "host:port", or a path with a slash. deadline_us counts from now; only the look-up of a host name
 * (not of a literal) is bounded by the resolver's own limits instead. NULL with a message that names the address and
 * what to check.
 */
struct jsonrpc_client *jsonrpc_connect(const char *address, uint64_t deadline_us, struct star_error *err);

/*
 * The same with the key of a key file, which is read now: a new one is used from the next connection on. NULL or "": in
 * clear; so is a Unix socket always. Never in clear else: -EACCES, if the node does not take the key; -EPROTO, if it
 * speaks no TLS; -EINVAL, if the file has several principals. A next key is tried when the current one is not taken.
 */
struct jsonrpc_client *jsonrpc_connect_by(const char *key_file, const char *address, uint64_t deadline_us,
					  struct star_error *err);

/* As one principal, of which keys are all (NULL: in clear), and from an address of this machine, "host:port" of which
 * the port is of no account: by its address a node is known to others. */
struct jsonrpc_client *jsonrpc_connect_from(const char *source, const struct secure_keys *keys, const char *address,
					    uint64_t deadline_us, struct star_error *err);

/* client may be NULL. */
void jsonrpc_close(struct jsonrpc_client *client);

/* The connection itself, which stays the client's, for who goes on with other bytes than JSON-RPC; nothing was called.
 * link NULL: in clear. */
struct secure_link;
void jsonrpc_stream(const struct jsonrpc_client *client, int *fd, struct secure_link **link);

/* The process that listens at the other end of a Unix socket; 0 when it cannot be seen from here, or over TCP. */
pid_t jsonrpc_peer(const struct jsonrpc_client *client);

/* From any thread while the client exists: the call in progress, and every later one, fails at once. */
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
