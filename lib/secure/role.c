/* SPDX-License-Identifier: BSD-3-Clause */
#include "secure/role.h"

#include <stdio.h>
#include <string.h>

static const char *const names[SECURE_ROLES] = { "node", "worker", "reader", "operator", "admin" };

const char *secure_role_name(enum secure_role role)
{
	return (unsigned)role < SECURE_ROLES ? names[role] : "none";
}

enum secure_role secure_role_from(const char *name)
{
	unsigned role = 0;

	while (role < SECURE_ROLES && strcmp(names[role], name) != 0)
		role++;
	return role;
}

const char *secure_roles_text(unsigned roles, char text[static SECURE_ROLES_TEXT])
{
	int used = 0;

	text[0] = 0;
	for (unsigned role = 0; role < SECURE_ROLES; role++)
		if (roles & SECURE_BIT(role))
			used += snprintf(text + used, (size_t)(SECURE_ROLES_TEXT - used), "%s%s", used ? ", " : "",
					 names[role]);
	return used ? text : "nobody";
}
