/* SPDX-License-Identifier: BSD-3-Clause */
/* What records and packets are compared with. */
#ifndef TESTS_SECURE_OPENSSL_H
#define TESTS_SECURE_OPENSSL_H

#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"
#include "secure/seal.h"

/* What OpenSSL makes of a record or packet: data is sealed in place, or only guarded. */
void openssl_seal(const struct secure_direction *d, uint64_t number, const uint8_t *header, int header_bytes,
		  uint8_t *data, int bytes, uint8_t tag[SECURE_TAG_BYTES]);

/* Random bytes. */
static inline void fill(struct prng *prng, uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)prng_next(prng);
}

#endif
