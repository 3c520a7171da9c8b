/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Key files: principals and their secrets. Each line is a key, with words separated by a space:
 *
 *   starkey1 PRINCIPAL ROLE ID current|next SECRET CHECK
 *
 * SECRET has 64 hexadecimal digits, ID 8, and CHECK is the CRC-32 of the text before it, to detect editing mistakes.
 * Blank lines and lines that begin with # are ignored. A principal has a current key, a next one, or both, with the
 * same role. A node's file has all principals that are admitted; a worker's or an administrator's has only its own.
 *
 * A file is accepted only if nobody but its owner can read it, and the owner is the reader or root. Memory with secrets
 * is allocated by secure_alloc. Threads: a list is constant, and belongs to its caller.
 */
#ifndef SECURE_KEYS_H
#define SECURE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "secure/role.h"
#include "star_error.h"

enum secure_key_limits {
	SECURE_NAME_MAX = 63, /* of a principal: lower-case letters, digits, and . _ - between them */
	SECURE_ID_BYTES = 8,
	SECURE_SECRET_BYTES = 32,
	SECURE_KEYS_MAX = 2048,
	SECURE_FILE_MAX = 1 << 20,
};

struct secure_key {
	char principal[SECURE_NAME_MAX + 1];
	enum secure_role role;
	char id[SECURE_ID_BYTES + 1];
	bool next; /* it will replace the current one */
	uint8_t secret[SECURE_SECRET_BYTES];
};

/* In the order of the file. */
struct secure_keys {
	unsigned count;
	struct secure_key list[];
};

/* Parses the text of a key file. name: for error messages, which contain no part of a line. NULL with err. */
struct secure_keys *secure_keys_parse(const char *name, const char *text, size_t bytes, struct star_error *err);

/*
 * Reads a key file. path "credential:NAME" is the file that systemd passes to this service under that name
 * (LoadCredential=). NULL with err, which says what to do, if group or others may read the file, or anybody but its
 * owner may write it, or it belongs to a user other than this one or root. The usual mode is 0400; 0600 is accepted
 * too, because the owner could make the file writable anyway. For a credential 0440 is accepted, because there the
 * group's bits show what its access control list allows.
 */
struct secure_keys *secure_keys_load(const char *path, struct star_error *err);

/* keys may be NULL. */
void secure_keys_free(struct secure_keys *keys);

/* The key of a principal with that id, or NULL. */
const struct secure_key *secure_keys_find(const struct secure_keys *keys, const char *principal, const char *id);
/* A principal's current key; the next one if it has no other; or NULL. */
const struct secure_key *secure_keys_of(const struct secure_keys *keys, const char *principal);
/* The only principal of that role; NULL: none, or there are several, *count of them. */
const char *secure_keys_only(const struct secure_keys *keys, enum secure_role role, unsigned *count);
/* How many principals there are. */
unsigned secure_keys_principals(const struct secure_keys *keys);

/* One principal's keys, the current one first; NULL with -ENOENT. */
struct secure_keys *secure_keys_select(const struct secure_keys *keys, const char *principal, struct star_error *err);

/* A copy of the list with one more key, which has a random secret and id. role SECURE_ROLES: that of the principal's
 * other key. NULL with err: -EEXIST, -EINVAL. */
struct secure_keys *secure_keys_add(const struct secure_keys *keys, const char *principal, enum secure_role role,
				    bool next, struct star_error *err);
/* A copy of the list without a principal's key with that id (NULL: all its keys). NULL with err: -ENOENT. */
struct secure_keys *secure_keys_without(const struct secure_keys *keys, const char *principal, const char *id,
					struct star_error *err);
/* A copy of the list in which the principal's next key is the current one. NULL with err: -ENOENT. */
struct secure_keys *secure_keys_promote(const struct secure_keys *keys, const char *principal, struct star_error *err);

/* Writes a file with mode 0400, atomically. An existing file is replaced; with fresh it must not exist. 0 or a negative
 * errno. */
int secure_keys_write(const char *path, const struct secure_keys *keys, bool fresh, struct star_error *err);

bool secure_name_is_good(const char *name);

#endif
