/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a stranger sends to a control address with keys, in pieces: nobody gets in, and nothing is left. The first byte
 * says whether it is the server or a client that hears it, the second how long a piece is.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "secure/link.h"

static struct secure_ring *ring;
static struct secure_context *server, *client;
static struct secure_key key = { .principal = "nodes", .id = "0badcafe", .secret = { 1 } };

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct secure_keys *keys = calloc(1, sizeof(*keys)), *one;
	char path[] = "/tmp/star-fuzz-XXXXXX";
	const int fd = mkstemp(path);
	struct star_error err = { 0 };

	one = secure_keys_add(keys, "nodes", SECURE_NODE, false, &err);
	FUZZ_CHECK(fd >= 0 && one && secure_keys_write(path, one, false, &err) == 0, "%s", err.text);
	strcpy(key.id, one->list[0].id);
	ring = secure_ring_create(path, "", &err);
	FUZZ_CHECK(ring, "%s", err.text);
	server = secure_context_create(ring, &err);
	client = secure_context_create(NULL, &err);
	FUZZ_CHECK(server && client, "%s", err.text);
	secure_keys_free(one);
	free(keys);
	close(fd);
	unlink(path);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, data + bytes };
	const bool serves = take8(&in) & 1;
	const size_t piece = 1 + take8(&in) * 8u;
	struct secure_link *link;
	struct star_error err;
	int fds[2], rc = -EAGAIN;
	short events = 0;

	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0, "no sockets");
	link = serves ? secure_link_accept(server, fds[0]) : secure_link_connect(client, fds[0], &key);
	for (unsigned turn = 0; rc == -EAGAIN && turn < 10000; turn++) {
		const size_t n = input_left(&in) < piece ? input_left(&in) : piece;
		uint8_t ignored[4096];

		if (n == 0)
			shutdown(fds[1], SHUT_WR);
		else
			in.at += send(fds[1], in.at, n, MSG_NOSIGNAL) > 0 ? n : input_left(&in);
		rc = secure_link_handshake(link, &events, &err);
		while (recv(fds[1], ignored, sizeof(ignored), 0) > 0)
			;
	}
	FUZZ_CHECK(rc < 0 && rc != -EAGAIN, "a stranger gets in, or stays: %d", rc);
	FUZZ_CHECK(err.code && err.text[0], "refused without a message");
	secure_link_close(link);
	close(fds[0]);
	close(fds[1]);
	return 0;
}
