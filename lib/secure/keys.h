/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Key files: who somebody is, and the secret that shows it. A line a key, of words with a space between:
 *
 *   starkey1 PRINCIPAL ROLE ID current|next SECRET CHECK
 *
 * SECRET are 64 hexadecimal digits, ID 8, and CHECK the CRC-32 of the line before it: a slip of an editor is noticed.
 * Blank lines and lines that begin with # are left out. A principal has a current key, a next one, or both, of one
 * role. A node's file has all principals that get in; a worker's or an administrator's has its own only.
 *
 * A file is read only if nobody but its owner can do so, and that is the reader or root. Everything that holds a secret
 * is memory of secure_alloc. Thread rule: what is loaded is constant; each list belongs to its caller.
 */
#ifndef SECURE_KEYS_H
#define SECURE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "secure/role.h"
#include "star_error.h"

enum secure_key_limits {
	SECURE_NAME_MAX = 63, /* of a principal: small letters, digits, and . _ - between them */
	SECURE_ID_BYTES = 8,
	SECURE_SECRET_BYTES = 32,
	SECURE_KEYS_MAX = 2048,
	SECURE_FILE_MAX = 1 << 20,
};

struct secure_key {
	char principal[SECURE_NAME_MAX + 1];
	enum secure_role role;
	char id[SECURE_ID_BYTES + 1];
	bool next; /* it is to take the place of the current one */
	uint8_t secret[SECURE_SECRET_BYTES];
};

/* In the order of the file. */
struct secure_keys {
	unsigned count;
	struct secure_key list[];
};

/* Text of a key file; name: what errors call it. Errors show no part of a line. */
struct secure_keys *secure_keys_parse(const char *name, const char *text, size_t bytes, struct star_error *err);

/*
 * Reads a key file. path "credential:NAME" is what systemd has given this service under that name (LoadCredential=).
 * Refused with what to do: a file that its group or others may read or anybody but its owner may write, or that belongs
 * to another user than this one or root. Mode 0400 is usual; 0600 is taken as well: whoever owns a file can make it
 * writable anyway. Of a credential systemd shows the group's bits, which say what its access control list allows, and
 * not the group: 0440 is taken there.
 */
struct secure_keys *secure_keys_load(const char *path, struct star_error *err);

/* keys may be NULL. */
void secure_keys_free(struct secure_keys *keys);

/* The key of a principal with that id, or NULL. */
const struct secure_key *secure_keys_find(const struct secure_keys *keys, const char *principal, const char *id);
/* Its current key, or the next one when that is all there is, or NULL. */
const struct secure_key *secure_keys_of(const struct secure_keys *keys, const char *principal);
/* The only principal of that role; NULL: none, or there are several, *count of them. */
const char *secure_keys_only(const struct secure_keys *keys, enum secure_role role, unsigned *count);
/* How many principals there are. */
unsigned secure_keys_principals(const struct secure_keys *keys);

/* One principal's keys, the current one first; NULL with -ENOENT. */
struct secure_keys *secure_keys_select(const struct secure_keys *keys, const char *principal, struct star_error *err);

/* A list with room for one key more, which is in it already, with a secret and an id by chance. -EEXIST, -EINVAL with a
 * message. role SECURE_ROLES: as the principal's other key has it. */
struct secure_keys *secure_keys_add(const struct secure_keys *keys, const char *principal, enum secure_role role,
				    bool next, struct star_error *err);
/* The list without a principal's keys, or without its key of that id (NULL: all). -ENOENT. */
struct secure_keys *secure_keys_without(const struct secure_keys *keys, const char *principal, const char *id,
					struct star_error *err);
/* The list in which the principal's next key has become its current one. -ENOENT. */
struct secure_keys *secure_keys_promote(const struct secure_keys *keys, const char *principal, struct star_error *err);

/* Writes a file of mode 0400, whole or not at all, over what is there; with fresh it must not be there. */
int secure_keys_write(const char *path, const struct secure_keys *keys, bool fresh, struct star_error *err);

bool secure_name_is_good(const char *name);

#endif
