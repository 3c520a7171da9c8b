/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/line_server.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/line_connection.h"
#include "jsonrpc/thread.h"

enum {
	EVENTS_MAX = 64,
	READ_BYTES = 16 << 10, /* per turn: limits how many lines of one connection are served in it */
	KEPT_BYTES = 64 << 10, /* an empty input buffer larger than this is freed */
	TICK_MS = 1000,
};

void control_line_source_watch(struct line_server *server, struct line_source *source, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	if (source->events == events)
		return;
	source->events = events;
	epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, source->fd, &event);
}

int control_line_source_add(struct line_server *server, struct line_source *source, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	source->events = events;
	return epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) < 0 ? -errno : 0;
}

static void account(struct line_connection *c, size_t more, size_t less)
{
	c->server->buffered_bytes += more - less;
	if (c->share)
		c->share->bytes += more - less;
}

static void drop_output(struct line_connection *c)
{
	account(c, 0, c->out_bytes);
	free(c->out);
	c->out = NULL;
	c->out_bytes = c->out_sent = 0;
}

static void drop_input(struct line_connection *c)
{
	account(c, 0, c->in_size);
	free(c->in);
	c->in = NULL;
	c->in_size = c->in_used = c->scanned = 0;
}

/* The memory stays until the end of the turn, because epoll may have returned an event for it, or another thread an
 * answer. */
void control_line_connection_close(struct line_connection *c)
{
	if (c->closed)
		return;
	c->closed = true;
	control_line_tls_drop(c);
	close(c->source.fd);
	drop_output(c);
	drop_input(c);
	c->listener->count--;
	if (c->share)
		control_line_share_release(&c->server->shares, c->share);
	c->share = NULL;
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	if (!c->waiting) {
		c->next = c->server->closed;
		c->server->closed = c;
	}
}

static void flush_line(struct line_connection *c)
{
	while (c->out) {
		const ssize_t n = control_line_tls_send(c, c->out + c->out_sent, c->out_bytes - c->out_sent);

		if (n == -EINTR)
			continue;
		if (n < 0) {
			if (n != -EAGAIN)
				control_line_connection_close(c);
			return;
		}
		c->out_sent += (size_t)n;
		c->progress_us = c->active_us = clock_us();
		if (c->out_sent == c->out_bytes)
			drop_output(c);
	}
}

/* Takes the largest buffers from the peer that holds most bytes, until there is room for this many more bytes of c;
 * false: c itself must be closed. */
static bool find_room(struct line_connection *c, size_t more)
{
	struct line_server *server = c->server;

	if (!c->share)
		return true;
	if (c->share->bytes + more > LINE_SERVER_SHARE_MAX)
		return false;
	while (server->buffered_bytes + more > LINE_SERVER_BUFFERED_MAX) {
		const size_t most = control_line_share_bytes_max(server->shares);
		struct line_connection *largest = NULL;

		for (struct line_connection *o = server->connections; o; o = o->next)
			if (o->share && o->share->bytes == most &&
			    (!largest || o->in_size + o->out_bytes > largest->in_size + largest->out_bytes))
				largest = o;
		if (!largest || largest == c || largest->in_size + largest->out_bytes == 0)
			return false;
		server->counts.refused++;
		control_line_connection_close(largest);
	}
	return true;
}

/* Takes ownership of a reply. */
static void reply(struct line_connection *c, char *text)
{
	struct line_server *server = c->server;

	c->active_us = clock_us();
	if (!text)
		return;
	c->out = text;
	c->out_bytes = strlen(text);
	c->out_sent = 0;
	c->progress_us = clock_us();
	account(c, c->out_bytes, 0);
	flush_line(c);
	if (!c->closed && !find_room(c, 0)) {
		server->counts.refused++;
		log_warn("a control connection is closed: replies that nobody reads take too much memory");
		control_line_connection_close(c);
	}
}

/* "POST / HTTP/1.1": JSON never begins with a word and a space. */
static bool starts_as_http(const char *line, size_t bytes)
{
	size_t word = 0;

	while (word < bytes && isalpha((unsigned char)line[word]))
		word++;
	return word > 0 && word < bytes && line[word] == ' ';
}

static size_t line_max(const struct line_connection *c, size_t bytes)
{
	const struct line_server_options *o = &c->server->options;

	/* An ordinary line needs no check of its sender. */
	return c->listener->admin || !o->peer_line_max || (bytes > o->peer_line_max && o->is_node(o->ctx, c))
		       ? o->line_max
		       : o->peer_line_max;
}

/* A peer whose key is no longer valid, or that is still authenticating. */
static bool is_out(const struct line_connection *c)
{
	const struct secure_key *peer = c->tls ? secure_link_peer(c->tls) : NULL;

	return peer && !(c->entered && secure_ring_has(c->server->options.keys, peer->principal, peer->id, peer->role));
}

static void throw_out(struct line_connection *c)
{
	c->server->counts.revoked++;
	control_line_connection_close(c);
}

static bool review_due(struct line_server *server)
{
	bool due;

	pthread_mutex_lock(&server->lock);
	due = server->review;
	pthread_mutex_unlock(&server->lock);
	return due;
}

static void serve_line(struct line_connection *c, const char *line, size_t bytes)
{
	struct line_server *server = c->server;
	const size_t max = line_max(c, bytes);
	char *text = NULL;

	/*
	 * The review happens at the next wake-up; this line, of this turn or sent ahead, must not be served before it.
	 */
	if (review_due(server) && is_out(c)) {
		throw_out(c);
		return;
	}
	if (c->skipping) {
		c->skipping = false;
		return;
	}
	c->spoke = true;
	c->eof |= c->over; /* this answer is the last one */
	if (starts_as_http(line, bytes)) {
		server->counts.refused++;
		control_line_connection_close(c);
		return;
	}
	if (bytes > max) {
		server->counts.refused++;
		reply(c, server->options.too_long(server->options.ctx, max));
		return;
	}
	server->counts.requests++;
	/* Set before the call: an executor may answer before serve returns. */
	c->waiting = true;
	switch (server->options.serve(server->options.ctx, c, c->listener->admin, line, bytes, &text)) {
	case LINE_ANSWERED:
		c->waiting = false;
		reply(c, text);
		break;
	case LINE_LATER:
		break;
	case LINE_CLOSE:
		c->waiting = false;
		control_line_connection_close(c);
		break;
	}
}

static void refuse_long_line(struct line_connection *c, size_t max)
{
	struct line_server *server = c->server;
	const bool http = starts_as_http(c->in, c->in_used);

	c->in_used = c->scanned = 0;
	if (c->skipping)
		return;
	c->skipping = true;
	c->eof |= c->over;
	server->counts.refused++;
	if (http)
		control_line_connection_close(c);
	else
		reply(c, server->options.too_long(server->options.ctx, max));
}

/* Serves complete lines of the input while no request is in progress; then the connection waits for what it needs. */
static void serve_input(struct line_connection *c)
{
	size_t start = 0, max;

	while (!c->closed && !c->waiting && !c->out) {
		const size_t from = start + c->scanned;
		const char *end = c->in_used > from ? memchr(c->in + from, '\n', c->in_used - from) : NULL;
		size_t bytes;

		if (!end && !(c->eof && c->in_used > start)) {
			c->scanned = c->in_used - start;
			break;
		}
		bytes = end ? (size_t)(end - c->in) - start : c->in_used - start;
		c->scanned = 0;
		serve_line(c, c->in + start, bytes);
		start += bytes + (end ? 1 : 0);
	}
	if (c->closed)
		return;
	if (start) {
		memmove(c->in, c->in + start, c->in_used - start);
		c->in_used -= start;
	}
	max = line_max(c, c->scanned);
	if (!c->waiting && !c->out && c->scanned > max)
		refuse_long_line(c, max);
	if (c->closed)
		return;
	if (start || c->waiting || c->out || c->in_used == 0)
		c->line_us = 0;
	if (!c->waiting && !c->out && c->in_used && c->line_us == 0)
		c->line_us = clock_us();
	if (c->in_used == 0 && c->in_size > KEPT_BYTES)
		drop_input(c);
	if (!c->closed && c->eof && !c->waiting && !c->out && c->in_used == 0)
		control_line_connection_close(c);
	if (!c->closed)
		control_line_source_watch(c->server, &c->source,
					  c->out		 ? EPOLLOUT
					  : c->waiting || c->eof ? 0
								 : EPOLLIN);
}

static bool make_line_room(struct line_connection *c)
{
	const size_t size = c->in_size ? c->in_size * 2 : READ_BYTES;
	char *in;

	if (c->in_size > c->in_used)
		return true;
	if (!find_room(c, size - c->in_size))
		return false;
	in = realloc(c->in, size);
	if (!in)
		return false;
	account(c, size, c->in_size);
	c->in = in;
	c->in_size = size;
	return true;
}

/* A TLS record is read completely, because epoll would not report its rest: at most READ_BYTES more. */
static bool read_some(struct line_connection *c)
{
	bool some = false;
	size_t room;
	ssize_t n;

	do {
		if (!make_line_room(c)) {
			c->server->counts.refused++;
			control_line_connection_close(c);
			return false;
		}
		room = c->in_size - c->in_used;
		n = control_line_tls_receive(c, c->in + c->in_used, room < READ_BYTES ? room : READ_BYTES);
		if (n == -EAGAIN || n == -EINTR)
			return some;
		if (n < 0) {
			control_line_connection_close(c);
			return false;
		}
		some = true;
		c->in_used += (size_t)n;
	} while (c->tls && secure_link_pending(c->tls));
	if (n == 0)
		c->eof = true;
	else
		c->active_us = clock_us();
	return true;
}

static void read_input(struct line_connection *c)
{
	if (read_some(c))
		serve_input(c);
}

static void on_connection(struct line_connection *c, uint32_t events)
{
	if (c->closed)
		return;
	if (!c->entered) {
		if (c->held && events & (EPOLLHUP | EPOLLERR))
			control_line_connection_close(c);
		else if (!c->held)
			control_line_tls_continue(c);
		if (!c->entered || c->closed)
			return;
	}
	if (c->source.events & EPOLLIN) {
		read_input(c);
		return;
	}
	/* The peer has closed both directions while a reply was in progress: nobody will read it. */
	if (events & (EPOLLHUP | EPOLLERR)) {
		control_line_connection_close(c);
		return;
	}
	flush_line(c);
	if (!c->closed)
		serve_input(c);
}

/* Delivers the answers of other threads, and goes on serving those connections; false: the server must stop. */
static bool deliver_replies(struct line_server *server, bool serve_on)
{
	struct line_connection *c, *next;
	bool stopping;

	pthread_mutex_lock(&server->lock);
	c = server->answered;
	server->answered = NULL;
	stopping = server->stopping;
	pthread_mutex_unlock(&server->lock);
	for (; c; c = next) {
		char *text = c->answer;

		next = c->next_answered;
		c->answer = NULL;
		c->waiting = false;
		if (c->closed) {
			free(text);
			c->next = server->closed;
			server->closed = c;
			continue;
		}
		reply(c, text);
		if (serve_on && !c->closed)
			serve_input(c);
	}
	return !stopping;
}

/* A request in progress is completed, but its answer is not sent. */
static void review(struct line_server *server)
{
	struct line_connection *c, *next;

	for (c = server->connections; c; c = next) {
		next = c->next;
		if (is_out(c))
			throw_out(c);
	}
	if (server->options.keys)
		control_line_tls_limit(server);
}

static bool on_wake(struct line_server *server)
{
	uint64_t rings;
	bool due;

	if (read(server->wake.fd, &rings, sizeof(rings)) < 0 && errno != EAGAIN)
		log_error("the control plane's eventfd cannot be read: %s", strerrordesc_np(errno));
	pthread_mutex_lock(&server->lock);
	due = server->review;
	server->review = false;
	pthread_mutex_unlock(&server->lock);
	if (due)
		review(server);
	return deliver_replies(server, true);
}

/* The connection has no request. */
static bool is_idle(const struct line_connection *c, uint64_t now_us)
{
	const struct line_server_options *o = &c->server->options;
	const uint64_t limit_us = c->spoke ? o->idle_timeout_us : o->greeting_timeout_us;

	if (!c->entered)
		return o->greeting_timeout_us && now_us > c->came_us && now_us - c->came_us > o->greeting_timeout_us;
	return c->share && limit_us && !c->waiting && !c->out && !c->line_us && now_us > c->active_us &&
	       now_us - c->active_us > limit_us;
}

static void on_tick(struct line_server *server, uint64_t now_us)
{
	struct line_connection *c, *next;

	for (c = server->connections; c; c = next) {
		next = c->next;
		if ((c->out && now_us - c->progress_us > server->options.stall_timeout_us) ||
		    (c->line_us && now_us - c->line_us > server->options.stall_timeout_us) || is_idle(c, now_us)) {
			server->counts.stalled++;
			control_line_connection_close(c);
		}
	}
	control_line_source_watch(server, &server->admin.source, EPOLLIN);
	control_line_source_watch(server, &server->peer.source, EPOLLIN);
}

static void bury(struct line_server *server)
{
	struct line_connection *c;

	while ((c = server->closed)) {
		server->closed = c->next;
		free(c);
	}
}

static void *line_loop(void *arg)
{
	struct line_server *server = arg;
	const uint64_t stall_ms = server->options.stall_timeout_us / 2000;
	const uint64_t tick_ms = stall_ms < 1 ? 1 : stall_ms < TICK_MS ? stall_ms : TICK_MS;
	uint64_t tick_us = clock_us();
	bool running = true;

	while (running) {
		struct epoll_event events[EVENTS_MAX];
		const int n = epoll_wait(server->epoll_fd, events, EVENTS_MAX, (int)tick_ms);
		const uint64_t now_us = clock_us();

		for (int i = 0; i < n; i++) {
			struct line_source *source = events[i].data.ptr;

			if (source->kind == LINE_SOURCE_CONNECTION)
				on_connection((struct line_connection *)source, events[i].events);
			else if (source->kind == LINE_SOURCE_LISTENER)
				control_line_accept(server, (struct line_listener *)source);
			else
				running = on_wake(server);
		}
		if (now_us - tick_us >= tick_ms * 1000) {
			tick_us = now_us;
			on_tick(server, clock_us()); /* this turn's data has arrived after now_us */
		}
		bury(server);
	}
	return NULL;
}

static void ring(struct line_server *server)
{
	const uint64_t one = 1;

	/* It fails only if the counter is full, and then the thread wakes up anyway. */
	if (write(server->wake.fd, &one, sizeof(one)) < 0)
		log_debug("the control plane's eventfd is full");
}

void control_line_server_answer(struct line_connection *connection, char *text)
{
	struct line_server *server = connection->server;

	pthread_mutex_lock(&server->lock);
	connection->answer = text;
	connection->next_answered = server->answered;
	server->answered = connection;
	/* Under the lock, so that the server cannot end before the wake-up. */
	ring(server);
	pthread_mutex_unlock(&server->lock);
}

void control_line_server_review(struct line_server *server)
{
	pthread_mutex_lock(&server->lock);
	server->review = true;
	ring(server);
	pthread_mutex_unlock(&server->lock);
}

enum line_quota control_line_connection_ask(struct line_connection *c)
{
	if (c->over) {
		c->server->counts.refused++;
		return LINE_QUOTA_CONNECTIONS;
	}
	if (!c->guest || control_line_guest_ask(c->guest, clock_us()))
		return LINE_QUOTA_NONE;
	c->server->counts.refused++;
	return LINE_QUOTA_REQUESTS;
}

const struct line_guest *control_line_server_guests(const struct line_connection *connection)
{
	return connection->server->guests;
}

const struct secure_key *control_line_connection_principal(const struct line_connection *connection)
{
	return connection->tls ? secure_link_peer(connection->tls) : NULL;
}

uint32_t control_line_connection_user(const struct line_connection *connection)
{
	return connection->user;
}

const uint8_t *control_line_connection_peer(const struct line_connection *connection)
{
	return connection->listener->admin ? NULL : connection->peer;
}

struct line_server_counts control_line_server_count(const struct line_connection *connection)
{
	const struct line_server *server = connection->server;
	struct line_server_counts counts = server->counts;

	counts.admins = server->admin.count;
	counts.peers = server->peer.count;
	return counts;
}

struct line_server *control_line_server_create(const struct line_server_options *options, struct star_error *err)
{
	struct line_server *server = calloc(1, sizeof(*server));

	if (!server) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	server->options = *options;
	server->context = options->keys ? secure_context_create(options->keys, err) : NULL;
	if (options->keys && !server->context) {
		free(server);
		return NULL;
	}
	server->admin = (struct line_listener){
		{ LINE_SOURCE_LISTENER, options->admin_fd, 0 }, true, 0, LINE_SERVER_ADMINS_MAX
	};
	server->peer = (struct line_listener){
		{ LINE_SOURCE_LISTENER, options->peer_fd, 0 }, false, 0, LINE_SERVER_PEERS_MAX
	};
	pthread_mutex_init(&server->lock, NULL);
	server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	server->wake = (struct line_source){ LINE_SOURCE_WAKE, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), 0 };
	if (server->epoll_fd < 0 || server->wake.fd < 0 ||
	    control_line_source_add(server, &server->wake, EPOLLIN) < 0 ||
	    control_line_source_add(server, &server->admin.source, EPOLLIN) < 0 ||
	    control_line_source_add(server, &server->peer.source, EPOLLIN) < 0) {
		star_error_set(err, -errno, "cannot watch the control sockets: %s", strerrordesc_np(errno));
		goto fail;
	}
	if (jsonrpc_thread_start(&server->thread, "control-io", line_loop, server, err) < 0)
		goto fail;
	return server;
fail:
	if (server->epoll_fd >= 0)
		close(server->epoll_fd);
	if (server->wake.fd >= 0)
		close(server->wake.fd);
	pthread_mutex_destroy(&server->lock);
	secure_context_destroy(server->context);
	free(server);
	return NULL;
}

void control_line_server_stop(struct line_server *server)
{
	if (!server)
		return;
	pthread_mutex_lock(&server->lock);
	server->stopping = true;
	ring(server);
	pthread_mutex_unlock(&server->lock);
	pthread_join(server->thread, NULL);
}

void control_line_server_destroy(struct line_server *server)
{
	if (!server)
		return;
	deliver_replies(server, false);
	while (server->connections)
		control_line_connection_close(server->connections);
	bury(server);
	control_line_guests_free(&server->guests, NULL, NULL);
	close(server->admin.source.fd);
	close(server->peer.source.fd);
	close(server->wake.fd);
	close(server->epoll_fd);
	pthread_mutex_destroy(&server->lock);
	secure_context_destroy(server->context);
	free(server);
}
