/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys and records, against the RFCs' vectors and OpenSSL; and each way in which a record may be touched. */
#include "tests/secure/cases.h"
#include "tests/unit.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "secure/seal.h"
#include "tests/secure/openssl.h"

enum { HEADER = 64, DATA_MAX = 5000, ROUNDS = 400 };

static const uint8_t secret[SECURE_HASH_BYTES] = "a secret of thirty-two bytes!!!";

void hashes_are_the_rfcs(void)
{
	/* RFC 4231, test cases 1 and 2; RFC 5869, test case 1: the first block. */
	static const uint8_t twenty[20] = { 11, 11, 11, 11, 11, 11, 11, 11, 11, 11,
					    11, 11, 11, 11, 11, 11, 11, 11, 11, 11 };
	static const uint8_t hi_there[] = { 0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf,
					    0xce, 0xaf, 0x0b, 0xf1, 0x2b, 0x88, 0x1d, 0xc2, 0x00, 0xc9, 0x83,
					    0x3d, 0xa7, 0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7 };
	static const uint8_t jefe[] = { 0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24,
					0x26, 0x08, 0x95, 0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27,
					0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43 };
	static const uint8_t prk[] = { 0x07, 0x77, 0x09, 0x36, 0x2c, 0x2e, 0x32, 0xdf, 0x0d, 0xdc, 0x3f,
				       0x0d, 0xc4, 0x7b, 0xba, 0x63, 0x90, 0xb6, 0xc7, 0x3b, 0xb5, 0x0f,
				       0x9c, 0x31, 0x22, 0xec, 0x84, 0x4a, 0xd7, 0xc2, 0xb3, 0xe5 };
	static const uint8_t info[] = { 0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9 };
	static const uint8_t okm[] = { 0x3c, 0xb2, 0x5f, 0x25, 0xfa, 0xac, 0xd5, 0x7a, 0x90, 0x43, 0x4f,
				       0x64, 0xd0, 0x36, 0x2f, 0x2a, 0x2d, 0x2d, 0x0a, 0x90, 0xcf, 0x1a,
				       0x5a, 0x4c, 0x5d, 0xb0, 0x2d, 0x56, 0xec, 0xc4, 0xc5, 0xbf };
	uint8_t out[SECURE_HASH_BYTES];

	secure_hmac(twenty, sizeof(twenty), "Hi There", 8, out);
	CHECK_MEM(out, hi_there, sizeof(out));
	secure_hmac("Jefe", 4, "what do ya want for nothing?", 28, out);
	CHECK_MEM(out, jefe, sizeof(out));
	secure_expand(prk, "", info, sizeof(info), out, sizeof(out));
	CHECK_MEM(out, okm, sizeof(out));
}

void hashes_are_openssls(void)
{
	uint8_t key[64], text[SECURE_HMAC_MAX], ours[SECURE_HASH_BYTES], theirs[EVP_MAX_MD_SIZE];
	struct prng prng;
	unsigned n;

	prng_seed(&prng, 1);
	for (size_t bytes = 0; bytes <= sizeof(text); bytes++) {
		const size_t key_bytes = prng_below(&prng, sizeof(key) + 1);

		fill(&prng, key, sizeof(key));
		fill(&prng, text, sizeof(text));
		secure_hmac(key, key_bytes, text, bytes, ours);
		HMAC(EVP_sha256(), key, (int)key_bytes, text, bytes, theirs, &n);
		if (!CHECK_MEM(ours, theirs, sizeof(ours)))
			break;
	}
}

/* In pieces of random lengths, empty ones too. */
static void in_pieces(struct prng *prng, struct secure_direction *d, uint8_t *data, size_t bytes,
		      void (*update)(struct secure_direction *d, void *data, size_t bytes))
{
	for (size_t at = 0; at < bytes;) {
		size_t part = prng_below(prng, prng_below(prng, 2) ? 40 : 1500);

		if (part > bytes - at)
			part = bytes - at;
		update(d, data + at, part);
		at += part;
	}
}

void records_are_openssls_in_any_pieces(void)
{
	static uint8_t plain[DATA_MAX], ours[DATA_MAX], theirs[DATA_MAX];
	static struct secure_direction in, out;
	uint8_t header[HEADER], tag[SECURE_TAG_BYTES], right[SECURE_TAG_BYTES];
	struct prng prng;

	prng_seed(&prng, 2);
	for (unsigned round = 0; round < ROUNDS; round++) {
		const size_t bytes = prng_below(&prng, round % 4 ? 200 : DATA_MAX);

		if (round % 100 == 0) {
			secure_direction_init(&in, secret, (enum secure_cipher)(round / 100 % SECURE_CIPHERS));
			secure_direction_init(&out, secret, (enum secure_cipher)(round / 100 % SECURE_CIPHERS));
		}
		fill(&prng, header, sizeof(header));
		fill(&prng, plain, bytes);
		memcpy(ours, plain, bytes);
		memcpy(theirs, plain, bytes);
		openssl_seal(&out, round % 100, header, HEADER, theirs, (int)bytes, right);
		secure_seal_begin(&out, header, sizeof(header));
		in_pieces(&prng, &out, ours, bytes, secure_seal_update);
		secure_seal_end(&out, tag);
		CHECK_MEM(tag, right, sizeof(tag));
		CHECK_MEM(ours, theirs, bytes);
		secure_open_begin(&in, header, sizeof(header));
		in_pieces(&prng, &in, ours, bytes, secure_open_update);
		CHECK(secure_open_end(&in, tag));
		if (!CHECK_MEM(ours, plain, bytes))
			break;
	}
}

struct record {
	uint8_t header[HEADER], data[100], tag[SECURE_TAG_BYTES];
	size_t bytes;
};

static void seal(struct secure_direction *d, struct record *r, uint8_t what)
{
	memset(r->header, what, sizeof(r->header));
	memset(r->data, what, sizeof(r->data));
	r->bytes = sizeof(r->data);
	secure_seal_begin(d, r->header, sizeof(r->header));
	secure_seal_update(d, r->data, r->bytes);
	secure_seal_end(d, r->tag);
}

static bool opens(struct secure_direction *d, struct record r)
{
	secure_open_begin(d, r.header, sizeof(r.header));
	secure_open_update(d, r.data, r.bytes);
	return secure_open_end(d, r.tag);
}

/* A direction as it was, for one try more. */
static bool would_open(const struct secure_direction *d, const struct record *r)
{
	static struct secure_direction copy;

	copy = *d;
	return opens(&copy, *r);
}

void no_touched_record_opens(void)
{
	static struct secure_direction to, from, in;
	struct record first, second, third, other;

	for (int sealed = SECURE_GUARD; sealed < SECURE_CIPHERS; sealed++) {
		secure_direction_init(&to, secret, (enum secure_cipher)sealed);
		secure_direction_init(&in, secret, (enum secure_cipher)sealed);
		secure_direction_init(&from, (const uint8_t *)"another secret of thirty-two....",
				      (enum secure_cipher)sealed);
		seal(&to, &first, 1);
		seal(&to, &second, 2);
		seal(&to, &third, 1);
		seal(&from, &other, 1);
		CHECK(memcmp(first.tag, third.tag, sizeof(first.tag)) != 0);
		for (size_t bit = 0; bit < 8 * (HEADER + sizeof(first.data) + SECURE_TAG_BYTES); bit++) {
			struct record r = first;

			((uint8_t *)&r)[bit / 8] ^= (uint8_t)(1 << bit % 8);
			if (!CHECK(!would_open(&in, &r)))
				printf("# bit %zu\n", bit);
		}
		for (size_t bytes = 0; bytes < first.bytes; bytes++) {
			struct record r = first;

			r.bytes = bytes;
			CHECK(!would_open(&in, &r));
		}
		CHECK(!would_open(&in, &second)); /* one was left out */
		CHECK(!would_open(&in, &other));  /* of another direction */
		CHECK(opens(&in, first));
		CHECK(!would_open(&in, &first)); /* again */
		CHECK(!would_open(&in, &third)); /* in another order */
		CHECK(opens(&in, second));
		CHECK(opens(&in, third));
	}
}

void keys_are_renewed_at_the_same_record(void)
{
	static struct secure_direction out, in, late;
	struct record r;

	for (int by_bytes = 0; by_bytes < 2; by_bytes++) {
		uint8_t before[sizeof(out.secret)];

		secure_direction_init(&out, secret, true);
		out.records_max = by_bytes ? 1000 : 3;
		out.bytes_max = by_bytes ? 3 * (HEADER + sizeof(r.data)) : 1 << 30;
		in = late = out;
		late.records_max = late.bytes_max = UINT64_MAX;
		memcpy(before, out.secret, sizeof(before));
		for (unsigned i = 0; i < 20; i++) {
			seal(&out, &r, (uint8_t)i);
			CHECK_UINT(memcmp(before, out.secret, sizeof(before)) != 0, i >= 3);
			if (i < 4)
				CHECK_UINT(opens(&late, r), i < 3);
			if (!CHECK(opens(&in, r)))
				break;
		}
	}
	secure_direction_init(&out, secret, true);
	CHECK_UINT(out.records_max, UINT64_C(1) << 32);
	CHECK_UINT(out.bytes_max, UINT64_C(64) << 30);
}

/* The fastest of many: what else the machine does makes some slower, and none faster. */
static uint64_t fastest_ns(const uint8_t *a, const uint8_t *b, size_t bytes)
{
	uint64_t best = UINT64_MAX;

	for (unsigned i = 0; i < 2000; i++) {
		const uint64_t begun = clock_ns();
		uint64_t took;

		for (unsigned j = 0; j < 4; j++)
			(void)!secure_same(a, b, bytes);
		took = clock_ns() - begun;
		best = took < best ? took : best;
	}
	return best;
}

/* Wherever they differ. A tag is short: what would show of one that ends early shows of more bytes. */
void comparisons_take_the_time_of_their_bytes(void)
{
	enum { BYTES = 8192 };
	static uint8_t a[BYTES], b[BYTES];
	const size_t places[] = { 0, 1, 7, 8, 15, BYTES / 2, BYTES - 1 };
	uint64_t same;

	for (size_t bytes = 0; bytes <= 40; bytes++)
		for (size_t at = 0; at < bytes; at++) {
			b[at] = 1;
			CHECK(!secure_same(a, b, bytes));
			b[at] = 0;
			CHECK(secure_same(a, b, bytes));
		}
	same = fastest_ns(a, b, BYTES);
	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		uint64_t differs;

		b[places[i]] = 0x80;
		differs = fastest_ns(a, b, BYTES);
		b[places[i]] = 0;
		if (!CHECK(differs > same / 2 && differs < 2 * same))
			printf("# byte %zu: %llu ns, and %llu ns of the same\n", places[i], (unsigned long long)differs,
			       (unsigned long long)same);
	}
}
