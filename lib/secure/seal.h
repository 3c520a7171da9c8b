/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection of the data plane's records: AES-GCM (NIST SP 800-38D) with keys of 128 or 256 bits, or GMAC, which only
 * authenticates. "Sealed" means encrypted and authenticated, "guarded" only authenticated. It only uses ipsec-mb's
 * direct calls: no lock, no allocation, no system call. Reactors and workers use it. Each direction of a connection has
 * keys of its own, and numbers its records from 0. The number, in little endian, is part of the nonce, as in TLS 1.3
 * (RFC 8446, 5.3), so a record that was omitted, repeated, moved or reflected has a wrong tag. After
 * SECURE_RENEW_BYTES, or 2^32 records, both ends change to the next key, at the same record, without a message. A
 * direction is used by one thread at a time.
 */
#ifndef SECURE_SEAL_H
#define SECURE_SEAL_H

#include <intel-ipsec-mb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "secure/hash.h"

enum {
	SECURE_TAG_BYTES = 16,
	SECURE_IV_BYTES = 12,
};
#define SECURE_RENEW_BYTES (UINT64_C(64) << 30)
#define SECURE_RENEW_RECORDS (UINT64_C(1) << 32)

/* How a direction's records are protected. */
enum secure_cipher {
	SECURE_GUARD,  /* AES-128-GMAC */
	SECURE_AES128, /* -GCM */
	SECURE_AES256,
	SECURE_CIPHERS
};

/* One direction of a connection, with the alignment that ipsec-mb needs. Clear it when it is no longer needed
 * (explicit_bzero). */
struct secure_direction {
	_Alignas(64) struct gcm_key_data key;	    /* ipsec-mb's header does not declare this alignment */
	_Alignas(16) struct gcm_context_data state; /* of the current record */
	uint8_t secret[SECURE_HASH_BYTES];
	uint8_t iv[SECURE_IV_BYTES];
	bool sealed;			 /* false: only guarded */
	bool wide;			 /* sealed with a key of 256 bits */
	uint64_t number;		 /* number of the current or next record */
	uint64_t records, bytes;	 /* so far under this key */
	uint64_t records_max, bytes_max; /* limits after which the key is renewed */
};

void secure_direction_init(struct secure_direction *d, const uint8_t secret[SECURE_HASH_BYTES],
			   enum secure_cipher cipher);

/*
 * A record consists of a header, which is only authenticated, and a payload in pieces of any length, in order, each of
 * which is sealed or opened in place. Do not use opened data before secure_open_end has returned true. After false the
 * direction cannot be used any more.
 */
void secure_seal_begin(struct secure_direction *d, const void *header, size_t bytes);
void secure_seal_update(struct secure_direction *d, void *data, size_t bytes);
void secure_seal_end(struct secure_direction *d, uint8_t tag[SECURE_TAG_BYTES]);
void secure_open_begin(struct secure_direction *d, const void *header, size_t bytes);
void secure_open_update(struct secure_direction *d, void *data, size_t bytes);
bool secure_open_end(struct secure_direction *d, const uint8_t tag[SECURE_TAG_BYTES]);

/*
 * Packets may get lost, repeated and reordered. So each has a number that both ends know, and that no other packet of
 * the direction ever has, with any key. A header of 48 bytes is authenticated; the body, in one piece, is sealed or
 * opened in place. Keys are not renewed automatically: secure_direction_next creates the next one, and the protocol has
 * to say which one is used.
 */
enum { SECURE_PACKET_HEADER_BYTES = 48 };
void secure_packet_seal(struct secure_direction *d, uint64_t number, const void *header, void *body, size_t bytes,
			uint8_t tag[SECURE_TAG_BYTES]);
/* false: the tag is wrong, and the body must not be used. */
bool secure_packet_open(struct secure_direction *d, uint64_t number, const void *header, void *body, size_t bytes,
			const uint8_t tag[SECURE_TAG_BYTES]);
/* Restores a body that was sealed here. */
void secure_packet_unseal(struct secure_direction *d, uint64_t number, void *body, size_t bytes);
/* Whether this key has reached its limit of records or bytes. */
static inline bool secure_direction_spent(const struct secure_direction *d)
{
	return d->records >= d->records_max || d->bytes >= d->bytes_max;
}
void secure_direction_next(const struct secure_direction *d, struct secure_direction *next);

/* A replay window (RFC 6479): which of the last SECURE_WINDOW numbers have arrived. Earlier numbers are refused. */
enum { SECURE_WINDOW = 2048, SECURE_WINDOW_WORDS = SECURE_WINDOW / 64 + 1 };
struct secure_window {
	uint64_t last; /* the highest; numbers begin with 1 */
	uint64_t words[SECURE_WINDOW_WORDS];
};
/* The number with these low 32 bits that is nearest to the highest that has arrived. */
uint64_t secure_window_number(const struct secure_window *w, uint32_t low);
/* Whether a number has not arrived before. Does not change the window: call secure_window_take after the tag was
 * verified. */
bool secure_window_may(const struct secure_window *w, uint64_t number);
void secure_window_take(struct secure_window *w, uint64_t number);

#endif
