/* SPDX-License-Identifier: BSD-3-Clause */
/* How peers of a line server are let in: their first byte, their handshake, and how many handshakes there may be at a
 * time. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "control/line_connection.h"
#include "secure/ring.h"

enum { DRAIN_BYTES = 64 << 10 };

ssize_t control_line_tls_receive(struct line_connection *c, char *to, size_t room)
{
	const ssize_t n = c->tls ? secure_link_read(c->tls, to, room) : recv(c->source.fd, to, room, 0);

	return n < 0 && !c->tls ? -errno : n;
}

ssize_t control_line_tls_send(struct line_connection *c, const char *from, size_t bytes)
{
	const ssize_t n =
		c->tls ? secure_link_write(c->tls, from, bytes) : send(c->source.fd, from, bytes, MSG_NOSIGNAL);

	return n < 0 && !c->tls ? -errno : n;
}

static void log_refused(const struct line_connection *c, const char *refused)
{
	const struct line_server_options *o = &c->server->options;

	if (o->came)
		o->came(o->ctx, c, refused);
}

static void refuse(struct line_connection *c, const char *why)
{
	c->server->counts.strangers++;
	log_refused(c, why);
	control_line_connection_close(c);
}

/* Reads what it has sent so far: closing with unread bytes would reset the connection, and the message would be
 * lost. */
static void refuse_in_clear(struct line_connection *c)
{
	const struct line_server_options *o = &c->server->options;
	char *text = o->in_clear ? o->in_clear(o->ctx) : NULL, *ignored = malloc(DRAIN_BYTES);

	if (ignored && recv(c->source.fd, ignored, DRAIN_BYTES, 0) > 0 && text)
		(void)!send(c->source.fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
	free(ignored);
	free(text);
	refuse(c, "it speaks no TLS");
}

/* Waiting peers get the entries that have become free. */
static void let_go_on(struct line_server *server)
{
	for (struct line_connection *c = server->connections; c && server->held; c = c->next) {
		if (!c->held || c->share->handshakes >= LINE_SERVER_SHARE_HANDSHAKES_MAX)
			continue;
		c->held = false;
		server->held--;
		control_line_source_watch(c->server, &c->source, EPOLLIN);
	}
}

static void leave_handshake(struct line_connection *c)
{
	c->server->handshakes--;
	c->share->handshakes--;
	let_go_on(c->server);
}

void control_line_tls_drop(struct line_connection *c)
{
	if (c->held) {
		c->held = false;
		c->server->held--;
	}
	if (c->tls && !c->entered)
		leave_handshake(c);
	if (c->guest)
		c->guest->connections--;
	c->guest = NULL;
	secure_link_close(c->tls);
	c->tls = NULL;
}

static struct secure_quotas quotas_of(const struct line_server *server, const struct secure_key *principal)
{
	struct secure_quotas quotas = { 0 };

	if (server->options.quotas)
		server->options.quotas(server->options.ctx, principal, &quotas);
	return quotas;
}

static bool stays(void *ctx, const struct line_guest *guest)
{
	const struct line_server *server = ctx;

	return secure_ring_role(server->options.keys, guest->principal) == guest->role;
}

void control_line_tls_limit(struct line_server *server)
{
	control_line_guests_free(&server->guests, stays, server);
	for (struct line_guest *g = server->guests; g; g = g->next) {
		struct secure_key principal = { .role = g->role };
		struct secure_quotas quotas;

		memcpy(principal.principal, g->principal, sizeof(principal.principal));
		quotas = quotas_of(server, &principal);
		control_line_guest_limit(g, &quotas);
	}
}

/* False: there is no memory for it. */
static bool enter_guest(struct line_connection *c)
{
	const struct secure_key *principal = secure_link_peer(c->tls);
	const struct secure_quotas quotas = quotas_of(c->server, principal);
	struct line_guest *guest = control_line_guest_find(&c->server->guests, principal, &quotas);

	if (!guest)
		return false;
	c->over = !control_line_guest_enter(guest);
	c->guest = c->over ? NULL : guest;
	return true;
}

/* All entries are in use: closes the oldest one of the peer that has most. Honest handshakes take only milliseconds. */
static void end_oldest(struct line_server *server)
{
	const uint32_t most = control_line_share_handshakes_max(server->shares);
	struct line_connection *oldest = NULL;

	for (struct line_connection *c = server->connections; c; c = c->next)
		if (c->tls && !c->entered && c->share->handshakes == most && (!oldest || c->came_us < oldest->came_us))
			oldest = c;
	if (!oldest)
		return;
	server->counts.refused++;
	refuse(oldest, "its handshake took long, and others came");
}

/* Its first byte has arrived. */
static void begin(struct line_connection *c)
{
	struct line_server *server = c->server;
	unsigned char first;
	const ssize_t n = recv(c->source.fd, &first, 1, MSG_PEEK);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		control_line_connection_close(c);
		return;
	}
	if (first != SECURE_FIRST_BYTE) {
		refuse_in_clear(c);
		return;
	}
	if (c->share->handshakes >= LINE_SERVER_SHARE_HANDSHAKES_MAX) {
		c->held = true;
		server->held++;
		control_line_source_watch(c->server, &c->source, 0);
		return;
	}
	if (server->handshakes >= LINE_SERVER_HANDSHAKES_MAX)
		end_oldest(server);
	c->tls = secure_link_accept(server->context, c->source.fd);
	if (!c->tls) {
		control_line_connection_close(c);
		return;
	}
	server->handshakes++;
	c->share->handshakes++;
}

void control_line_tls_continue(struct line_connection *c)
{
	struct star_error why;
	short events = 0;
	int rc;

	if (!c->tls)
		begin(c);
	if (!c->tls || c->closed)
		return;
	rc = secure_link_handshake(c->tls, &events, &why);
	if (rc == -EAGAIN && secure_link_received(c->tls) <= LINE_SERVER_HANDSHAKE_BYTES) {
		control_line_source_watch(c->server, &c->source, events == POLLOUT ? EPOLLOUT : EPOLLIN);
		return;
	}
	if (rc < 0) {
		refuse(c, rc == -EAGAIN ? "its handshake is too long" : why.text);
		return;
	}
	c->entered = true;
	leave_handshake(c);
	if (!enter_guest(c)) {
		control_line_connection_close(c);
		return;
	}
	c->active_us = clock_us();
	control_line_source_watch(c->server, &c->source, EPOLLIN);
	log_refused(c, NULL);
}
