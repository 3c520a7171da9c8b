/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Serves lines: one thread with epoll reads requests, one a line, from any number of connections of two listeners, and
 * writes replies in their order. It knows nothing of what is in a line.
 *
 * Bounds: LINE_SERVER_* below; a connection has at most one request or reply in the works, and is not read meanwhile; a
 * peer that takes nothing of a reply for stall_timeout_us, or leaves a line unfinished for so long, is closed, and so
 * is one that says nothing. When all connections or all memory are taken, the address that holds most of them loses
 * some: the connection that has been idle for longest, or the largest buffer. What starts as an HTTP request ends its
 * connection: a web page can have a browser send such, with lines of its own choice behind it.
 */
#ifndef CONTROL_LINE_SERVER_H
#define CONTROL_LINE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "star_error.h"

enum line_server_limits {
	LINE_SERVER_ADMINS_MAX = 64, /* connections of their own, so that peers cannot lock the administrator out */
	LINE_SERVER_PEERS_MAX = 4096 - LINE_SERVER_ADMINS_MAX,
	LINE_SERVER_BUFFERED_MAX =
		256 << 20,		  /* bytes of all connections' buffers together; administrators' always fit */
	LINE_SERVER_SHARE_MAX = 64 << 20, /* of these, of one peer address */
};

struct line_server;
struct line_connection;

enum line_outcome {
	LINE_ANSWERED, /* *reply is what to send (with its newline; malloc), or NULL for nothing */
	LINE_LATER,    /* control_line_server_answer will be called for this connection, once */
	LINE_CLOSE,    /* end the connection */
};

struct line_server_options {
	int admin_fd, peer_fd; /* listening; the server owns them from a successful create on */
	size_t line_max;       /* bytes of a request; a longer one goes to too_long, and the rest of it is skipped */
	size_t peer_line_max;  /* the same for peers of which is_node says no; 0: line_max */
	uint64_t stall_timeout_us;
	uint64_t greeting_timeout_us; /* until a peer's first byte; 0: for ever */
	uint64_t idle_timeout_us;     /* between a peer's requests; 0: for ever */
	void *ctx;
	/* Called on the server's thread; must not block. line has no newline and no terminating zero. */
	enum line_outcome (*serve)(void *ctx, struct line_connection *connection, bool admin, const char *line,
				   size_t bytes, char **reply);
	/* Whether a peer is to have longer lines. Must not block. */
	bool (*is_node)(void *ctx, const struct line_connection *connection);
	/* What to send for a line of more bytes than may be, and to a connection that is one too many (malloc, or
	 * NULL). */
	char *(*too_long)(void *ctx, size_t max);
	char *(*too_many)(void *ctx);
};

struct line_server *control_line_server_create(const struct line_server_options *options, struct star_error *err);

/* From any thread: the reply (or NULL for none) of a request that was put off. Frees reply in the end. */
void control_line_server_answer(struct line_connection *connection, char *reply);

struct line_server_counts {
	uint32_t admins, peers; /* connections */
	uint64_t requests, refused, stalled;
};

/* The peer's address as line_share.h writes it; constant. NULL: an administrator's connection. */
const uint8_t *control_line_connection_peer(const struct line_connection *connection);

/* On the server's thread, so from serve. */
struct line_server_counts control_line_server_count(const struct line_connection *connection);

/* Stops the thread: serve is called no more, while answers may still come. server may be NULL. */
void control_line_server_stop(struct line_server *server);

/* After the stop: sends what has been answered since, as far as that goes at once, and closes everything. May be
 * NULL. */
void control_line_server_destroy(struct line_server *server);

#endif
