/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts a program's definition of a table or variable (struct star_spec) to the catalogue's, with checks and
 * defaults. Pure functions.
 */
#ifndef CLIENT_SPEC_H
#define CLIENT_SPEC_H

#include "client/star.h"
#include "wire/object.h"

/* kind: OBJECT_TABLE or OBJECT_VARIABLE. 0, or -EINVAL with err, also if from is NULL. */
int client_spec_of(struct object_spec *spec, const struct star_spec *from, unsigned kind, struct star_error *err);

/* The same for the name only. */
int client_spec_name(struct object_spec *spec, const char *name, struct star_error *err);

#endif
