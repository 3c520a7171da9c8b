/* SPDX-License-Identifier: BSD-3-Clause */
/* Checksums of headers, blocks and files. */
#include <stddef.h>

#include "base/crc32.h"
#include "ckpt/internal.h"

uint32_t ckpt_header_checksum(const struct checkpoint_header *header)
{
	struct checkpoint_header copy = *header;

	copy.checksum = 0;
	return crc32(&copy, sizeof(copy));
}

/* The field is left at 0. */
uint32_t ckpt_block_checksum(void *block, uint32_t payload_bytes)
{
	((struct checkpoint_block *)block)->checksum = 0;
	return crc32(block, sizeof(struct checkpoint_block) + payload_bytes);
}

uint32_t ckpt_add_checksum(uint32_t sum, uint32_t checksum)
{
	return crc32_combine(sum, crc32(&checksum, sizeof(checksum)), sizeof(checksum));
}
