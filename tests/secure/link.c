/* SPDX-License-Identifier: BSD-3-Clause */
#include "secure/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/prng.h"
#include "secure/memory.h"
#include "tests/secure/cases.h"
#include "tests/unit.h"

enum { TURNS_MAX = 1000, LONG_BYTES = 3 << 20 };

/* A server with a ring, and a client that reaches it over a socket. */
struct pair {
	char folder[UNIT_FOLDER], path[128];
	struct secure_keys *keys;
	struct secure_ring *ring;
	struct secure_context *server_context, *client_context;
	int fds[2];
	struct secure_link *server, *client;
	struct star_error server_err, client_err;
};

static void pair_init(struct pair *p)
{
	struct secure_keys *none = secure_alloc(sizeof(*none)), *one;
	struct star_error err = { 0 };

	memset(p, 0, sizeof(*p));
	unit_folder(p->folder, "link");
	snprintf(p->path, sizeof(p->path), "%s/ring", p->folder);
	one = secure_keys_add(none, "nodes", SECURE_NODE, false, &err);
	p->keys = secure_keys_add(one, "trainer", SECURE_WORKER, false, &err);
	CHECK_INT(secure_keys_write(p->path, p->keys, true, &err), 0);
	p->ring = secure_ring_create(p->path, "", &err);
	p->server_context = secure_context_create(p->ring, &err);
	p->client_context = secure_context_create(NULL, &err);
	CHECK(p->ring && p->server_context && p->client_context);
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, p->fds), 0);
	secure_keys_free(one);
	secure_keys_free(none);
}

static void pair_fini(struct pair *p)
{
	secure_link_close(p->client);
	secure_link_close(p->server);
	secure_context_destroy(p->client_context);
	secure_context_destroy(p->server_context);
	secure_ring_destroy(p->ring);
	secure_keys_free(p->keys);
	close(p->fds[0]);
	close(p->fds[1]);
	unit_remove(p->folder);
}

/* Both codes of the handshakes. */
static void meet(struct pair *p, const struct secure_key *key, int *server, int *client)
{
	short events;

	p->server = secure_link_accept(p->server_context, p->fds[0]);
	p->client = secure_link_connect(p->client_context, p->fds[1], key);
	*server = *client = -EAGAIN;
	for (int i = 0; i < 100 && (*server == -EAGAIN || *client == -EAGAIN); i++) {
		if (*client == -EAGAIN)
			*client = secure_link_handshake(p->client, &events, &p->client_err);
		if (*server == -EAGAIN)
			*server = secure_link_handshake(p->server, &events, &p->server_err);
	}
}

void two_ends_with_one_secret_meet(void)
{
	struct pair p;
	int server, client;
	char text[16];

	pair_init(&p);
	meet(&p, &p.keys->list[1], &server, &client);
	CHECK_INT(server, 0);
	CHECK_INT(client, 0);
	CHECK_STR(secure_link_peer(p.server)->principal, "trainer");
	CHECK_STR(secure_link_peer(p.server)->id, p.keys->list[1].id);
	CHECK_INT(secure_link_peer(p.server)->role, SECURE_WORKER);
	for (unsigned i = 0; i < SECURE_SECRET_BYTES; i++)
		CHECK_UINT(secure_link_peer(p.server)->secret[i], 0);
	CHECK_INT(secure_link_write(p.client, "hello", 5), 5);
	CHECK_INT(secure_link_read(p.server, text, sizeof(text)), 5);
	CHECK_MEM(text, "hello", 5);
	CHECK_INT(secure_link_read(p.server, text, sizeof(text)), -EAGAIN);
	CHECK_INT(secure_link_write(p.server, "there", 5), 5);
	CHECK_INT(secure_link_read(p.client, text, sizeof(text)), 5);
	CHECK_MEM(text, "there", 5);
	secure_link_close(p.client);
	p.client = NULL;
	CHECK_INT(secure_link_read(p.server, text, sizeof(text)), 0);
	pair_fini(&p);
}

void each_wrong_key_is_refused(void)
{
	for (unsigned i = 0; i < 5; i++) {
		struct secure_key key;
		struct pair p;
		int server, client;

		pair_init(&p);
		key = p.keys->list[1];
		if (i == 0)
			key.secret[31] ^= 1;
		else if (i == 1)
			memcpy(key.secret, p.keys->list[0].secret, sizeof(key.secret));
		else if (i == 2)
			strcpy(key.principal, "trainers");
		else if (i == 3)
			strcpy(key.id, "00000000");
		else
			strcpy(key.principal, "Trainer");
		meet(&p, &key, &server, &client);
		CHECK_INT(server, -EACCES);
		CHECK_INT(client, -EACCES);
		CHECK_HAS(p.client_err.text, "is not known there, or was revoked");
		CHECK_HAS(p.server_err.text, i < 2 ? "the secret is wrong" : "is not known");
		/* What a stranger says of himself is kept for the log only where it could be a name. */
		CHECK_STR(secure_link_peer(p.server)->principal, i == 4 ? "" : key.principal);
		pair_fini(&p);
	}
}

void long_texts_arrive_whole(void)
{
	uint8_t *sent = malloc(LONG_BYTES), *got = malloc(LONG_BYTES);
	size_t out = 0, in = 0;
	struct prng prng;
	struct pair p;
	int server, client;

	pair_init(&p);
	meet(&p, &p.keys->list[1], &server, &client);
	prng_seed(&prng, 7);
	for (size_t i = 0; i < LONG_BYTES; i++)
		sent[i] = (uint8_t)prng_next(&prng);
	for (unsigned turn = 0; turn < 100 * TURNS_MAX && in < LONG_BYTES; turn++) {
		const ssize_t n = out < LONG_BYTES ? secure_link_write(p.client, sent + out, LONG_BYTES - out) : 0;
		ssize_t m;

		CHECK(n >= 0 || n == -EAGAIN);
		out += n > 0 ? (size_t)n : 0;
		m = secure_link_read(p.server, got + in, LONG_BYTES - in);
		if (m != -EAGAIN && !CHECK(m > 0))
			break;
		in += m > 0 ? (size_t)m : 0;
	}
	CHECK_UINT(in, LONG_BYTES);
	CHECK_INT(memcmp(sent, got, LONG_BYTES), 0);
	pair_fini(&p);
	free(sent);
	free(got);
}

void a_cut_connection_is_no_end(void)
{
	char text[16];
	struct pair p;
	int server, client;

	pair_init(&p);
	meet(&p, &p.keys->list[1], &server, &client);
	CHECK_INT(secure_link_write(p.client, "half", 4), 4);
	shutdown(p.fds[1], SHUT_WR);
	CHECK_INT(secure_link_read(p.server, text, sizeof(text)), 4);
	CHECK_INT(secure_link_read(p.server, text, sizeof(text)), -ECONNRESET);
	CHECK_INT(secure_link_read(p.server, text, sizeof(text)), -ECONNRESET);
	pair_fini(&p);
}

void no_changed_record_is_taken(void)
{
	for (unsigned at = 0; at < 26; at++) {
		unsigned char record[64];
		char text[16];
		struct pair p;
		int server, client;
		ssize_t n;

		pair_init(&p);
		meet(&p, &p.keys->list[1], &server, &client);
		CHECK_INT(secure_link_write(p.client, "text", 4), 4);
		n = recv(p.fds[0], record, sizeof(record), 0);
		CHECK_INT(n, 5 + 4 + 1 + 16); /* header, text, its type, tag */
		record[at] ^= 1;
		CHECK_INT(send(p.fds[1], record, (size_t)n, 0), n);
		/* A length that became longer waits for more, and gets the end. */
		shutdown(p.fds[1], SHUT_WR);
		CHECK_INT(secure_link_read(p.server, text, sizeof(text)), -ECONNRESET);
		pair_fini(&p);
	}
}

void a_handshake_of_any_bytes_fails(void)
{
	struct prng prng;

	prng_seed(&prng, 11);
	for (unsigned i = 0; i < 300; i++) {
		unsigned char bytes[512];
		struct pair p;
		short events = 0;
		int rc = -EAGAIN;

		pair_init(&p);
		for (unsigned b = 0; b < sizeof(bytes); b++)
			bytes[b] = (unsigned char)prng_next(&prng);
		if (i % 2) /* a record of a ClientHello, as far as its header goes */
			memcpy(bytes, "\x16\x03\x01\x01\xf0\x01\x00\x01\xec\x03\x03", 11);
		p.server = secure_link_accept(p.server_context, p.fds[0]);
		CHECK_INT(send(p.fds[1], bytes, sizeof(bytes), 0), sizeof(bytes));
		shutdown(p.fds[1], SHUT_WR);
		for (unsigned turn = 0; turn < 100 && rc == -EAGAIN; turn++)
			rc = secure_link_handshake(p.server, &events, NULL);
		CHECK(rc < 0 && rc != -EAGAIN);
		pair_fini(&p);
	}
}
