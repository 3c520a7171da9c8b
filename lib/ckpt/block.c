/* SPDX-License-Identifier: BSD-3-Clause */
/* Checksums of headers, blocks and files. */
#include <stddef.h>

#include "base/crc32.h"
#include "ckpt/internal.h"

uint32_t ckpt_header_checksum(const struct checkpoint_header *header)
{
	struct checkpoint_header copy = *header;

	copy.checksum = 0;
	return base_crc32(&copy, sizeof(copy));
}

uint32_t ckpt_block_checksum(const void *block, uint32_t payload_bytes)
{
	struct checkpoint_block header = *(const struct checkpoint_block *)block;

	header.checksum = 0;
	return base_crc32_combine(base_crc32(&header, sizeof(header)),
				  base_crc32((const uint8_t *)block + sizeof(header), payload_bytes), payload_bytes);
}

uint32_t ckpt_add_checksum(uint32_t sum, uint32_t checksum)
{
	return base_crc32_combine(sum, base_crc32(&checksum, sizeof(checksum)), sizeof(checksum));
}
