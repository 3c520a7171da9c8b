/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/hash.h"
#include "client/client.h"

uint64_t star_key(uint32_t column, const char *text)
{
	return hash_word(column, text);
}
