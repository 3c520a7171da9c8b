/* SPDX-License-Identifier: BSD-3-Clause */
#include "secure/hash.h"

/* OpenSSL's newer interface searches for a provider, which takes locks, and allocates. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <string.h>

enum { BLOCK_BYTES = 64, INFO_MAX = 256 };
_Static_assert(SHA256_DIGEST_LENGTH == SECURE_HASH_BYTES, "a secret is a hash");

static void hash_two(const uint8_t pad[BLOCK_BYTES], const void *text, size_t bytes, uint8_t out[SECURE_HASH_BYTES])
{
	SHA256_CTX state;

	SHA256_Init(&state);
	SHA256_Update(&state, pad, BLOCK_BYTES);
	SHA256_Update(&state, text, bytes);
	SHA256_Final(out, &state);
	explicit_bzero(&state, sizeof(state));
}

void secure_hmac(const void *key, size_t key_bytes, const void *text, size_t bytes, uint8_t out[SECURE_HASH_BYTES])
{
	uint8_t inner[BLOCK_BYTES] = { 0 }, outer[BLOCK_BYTES], hash[SECURE_HASH_BYTES];

	memcpy(inner, key, key_bytes);
	for (unsigned i = 0; i < BLOCK_BYTES; i++) {
		outer[i] = inner[i] ^ 0x5c;
		inner[i] ^= 0x36;
	}
	hash_two(inner, text, bytes, hash);
	hash_two(outer, hash, sizeof(hash), out);
	explicit_bzero(inner, sizeof(inner));
	explicit_bzero(outer, sizeof(outer));
	explicit_bzero(hash, sizeof(hash));
}

void secure_expand(const uint8_t secret[SECURE_HASH_BYTES], const char *label, const void *context,
		   size_t context_bytes, void *out, size_t bytes)
{
	const size_t label_bytes = strlen(label);
	uint8_t info[INFO_MAX + 1], hash[SECURE_HASH_BYTES];

	memcpy(info, label, label_bytes);
	if (context_bytes)
		memcpy(info + label_bytes, context, context_bytes);
	info[label_bytes + context_bytes] = 1; /* the first block, and the last */
	secure_hmac(secret, SECURE_HASH_BYTES, info, label_bytes + context_bytes + 1, hash);
	memcpy(out, hash, bytes);
	explicit_bzero(hash, sizeof(hash));
}

bool secure_same(const void *a, const void *b, size_t bytes)
{
	const uint8_t *x = a, *y = b;
	uint64_t differs = 0, u, v;

	for (; bytes >= sizeof(u); bytes -= sizeof(u), x += sizeof(u), y += sizeof(v)) {
		memcpy(&u, x, sizeof(u));
		memcpy(&v, y, sizeof(v));
		differs |= u ^ v;
		__asm__("" : "+r"(differs)); /* keeps the compiler from ending the comparison early */
	}
	for (; bytes; bytes--)
		differs |= (uint64_t)(*x++ ^ *y++);
	__asm__("" : "+r"(differs));
	return differs == 0;
}
