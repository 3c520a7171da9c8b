/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files that read and write key files. */
#ifndef SECURE_KEYS_TEXT_H
#define SECURE_KEYS_TEXT_H

#include "secure/keys.h"

/* An empty list with room for this many. */
struct secure_keys *secure_keys_alloc(unsigned count, struct star_error *err);
/* Whether the key is compatible with those of the list; otherwise -EINVAL or -EEXIST, with a message that contains no
 * secret. */
int secure_keys_check_new(const struct secure_keys *keys, const struct secure_key *key, struct star_error *err);

enum { KEYS_LINE_MAX = 8 + 1 + SECURE_NAME_MAX + 1 + 8 + 1 + SECURE_ID_BYTES + 1 + 7 + 1 + 64 + 1 + 8 + 2 };
/* Writes a line with its newline; returns its length. */
size_t secure_keys_write_line(const struct secure_key *key, char line[static KEYS_LINE_MAX]);

#endif
