/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server for lines: one thread with epoll reads requests, one per line, from the connections of two listeners, and
 * writes replies in order. It does not know what is in a line.
 *
 * Limits: LINE_SERVER_* below. A connection has at most one request or reply in progress, and is not read meanwhile. A
 * peer that reads nothing of a reply for stall_timeout_us, or leaves a line incomplete for so long, is closed, and so
 * is one that sends nothing. When all connections, or all memory, are in use, the address with most of them loses the
 * connection that has been idle longest, or the one with the largest buffer. A line that looks like an HTTP request
 * ends its connection, because a web page can make a browser send one, followed by lines of the page's choice.
 *
 * With keys, peers must begin with a TLS handshake (secure/link.h), for which they have greeting_timeout_us from the
 * connection on; lines are read only from authenticated peers. There are at most LINE_SERVER_HANDSHAKES_MAX handshakes
 * at a time, and LINE_SERVER_SHARE_HANDSHAKES_MAX of one address, whose others wait. When all are in use, the address
 * with most of them loses the oldest. A handshake reads at most LINE_SERVER_HANDSHAKE_BYTES. On the Unix socket the
 * kernel reports the user of a peer: only root and this process's own user are admitted. If a principal has a quota
 * (line_quota.h), a connection beyond it gets one answer, and is closed.
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
	LINE_SERVER_HANDSHAKES_MAX = 256,
	LINE_SERVER_SHARE_HANDSHAKES_MAX = 32,
	LINE_SERVER_HANDSHAKE_BYTES = 16 << 10,
};

struct line_guest;
struct secure_key;
struct secure_quotas;
struct secure_ring;

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
	struct secure_ring *keys;     /* who gets in as a peer; borrowed. NULL: everybody, in clear */
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
	/* With keys: what to send to a peer that begins in clear (malloc, or NULL). */
	char *(*in_clear)(void *ctx);
	/* How much a principal may use; *quotas is all zeroes, for none. Again for each after a review. NULL: there are
	 * no quotas. Must not block. */
	void (*quotas)(void *ctx, const struct secure_key *principal, struct secure_quotas *quotas);
	/* Called for each handshake that has ended, and for each peer that began without TLS. refused: why it was
	 * refused; NULL: it was admitted. May be NULL. */
	void (*came)(void *ctx, const struct line_connection *connection, const char *refused);
};

struct line_server *control_line_server_create(const struct line_server_options *options, struct star_error *err);

/* From any thread: the reply (or NULL for none) of a request that was put off. Frees reply in the end. */
void control_line_server_answer(struct line_connection *connection, char *reply);

struct line_server_counts {
	uint32_t admins, peers; /* connections */
	uint64_t requests, refused, stalled;
	uint64_t strangers; /* peers without a key that is good: handshakes that failed, and who began in clear */
	uint64_t revoked;   /* connections that were closed because their key is no longer good */
};

/* The peer's address as line_share.h writes it; constant. NULL: an administrator's connection. */
const uint8_t *control_line_connection_peer(const struct line_connection *connection);

/* The principal of a peer, without its secret. NULL: no TLS, or an administrator's connection. Constant from the first
 * line on. */
const struct secure_key *control_line_connection_principal(const struct line_connection *connection);
/* The user of an administrator's connection. */
uint32_t control_line_connection_user(const struct line_connection *connection);

/* On the server's thread, from serve, once for each request: whether its sender may send it, or has used up its quota
 * of connections, or of requests. One of too many connections ends with its answer. */
enum line_quota { LINE_QUOTA_NONE, LINE_QUOTA_CONNECTIONS, LINE_QUOTA_REQUESTS };
enum line_quota control_line_connection_ask(struct line_connection *connection);
/* The principals that have come so far, a list; NULL: none. On the server's thread. */
const struct line_guest *control_line_server_guests(const struct line_connection *connection);

/* From any thread: closes connections whose keys are not valid any more, before another line of theirs is read. */
void control_line_server_review(struct line_server *server);

/* On the server's thread, so from serve. */
struct line_server_counts control_line_server_count(const struct line_connection *connection);

/* Stops the thread: serve is called no more, while answers may still come. server may be NULL. */
void control_line_server_stop(struct line_server *server);

/* After the stop: sends what has been answered since, as far as that goes at once, and closes everything. May be
 * NULL. */
void control_line_server_destroy(struct line_server *server);

#endif
