/* SPDX-License-Identifier: BSD-3-Clause */
/* The client against peers that are missing, mute or mad. */
#include "tests/control/cases.h"
#include "tests/control/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/listen.h"

void what_cannot_be_reached_is_named(void)
{
	static const struct {
		const char *address;
		int code;
		const char *says;
	} cases[] = {
		{ "127.0.0.1", -EINVAL, "host:port is needed, such as 198.18.0.1:3333" },
		{ "", -EINVAL, "is not an address" },
		{ ":3333", -EINVAL, "is not an address" },
		{ "127.0.0.1:", -EINVAL, "a number from 1 to 65535" },
		{ "127.0.0.1:0", -EINVAL, "a number from 1 to 65535" },
		{ "127.0.0.1:65536", -EINVAL, "a number from 1 to 65535" },
		{ "127.0.0.1:99999999999999999999", -EINVAL, "a number from 1 to 65535" },
		{ "127.0.0.1:33x", -EINVAL, "a number from 1 to 65535" },
		{ "/no/such/path.sock", -ENOENT, "cannot reach /no/such/path.sock: the socket does not exist" },
	};
	struct star_error err = { 0 };
	char address[32], longer[300];

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK(jsonrpc_connect(cases[i].address, CALL_US, &err) == NULL);
		CHECK_INT(err.code, cases[i].code);
		CHECK_HAS(err.text, cases[i].says);
	}
	snprintf(address, sizeof(address), "127.0.0.1:%u", free_port());
	CHECK(jsonrpc_connect(address, CALL_US, &err) == NULL);
	CHECK_INT(err.code, -ECONNREFUSED);
	CHECK_HAS(err.text, address);
	CHECK_HAS(err.text, "connection refused; is starserver running there? (starctl status)");
	memset(longer, '/', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	CHECK(jsonrpc_connect(longer, CALL_US, &err) == NULL);
	CHECK_INT(err.code, -ENAMETOOLONG);
	CHECK(jsonrpc_connect(address, CALL_US, NULL) == NULL);
	jsonrpc_close(NULL);
}

/* A peer that answers the first request with fixed bytes, and then waits for the end. */
struct mad_peer {
	int fd;
	const char *bytes;
	size_t count, repeat;
};

static void *mad_peer(void *arg)
{
	const struct mad_peer *peer = arg;
	char request[4096];
	int fd = accept(peer->fd, NULL, NULL);
	bool sent = fd >= 0 && recv(fd, request, sizeof(request), 0) > 0;

	for (size_t i = 0; sent && i < peer->repeat; i++)
		sent = raw_send(fd, peer->bytes, peer->count);
	if (fd >= 0) {
		shutdown(fd, SHUT_WR);
		while (recv(fd, request, sizeof(request), 0) > 0)
			;
		close(fd);
	}
	return NULL;
}

/* Calls a mad peer once, checks the outcome, and that the connection is then no longer used. */
static void call_mad_peer(const char *bytes, size_t repeat, int code, const char *says)
{
	struct mad_peer peer = { .bytes = bytes, .count = strlen(bytes), .repeat = repeat };
	struct star_error err = { 0 };
	struct jsonrpc_client *client;
	pthread_t thread;
	char address[32];
	json_t *result;

	snprintf(address, sizeof(address), "127.0.0.1:%u", free_port());
	peer.fd = control_listen_tcp(address, &err);
	CHECK_INT(fcntl(peer.fd, F_SETFL, 0), 0); /* accept waits */
	pthread_create(&thread, NULL, mad_peer, &peer);
	client = jsonrpc_connect(address, CALL_US, &err);
	result = jsonrpc_call(client, "status", NULL, CALL_US, &err);
	CHECK(result == NULL);
	if (!CHECK_INT(err.code, code) || !CHECK_HAS(err.text, says))
		unit_fail(__FILE__, __LINE__, "bytes: %.100s: %s", bytes, err.text);
	json_decref(result);
	if (code == -EPROTO || code == -ECONNRESET || code == -EMSGSIZE) {
		CHECK_HAS(err.text, address);
		CHECK(jsonrpc_call(client, "status", json_object(), CALL_US, &err) == NULL);
		CHECK_INT(err.code, -ENOTCONN);
	}
	jsonrpc_close(client);
	pthread_join(thread, NULL);
	close(peer.fd);
}

void mad_replies_are_refused(void)
{
	static const struct {
		const char *bytes;
		int code;
		const char *says;
	} cases[] = {
		{ "", -ECONNRESET, "was lost during \"status\"" },
		{ "{\"jsonrpc\":\"2.0\",", -ECONNRESET, "was lost" },
		{ "HTTP/1.1 400 Bad Request\r\n\r\n", -EPROTO, "is it a control address?" },
		{ "\n", -EPROTO, "is not a JSON-RPC reply" },
		{ "[]\n", -EPROTO, "no \"jsonrpc\"" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1}\n", -EPROTO, "one of" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1,\"error\":2}\n", -EPROTO, "one of" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":1}\n", -EPROTO, "another \"id\"" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":1}\n", -EPROTO, "another \"id\"" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":3}\n", -EPROTO, "without code or message" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000}}\n", -EPROTO, "without code" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000,\"message\":\"no\",\"data\":{\"number\":2}}"
		  "}\n",
		  -ENOENT, "no" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000,\"message\":\"no\",\"data\":{\"number\":-2}"
		  "}}\n",
		  -EBADMSG, "no" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"no\"}}\n", -EBADMSG,
		  "no" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"no\"}}\n", -ENOSYS, "no" },
	};
	char *block = malloc(65536);

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		call_mad_peer(cases[i].bytes, 1, cases[i].code, cases[i].says);
	memset(block, 'x', 65535);
	block[65535] = 0;
	call_mad_peer(block, JSONRPC_LINE_MAX / 65535 + 4, -EMSGSIZE, "was lost");
	free(block);
}

void a_mute_peer_costs_the_deadline_and_no_more(void)
{
	struct star_error err = { 0 };
	struct jsonrpc_client *client;
	char address[32];
	uint64_t started_us;
	int fd;

	snprintf(address, sizeof(address), "127.0.0.1:%u", free_port());
	fd = control_listen_tcp(address, &err); /* the kernel accepts, nobody answers */
	client = jsonrpc_connect(address, CALL_US, &err);
	started_us = clock_us();
	CHECK(jsonrpc_call(client, "status", NULL, 50000, &err) == NULL);
	CHECK_INT(err.code, -ETIMEDOUT);
	CHECK_HAS(err.text, address);
	CHECK_HAS(err.text, "did not answer \"status\" in time");
	CHECK(clock_us() - started_us >= 50000);
	CHECK(clock_us() - started_us < 5000000);
	CHECK(jsonrpc_call(client, "status", NULL, 50000, &err) == NULL);
	CHECK_INT(err.code, -ENOTCONN);
	jsonrpc_close(client);
	client = jsonrpc_connect(address, CALL_US, &err);
	CHECK(jsonrpc_call(client, "status", NULL, 0, &err) == NULL);
	CHECK_INT(err.code, -ETIMEDOUT);
	jsonrpc_close(client);
	close(fd);
}

static void *interrupt(void *arg)
{
	usleep(50000);
	jsonrpc_interrupt(arg);
	return NULL;
}

void a_call_can_be_interrupted(void)
{
	struct star_error err = { 0 };
	struct jsonrpc_client *client;
	pthread_t thread;
	char address[32];
	int fd;

	snprintf(address, sizeof(address), "127.0.0.1:%u", free_port());
	fd = control_listen_tcp(address, &err);
	client = jsonrpc_connect(address, CALL_US, &err);
	pthread_create(&thread, NULL, interrupt, client);
	CHECK(jsonrpc_call(client, "status", NULL, CALL_US, &err) == NULL);
	CHECK_INT(err.code, -ECONNRESET);
	pthread_join(thread, NULL);
	jsonrpc_close(client);
	close(fd);
}

void one_connection_serves_many_calls(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	struct jsonrpc_client *client;
	char *much = malloc(JSONRPC_REQUEST_MAX + 1);
	json_t *result;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	client = jsonrpc_connect(cluster.nodes[0].address, CALL_US, &err);
	for (int i = 0; i < 20; i++) {
		result = jsonrpc_call(client, "tables", NULL, CALL_US, &err);
		CHECK(json_is_array(result));
		json_decref(result);
		CHECK(jsonrpc_call(client, "lookup", json_pack("{s:s}", "name", "x"), CALL_US, &err) == NULL);
		CHECK_INT(err.code, -ENOENT);
	}
	memset(much, 'x', JSONRPC_REQUEST_MAX);
	much[JSONRPC_REQUEST_MAX] = 0;
	CHECK(jsonrpc_call(client, "lookup", json_pack("{s:s}", "name", much), CALL_US, &err) == NULL);
	CHECK_INT(err.code, -E2BIG);
	/* Nothing of it was sent, so the connection is as it was. */
	result = jsonrpc_call(client, "tables", NULL, CALL_US, NULL);
	CHECK(json_is_array(result));
	json_decref(result);
	jsonrpc_close(client);
	free(much);
	cluster_fini(&cluster);
}
