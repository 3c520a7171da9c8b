/* SPDX-License-Identifier: BSD-3-Clause */
#include "jsonrpc/jsonrpc.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "jsonrpc/address.h"
#include "jsonrpc/jsonrpc_message.h"
#include "secure/link.h"

enum { READ_BYTES = 64 << 10, RETRY_US = 5000 };

struct jsonrpc_client {
	int fd;
	struct secure_context *context;
	struct secure_link *link; /* NULL: without encryption */
	bool broken;
	json_int_t last_id;
	char *in;
	size_t in_used, in_size;
	char address[];
};

static int unreachable(struct star_error *err, int code, const char *address)
{
	switch (-code) {
	case ECONNREFUSED:
		return star_error_set(
			err, code, "cannot reach %s: connection refused; is starserver running there? (starctl status)",
			address);
	case ENOENT:
		return star_error_set(err, code,
				      "cannot reach %s: the socket does not exist; is starserver running? "
				      "(its option control.socket names it)",
				      address);
	case EACCES:
	case EPERM:
		return star_error_set(
			err, code,
			"cannot reach %s: permission denied; the administrator's socket is for its owner only, "
			"so be that user (root)",
			address);
	case ETIMEDOUT:
		return star_error_set(
			err, code,
			"cannot reach %s: no answer in time; check the address, the route and firewalls between",
			address);
	case EHOSTUNREACH:
	case ENETUNREACH:
		return star_error_set(err, code,
				      "cannot reach %s: no route to the host; check the address and `ip route get`",
				      address);
	default:
		return star_error_set(err, code, "cannot reach %s: %s", address, strerrordesc_np(-code));
	}
}

/* Waits for events until the deadline; 0 or -ETIMEDOUT. The next call on the socket returns its errors. */
static int wait_for(int fd, short events, uint64_t until_us)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = events };
		const uint64_t now = clock_us();
		uint64_t left_ms = now < until_us ? (until_us - now + 999) / 1000 : 0;
		int n;

		if (left_ms == 0)
			return -ETIMEDOUT;
		n = poll(&p, 1, left_ms > 60000 ? 60000 : (int)left_ms);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

static int finish_connect(int fd, uint64_t until_us)
{
	int error = 0;
	socklen_t bytes = sizeof(error);
	int rc = wait_for(fd, POLLOUT, until_us);

	if (rc < 0)
		return rc;
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
	return -error;
}

/* If it cannot be bound, the kernel chooses the address. The port is chosen when it connects, as usual. */
static void bind_source(int fd, int family, const struct addrinfo *source)
{
	const int on = 1;

	while (source && source->ai_family != family)
		source = source->ai_next;
	if (!source)
		return;
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (bind(fd, source->ai_addr, source->ai_addrlen) < 0)
		return;
}

/* A connected non-blocking socket, or a negative errno. */
static int connect_to(const struct sockaddr *address, socklen_t bytes, const struct addrinfo *source, uint64_t until_us)
{
	const int on = 1;
	int rc, fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	bind_source(fd, address->sa_family, source);
	for (;;) {
		rc = connect(fd, address, bytes) < 0 ? -errno : 0;
		if (rc == -EINPROGRESS)
			rc = finish_connect(fd, until_us);
		/* A Unix listener with a full queue returns EAGAIN, and there is nothing to wait for. */
		if (rc != -EAGAIN)
			break;
		if (clock_us() + RETRY_US >= until_us) {
			rc = -ETIMEDOUT;
			break;
		}
		usleep(RETRY_US);
	}
	if (rc < 0) {
		close(fd);
		return rc;
	}
	if (address->sa_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

static int connect_path(const char *path, uint64_t until_us, struct star_error *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(address.sun_path))
		return star_error_set(err, -ENAMETOOLONG, "the socket's path %.40s... is too long: at most %zu bytes",
				      path, sizeof(address.sun_path) - 1);
	strcpy(address.sun_path, path);
	fd = connect_to((const struct sockaddr *)&address, sizeof(address), NULL, until_us);
	return fd < 0 ? unreachable(err, fd, path) : fd;
}

static int connect_host(const char *text, const struct addrinfo *source, uint64_t until_us, struct star_error *err)
{
	struct addrinfo *list;
	int fd = -EHOSTUNREACH;
	int rc = jsonrpc_address_resolve(text, false, &list, err);

	if (rc < 0)
		return rc;
	for (const struct addrinfo *a = list; a; a = a->ai_next) {
		fd = connect_to(a->ai_addr, a->ai_addrlen, source, until_us);
		if (fd >= 0 || fd == -ETIMEDOUT)
			break;
	}
	freeaddrinfo(list);
	return fd < 0 ? unreachable(err, fd, text) : fd;
}

static int shake_hands(struct jsonrpc_client *client, const struct secure_key *key, uint64_t until_us,
		       struct star_error *err)
{
	struct star_error why;
	short events;
	int rc;

	client->context = secure_context_create(NULL, err);
	if (!client->context)
		return err->code;
	client->link = secure_link_connect(client->context, client->fd, key);
	if (!client->link)
		return star_error_set(err, -ENOMEM, "out of memory");
	do {
		rc = secure_link_handshake(client->link, &events, &why);
		if (rc == -EAGAIN && (rc = wait_for(client->fd, events, until_us)) == 0)
			rc = -EAGAIN;
	} while (rc == -EAGAIN);
	if (rc == -ETIMEDOUT)
		return unreachable(err, rc, client->address);
	return rc < 0 ? star_error_set(err, rc, "cannot reach %s by TLS: %s", client->address, why.text) : 0;
}

static struct jsonrpc_client *connect_once(const char *address, const struct addrinfo *source,
					   const struct secure_key *key, uint64_t until_us, struct star_error *err)
{
	struct jsonrpc_client *client = calloc(1, sizeof(*client) + strlen(address) + 1);
	const bool local = strchr(address, '/');

	if (!client) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	strcpy(client->address, address);
	client->fd = local ? connect_path(address, until_us, err) : connect_host(address, source, until_us, err);
	if (client->fd < 0) {
		free(client);
		return NULL;
	}
	if (key && !local && shake_hands(client, key, until_us, err) < 0) {
		jsonrpc_close(client);
		return NULL;
	}
	return client;
}

/* A node may have only the next key, and another one only the current one: both can be reached. */
static struct jsonrpc_client *connect_client(const char *address, const struct addrinfo *source,
					     const struct secure_keys *keys, uint64_t deadline_us,
					     struct star_error *err)
{
	const uint64_t until_us = clock_us() + deadline_us;
	struct jsonrpc_client *client;
	struct star_error local;
	unsigned i = 0;

	if (!err)
		err = &local;
	do
		client = connect_once(address, source, keys ? &keys->list[i] : NULL, until_us, err);
	while (!client && err->code == -EACCES && keys && ++i < keys->count);
	return client;
}

struct jsonrpc_client *jsonrpc_connect(const char *address, uint64_t deadline_us, struct star_error *err)
{
	return connect_client(address, NULL, NULL, deadline_us, err);
}

struct jsonrpc_client *jsonrpc_connect_by(const char *key_file, const char *address, uint64_t deadline_us,
					  struct star_error *err)
{
	struct secure_keys *keys, *own = NULL;
	struct jsonrpc_client *client = NULL;
	struct star_error local;

	if (!key_file || !*key_file || strchr(address, '/'))
		return jsonrpc_connect(address, deadline_us, err);
	if (!err)
		err = &local;
	keys = secure_keys_load(key_file, err);
	if (!keys)
		return NULL;
	if (secure_keys_principals(keys) == 1)
		own = secure_keys_select(keys, keys->list[0].principal, err);
	else
		star_error_set(
			err, -EINVAL,
			"%.200s has the keys of %u principals, and it is not clear which one to use: `starctl key "
			"copy` makes a file with one principal",
			key_file, secure_keys_principals(keys));
	if (own)
		client = connect_client(address, NULL, own, deadline_us, err);
	secure_keys_free(own);
	secure_keys_free(keys);
	return client;
}

struct jsonrpc_client *jsonrpc_connect_from(const char *source, const struct secure_keys *keys, const char *address,
					    uint64_t deadline_us, struct star_error *err)
{
	struct addrinfo *own, *a;
	struct jsonrpc_client *client;

	if (jsonrpc_address_resolve(source, false, &own, err) < 0)
		return NULL;
	for (a = own; a; a = a->ai_next)
		if (a->ai_family == AF_INET6)
			((struct sockaddr_in6 *)(void *)a->ai_addr)->sin6_port = 0;
		else
			((struct sockaddr_in *)(void *)a->ai_addr)->sin_port = 0;
	client = connect_client(address, own, keys, deadline_us, err);
	freeaddrinfo(own);
	return client;
}

void jsonrpc_stream(const struct jsonrpc_client *client, int *fd, struct secure_link **link)
{
	*fd = client->fd;
	*link = client->link;
}

void jsonrpc_close(struct jsonrpc_client *client)
{
	if (!client)
		return;
	secure_link_close(client->link);
	secure_context_destroy(client->context);
	close(client->fd);
	free(client->in);
	free(client);
}

pid_t jsonrpc_peer(const struct jsonrpc_client *client)
{
	struct ucred peer = { 0 };
	socklen_t bytes = sizeof(peer);

	return getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) < 0 ? 0 : peer.pid;
}

void jsonrpc_interrupt(struct jsonrpc_client *client)
{
	shutdown(client->fd, SHUT_RDWR);
}

static int connection_lost(struct jsonrpc_client *client, struct star_error *err, int code, const char *method)
{
	client->broken = true;
	if (code == -ETIMEDOUT)
		return star_error_set(err, code,
				      "%s did not answer \"%s\" in time; it may be busy or gone (starctl status)%s",
				      client->address, method,
				      strchr(client->address, '/')
					      ? ""
					      : ", or this is not a control address, but a data address");
	return star_error_set(err, code, "the connection to %s was lost during \"%s\": %s; did starserver stop?",
			      client->address, method, strerrordesc_np(-code));
}

/* As send and recv, but the negative errno is returned. */
static ssize_t send_some(struct jsonrpc_client *client, const char *text, size_t bytes)
{
	const ssize_t n = client->link ? secure_link_write(client->link, text, bytes)
				       : send(client->fd, text, bytes, MSG_NOSIGNAL);

	return n < 0 && !client->link ? -errno : n;
}

static ssize_t receive_some(struct jsonrpc_client *client, char *to, size_t room)
{
	const ssize_t n = client->link ? secure_link_read(client->link, to, room) : recv(client->fd, to, room, 0);

	return n < 0 && !client->link ? -errno : n;
}

static int send_all(struct jsonrpc_client *client, const char *text, size_t bytes, uint64_t until_us)
{
	while (bytes) {
		const ssize_t n = send_some(client, text, bytes);
		int rc = n < 0 ? (int)n : 0;

		if (n >= 0) {
			text += n;
			bytes -= (size_t)n;
			continue;
		}
		if (rc == -EAGAIN)
			rc = wait_for(client->fd, POLLOUT, until_us);
		if (rc < 0 && rc != -EINTR)
			return rc;
	}
	return 0;
}

static int make_reply_room(struct jsonrpc_client *client)
{
	size_t size = client->in_size ? client->in_size * 2 : READ_BYTES;
	char *in;

	if (client->in_used > JSONRPC_LINE_MAX)
		return -EMSGSIZE;
	if (client->in_size - client->in_used >= READ_BYTES)
		return 0;
	in = realloc(client->in, size);
	if (!in)
		return -ENOMEM;
	client->in = in;
	client->in_size = size;
	return 0;
}

/* Reads one line into client->in and leaves its bytes, without the newline, in *bytes. */
static int receive_line(struct jsonrpc_client *client, uint64_t until_us, size_t *bytes)
{
	for (size_t scanned = 0;;) {
		const char *end = client->in_used > scanned
					  ? memchr(client->in + scanned, '\n', client->in_used - scanned)
					  : NULL;
		ssize_t n;
		int rc;

		if (end) {
			*bytes = (size_t)(end - client->in);
			return 0;
		}
		scanned = client->in_used;
		rc = make_reply_room(client);
		if (rc < 0)
			return rc;
		n = receive_some(client, client->in + client->in_used, client->in_size - client->in_used);
		if (n > 0) {
			client->in_used += (size_t)n;
			continue;
		}
		rc = n == 0 ? -ECONNRESET : (int)n;
		if (rc == -EAGAIN)
			rc = wait_for(client->fd, POLLIN, until_us);
		if (rc < 0 && rc != -EINTR)
			return rc;
	}
}

/* A complete call; the reply's line is consumed. */
static json_t *exchange(struct jsonrpc_client *client, const char *method, char *line, size_t line_bytes,
			uint64_t until_us, struct star_error *err)
{
	json_t *result;
	size_t bytes = 0;
	int rc = send_all(client, line, line_bytes, until_us);

	if (rc == 0)
		rc = receive_line(client, until_us, &bytes);
	if (rc < 0) {
		connection_lost(client, err, rc, method);
		return NULL;
	}
	result = jsonrpc_reply_parse(client->in, bytes, client->last_id, client->address, err);
	/* Only one request is in flight at a time: more bytes than its reply mean that this is not a JSON-RPC
	 * server. */
	client->broken = client->in_used != bytes + 1 || (!result && err->code == -EPROTO);
	client->in_used = 0;
	return result;
}

json_t *jsonrpc_call(struct jsonrpc_client *client, const char *method, json_t *params, uint64_t deadline_us,
		     struct star_error *err)
{
	const uint64_t until_us = clock_us() + deadline_us;
	struct star_error local;
	json_t *result = NULL;
	size_t bytes;
	char *line;

	if (!err)
		err = &local;
	if (client->broken) {
		json_decref(params);
		star_error_set(err, -ENOTCONN, "the connection to %s was lost earlier; connect again", client->address);
		return NULL;
	}
	line = jsonrpc_request_line(++client->last_id, method, params, &bytes);
	if (!line)
		star_error_set(err, -EINVAL, "the parameters of \"%s\" cannot be written as JSON", method);
	else if (bytes > JSONRPC_REQUEST_MAX)
		star_error_set(err, -E2BIG, "the request \"%s\" has %zu bytes; at most %d are possible", method, bytes,
			       JSONRPC_REQUEST_MAX);
	else
		result = exchange(client, method, line, bytes, until_us, err);
	free(line);
	return result;
}
