/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rights to tables on the data network, and quotas: a file with lines "allow PRINCIPAL VERBS PREFIX" and "limit
 * PRINCIPAL QUOTA=NUMBER..." (docs/security.rst). Constant once it is read, and so thread-safe.
 */
#ifndef SECURE_RIGHTS_H
#define SECURE_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "secure/quota.h"
#include "secure/role.h"
#include "star_error.h"

enum secure_right {
	SECURE_PULL = 1 << 0,
	SECURE_CREATE = 1 << 1, /* missing rows */
	SECURE_PUSH = 1 << 2,
	SECURE_ASSIGN = 1 << 3,
	SECURE_DELETE = 1 << 4,
	SECURE_COMMIT = 1 << 5,
	SECURE_RIGHTS = (1 << 6) - 1, /* all of them */
};

struct secure_rights;

/* Reads the file, which only its owner and root may be able to change. NULL with err. */
struct secure_rights *secure_rights_load(const char *path, struct star_error *err);
/* The same from memory. path: for error messages. */
struct secure_rights *secure_rights_parse(const char *path, const char *text, size_t bytes, struct star_error *err);
void secure_rights_free(struct secure_rights *rights); /* may be NULL */

/* What a principal may do with a table: a set of enum secure_right. rights NULL: there is no such file; then it may do
 * all that its role allows, and a reader nothing. */
uint8_t secure_rights_of(const struct secure_rights *rights, const char *principal, enum secure_role role,
			 const char *table);
/* Whether a principal has any right to some table. */
bool secure_rights_any(const struct secure_rights *rights, const char *principal, enum secure_role role);

/* A principal's quotas: each is its own, or else that of *. rights NULL: none. Returns whether it has any. */
bool secure_rights_quotas(const struct secure_rights *rights, const char *principal, struct secure_quotas *quotas);

/* The right with a name such as "pull"; 0: there is none. */
uint8_t secure_right_from(const char *name);
/* The name of the first right in a set. */
const char *secure_right_name(uint8_t set);

#endif
