/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON-RPC 2.0 messages (jsonrpc.org/specification) to and from lines. Batches are refused. Pure functions.
 *
 * In a star_error, codes down to -4095 are errno values and travel as an application error (-32000) whose data holds
 * the errno's name and number; codes of enum jsonrpc_code travel as they are.
 */
#ifndef JSONRPC_JSONRPC_MESSAGE_H
#define JSONRPC_JSONRPC_MESSAGE_H

#include <jansson.h>
#include <stddef.h>

#include "star_error.h"

enum jsonrpc_code {
	JSONRPC_PARSE_ERROR = -32700,
	JSONRPC_INVALID_REQUEST = -32600,
	JSONRPC_UNKNOWN_METHOD = -32601,
	JSONRPC_INVALID_PARAMS = -32602,
	JSONRPC_INTERNAL_ERROR = -32603,
	JSONRPC_APPLICATION_ERROR = -32000,
};

struct jsonrpc_request {
	json_t *root;	      /* owns the others */
	const char *method;   /* UTF-8, no NUL */
	const json_t *params; /* an object or an array; NULL: absent */
	const json_t *id;     /* NULL: a notification, which gets no reply */
};

/*
 * Parses one line of a client. 0, or a jsonrpc_code with a message; root and id are then set if they could be read. In
 * either case the caller ends with json_decref(request->root).
 */
int jsonrpc_request_parse(const char *line, size_t bytes, struct jsonrpc_request *request, struct star_error *err);

/* A reply as a line with its newline, for free(); NULL: out of memory. id may be NULL (unknown: null is sent). The
 * first steals result. */
char *jsonrpc_result_line(const json_t *id, json_t *result);
char *jsonrpc_error_line(const json_t *id, const struct star_error *err);

/* The client's side. Steals params. NULL: params are not JSON, or out of memory. */
char *jsonrpc_request_line(json_int_t id, const char *method, json_t *params, size_t *bytes);

/* The result (a new reference); or NULL with the server's error, or with -EPROTO if this is not a reply to that id. */
json_t *jsonrpc_reply_parse(const char *line, size_t bytes, json_int_t id, const char *address, struct star_error *err);

#endif
