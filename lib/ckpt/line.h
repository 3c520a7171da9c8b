/* SPDX-License-Identifier: BSD-3-Clause */
/* One of a table's JSON lines (ckpt/lines.h): of a checkpoint, or of a running node. Pure, but for the stream. */
#ifndef CKPT_LINE_H
#define CKPT_LINE_H

#include <jansson.h>
#include <stdio.h>

#include "ckpt/row.h"
#include "star_error.h"
#include "wire/checkpoint.h"

/* The first: the table's definition without its id, and its figures. 0 or -EIO. */
int ckpt_line_table(FILE *out, const struct object_spec *spec, uint32_t partitions,
		    const struct checkpoint_table *figures);

/* One for a row, as a run has it; aged: looks that came after those that its `used` counts back from. */
void ckpt_line_row(FILE *out, const struct object_spec *spec, const struct ckpt_row_shape *shape, uint32_t aged,
		   const uint8_t *row);
/* What it begins with: {"NAME": key. */
void ckpt_line_key(FILE *out, const char *name, uint64_t key);

/* An array of n elements of a type: "NAME": [...]. And back: 0, or -EINVAL with the member's name. */
void ckpt_line_elements(FILE *out, const char *name, unsigned dtype, const uint8_t *from, uint32_t n);
int ckpt_line_read_elements(const json_t *json, const char *name, unsigned dtype, uint8_t *to, uint32_t n,
			    struct star_error *err);

/* A row's key; a negative one k is 2^64 + k. 0, or -EINVAL with the member's name. */
int ckpt_line_read_key(const json_t *json, const char *name, uint64_t *key, struct star_error *err);

/* The values of a row's line, as the type stores them: dtype_row_bytes. The same errors. */
int ckpt_line_read_values(const json_t *json, const struct object_spec *spec, uint8_t *values, struct star_error *err);

/* The members that a row's line of this table has; ended by NULL. */
enum { CKPT_LINE_MEMBERS = 16 };
void ckpt_line_members(const struct object_spec *spec, const struct ckpt_row_shape *shape,
		       const char *names[static CKPT_LINE_MEMBERS]);

#endif
