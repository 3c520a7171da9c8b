/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that are too many, replies that are long, and readers that are slow. */
#include "tests/control/cases.h"
#include "tests/control/harness.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/line_server.h"
#include "control/listen.h"

void administrators_have_connections_of_their_own(void)
{
	struct cluster cluster;
	int fd[LINE_SERVER_ADMINS_MAX + 1], peer;
	char *text;
	int code = 0;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	for (int i = 0; i <= LINE_SERVER_ADMINS_MAX; i++)
		fd[i] = raw_connect(cluster.nodes[0].config.control_socket);
	text = raw_line(fd[LINE_SERVER_ADMINS_MAX]);
	CHECK_HAS(text ? text : "", "EBUSY");
	free(text);
	CHECK(raw_line(fd[LINE_SERVER_ADMINS_MAX]) == NULL);
	CHECK_INT(raw_code(fd[0], STATUS), 0);
	peer = raw_connect(cluster.nodes[0].address);
	CHECK_INT(raw_code(peer, STATUS), 0);
	for (int i = 0; i <= LINE_SERVER_ADMINS_MAX; i++)
		close(fd[i]);
	/* Places are free again as soon as the server has seen the ends. */
	for (int i = 0; i < 1000; i++) {
		fd[0] = raw_connect(cluster.nodes[0].config.control_socket);
		code = raw_code(fd[0], STATUS);
		close(fd[0]);
		if (code == 0)
			break;
		usleep(2000);
	}
	CHECK_INT(code, 0);
	close(peer);
	cluster_fini(&cluster);
}

enum { MUCH_BYTES = 8 << 20 };

static enum line_outcome serve_much(void *ctx, struct line_connection *connection, bool admin, const char *line,
				    size_t bytes, char **reply)
{
	*reply = malloc(MUCH_BYTES + 2);
	memset(*reply, 'x', MUCH_BYTES);
	strcpy(*reply + MUCH_BYTES, "\n");
	return LINE_ANSWERED;
}

static char *no_words(void *ctx)
{
	return NULL;
}

static char *no_words_of(void *ctx, size_t max)
{
	return NULL;
}

/* A server of long replies, with one connection to it. */
struct much {
	char folder[UNIT_FOLDER], path[UNIT_FOLDER + 8], address[32];
	struct line_server *server;
	int fd;
};

static bool start_much(struct much *much, uint64_t stall_timeout_us)
{
	struct line_server_options options = {
		.line_max = 100,
		.stall_timeout_us = stall_timeout_us,
		.greeting_timeout_us = stall_timeout_us,
		.idle_timeout_us = stall_timeout_us,
		.serve = serve_much,
		.too_long = no_words_of,
		.too_many = no_words,
	};
	struct star_error err = { 0 };

	unit_folder(much->folder, "control");
	snprintf(much->path, sizeof(much->path), "%s/x.sock", much->folder);
	snprintf(much->address, sizeof(much->address), "127.0.0.1:%u", free_port());
	options.admin_fd = control_listen_unix(much->path, &err);
	options.peer_fd = control_listen_tcp(much->address, &err);
	much->server = control_line_server_create(&options, &err);
	much->fd = raw_connect(much->path);
	return much->server || unit_fail(__FILE__, __LINE__, "%s", err.text);
}

static size_t receive_all(int fd, size_t limit)
{
	static char bytes[65536];
	size_t got = 0;
	ssize_t n;

	while (got < limit && (n = recv(fd, bytes, sizeof(bytes), 0)) > 0)
		got += (size_t)n;
	return got;
}

static void stop_much(struct much *much)
{
	close(much->fd);
	control_line_server_stop(much->server);
	control_line_server_destroy(much->server);
	unlink(much->path);
	rmdir(much->folder);
}

void long_replies_go_out_in_pieces(void)
{
	struct much much;

	if (start_much(&much, 30000000)) {
		CHECK(raw_send(much.fd, "a\nb\nc\n", 6));
		CHECK_UINT(receive_all(much.fd, 3 * (MUCH_BYTES + 1)), 3 * (MUCH_BYTES + 1));
	}
	stop_much(&much);
}

void a_reader_that_takes_nothing_is_closed(void)
{
	struct much much;

	if (start_much(&much, 50000)) {
		struct pollfd gone = { .fd = much.fd };

		CHECK(raw_send(much.fd, "a\nb\nc\n", 6));
		CHECK_INT(poll(&gone, 1, 10000), 1);
		CHECK(gone.revents & POLLHUP);
		/* What had been sent before is still there. */
		CHECK(receive_all(much.fd, MUCH_BYTES) < MUCH_BYTES);
	}
	stop_much(&much);
}

void connections_with_unfinished_lines_are_closed(void)
{
	struct much much;

	if (start_much(&much, 50000)) {
		struct pollfd gone = { .fd = much.fd, .events = POLLIN };

		CHECK(raw_send(much.fd, "a\nb", 3));
		CHECK_UINT(receive_all(much.fd, MUCH_BYTES + 1), MUCH_BYTES + 1);
		CHECK_INT(poll(&gone, 1, 10000), 1);
		CHECK_UINT(receive_all(much.fd, 1), 0);
	}
	stop_much(&much);
}

/* Before its first request, and after one; an administrator may think for longer. */
void silent_connections_are_closed(void)
{
	struct much much;

	if (start_much(&much, 50000)) {
		int fds[] = { raw_connect(much.address), raw_connect(much.address) };

		CHECK(raw_send(fds[1], "a\n", 2));
		CHECK_UINT(receive_all(fds[1], MUCH_BYTES + 1), MUCH_BYTES + 1);
		for (int i = 0; i < 2; i++) {
			struct pollfd gone = { .fd = fds[i], .events = POLLIN };

			CHECK_INT(poll(&gone, 1, 10000), 1);
			CHECK_UINT(receive_all(fds[i], 1), 0);
			close(fds[i]);
		}
		CHECK(raw_send(much.fd, "a\n", 2));
		CHECK_UINT(receive_all(much.fd, MUCH_BYTES + 1), MUCH_BYTES + 1);
	}
	stop_much(&much);
}
