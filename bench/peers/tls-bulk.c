/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What bench/secure compares sealed replies with: the same bytes over the kernel's TCP by OpenSSL, TLS 1.3 with
 * AES-128-GCM and a pre-shared key, by the kernel's own records where it has them (kTLS). "serve" answers each request
 * of one connection after the other with REPLY bytes that it has at hand; "ask" has DEPTH requests under way, and looks
 * at the first and the last word of each reply.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { REQUEST_BYTES = 256, REPLY_MAX = 1 << 20, DEPTH_MAX = 64, KEY_BYTES = 32, BACKLOG = 8 };
#define WARM_UP_NS UINT64_C(200000000)

static const uint8_t key[KEY_BYTES] = "a key that is nobody's but here";

_Noreturn static void fail(const char *what)
{
	fprintf(stderr, "tls-bulk: %s\n", what);
	exit(EXIT_FAILURE);
}

static unsigned server_key(SSL *tls, const char *identity, unsigned char *psk, unsigned most)
{
	memcpy(psk, key, sizeof(key));
	return sizeof(key);
}

static unsigned client_key(SSL *tls, const char *hint, char *identity, unsigned most, unsigned char *psk,
			   unsigned psk_most)
{
	snprintf(identity, most, "bench");
	memcpy(psk, key, sizeof(key));
	return sizeof(key);
}

static SSL_CTX *make_context(bool serves)
{
	SSL_CTX *context = SSL_CTX_new(serves ? TLS_server_method() : TLS_client_method());

	if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) ||
	    !SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256"))
		fail("OpenSSL does not have TLS 1.3");
	SSL_CTX_set_options(context, SSL_OP_ENABLE_KTLS);
	SSL_CTX_set_num_tickets(context, 0);
	if (serves)
		SSL_CTX_set_psk_server_callback(context, server_key);
	else
		SSL_CTX_set_psk_client_callback(context, client_key);
	return context;
}

static SSL *begin(SSL_CTX *context, int fd, bool serves)
{
	SSL *tls = SSL_new(context);
	const int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (!tls || !SSL_set_fd(tls, fd) || (serves ? SSL_accept(tls) : SSL_connect(tls)) != 1)
		fail("no handshake");
	return tls;
}

/* False: the other end has gone. */
static bool read_all(SSL *tls, uint8_t *to, size_t bytes)
{
	for (size_t at = 0, n; at < bytes; at += n)
		if (SSL_read_ex(tls, to + at, bytes - at, &n) != 1)
			return false;
	return true;
}

static bool write_all(SSL *tls, const uint8_t *from, size_t bytes)
{
	for (size_t at = 0, n; at < bytes; at += n)
		if (SSL_write_ex(tls, from + at, bytes - at, &n) != 1)
			return false;
	return true;
}

static struct sockaddr_in address_of(const char *text)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	const char *colon = strchr(text, ':');
	char host[INET_ADDRSTRLEN];

	if (!colon || colon - text >= (long)sizeof(host))
		fail("the address is HOST:PORT");
	snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
	address.sin_port = htons((uint16_t)atoi(colon + 1));
	if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
		fail("the host is an IPv4 address");
	return address;
}

_Noreturn static void serve(const struct sockaddr_in *address, size_t reply_bytes)
{
	static uint8_t request[REQUEST_BYTES], reply[REPLY_MAX];
	SSL_CTX *context = make_context(true);
	const int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	memset(reply, 0x5a, sizeof(reply));
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (const struct sockaddr *)address, sizeof(*address)) < 0 || listen(listener, BACKLOG) < 0)
		fail("cannot listen there");
	for (;;) {
		const int fd = accept(listener, NULL, NULL);
		SSL *tls;
		uint8_t first;

		if (fd < 0)
			fail("no connection");
		/* The harness looks whether somebody listens: such a connection says nothing. */
		if (recv(fd, &first, sizeof(first), MSG_PEEK) > 0) {
			tls = begin(context, fd, true);
			while (read_all(tls, request, sizeof(request)) && write_all(tls, reply, reply_bytes))
				;
			SSL_free(tls);
		}
		close(fd);
	}
}

static void ask(const struct sockaddr_in *address, size_t reply_bytes, unsigned depth, double seconds)
{
	static uint8_t request[REQUEST_BYTES], reply[REPLY_MAX];
	const int fd = socket(AF_INET, SOCK_STREAM, 0);
	uint64_t from, until, now, replies = 0;
	SSL *tls;

	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
		fail("cannot connect");
	tls = begin(make_context(false), fd, false);
	now = clock_ns();
	from = now + WARM_UP_NS;
	until = from + (uint64_t)(seconds * 1e9);
	for (unsigned i = 0; i < depth; i++)
		if (!write_all(tls, request, sizeof(request)))
			fail("the server has gone");
	while (now < until) {
		reply[0] = reply[reply_bytes - 1] = 0;
		if (!read_all(tls, reply, reply_bytes) || reply[0] != 0x5a || reply[reply_bytes - 1] != 0x5a ||
		    !write_all(tls, request, sizeof(request)))
			fail("a reply is not as it should be");
		now = clock_ns();
		replies += now >= from;
	}
	printf("{\"mib_s\": %.3f, \"rate\": %.1f, \"ktls\": %s}\n",
	       (double)(replies * reply_bytes) / ((double)(now - from) * 1e-9) / (1 << 20),
	       (double)replies / ((double)(now - from) * 1e-9),
	       BIO_get_ktls_send(SSL_get_wbio(tls)) ? "true" : "false");
}

int main(int argc, char **argv)
{
	const size_t reply_bytes = argc >= 4 ? strtoul(argv[3], NULL, 10) : 0;
	const unsigned depth = argc == 6 ? (unsigned)atoi(argv[4]) : 1;
	struct sockaddr_in address;

	if (reply_bytes < 1 || reply_bytes > REPLY_MAX || depth < 1 || depth > DEPTH_MAX) {
		fprintf(stderr, "usage: tls-bulk serve ADDRESS REPLY_BYTES\n"
				"       tls-bulk ask ADDRESS REPLY_BYTES DEPTH SECONDS\n");
		return 2;
	}
	address = address_of(argv[2]);
	if (strcmp(argv[1], "serve") == 0)
		serve(&address, reply_bytes);
	if (argc != 6)
		fail("ask needs DEPTH and SECONDS");
	ask(&address, reply_bytes, depth, atof(argv[5]));
	return 0;
}
