/* SPDX-License-Identifier: BSD-3-Clause */
/* What a principal may be. Pure functions. */
#ifndef SECURE_ROLE_H
#define SECURE_ROLE_H

#include <stdint.h>

enum secure_role {
	SECURE_NODE,	 /* a PS task, towards the others */
	SECURE_WORKER,	 /* trains: makes tables, has checkpoints written */
	SECURE_READER,	 /* looks, and changes nothing */
	SECURE_OPERATOR, /* keeps a cluster running, and loses nothing of it */
	SECURE_ADMIN,	 /* everything but what nodes tell each other */
	SECURE_ROLES,
};

/* A set of roles is a bit for each. */
#define SECURE_BIT(role) (1u << (role))

const char *secure_role_name(enum secure_role role);
/* SECURE_ROLES: there is no such role. */
enum secure_role secure_role_from(const char *name);
/* "node, worker": the roles of a set, into text. Returns text. */
enum { SECURE_ROLES_TEXT = 64 };
const char *secure_roles_text(unsigned roles, char text[static SECURE_ROLES_TEXT]);

#endif
