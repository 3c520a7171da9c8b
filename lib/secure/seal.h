/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data plane's records: AES-GCM (NIST SP 800-38D) with keys of 128 or 256 bits, or GMAC, which leaves the bytes as
 * they are and only guards them. By ipsec-mb's direct calls alone: no lock, no allocation, no system call. Reactors
 * use it, and workers. A direction has keys of its own, and numbers its records from 0: the number, in little endian,
 * is in the nonce, as in TLS 1.3 (RFC 8446, 5.3), so that a record that is lost,
 * repeated, moved or sent back has a wrong tag. After SECURE_RENEW_BYTES, or 2^32 records, both ends go over to the
 * next key, at the same record, without a word. One thread at a time uses a direction.
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

/* One direction of a connection; aligned as ipsec-mb wants it. Zero it when it is done with (explicit_bzero). */
struct secure_direction {
	_Alignas(64) struct gcm_key_data key;	    /* its header leaves the alignment out */
	_Alignas(16) struct gcm_context_data state; /* of the record under way */
	uint8_t secret[SECURE_HASH_BYTES];
	uint8_t iv[SECURE_IV_BYTES];
	bool sealed;			 /* or only guarded */
	bool wide;			 /* sealed by a key of 256 bits */
	uint64_t number;		 /* of the record under way, or the next */
	uint64_t records, bytes;	 /* so far under this key */
	uint64_t records_max, bytes_max; /* then it is renewed */
};

void secure_direction_init(struct secure_direction *d, const uint8_t secret[SECURE_HASH_BYTES],
			   enum secure_cipher cipher);

/*
 * A record: bytes that stay as they are (its header), then others in pieces of any length, in their order, each sealed
 * or opened in place. What was opened is not to be looked at before secure_open_end has returned true; after false the
 * direction is of no use any more.
 */
void secure_seal_begin(struct secure_direction *d, const void *header, size_t bytes);
void secure_seal_update(struct secure_direction *d, void *data, size_t bytes);
void secure_seal_end(struct secure_direction *d, uint8_t tag[SECURE_TAG_BYTES]);
void secure_open_begin(struct secure_direction *d, const void *header, size_t bytes);
void secure_open_update(struct secure_direction *d, void *data, size_t bytes);
bool secure_open_end(struct secure_direction *d, const uint8_t tag[SECURE_TAG_BYTES]);

/*
 * Packets, which may get lost, come twice and in another order: each has a number that both ends know, and that no
 * other packet of the direction ever has, under whichever key. A header of 48 bytes is guarded, a body in one piece is
 * sealed or opened in place. Keys are not renewed by themselves: secure_direction_next makes the next one, of which
 * both ends have to tell.
 */
enum { SECURE_PACKET_HEADER_BYTES = 48 };
void secure_packet_seal(struct secure_direction *d, uint64_t number, const void *header, void *body, size_t bytes,
			uint8_t tag[SECURE_TAG_BYTES]);
/* False: the tag is wrong; the body then is no one's. */
bool secure_packet_open(struct secure_direction *d, uint64_t number, const void *header, void *body, size_t bytes,
			const uint8_t tag[SECURE_TAG_BYTES]);
/* A body that was sealed here is as it was before. */
void secure_packet_unseal(struct secure_direction *d, uint64_t number, void *body, size_t bytes);
/* As many records and bytes as a key is for have gone through this one. */
static inline bool secure_direction_spent(const struct secure_direction *d)
{
	return d->records >= d->records_max || d->bytes >= d->bytes_max;
}
void secure_direction_next(const struct secure_direction *d, struct secure_direction *next);

/* Which numbers of packets have come (RFC 6479): the last SECURE_WINDOW, and none before these is taken any more. */
enum { SECURE_WINDOW = 2048, SECURE_WINDOW_WORDS = SECURE_WINDOW / 64 + 1 };
struct secure_window {
	uint64_t last; /* the highest; numbers begin with 1 */
	uint64_t words[SECURE_WINDOW_WORDS];
};
/* The number that ends in these 32 bits and is nearest to the highest that has come. */
uint64_t secure_window_number(const struct secure_window *w, uint32_t low);
/* Whether it has not come before. Nothing is changed: only who has a good tag is believed. */
bool secure_window_may(const struct secure_window *w, uint64_t number);
void secure_window_take(struct secure_window *w, uint64_t number);

#endif
