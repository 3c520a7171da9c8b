/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program says of a table or variable (struct star_spec), as what it is: with defaults filled in, and checked.
 * Pure functions.
 */
#ifndef CLIENT_SPEC_H
#define CLIENT_SPEC_H

#include "client/star.h"
#include "wire/object.h"

/* kind: OBJECT_TABLE or OBJECT_VARIABLE. 0, or -EINVAL with a message; from may be NULL, which is such an error. */
int client_spec_of(struct object_spec *spec, const struct star_spec *from, unsigned kind, struct star_error *err);

/* Its name alone. */
int client_spec_name(struct object_spec *spec, const char *name, struct star_error *err);

#endif
