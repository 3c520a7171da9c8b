/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a line server, shared by its sources alone; but for what a lock protects, its thread's. */
#ifndef CONTROL_LINE_CONNECTION_H
#define CONTROL_LINE_CONNECTION_H

#include <pthread.h>
#include <sys/types.h>

#include "control/line_quota.h"
#include "control/line_server.h"
#include "control/line_share.h"
#include "secure/link.h"

enum line_source_kind { LINE_SOURCE_WAKE, LINE_SOURCE_LISTENER, LINE_SOURCE_CONNECTION };

struct line_source {
	enum line_source_kind kind;
	int fd;
	uint32_t events; /* registered with epoll */
};

struct line_listener {
	struct line_source source;
	bool admin;
	uint32_t count, max;
};

struct line_connection {
	struct line_source source;
	struct line_server *server;
	struct line_listener *listener;
	struct line_connection *next, **link;
	struct line_share *share; /* of its address; NULL: an administrator's, or closed */
	uint8_t peer[LINE_ADDRESS_BYTES];
	char *in, *out;
	size_t in_used, in_size;
	size_t scanned; /* bytes of in that are known to have no newline */
	size_t out_bytes, out_sent;
	uint64_t progress_us; /* when the reader last took something */
	uint64_t line_us;     /* since when a part of a line waits for its rest; 0: none does */
	uint64_t active_us;   /* when it came, or something came or went */
	uint64_t came_us;
	struct secure_link *tls;  /* NULL: in clear, or before its first byte */
	uint32_t user;		  /* an administrator's */
	struct line_guest *guest; /* a principal's; NULL: it has not entered, is over its quota, or there are no keys */
	bool over;		  /* its principal has as many connections as it may: one answer, and no more */
	bool entered;		  /* lines are read of it: its handshake is over, or there is none to be */
	bool held;		  /* its handshake waits for one of its address to be over */
	bool spoke;
	bool eof;
	bool waiting;  /* an answer is to come from another thread */
	bool skipping; /* inside a line that was too long */
	bool closed;   /* freed at the end of the turn, or with its answer */
	char *answer;  /* protected by server->lock, as is: */
	struct line_connection *next_answered;
};

struct line_server {
	struct line_server_options options;
	pthread_t thread;
	int epoll_fd;
	struct line_source wake;
	struct line_listener admin, peer;
	struct line_connection *connections, *closed;
	struct line_share *shares;
	struct line_guest *guests;
	size_t buffered_bytes;
	struct secure_context *context; /* NULL: no keys */
	uint32_t handshakes, held;
	struct line_server_counts counts;
	pthread_mutex_t lock; /* protects what follows */
	struct line_connection *answered;
	bool stopping, review;
};

/* line_server.c */
void control_line_source_watch(struct line_server *server, struct line_source *source, uint32_t events);
int control_line_source_add(struct line_server *server, struct line_source *source, uint32_t events);
/* Its memory stays until the end of the turn. */
void control_line_connection_close(struct line_connection *c);

/* line_accept.c: takes the connections that wait at a listener. */
void control_line_accept(struct line_server *server, struct line_listener *listener);

/* line_tls.c. As recv and send on what the connection has, with the negative errno returned. */
ssize_t control_line_tls_receive(struct line_connection *c, char *to, size_t room);
ssize_t control_line_tls_send(struct line_connection *c, const char *from, size_t bytes);
/* Goes on with a connection that has not entered yet, when its socket rings; afterwards it has entered, waits, or is
 * closed. */
void control_line_tls_continue(struct line_connection *c);
/* Looks up the quotas of all who have come, again. */
void control_line_tls_limit(struct line_server *server);
/* Of a connection that is closed. */
void control_line_tls_drop(struct line_connection *c);

#endif
