/* SPDX-License-Identifier: BSD-3-Clause */
/* Accepts connections for a line server. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/line_connection.h"

enum { ACCEPTS_MAX = 64 }; /* per turn: accepting must not starve existing connections */

static void refuse_connection(struct line_server *server, bool admin, int fd)
{
	/* A peer that begins with a handshake could not read it. */
	char *text = admin || !server->context ? server->options.too_many(server->options.ctx) : NULL;

	server->counts.refused++;
	/* One attempt only, as a peer may open thousands of connections. */
	if (text && send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("a control connection over the limit was closed without a word");
	free(text);
	close(fd);
}

/* All entries are in use: closes the connection that has been idle longest, of the peer that has most. */
static void evict_idlest(struct line_server *server)
{
	const uint32_t most = control_line_share_connections_max(server->shares);
	struct line_connection *idlest = NULL;

	for (struct line_connection *c = server->connections; c; c = c->next)
		if (c->share && c->share->connections == most && !c->waiting &&
		    (!idlest || c->active_us < idlest->active_us))
			idlest = c;
	if (!idlest)
		return;
	server->counts.refused++;
	control_line_connection_close(idlest);
}

/* For the administrator's socket. The mode of its file says the same, but may have been changed. */
static bool may_come(const struct line_listener *listener, int fd, uint32_t *user)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	if (!listener->admin)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) < 0)
		return false;
	*user = peer.uid;
	if (peer.uid == 0 || peer.uid == geteuid())
		return true;
	log_warn("a process of user %u was refused at the administrator's socket", peer.uid);
	return false;
}

static void admit(struct line_server *server, struct line_listener *listener, int fd, const struct sockaddr *from)
{
	const int on = 1, idle_s = 60, interval_s = 10, probes = 3;
	struct line_connection *c;
	uint32_t user = 0;

	if (listener->count == listener->max && !listener->admin)
		evict_idlest(server);
	c = listener->count < listener->max && may_come(listener, fd, &user) ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		refuse_connection(server, listener->admin, fd);
		return;
	}
	c->user = user;
	c->entered = listener->admin || !server->context;
	if (!listener->admin) {
		/* A worker's host that has disappeared must not hold its connection for ever. */
		setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
		setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
		setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
		setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	}
	c->source = (struct line_source){ .kind = LINE_SOURCE_CONNECTION, .fd = fd };
	c->server = server;
	c->listener = listener;
	c->came_us = c->active_us = clock_us();
	if (!listener->admin) {
		control_line_address(from, c->peer);
		c->share = control_line_share_take(&server->shares, c->peer);
	}
	if ((!listener->admin && !c->share) || control_line_source_add(server, &c->source, EPOLLIN) < 0) {
		if (c->share)
			control_line_share_release(&server->shares, c->share);
		free(c);
		refuse_connection(server, listener->admin, fd);
		return;
	}
	listener->count++;
	c->next = server->connections;
	c->link = &server->connections;
	if (c->next)
		c->next->link = &c->next;
	server->connections = c;
}

void control_line_accept(struct line_server *server, struct line_listener *listener)
{
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		struct sockaddr_storage from = { .ss_family = AF_UNSPEC };
		socklen_t bytes = sizeof(from);
		int fd = accept4(listener->source.fd, (struct sockaddr *)&from, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			admit(server, listener, fd, (const struct sockaddr *)&from);
			continue;
		}
		/* Out of descriptors or memory: the listener would be reported as readable again and again. The tick
		 * enables it again. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			log_warn("no control connection can be accepted for a while: %s", strerrordesc_np(errno));
			control_line_source_watch(server, &listener->source, 0);
		}
		if (errno != EINTR && errno != ECONNABORTED)
			break;
	}
}
