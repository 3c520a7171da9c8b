/* SPDX-License-Identifier: BSD-3-Clause */
#include "secure/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "secure/memory.h"

enum { IDENTITY_MAX = SECURE_NAME_MAX + 1 + SECURE_ID_BYTES };

struct secure_context {
	SSL_CTX *ssl;
	BIO_METHOD *socket;
	struct secure_ring *ring;
};

struct secure_link {
	SSL *ssl;
	int fd;
	int error; /* of the socket, if it had one */
	bool client, ended;
	uint64_t received;
	struct secure_ring *ring;
	struct secure_key peer;
	char identity[IDENTITY_MAX + 1]; /* the client's */
	uint8_t *secret;		 /* the client's until the handshake is done: memory of secure_alloc */
};

/* The kernel's socket without SIGPIPE, which a library must not raise in another program. */
static int socket_write(BIO *bio, const char *bytes, int count)
{
	struct secure_link *link = BIO_get_data(bio);
	const ssize_t n = send(link->fd, bytes, (size_t)count, MSG_NOSIGNAL | MSG_DONTWAIT);

	BIO_clear_retry_flags(bio);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(bio);
	else if (n < 0)
		link->error = errno;
	return (int)n;
}

static int socket_read(BIO *bio, char *bytes, int room)
{
	struct secure_link *link = BIO_get_data(bio);
	const ssize_t n = recv(link->fd, bytes, (size_t)room, MSG_DONTWAIT);

	BIO_clear_retry_flags(bio);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(bio);
	else if (n < 0)
		link->error = errno;
	else if (n == 0)
		link->ended = true;
	if (n > 0)
		link->received += (uint64_t)n;
	return (int)n;
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
	const struct secure_link *link = BIO_get_data(bio);

	return command == BIO_CTRL_FLUSH || (command == BIO_CTRL_EOF && link->ended);
}

static int socket_create(BIO *bio)
{
	BIO_set_init(bio, 1);
	return 1;
}

/* A session that represents a secret. NULL: out of memory. */
static SSL_SESSION *session_of(SSL *ssl, const uint8_t *secret)
{
	static const unsigned char suite[] = { 0x13, 0x01 }; /* TLS_AES_128_GCM_SHA256 */
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, suite);
	SSL_SESSION *session = SSL_SESSION_new();

	if (session && cipher && SSL_SESSION_set1_master_key(session, secret, SECURE_SECRET_BYTES) &&
	    SSL_SESSION_set_cipher(session, cipher) && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

/* Splits the "PRINCIPAL/ID" that an unauthenticated peer sent. */
static bool take_identity(const unsigned char *identity, size_t bytes, struct secure_key *key)
{
	const unsigned char *slash = memchr(identity, '/', bytes);
	const size_t name = slash ? (size_t)(slash - identity) : 0;

	if (!slash || name == 0 || name > SECURE_NAME_MAX || bytes - name - 1 != SECURE_ID_BYTES ||
	    memchr(identity, 0, bytes))
		return false;
	memcpy(key->principal, identity, name);
	key->principal[name] = 0;
	memcpy(key->id, slash + 1, SECURE_ID_BYTES);
	key->id[SECURE_ID_BYTES] = 0;
	return secure_name_is_good(key->principal) && strspn(key->id, "0123456789abcdef") == SECURE_ID_BYTES;
}

/* A client that is not in the ring gets a random secret, so that what follows does not reveal which principals
 * exist. */
static int find_session(SSL *ssl, const unsigned char *identity, size_t bytes, SSL_SESSION **session)
{
	struct secure_link *link = SSL_get_app_data(ssl);
	struct secure_key key = { .principal = "" };

	*session = NULL;
	if (!take_identity(identity, bytes, &link->peer))
		memset(&link->peer, 0, sizeof(link->peer));
	link->peer.role = SECURE_ROLES;
	if (secure_ring_find(link->ring, link->peer.principal, link->peer.id, &key))
		link->peer.role = key.role;
	else if (getrandom(key.secret, sizeof(key.secret), 0) != (ssize_t)sizeof(key.secret))
		return 0;
	*session = session_of(ssl, key.secret);
	explicit_bzero(&key, sizeof(key));
	return *session != NULL;
}

static int use_session(SSL *ssl, const EVP_MD *md, const unsigned char **identity, size_t *bytes, SSL_SESSION **session)
{
	struct secure_link *link = SSL_get_app_data(ssl);

	*session = session_of(ssl, link->secret);
	*identity = (const unsigned char *)link->identity;
	*bytes = strlen(link->identity);
	return *session != NULL;
}

static bool set_up(struct secure_context *context)
{
	SSL_CTX *ssl = context->ssl;

	if (!SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) ||
	    !SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) ||
	    !SSL_CTX_set_ciphersuites(ssl, "TLS_AES_128_GCM_SHA256") || !SSL_CTX_set1_groups_list(ssl, "X25519:P-256"))
		return false;
	SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_max_early_data(ssl, 0);
	if (context->ring) {
		SSL_CTX_set_num_tickets(ssl, 0);
		SSL_CTX_set_psk_find_session_callback(ssl, find_session);
	} else {
		/* A server that presents a certificate instead is not trusted. */
		SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, NULL);
		SSL_CTX_set_psk_use_session_callback(ssl, use_session);
	}
	context->socket = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE");
	return context->socket && BIO_meth_set_write(context->socket, socket_write) &&
	       BIO_meth_set_read(context->socket, socket_read) && BIO_meth_set_ctrl(context->socket, socket_control) &&
	       BIO_meth_set_create(context->socket, socket_create);
}

struct secure_context *secure_context_create(struct secure_ring *ring, struct star_error *err)
{
	struct secure_context *context = calloc(1, sizeof(*context));

	/* OpenSSL's exit handler would run while other threads still use it; the other defaults are kept. */
	if (context && OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL)) {
		context->ring = ring;
		context->ssl = SSL_CTX_new(ring ? TLS_server_method() : TLS_client_method());
		if (context->ssl && set_up(context))
			return context;
	}
	star_error_set(err, -ENOMEM,
		       "cannot set up TLS 1.3 by OpenSSL: out of memory, or its configuration forbids it");
	ERR_clear_error();
	secure_context_destroy(context);
	return NULL;
}

void secure_context_destroy(struct secure_context *context)
{
	if (!context)
		return;
	SSL_CTX_free(context->ssl);
	BIO_meth_free(context->socket);
	free(context);
}

static struct secure_link *link_create(struct secure_context *context, int fd)
{
	struct secure_link *link = calloc(1, sizeof(*link));
	BIO *bio;

	if (!link)
		return NULL;
	link->fd = fd;
	link->ring = context->ring;
	link->peer.role = SECURE_ROLES;
	link->ssl = SSL_new(context->ssl);
	bio = link->ssl ? BIO_new(context->socket) : NULL;
	if (!bio) {
		SSL_free(link->ssl);
		free(link);
		ERR_clear_error();
		return NULL;
	}
	BIO_set_data(bio, link);
	SSL_set_bio(link->ssl, bio, bio);
	SSL_set_app_data(link->ssl, link);
	return link;
}

struct secure_link *secure_link_accept(struct secure_context *context, int fd)
{
	struct secure_link *link = link_create(context, fd);

	if (link)
		SSL_set_accept_state(link->ssl);
	return link;
}

struct secure_link *secure_link_connect(struct secure_context *context, int fd, const struct secure_key *key)
{
	struct secure_link *link = link_create(context, fd);

	if (!link)
		return NULL;
	link->client = true;
	snprintf(link->identity, sizeof(link->identity), "%s/%s", key->principal, key->id);
	link->secret = secure_alloc(SECURE_SECRET_BYTES);
	if (!link->secret) {
		secure_link_close(link);
		return NULL;
	}
	memcpy(link->secret, key->secret, SECURE_SECRET_BYTES);
	SSL_set_connect_state(link->ssl);
	return link;
}

void secure_link_close(struct secure_link *link)
{
	if (!link)
		return;
	if (SSL_is_init_finished(link->ssl) && !link->error)
		(void)SSL_shutdown(link->ssl);
	ERR_clear_error();
	SSL_free(link->ssl);
	secure_free(link->secret);
	free(link);
}

/* OpenSSL's copy of the secret, from which this connection's keys were derived, is no longer needed. */
static void forget_secret(struct secure_link *link)
{
	static const unsigned char zeros[SECURE_SECRET_BYTES];
	SSL_SESSION *session = SSL_get_session(link->ssl);

	if (session)
		SSL_SESSION_set1_master_key(session, zeros, sizeof(zeros));
	secure_free(link->secret);
	link->secret = NULL;
}

/* OpenSSL's reason, which never contains a secret. */
static int explain(const struct secure_link *link, struct star_error *err)
{
	const unsigned long last = ERR_peek_last_error();
	const int reason = ERR_GET_REASON(last);
	const char *text = ERR_reason_error_string(last);

	if (link->client && reason >= SSL_AD_REASON_OFFSET)
		return star_error_set(err, -EACCES, "the key %s is not known there, or was revoked (%s)",
				      link->identity, text ? text : "no reason");
	if (link->client && (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG ||
			     reason == SSL_R_HTTP_REQUEST || reason == SSL_R_BAD_RECORD_TYPE))
		return star_error_set(
			err, -EPROTO,
			"it does not use TLS: that node has no keys (security.control_keys), and a client that "
			"has a key never sends unencrypted; or it is not a control address, but a data "
			"address");
	if (!link->client && reason == SSL_R_BINDER_DOES_NOT_VERIFY)
		return star_error_set(err, -EACCES, "%s",
				      link->peer.role == SECURE_ROLES ? "the principal or its key's id is not known"
								      : "the secret is wrong");
	return star_error_set(err, -EPROTO, "%s", text ? text : "the TLS handshake failed");
}

static int fail_link(struct secure_link *link, int how, struct star_error *err)
{
	if (how != SSL_ERROR_SSL && link->error)
		return star_error_set(err, -link->error, "%s", strerrordesc_np(link->error));
	if (link->ended && ERR_GET_REASON(ERR_peek_last_error()) < SSL_AD_REASON_OFFSET)
		return star_error_set(err, -ECONNRESET, "the other end has closed it");
	return explain(link, err);
}

int secure_link_handshake(struct secure_link *link, short *events, struct star_error *err)
{
	int rc, how;

	ERR_clear_error();
	rc = SSL_do_handshake(link->ssl);
	if (rc == 1) {
		forget_secret(link);
		if (SSL_session_reused(link->ssl) && (link->client || link->peer.role != SECURE_ROLES))
			return 0;
		return star_error_set(err, -EACCES, "the other end has not shown that it has the secret");
	}
	how = SSL_get_error(link->ssl, rc);
	if (how == SSL_ERROR_WANT_READ || how == SSL_ERROR_WANT_WRITE) {
		*events = how == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
		return -EAGAIN;
	}
	rc = fail_link(link, how, err);
	ERR_clear_error();
	return rc;
}

static ssize_t end_of(struct secure_link *link, int rc)
{
	const int how = SSL_get_error(link->ssl, rc);

	ERR_clear_error();
	if (how == SSL_ERROR_WANT_READ || how == SSL_ERROR_WANT_WRITE)
		return -EAGAIN;
	if (how == SSL_ERROR_ZERO_RETURN)
		return 0;
	if (!link->error)
		link->error = ECONNRESET;
	return -link->error;
}

ssize_t secure_link_read(struct secure_link *link, void *bytes, size_t room)
{
	int n;

	ERR_clear_error();
	n = SSL_read(link->ssl, bytes, room > INT32_MAX ? INT32_MAX : (int)room);
	return n > 0 ? n : end_of(link, n);
}

ssize_t secure_link_write(struct secure_link *link, const void *bytes, size_t count)
{
	ssize_t rc;
	int n;

	if (count == 0)
		return 0;
	ERR_clear_error();
	n = SSL_write(link->ssl, bytes, count > INT32_MAX ? INT32_MAX : (int)count);
	if (n > 0)
		return n;
	rc = end_of(link, n);
	return rc ? rc : -ECONNRESET;
}

size_t secure_link_pending(const struct secure_link *link)
{
	return (size_t)SSL_pending(link->ssl);
}

uint64_t secure_link_received(const struct secure_link *link)
{
	return link->received;
}

const struct secure_key *secure_link_peer(const struct secure_link *link)
{
	return &link->peer;
}
