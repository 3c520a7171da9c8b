/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and checksums, shared by writer and reader. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32.h"
#include "journal/writer.h"

void journal_segment_name(char name[static JOURNAL_NAME_MAX], uint32_t life, uint32_t reactor, uint32_t number)
{
	snprintf(name, JOURNAL_NAME_MAX, "%08" PRIu32 "-%03" PRIu32 "-%08" PRIu32 ".log", life, reactor, number);
}

bool journal_segment_parse(const char *name, uint32_t *life, uint32_t *reactor, uint32_t *number)
{
	char again[JOURNAL_NAME_MAX];

	if (strlen(name) >= JOURNAL_NAME_MAX ||
	    sscanf(name, "%" SCNu32 "-%" SCNu32 "-%" SCNu32 ".log", life, reactor, number) != 3)
		return false;
	journal_segment_name(again, *life, *reactor, *number);
	return strcmp(name, again) == 0 && *life && *life < UINT32_MAX && *reactor < WIRE_REACTORS_MAX && *number;
}

void journal_whole_name(char name[static JOURNAL_NAME_MAX], uint32_t life)
{
	snprintf(name, JOURNAL_NAME_MAX, "%08" PRIu32 ".whole", life);
}

uint32_t journal_segment_checksum(const struct journal_segment *segment)
{
	struct journal_segment copy = *segment;

	copy.checksum = 0;
	return base_crc32(&copy, sizeof(copy));
}

uint32_t journal_block_checksum(const struct journal_block *block, const void *payload)
{
	struct journal_block copy = *block;

	copy.checksum = 0;
	return base_crc32_combine(base_crc32(&copy, sizeof(copy)), base_crc32(payload, block->bytes), block->bytes);
}
