/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-32 of the Ethernet FCS (reflected 0x04c11db7, the one of zlib), by ipsec-mb; below 256 bytes by code of our own,
 * which is faster there. Thread-safe: what it needs is set up before main and is constant afterwards.
 */
#ifndef BASE_CRC32_H
#define BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

uint32_t base_crc32(const void *data, size_t bytes);

/* The CRC of a||b from those of a and b and b's length: a reply in several segments needs no contiguous copy. */
uint32_t base_crc32_combine(uint32_t crc_a, uint32_t crc_b, size_t bytes_b);

/* The same of many pieces, nearly all of which are as long as the one before: what that length takes is worked out
 * once. Begins with zeros. */
struct crc32_length {
	size_t bytes;
	uint32_t shift;
};
uint32_t base_crc32_join(struct crc32_length *last, uint32_t crc_a, uint32_t crc_b, size_t bytes_b);

#endif
