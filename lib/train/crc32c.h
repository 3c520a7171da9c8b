/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC-32C (Castagnoli; RFC 3720, appendix B.4), also in the masked form of TensorFlow's records. It computes bit by
 * bit, so use it for small records. Pure functions. */
#ifndef TRAIN_CRC32C_H
#define TRAIN_CRC32C_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t crc32c(const void *data, size_t bytes)
{
	uint32_t crc = UINT32_MAX;

	for (const uint8_t *p = data; bytes; bytes--, p++) {
		crc ^= *p;
		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

/* The masked form: rotated, with a constant added, because a CRC over data that contains CRCs would be weak
 * (tensorflow/core/lib/hash/crc32c.h). */
static inline uint32_t crc32c_masked(const void *data, size_t bytes)
{
	const uint32_t crc = crc32c(data, bytes);

	return (crc >> 15 | crc << 17) + 0xa282ead8;
}

#endif
