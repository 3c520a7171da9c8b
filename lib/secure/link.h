/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS 1.3 on a socket that does not block, with a secret that both ends have (an external PSK, RFC 8446, 4.2.11 and RFC
 * 9257) and a Diffie-Hellman exchange of X25519 or P-256: who records it and learns the secret later reads nothing.
 * TLS_AES_128_GCM_SHA256; no certificates, tickets, resumption, early data or older version. The identity that a client
 * sends, "PRINCIPAL/ID", is in clear. A socket may be closed only after its link is. One thread at a time uses a link;
 * a context is shared by all of a server.
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

/* The first byte of what a TLS client sends; no JSON begins with it. */
enum { SECURE_FIRST_BYTE = 0x16 };

/* For a server, which lets in whom the ring has; or for a client, of which ring is NULL. */
struct secure_context *secure_context_create(struct secure_ring *ring, struct star_error *err);
void secure_context_destroy(struct secure_context *context); /* may be NULL */

/* The server's end; NULL: out of memory. */
struct secure_link *secure_link_accept(struct secure_context *context, int fd);
/* The client's end, with a key that is copied. */
struct secure_link *secure_link_connect(struct secure_context *context, int fd, const struct secure_key *key);
void secure_link_close(struct secure_link *link); /* tells the peer, where that goes at once; may be NULL */

/*
 * Goes on with the handshake. 0: done; -EAGAIN: when the socket has *events (POLLIN or POLLOUT) again; else it has
 * failed: -EACCES: the key is not known, or not taken; -EPROTO: the peer speaks no TLS or another one; or the socket's
 * error. The sentence has no address and nothing of a secret. err may be NULL.
 */
int secure_link_handshake(struct secure_link *link, short *events, struct star_error *err);

/* As recv and send, but with the negative errno returned: -EAGAIN; -ECONNRESET: cut off without a farewell. 0: the peer
 * has ended. */
ssize_t secure_link_read(struct secure_link *link, void *bytes, size_t room);
ssize_t secure_link_write(struct secure_link *link, const void *bytes, size_t count);
/* Bytes that are here decrypted, and that the socket will not ring for. */
size_t secure_link_pending(const struct secure_link *link);

/* Bytes that came in on the socket so far. */
uint64_t secure_link_received(const struct secure_link *link);

/* Who is at the other end: the server's, once the handshake is done; before that who somebody says he is, or "". Its
 * secret is not in it. */
const struct secure_key *secure_link_peer(const struct secure_link *link);

#endif
