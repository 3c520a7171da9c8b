/* SPDX-License-Identifier: BSD-3-Clause */
/* A single JSON line of a table (ckpt/lines.h), for rows of a checkpoint or of a running node. No state but the
 * stream. */
#ifndef CKPT_LINE_H
#define CKPT_LINE_H

#include <jansson.h>
#include <stdio.h>

#include "ckpt/row.h"
#include "star_error.h"
#include "wire/checkpoint.h"

/* Writes the first line: the table's definition without its id, and its figures. 0 or -EIO. */
int ckpt_line_table(FILE *out, const struct object_spec *spec, uint32_t partitions,
		    const struct checkpoint_table *figures);

/* Writes a row's line. row: as in a record run. aged: look-ups since those that the row's `used` counts back from. */
void ckpt_line_row(FILE *out, const struct object_spec *spec, const struct ckpt_row_shape *shape, uint32_t aged,
		   const uint8_t *row);
/* Writes the beginning of a line: {"NAME": key. */
void ckpt_line_key(FILE *out, const char *name, uint64_t key);

/* Writes and reads an array of n elements of a type: "NAME": [...]. Reading: 0, or -EINVAL with the member's name. */
void ckpt_line_elements(FILE *out, const char *name, unsigned dtype, const uint8_t *from, uint32_t n);
int ckpt_line_read_elements(const json_t *json, const char *name, unsigned dtype, uint8_t *to, uint32_t n,
			    struct star_error *err);

/* Reads a row's key; a negative number k means 2^64 + k. 0, or -EINVAL with the member's name. */
int ckpt_line_read_key(const json_t *json, const char *name, uint64_t *key, struct star_error *err);

/* Reads the values of a row's line in the table's stored type, dtype_row_bytes. 0, or -EINVAL with the member's
 * name. */
int ckpt_line_read_values(const json_t *json, const struct object_spec *spec, uint8_t *values, struct star_error *err);

/* Lists the members that a row's line of this table has, and NULL after the last. */
enum { CKPT_LINE_MEMBERS = 16 };
void ckpt_line_members(const struct object_spec *spec, const struct ckpt_row_shape *shape,
		       const char *names[static CKPT_LINE_MEMBERS]);

#endif
