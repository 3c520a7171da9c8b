/* SPDX-License-Identifier: BSD-3-Clause */
/* A manifest's entry of a data file as JSON; nodes also send it to the node that commits. Pure functions. */
#ifndef CKPT_MANIFEST_H
#define CKPT_MANIFEST_H

#include <jansson.h>

#include "ckpt/ckpt.h"

/* Returns a new reference; NULL: out of memory. */
json_t *ckpt_file_to_json(const struct ckpt_file *file);

/* Checks every member. 0 or -EINVAL with the member's name. */
int ckpt_file_from_json(const json_t *json, struct ckpt_file *file, struct star_error *err);

#endif
