/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/secure/openssl.h"

#include <openssl/evp.h>
#include <string.h>

void openssl_seal(const struct secure_direction *d, uint64_t number, const uint8_t *header, int header_bytes,
		  uint8_t *data, int bytes, uint8_t tag[SECURE_TAG_BYTES])
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	uint8_t key[32], nonce[SECURE_IV_BYTES];
	int n = 0;

	secure_expand(d->secret, d->wide ? "starserver key 256" : "starserver key", NULL, 0, key, d->wide ? 32 : 16);
	memcpy(nonce, d->iv, sizeof(nonce));
	for (unsigned i = 0; i < 8; i++)
		nonce[4 + i] ^= (uint8_t)(number >> 8 * i);
	EVP_EncryptInit_ex(ctx, d->wide ? EVP_aes_256_gcm() : EVP_aes_128_gcm(), NULL, key, nonce);
	EVP_EncryptUpdate(ctx, NULL, &n, header, header_bytes);
	if (bytes)
		EVP_EncryptUpdate(ctx, d->sealed ? data : NULL, &n, data, bytes);
	EVP_EncryptFinal_ex(ctx, tag, &n);
	EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, SECURE_TAG_BYTES, tag);
	EVP_CIPHER_CTX_free(ctx);
}
