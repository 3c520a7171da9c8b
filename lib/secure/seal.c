/* SPDX-License-Identifier: BSD-3-Clause */
#include "secure/seal.h"

#include <string.h>

#include "base/ipsec_mb.h"

enum { BLOCK_BYTES = 64, KEY_BYTES = 16, INFO_MAX = 256 };

void secure_hmac(const void *key, size_t key_bytes, const void *text, size_t bytes, uint8_t out[SECURE_HASH_BYTES])
{
	uint8_t inner[BLOCK_BYTES + SECURE_HMAC_MAX] = { 0 }, outer[BLOCK_BYTES + SECURE_HASH_BYTES];

	memcpy(inner, key, key_bytes);
	for (unsigned i = 0; i < BLOCK_BYTES; i++) {
		outer[i] = inner[i] ^ 0x5c;
		inner[i] ^= 0x36;
	}
	memcpy(inner + BLOCK_BYTES, text, bytes);
	IMB_SHA256(base_ipsec_mb, inner, BLOCK_BYTES + bytes, outer + BLOCK_BYTES);
	IMB_SHA256(base_ipsec_mb, outer, sizeof(outer), out);
	explicit_bzero(inner, sizeof(inner));
	explicit_bzero(outer, sizeof(outer));
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
	const volatile uint8_t *x = a, *y = b;
	uint8_t differs = 0;

	for (size_t i = 0; i < bytes; i++)
		differs |= x[i] ^ y[i];
	return differs == 0;
}

static void set_key(struct secure_direction *d)
{
	uint8_t key[KEY_BYTES];

	secure_expand(d->secret, "starserver key", NULL, 0, key, sizeof(key));
	secure_expand(d->secret, "starserver iv", NULL, 0, d->iv, sizeof(d->iv));
	IMB_AES128_GCM_PRE(base_ipsec_mb, key, &d->key);
	explicit_bzero(key, sizeof(key));
	d->number = d->records = d->bytes = 0;
}

void secure_direction_init(struct secure_direction *d, const uint8_t secret[SECURE_HASH_BYTES], bool sealed)
{
	memcpy(d->secret, secret, sizeof(d->secret));
	d->sealed = sealed;
	d->records_max = SECURE_RENEW_RECORDS;
	d->bytes_max = SECURE_RENEW_BYTES;
	set_key(d);
}

static void renew_key(struct secure_direction *d)
{
	uint8_t next[SECURE_HASH_BYTES];

	secure_expand(d->secret, "starserver next", NULL, 0, next, sizeof(next));
	memcpy(d->secret, next, sizeof(next));
	explicit_bzero(next, sizeof(next));
	set_key(d);
}

static void begin_record(struct secure_direction *d, const void *header, size_t bytes)
{
	uint8_t nonce[SECURE_IV_BYTES];
	uint64_t number;

	if (d->records >= d->records_max || d->bytes >= d->bytes_max)
		renew_key(d);
	memcpy(nonce, d->iv, sizeof(nonce));
	memcpy(&number, nonce + sizeof(nonce) - sizeof(number), sizeof(number));
	number ^= d->number;
	memcpy(nonce + sizeof(nonce) - sizeof(number), &number, sizeof(number));
	d->bytes += bytes;
	if (d->sealed) {
		IMB_AES128_GCM_INIT(base_ipsec_mb, &d->key, &d->state, nonce, header, bytes);
	} else {
		IMB_AES128_GMAC_INIT(base_ipsec_mb, &d->key, &d->state, nonce, sizeof(nonce));
		IMB_AES128_GMAC_UPDATE(base_ipsec_mb, &d->key, &d->state, header, bytes);
	}
}

/* The tag, and on to the next record. */
static void end_record(struct secure_direction *d, uint8_t tag[SECURE_TAG_BYTES])
{
	d->number++;
	d->records++;
	if (d->sealed) /* the same for both ways */
		IMB_AES128_GCM_ENC_FINALIZE(base_ipsec_mb, &d->key, &d->state, tag, SECURE_TAG_BYTES);
	else
		IMB_AES128_GMAC_FINALIZE(base_ipsec_mb, &d->key, &d->state, tag, SECURE_TAG_BYTES);
}

void secure_seal_begin(struct secure_direction *d, const void *header, size_t bytes)
{
	begin_record(d, header, bytes);
}

void secure_seal_update(struct secure_direction *d, void *data, size_t bytes)
{
	if (bytes == 0)
		return;
	d->bytes += bytes;
	if (d->sealed)
		IMB_AES128_GCM_ENC_UPDATE(base_ipsec_mb, &d->key, &d->state, data, data, bytes);
	else
		IMB_AES128_GMAC_UPDATE(base_ipsec_mb, &d->key, &d->state, data, bytes);
}

void secure_seal_end(struct secure_direction *d, uint8_t tag[SECURE_TAG_BYTES])
{
	end_record(d, tag);
}

void secure_open_begin(struct secure_direction *d, const void *header, size_t bytes)
{
	begin_record(d, header, bytes);
}

void secure_open_update(struct secure_direction *d, void *data, size_t bytes)
{
	if (bytes == 0)
		return;
	d->bytes += bytes;
	if (d->sealed)
		IMB_AES128_GCM_DEC_UPDATE(base_ipsec_mb, &d->key, &d->state, data, data, bytes);
	else
		IMB_AES128_GMAC_UPDATE(base_ipsec_mb, &d->key, &d->state, data, bytes);
}

bool secure_open_end(struct secure_direction *d, const uint8_t tag[SECURE_TAG_BYTES])
{
	uint8_t right[SECURE_TAG_BYTES];
	bool same;

	end_record(d, right);
	same = secure_same(right, tag, sizeof(right));
	explicit_bzero(right, sizeof(right));
	return same;
}
