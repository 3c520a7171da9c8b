/* SPDX-License-Identifier: BSD-3-Clause */
#include "secure/seal.h"

#include <string.h>

#include "base/ipsec_mb.h"

enum {
	KEY_BYTES = 16,
	WIDE_BYTES = 32,
	GUARD_MAX = 512 /* bytes of a body that are copied rather than processed in pieces, because that is cheaper */
};

static void set_key(struct secure_direction *d)
{
	uint8_t key[WIDE_BYTES];

	secure_expand(d->secret, d->wide ? "starserver key 256" : "starserver key", NULL, 0, key,
		      d->wide ? WIDE_BYTES : KEY_BYTES);
	secure_expand(d->secret, "starserver iv", NULL, 0, d->iv, sizeof(d->iv));
	if (d->wide)
		IMB_AES256_GCM_PRE(base_ipsec_mb, key, &d->key);
	else
		IMB_AES128_GCM_PRE(base_ipsec_mb, key, &d->key);
	explicit_bzero(key, sizeof(key));
	d->number = d->records = d->bytes = 0;
}

void secure_direction_init(struct secure_direction *d, const uint8_t secret[SECURE_HASH_BYTES],
			   enum secure_cipher cipher)
{
	memcpy(d->secret, secret, sizeof(d->secret));
	d->sealed = cipher != SECURE_GUARD;
	d->wide = cipher == SECURE_AES256;
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

static inline void make_nonce(const struct secure_direction *d, uint64_t number, uint8_t nonce[SECURE_IV_BYTES])
{
	uint64_t end;

	memcpy(nonce, d->iv, SECURE_IV_BYTES);
	memcpy(&end, nonce + SECURE_IV_BYTES - sizeof(end), sizeof(end));
	end ^= number;
	memcpy(nonce + SECURE_IV_BYTES - sizeof(end), &end, sizeof(end));
}

static void begin_record(struct secure_direction *d, const void *header, size_t bytes)
{
	uint8_t nonce[SECURE_IV_BYTES];

	if (secure_direction_spent(d))
		renew_key(d);
	make_nonce(d, d->number, nonce);
	d->bytes += bytes;
	if (d->wide) {
		IMB_AES256_GCM_INIT(base_ipsec_mb, &d->key, &d->state, nonce, header, bytes);
	} else if (d->sealed) {
		IMB_AES128_GCM_INIT(base_ipsec_mb, &d->key, &d->state, nonce, header, bytes);
	} else {
		IMB_AES128_GMAC_INIT(base_ipsec_mb, &d->key, &d->state, nonce, sizeof(nonce));
		IMB_AES128_GMAC_UPDATE(base_ipsec_mb, &d->key, &d->state, header, bytes);
	}
}

/* Returns the tag, and goes on to the next record. */
static void end_record(struct secure_direction *d, uint8_t tag[SECURE_TAG_BYTES])
{
	d->number++;
	d->records++;
	if (d->wide) /* the same for both ways */
		IMB_AES256_GCM_ENC_FINALIZE(base_ipsec_mb, &d->key, &d->state, tag, SECURE_TAG_BYTES);
	else if (d->sealed)
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
	if (d->wide)
		IMB_AES256_GCM_ENC_UPDATE(base_ipsec_mb, &d->key, &d->state, data, data, bytes);
	else if (d->sealed)
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
	if (d->wide)
		IMB_AES256_GCM_DEC_UPDATE(base_ipsec_mb, &d->key, &d->state, data, data, bytes);
	else if (d->sealed)
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

/* ---- packets ---- */

/* GMAC is GCM without plaintext, where what is guarded is the additional data (SP 800-38D, 3). In a single call, which
 * needs contiguous data, it takes three quarters of the time. */
static void guard_packet(struct secure_direction *d, const uint8_t nonce[SECURE_IV_BYTES], const void *header,
			 const void *body, size_t bytes, uint8_t tag[SECURE_TAG_BYTES])
{
	uint8_t guarded[SECURE_PACKET_HEADER_BYTES + GUARD_MAX];

	if (bytes <= GUARD_MAX) {
		memcpy(guarded, header, SECURE_PACKET_HEADER_BYTES);
		memcpy(guarded + SECURE_PACKET_HEADER_BYTES, body, bytes);
		IMB_AES128_GCM_ENC(base_ipsec_mb, &d->key, &d->state, guarded, guarded, 0, nonce, guarded,
				   SECURE_PACKET_HEADER_BYTES + bytes, tag, SECURE_TAG_BYTES);
		return;
	}
	IMB_AES128_GMAC_INIT(base_ipsec_mb, &d->key, &d->state, nonce, SECURE_IV_BYTES);
	IMB_AES128_GMAC_UPDATE(base_ipsec_mb, &d->key, &d->state, header, SECURE_PACKET_HEADER_BYTES);
	IMB_AES128_GMAC_UPDATE(base_ipsec_mb, &d->key, &d->state, body, bytes);
	IMB_AES128_GMAC_FINALIZE(base_ipsec_mb, &d->key, &d->state, tag, SECURE_TAG_BYTES);
}

void secure_packet_seal(struct secure_direction *d, uint64_t number, const void *header, void *body, size_t bytes,
			uint8_t tag[SECURE_TAG_BYTES])
{
	uint8_t nonce[SECURE_IV_BYTES];

	make_nonce(d, number, nonce);
	d->records++;
	d->bytes += SECURE_PACKET_HEADER_BYTES + bytes;
	if (d->wide)
		IMB_AES256_GCM_ENC(base_ipsec_mb, &d->key, &d->state, body, body, bytes, nonce, header,
				   SECURE_PACKET_HEADER_BYTES, tag, SECURE_TAG_BYTES);
	else if (d->sealed)
		IMB_AES128_GCM_ENC(base_ipsec_mb, &d->key, &d->state, body, body, bytes, nonce, header,
				   SECURE_PACKET_HEADER_BYTES, tag, SECURE_TAG_BYTES);
	else
		guard_packet(d, nonce, header, body, bytes, tag);
}

bool secure_packet_open(struct secure_direction *d, uint64_t number, const void *header, void *body, size_t bytes,
			const uint8_t tag[SECURE_TAG_BYTES])
{
	uint8_t nonce[SECURE_IV_BYTES], right[SECURE_TAG_BYTES];

	make_nonce(d, number, nonce);
	if (d->wide)
		IMB_AES256_GCM_DEC(base_ipsec_mb, &d->key, &d->state, body, body, bytes, nonce, header,
				   SECURE_PACKET_HEADER_BYTES, right, SECURE_TAG_BYTES);
	else if (d->sealed)
		IMB_AES128_GCM_DEC(base_ipsec_mb, &d->key, &d->state, body, body, bytes, nonce, header,
				   SECURE_PACKET_HEADER_BYTES, right, SECURE_TAG_BYTES);
	else
		guard_packet(d, nonce, header, body, bytes, right);
	return secure_same(right, tag, sizeof(right));
}

void secure_packet_unseal(struct secure_direction *d, uint64_t number, void *body, size_t bytes)
{
	uint8_t nonce[SECURE_IV_BYTES], tag[SECURE_TAG_BYTES];

	if (!d->sealed || bytes == 0)
		return;
	make_nonce(d, number, nonce);
	if (d->wide)
		IMB_AES256_GCM_DEC(base_ipsec_mb, &d->key, &d->state, body, body, bytes, nonce, nonce, 0, tag,
				   sizeof(tag));
	else
		IMB_AES128_GCM_DEC(base_ipsec_mb, &d->key, &d->state, body, body, bytes, nonce, nonce, 0, tag,
				   sizeof(tag));
}

void secure_direction_next(const struct secure_direction *d, struct secure_direction *next)
{
	memcpy(next->secret, d->secret, sizeof(next->secret));
	next->sealed = d->sealed;
	next->wide = d->wide;
	next->records_max = d->records_max;
	next->bytes_max = d->bytes_max;
	renew_key(next);
}

uint64_t secure_window_number(const struct secure_window *w, uint32_t low)
{
	return w->last + (uint64_t)(int64_t)(int32_t)(low - (uint32_t)w->last);
}

bool secure_window_may(const struct secure_window *w, uint64_t number)
{
	if (number > w->last)
		return number <= w->last + INT32_MAX; /* or it has wrapped below 0 */
	if (number == 0 || w->last - number >= SECURE_WINDOW)
		return false;
	return !(w->words[number / 64 % SECURE_WINDOW_WORDS] >> number % 64 & 1);
}

void secure_window_take(struct secure_window *w, uint64_t number)
{
	if (number > w->last) {
		uint64_t word = w->last / 64;

		for (unsigned i = 0; word < number / 64 && i < SECURE_WINDOW_WORDS; i++)
			w->words[++word % SECURE_WINDOW_WORDS] = 0;
		w->last = number;
	}
	w->words[number / 64 % SECURE_WINDOW_WORDS] |= UINT64_C(1) << number % 64;
}
