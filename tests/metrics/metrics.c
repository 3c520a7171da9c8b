/* SPDX-License-Identifier: BSD-3-Clause */
/* The pages' server: who holds places, and for how long. */
#include "metrics/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "metrics/places.h"
#include "tests/metrics/cases.h"
#include "tests/unit.h"

enum { REQUEST_MS = 300, WAIT_S = 60, SECOND_NS = 1000000000 };

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage storage = { 0 };
	struct sockaddr_in *in = (struct sockaddr_in *)&storage;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&storage;

	storage.ss_family = strchr(text, ':') ? AF_INET6 : AF_INET;
	CHECK_INT(inet_pton(storage.ss_family, text,
			    storage.ss_family == AF_INET ? (void *)&in->sin_addr : (void *)&in6->sin6_addr),
		  1);
	return storage;
}

static bool allows(const struct places *places, const char *text)
{
	const struct sockaddr_storage from = address(text);

	return metrics_places_allow(places, (const struct sockaddr *)&from);
}

static struct place *take(struct places *places, const char *text, int fd, uint64_t now_ns)
{
	const struct sockaddr_storage from = address(text);

	return metrics_places_take(places, (const struct sockaddr *)&from, fd, now_ns);
}

/* Of an IPv4 address, however it is written, and of all addresses of a /64. */
static void peers_have_shares(void)
{
	static const struct {
		const char *has, *same, *other;
	} cases[] = {
		{ "198.18.0.1", "::ffff:198.18.0.1", "198.18.0.2" },
		{ "::ffff:198.18.0.1", "198.18.0.1", "::ffff:198.18.0.2" },
		{ "2001:2:0:1::1", "2001:2:0:1:ffff::2", "2001:2:0:2::1" },
		{ "::1", "::2", "127.0.0.1" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct places places = { 0 };
		struct place *last = NULL;

		for (unsigned n = 0; n < PLACES_OF_PEER; n++) {
			CHECK(allows(&places, cases[i].same));
			last = take(&places, cases[i].has, -1, 0);
			CHECK(last);
		}
		CHECK(!allows(&places, cases[i].has));
		if (!CHECK(!allows(&places, cases[i].same)) || !CHECK(allows(&places, cases[i].other)))
			unit_fail(__FILE__, __LINE__, "%s", cases[i].has);
		metrics_place_give(last);
		CHECK(allows(&places, cases[i].same));
	}
}

static void who_takes_too_long_is_ended(void)
{
	struct places places = { 0 };
	struct place *first, *second;
	int pairs[2][2];
	char byte;

	for (unsigned i = 0; i < 2; i++)
		CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]), 0);
	CHECK(metrics_places_end_overdue(&places, 5, 100) == UINT64_MAX);
	first = take(&places, "198.18.0.1", pairs[0][0], 100);
	second = take(&places, "198.18.0.2", pairs[1][0], 103);
	CHECK_UINT(metrics_places_end_overdue(&places, 5, 104), 105);
	CHECK_UINT(metrics_places_end_overdue(&places, 5, 105), 108);
	CHECK_INT(recv(pairs[0][1], &byte, 1, MSG_DONTWAIT), 0);
	CHECK_INT(recv(pairs[1][1], &byte, 1, MSG_DONTWAIT), -1);
	/* It keeps its place until it is closed. */
	CHECK(first->taken && second->taken);
	second->since_ns = 107;
	CHECK_UINT(metrics_places_end_overdue(&places, 5, 108), 112);
	CHECK(metrics_places_end_overdue(&places, 5, 112) == UINT64_MAX);
	CHECK_INT(recv(pairs[1][1], &byte, 1, MSG_DONTWAIT), 0);
	for (unsigned i = 0; i < 4; i++)
		close(pairs[i / 2][i % 2]);
}

/* ---- over HTTP ---- */

static bool family(void *ctx, unsigned number, const struct openmetrics_page *page)
{
	(void)ctx;
	fprintf(page->out, "star_test_%u 1\n", number);
	return number < 3;
}

static bool health(void *ctx, char text[static METRICS_HEALTH_MAX])
{
	(void)ctx;
	strcpy(text, "ok");
	return true;
}

static struct metrics_server *start(const char *host)
{
	const struct metrics_server_options options = {
		.address = host, .request_ms = REQUEST_MS, .family = family, .health = health
	};
	struct star_error err = { 0 };
	struct metrics_server *server = metrics_server_start(&options, &err);

	if (!CHECK(server))
		printf("# %s\n", err.text);
	return server;
}

/* A connection from that address of 127.0.0.0/8. */
static int dial(const struct metrics_server *server, const char *from)
{
	const struct timeval wait = { .tv_sec = WAIT_S };
	struct sockaddr_storage own = address(from), to = address("127.0.0.1");
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	((struct sockaddr_in *)&to)->sin_port = htons(metrics_server_port(server));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	CHECK_INT(bind(fd, (const struct sockaddr *)&own, sizeof(struct sockaddr_in)), 0);
	CHECK_INT(connect(fd, (const struct sockaddr *)&to, sizeof(struct sockaddr_in)), 0);
	return fd;
}

/* Whether a scrape is answered; it ends its connection. */
static bool scrapes(const struct metrics_server *server, const char *from)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	const int fd = dial(server, from);
	char text[4096] = "";
	size_t bytes = 0;
	ssize_t n;

	if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0)
		bytes = sizeof(text);
	while (bytes < sizeof(text) - 1 && (n = recv(fd, text + bytes, sizeof(text) - 1 - bytes, 0)) > 0)
		bytes += (size_t)n;
	close(fd);
	return bytes < sizeof(text) && strncmp(text, "HTTP/1.1 200", 12) == 0 && strstr(text, "star_test_2 1");
}

/* A byte now and then does not count as silence. Meanwhile all others are answered, and then this address, too. */
static void an_address_holds_its_places_for_a_while(void)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nX: ";
	struct metrics_server *server = start("127.0.0.1");
	const uint64_t until_ns = clock_ns() + WAIT_S * (uint64_t)SECOND_NS;
	int peers[PLACES_OF_PEER];
	unsigned open = PLACES_OF_PEER;

	if (!server)
		return;
	for (unsigned i = 0; i < PLACES_OF_PEER; i++) {
		peers[i] = dial(server, "127.0.0.1");
		CHECK(send(peers[i], request, sizeof(request) - 1, MSG_NOSIGNAL) > 0);
	}
	CHECK(scrapes(server, "127.0.0.2"));
	while (open && CHECK(clock_ns() < until_ns)) {
		open = 0;
		for (unsigned i = 0; i < PLACES_OF_PEER; i++) {
			const bool sent = send(peers[i], "x", 1, MSG_NOSIGNAL) == 1;
			char byte;

			open += sent && recv(peers[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
		}
		usleep(20000);
	}
	while (!scrapes(server, "127.0.0.1") && CHECK(clock_ns() < until_ns))
		usleep(20000);
	for (unsigned i = 0; i < PLACES_OF_PEER; i++)
		close(peers[i]);
	metrics_server_stop(server);
}

/* A client that asks again and again over one connection is not too slow. */
static void a_connection_has_as_long_for_each_request(void)
{
	static const char request[] = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
	struct metrics_server *server = start("127.0.0.1");
	const uint64_t begun_ns = clock_ns();
	uint64_t answered_ns = begun_ns;
	bool good = true;
	int fd;

	if (!server)
		return;
	fd = dial(server, "127.0.0.1");
	while (good && clock_ns() - begun_ns < 3 * REQUEST_MS * UINT64_C(1000000)) {
		char text[1024] = "";

		good = send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) > 0 &&
		       recv(fd, text, sizeof(text) - 1, 0) > 0 && strncmp(text, "HTTP/1.1 200", 12) == 0;
		/* A machine that stands still makes anybody slow. */
		if (!good && clock_ns() - answered_ns > REQUEST_MS * UINT64_C(500000)) {
			close(fd);
			fd = dial(server, "127.0.0.1");
			good = true;
		}
		answered_ns = clock_ns();
		usleep(1000);
	}
	CHECK(good);
	close(fd);
	metrics_server_stop(server);
}

/* As many bytes as are there when this many replies have come. */
static size_t take_replies(int fd, unsigned replies, char *text, size_t room)
{
	size_t bytes = 0;
	ssize_t n = 1;

	text[0] = 0;
	while (n > 0 && bytes < room - 1) {
		const char *at = text;
		unsigned seen = 0;

		while ((at = strstr(at, "HTTP/1.1 ")) != NULL && strstr(at, "\r\n\r\n")) {
			at += 9;
			seen++;
		}
		if (seen == replies)
			break;
		n = recv(fd, text + bytes, room - 1 - bytes, 0);
		bytes += n > 0 ? (size_t)n : 0;
		text[bytes] = 0;
	}
	return bytes;
}

/* What a GET would say, and no body, nor a body's end: the next reply of the connection follows at once. */
static void a_head_has_no_body(void)
{
	static const struct {
		const char *url, *status, *type;
	} pages[] = {
		{ "/metrics", "200", "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n" },
		{ "/health", "200", "Content-Type: text/plain; charset=utf-8\r\n" },
		{ "/nothing", "404", "Content-Type: text/plain; charset=utf-8\r\n" },
	};
	struct metrics_server *server = start("127.0.0.1");

	for (unsigned i = 0; server && i < sizeof(pages) / sizeof(pages[0]); i++) {
		const int fd = dial(server, "127.0.0.1");
		char text[4096], request[256];
		const char *end;

		snprintf(request, sizeof(request),
			 "HEAD %s HTTP/1.1\r\nHost: x\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n", pages[i].url);
		CHECK(send(fd, request, strlen(request), MSG_NOSIGNAL) > 0);
		take_replies(fd, 2, text, sizeof(text));
		CHECK_HAS(text, pages[i].status);
		CHECK_HAS(text, pages[i].type);
		end = strstr(text, "\r\n\r\n");
		if (CHECK(end) && CHECK_INT(strncmp(end, "\r\n\r\nHTTP/1.1 200", 16), 0))
			CHECK_HAS(end, "Content-Length: 3\r\n");
		if (end && end - text < 4000)
			CHECK(!memmem(text, (size_t)(end - text), "Transfer-Encoding", 17));
		close(fd);
	}
	metrics_server_stop(server);
}

const char *const unit_suite = "metrics";
const struct unit_case unit_cases[] = {
	{ "peers have shares", peers_have_shares },
	{ "slow clients are disconnected", who_takes_too_long_is_ended },
	{ "an address holds its places for a while", an_address_holds_its_places_for_a_while },
	{ "a connection has as long for each request", a_connection_has_as_long_for_each_request },
	{ "a HEAD has no body", a_head_has_no_body },
#define X(name) { #name, name },
	OPENMETRICS_CASES(X)
#undef X
		{ NULL, NULL },
};
