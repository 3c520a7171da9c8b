/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON files with a checksum: the last member, alone on the last line but one, is the CRC-32 of all bytes before the
 * comma that precedes it (docs/checkpoints.rst, "The manifest"). Pure functions.
 */
#ifndef JSONRPC_SUMMED_H
#define JSONRPC_SUMMED_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "star_error.h"

/* The text of an object, which must have members. flags: for json_dumps. NULL: no memory, or a string in it is not
 * UTF-8. The caller frees it. */
char *jsonrpc_summed_text(const json_t *json, size_t flags, size_t *bytes);

/* Parses and verifies it. Returns the object without that member; NULL with err, whose message is meant to follow the
 * file's name. */
json_t *jsonrpc_summed_parse(const char *text, size_t bytes, struct star_error *err);

/* The checksum of such a text. */
uint32_t jsonrpc_summed_sum(const char *text, size_t bytes);

/*
 * Lines may be appended to such a text, each with a checksum of its own, for long data that changes often. Returns
 * where the text itself ends; `bytes` if its end is missing, which jsonrpc_summed_parse then reports.
 */
size_t jsonrpc_summed_end(const char *text, size_t bytes);
/* Such a line, with its newline. NULL as above. The caller frees it. */
char *jsonrpc_summed_line(const json_t *json, size_t *bytes);
/* Parses the line at *at, and moves *at to the next one. NULL: if err's code is 0 there is none, except perhaps an
 * incomplete one; otherwise the line is damaged. */
json_t *jsonrpc_summed_next(const char *text, size_t bytes, size_t *at, struct star_error *err);

#endif
