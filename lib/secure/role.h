/* SPDX-License-Identifier: BSD-3-Clause */
/* Roles of principals (docs/security.rst). Pure functions. */
#ifndef SECURE_ROLE_H
#define SECURE_ROLE_H

#include <stdint.h>

enum secure_role {
	SECURE_NODE,	 /* a PS task that calls the others */
	SECURE_WORKER,	 /* trains: creates tables, starts checkpoints */
	SECURE_READER,	 /* reads only */
	SECURE_OPERATOR, /* operates a cluster, without being able to lose data */
	SECURE_ADMIN,	 /* everything but the calls between nodes */
	SECURE_ROLES,
};

/* A set of roles has a bit for each. */
#define SECURE_BIT(role) (1u << (role))

const char *secure_role_name(enum secure_role role);
/* Parses a name; SECURE_ROLES: there is no such role. */
enum secure_role secure_role_from(const char *name);
/* Writes the roles of a set, as in "node, worker", into text. Returns text. */
enum { SECURE_ROLES_TEXT = 64 };
const char *secure_roles_text(unsigned roles, char text[static SECURE_ROLES_TEXT]);

#endif
