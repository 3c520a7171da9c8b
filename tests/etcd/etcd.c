/* SPDX-License-Identifier: BSD-3-Clause */
/* The register: against a real etcd where there is one (etcd-server), and against servers that lie, cut off, or say
 * nothing. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "etcd/etcd.h"
#include "tests/unit.h"

enum { TIMEOUT_MS = 500, LONG_MS = 60000, START_MS = 20000, LIE_BYTES = 128 << 10 };

static const char key[] = "/starserver/ps/0";

/* A port that nobody has: held until it is given away. */
static int free_port(uint16_t *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(address);
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (struct sockaddr *)&address, bytes) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &bytes) < 0)
		unit_fail(__FILE__, __LINE__, "no port: %s", strerror(errno));
	*port = ntohs(address.sin_port);
	return fd;
}

static struct etcd *make_client(const char *const *endpoints, unsigned count, uint32_t timeout_ms)
{
	const struct etcd_options options = {
		.endpoints = endpoints, .endpoints_count = count, .key = key, .timeout_ms = timeout_ms
	};
	struct star_error err = { 0 };
	struct etcd *etcd = etcd_create(&options, &err);

	if (!etcd)
		unit_fail(__FILE__, __LINE__, "no client: %s", err.text);
	return etcd;
}

/* ---- a real one ---- */

struct real {
	pid_t pid;
	bool tls; /* with the certificates in its folder `keys` */
	char keys[UNIT_FOLDER];
	char folder[UNIT_FOLDER], endpoint[32];
};

static void run_real(const struct real *r, uint16_t port, uint16_t peer)
{
	char client_url[64], peer_url[64], cluster[80], ca[2 * UNIT_FOLDER], certificate[2 * UNIT_FOLDER];
	char private_key[2 * UNIT_FOLDER];
	const int null = open("/dev/null", O_RDWR);

	snprintf(ca, sizeof(ca), "--trusted-ca-file=%s/ca.pem", r->keys);
	snprintf(certificate, sizeof(certificate), "--cert-file=%s/node.pem", r->keys);
	snprintf(private_key, sizeof(private_key), "--key-file=%s/node.key", r->keys);
	snprintf(client_url, sizeof(client_url), "%s://127.0.0.1:%u", r->tls ? "https" : "http", port);
	snprintf(peer_url, sizeof(peer_url), "http://127.0.0.1:%u", peer);
	snprintf(cluster, sizeof(cluster), "default=%s", peer_url);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	execlp("etcd", "etcd", "--data-dir", r->folder, "--listen-client-urls", client_url, "--advertise-client-urls",
	       client_url, "--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url,
	       "--initial-cluster", cluster, r->tls ? "--client-cert-auth" : (char *)NULL, ca, certificate, private_key,
	       (char *)NULL);
	_exit(127);
}

static bool there_is_etcd(void)
{
	if (access("/usr/bin/etcd", X_OK) == 0)
		return true;
	printf("skip a real etcd: /usr/bin/etcd is missing (scripts/install-packages test)\n");
	return false;
}

/* Keys and certificates of one authority, for etcd and its client. */
static bool make_keys(struct real *r)
{
	char line[1400];

	if (!unit_folder(r->keys, "etcd-keys"))
		return false;
	snprintf(
		line, sizeof(line),
		"cd %s && exec >log 2>&1 && "
		"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=ca -keyout ca.key "
		"-out ca.pem -days 2 && "
		"openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=node -keyout node.key "
		"-out node.csr && echo subjectAltName=IP:127.0.0.1 >ext && "
		"openssl x509 -req -in node.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext "
		"-out node.pem && "
		"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=other -keyout "
		"other.key -out other.pem -days 2",
		r->keys);
	return system(line) == 0 ? true : unit_fail(__FILE__, __LINE__, "openssl: see %s/log", r->keys);
}

static struct etcd *make_tls_client(const struct real *r, const char *ca, const char *own)
{
	char files[3][2 * UNIT_FOLDER];
	const char *endpoints[] = { r->endpoint };
	const struct etcd_options options = { .endpoints = endpoints,
					      .endpoints_count = 1,
					      .key = key,
					      .ca = files[0],
					      .certificate = own ? files[1] : NULL,
					      .private_key = own ? files[2] : NULL,
					      .timeout_ms = 5000 };
	struct star_error err = { 0 };
	struct etcd *etcd;

	snprintf(files[0], sizeof(files[0]), "%s/%s.pem", r->keys, ca);
	snprintf(files[1], sizeof(files[1]), "%s/%s.pem", r->keys, own ? own : "");
	snprintf(files[2], sizeof(files[2]), "%s/%s.key", r->keys, own ? own : "");
	etcd = etcd_create(&options, &err);
	if (!etcd)
		unit_fail(__FILE__, __LINE__, "no client: %s", err.text);
	return etcd;
}

static bool start_real(struct real *r)
{
	const uint64_t until_us = clock_us() + START_MS * UINT64_C(1000);
	const char *endpoints[] = { r->endpoint };
	struct etcd_value value;
	uint16_t port, peer;
	const int held = free_port(&port), other = free_port(&peer);
	struct star_error err = { 0 };
	struct etcd *etcd;
	int rc = -1;

	if (!unit_folder(r->folder, "etcd"))
		return false;
	chmod(r->folder, 0700);
	snprintf(r->endpoint, sizeof(r->endpoint), "127.0.0.1:%u", port);
	close(held);
	close(other);
	r->pid = fork();
	if (r->pid == 0)
		run_real(r, port, peer);
	etcd = r->tls ? make_tls_client(r, "ca", "node") : make_client(endpoints, 1, 2000);
	while (rc < 0 && clock_us() < until_us) {
		rc = etcd_read(etcd, &value, &err);
		if (rc < 0)
			usleep(50000);
	}
	etcd_destroy(etcd);
	return rc == 0 ? true : unit_fail(__FILE__, __LINE__, "etcd does not answer: %s", err.text);
}

static void end_real(struct real *r)
{
	kill(r->pid, SIGKILL);
	waitpid(r->pid, NULL, 0);
	unit_remove(r->folder);
}

static void a_real_one_swaps(void)
{
	struct etcd_value value, now;
	struct star_error err = { 0 };
	struct real real = { 0 };
	char longest[ETCD_VALUE_MAX + 1], shown[256] = "";
	const char *endpoints[] = { "127.0.0.1:1", real.endpoint };
	struct etcd *etcd, *other;

	if (!there_is_etcd() || !start_real(&real))
		return;
	etcd = make_client(endpoints, 2, 5000); /* the first of which nobody has */
	other = make_client(endpoints + 1, 1, 5000);
	CHECK_STR(etcd_endpoint(etcd), "");
	CHECK_INT(etcd_read(etcd, &value, &err), 0);
	CHECK(!value.there);
	CHECK_STR(etcd_endpoint(etcd), real.endpoint);
	/* Only one creates it. */
	CHECK_INT(etcd_swap(etcd, 0, "{\"one\": 1}", &value, &err), 0);
	CHECK(value.revision > 0);
	CHECK_INT(etcd_swap(other, 0, "{\"other\": 1}", &now, &err), -ESTALE);
	CHECK_STR(now.text, "{\"one\": 1}");
	CHECK_UINT(now.revision, value.revision);
	/* Only one change succeeds after both have read the same value; asking again tells which. */
	CHECK_INT(etcd_swap(other, value.revision, "two", &now, &err), 0);
	CHECK(now.revision > value.revision);
	CHECK_INT(etcd_swap(etcd, value.revision, "three", &now, &err), -ESTALE);
	CHECK_STR(now.text, "two");
	CHECK_INT(etcd_swap(other, value.revision, "two", &now, &err), 0);
	CHECK_INT(etcd_read(etcd, &value, &err), 0);
	CHECK_STR(value.text, "two");
	CHECK_UINT(value.revision, now.revision);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	CHECK_INT(etcd_swap(etcd, value.revision, longest, &now, &err), 0);
	CHECK_INT(etcd_read(other, &value, &err), 0);
	CHECK_STR(value.text, longest);
	/* As etcd's own client sees it. */
	if (access("/usr/bin/etcdctl", X_OK) == 0) {
		char line[200];
		FILE *file;

		snprintf(line, sizeof(line),
			 "ETCDCTL_API=3 etcdctl --endpoints=%s get --print-value-only %s | cut -c1-8", real.endpoint,
			 key);
		file = popen(line, "r");
		CHECK(file && fgets(shown, sizeof(shown), file));
		pclose(file);
		CHECK_STR(shown, "xxxxxxxx\n");
	}
	kill(real.pid, SIGSTOP); /* it is there, and says nothing, from when all of its threads have stopped */
	waitpid(real.pid, NULL, WUNTRACED);
	etcd_destroy(other);
	other = make_client(endpoints + 1, 1, TIMEOUT_MS);
	CHECK_INT(etcd_read(other, &value, &err), -EHOSTUNREACH);
	kill(real.pid, SIGCONT);
	CHECK_INT(etcd_read(etcd, &value, &err), 0);
	CHECK_STR(value.text, longest);
	etcd_destroy(etcd);
	etcd_destroy(other);
	end_real(&real);
}

/* By HTTPS, with certificates that both check; nobody else is believed, or answered. */
static void a_real_one_has_certificates(void)
{
	struct real real = { .tls = true };
	struct etcd_value value;
	struct star_error err = { 0 };
	const char *endpoints[] = { real.endpoint };
	struct etcd *etcd;

	if (!there_is_etcd() || !make_keys(&real))
		return;
	if (start_real(&real)) {
		etcd = make_tls_client(&real, "ca", "node");
		CHECK_INT(etcd_swap(etcd, 0, "sealed", &value, &err), 0);
		CHECK_INT(etcd_read(etcd, &value, &err), 0);
		CHECK_STR(value.text, "sealed");
		etcd_destroy(etcd);
		etcd = make_tls_client(&real, "other", "node"); /* etcd's is of no authority that it knows */
		CHECK_INT(etcd_read(etcd, &value, &err), -EHOSTUNREACH);
		CHECK_HAS(err.text, "certificate");
		etcd_destroy(etcd);
		etcd = make_tls_client(&real, "ca", NULL); /* it shows none */
		CHECK_INT(etcd_read(etcd, &value, &err), -EHOSTUNREACH);
		etcd_destroy(etcd);
		etcd = make_client(endpoints, 1, 5000); /* in clear */
		CHECK_INT(etcd_read(etcd, &value, &err), -EHOSTUNREACH);
		etcd_destroy(etcd);
	}
	end_real(&real);
	unit_remove(real.keys);
}

/* ---- one that lies ---- */

struct liar {
	int fd;
	char endpoint[32];
	const char *status, *body;
	size_t body_bytes, sends, promises; /* of the body: what it sends, and what Content-Length says */
	bool silent;
	unsigned ignores; /* so many connections, before it answers */
	pthread_t thread;
};

static void ignore(int fd)
{
	char request[512];

	while (recv(fd, request, sizeof(request), 0) > 0) /* until the client gives up */
		;
}

/* The first connection that it does not ignore. */
static int take_connection(const struct liar *l)
{
	for (unsigned i = 0; i < l->ignores; i++) {
		const int fd = accept(l->fd, NULL, NULL);

		ignore(fd);
		close(fd);
	}
	return accept(l->fd, NULL, NULL);
}

static void *lie(void *arg)
{
	struct liar *l = arg;
	const int fd = take_connection(l);
	char request[8192], head[200];
	ssize_t n = fd < 0 ? 0 : recv(fd, request, sizeof(request), 0);
	int bytes;

	if (n > 0 && !l->silent) {
		bytes = snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n", l->status,
				 l->promises, l->status[0] == '3' ? "Location: http://127.0.0.1:1/\r\n" : "");
		n = send(fd, head, (size_t)bytes, MSG_NOSIGNAL);
		for (size_t at = 0; at < l->sends && n > 0; at += (size_t)n)
			n = send(fd, l->body + at, l->sends - at, MSG_NOSIGNAL);
	} else if (n > 0) {
		ignore(fd);
	}
	close(fd);
	return NULL;
}

static void start_liar(struct liar *l)
{
	uint16_t port;

	l->fd = free_port(&port);
	listen(l->fd, 4);
	snprintf(l->endpoint, sizeof(l->endpoint), "127.0.0.1:%u", port);
	pthread_create(&l->thread, NULL, lie, l);
}

static int ask_liar(struct liar *l, struct etcd_value *value, struct star_error *err, bool swap)
{
	const char *endpoints[] = { l->endpoint };
	struct etcd *etcd;
	int rc;

	start_liar(l);
	etcd = make_client(endpoints, 1, TIMEOUT_MS);
	rc = swap ? etcd_swap(etcd, 7, "mine", value, err) : etcd_read(etcd, value, err);
	etcd_destroy(etcd);
	pthread_join(l->thread, NULL);
	close(l->fd);
	return rc;
}

#define KEY64 "L3N0YXJzZXJ2ZXIvcHMvMA=="
#define HEAD "{\"header\":{\"revision\":\"9\"}"

static const struct lie_case {
	const char *name, *status, *body;
	bool swap;
	const char *why;
} lies[] = {
	{ "an error", "503 Unavailable", "{\"error\":\"etcdserver: no leader\"}", false, "no leader" },
	{ "a redirect", "302 Found", "{}", false, "HTTP status 302" },
	{ "no JSON", "200 OK", "<html>", false, "not a JSON object" },
	{ "nothing", "200 OK", "", false, "not a JSON object" },
	{ "a list", "200 OK", "[]", false, "not a JSON object" },
	{ "no header", "200 OK", "{}", false, "revision" },
	{ "a header of another kind", "200 OK", "{\"header\":7}", false, "revision" },
	{ "a negative revision", "200 OK", "{\"header\":{\"revision\":\"-1\"}}", false, "not a number" },
	{ "a revision of 20 digits", "200 OK", "{\"header\":{\"revision\":\"99999999999999999999\"}}", false,
	  "not a valid etcd revision" },
	{ "a revision that is a number", "200 OK", "{\"header\":{\"revision\":9}}", false,
	  "not a valid etcd revision" },
	{ "another key", "200 OK", HEAD ",\"kvs\":[{\"key\":\"YQ==\",\"mod_revision\":\"3\"}]}", false, "another key" },
	{ "two values", "200 OK", HEAD ",\"kvs\":[{},{}]}", false, "several" },
	{ "values that are none", "200 OK", HEAD ",\"kvs\":{}}", false, "not requested" },
	{ "no revision", "200 OK", HEAD ",\"kvs\":[{\"key\":\"" KEY64 "\"}]}", false, "mod_revision" },
	{ "a revision of the future", "200 OK", HEAD ",\"kvs\":[{\"key\":\"" KEY64 "\",\"mod_revision\":\"10\"}]}",
	  false, "above that of its header" },
	{ "no base64", "200 OK", HEAD ",\"kvs\":[{\"key\":\"" KEY64 "\",\"mod_revision\":\"3\",\"value\":\"?===\"}]}",
	  false, "base64" },
	{ "no header of a swap", "200 OK", "{\"succeeded\":true,\"responses\":[{\"response_put\":{}}]}", true,
	  "revision" },
	{ "a success without a put", "200 OK", HEAD ",\"succeeded\":true,\"responses\":[{\"response_range\":{}}]}",
	  true, "something else" },
	{ "a success of two", "200 OK", HEAD ",\"succeeded\":true,\"responses\":[{\"response_put\":{}},{}]}", true,
	  "what the transaction did" },
	{ "neither", "200 OK", HEAD ",\"succeeded\":\"yes\",\"responses\":[{}]}", true, "whether" },
	{ "nothing done", "200 OK", HEAD "}", true, "what the transaction did" },
};

static void lies_are_no_answers(void)
{
	for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct liar l = { .status = lies[i].status, .body = lies[i].body };
		struct star_error err = { 0 };
		struct etcd_value value;

		l.promises = l.sends = strlen(l.body);
		if (!CHECK_INT(ask_liar(&l, &value, &err, lies[i].swap), -EHOSTUNREACH) ||
		    !CHECK_HAS(err.text, lies[i].why))
			printf("# %s: %s\n", lies[i].name, err.text);
	}
}

static void answers_are_bounded(void)
{
	char *body = malloc(LIE_BYTES);
	struct liar large = { .status = "200 OK", .body = body, .sends = LIE_BYTES, .promises = LIE_BYTES };
	struct liar torn = { .status = "200 OK", .body = "{}", .sends = 1, .promises = 2 };
	struct liar silent = { .silent = true };
	const uint64_t begun_us = clock_us();
	struct star_error err = { 0 };
	struct etcd_value value;

	memset(body, ' ', LIE_BYTES);
	CHECK_INT(ask_liar(&large, &value, &err, false), -EHOSTUNREACH);
	CHECK_HAS(err.text, "more than");
	CHECK_INT(ask_liar(&torn, &value, &err, false), -EHOSTUNREACH);
	CHECK_INT(ask_liar(&silent, &value, &err, true), -EHOSTUNREACH);
	CHECK(clock_us() - begun_us >= TIMEOUT_MS * UINT64_C(900)); /* curl's clock is its own, in milliseconds */
	free(body);
}

static unsigned patience;

static bool goes_on_a_while(void *ctx)
{
	const bool on = patience > 0;

	patience -= on;
	return on;
}

/* After a call was given up, the next one is answered at once: it begins with another member. */
static void who_is_not_waited_for_is_not_asked_next(void)
{
	static const char nothing[] = HEAD "}";
	struct liar silent = { .silent = true };
	struct liar other = { .status = "200 OK", .body = nothing };
	const uint64_t begun_us = clock_us();
	struct star_error err = { 0 };
	struct etcd_value value;
	struct etcd *etcd;

	other.promises = other.sends = strlen(nothing);
	start_liar(&silent);
	start_liar(&other);
	etcd = etcd_create(&(struct etcd_options){ .endpoints = (const char *[]){ silent.endpoint, other.endpoint },
						   .endpoints_count = 2,
						   .key = key,
						   .timeout_ms = LONG_MS,
						   .goes_on = goes_on_a_while },
			   &err);
	if (!CHECK(etcd != NULL))
		return;
	patience = 10;
	CHECK_INT(etcd_read(etcd, &value, &err), -EHOSTUNREACH);
	CHECK_UINT(patience, 0);
	CHECK_STR(etcd_endpoint(etcd), "");
	patience = UINT_MAX;
	CHECK_INT(etcd_read(etcd, &value, &err), 0);
	CHECK_STR(etcd_endpoint(etcd), other.endpoint);
	CHECK(clock_us() - begun_us < LONG_MS * UINT64_C(1000) / 2);
	etcd_destroy(etcd);
	pthread_join(silent.thread, NULL);
	pthread_join(other.thread, NULL);
	close(silent.fd);
	close(other.fd);
}

/* A member whose machine is gone delays nobody for long while there is another one; and a slow member has its time when
 * no other one answers. */
static void who_is_silent_has_little_time_at_first(void)
{
	static const char nothing[] = HEAD "}";
	struct liar kinds[][2] = {
		{ { .silent = true }, { .status = "200 OK", .body = nothing } },
		{ { .silent = true, .ignores = 1 }, { .status = "200 OK", .body = nothing, .ignores = 1 } },
	};

	for (unsigned i = 0; i < 2; i++) {
		struct liar *silent = &kinds[i][0], *other = &kinds[i][1];
		const uint64_t begun_us = clock_us();
		struct star_error err = { 0 };
		struct etcd_value value;
		struct etcd *etcd;

		other->promises = other->sends = strlen(nothing);
		start_liar(silent);
		start_liar(other);
		etcd = etcd_create(&(struct etcd_options){ .endpoints = (const char *[]){ silent->endpoint,
											  other->endpoint },
							   .endpoints_count = 2,
							   .key = key,
							   .timeout_ms = i == 0 ? LONG_MS : 4 * TIMEOUT_MS,
							   .hurry_ms = TIMEOUT_MS },
				   &err);
		if (!CHECK(etcd != NULL))
			return;
		CHECK_INT(etcd_read(etcd, &value, &err), 0);
		CHECK_STR(etcd_endpoint(etcd), other->endpoint);
		CHECK(clock_us() - begun_us < LONG_MS * UINT64_C(1000) / 2);
		etcd_destroy(etcd);
		pthread_join(silent->thread, NULL);
		pthread_join(other->thread, NULL);
		close(silent->fd);
		close(other->fd);
	}
}

static void swaps_are_told_from_answers(void)
{
	static const char won[] = HEAD ",\"succeeded\":true,\"responses\":[{\"response_put\":{\"header\":{}}}]}";
	static const char lost[] = HEAD ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"" KEY64
					"\",\"mod_revision\":\"8\",\"value\":\"dGhlaXJz\"}],\"count\":\"1\"}}]}";
	static const char mine[] = HEAD ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"" KEY64
					"\",\"mod_revision\":\"8\",\"value\":\"bWluZQ==\"}],\"count\":\"1\"}}]}";
	static const char gone[] = HEAD ",\"responses\":[{\"response_range\":{}}]}";
	static const struct {
		const char *body;
		int rc;
		uint64_t revision;
	} answers[] = { { won, 0, 9 }, { lost, -ESTALE, 8 }, { mine, 0, 8 }, { gone, -ESTALE, 0 } };

	for (unsigned i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		struct liar l = { .status = "200 OK", .body = answers[i].body };
		struct star_error err = { 0 };
		struct etcd_value value;

		l.promises = l.sends = strlen(l.body);
		CHECK_INT(ask_liar(&l, &value, &err, true), answers[i].rc);
		CHECK_UINT(value.revision, answers[i].revision);
	}
}

static void base64_is_read_as_it_is_written(void)
{
	static const char *const bad[] = { "A",	   "AB=",   "AB==A",   "A===", "====",
					   "AB=C", "A\nBC", "AB\x80=", "AR==", "AAB=" };
	uint8_t bytes[64] = { 0 }, back[64];
	char text[100];

	for (size_t count = 0; count < sizeof(bytes); count++) {
		size_t room = count;

		for (size_t i = 0; i < count; i++)
			bytes[i] = (uint8_t)(i * 37 + count * 11);
		etcd_base64_encode(bytes, count, text);
		CHECK_INT(etcd_base64_decode(text, strlen(text), back, &room), 0);
		CHECK_UINT(room, count);
		CHECK_MEM(back, bytes, count);
		room = count ? count - 1 : 0;
		CHECK_INT(etcd_base64_decode(text, strlen(text), back, &room), count ? -EBADMSG : 0);
	}
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		size_t room = sizeof(back);

		if (!CHECK_INT(etcd_base64_decode(bad[i], strlen(bad[i]), back, &room), -EBADMSG))
			printf("# %s\n", bad[i]);
	}
}

static void options_have_bounds(void)
{
	const char *none[] = { "" }, *one[] = { "127.0.0.1:2379" };
	struct star_error err = { 0 };
	char longest[ETCD_KEY_MAX + 2];
	const struct etcd_options bad[] = {
		{ .endpoints = one, .endpoints_count = 0, .key = key, .timeout_ms = 1 },
		{ .endpoints = one, .endpoints_count = ETCD_ENDPOINTS_MAX + 1, .key = key, .timeout_ms = 1 },
		{ .endpoints = none, .endpoints_count = 1, .key = key, .timeout_ms = 1 },
		{ .endpoints = one, .endpoints_count = 1, .key = "", .timeout_ms = 1 },
		{ .endpoints = one, .endpoints_count = 1, .key = longest, .timeout_ms = 1 },
		{ .endpoints = one, .endpoints_count = 1, .key = key },
	};

	memset(longest, 'k', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!etcd_create(&bad[i], &err) && err.code == -EINVAL);
}

const char *const unit_suite = "etcd";
const struct unit_case unit_cases[] = {
	{ "base64 is read as it is written", base64_is_read_as_it_is_written },
	{ "options have bounds", options_have_bounds },
	{ "false answers are refused", lies_are_no_answers },
	{ "answers are bounded", answers_are_bounded },
	{ "who is not waited for is not asked next", who_is_not_waited_for_is_not_asked_next },
	{ "who is silent has little time at first", who_is_silent_has_little_time_at_first },
	{ "swaps are told from answers", swaps_are_told_from_answers },
	{ "a real one swaps", a_real_one_swaps },
	{ "a real one has certificates", a_real_one_has_certificates },
	{ NULL, NULL },
};
