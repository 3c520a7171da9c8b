/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets, which have numbers of their own: against OpenSSL, each way in which one may be touched, and which come
 * twice. */
#include "tests/secure/cases.h"
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "secure/seal.h"
#include "tests/secure/openssl.h"

enum { HEADER = SECURE_PACKET_HEADER_BYTES, BODY_MAX = 1500, ROUNDS = 400 };

static const uint8_t secret[SECURE_HASH_BYTES] = "a secret of thirty-two bytes!!!";

void packets_are_openssls(void)
{
	static uint8_t plain[BODY_MAX], ours[BODY_MAX], theirs[BODY_MAX];
	static struct secure_direction out, in, next;
	uint8_t header[HEADER], tag[SECURE_TAG_BYTES], right[SECURE_TAG_BYTES];
	struct prng prng;

	prng_seed(&prng, 3);
	for (unsigned round = 0; round < ROUNDS; round++) {
		const size_t bytes = prng_below(&prng, round % 4 ? 200 : BODY_MAX);
		const uint64_t number = prng_next(&prng) >> prng_below(&prng, 64);

		if (round % 100 == 0)
			secure_direction_init(&out, secret, (enum secure_cipher)(round / 100 % SECURE_CIPHERS));
		if (round % 100 == 50) { /* numbers go on under the next key */
			secure_direction_next(&out, &next);
			CHECK(memcmp(out.iv, next.iv, sizeof(out.iv)) != 0);
			out = next;
		}
		in = out;
		fill(&prng, header, sizeof(header));
		fill(&prng, plain, bytes);
		memcpy(ours, plain, bytes);
		memcpy(theirs, plain, bytes);
		openssl_seal(&out, number, header, HEADER, theirs, (int)bytes, right);
		secure_packet_seal(&out, number, header, ours, bytes, tag);
		CHECK_MEM(tag, right, sizeof(tag));
		CHECK_MEM(ours, theirs, bytes);
		CHECK(secure_packet_open(&in, number, header, ours, bytes, tag));
		CHECK_MEM(ours, plain, bytes);
		secure_packet_unseal(&out, number, theirs, bytes);
		if (!CHECK_MEM(theirs, plain, bytes))
			break;
	}
}

struct packet {
	uint8_t header[HEADER], body[100], tag[SECURE_TAG_BYTES];
	size_t bytes;
	uint64_t number;
};

static bool opens(struct secure_direction *d, struct packet p)
{
	return secure_packet_open(d, p.number, p.header, p.body, p.bytes, p.tag);
}

void no_touched_packet_opens(void)
{
	static struct secure_direction out, in, other, next;

	for (int sealed = SECURE_GUARD; sealed < SECURE_CIPHERS; sealed++) {
		struct packet p = { .bytes = sizeof(p.body), .number = 7 };

		secure_direction_init(&out, secret, (enum secure_cipher)sealed);
		secure_direction_init(&in, secret, (enum secure_cipher)sealed);
		secure_direction_init(&other, (const uint8_t *)"another secret of thirty-two....",
				      (enum secure_cipher)sealed);
		secure_packet_seal(&out, p.number, p.header, p.body, p.bytes, p.tag);
		CHECK(opens(&in, p));
		for (size_t bit = 0; bit < 8 * (HEADER + sizeof(p.body) + SECURE_TAG_BYTES); bit++) {
			struct packet q = p;

			((uint8_t *)&q)[bit / 8] ^= (uint8_t)(1 << bit % 8);
			if (!CHECK(!opens(&in, q)))
				printf("# bit %zu\n", bit);
		}
		for (size_t bytes = 0; bytes < p.bytes; bytes++) {
			struct packet q = p;

			q.bytes = bytes;
			CHECK(!opens(&in, q));
		}
		for (unsigned bit = 0; bit < 64; bit++) {
			struct packet q = p;

			q.number ^= UINT64_C(1) << bit;
			CHECK(!opens(&in, q));
		}
		secure_direction_next(&in, &next);
		CHECK(!opens(&next, p));
		CHECK(!opens(&other, p));
		CHECK(opens(&in, p)); /* whether it has come before a window says */
	}
}

/* Against a table of all numbers. */
void windows_know_what_has_come(void)
{
	enum { NUMBERS = 40000 };
	uint8_t *come = calloc(NUMBERS, 1);
	struct secure_window w = { 0 };
	struct prng prng;
	uint64_t highest = 0;

	prng_seed(&prng, 4);
	for (unsigned i = 0; i < 400000; i++) {
		const uint64_t ahead = prng_below(&prng, 200) ? prng_below(&prng, 3) : prng_below(&prng, 5000);
		const uint64_t back = prng_below(&prng, prng_below(&prng, 4) ? 80 : 2 * SECURE_WINDOW);
		const uint64_t number = prng_below(&prng, 3) ? (highest > back ? highest - back : 0) : highest + ahead;
		bool may;

		if (number >= NUMBERS)
			break;
		may = number && !come[number] && number + SECURE_WINDOW > highest;
		if (!CHECK_UINT(secure_window_may(&w, number), may))
			break;
		CHECK_UINT(secure_window_number(&w, (uint32_t)number), number);
		if (!may)
			continue;
		secure_window_take(&w, number);
		come[number] = 1;
		highest = number > highest ? number : highest;
	}
	CHECK(highest > NUMBERS / 2);
	free(come);
	/* Over 32 bits, both ways, and not below 0. */
	w = (struct secure_window){ .last = UINT64_C(0x1fffffff0) };
	CHECK_UINT(secure_window_number(&w, 5), UINT64_C(0x200000005));
	CHECK_UINT(secure_window_number(&w, 0xffffff00), UINT64_C(0x1ffffff00));
	w = (struct secure_window){ .last = 3 };
	CHECK(!secure_window_may(&w, secure_window_number(&w, 0xfffffff0)));
	CHECK(!secure_window_may(&w, 0));
}
