/* SPDX-License-Identifier: BSD-3-Clause */
#include "etcd/etcd.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
	BASE64_KEY = (ETCD_KEY_MAX + 2) / 3 * 4 + 1,
	BASE64_VALUE = (ETCD_VALUE_MAX + 2) / 3 * 4 + 1,
	BODY_BYTES = 4096,
	LOOK_MS = 20 /* interval at which goes_on is called */
};

struct etcd {
	CURL *curl;
	CURLM *multi; /* has the connections */
	struct curl_slist *headers;
	char endpoints[ETCD_ENDPOINTS_MAX][ETCD_ENDPOINT_MAX];
	unsigned endpoints_count, last; /* last: the endpoint that answered last, or is tried first next time */
	bool answered, tls;
	uint32_t timeout_ms, hurry_ms; /* as in etcd_options */
	bool slow;		       /* a member was slow and has not answered */
	char key[ETCD_KEY_MAX + 1], key64[BASE64_KEY];
	bool (*goes_on)(void *ctx);
	void *ctx;
	char body[BODY_BYTES];
	char curl_error[CURL_ERROR_SIZE];
	size_t reply_bytes;
	bool too_long;
	char reply[ETCD_REPLY_MAX];
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_status;

static void init_curl(void)
{
	curl_status = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t take_reply(char *from, size_t size, size_t count, void *ctx)
{
	struct etcd *etcd = ctx;
	const size_t bytes = size * count;

	if (bytes > sizeof(etcd->reply) - etcd->reply_bytes) {
		etcd->too_long = true;
		return 0;
	}
	memcpy(etcd->reply + etcd->reply_bytes, from, bytes);
	etcd->reply_bytes += bytes;
	return bytes;
}

/* A node may restart in its process (exec), without its connections. */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* Sets the options of every request. No proxies from the environment, no redirects: only the configured endpoints are
 * used. */
static int set_up(struct etcd *etcd, const struct etcd_options *o, struct star_error *err)
{
	CURL *c = etcd->curl;
	CURLcode rc = CURLE_OK;

#define SET(option, value) (rc = rc != CURLE_OK ? rc : curl_easy_setopt(c, option, value))
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_NOPROXY, "*");
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_PROTOCOLS_STR, etcd->tls ? "https" : "http");
	SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(CURLOPT_HTTPHEADER, etcd->headers);
	SET(CURLOPT_WRITEFUNCTION, take_reply);
	SET(CURLOPT_WRITEDATA, etcd);
	SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
	SET(CURLOPT_ERRORBUFFER, etcd->curl_error);
	if (etcd->tls)
		SET(CURLOPT_CAINFO, o->ca);
	if (etcd->tls)
		SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (o->certificate && o->certificate[0])
		SET(CURLOPT_SSLCERT, o->certificate);
	if (o->private_key && o->private_key[0])
		SET(CURLOPT_SSLKEY, o->private_key);
#undef SET
	return rc == CURLE_OK ? 0 : star_error_set(err, -EINVAL, "libcurl: %s", curl_easy_strerror(rc));
}

static int bound_options(const struct etcd_options *o, struct star_error *err)
{
	if (o->endpoints_count < 1 || o->endpoints_count > ETCD_ENDPOINTS_MAX)
		return star_error_set(err, -EINVAL, "%u endpoints of etcd; allowed: 1 to %u", o->endpoints_count,
				      ETCD_ENDPOINTS_MAX);
	for (unsigned i = 0; i < o->endpoints_count; i++)
		if (!o->endpoints[i][0] || strlen(o->endpoints[i]) >= ETCD_ENDPOINT_MAX)
			return star_error_set(err, -EINVAL, "\"%.100s\" is not a valid etcd endpoint", o->endpoints[i]);
	if (!o->key[0] || strlen(o->key) > ETCD_KEY_MAX)
		return star_error_set(err, -EINVAL, "a key of etcd has 1 to %u bytes", ETCD_KEY_MAX);
	return o->timeout_ms ? 0 : star_error_set(err, -EINVAL, "the time limit for etcd must be above 0");
}

struct etcd *etcd_create(const struct etcd_options *o, struct star_error *err)
{
	struct etcd *etcd = NULL;
	int rc = bound_options(o, err);

	pthread_once(&curl_once, init_curl);
	if (rc == 0 && curl_status != CURLE_OK)
		rc = star_error_set(err, -ENOMEM, "libcurl: %s", curl_easy_strerror(curl_status));
	if (rc < 0)
		return NULL;
	etcd = calloc(1, sizeof(*etcd));
	if (etcd) {
		etcd->curl = curl_easy_init();
		etcd->multi = curl_multi_init();
		/* No "Expect: 100-continue", which costs a round trip. */
		etcd->headers = curl_slist_append(NULL, "Content-Type: application/json");
		if (etcd->headers && !curl_slist_append(etcd->headers, "Expect:"))
			rc = -ENOMEM;
	}
	if (rc < 0 || !etcd || !etcd->curl || !etcd->multi || !etcd->headers) {
		star_error_set(err, -ENOMEM, "out of memory");
		etcd_destroy(etcd);
		return NULL;
	}
	etcd->tls = o->ca && o->ca[0];
	etcd->timeout_ms = o->timeout_ms;
	etcd->hurry_ms = o->hurry_ms;
	etcd->goes_on = o->goes_on;
	etcd->ctx = o->ctx;
	etcd->endpoints_count = o->endpoints_count;
	for (unsigned i = 0; i < o->endpoints_count; i++)
		strcpy(etcd->endpoints[i], o->endpoints[i]);
	strcpy(etcd->key, o->key);
	etcd_base64_encode(o->key, strlen(o->key), etcd->key64);
	if (set_up(etcd, o, err) < 0) {
		etcd_destroy(etcd);
		return NULL;
	}
	return etcd;
}

void etcd_destroy(struct etcd *etcd)
{
	if (!etcd)
		return;
	curl_easy_cleanup(etcd->curl);
	curl_multi_cleanup(etcd->multi);
	curl_slist_free_all(etcd->headers);
	free(etcd);
}

const char *etcd_endpoint(const struct etcd *etcd)
{
	return etcd->answered ? etcd->endpoints[etcd->last] : "";
}

/* Copies etcd's own error message, as far as it is printable. */
static void why_refused(const struct etcd *etcd, char *text, size_t room)
{
	size_t i;

	for (i = 0; i < etcd->reply_bytes && i + 1 < room; i++)
		text[i] = etcd->reply[i] >= ' ' && etcd->reply[i] <= '~' ? etcd->reply[i] : '?';
	text[i] = 0;
}

static bool goes_on(const struct etcd *etcd)
{
	return !etcd->goes_on || etcd->goes_on(etcd->ctx);
}

/* Not curl_easy_perform, which checks only once per second whether to continue: a node that has to know at once which
 * node serves cannot wait that long. The connection of an unanswered request is closed. */
static CURLcode perform(struct etcd *etcd)
{
	CURLMcode mc = curl_multi_add_handle(etcd->multi, etcd->curl);
	CURLcode rc = CURLE_ABORTED_BY_CALLBACK;
	int runs = 1, left;

	while (mc == CURLM_OK && goes_on(etcd)) {
		const CURLMsg *message;

		mc = curl_multi_perform(etcd->multi, &runs);
		if (mc == CURLM_OK && runs) {
			mc = curl_multi_poll(etcd->multi, NULL, 0, LOOK_MS, NULL);
			continue;
		}
		message = curl_multi_info_read(etcd->multi, &left);
		rc = message && message->msg == CURLMSG_DONE ? message->data.result : CURLE_FAILED_INIT;
		break;
	}
	if (mc != CURLM_OK)
		rc = CURLE_FAILED_INIT;
	curl_multi_remove_handle(etcd->multi, etcd->curl);
	return rc;
}

/* Sends one request to one endpoint. 0: etcd->reply has the answer. */
static int post(struct etcd *etcd, const char *endpoint, const char *path, uint32_t ms, struct star_error *err)
{
	char url[ETCD_ENDPOINT_MAX + 64], said[160];
	CURLcode rc;
	long code = 0;

	snprintf(url, sizeof(url), "%s://%s%s", etcd->tls ? "https" : "http", endpoint, path);
	etcd->reply_bytes = 0;
	etcd->too_long = false;
	etcd->curl_error[0] = 0;
	rc = curl_easy_setopt(etcd->curl, CURLOPT_URL, url);
	if (rc == CURLE_OK)
		rc = curl_easy_setopt(etcd->curl, CURLOPT_POSTFIELDS, etcd->body);
	if (rc == CURLE_OK)
		rc = curl_easy_setopt(etcd->curl, CURLOPT_TIMEOUT_MS, (long)ms);
	if (rc == CURLE_OK)
		rc = perform(etcd);
	etcd->slow |= rc == CURLE_OPERATION_TIMEDOUT;
	if (etcd->too_long)
		return star_error_set(err, -EBADMSG, "etcd at %s: its answer has more than %u bytes", endpoint,
				      ETCD_REPLY_MAX);
	if (rc != CURLE_OK)
		return star_error_set(err, -EHOSTUNREACH, "etcd at %s: %.200s", endpoint,
				      etcd->curl_error[0] ? etcd->curl_error : curl_easy_strerror(rc));
	curl_easy_getinfo(etcd->curl, CURLINFO_RESPONSE_CODE, &code);
	if (code == 200)
		return 0;
	why_refused(etcd, said, sizeof(said));
	return star_error_set(err, -EHOSTUNREACH, "etcd at %s: HTTP status %ld: %s", endpoint, code, said);
}

struct question {
	const char *path;
	bool swap;
	bool swapped;
	struct etcd_value *value;
};

static int ask_endpoint(struct etcd *etcd, const char *endpoint, struct question *q, uint32_t ms,
			struct star_error *err)
{
	struct star_error why = { 0 };
	int rc = post(etcd, endpoint, q->path, ms, err);

	if (rc < 0)
		return rc;
	rc = q->swap ? etcd_reply_txn(etcd->reply, etcd->reply_bytes, etcd->key, &q->swapped, q->value, &why)
		     : etcd_reply_range(etcd->reply, etcd->reply_bytes, etcd->key, q->value, &why);
	return rc < 0 ? star_error_set(err, rc, "the server at %s is not etcd: %.200s", endpoint, why.text) : 0;
}

/* Sends etcd->body to one endpoint after the other, until one answers. */
static int ask_in_turn(struct etcd *etcd, struct question *q, uint32_t ms, struct star_error *err)
{
	const unsigned first = etcd->last;

	star_error_set(err, -EHOSTUNREACH, "the request to etcd was cancelled");
	for (unsigned i = 0; i < etcd->endpoints_count && goes_on(etcd); i++) {
		const unsigned at = (first + i) % etcd->endpoints_count;

		/* Also if this one is no longer waited for: the next call begins with the next endpoint. */
		etcd->last = (at + 1) % etcd->endpoints_count;
		if (ask_endpoint(etcd, etcd->endpoints[at], q, ms, err) < 0)
			continue;
		etcd->last = at;
		etcd->answered = true;
		return 0;
	}
	etcd->answered = false;
	err->code = -EHOSTUNREACH;
	return -EHOSTUNREACH;
}

/* An endpoint that does not answer soon may be gone with its machine: the others are tried before it is waited for. */
static int ask_all(struct etcd *etcd, struct question *q, struct star_error *err)
{
	const bool hurries = etcd->endpoints_count > 1 && etcd->hurry_ms && etcd->hurry_ms < etcd->timeout_ms;
	int rc = -EHOSTUNREACH;

	etcd->slow = !hurries;
	if (hurries)
		rc = ask_in_turn(etcd, q, etcd->hurry_ms, err);
	if (rc < 0 && etcd->slow)
		rc = ask_in_turn(etcd, q, etcd->timeout_ms, err);
	return rc;
}

int etcd_read(struct etcd *etcd, struct etcd_value *value, struct star_error *err)
{
	struct question q = { .path = "/v3/kv/range", .value = value };
	struct star_error why = { 0 };

	snprintf(etcd->body, sizeof(etcd->body), "{\"key\":\"%s\"}", etcd->key64);
	return ask_all(etcd, &q, err ? err : &why);
}

int etcd_swap(struct etcd *etcd, uint64_t revision, const char *text, struct etcd_value *now, struct star_error *err)
{
	struct question q = { .path = "/v3/kv/txn", .swap = true, .value = now };
	const size_t bytes = strlen(text);
	struct star_error why = { 0 };
	char text64[BASE64_VALUE];
	int rc;

	if (bytes > ETCD_VALUE_MAX)
		return star_error_set(err, -EINVAL, "a value of etcd has at most %u bytes here", ETCD_VALUE_MAX);
	etcd_base64_encode(text, bytes, text64);
	snprintf(etcd->body, sizeof(etcd->body),
		 "{\"compare\":[{\"key\":\"%s\",\"result\":\"EQUAL\",\"target\":\"%s\",\"%s\":\"%llu\"}],"
		 "\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\"}}],"
		 "\"failure\":[{\"request_range\":{\"key\":\"%s\"}}]}",
		 etcd->key64, revision ? "MOD" : "VERSION", revision ? "mod_revision" : "version",
		 (unsigned long long)revision, etcd->key64, text64, etcd->key64);
	rc = ask_all(etcd, &q, err ? err : &why);
	if (rc < 0)
		return rc;
	if (q.swapped) {
		now->there = true;
		now->bytes = bytes;
		memcpy(now->text, text, bytes + 1);
		return 0;
	}
	if (now->there && now->bytes == bytes && memcmp(now->text, text, bytes) == 0)
		return 0; /* an endpoint had executed the write, and its answer was lost */
	return star_error_set(err, -ESTALE, "the key has changed meanwhile");
}
