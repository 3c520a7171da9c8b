/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A key file. The first byte says whether its lines are given the check that belongs to them, so that what is behind
 * that is reached. What is accepted is written as a file that means the same, and its changes keep its rules. The same
 * bytes are read as a file of rights and quotas, too.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "base/crc32.h"
#include "secure/keys.h"
#include "secure/keys_text.h"
#include "secure/rights.h"

enum { TEXT_MAX = 1 << 16 };

/* Each line, and its check behind it. */
static size_t add_checks(const uint8_t *data, size_t bytes, char *text)
{
	size_t used = 0;

	for (size_t at = 0; at < bytes && used + 512 < TEXT_MAX;) {
		const uint8_t *end = memchr(data + at, '\n', bytes - at);
		size_t length = end ? (size_t)(end - data) - at : bytes - at, taken = length < 400 ? length : 400;

		memcpy(text + used, data + at, taken);
		used += taken;
		used += (size_t)snprintf(text + used, 16, " %08x\n", base_crc32(text + used - taken, taken));
		at += length + 1;
	}
	return used;
}

static void check_changes(const struct secure_keys *keys)
{
	const struct secure_key *first = &keys->list[0];
	struct secure_keys *own = secure_keys_select(keys, first->principal, NULL), *left;

	FUZZ_CHECK(own && own->count >= 1 && own->count <= 2, "not 1 or 2 keys of a principal");
	FUZZ_CHECK(secure_keys_of(keys, first->principal) && secure_keys_find(keys, first->principal, first->id),
		   "a key is not found");
	secure_keys_free(own);
	left = secure_keys_without(keys, first->principal, NULL, NULL);
	FUZZ_CHECK(left && !secure_keys_of(left, first->principal), "it is still there");
	secure_keys_free(left);
	left = secure_keys_promote(keys, first->principal, NULL);
	FUZZ_CHECK(!left || (secure_keys_of(left, first->principal) && !secure_keys_of(left, first->principal)->next),
		   "it has no current key");
	secure_keys_free(left);
}

static void read_rights(const uint8_t *data, size_t bytes)
{
	struct secure_rights *rights = secure_rights_parse("rights", (const char *)data, bytes, NULL);
	struct secure_quotas quotas;

	secure_rights_quotas(rights, "job1", &quotas);
	for (unsigned q = 0; q < SECURE_QUOTAS; q++)
		FUZZ_CHECK(quotas.max[q] <= UINT64_C(1) << 50, "a quota is over its bound");
	FUZZ_CHECK((secure_rights_of(rights, "job1", SECURE_READER, "x") & ~SECURE_PULL) == 0, "a reader may change");
	secure_rights_free(rights);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static char text[TEXT_MAX];
	struct star_error err = { 0 };
	struct secure_keys *keys, *again;
	size_t used = 0;

	if (bytes == 0)
		return 0;
	read_rights(data + 1, bytes - 1);
	if (data[0] & 1)
		used = add_checks(data + 1, bytes - 1, text);
	else
		memcpy(text, data + 1, used = bytes - 1 < TEXT_MAX ? bytes - 1 : TEXT_MAX);
	keys = secure_keys_parse("input", text, used, &err);
	if (!keys) {
		FUZZ_CHECK(err.code && err.text[0], "refused without a message");
		return 0;
	}
	used = 0;
	for (unsigned i = 0; i < keys->count; i++)
		used += secure_keys_write_line(&keys->list[i], text + used);
	again = secure_keys_parse("output", text, used, &err);
	FUZZ_CHECK(again && again->count == keys->count &&
			   !memcmp(again->list, keys->list, keys->count * sizeof(keys->list[0])),
		   "it reads back otherwise: %s", err.text);
	check_changes(keys);
	secure_keys_free(again);
	secure_keys_free(keys);
	return 0;
}
