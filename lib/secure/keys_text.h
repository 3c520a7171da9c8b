/* SPDX-License-Identifier: BSD-3-Clause */
/* What the sources of key files share. */
#ifndef SECURE_KEYS_TEXT_H
#define SECURE_KEYS_TEXT_H

#include "secure/keys.h"

/* An empty list with room for this many. */
struct secure_keys *secure_keys_alloc(unsigned count, struct star_error *err);
/* Whether the key may stand beside those of the list; -EINVAL or -EEXIST with a message without a secret. */
int secure_keys_check_new(const struct secure_keys *keys, const struct secure_key *key, struct star_error *err);

enum { KEYS_LINE_MAX = 8 + 1 + SECURE_NAME_MAX + 1 + 8 + 1 + SECURE_ID_BYTES + 1 + 7 + 1 + 64 + 1 + 8 + 2 };
/* A line with its newline; its bytes. */
size_t secure_keys_write_line(const struct secure_key *key, char line[static KEYS_LINE_MAX]);

#endif
