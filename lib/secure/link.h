/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS 1.3 on a non-blocking socket, with a shared secret (an external PSK, RFC 8446, 4.2.11 and RFC 9257) and a
 * Diffie-Hellman exchange over X25519 or P-256, so that recorded traffic cannot be decrypted with a secret that is
 * learnt later. The cipher suite is TLS_AES_128_GCM_SHA256; there are no certificates, tickets, resumption, early data
 * or older versions. The identity that a client sends, "PRINCIPAL/ID", is not encrypted. Close a socket only after its
 * link. A link is used by one thread at a time; all links of a server share a context.
 */
#ifndef SECURE_LINK_H
#define SECURE_LINK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "secure/keys.h"
#include "secure/ring.h"

struct secure_context;
struct secure_link;

/* The first byte that a TLS client sends. JSON cannot begin with it. */
enum { SECURE_FIRST_BYTE = 0x16 };

/* A context for a server, which admits the principals of the ring; for a client ring is NULL. NULL with err. */
struct secure_context *secure_context_create(struct secure_ring *ring, struct star_error *err);
void secure_context_destroy(struct secure_context *context); /* may be NULL */

/* The server's end; NULL: out of memory. */
struct secure_link *secure_link_accept(struct secure_context *context, int fd);
/* The client's end, with a key that is copied. */
struct secure_link *secure_link_connect(struct secure_context *context, int fd, const struct secure_key *key);
void secure_link_close(
	struct secure_link *link); /* sends close_notify if that is possible without waiting; link may be NULL */

/*
 * Continues the handshake. 0: done; -EAGAIN: call it again when the socket has *events (POLLIN or POLLOUT); otherwise
 * it has failed: -EACCES: the key is unknown, or not accepted; -EPROTO: the peer does not use TLS, or another version;
 * or the socket's error. The message has no address and no part of a secret. err may be NULL.
 */
int secure_link_handshake(struct secure_link *link, short *events, struct star_error *err);

/* As recv and send, but they return the negative errno: -EAGAIN; -ECONNRESET: the connection ended without
 * close_notify. 0: the peer has closed it. */
ssize_t secure_link_read(struct secure_link *link, void *bytes, size_t room);
ssize_t secure_link_write(struct secure_link *link, const void *bytes, size_t count);
/* Bytes that are already decrypted, for which poll() will not report the socket as readable. */
size_t secure_link_pending(const struct secure_link *link);

/* Bytes received from the socket so far. */
uint64_t secure_link_received(const struct secure_link *link);

/* The peer of a server's link, without its secret: authenticated once the handshake is done; before that what the peer
 * claims, or "". */
const struct secure_key *secure_link_peer(const struct secure_link *link);

#endif
