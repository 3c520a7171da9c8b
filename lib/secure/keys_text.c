/* SPDX-License-Identifier: BSD-3-Clause */
#include "secure/keys_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32.h"
#include "secure/memory.h"

#define MARK "starkey1"

enum { WORDS = 7, WORD_MAX = 64 };

/* Copies of a line's words; they contain a secret. */
struct words {
	char text[WORDS][WORD_MAX + 1];
	char line[KEYS_LINE_MAX];
};

size_t secure_keys_write_line(const struct secure_key *key, char line[static KEYS_LINE_MAX])
{
	size_t used = (size_t)snprintf(line, KEYS_LINE_MAX, MARK " %s %s %s %s ", key->principal,
				       secure_role_name(key->role), key->id, key->next ? "next" : "current");

	for (unsigned i = 0; i < SECURE_SECRET_BYTES; i++)
		used += (size_t)snprintf(line + used, KEYS_LINE_MAX - used, "%02x", key->secret[i]);
	return used + (size_t)snprintf(line + used, KEYS_LINE_MAX - used, " %08x\n", base_crc32(line, used));
}

/* Splits a line into exactly WORDS words, separated by one space each. */
static bool split_words(const char *line, size_t bytes, struct words *words)
{
	unsigned count = 0;
	size_t at = 0;

	for (; count < WORDS; count++) {
		const char *space = memchr(line + at, ' ', bytes - at);
		const size_t length = space ? (size_t)(space - line) - at : bytes - at;

		if (length == 0 || length > WORD_MAX || memchr(line + at, 0, length))
			return false;
		memcpy(words->text[count], line + at, length);
		words->text[count][length] = 0;
		at += length;
		if (!space)
			break;
		at++;
	}
	return count == WORDS - 1;
}

static bool take_digits(const char *text, uint8_t *to, size_t bytes)
{
	static const char digits[] = "0123456789abcdef";

	if (strlen(text) != 2 * bytes || strspn(text, digits) != 2 * bytes)
		return false;
	for (size_t i = 0; i < bytes; i++)
		to[i] = (uint8_t)((strchr(digits, text[2 * i]) - digits) << 4 |
				  (strchr(digits, text[2 * i + 1]) - digits));
	return true;
}

static const char *take_line(const char *line, size_t bytes, struct words *words, struct secure_key *key)
{
	static const uint8_t zeros[SECURE_SECRET_BYTES];
	uint8_t id[SECURE_ID_BYTES / 2];

	if (!split_words(line, bytes, words) || strcmp(words->text[0], MARK) != 0)
		return "it is not a key: \"" MARK " PRINCIPAL ROLE ID current|next SECRET CHECK\" is needed";
	if (!secure_name_is_good(words->text[1]))
		return "the principal has a bad name";
	key->role = secure_role_from(words->text[2]);
	if (key->role == SECURE_ROLES)
		return "the role must be node, worker, reader, operator or admin";
	if (!take_digits(words->text[3], id, sizeof(id)))
		return "the id must have 8 hexadecimal digits";
	key->next = strcmp(words->text[4], "next") == 0;
	if (!key->next && strcmp(words->text[4], "current") != 0)
		return "the key must be \"current\" or \"next\"";
	if (!take_digits(words->text[5], key->secret, sizeof(key->secret)))
		return "the secret must have 64 hexadecimal digits";
	if (memcmp(key->secret, zeros, sizeof(zeros)) == 0)
		return "the secret is all zeroes";
	strcpy(key->principal, words->text[1]);
	strcpy(key->id, words->text[3]);
	/* A line is accepted only in the form in which it would be written. */
	if (secure_keys_write_line(key, words->line) != bytes + 1 || memcmp(words->line, line, bytes) != 0)
		return "its checksum does not match: a part of it was lost or changed";
	return NULL;
}

static unsigned count_lines(const char *text, size_t bytes)
{
	unsigned count = 1;

	for (size_t i = 0; i < bytes; i++)
		count += text[i] == '\n';
	return count;
}

/* Adds a line to the list; 0, or an error code with a message. */
static int add_line(struct secure_keys *keys, const char *line, size_t bytes, struct words *words,
		    struct star_error *err)
{
	struct secure_key *key = &keys->list[keys->count];
	const char *why;
	int rc;

	if (keys->count == SECURE_KEYS_MAX)
		return star_error_set(err, -E2BIG, "there are more than %d keys", SECURE_KEYS_MAX);
	why = take_line(line, bytes, words, key);
	rc = why ? star_error_set(err, -EINVAL, "%s", why) : secure_keys_check_new(keys, key, err);
	if (rc == 0)
		keys->count++;
	return rc;
}

struct secure_keys *secure_keys_parse(const char *name, const char *text, size_t bytes, struct star_error *err)
{
	const unsigned lines = count_lines(text, bytes), most = lines < SECURE_KEYS_MAX ? lines : SECURE_KEYS_MAX;
	struct secure_keys *keys = secure_keys_alloc(most + 1, err);
	struct words *words = secure_alloc(sizeof(*words));
	struct star_error why = { 0 };
	unsigned number = 0;
	int rc = keys && words ? 0 : star_error_set(err, -ENOMEM, "out of memory for keys");

	for (size_t at = 0; rc == 0 && at < bytes;) {
		const char *end = memchr(text + at, '\n', bytes - at);
		const size_t length = end ? (size_t)(end - text) - at : bytes - at;

		number++;
		if (length && text[at] != '#')
			rc = add_line(keys, text + at, length, words, &why);
		at += length + 1;
	}
	if (rc == 0 && keys->count == 0)
		rc = star_error_set(err, -EINVAL, "%.200s has no keys: `starctl key create` makes one", name);
	else if (why.code)
		star_error_set(err, why.code, "%.200s:%u: %.200s", name, number, why.text);
	secure_free(words);
	if (rc == 0)
		return keys;
	secure_keys_free(keys);
	return NULL;
}
