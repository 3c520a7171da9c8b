/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/signals.h"
#include "metrics/openmetrics.h"
#include "metrics/places.h"

enum { SILENCE_S = 10, REQUEST_MS = 30000, BLOCK = 32 << 10 };

/* The buffer in which families are written, one after the other. */
struct text {
	FILE *out;
	char *at;
	size_t bytes;
};

struct metrics_server {
	struct metrics_server_options options;
	struct MHD_Daemon *daemon;
	struct text *spare; /* the buffer of an earlier page, whose memory is reused; owned by the daemon's thread */
	/* libmicrohttpd closes connections that are silent. This thread closes those that send or receive a byte now
	 * and then. */
	pthread_t watch;
	pthread_mutex_t lock; /* protects what follows */
	pthread_cond_t wake;  /* a connection was opened, or the server stops */
	struct places places;
	bool over;
};

/* A page that is being sent: its current family, and the number of the next one. */
struct page {
	struct metrics_server *server;
	struct text *text;
	unsigned next;
	bool plain, ended, failed;
	size_t bytes, sent;
};

static void text_destroy(struct text *text)
{
	if (!text)
		return;
	fclose(text->out);
	free(text->at);
	free(text);
}

static struct text *text_take(struct metrics_server *server)
{
	struct text *text = server->spare;

	server->spare = NULL;
	if (text)
		return text;
	text = calloc(1, sizeof(*text));
	if (!text)
		return NULL;
	text->out = open_memstream(&text->at, &text->bytes);
	if (text->out)
		return text;
	free(text);
	return NULL;
}

static void text_give(struct metrics_server *server, struct text *text)
{
	if (server->spare)
		text_destroy(text);
	else
		server->spare = text;
}

/* Writes the next family that is not empty, or the end of the page. False: there is nothing more, or out of memory. */
static bool page_next(struct page *page)
{
	const struct metrics_server_options *options = &page->server->options;
	const struct openmetrics_page to = { .out = page->text->out, .plain = page->plain };

	page->bytes = page->sent = 0;
	while (!page->ended && !page->failed) {
		rewind(to.out);
		if (!options->family(options->ctx, page->next++, &to)) {
			openmetrics_end(&to);
			page->ended = true;
		}
		page->failed = fflush(to.out) != 0 || ferror(to.out);
		page->bytes = page->failed ? 0 : page->text->bytes;
		if (page->bytes > 0)
			return true;
	}
	return false;
}

/* As many families as there is room for, because the sender makes a system call for each call. */
static ssize_t page_read(void *cls, uint64_t at, char *to, size_t max)
{
	struct page *page = cls;
	size_t done = 0;

	(void)at; /* pages are read from beginning to end */
	while (done < max) {
		size_t n;

		if (page->sent == page->bytes && !page_next(page))
			break;
		n = page->bytes - page->sent;
		if (n > max - done)
			n = max - done;
		memcpy(to + done, page->text->at + page->sent, n);
		page->sent += n;
		done += n;
	}
	if (done)
		return (ssize_t)done;
	return page->ended ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void page_free(void *cls)
{
	struct page *page = cls;

	text_give(page->server, page->text);
	free(page);
}

static struct page *page_create(struct metrics_server *server, bool plain)
{
	struct page *page = calloc(1, sizeof(*page));

	if (!page)
		return NULL;
	page->server = server;
	page->plain = plain;
	page->text = text_take(server);
	if (page->text)
		return page;
	free(page);
	return NULL;
}

static enum MHD_Result answer_http(struct MHD_Connection *connection, unsigned status, struct MHD_Response *response,
				   const char *type)
{
	enum MHD_Result result = MHD_NO;

	if (!response)
		return MHD_NO;
	if (MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES)
		result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result answer_text(struct MHD_Connection *connection, unsigned status, const char *text)
{
	return answer_http(connection, status,
			   MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY),
			   "text/plain; charset=utf-8");
}

/* OpenMetrics is for clients that ask for it, as Prometheus does; others get the older format. */
static bool wants_plain(struct MHD_Connection *connection)
{
	const char *accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);

	return !accept || !strcasestr(accept, "application/openmetrics-text");
}

static const char *type_of(bool plain)
{
	return plain ? OPENMETRICS_PLAIN_TYPE : OPENMETRICS_TYPE;
}

static enum MHD_Result answer_metrics(struct MHD_Connection *connection, struct metrics_server *server)
{
	struct page *page = page_create(server, wants_plain(connection));
	struct MHD_Response *response;

	if (!page)
		return MHD_NO;
	response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, page_read, page, page_free);
	if (response)
		return answer_http(connection, MHD_HTTP_OK, response, type_of(page->plain));
	page_free(page);
	return MHD_NO;
}

/* With the page's length: a reply without it is chunked, and libmicrohttpd sends the last chunk even if there is no
 * body. */
static enum MHD_Result answer_metrics_head(struct MHD_Connection *connection, struct metrics_server *server)
{
	struct page *page = page_create(server, wants_plain(connection));
	struct MHD_Response *response = NULL;
	const char *type;
	uint64_t bytes = 0;

	if (!page)
		return MHD_NO;
	type = type_of(page->plain);
	while (page_next(page))
		bytes += page->bytes;
	if (page->ended)
		response = MHD_create_response_from_callback(bytes, BLOCK, page_read, NULL, NULL);
	page_free(page);
	return answer_http(connection, MHD_HTTP_OK, response, type);
}

static enum MHD_Result answer_health(struct MHD_Connection *connection, const struct metrics_server_options *options)
{
	char text[METRICS_HEALTH_MAX + 1];
	const bool healthy = options->health(options->ctx, text);

	strcat(text, "\n");
	return answer_text(connection, healthy ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, text);
}

static enum MHD_Result take_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
				    const char *version, const char *body, size_t *body_bytes, void **state)
{
	static char begun;
	struct metrics_server *server = cls;
	const bool head = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;

	(void)version;
	(void)body;
	/* At the first call, when the headers have arrived: no body is read. */
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && !head)
		return answer_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
	if (!*state) {
		*state = &begun;
		return MHD_YES;
	}
	if (*body_bytes) {
		*body_bytes = 0;
		return MHD_YES;
	}
	if (strcmp(url, "/metrics") == 0)
		return head ? answer_metrics_head(connection, server) : answer_metrics(connection, server);
	if (strcmp(url, "/health") == 0)
		return answer_health(connection, &server->options);
	return answer_text(connection, MHD_HTTP_NOT_FOUND, "the pages are /metrics and /health\n");
}

/* ---- connections ---- */

static enum MHD_Result accept_from(void *cls, const struct sockaddr *from, socklen_t bytes)
{
	struct metrics_server *server = cls;
	bool allowed;

	(void)bytes;
	pthread_mutex_lock(&server->lock);
	allowed = metrics_places_allow(&server->places, from);
	pthread_mutex_unlock(&server->lock);
	return allowed ? MHD_YES : MHD_NO;
}

/* Its descriptor is closed only after this call, so with the lock held it is still open. */
static void note_connection(void *cls, struct MHD_Connection *connection, void **place,
			    enum MHD_ConnectionNotificationCode code)
{
	const union MHD_ConnectionInfo *address, *fd;
	struct metrics_server *server = cls;

	pthread_mutex_lock(&server->lock);
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		address = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
		fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
		*place = address && fd ? metrics_places_take(&server->places, address->client_addr, fd->connect_fd,
							     clock_ns())
				       : NULL;
		pthread_cond_signal(&server->wake);
	} else if (*place) {
		metrics_place_give(*place);
	}
	pthread_mutex_unlock(&server->lock);
}

/* A reply has ended: the time for the next request starts again. */
static void note_completed(void *cls, struct MHD_Connection *connection, void **state,
			   enum MHD_RequestTerminationCode code)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct place *place = info ? info->socket_context : NULL;
	struct metrics_server *server = cls;

	(void)state;
	if (!place || code != MHD_REQUEST_TERMINATED_COMPLETED_OK)
		return;
	pthread_mutex_lock(&server->lock);
	if (place->since_ns != UINT64_MAX)
		place->since_ns = clock_ns();
	pthread_mutex_unlock(&server->lock);
}

static void *watch_places(void *arg)
{
	struct metrics_server *server = arg;
	const uint64_t patience_ns =
		(server->options.request_ms ? server->options.request_ms : REQUEST_MS) * UINT64_C(1000000);

	pthread_mutex_lock(&server->lock);
	while (!server->over) {
		const uint64_t next_ns = metrics_places_end_overdue(&server->places, patience_ns, clock_ns());
		const struct timespec next = clock_timespec(next_ns);

		if (next_ns == UINT64_MAX)
			pthread_cond_wait(&server->wake, &server->lock);
		else
			pthread_cond_timedwait(&server->wake, &server->lock, &next);
	}
	pthread_mutex_unlock(&server->lock);
	return NULL;
}

static int start_watch(struct metrics_server *server)
{
	sigset_t all, before;
	int rc;

	pthread_mutex_init(&server->lock, NULL);
	clock_condition_init(&server->wake);
	base_signals_of_others(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&server->watch, NULL, watch_places, server);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		return 0;
	pthread_cond_destroy(&server->wake);
	pthread_mutex_destroy(&server->lock);
	return -rc;
}

static void stop_watch(struct metrics_server *server)
{
	pthread_mutex_lock(&server->lock);
	server->over = true;
	pthread_cond_signal(&server->wake);
	pthread_mutex_unlock(&server->lock);
	pthread_join(server->watch, NULL);
	pthread_cond_destroy(&server->wake);
	pthread_mutex_destroy(&server->lock);
}

/* ---- the server ---- */

static int read_address(const struct metrics_server_options *options, struct sockaddr_storage *address)
{
	struct sockaddr_in *in = (struct sockaddr_in *)address;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)address;

	memset(address, 0, sizeof(*address));
	if (inet_pton(AF_INET, options->address, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(options->port);
		return 0;
	}
	if (inet_pton(AF_INET6, options->address, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(options->port);
		return 0;
	}
	return -EINVAL;
}

struct metrics_server *metrics_server_start(const struct metrics_server_options *options, struct star_error *err)
{
	struct metrics_server *server = calloc(1, sizeof(*server));
	struct sockaddr_storage address;
	unsigned flags = MHD_USE_EPOLL | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ITC;

	if (!server) {
		star_error_set(err, -ENOMEM, "out of memory for the metrics server");
		return NULL;
	}
	server->options = *options;
	if (read_address(options, &address) < 0) {
		star_error_set(err, -EINVAL, "metrics.address \"%s\" is not an IPv4 or IPv6 address", options->address);
		free(server);
		return NULL;
	}
	if (address.ss_family == AF_INET6)
		flags |= MHD_USE_DUAL_STACK; /* "::" includes IPv4 */
	if (start_watch(server) < 0) {
		star_error_set(err, -EAGAIN, "cannot start a thread for the metrics server");
		free(server);
		return NULL;
	}
	errno = 0;
	server->daemon = MHD_start_daemon(flags, options->port, accept_from, server, take_request, server,
					  MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address,
					  MHD_OPTION_CONNECTION_LIMIT, (unsigned)PLACES, MHD_OPTION_CONNECTION_TIMEOUT,
					  (unsigned)SILENCE_S, MHD_OPTION_NOTIFY_CONNECTION, note_connection, server,
					  MHD_OPTION_NOTIFY_COMPLETED, note_completed, server, MHD_OPTION_END);
	if (!server->daemon) {
		const int code = errno;

		stop_watch(server);
		errno = code;
		star_error_set(err, errno ? -errno : -EIO,
			       "metrics cannot be served at %s port %u: %s; choose another metrics.port, or 0 for none",
			       options->address, options->port, errno ? strerrordesc_np(errno) : "no socket or thread");
		free(server);
		return NULL;
	}
	return server;
}

uint16_t metrics_server_port(const struct metrics_server *server)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);

	return info ? info->port : server->options.port;
}

void metrics_server_stop(struct metrics_server *server)
{
	if (!server)
		return;
	MHD_stop_daemon(server->daemon);
	stop_watch(server);
	text_destroy(server->spare);
	free(server);
}
