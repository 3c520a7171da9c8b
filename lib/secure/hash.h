/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Key derivation: HMAC-SHA256 and HKDF-Expand (RFC 2104, RFC 5869). Uses OpenSSL's SHA-256, which takes an eighth of
 * the time of ipsec-mb 1.3's on processors with instructions for it, and only those calls of it that use nothing but
 * their arguments: no lock, no allocation, no system call. Any thread may call it, reactors included.
 */
#ifndef SECURE_HASH_H
#define SECURE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SECURE_HASH_BYTES = 32, /* of a secret from which keys are made */
	SECURE_HMAC_MAX = 448,	/* bytes of text */
};

/* Nothing here checks bounds: the caller guarantees the lengths. Key up to 64 bytes. */
void secure_hmac(const void *key, size_t key_bytes, const void *text, size_t bytes, uint8_t out[SECURE_HASH_BYTES]);
/* HKDF-Expand for up to SECURE_HASH_BYTES: label and context, together up to 256 bytes, are its info. */
void secure_expand(const uint8_t secret[SECURE_HASH_BYTES], const char *label, const void *context,
		   size_t context_bytes, void *out, size_t bytes);
/* The time that it takes depends on the number of bytes only. */
bool secure_same(const void *a, const void *b, size_t bytes);

#endif
